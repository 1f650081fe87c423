"""TestDisplay: what is dark is what the p-value counts."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import inference
from sklearn_calib.metrics import cutoff_calibration_error
from sklearn_calib.plot import TestDisplay
from tests._samples import simulated
from tests._tiers import thorough
from tests.plot._legend import legend_texts

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def forecast():
    return simulated(400, truth=1.1)


def made(statistic, draws, tail="upper", **changes):
    values = {
        "test": "by hand", "null_hypothesis": "nothing", "pvalue": 0.5, "estimate": 0.0, "method": "none",
        "n_samples": 9, "null_distribution": None if draws is None else np.asarray(draws, dtype=float),
    }  # fmt: skip
    return inference.CalibrationTestResult(statistic=statistic, tail=tail, **values | changes)


def height(bars):
    return sum(bar.get_height() for bar in bars)


def area(collection):
    """Return the area of drawn polygons, by the shoelace formula."""
    total = 0.0
    for path in collection.get_paths():
        x, y = path.vertices[:-1].T if path.codes is not None else path.vertices.T
        total += 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
    return total


def title(display):
    return display.ax_.get_legend().get_title().get_text()


@pytest.mark.parametrize(
    ("test", "power"),
    [(inference.TCal(), 1.0), (inference.CutoffTest(method="monte_carlo"), 1.1),
     (inference.ConsistencyTest(cutoff_calibration_error), 2.0)],
)  # fmt: skip
def test_the_dark_bars_are_the_pvalue(forecast, test, power):
    y, p = forecast
    result = test.set_params(n_resamples=199).test(y, p**power)
    display = TestDisplay.from_result(result)
    assert set(display.observed_.get_xdata()) == {result.statistic}
    dark = height(display.tail_)
    assert ((1 + dark) / 200, height(display.null_)) == (pytest.approx(result.pvalue, rel=1e-12), 199)
    assert display.ax_.get_xscale() == ("log" if result.tail == "lower" else "linear")
    texts = legend_texts(display)
    assert "199 simulations under calibration" in texts
    assert (f"{int(dark)} as extreme or more" in texts) == (dark > 0)
    assert f"observed {result.statistic:.3g}" in texts
    assert title(display).startswith(f"{result.test}: ")


@pytest.mark.parametrize(
    ("kind", "tail", "observed"),
    [("normal", "two-sided", -1.0), ("integers", "lower", -1.0), ("constant", "upper", 2.0),
     ("skewed", "upper", 40.0), ("positive", "lower", 0.25), thorough("normal", "upper", 0.25),
     thorough("integers", "two-sided", 2.0), thorough("constant", "lower", 0.25),
     thorough("skewed", "two-sided", 0.25), thorough("positive", "upper", 0.25)],
)  # fmt: skip
def test_every_simulation_is_drawn_once(tail, observed, kind):
    rng = np.random.default_rng(1)
    draws = {
        "normal": rng.normal(size=99), "integers": rng.integers(-4, 5, 99) / 2.0, "constant": np.full(9, 2.0),
        "skewed": np.append(rng.normal(size=50) * 1e-3, 3.0), "positive": rng.uniform(size=99) ** 4 + 1e-4,
    }[kind]  # fmt: skip
    far = abs(draws) >= abs(observed)
    chosen = {"upper": draws >= observed, "lower": draws <= observed, "two-sided": far}
    display = TestDisplay.from_result(made(observed, draws, tail), show_legend=False)
    assert (height(display.tail_), height(display.null_)) == (chosen[tail].sum(), draws.size)


def test_ties_up_to_rounding():
    draws = np.repeat([0.1, 0.3, 0.5], 5)
    for observed in (0.1 + 0.2, 0.3 - 1e-15):
        for tail in ("upper", "lower", "two-sided"):
            display = TestDisplay.from_result(made(observed, draws, tail), show_legend=False)
            assert height(display.tail_) == 10


@pytest.mark.parametrize(
    ("test", "distribution", "power"),
    [
        (inference.CutoffTest(), "distribution of the range of Brownian motion", 1.2),
        *((inference.SpiegelhalterTest(), "normal distribution", power) for power in (0.9, 1.2)),
        (inference.CoxTest(), "chi-squared distribution, 2 df", 1.0),
        (inference.CoxTest(parameter="slope"), "chi-squared distribution, 1 df", 0.9),
        (inference.HosmerLemeshowTest(n_bins=7), "chi-squared distribution, 7 df", 1.0),
    ],
)
def test_the_dark_area_is_the_pvalue(forecast, test, distribution, power):
    y, p = forecast
    result = test.set_params(method="asymptotic").test(y, p**power)
    display = TestDisplay.from_result(result)
    # trapezia on 801 nodes; what lies beyond the picture is under .001
    assert area(display.tail_) == pytest.approx(result.pvalue, abs=2e-3)
    assert set(display.observed_.get_xdata()) == {result.statistic}
    assert distribution in legend_texts(display)
    x, density = display.null_.get_data()
    if "1 df" not in distribution:
        assert trapezoid(density, x) == pytest.approx(1.0, abs=2e-3)
        assert display.ax_.get_ylim()[1] > density.max()
    else:
        # the pole is cut off
        assert display.ax_.get_ylim()[1] < 2.0


@pytest.mark.parametrize("tail", ["upper", "lower", "two-sided"])
@pytest.mark.parametrize("observed", [-1.5, 0.3, 7.0])
def test_the_side_of_a_density(tail, observed):
    result = made(observed, None, tail, asymptotic_null="normal")
    display = TestDisplay.from_result(result, show_legend=False)
    both = 2 * norm.sf(abs(observed))
    expected = {"upper": norm.sf(observed), "lower": norm.cdf(observed), "two-sided": both}
    assert area(display.tail_) == pytest.approx(expected[tail], abs=5e-3)


def test_an_axis_stops_soon_beyond_the_null_distribution():
    rng = np.random.default_rng(0)
    draws = np.exp(rng.normal(size=999) - 2)
    near = TestDisplay.from_result(made(draws.min() / 2, draws, tail="lower"), show_legend=False)
    assert near.observed_.get_xdata()[0] == draws.min() / 2
    assert near.observed_.get_label() == f"observed {draws.min() / 2:.3g}"
    far = TestDisplay.from_result(made(1e-128, draws, tail="lower"), show_legend=False)
    assert far.observed_.get_label() == "observed 1e-128, beyond the axis"
    # the null distribution covers about a third of a logarithmic axis
    assert far.ax_.get_xscale() == "log"
    low, high = np.log(far.ax_.get_xlim())
    assert np.ptp(np.log(draws)) > 0.25 * (high - low)
    assert low < np.log(far.observed_.get_xdata()[0]) < np.log(draws.min())
    for draws, label in ((rng.normal(size=999), 470.0), (None, 470.0)):
        result = made(label, draws, asymptotic_null=None if draws is not None else "chi2(2)")
        display = TestDisplay.from_result(result, show_legend=False)
        assert display.ax_.get_xlim()[1] < 50
        assert display.observed_.get_xdata()[0] < display.ax_.get_xlim()[1]
        assert display.observed_.get_label() == "observed 470, beyond the axis"


def test_what_cannot_be_drawn(forecast):
    theory = inference.TCal(method="theory").test(*forecast)
    message = r"'T-Cal' \(theory.* has no null distribution. Run a test that keeps"
    for result, options, error, text in (
        (theory, {}, ValueError, message),
        (made(np.inf, [0.0, 1.0]), {}, ValueError, "is inf, which cannot be shown"),
        (theory, {"confidence": 2}, ValueError, "confidence"),
        (0.3, {}, TypeError, "result must be a CalibrationTestResult, got float"),
    ):
        with pytest.raises(error, match=text):
            TestDisplay.from_result(result, **options)
    with pytest.raises(ValueError, match=r"test='t-cal' is not the name of a test. Use one of \['binomial'"):
        TestDisplay.from_predictions(*forecast, test="t-cal")
    model = LinearRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(TypeError, match="estimator must have predict_proba"):
        TestDisplay.from_estimator(model, [[0.0]], [0], test=inference.CoxTest())
    with pytest.raises(TypeError, match="A name to be shown must be a string, got 3"):
        TestDisplay.from_predictions(*forecast, test="sequential", name=3)


def test_from_estimator_is_from_predictions():
    X, y = load_breast_cancer(return_X_y=True)
    words = np.where(y == 1, "good", "bad")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[::2], words[::2])
    X, words = X[1::2], words[1::2]
    weight = np.random.default_rng(0).integers(1, 4, len(words))
    test, proba = inference.TCal(n_resamples=49, random_state=0), model.predict_proba(X)
    display = TestDisplay.from_estimator(model, X, words, test=test, sample_weight=weight, name="$pipeline$")
    assert display.result == test.test(words, proba, sample_weight=weight)
    assert title(display).startswith(r"\$pipeline\$: ")
    display = TestDisplay.from_estimator(model, X, words, test=test, pos_label="bad")
    assert display.result == test.test(words, proba[:, 0], pos_label="bad")
    assert not hasattr(test, "result_")
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=999).fit(X, y)
    with pytest.raises(ValueError, match="y_proba has 3 columns, but SequentialTest tests binary problems"):
        TestDisplay.from_estimator(model, X, y, test=inference.SequentialTest())


@pytest.mark.parametrize("level", [0.05, 0.001])
def test_the_path_of_a_sequential_test(level):
    y, p = simulated(400, truth=1.4)
    result = inference.SequentialTest().test(y, p)
    display = TestDisplay.from_result(result, confidence=1 - level)
    x, shown = display.observed_.get_data()
    np.testing.assert_array_equal(x, np.arange(1, 401))
    np.testing.assert_allclose(shown, result.log_e_path / np.log(10.0), rtol=1e-12)
    assert display.critical_.get_ydata()[0] == pytest.approx(-np.log10(level))
    reached = result.rejected_at(level)
    assert list(display.tail_.get_xdata()) == [reached]
    assert shown[reached - 1] >= -np.log10(level) > shown[: reached - 1].max()
    assert f"rejects at level {level:g}, reached at observation {reached}" in legend_texts(display)
    assert title(display).startswith("sequential test: ")
    # a later batch, after the level was reached
    test = inference.SequentialTest()
    test.partial_fit(p[:, np.newaxis], y, classes=[0, 1])
    later = test.partial_fit(p[:50, np.newaxis], y[:50]).result_
    display = TestDisplay.from_result(later, confidence=1 - level)
    np.testing.assert_array_equal(display.observed_.get_xdata(), np.arange(401, 451))
    assert len(display.tail_.get_xdata()) == 0
    assert any("before the first observation shown" in text for text in legend_texts(display))


def test_a_long_path_without_evidence_is_thinned():
    result = inference.SequentialTest().test(*simulated(20_000))
    display = TestDisplay.from_result(result, confidence=0.999)
    x, shown = display.observed_.get_data()
    assert x.shape[0] <= 4000
    assert (x[0], x[-1]) == (1, 20_000)
    assert shown.max() == pytest.approx(result.log_e_path.max() / np.log(10.0))
    assert shown.min() == pytest.approx(result.log_e_path.min() / np.log(10.0))
    assert len(display.tail_.get_xdata()) == 0
    assert "rejects at level 0.001, not reached" in legend_texts(display)


def test_contradicted_predictions_of_0_and_1_are_told_apart(forecast):
    y, p = np.append(forecast[0], [1, 0]), np.append(forecast[1], [0.0, 0.0])
    display = TestDisplay.from_predictions(y, p, test=inference.CoxTest(n_resamples=99))
    assert display.result.pvalue_others > 0.0
    assert "without 1 of 2 predictions of\nexactly 0 or 1 that are contradicted" in title(display)
    assert f"(p = {display.result.pvalue_others:.2g})" in title(display)
