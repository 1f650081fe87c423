"""DecisionDisplay: gaps and their floor by definition, the bound, and a p-value of the right level."""

from itertools import product

import numpy as np
import pytest

from sklearn_calib.metrics import cutoff_calibration_error, decision_risk_result
from sklearn_calib.plot import DecisionDisplay

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

THIRDS = [0.2, 0.5, 0.7]


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    p = np.round(rng.beta(0.7, 0.9, 300), 2)
    return (rng.random(300) < p**1.5).astype(int), p


def reference_gap(y, p, w, tau):
    """Return the risk gap by trying every cut of the predictions."""

    def risk(cut):
        total = 0.0
        for yi, pi, wi in zip(y, p, w, strict=True):
            total += wi * (tau * (1 - yi) if pi >= cut else (1 - tau) * yi)
        return total / sum(w)

    return risk(tau) - min(risk(cut) for cut in [*sorted(set(p)), 2.0])


def null_of(y, p, thresholds, n_resamples=199, seed=0, weight=None, confidence=0.95):
    display = DecisionDisplay.from_predictions(
        y,
        p,
        thresholds=thresholds,
        sample_weight=weight,
        pos_label=1,
        confidence=confidence,
        n_resamples=n_resamples,
        random_state=np.random.default_rng(seed),
    )
    plt.close(display.figure_)
    return display.null


def test_drawn_equals_definition(forecast):
    y, p = forecast[0][:60], forecast[1][:60]
    w = np.random.default_rng(1).random(60)
    tau = np.array([0.7, 0.1, 0.5, 0.33])
    display = DecisionDisplay.from_predictions(y, p, sample_weight=w, thresholds=tau, n_resamples=19)
    x, gap = display.line_.get_data()
    np.testing.assert_array_equal(x, np.sort(tau))
    expected = [reference_gap(y, p, w, t) for t in np.sort(tau)]
    np.testing.assert_allclose(gap, expected, atol=1e-12)
    worst = int(np.argmax(expected))
    assert display.worst_.get_xdata() == [x[worst]]
    assert display.worst_.get_ydata() == [gap[worst]]
    text = f"largest at {x[worst]:.2f}: {gap[worst]:.3f}, p = {display.null.pvalue:.2g}"
    assert display.worst_.get_label() == text
    bound = cutoff_calibration_error(y, p, sample_weight=w)
    np.testing.assert_allclose(display.bound_.get_ydata(), bound, rtol=1e-9)
    # the area reaches from 0 to the quantile of each threshold
    (path,) = display.null_band_.get_paths()
    order = np.argsort(tau)
    for t, top in zip(tau[order], display.null.quantile[order], strict=True):
        heights = path.vertices[path.vertices[:, 0] == t, 1]
        assert heights.max() == pytest.approx(top)
        assert heights.min() == 0.0


def test_a_case_by_hand():
    # acting from .6 on costs .5 * 2 / 4; not acting below .8 costs nothing
    display = DecisionDisplay.from_predictions([0, 0, 0, 1], [0.1, 0.6, 0.7, 0.8], thresholds=[0.5])
    assert display.line_.get_ydata() == [0.25]
    assert display.line_.get_marker() == "o"


def test_no_gap_exceeds_the_cutoff_error():
    rng = np.random.default_rng(0)
    tightest = 0.0
    for _ in range(300):
        n = rng.integers(1, 30)
        p = np.round(rng.random(n), rng.integers(1, 4))
        y = (rng.random(n) < rng.random(n)).astype(int)
        w = rng.random(n) + 0.01
        tau = np.concatenate((np.linspace(0.01, 0.99, 99), p[(p > 0) & (p < 1)]))
        gap = decision_risk_result(y, p, thresholds=tau, sample_weight=w, pos_label=1).gap.max()
        bound = cutoff_calibration_error(y, p, sample_weight=w, pos_label=1)
        assert gap <= bound + 1e-12
        tightest = max(tightest, gap / bound if bound else 0.0)
    # and no smaller bound by a factor would do
    assert tightest > 0.99


def test_floor_by_enumeration():
    p, w = np.array([0.2, 0.4, 0.4, 0.6, 0.9]), np.ones(5)
    distribution = []
    for y in product([0, 1], repeat=5):
        chance = np.prod(np.where(np.array(y) == 1, p, 1 - p))
        distribution.append((chance, [reference_gap(y, p, w, t) for t in THIRDS]))
    mean = sum(chance * np.array(gaps) for chance, gaps in distribution)
    observed = [0, 1, 0, 0, 0]
    largest = max(reference_gap(observed, p, w, t) for t in THIRDS)
    pvalue = sum(chance for chance, gaps in distribution if max(gaps) >= largest - 1e-12)
    for weight in (None, np.full(5, 0.3)):
        floor = null_of(observed, p, THIRDS, 8000, weight=weight)
        # the gaps are below 1/2, their standard errors below .5 / sqrt(8000)
        np.testing.assert_allclose(floor.mean, mean, atol=4 * 0.5 / np.sqrt(8000))
        assert floor.pvalue == pytest.approx(pvalue, abs=4 * 0.5 / np.sqrt(8000))
        for k, quantile in enumerate(floor.quantile):
            beyond = sum(chance for chance, gaps in distribution if gaps[k] > quantile + 1e-9)
            assert beyond <= 0.05 + 0.015


def test_weights_stay_with_their_rows():
    # one row outweighs all others: with weight all but 1 on it the gap is that of the row alone
    p = np.array([0.3, 0.6, 0.8])
    w = np.array([0.5, 1e6 + 0.5, 0.5])
    floor = null_of([0, 1, 1], p, [0.5], 4000, weight=w)
    # the row is acted upon; without event this costs .5, and it has none with probability .4
    assert floor.mean[0] == pytest.approx(0.4 * 0.5, abs=4 * 0.25 / np.sqrt(4000))


def test_order_of_weighted_rows_does_not_matter(forecast):
    y, p = forecast
    rng = np.random.default_rng(0)
    w, order = rng.uniform(0.5, 2.0, 300), rng.permutation(300)
    one, other = (null_of(y[rows], p[rows], THIRDS, 99, weight=w[rows]) for rows in (np.arange(300), order))
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
    np.testing.assert_allclose(one.quantile, other.quantile, rtol=1e-12)
    assert one.pvalue == other.pvalue


def test_whole_weights_are_repetitions(forecast):
    y, p = forecast
    times = np.random.default_rng(0).integers(0, 4, 300)
    weighted = DecisionDisplay.from_predictions(y, p, sample_weight=times, n_resamples=39)
    repeated = DecisionDisplay.from_predictions(np.repeat(y, times), np.repeat(p, times), n_resamples=39)
    np.testing.assert_allclose(weighted.line_.get_data(), repeated.line_.get_data(), atol=1e-14)
    np.testing.assert_allclose(weighted.null.quantile, repeated.null.quantile, atol=1e-14)
    assert weighted.null.pvalue == repeated.null.pvalue


@pytest.mark.thorough
def test_level_of_the_pvalue():
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 0.9, 80)
    found = []
    for seed in range(300):
        y = (rng.random(80) < p).astype(int)
        found.append(null_of(y, p, np.linspace(0.1, 0.9, 9), 19, seed).pvalue)
    for level in (0.1, 0.3):
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level * (1 - level) / 300)
    assert np.mean(np.array(found) <= 0.3) > 0.15


def test_strong_miscalibration_is_found(forecast):
    rng = np.random.default_rng(0)
    p = rng.random(1000)
    display = DecisionDisplay.from_predictions(rng.random(1000) < p**3, p, n_resamples=199)
    assert display.null.pvalue == 1 / 200
    assert (display.line_.get_ydata() > display.null.quantile).any()


def test_floor_in_words(forecast):
    floor = null_of(*forecast, THIRDS)
    worst = floor.quantile.argmax()
    assert str(floor).startswith(
        f"risk gap under perfect calibration: up to {floor.quantile[worst]:.4f}, at threshold"
    )
    assert f"{floor.quantile[worst]:.4f}" in floor._repr_html_()
    assert f"{floor.pvalue:.3g}" in floor._repr_html_()


def test_cost_ratio(forecast):
    display = DecisionDisplay.from_predictions(*forecast, thresholds=THIRDS, n_resamples=19, x="cost_ratio")
    np.testing.assert_allclose(display.line_.get_xdata(), [4.0, 1.0, 3 / 7])
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_xlim()[0] > 0


def test_the_bound_is_left_out_where_it_would_squeeze_the_rest():
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    y = (rng.random(2000) < p**1.3).astype(int)
    far = DecisionDisplay.from_predictions(y, p, n_resamples=19)
    bound = far.bound_.get_ydata()[0]
    assert far.line_.get_ydata().max() < bound / 2
    assert far.ax_.get_ylim()[1] < bound
    assert far.bound_.get_label().endswith("off the axis")
    shown = DecisionDisplay.from_predictions(y, p, n_resamples=19, show_bound=True)
    assert shown.ax_.get_ylim()[1] > bound
    assert DecisionDisplay.from_predictions(y, p, n_resamples=19, show_bound=False).bound_ is None
    near = DecisionDisplay.from_predictions([0, 0, 0, 1], [0.1, 0.6, 0.7, 0.8], n_resamples=19)
    assert near.ax_.get_ylim()[1] > near.bound_.get_ydata()[0]


def test_from_result_knows_no_chance(forecast):
    result = decision_risk_result(*forecast)
    display = DecisionDisplay.from_result(result, name="model")
    assert display.null_band_ is None
    assert "p = " not in display.worst_.get_label()
    assert display.line_.get_label() == "model: risk gap"
    drawn = DecisionDisplay(result, null=null_of(*forecast, result.thresholds)).plot(show_null_band=False)
    assert drawn.null_band_ is None
    assert "p = " in drawn.worst_.get_label()
    assert drawn.plot(show_legend=False).ax_.get_legend() is None


def test_nothing_to_save():
    display = DecisionDisplay.from_predictions([0, 1], [0.0, 1.0], n_resamples=19)
    display.figure_.canvas.draw()
    assert display.worst_ is None
    assert display.null.quantile.max() == 0.0


def test_several_on_shared_axes(forecast):
    y, p = forecast
    ax = plt.subplots()[1]
    first = DecisionDisplay.from_predictions(y, p**3, ax=ax, n_resamples=19, show_bound=True)
    second = DecisionDisplay.from_predictions(
        y, p, ax=ax, n_resamples=19, show_bound=False, show_null_band=False, color="purple"
    )
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    assert second.worst_.get_color() == "purple"
    assert ax.get_ylim()[1] > first.bound_.get_ydata()[0]


@pytest.mark.parametrize("size", [(6.4, 4.4), (2.6, 2.2)])
def test_the_legend_covers_no_data(forecast, size):
    figure, ax = plt.subplots(figsize=size)
    display = DecisionDisplay.from_predictions(*forecast, ax=ax, n_resamples=19, name="a model")
    figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    top = max(display.line_.get_ydata().max(), display.null.quantile.max())
    assert ax.transData.transform((0.5, top))[1] < legend.y0
    assert legend.width <= ax.get_window_extent().width


def test_errors_name_the_argument(forecast):
    with pytest.raises(TypeError, match="result must be a DecisionRiskResult, got float"):
        DecisionDisplay.from_result(0.3)
    for bad, error in [
        ({"x": "cost"}, ValueError),
        ({"confidence": 1.0}, ValueError),
        ({"n_resamples": 18}, ValueError),
        ({"random_state": "seed"}, TypeError),
        ({"thresholds": [0.5, 1.0]}, ValueError),
        ({"thresholds": []}, ValueError),
    ]:
        with pytest.raises(error, match=next(iter(bad))):
            DecisionDisplay.from_predictions(*forecast, **bad)
    with pytest.raises(ValueError, match="y_proba must have shape"):
        DecisionDisplay.from_predictions([0, 1, 2], np.eye(3))
    assert plt.get_fignums() == []
