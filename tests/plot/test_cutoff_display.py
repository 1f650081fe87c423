"""CutoffDisplay: the walk by its definition, a strip that agrees with the test, words that are true."""

import numpy as np
import pytest

from sklearn_calib.inference import CutoffTest
from sklearn_calib.metrics import cutoff_result
from sklearn_calib.plot import CutoffDisplay
from tests._references import brownian_range_tail
from tests._samples import simulated
from tests.plot._legend import legend_texts

plt = pytest.importorskip("matplotlib.pyplot")
draw = CutoffDisplay.from_predictions


@pytest.fixture(scope="module")
def forecast():
    return simulated(300, "beta", 0.7, 0.9, truth=1.5, digits=2)


def reference_walk(y, p, w):
    """Return distinct predictions and the walk by its definition, row by row."""
    at, total = sorted(set(p.tolist())), sum(w)
    walk = [sum(w[i] * (y[i] - p[i]) for i in range(len(y)) if p[i] <= t) / total for t in at]
    share = [sum(w[i] for i in range(len(y)) if p[i] <= t) / total for t in at]
    return np.array(at), np.array(walk), np.array(share)


@pytest.mark.parametrize("weighted", [False, True])
def test_drawn_equals_definition(forecast, weighted):
    y, p = forecast
    w = np.random.default_rng(1).random(300) if weighted else np.ones(300)
    given = w if weighted else None
    at, walk, share = reference_walk(y, p, w)
    result = cutoff_result(y, p, sample_weight=given)
    display = draw(y, p, sample_weight=given, name="model")
    x, drawn = display.line_.get_data()
    assert display.line_.get_drawstyle() == "steps-post"
    np.testing.assert_array_equal(x[:1], 0.0)
    np.testing.assert_array_equal(x[1 : at.shape[0] + 1], at)
    np.testing.assert_allclose(drawn[1 : at.shape[0] + 1], walk, atol=1e-12)
    assert drawn[0] == 0.0
    levels = sorted(segment[0, 1] for segment in np.array(display.levels_.get_segments()))
    assert levels[1] - levels[0] == pytest.approx(result.value, rel=1e-12)
    np.testing.assert_allclose(levels, [min(0.0, walk.min()), max(0.0, walk.max())], atol=1e-12)
    box = display.interval_.get_bbox()
    assert (box.x0, box.x1) == (result.lower, result.upper)
    words = f"model: cutoff error {result.value:.3f}, miscalibrated (p = "
    assert display.line_.get_label().startswith(words)
    assert display.ax_.get_ylim()[0] < levels[0]
    display = draw(y, p, sample_weight=given, x="fraction")
    x, drawn = display.line_.get_data()
    np.testing.assert_allclose((x[1:], drawn[1:]), (share, walk), atol=1e-12)
    # the walk is at one level at the start of the interval, and at the other at its end
    ends = display.interval_.get_bbox().x0, display.interval_.get_bbox().x1
    np.testing.assert_allclose(sorted(np.interp(ends, x, drawn)), levels, atol=1e-12)


def test_a_case_by_hand():
    # residuals -.2 at .2; -.8 + .2 at .8; .1 at .9: the walk is 0, -.05, -.2, -.175
    display = draw([0, 0, 1, 1], [0.2, 0.8, 0.8, 0.9], show_legend=False)
    walk = [0.0, -0.05, -0.2, -0.175, -0.175]
    np.testing.assert_allclose(display.line_.get_data(), ([0.0, 0.2, 0.8, 0.9, 1.0], walk))
    # three quarters of the rows are off by .8 / 3 on average
    assert display.interval_.get_label() == "worst 0.20\u20130.80: overpredicts by 27 percentage points"


@pytest.mark.parametrize(
    ("method", "power", "confidence"),
    [("monte_carlo", 0.8, 0.9), ("monte_carlo", 1.0, 0.95), ("monte_carlo", 1.15, 0.9),
     ("monte_carlo", 2.0, 0.95), ("asymptotic", 0.8, 0.95), ("asymptotic", 1.15, 0.95),
     ("asymptotic", 1.0, 0.9)],
)  # fmt: skip
def test_the_walk_leaves_the_strip_if_and_only_if_the_test_rejects(method, power, confidence):
    ax = plt.figure().add_subplot()
    for seed in range(2):
        ax.clear()
        y, p = simulated(200, seed=seed, truth=power, digits=2)
        test = CutoffTest(method=method, n_resamples=199, random_state=seed).test(y, p)
        display = CutoffDisplay(cutoff_result(y, p), test=test)
        display.plot(ax=ax, confidence=confidence, show_legend=False)
        box, walk = display.strip_.get_bbox(), display.line_.get_ydata()
        assert box.y0 - 1e-15 <= 0.0 <= box.y1 + 1e-15
        within = bool((walk >= box.y0 - 1e-12).all() and (walk <= box.y1 + 1e-12).all())
        assert within == (not test.rejects(1.0 - confidence + 1e-12))
        assert display.strip_.get_label() == f"{100 * confidence:g}% null band"
        assert display.ax_.get_ylim()[0] < box.y0
        assert ("no evidence" in display.line_.get_label()) == within


def test_height_of_the_strip():
    y, p = simulated(15_000)
    result, display = cutoff_result(y, p), draw(y, p, show_legend=False)
    deviation, height = np.sqrt((p * (1 - p)).sum()) / 15_000, display.strip_.get_bbox().height
    assert height == pytest.approx(2.4977 * deviation, rel=1e-4)
    assert brownian_range_tail(height / deviation) == pytest.approx(0.05, rel=1e-6)
    drawn = CutoffTest(method="monte_carlo", n_resamples=999, random_state=0).test(y, p)
    found = CutoffDisplay(result, test=drawn).plot(show_legend=False).strip_.get_bbox().height
    assert found == pytest.approx(height, rel=0.06)
    # the critical draw is the 50th from above of 999
    assert found == pytest.approx(np.sort(drawn.null_distribution)[-50] * deviation, rel=1e-12)


def test_whole_weights_are_repetitions(forecast):
    y, p = forecast
    times = np.random.default_rng(0).integers(0, 4, 300)
    weighted = draw(y, p, sample_weight=times, weights="frequency", show_legend=False)
    repeated = draw(np.repeat(y, times), np.repeat(p, times), show_legend=False)
    np.testing.assert_allclose(weighted.line_.get_data(), repeated.line_.get_data(), atol=1e-15)
    assert weighted.line_.get_label() == repeated.line_.get_label()
    assert weighted.interval_.get_label() == repeated.interval_.get_label()
    assert weighted.strip_.get_bbox().height == pytest.approx(repeated.strip_.get_bbox().height, rel=1e-12)
    assert weighted.test.n_samples == times.sum()


def test_the_strip_of_sampling_weights_decides_as_the_test(forecast):
    y, p = forecast
    given = {"n_resamples": 199, "show_legend": False}
    plain, equal = (draw(y, p, sample_weight=w, **given) for w in (None, np.full(300, 0.5)))
    assert equal.strip_.get_bbox().height == pytest.approx(plain.strip_.get_bbox().height, rel=1e-9)
    for power in (1.0, 2.0):
        w = np.random.default_rng(0).choice([1, 10], 300)
        display = draw(y, p**power, sample_weight=w, **given)
        assert display.test == CutoffTest(n_resamples=199, random_state=0).test(y, p**power, sample_weight=w)
        inside = display.result.value <= display.strip_.get_bbox().height
        assert inside == (not display.test.rejects())
    # wider than that of counts
    counted = draw(y, p, sample_weight=w, weights="frequency", **given).strip_.get_bbox().height
    assert display.strip_.get_bbox().height > 2 * counted


def test_case_control_weights_have_a_pvalue_and_no_strip(forecast):
    y, p = forecast
    w = np.where(y == 1, 0.3, 2.0)
    display = draw(y, p, sample_weight=w, show_legend=False)
    corrected = p / 0.3 / (p / 0.3 + (1 - p) / 2.0)
    assert display.test.pvalue == CutoffTest(random_state=0).test(y, corrected).pvalue
    assert display.strip_ is None


def test_thinning_loses_no_extreme():
    result = cutoff_result(*simulated(60_000, "beta", 1 / 3, 1))
    for x in ("probability", "fraction"):
        display = CutoffDisplay(result).plot(x=x, show_legend=False)
        at, walk = display.line_.get_data()
        box = display.interval_.get_bbox()
        assert at.shape[0] <= 4002
        assert (np.diff(at) >= 0).all()
        assert (at[0], walk[0]) == (0.0, 0.0)
        full, position = np.append(0.0, result.walk), np.append(0.0, result.probabilities)
        if x == "fraction":
            position = np.append(0.0, np.cumsum(result.weight)) / 60_000
        assert (walk.min(), walk.max()) == (full.min(), full.max())
        assert walk[-1] == full[-1]
        # each of 1000 columns keeps both
        for j in range(0, 1000, 37):
            chosen = np.minimum(np.floor(position * 1000), 999) == j
            kept = np.minimum(np.floor(at * 1000), 999) == j
            if chosen.any():
                assert (walk[kept].min(), walk[kept].max()) == (full[chosen].min(), full[chosen].max())
        assert set(zip(at[:-1], walk[:-1], strict=True)) <= set(zip(position, full, strict=True))
        assert 0 <= box.x0 < box.x1 <= 1


def test_what_is_not_asked_for_is_not_drawn(forecast):
    display = draw(*forecast, show_interval=False, confidence=None, show_legend=False)
    assert (display.interval_, display.levels_, display.strip_) == (None, None, None)
    assert display.ax_.get_legend() is None
    display = CutoffDisplay(cutoff_result(*forecast)).plot()
    assert display.strip_ is None
    assert "p =" not in display.line_.get_label()


def test_nothing_to_show():
    perfect = draw([0, 1, 1], [0.0, 1.0, 1.0], show_legend=False)
    assert perfect.interval_ is None
    assert perfect.strip_ is None
    assert perfect.line_.get_label() == "cutoff error 0.000, no evidence of miscalibration (p = 1)"
    wrong = draw([0, 1, 1], [0.0, 1.0, 0.0], show_legend=False)
    assert wrong.strip_ is None
    assert "1 of 3 predictions of\nexactly 0 or 1 that are contradicted" in wrong.line_.get_label()
    one = draw([1], [0.5], show_legend=False)
    assert one.line_.get_ydata().tolist() == [0.0, 0.5, 0.5]
    weights = draw([0, 1], [0.0, 1.0], sample_weight=[0.5, 0.7], show_legend=False)
    assert weights.strip_ is None


def test_the_legend_counts_predictions_beyond_the_axis():
    rng = np.random.default_rng(0)
    p = np.append(0.3 * rng.random(4000), [0.6, 0.7])
    y, end = (rng.random(4002) < p).astype(int), np.sort(p)[int(np.ceil(0.9995 * len(p))) - 1]
    display = draw(y, p, n_resamples=39)
    label = display.line_.get_label()
    assert label.endswith(f"\n({(p > end).sum()} predictions above {end:.3g} not shown)")
    assert "not shown" not in display.plot(x="fraction").line_.get_label()


def test_several_on_shared_axes(forecast):
    y, p = forecast
    ax = plt.subplots()[1]
    first = draw(y, p, ax=ax, name="before")
    assert None not in (first.interval_, first.levels_, first.strip_)
    second = draw(y, p**1.5, ax=ax, name="after", color="purple")
    # areas of several models would hide each other
    assert (second.interval_, second.levels_, second.strip_) == (None, None, None)
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    assert second.line_.get_color() == "purple"
    low, high = ax.get_ylim()
    for display in (first, second):
        assert low < display.line_.get_ydata().min()
        assert high > display.line_.get_ydata().max()
    shown = [first.interval_.get_label(), first.strip_.get_label()]
    assert legend_texts(second) == [first.line_.get_label(), second.line_.get_label(), *shown]


def test_errors_name_the_argument(forecast):
    bad = {"x": "rows", "confidence": 1.0, "n_resamples": 0, "clusters": [0, 1], "random_state": "seed"}
    for name, value in bad.items():
        with pytest.raises(TypeError if name == "random_state" else ValueError, match=name):
            draw(*forecast, **{name: value})
    with pytest.raises(ValueError, match=r"confidence=0.999 needs more .* n_resamples >= 999, or confid"):
        draw(*forecast, n_resamples=99, confidence=0.999)
    with pytest.raises(ValueError, match="y_proba must have shape"):
        draw([0, 1, 2], np.eye(3))
    assert plt.get_fignums() == []
