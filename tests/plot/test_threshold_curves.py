"""Decision curves, Murphy diagrams, risk gaps, and the plane of miscalibration and discrimination."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.stats import multinomial
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from sklearn_calib import metrics
from sklearn_calib.inference import confidence_interval, dominance_test
from sklearn_calib.plot import DecisionCurveDisplay, DecisionDisplay, MurphyDisplay, ScoreDecompositionDisplay
from tests._references import decision_gap
from tests._samples import simulated
from tests._tiers import thorough
from tests.plot._legend import legend_texts

plt = pytest.importorskip("matplotlib.pyplot")
THREE = [0.2, 0.5, 0.7]
CURVES = [DecisionCurveDisplay, MurphyDisplay, DecisionDisplay]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    return (rng.random(300) < p).astype(int), p, rng.integers(0, 4, 300)


@pytest.mark.parametrize("weights", [None, "whole", "any"])
def test_decision_curve_is_the_net_benefit(data, weights):
    y, p, w = data
    w = {None: None, "whole": w, "any": w / 3}[weights]
    display = DecisionCurveDisplay.from_predictions(y, p, sample_weight=w, show_legend=False)
    tau, value = display.lines_[0].get_data()
    np.testing.assert_allclose(tau, np.arange(1, 100) / 100)
    np.testing.assert_allclose(value, [metrics.net_benefit(y, p, threshold=t, sample_weight=w) for t in tau])
    treat_all = next(line for line in display.ax_.lines if line.get_label() == "treat all")
    t, height = (each[200] for each in treat_all.get_data())
    everyone = metrics.net_benefit(y, np.ones(300) / 2 + 0.4, threshold=t, sample_weight=w)
    assert height == pytest.approx(everyone)


@pytest.mark.parametrize("band", ["pointwise", "simultaneous"])
@pytest.mark.parametrize("n", [4, 8, 20])
def test_bands_stay_in_the_range_of_their_values(band, n):
    y, p = np.arange(n) % 4 == 0, np.linspace(0.02, 0.9, n)[::-1]
    for display in (DecisionCurveDisplay, MurphyDisplay):
        (curve,) = display.from_predictions(y, p, band=band, show_legend=False).curves.values()
        t = curve.thresholds
        benefit = display is DecisionCurveDisplay
        least, most = (-t / (1.0 - t), 1.0) if benefit else (0.0, 2.0 * np.maximum(t, 1.0 - t))
        assert (least <= curve.lower).all()
        assert (curve.lower <= curve.value).all()
        assert (curve.value <= curve.upper).all()
        assert (curve.upper <= most).all()


@pytest.mark.parametrize("display", CURVES)
def test_the_axis_has_the_range_of_the_thresholds(data, display):
    y, p, _ = data

    def shown(y, p, **params):
        drawn = display.from_predictions(y, p, band=None, show_legend=False, **params)
        left, right = drawn.ax_.get_xlim()
        x, height = drawn.lines_[0].get_data()
        low, high = drawn.ax_.get_ylim()
        # curves below 0 are shown as far as those above
        assert low <= max(height.min(), -high)
        assert (height <= high).all()
        assert high <= 1.5 * height.max()
        return left, right, x

    left, right, _ = shown(y, p, thresholds=[0.02, 0.05, 0.1])
    assert (left, right) == pytest.approx((0.02 - 0.02 * 0.08, 0.1 + 0.02 * 0.08))
    # predictions below 1/2, or above: by default, thresholds between them and 0, or 1, without one in 200
    end = 0.1 * np.sort(p)[-2]
    rare = (np.random.default_rng(1).random(300) < 0.1 * p).astype(int)
    for outcome, given, low, high in ((rare, 0.1 * p, 0.0, end), (1 - rare, 1 - 0.1 * p, 1 - end, 1.0)):
        left, right, x = shown(outcome, {"a": given, "b": given})
        np.testing.assert_allclose(x, low + (high - low) * np.arange(1, 100) / 100)
        assert low - 0.01 < left < x[0] < x[-1] < right < high + 0.01
    # two displays: the range of both
    given = {"n_resamples": 39, "show_legend": False}
    ax = display.from_predictions(y, p, thresholds=[0.1, 0.2], **given).ax_
    display.from_predictions(y, p, thresholds=[0.5, 0.6], ax=ax, **given)
    assert ax.get_xlim() == pytest.approx((0.09, 0.61))


@pytest.mark.parametrize("display", [DecisionCurveDisplay, MurphyDisplay])
def test_legends_name_the_bands_once(data, display):
    y, p, _ = data

    def names(**params):
        drawn = display.from_predictions(y, {"a": p, "b": p**2}, n_resamples=39, **params)
        return [text for text in legend_texts(drawn) if "band" in text]

    assert names() == ["95% confidence band (pointwise)"]
    assert names(reference="a", confidence=0.9) == ["90% confidence band (simultaneous)"]
    assert names(band=None) == []


def twice(*columns):
    """Two equal labels, whose bands have no exact limits."""
    return [np.column_stack((column, column)) for column in columns]


def test_pointwise_band_is_that_of_a_mean(data):
    y, p, w = data
    given = {"thresholds": [0.3], "sample_weight": w, "show_legend": False}
    display = DecisionCurveDisplay.from_predictions(*twice(y, p), weights="frequency", **given)
    again = np.repeat(np.arange(300), w)
    benefit = np.where(y == 1, 1.0, -3 / 7)[again] * (p[again] >= 0.3)
    error, curve = benefit.std() / np.sqrt(len(again)), display.curves[None]
    found = [curve.lower[0], curve.value[0], curve.upper[0]]
    assert found == pytest.approx(benefit.mean() + 1.959964 * error * np.array([-1, 0, 1]))
    assert display.lines_[0].get_marker() == "o"
    # of sampling weights, the error of a ratio
    curve = DecisionCurveDisplay.from_predictions(*twice(y, p), **given).curves[None]
    benefit = np.where(y == 1, 1.0, -3 / 7) * (p >= 0.3)
    error = np.sqrt(np.sum(w**2 * (benefit - curve.value[0]) ** 2)) / w.sum()
    assert curve.upper[0] - curve.value[0] == pytest.approx(1.959964 * error)


@pytest.mark.filterwarnings("ignore:The rarer class has only")
@pytest.mark.parametrize("given", [{}, {"sample_weight": np.repeat([1, 3], [35, 5]), "weights": "frequency"}])
def test_bands_of_few_treated_samples_are_intervals_of_the_net_benefit(data, given):
    """They have eight of the samples, one and none."""
    (y, p, _), tau = data, [0.8, 0.95, 0.99]
    order = np.argsort(p[:40])
    y, p = y[:40][order], 0.96 * p[:40][order]
    for confidence in (0.8, 0.95):
        options = {"confidence": confidence, **given}
        display = DecisionCurveDisplay.from_predictions(y, p, thresholds=tau, show_legend=False, **options)
        curve = display.curves[None]
        for t, lower, upper in zip(tau, curve.lower, curve.upper, strict=True):
            metric = partial(metrics.net_benefit, threshold=t)
            found = confidence_interval(y, p, metric=metric, n_resamples=20, **options)
            assert (lower, upper) == pytest.approx((found.lower, found.upper))


@pytest.mark.parametrize("threshold", [0.2, 0.5, thorough(0.8)])
def test_limits_of_the_elementary_score(threshold):
    """All numbers of false negatives and false positives of five samples, with their probabilities."""
    counts, ends = [(k, m, 5 - k - m) for k in range(6) for m in range(6 - k)], []
    given = {"thresholds": [threshold], "confidence": 0.9, "show_legend": False}
    for missed, false, right in counts:
        y, p = (
            np.repeat([1, 0, 0], [missed, false, right]),
            np.repeat([0.1, 0.9, 0.1], [missed, false, right]),
        )
        (curve,) = MurphyDisplay.from_predictions(y, p, labels=[0, 1], **given).curves.values()
        assert curve.value[0] == pytest.approx(2 * ((1 - threshold) * missed + threshold * false) / 5)
        ends.append((curve.lower[0], curve.upper[0]))
        plt.close()
    lower, upper = np.transpose(ends)
    for wrong in (0.03, 0.1, 0.3, 0.7, 1.0):
        for part in np.linspace(0, 1, 11):
            one, other = wrong * part, wrong * (1 - part)
            chance = multinomial.pmf(counts, 5, [one, other, 1 - wrong])
            value = 2 * ((1 - threshold) * one + threshold * other)
            assert max(chance[lower > value + 1e-9].sum(), chance[upper < value - 1e-9].sum()) <= 0.05


def test_simultaneous_bands_are_wider(data):
    y, p = twice(*data[:2])
    bands = {}
    for band in ("pointwise", "simultaneous"):
        curve = MurphyDisplay.from_predictions(y, p, band=band, show_legend=False).curves[None]
        bands[band] = curve.upper - curve.lower
    ratio = bands["simultaneous"] / bands["pointwise"]
    np.testing.assert_allclose(ratio, ratio[0])
    assert 1.3 < ratio[0] < 1.8
    assert MurphyDisplay.from_predictions(y, p, band=None, show_legend=False).bands_ == []


@pytest.mark.weekly
@pytest.mark.parametrize("band", ["pointwise", "simultaneous"])
def test_coverage_of_bands(band):
    rng, tau = np.random.default_rng(0), np.array([0.1, 0.3, 0.5, 0.7])
    # of uniform calibrated predictions: the integral of x - (1 - x) t / (1 - t) from t to 1
    truth, inside = (1 - tau**2) / 2 - (1 - tau) ** 2 / 2 * tau / (1 - tau), []
    for _ in range(200):
        p = rng.random(200)
        y = (rng.random(200) < p).astype(int)
        params = {"thresholds": tau, "band": band, "n_resamples": 199, "random_state": rng}
        curve = DecisionCurveDisplay.from_predictions(y, p, show_legend=False, **params).curves[None]
        plt.close()
        inside.append((curve.lower <= truth) & (truth <= curve.upper))
    inside = np.array(inside)
    found = inside.all(axis=1).mean() if band == "simultaneous" else inside.mean(axis=0)
    assert (np.abs(found - 0.95) <= 4 * np.sqrt(0.05 * 0.95 / 200)).all()


def test_area_of_the_murphy_diagram_is_the_brier_score(data):
    y, p, w = data
    p, tau = np.round(p, 3), (np.arange(2000) + 0.5) / 2000
    murphy = MurphyDisplay.from_predictions(y, p, sample_weight=w, thresholds=tau, show_legend=False)
    expected = brier_score_loss(y, p, sample_weight=w)
    assert murphy.curves[None].value.mean() == pytest.approx(expected, abs=1e-6)


def test_differences_are_those_of_the_test(data):
    y, p, _ = data
    models = {"$a$": p**2, "b": p, "c": np.sqrt(p)}
    murphy = MurphyDisplay.from_predictions(y, models, reference="b")
    test = dominance_test(y, {"a": models["$a$"], "b": p}, n_resamples=999, random_state=0)
    assert list(murphy.curves) == ["$a$", "c"]
    curve = murphy.curves["$a$"]
    np.testing.assert_allclose((curve.value, curve.lower), (2 * test.difference, 2 * test.lower))
    assert curve.pvalue == test.pvalue
    assert murphy.lines_[0].get_label() == rf"\$a\$ - b: p = {test.pvalue:.2g}"
    # a panel for each difference, on the same axes
    expected = [line.get_label() for line in murphy.lines_]
    assert [ax.get_title().replace("\n", ": ") for ax in murphy.figure_.axes] == expected
    assert murphy.ax_.get_ylabel() == "Difference in\nmean elementary score"
    assert len({ax.get_ylim() for ax in murphy.figure_.axes}) == 1
    (legend,) = murphy.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["95% confidence band (simultaneous)"]
    _, ax = plt.subplots()
    together = MurphyDisplay.from_predictions(y, models, reference="b", ax=ax)
    assert together.ax_ is ax
    assert (len(together.lines_), ax.get_ylabel()) == (2, "Difference in mean elementary score")
    curves = DecisionCurveDisplay.from_predictions(y, models)
    assert [line.get_label() for line in curves.lines_] == [r"\$a\$", "b", "c"]
    benefit = DecisionCurveDisplay.from_predictions(y, models, reference="b").curves["$a$"]
    difference = curves.curves["$a$"].value - curves.curves["b"].value
    np.testing.assert_allclose(benefit.value, difference, atol=1e-12)
    np.testing.assert_allclose(benefit.lower, -test.upper / (1 - test.thresholds))


def gaps(y, p, **params):
    display = DecisionDisplay.from_predictions(y, p, show_legend=False, **{"n_resamples": 199} | params)
    plt.close(display.figure_)
    return display.curves[None]


def test_risk_gap_equals_its_definition():
    rng = np.random.default_rng(1)
    p = np.round(rng.beta(0.7, 0.9, 60), 2)
    y, w = (rng.random(60) < p**1.5).astype(int), rng.random(60)
    tau = np.array([0.1, 0.33, 0.5, 0.7])
    given = {"sample_weight": w, "thresholds": tau[::-1], "n_resamples": 19}
    display = DecisionDisplay.from_predictions(y, p, **given, show_legend=False)
    x, gap = display.lines_[0].get_data()
    np.testing.assert_array_equal(x, tau)
    expected = [decision_gap(y, p, w, t) for t in tau]
    np.testing.assert_allclose(gap, expected, atol=1e-12)
    worst, curve = int(np.argmax(expected)), display.curves[None]
    text = f"risk gap: maximum {gap[worst]:.3f}, at {x[worst]:.2f} (p = {curve.pvalue:.2g})"
    assert display.lines_[0].get_label() == text
    # the area reaches from 0 to the quantile of each threshold
    (path,) = display.bands_[0].get_paths()
    for t, top in zip(tau, curve.upper, strict=True):
        heights = path.vertices[path.vertices[:, 0] == t, 1]
        assert (heights.min(), heights.max()) == (0.0, pytest.approx(top))


def test_null_distribution_of_gaps_by_enumeration():
    p, w = np.array([0.2, 0.4, 0.4, 0.6, 0.9]), np.ones(5)
    distribution = [
        (np.prod(np.where(y == 1, p, 1 - p)), [decision_gap(y, p, w, t) for t in THREE])
        for y in map(np.array, product([0, 1], repeat=5))
    ]
    observed = np.array([0, 1, 0, 0, 0])
    largest = max(decision_gap(observed, p, w, t) for t in THREE)
    pvalue = sum(chance for chance, found in distribution if max(found) >= largest - 1e-12)
    for weight, n in ((None, 2000), (np.full(5, 0.3), 1000)):
        curve = gaps(observed, p, thresholds=THREE, n_resamples=n, sample_weight=weight)
        assert curve.pvalue == pytest.approx(pvalue, abs=4 * 0.5 / np.sqrt(n))
        for k, quantile in enumerate(curve.upper):
            beyond = sum(chance for chance, found in distribution if found[k] > quantile + 1e-9)
            assert beyond <= 0.05 + 0.015
            assert beyond + sum(c for c, found in distribution if abs(found[k] - quantile) < 1e-9) >= 0.04


def test_weights_stay_with_their_samples():
    # one sample outweighs all others: it is acted upon, which costs .5 without event, with probability .4
    p, w = np.array([0.3, 0.6, 0.8]), np.array([0.5, 1e6 + 0.5, 0.5])
    given = {"thresholds": [0.5], "n_resamples": 1000, "sample_weight": w}
    null = [gaps([0, 1, 1], p, **given, confidence=c).upper[0] for c in (0.56, 0.64)]
    np.testing.assert_allclose(null, [0.0, 0.5], atol=1e-5)


def test_order_and_repetitions_of_weighted_samples(data):
    y, p, times = data
    rng = np.random.default_rng(0)
    w, order = rng.uniform(0.5, 2.0, 300), rng.permutation(300)
    one = gaps(y, p, sample_weight=w, thresholds=THREE)
    other = gaps(y[order], p[order], sample_weight=w[order], thresholds=THREE)
    np.testing.assert_allclose(one.upper, other.upper, rtol=1e-12)
    assert one.pvalue == other.pvalue
    weighted = gaps(y, p, sample_weight=times, weights="frequency")
    repeated = gaps(np.repeat(y, times), np.repeat(p, times))
    np.testing.assert_allclose(weighted.value, repeated.value, atol=1e-14)
    np.testing.assert_allclose(weighted.upper, repeated.upper, atol=1e-14)
    assert weighted.pvalue == repeated.pvalue


@pytest.mark.weekly
def test_level_of_the_pvalue():
    rng = np.random.default_rng(0)
    p, found = rng.beta(0.7, 0.9, 80), []
    for seed in range(300):
        y, thresholds = (rng.random(80) < p).astype(int), np.linspace(0.1, 0.9, 9)
        found.append(gaps(y, p, thresholds=thresholds, n_resamples=19, random_state=seed).pvalue)
    for level in (0.1, 0.3):
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level * (1 - level) / 300)
    assert np.mean(np.array(found) <= 0.3) > 0.15


def test_risk_gaps_of_several_models(data):
    y, p, _ = data
    display = DecisionDisplay.from_predictions(y, {"cubed": p**3, "true": p}, n_resamples=199)
    assert display.curves["cubed"].pvalue == 1 / 200
    assert display.curves["true"].pvalue > 0.05
    assert [line.get_label().split(":")[0] for line in display.lines_] == ["cubed", "true"]
    assert len(display.bands_) == 2
    top = display.ax_.get_ylim()[1]
    # a second display on the same axes, without null band
    second = DecisionDisplay.from_predictions(y, 1 - p, band=None, name="worse", ax=display.ax_)
    assert second.bands_ == []
    assert second.curves[None].pvalue is None
    assert second.lines_[0].get_label().startswith("worse: maximum ")
    assert second.lines_[0].get_color() not in [line.get_color() for line in display.lines_]
    assert display.ax_.get_ylim()[1] > max(top, second.curves[None].value.max())


@pytest.mark.parametrize("display", [*CURVES, ScoreDecompositionDisplay])
def test_estimators_and_bad_input(display, data):
    X, y = load_iris(return_X_y=True)
    label = None
    if display is DecisionDisplay:
        X, y, label = X[y > 0], y[y > 0], 2
    model = LogisticRegression(max_iter=999).fit(X[:, :2], y)
    drawn = display.from_estimator(model, X[:, :2], y, show_legend=False)
    expected = display.from_predictions(y, model.predict_proba(X[:, :2]), pos_label=label, show_legend=False)
    for one, other in zip(drawn.ax_.lines, expected.ax_.lines, strict=True):
        np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())
    y, p, _ = data
    bad = [({}, {}, "predictions is empty")]
    if display in (DecisionCurveDisplay, MurphyDisplay):
        bad.append(({"a": p}, {"reference": "c"}, "reference='c' is not one of the models"))
        bad.append(({"a": p, "b": np.full((300, 3), 1 / 3)}, {}, r"predictions\['b'\] has other classes"))
    if display is not ScoreDecompositionDisplay:
        named = [("band", "belt"), ("n_resamples", 18), ("thresholds", []), ("thresholds", [0.5, 1.0])]
        bad += [(p, {name: value}, name) for name, value in named]
    if display is not DecisionDisplay:
        bad.append((p, {"reduction": "all"}, "reduction"))
    for predictions, given, message in bad:
        with pytest.raises(ValueError, match=message):
            display.from_predictions(y, predictions, **given)


def test_plane_is_the_decomposition(data):
    y, p, w = data
    models = {"a": p**2, "b": p}
    display = ScoreDecompositionDisplay.from_predictions(y, models, sample_weight=w, score="log_loss")
    for point, (name, proba) in zip(display.points_, models.items(), strict=True):
        parts = metrics.score_decomposition(y, proba, sample_weight=w, score="log_loss")
        x, height = point.get_data()
        assert (x[0], height[0]) == pytest.approx((parts.miscalibration, parts.discrimination))
        assert point.get_label() == f"{name}: {parts.score:.3f}"
    # each line of equal score has its score at its end
    display.figure_.draw_without_rendering()
    x, top = display.ax_.get_xlim()[1], display.ax_.get_ylim()[1]
    labels = [text for text in display.ax_.texts if text.get_text()]
    assert len(labels) == len(display.lines_) >= 3
    for text in labels:
        mcb, dsc = text.xy
        assert mcb == pytest.approx(x) or dsc == pytest.approx(top)
        assert float(text.get_text()) == pytest.approx(mcb - dsc + parts.uncertainty, abs=1e-9)
    given = {"score": "log_loss", "sample_weight": w}
    again = ScoreDecompositionDisplay.from_predictions(y, p**3, **given, ax=display.ax_)
    assert len(again.ax_.texts) == len(again.lines_)
    wrong = {"a": p, "b": np.where(p == p.max(), 1.0 - y, p)}
    with pytest.raises(ValueError, match=r"log loss of predictions\['b'\] is infinite"):
        ScoreDecompositionDisplay.from_predictions(y, wrong, score="log_loss")
    P, y = np.random.default_rng(0).dirichlet(np.ones(3), 60), np.arange(60) % 3
    found = ScoreDecompositionDisplay.from_predictions(y, P).decompositions[None]
    assert found.miscalibration == pytest.approx(metrics.calibration_loss(y, P))
    two = {"a": P, "b": P[:, ::-1]}
    # accuracies differ, and so do uncertainties: no common lines of equal score
    assert not ScoreDecompositionDisplay.from_predictions(y, two, reduction="confidence").lines_


def test_large_differences_at_high_thresholds_leave_the_others_visible(data):
    y, p = simulated(2000)
    models = {"true": p, "overconfident": np.clip(3 * p - 1, 0.001, 0.999)}
    display = DecisionCurveDisplay.from_predictions(y, models, reference="true")
    curve = display.curves["overconfident"]
    low, high = display.ax_.get_ylim()
    assert low == -high
    assert np.abs(curve.lower).max() > 2 * high
    assert np.mean(np.abs([curve.value, curve.lower, curve.upper]) <= high) == pytest.approx(0.9, abs=0.03)


def test_bands_of_many_models_are_not_drawn(data):
    y, p, _ = data
    few, many = (MurphyDisplay.from_predictions(y, {str(k): p**k for k in range(1, n)}) for n in (4, 5))
    assert len(few.bands_) == len(few.ax_.collections) == 3
    assert not many.bands_
    assert not many.ax_.collections
    assert many.ax_.get_legend().get_title().get_text() == "Bands are drawn for at most 3 curves"
    band = "95% confidence band (pointwise)"
    for display, expected in (
        (few, ["1", "2", "3", band]),
        (many, ["1", "2", "3", "4"]),
        (DecisionCurveDisplay.from_predictions(y, p), ["net benefit", "treat all", "treat none", band]),
    ):
        assert legend_texts(display) == expected


def test_the_table_of_decision_curve_analysis():
    """Of 750 patients 105 have cancer; at 25% the model treats 72 of them, and 72 others."""
    pytest.importorskip("pandas")
    y = np.repeat([1, 0], [105, 645])
    model = np.concatenate([np.arange(105) < 72, np.arange(645) < 72]) * 0.5
    given = {"thresholds": [0.0, 0.25], "n_resamples": 39}
    models = {"model": model, "all": np.ones(750)}
    frame = DecisionCurveDisplay.from_predictions(y, models, **given).to_frame()
    assert frame["model"].tolist() == ["model", "model", "all", "all"]
    first, row = frame.iloc[0], frame.iloc[1]
    assert np.isnan(first.interventions_avoided)
    assert (first.net_benefit, first.standardized_net_benefit) == pytest.approx((0.14, 1.0))
    assert (row.net_benefit, row.treat_all) == pytest.approx((0.064, -0.1466667))
    assert row.standardized_net_benefit == pytest.approx(0.064 / 0.14)
    # 573 others are not treated; each of 33 missed cancers is worth three of them
    assert row.interventions_avoided == pytest.approx((573 - 3 * 33) / 750)
    assert frame.interventions_avoided[3] == pytest.approx(0.0)
    difference = DecisionCurveDisplay.from_predictions(y, models, reference="all", **given).to_frame().iloc[1]
    assert difference.net_benefit == pytest.approx(0.064 + 0.1466667)
    assert difference.interventions_avoided == pytest.approx(row.interventions_avoided)
