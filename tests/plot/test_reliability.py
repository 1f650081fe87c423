"""ReliabilityDisplay and reliability_grid: what is drawn is what was computed."""

import pickle
from itertools import product

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import expit, logit, xlogy
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, RepeatedKFold, cross_val_predict, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib import metrics
from sklearn_calib._validation import check_binary
from sklearn_calib.plot import ReliabilityDisplay, reliability_grid
from sklearn_calib.plot._curve import reliability_curve
from sklearn_calib.plot._smooth_curve import beyond, hidden_note
from tests._optional import pandas as pd
from tests._references import kernel_mean
from tests._samples import simulated, simulated_classes
from tests._tiers import thorough

mpl = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")
draw = ReliabilityDisplay.from_predictions
CURVES = pytest.mark.parametrize("curve", ["smooth", "kernel", "binned", "isotonic"])


@pytest.fixture(scope="module")
def forecast():
    return simulated(300, "beta", 0.7, 0.9, truth=1.5)


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(0)
    p = 1 / (1 + np.exp(-rng.normal(-4.5, 1.5, 1500)))
    y = (rng.random(1500) < p).astype(int)
    p[:25], p[-5:] = 0.0, 1.0
    return y, p


@pytest.fixture(scope="module")
def classes():
    codes, proba = simulated_classes(200, [1.0, 1.5, 0.7], seed=1)
    return np.array(["bird", "cat", "dog"])[codes], proba


@pytest.fixture
def ax():
    return plt.figure(figsize=(4, 4)).add_subplot()


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_drawn_equals_computed(forecast):
    display = draw(*forecast, name="model")
    curve = display.curve
    np.testing.assert_array_equal(display.line_.get_data(), [curve.predicted, curve.observed])
    shown = np.isfinite(curve.observed)
    (path,) = display.band_.get_paths()
    for limits in (curve.band.lower, curve.band.upper):
        points = np.column_stack((curve.predicted, limits))[shown]
        assert {tuple(point) for point in points} <= {tuple(point) for point in path.vertices}
    assert display.line_.get_label() == f"model: smECE = {metrics.smooth_ece(*forecast):.3f}"
    expected = ["perfect calibration", display.line_.get_label(), "95% confidence band (pointwise)"]
    assert texts(display.ax_) == expected
    assert display.figure_ is display.ax_.figure


@pytest.mark.parametrize(
    ("curve", "scale"),
    [("smooth", "probability"), ("binned", "logit"), ("isotonic", "logit"), thorough("smooth", "logit"),
     thorough("isotonic", "probability")],
)  # fmt: skip
def test_histogram_counts_the_predictions_below_the_diagram(rare, curve, scale):
    y, p = rare
    display = draw(y, p, curve=curve, scale=scale)
    histogram, ax = display.ax_histogram_, display.ax_
    patch = histogram.patches[0].get_data()
    np.testing.assert_array_equal(patch.values, display.curve.counts)
    np.testing.assert_array_equal(patch.edges, display.curve.edges)
    drawn = p if scale == "probability" else p[(p > 0) & (p < 1)]
    assert (patch.values.sum(), histogram.get_xlim()) == (len(drawn), ax.get_xlim())
    shown = "logit" if scale == "logit" else "linear"
    assert histogram.get_xscale() == ax.get_xscale() == ax.get_yscale() == shown
    # the curve can lie as low as the smallest prediction, above the histogram
    lowest = ax.transData.transform((0.5, max(drawn.min(), 1e-9)))[1]
    assert histogram.get_window_extent().y1 < lowest
    note = f"\n(30 predictions below {drawn.min():.3g} or above "
    assert (note in display.line_.get_label()) == (scale == "logit")
    ticks = ax.get_yticks()
    assert len(ticks) > 2
    found = ax.transData.transform(np.column_stack((ticks * 0 + 0.5, ticks)))[:, 1].min()
    assert found > histogram.get_window_extent().y1


@pytest.fixture(scope="module")
def one_percent():
    rng = np.random.default_rng(0)
    p = np.minimum(rng.beta(1.5, 148, 20_000), 0.049)
    p[:4] = 0.7
    return (rng.random(20_000) < p).astype(int), p


@pytest.mark.parametrize(
    ("curve", "sure"),
    [("smooth", True), ("binned", False), thorough("smooth", False), thorough("isotonic", True)],
)
def test_axes_show_the_predictions_of_a_rare_event(one_percent, curve, sure):
    y, p = one_percent
    y, p = (1 - y, 1 - p) if sure else (y, p)
    display = draw(y, p, curve=curve)
    low, high = (0.951, 1.0) if sure else (0.0, 0.049)
    assert display.curve.edges[[0, -1]] == pytest.approx((low, high))
    x, observed = display.line_.get_data()
    inside = (x >= low) & (x <= high) & np.isfinite(observed)
    least, most = min(low, observed[inside].min()), max(high, observed[inside].max())
    assert most - least < 0.1
    pad = 0.02 * (most - least)
    assert display.ax_.get_xlim() == pytest.approx((least - pad, most + pad))
    if curve == "binned":
        # the bars are whole
        most = display.curve.band.upper[inside].max()
        pad = 0.02 * (most - least)
    assert display.ax_.get_ylim()[1] == pytest.approx(most + pad)
    assert display.curve.counts.sum() == 20_000 - 4
    where = "below 0.951" if sure else "above 0.049"
    assert display.line_.get_label().endswith(f"\n(4 predictions {where} not shown)")
    if curve == "binned":
        # of equal expected numbers of events, where bins of equal width would be one
        assert len(x) == 15
        assert display.line_.get_label().startswith("ECE = 0.00")


@pytest.mark.parametrize(
    ("hidden", "total", "number", "words"),
    [
        (1.0 + 1e-12, 9.0, True, "1 prediction"),
        (1_234_567.0, 2e9, True, "1,234,567 predictions"),
        (2e-8, 1.0, False, "less than 0.01% of the predictions"),
        (0.0234, 1.0, False, "2.3% of the predictions"),
        (0.996, 1.0, False, "100% of the predictions"),
    ],
)
def test_predictions_not_shown_are_told(hidden, total, number, words):
    assert hidden_note(hidden, total, beyond(0.0, 0.99987), number) == f"\n({words} above 0.99987 not shown)"


def test_logit_axes_end_where_few_predictions_are():
    rng = np.random.default_rng(0)
    p = expit(rng.normal(size=20_000))
    p[:3] = expit([-11.0, 11.0, 12.0])
    display = draw((rng.random(20_000) < p).astype(int), p, scale="logit", band=None)
    # the first and last but ten
    assert display.curve.edges[[0, -1]] == pytest.approx(np.sort(p)[[9, -11]])
    assert display.curve.counts.sum() == 20_000 - 19
    x = display.line_.get_xdata()
    assert x[0] < display.curve.edges[0] < display.curve.edges[-1] < x[-1]


def test_few_values_are_drawn_as_points():
    p = np.append(np.repeat([0.2, 0.5, 0.8], 50), [0.31, 0.32])
    y = (np.random.default_rng(0).random(152) < p).astype(int)
    display = draw(y, p)
    assert (display.line_.get_linewidth(), display.line_.get_marker()) == (0.0, "o")
    np.testing.assert_array_equal(display.line_.get_xdata(), [0.2, 0.5, 0.8])
    assert len(display.band_.get_segments()) == 3
    assert display.line_.get_label().endswith("\n(2 predictions between the points not shown)")
    assert display.band_.get_label() == "95% confidence intervals (pointwise)"


def test_predictions_of_exactly_0_are_drawn_as_a_point_beside_the_curve():
    rng = np.random.default_rng(0)
    p = np.append(np.zeros(50), rng.random(200))
    display = draw((rng.random(250) < p).astype(int), p)
    assert display.line_.get_markevery() == [0]
    (bar,) = next(each for each in display.ax_.collections if each is not display.band_).get_segments()
    np.testing.assert_array_equal(bar[:, 0], 0.0)
    np.testing.assert_allclose(bar[:, 1], [display.curve.band.lower[0], display.curve.band.upper[0]])


@pytest.mark.thorough
def test_axes_hold_the_curves_of_all_displays(one_percent):
    y, p = one_percent
    # the curve is three times as high as the predictions and more
    steep = draw(y, p / 10)
    right, top = steep.ax_.get_xlim()[1], steep.ax_.get_ylim()[1]
    assert right == pytest.approx(0.0049 * 1.02)
    assert top > 4 * right
    several = draw(y, p)
    first, odds = several.ax_histogram_.patches[0].get_data().values.copy(), 20 * p / (1 - p)
    other = draw(y, odds / (1 + odds), ax=several.ax_)
    assert several.ax_.get_xlim() == pytest.approx((-0.02, 1.02))
    # heights are counts of bins of equal width
    narrow, wide = (steps.get_data() for steps in several.ax_histogram_.patches)
    np.testing.assert_array_equal(wide.values, other.curve.counts)
    np.testing.assert_allclose(narrow.values * narrow.edges[-1], first * wide.edges[-1])
    assert not any(steps.get_fill() for steps in several.ax_histogram_.patches)
    # the smallest bin is visible
    assert several.ax_histogram_.get_yscale() == "log"
    assert several.ax_histogram_.get_ylim()[0] < wide.values[wide.values > 0].min()


def test_labels_of_bins_and_of_the_isotonic_curve(forecast):
    y, p = forecast
    for bins in ({"n_bins": 8}, {"n_bins": [0, 0.3, 0.6, 1]}, {"n_bins": 6, "strategy": "quantile"}):
        given = {"curve": "binned", **bins}
        display = draw(y, p, **given, show_legend=False)
        error = metrics.expected_calibration_error(y, p, **bins)
        assert display.line_.get_label() == f"ECE = {error:.3f}"
        segments = np.array(display.band_.get_segments())
        limits = np.column_stack((display.curve.band.lower, display.curve.band.upper))
        np.testing.assert_array_equal(segments[:, :, 1], limits)
        assert reliability_grid(y, {"a": p}, **given)[0].curve.error == pytest.approx(error)
    display = draw(*forecast, curve="isotonic", name="a", show_legend=False)
    parts = metrics.score_decomposition(*forecast)
    assert display.line_.get_label() == (
        f"a: MCB = {parts.miscalibration:.4f}\nDSC = {parts.discrimination:.4f}, "
        f"UNC = {parts.uncertainty:.4f}"
    )


def test_labels_say_what_the_bands_show(forecast):
    y, p = forecast
    rng = np.random.default_rng(0)
    uniform = rng.random(2000)
    falling, whole = rng.random(2000) > uniform, "95% confidence band (simultaneous)"
    for outcome, prediction, band, text in (
        (y, p, "confidence", "95% confidence band (pointwise)"),
        (y[:60], p[:60], "consistency", "95% consistency band (pointwise)"),
        (y[:60], p[:60], "bootstrap", "95% of bootstrap curves (pointwise)"),
        (y, p**1.5, "simultaneous", f"{whole}\ncontains the diagonal"),
        (y, p**0.4, "simultaneous", f"{whole}\nexcludes the diagonal"),
        (falling, uniform, "simultaneous", f"{whole}, limits cross\nexcludes the diagonal"),
    ):
        display = draw(outcome, prediction, band=band, show_legend=False, show_histogram=False)
        assert display.band_.get_label() == text


def test_the_width_of_the_kernel_curve_is_the_density(forecast):
    display = draw(*forecast, curve="kernel", color="k", sharpness="brier")
    curve, (density, area) = display.curve, display.ax_.collections
    parts = curve.decomposition
    assert display.line_.get_label() == (
        f"smECE = {metrics.smooth_ece(*forecast):.3f}\n"
        f"Brier score {parts.score:.4f}, calibration error {parts.miscalibration:.4f}"
    )
    ends = np.array(density.get_segments())
    np.testing.assert_allclose(ends[:, 0, 0], curve.predicted[:-1])
    widths = np.array(density.get_linewidths())
    inner = np.clip(widths, widths.min() * 1.01, widths.max() * 0.99) == widths
    middle = (curve.density[1:] + curve.density[:-1])[inner]
    np.testing.assert_allclose(widths[inner] ** 2 / middle, widths[inner][0] ** 2 / middle[0])
    # the area is the part of the score that is left
    top = np.clip(curve.observed + curve.gap * curve.density / 2, 0, 1)
    assert area.get_paths()[0].vertices[:, 1].max() == pytest.approx(top.max())
    whole = trapezoid(curve.gap * curve.density, curve.predicted)
    assert whole == pytest.approx(parts.refinement_loss, abs=0.02)
    assert display.band_ is None
    assert texts(display.ax_)[-1] == "sharpness gap"


def entropy(score, r):
    return r * (1 - r) if score == "brier" else -xlogy(r, r) - xlogy(1 - r, 1 - r)


def divergence(score, r, x):
    """That of the prediction x if an event has the probability r."""
    if score == "brier":
        return (r - x) ** 2
    return -xlogy(r, x) - xlogy(1 - r, 1 - x) - entropy(score, r)


@pytest.mark.parametrize(("n_classes", "score"), [(2, "brier"), (3, "log_loss")])
def test_sharpness_against_double_loops(score, n_classes):
    rng = np.random.default_rng(1)
    proba = rng.dirichlet(np.ones(n_classes), 80)
    codes, w = (proba.cumsum(axis=1) < rng.random((80, 1))).sum(axis=1), rng.exponential(size=80)
    curve = draw(codes, proba, curve="kernel", sharpness=score, sample_weight=w).curve
    x, right, one_hot = proba[:, 1], codes, np.eye(n_classes)[codes]
    if n_classes == 3:
        x, right = proba.max(axis=1), (codes == proba.argmax(axis=1)).astype(int)
    whole = own = divergence(score, right, x)
    if n_classes == 3:
        whole = ((proba - one_hot) ** 2 if score == "brier" else -one_hot * np.log(proba)).sum(axis=1)
    rows = np.flatnonzero(np.isfinite(curve.observed))[::31]
    at, given = curve.predicted[rows], (w, curve.bandwidth, "probability")
    r = kernel_mean(at, x, right, *given)
    np.testing.assert_allclose(curve.observed[rows], r, atol=1e-6)
    expected = entropy(score, r) + kernel_mean(at, x, whole - own, *given)
    np.testing.assert_allclose(curve.gap[rows], expected, atol=1e-5)
    error = np.average(divergence(score, kernel_mean(x, x, right, *given), x), weights=w)
    assert curve.decomposition.miscalibration == pytest.approx(error, abs=1e-6)
    assert curve.decomposition.score == pytest.approx(np.average(whole, weights=w))
    assert curve.decomposition.refinement_loss == pytest.approx(curve.decomposition.score - error, abs=1e-6)


def test_sharpness_of_a_constant_prediction():
    """Seven events in 20 predictions of .3: .23 = (.35 - .3)^2 + .35 * .65 = .0025 + .2275."""
    curve = draw(np.arange(20) < 7, np.full(20, 0.3), curve="kernel", sharpness="brier").curve
    near = np.isfinite(curve.observed)
    # nothing is drawn without a prediction within a bandwidth
    assert curve.predicted[near][[0, -1]] - 0.3 == pytest.approx(
        [-curve.bandwidth, curve.bandwidth], abs=0.005
    )
    np.testing.assert_allclose(curve.observed[near], 0.35)
    np.testing.assert_allclose(curve.gap[near], 0.2275)
    parts = curve.decomposition
    assert [parts.score, parts.miscalibration] == pytest.approx([0.23, 0.0025])
    assert [parts.discrimination, parts.uncertainty] == pytest.approx([0.0, 0.2275], abs=1e-12)
    assert str(parts) == (
        "Brier score 0.2300 = miscalibration 0.0025 - discrimination 0.0000 + uncertainty 0.2275 "
        "(kernel regression, n = 20)"
    )


def sharpness_errors(n, n_classes, score, rng):
    """Errors of r and of the gap at five predictions, and of the calibration error, against the truth.

    Of two classes, logit P(y = 1) = .6 logit x. Of three, the predicted class has the probability x^1.5, and
    the others have half of the rest each, of which they are predicted to have two thirds and one third.
    """
    x = rng.uniform(*((0.02, 0.98) if n_classes == 2 else (0.7, 0.95)), n)
    at, fine = (np.quantile(x, levels) for levels in ([0.1, 0.3, 0.5, 0.7, 0.9], np.linspace(0, 1, 9999)))

    def truth(x):
        return expit(0.6 * logit(x)) if n_classes == 2 else x**1.5

    y, proba, gap = rng.random(n) < truth(x), x, entropy(score, truth(at))
    if n_classes == 3:
        proba = np.column_stack((x, (1 - x) * 2 / 3, (1 - x) / 3))
        y = np.where(y, 0, rng.integers(1, 3, n))
        second, third = (1 - at) * 2 / 3, (1 - at) / 3
        wrong = 0.5 * ((1 - second) ** 2 + third**2 + second**2 + (1 - third) ** 2)
        other = truth(at) * (second**2 + third**2) + (1 - truth(at)) * wrong
        gap = gap + (other if score == "brier" else (1 - truth(at)) * 0.5 * np.log(4.5))
    hidden = {"show_legend": False, "show_histogram": False}
    curve = draw(y, proba, curve="kernel", sharpness=score, **hidden).curve
    frequency, left = (np.interp(at, curve.predicted, values) for values in (curve.observed, curve.gap))
    error = curve.decomposition.miscalibration - divergence(score, truth(fine), fine).mean()
    return np.abs(frequency - truth(at)).mean(), np.abs(left - gap).mean(), abs(error)


@pytest.mark.thorough
@pytest.mark.parametrize(("n_classes", "score"), [(2, "log_loss"), (3, "brier")])
def test_sharpness_converges_to_the_truth(n_classes, score):
    rng = np.random.default_rng(0)
    few, many = ([sharpness_errors(n, n_classes, score, rng) for _ in range(3)] for n in (200, 20_000))
    assert (np.mean(many, axis=0) < 0.6 * np.mean(few, axis=0)).all()


def test_two_models_share_axes(forecast):
    y, p = forecast
    first = draw(y, p, name="before")
    second = draw(y, p**1.5, name="after", ax=first.ax_)
    assert first.line_.get_color() != second.line_.get_color()
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    assert first.ax_histogram_ is second.ax_histogram_
    # diagonal and band are named once, the band last
    band, after = "95% confidence band (pointwise)", second.line_.get_label()
    assert texts(first.ax_) == ["perfect calibration", first.line_.get_label(), after, band]


@pytest.mark.thorough
def test_logit_axes_hold_all_curves(rare, ax):
    y, p = rare
    limits = []
    for power in (1.0, 0.5, 1.5):
        draw(y, p**power, scale="logit", ax=ax, show_legend=False)
        limits.append(ax.get_xlim())
        inside = p[(p > 0) & (p < 1)] ** power
        assert limits[-1][0] < max(inside.min(), 1e-6)
        assert limits[-1][1] > inside.max()
    assert limits[2][0] <= limits[1][0] <= limits[0][0]


def test_parts_can_be_left_out(forecast):
    display = draw(*forecast, band=None, show_histogram=False, show_legend=False)
    assert display.band_ is display.ax_histogram_ is display.ax_.get_legend() is None
    assert not display.ax_.texts
    assert len(display.ax_.lines) == 2
    assert not display.ax_.collections
    assert display.ax_.get_ylim()[0] > -0.1


def test_line_properties_are_passed_on_and_color_shared(forecast):
    display = draw(*forecast, c="red", lw=0.5, label="mine", show_legend=False)
    assert (display.line_.get_linewidth(), display.line_.get_label()) == (0.5, "mine")
    for artist in (display.band_, display.ax_histogram_.patches[0]):
        assert mpl.colors.to_hex(np.ravel(artist.get_facecolor())[:4]) == "#ff0000"
    again = display.plot(name="b", show_legend=False)
    assert again is display
    assert display.line_.get_label().startswith("b: ")


def test_labels_and_columns(forecast):
    y, p = forecast
    words = np.array(["no", "yes"])[y]
    plain = draw(y, np.column_stack((1 - p, p)), show_legend=False)
    named = draw(pd.Series(words), pd.Series(p), pos_label="yes", show_legend=False)
    np.testing.assert_array_equal(named.curve.observed, plain.curve.observed)
    assert named.ax_.get_xlabel() == "Predicted probability (yes)"
    flipped = draw(words, 1 - p, pos_label="no", show_legend=False).curve
    np.testing.assert_allclose(flipped.observed[::-1], 1 - plain.curve.observed, atol=1e-6)
    np.testing.assert_allclose(flipped.band.lower[::-1], 1 - plain.curve.band.upper, atol=1e-6)


def test_cross_validation_gives_the_pooled_predictions():
    X, y = (part[:200] for part in load_breast_cancer(return_X_y=True))
    X, y = pd.DataFrame(X[:, :4]), np.array(["bad", "good"])[y]
    folds = KFold(4, shuffle=True, random_state=0)
    results = cross_validate(GaussianNB(), X, y, cv=folds, return_estimator=True, return_indices=True)
    rng = np.random.default_rng(0)
    weight, clusters = rng.integers(0, 3, len(y)), np.arange(len(y)) // 2
    given = {"sample_weight": weight, "clusters": clusters, "show_legend": False}
    found = ReliabilityDisplay.from_cv_results(results, X, y, **given)
    p = cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba")[:, 1]
    expected = draw(y == "good", p, **given)
    np.testing.assert_allclose(found.curve.observed, expected.curve.observed, rtol=1e-6)
    np.testing.assert_allclose(found.curve.band.lower, expected.curve.band.lower, atol=0.03)
    assert found.line_.get_label().startswith("GaussianNB: smECE")
    given = {"pos_label": "bad", "curve": "binned", "name": "folds", "show_legend": False}
    bad = ReliabilityDisplay.from_cv_results(results, X, y, **given)
    assert bad.ax_.get_xlabel() == "Predicted probability (bad)"


def test_repeated_cross_validation_clusters_the_predictions_of_a_sample():
    X, y = (part[:150] for part in load_breast_cancer(return_X_y=True))
    X, folds = X[:, :3], RepeatedKFold(n_splits=3, n_repeats=8, random_state=0)
    results = cross_validate(GaussianNB(), X, y, cv=folds, return_estimator=True, return_indices=True)
    found = ReliabilityDisplay.from_cv_results(results, X, y, show_legend=False).curve
    rows = np.concatenate(results["indices"]["test"])
    p = np.empty(rows.size)
    for k, (model, fold) in enumerate(zip(results["estimator"], results["indices"]["test"], strict=True)):
        p[50 * k : 50 * k + 50] = model.predict_proba(X[fold])[:, 1]
    by_hand = draw(y[rows], p, clusters=rows, show_legend=False).curve
    np.testing.assert_array_equal(found.band.lower, by_hand.band.lower)
    independent = draw(y[rows], p, show_legend=False).curve
    width, narrow = (np.median(each.band.upper - each.band.lower) for each in (found, independent))
    assert width > 1.5 * narrow
    with pytest.raises(ValueError, match="clusters"):
        ReliabilityDisplay.from_cv_results(results, X, y, band="simultaneous")


def test_cross_validation_of_several_classes():
    X, y = load_iris(return_X_y=True)
    found = cross_validate(GaussianNB(), X, y, cv=2, return_estimator=True, return_indices=True)
    models, folds = found["estimator"], found["indices"]["test"]
    pairs = [(model.predict_proba(X[rows]), y[rows]) for model, rows in zip(models, folds, strict=True)]
    losses = [((np.eye(3)[labels] - proba) ** 2).sum(axis=1).mean() for proba, labels in pairs]
    params = {"curve": "kernel", "sharpness": "brier"}
    display = ReliabilityDisplay.from_cv_results(found, X, y, **params)
    assert display.curve.decomposition.score == pytest.approx(np.mean(losses))
    assert display.ax_.get_ylabel() == "Observed frequency (predicted class)"
    one = ReliabilityDisplay.from_estimator(models[0], X[folds[0]], y[folds[0]], **params)
    assert one.curve.decomposition.score == pytest.approx(losses[0])
    models[0] = GaussianNB().fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="the estimators of cv_results have different classes"):
        ReliabilityDisplay.from_cv_results(found, X, y, **params)


def test_bad_results_of_cross_validation():
    X, y = load_breast_cancer(return_X_y=True)
    results = cross_validate(GaussianNB(), X, y, cv=2, return_estimator=True, return_indices=True)
    iris = load_iris(return_X_y=True)
    several = cross_validate(GaussianNB(), *iris, cv=2, return_estimator=True, return_indices=True)
    with pytest.raises(ValueError, match=r"y_proba has shape \(150, 3\), but this diagram is for a binary"):
        ReliabilityDisplay.from_cv_results(several, *iris)
    wrong = "cv_results must be the dict of cross_validate"
    other = (results, slice(100), "cv_results has a test fold with row")
    for given, rows, message in ((5, slice(9), wrong), ({"estimator": []}, slice(9), wrong), other):
        with pytest.raises(ValueError, match=message):
            ReliabilityDisplay.from_cv_results(given, X[rows], y[rows])


THIRDS = np.full((3, 3), 1 / 3)
BAD = [
    ({"curve": "corps"}, "curve must be one of"),
    ({"band": "belt"}, "band must be one of"),
    ({"scale": "log"}, "scale must be one of"),
    ({"sample_weight": [1, 1, 0.5], "weights": "frequency"}, "sample_weight must contain whole"),
    ({"sample_weight": [1, 1, 0.5], "weights": "survey"}, "weights must be one of"),
    (
        {"band": "bootstrap", "curve": "binned"},
        "band='bootstrap' is for curve='smooth' or 'kernel', got",
    ),
    ({"band": "confidence", "curve": "kernel"}, "band='confidence' is not for curve='kernel'"),
    ({"sharpness": "brier"}, "sharpness='brier' is for curve='kernel', got curve='smooth'"),
    (
        {"sharpness": "spherical", "curve": "kernel"},
        "sharpness must be one of 'brier', 'log_loss'",
    ),
    (
        {"sharpness": "log_loss", "curve": "kernel", "y_proba": [0.0, 0.4, 0.8]},
        "sharpness='log_loss' is infinite for these predictions of exactly 0 or 1",
    ),
    (
        {"sharpness": "brier", "curve": "kernel", "y_proba": np.full((3, 3), 1 / 3), "pos_label": 1},
        "pos_label=1 needs a binary problem",
    ),
    ({"n_bins": 0}, "n_bins must be at least 1"),
    ({"n_bins": [0, 0.5]}, "n_bins as edges of bins must increase from 0 to 1"),
    ({"strategy": "kmeans"}, "strategy must be one of 'auto', 'uniform', 'quantile'"),
    ({"confidence": 1.0}, "confidence must lie strictly between"),
    ({"y_proba": [0.1, np.nan, 0.3]}, "y_proba contains NaN"),
    ({"y_proba": THIRDS}, "y_proba"),
    ({"clusters": [0, 1]}, "clusters"),
]


def test_bad_input_is_named_before_anything_is_drawn():
    for params, message in BAD:
        arguments = {"y_true": [0, 1, 1], "y_proba": [0.1, 0.4, 0.8]} | params
        with pytest.raises(ValueError, match=message):
            draw(**arguments)
        assert plt.get_fignums() == []


HANDFULS = [[0.4], [0.0] * 6, [0.5, 0.5, 0.5], [0.0, 1.0]]
KINDS = ["binned", "smooth", "isotonic", "kernel"]
PAIRS = [*zip(KINDS, HANDFULS, strict=True)]


@pytest.mark.parametrize(
    ("curve", "p"), PAIRS + [thorough(*pair) for pair in product(KINDS, HANDFULS) if pair not in PAIRS]
)
def test_a_handful_of_predictions_can_be_drawn(curve, p):
    bands = ("consistency", "simultaneous", *(("bootstrap",) if curve in ("smooth", "kernel") else ()))
    bands += () if curve == "kernel" else ("confidence",)
    outcomes = [1] * len(p), np.arange(len(p)) % 2
    for y, scale, band in product(outcomes, ("probability", "logit"), bands):
        sample = check_binary(y, p, pos_label=1)
        found = reliability_curve(sample, curve, scale=scale, band=band, n_resamples=49)
        shown = np.isfinite(found.observed)
        assert shown.any()
        if (curve, band) == ("smooth", "confidence"):
            lower, upper = found.band.lower[shown], found.band.upper[shown]
            assert ((lower >= 0) & (lower <= found.observed[shown])).all()
            assert ((found.observed[shown] <= upper) & (upper <= 1)).all()
    display = ReliabilityDisplay(found).plot(plt.figure().add_subplot(), show_legend=False)
    np.testing.assert_array_equal(display.line_.get_ydata(), found.observed)


def test_grid_of_classes_against_the_rest(classes):
    y, proba = classes
    displays = reliability_grid(y, proba, curve="binned")
    assert [display.name for display in displays] == ["bird", "cat", "dog"]
    for k, display in enumerate(displays):
        alone = reliability_curve(check_binary(y == display.name, proba[:, k] / proba.sum(1)), "binned")
        np.testing.assert_allclose(display.curve.observed, alone.observed)
        error = metrics.expected_calibration_error(y == display.name, proba[:, k])
        assert display.ax_.get_title() == f"{display.name}\nECE = {error:.3f}"
    (legend,) = displays[0].figure_.legends
    expected = ["perfect calibration", "calibration curve", "95% confidence intervals (pointwise)", "Count"]
    assert [text.get_text() for text in legend.get_texts()] == expected


@pytest.mark.parametrize("weighted", [False, True])
def test_grid_of_groups(forecast, weighted):
    y, p = forecast
    words = np.array(["no", "yes"])[y]
    # one group has one class only
    groups = pd.Series(np.where(y == 1, "events", "mixed")).mask(np.arange(300) < 60, "mixed")
    weight = np.random.default_rng(0).integers(0, 3, 300) if weighted else None
    options = {"sample_weight": weight, "weights": "frequency", "pos_label": "yes"}
    displays = reliability_grid(words, p, groups=groups, **options, show_legend=False)
    for display, name in zip(displays, ("events", "mixed"), strict=True):
        rows = (groups == name).to_numpy()
        part = None if weight is None else weight[rows]
        size = rows.sum() if weight is None else part.sum()
        assert display.name == f"{name} (n = {size})"
        assert display.curve.error == pytest.approx(metrics.smooth_ece(y[rows], p[rows], sample_weight=part))
    if weighted:
        options |= {"weights": "sampling", "show_legend": False}
        displays = reliability_grid(words, p, groups=groups, **options)
        assert displays[0].name == f"events (n = {(weight[(groups == 'events')] > 0).sum()})"
        assert displays[0].ax_histogram_.get_ylabel().startswith("Weighted\ncount")


@pytest.mark.thorough
def test_grid_of_models_on_logit_axes(rare):
    y, p = (part[:300] for part in rare)
    clusters, models = np.arange(300) // 3, {"a": p, "b$": p**1.2}
    displays = reliability_grid(y, models, scale="logit", show_legend=False, clusters=clusters)
    for display, prediction in zip(displays, (p, p**1.2), strict=True):
        alone = reliability_curve(check_binary(y, prediction, clusters=clusters), scale="logit")
        np.testing.assert_array_equal(display.curve.band.upper, alone.band.upper)
    assert displays[0].ax_.get_xlim() == displays[1].ax_.get_xlim()
    assert not displays[0].figure_.legends


@pytest.mark.thorough
def test_a_grid_of_rare_events_has_one_range(one_percent):
    y, p = one_percent
    models = {"a model with a name that is too long for a line": p, "b": np.minimum(6 * p, 1), "c": p / 2}
    displays = reliability_grid(y, models, show_legend=False)
    edges = [display.curve.edges for display in displays]
    np.testing.assert_array_equal(edges[0], edges[1])
    assert edges[0][[0, -1]] == pytest.approx((0.0, 6 * 0.049))
    for display in displays:
        assert display.curve.counts.sum() == 20_000 - 4
    assert displays[0].ax_.get_title().endswith("(4 predictions above 0.294\nnot shown)")


@pytest.mark.thorough
@pytest.mark.parametrize("largest", [0.4, 1.0])
def test_counts_of_large_samples_fit_into_default_figures(largest):
    rng = np.random.default_rng(0)
    p = largest * rng.beta(1, 3 if largest < 1 else 1, 1_000)
    display = draw(rng.random(1_000) < p, p, sample_weight=np.full(1_000, 2_000), ax=plt.subplots()[1])
    display.figure_.draw_without_rendering()
    assert display.ax_histogram_.get_tightbbox().x0 >= 0.0


def test_a_grid_of_seven():
    y, p = simulated_classes(200, np.ones(7))
    given = {"curve": "binned", "band": None, "show_histogram": False}
    figure = reliability_grid(y, p, labels=range(7), **given, show_legend=False)[0].figure_
    # the eighth place of the grid is empty
    assert [ax.axison for ax in figure.axes] == [True] * 7 + [False]
    assert [ax.get_xlabel() != "" for ax in figure.axes] == [False] * 3 + [True] * 4 + [False]
    assert [ax.get_ylabel() != "" for ax in figure.axes] == [True, False, False, False] * 2


def test_grid_of_models_and_classes_in_data_frames(classes):
    y, proba = classes
    models = {"a": pd.DataFrame(proba, columns=["bird", "cat", "dog"]), "b": np.full((len(y), 3), 1 / 3)}
    displays = reliability_grid(y, models, show_legend=False, band=None)
    assert [each.name for each in displays] == [f"{m}: {c}" for m in "ab" for c in ("bird", "cat", "dog")]
    for display, alone in zip(displays, reliability_grid(y, proba, band=None), strict=False):
        assert display.curve.error == alone.curve.error


def test_grid_of_labels(forecast):
    y, p = forecast
    Y, P = np.column_stack([y, 1 - y]), np.column_stack([p, 1 - p**2])
    each = [np.column_stack([1 - q, q]) for q in P.T]
    for predictions in (P, each, {"m": each}):
        displays = reliability_grid(Y, predictions, show_legend=False, band=None)
        prefix = "m: " if isinstance(predictions, dict) else ""
        assert [display.name for display in displays] == [f"{prefix}label 0", f"{prefix}label 1"]
        for k, display in enumerate(displays):
            assert display.curve.error == pytest.approx(metrics.smooth_ece(Y[:, k], P[:, k]))
    named = reliability_grid(pd.DataFrame(Y, columns=["red", "big"]), P, show_legend=False, band=None)
    assert [display.name for display in named] == ["label red", "label big"]


def test_labels_of_two_classes(forecast):
    y, p = forecast
    words = np.array(["no", "yes"])[y]
    grid = reliability_grid(words, {"a": p, "b": p**2}, labels=["no", "yes"])
    for display in (draw(words, p, labels=["no", "yes"]), grid[0]):
        assert display.curve.error == metrics.smooth_ece(y, p)
        assert display.ax_.get_ylabel() == "Observed frequency (yes)"
    with pytest.raises(ValueError, match="pos_label='no' contradicts labels"):
        draw(words, p, labels=["no", "yes"], pos_label="no")


def test_several_classes_or_labels_name_the_grid(forecast):
    y, p = forecast
    columns = np.column_stack([p / 9] * 9 + [1 - p])
    for proba in (columns, [np.column_stack([1 - p, p])] * 10):
        with pytest.raises(ValueError, match=r"y_proba has shape \(300, 10\), .*reliability_grid"):
            draw(9 * (1 - y), proba)
    with pytest.raises(ValueError, match=r"y_true has shape \(300, 2\), .*reliability_grid"):
        draw(columns[:, :2] > 0, columns[:, :2])
    model = DecisionTreeClassifier(max_depth=2).fit(columns, np.column_stack([y, y]))
    with pytest.raises(ValueError, match=r"y_true has shape \(300, 2\), .*reliability_grid"):
        ReliabilityDisplay.from_estimator(model, columns, np.column_stack([y, y]))


def test_a_grid_needs_several_parts(forecast):
    y, p = forecast
    for predictions, given, message in (
        (p, {}, "predictions must have one column for each"),
        (p, {"groups": [1, 2]}, "groups has 2 samples"),
        ({"a": p, "b": p}, {"groups": y}, "groups need the predictions of one model"),
        ({"a": p}, {"band": "belt"}, "band must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            reliability_grid(y, predictions, **given)
    assert plt.get_fignums() == []


@pytest.mark.parametrize("kind", ["none", "sampling", "frequency", "clusters", "case-control", "both"])
def test_annotation_of_the_clinical_numbers(kind):
    rng = np.random.default_rng(3)
    p = np.clip(np.round(expit(rng.normal(-0.7, 1.2, 300)), 2), 0.01, 0.99)
    y = (rng.random(300) < expit(0.3 + 0.8 * logit(p))).astype(int)
    w = {
        "sampling": rng.lognormal(size=300),
        "both": rng.lognormal(size=300),
        "frequency": rng.integers(0, 4, 300),
        "case-control": np.where(y == 1, 1.0, 7.0),
    }.get(kind)
    given = {"clusters": rng.integers(0, 40, 300)} if kind in ("clusters", "both") else {}
    given["weights"] = "frequency" if kind == "frequency" else "sampling"
    shown = {"curve": "binned", "band": None, "show_histogram": False, "show_legend": False}
    display = draw(y, p, annotate=True, sample_weight=w, **given, **shown)
    # the numbers describe the population: weights by class are like any others
    w = w if kind != "case-control" else w * (1 + 1e-9 * rng.random(300))
    summary = metrics.calibration_summary(y, p, sample_weight=w, **given)
    lines = {"slope": summary.slope, "intercept": summary.intercept}
    lines["observed/expected"] = summary.observed_over_expected
    expected = ["estimate [95% interval]"]
    expected += [f"{name} {x.estimate:.2f} [{x.lower:.2f}, {x.upper:.2f}]" for name, x in lines.items()]
    auc, brier = roc_auc_score(y, p, sample_weight=w), np.average((y - p) ** 2, weights=w)
    expected += [f"AUC {auc:.3f}", f"Brier score {brier:.3f}"]
    assert display.annotation.split("\n") == expected
    assert display.ax_.texts[0].get_text() == display.annotation


@pytest.mark.thorough
def test_the_annotation_leaves_the_curve_its_corner():
    p, rng = np.linspace(0.01, 0.99, 400), np.random.default_rng(0)
    for power, upper in ((0.15, False), (2.0, True)):
        display = draw((rng.random(400) < p**power).astype(int), p, annotate=True)
        display.figure_.draw_without_rendering()
        (text,) = display.ax_.texts
        box = text.get_window_extent()
        assert (box.y0 > display.ax_.get_window_extent().y0 + 0.5 * display.ax_.bbox.height) == upper
        points = display.ax_.transData.transform(display.line_.get_xydata())
        assert not any(box.contains(*point) for point in points)
        histogram = display.ax_histogram_.get_window_extent()
        assert box.y0 >= histogram.y1


@pytest.mark.thorough
def test_annotations_of_several_curves_have_their_names_and_colors(forecast):
    y, p = forecast
    ax = plt.subplots(figsize=(6, 7), layout="constrained")[1]
    first = draw(y, p, name="a: b", annotate=True, ax=ax)
    (alone,) = ax.texts
    assert alone.get_text() == first.annotation
    draw(y, p**1.1, name="no text", ax=ax)
    more = (draw(y, p**power, annotate=True, ax=ax) for power in (0.3, 1.5))
    displays = [first, *more]
    names = ["a: b", *(display.curve.label for display in displays[1:])]
    expected = [f"{name}\n{display.annotation}" for name, display in zip(names, displays, strict=True)]
    assert [text.get_text() for text in ax.texts] == expected
    assert [text.get_color() for text in ax.texts] == [each.line_.get_color() for each in displays]
    # none hides another
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(one.overlaps(other) for k, one in enumerate(boxes) for other in boxes[:k])


@pytest.mark.thorough
def test_histograms_of_many_models_have_their_own_rows(forecast):
    y, p = forecast
    _, ax = plt.subplots(figsize=(6, 7), layout="constrained")
    powers = (1.0, 1.2, 0.8, 1.5, 0.5)
    displays = [draw(y, p**power, ax=ax) for power in powers]
    (histogram,) = ax.child_axes
    assert {display.ax_histogram_ for display in displays} == {histogram}
    highest = max(display.curve.counts.max() for display in displays)
    assert histogram.get_ylabel().endswith(f"to {highest:,.6g}")
    assert histogram.get_ylim() == (0, 5)
    for k, (steps, display) in enumerate(zip(histogram.patches, displays, strict=True)):
        values, _, base = steps.get_data()
        assert base == 4 - k
        assert np.all((values >= base) & (values < base + 1))
        # an empty bin has no bar, a bin with one prediction is seen
        assert np.array_equal(values > base, display.curve.counts > 0)
        order, expected = (np.argsort(each, kind="stable") for each in (values, display.curve.counts))
        assert np.array_equal(order, expected)
    # the diagram is as high as that of one curve
    bottom = ax.transAxes.inverted().transform(ax.transData.transform((0.0, 0.0)))[1]
    assert 0.13 < bottom < 0.17
    # the legend says that there are no bands
    assert ax.get_legend().get_title().get_text() == "Bands are drawn for at most 3 curves"
    assert not ax.collections
    assert [display.band_ is None for display in displays] == [False] * 3 + [True] * 2


@pytest.mark.thorough
@pytest.mark.parametrize("number", [1, 3])
def test_axes_of_a_pickled_figure_hold_what_was_drawn(forecast, number):
    y, p = forecast
    _, original = plt.subplots(figsize=(6, 7), layout="constrained")
    for k in range(number):
        draw(y, p ** (1 + 0.2 * k), name=f"{k}", annotate=True, ax=original)
    (restored,) = pickle.loads(pickle.dumps(original.figure)).axes
    pictures = []
    for ax in (original, restored):
        last = draw(y, p**0.5, name="last", annotate=True, ax=ax)
        ax.figure.draw_without_rendering()
        (histogram,) = ax.child_axes
        assert last.ax_histogram_ is histogram
        assert len(histogram.patches) == len(ax.texts) == number + 1
        words = [(text.get_text(), text.get_color(), text.get_window_extent().bounds) for text in ax.texts]
        steps = [(*map(np.ndarray.tolist, s.get_data()[:2]), s.get_edgecolor()) for s in histogram.patches]
        place = histogram.get_position().bounds, histogram.get_ylim(), histogram.get_ylabel()
        limits = ax.get_xlim(), ax.get_ylim()
        pictures.append([words, steps, place, limits, last.line_.get_color(), texts(ax)])
    assert pictures[0] == pictures[1]
    with pytest.raises(ValueError, match="ax has a diagram with scale='probability'"):
        draw(y, p, scale="logit", ax=restored)


def test_removed_curves_are_forgotten(forecast, ax):
    y, p = forecast
    draw(y, p, annotate=True, ax=ax)
    ax.clear()
    display = draw(y, p, scale="logit", annotate=True, ax=ax)
    assert [text.get_text() for text in ax.texts] == [display.annotation]
    assert len(display.ax_histogram_.patches) == 1
    display.line_.remove()
    display.plot(ax)
    assert len(ax.texts) == len(display.ax_histogram_.patches) == 1


def test_a_bin_with_few_predictions_is_seen(forecast):
    p = np.concatenate([np.full(600, 0.99), [0.21, 0.41], np.full(8, 0.61)])
    y = np.arange(p.size) % 2
    display = draw(y, p, curve="binned")
    histogram = display.ax_histogram_
    assert (histogram.get_yscale(), histogram.get_ylabel()) == ("log", "Count\n(log)")
    assert [label.get_text() for label in histogram.get_yticklabels()] == ["1", "100"]
    low, high = np.log(histogram.get_ylim())
    assert (np.log(1) - low) / (high - low) > 0.05


@pytest.mark.thorough
def test_counts_of_a_figure_have_one_scale(forecast):
    y, p = forecast
    _, (left, right) = plt.subplots(1, 2)
    for k in range(4):
        first = draw(y, p, ax=left, name=str(k))
        # counts in rows of each model are linear, too
        assert first.ax_histogram_.get_ylabel().split("\n")[0] == "Count"
    other = np.append(p, np.full(20 * p.size, 0.99))
    second = draw(np.append(y, np.ones(20 * p.size, int)), other, ax=right)
    assert second.ax_histogram_.get_ylabel() == "Count\n(log)"
    assert first.ax_histogram_.get_ylabel().startswith("Count (log)\nto")


@pytest.mark.parametrize(
    ("n", "shape"), [(2, (1, 2)), (5, (2, 3)), *map(thorough, (4, 10), ((2, 2), (3, 4)))]
)
def test_shape_of_a_grid(forecast, n, shape):
    y, p = forecast
    models = {f"model {k}": p for k in range(n)}
    given = {"curve": "binned", "band": None, "show_histogram": False, "show_legend": False}
    (ax, *_) = (display.ax_ for display in reliability_grid(y, models, **given))
    assert ax.get_gridspec().get_geometry() == shape


def test_columns_size_and_axes_of_a_grid(forecast):
    y, p = forecast
    models = {f"model {k}": p for k in range(5)}
    given = {"curve": "binned", "band": None}
    (display, *_) = reliability_grid(y, models, n_cols=4, figsize=(7, 5), **given)
    assert display.ax_.get_gridspec().get_geometry() == (2, 4)
    assert tuple(display.figure_.get_size_inches()) == (7, 5)
    figure, axes = plt.subplots(2, 3, figsize=(7, 6), layout="constrained")
    displays = reliability_grid(y, models, ax=axes.ravel()[:5], **given)
    assert [each.ax_ for each in displays] == list(axes.ravel()[:5])
    assert not axes[-1, -1].has_data()
    assert axes[0, 1].get_xlabel() == "Predicted probability"
    assert len(figure.legends) == 1
    for bad, message in (
        ({"ax": axes}, "ax must be an array of 5 matplotlib Axes, got 6 axes"),
        ({"ax": axes.ravel()[:5], "n_cols": 2}, "n_cols and figsize are those of a new figure, but ax is"),
        ({"n_cols": 0}, "n_cols must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            reliability_grid(y, models, **bad)


@pytest.mark.thorough
@pytest.mark.parametrize("p", [[0.3] * 50, [0.3, 0.301] * 25, [0.001] * 50])
def test_logit_axes_of_nearly_equal_predictions_are_readable(p):
    y = (np.arange(50) < 12) & (np.array(p) > 0.01)
    display = draw(y.astype(int), p, scale="logit", pos_label=1)
    left, right = display.ax_.get_xlim()
    assert 1.0 <= logit(right) - logit(left) < 4.0
    assert left < min(p)
    assert max(p) < right
    # the points and finite ends of their intervals lie within the axes
    low, high = display.ax_.get_ylim()
    band = display.curve.band
    inside = np.concatenate((display.curve.observed, band.lower, band.upper))
    inside = inside[(inside > 0) & (inside < 1)]
    assert ((inside > low) & (inside < high)).all()
    assert not any("000000" in label.get_text() for label in display.ax_.get_xticklabels())


def test_no_number_is_minus_zero():
    y, p = np.repeat([0, 1], 500), np.full(1000, 0.5005)
    display = draw(y, p, annotate=True, show_legend=False)
    assert "intercept 0.00 [-0.13, 0.12]" in display.annotation
