"""TestDisplay: what is dark is what the p-value counts, and nothing of the caller's is touched.

Long because every test of calibration has a picture of its own.
"""

import builtins
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib.inference import (
    CalibrationTestResult,
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    HosmerLemeshowTest,
    SequentialTest,
    SpiegelhalterTest,
    TCal,
)
from sklearn_calib.metrics import cutoff_calibration_error
from sklearn_calib.plot import TestDisplay

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=400)
    return (rng.random(400) < p**1.1).astype(int), p


def made(statistic, draws, tail="upper", **changes):
    """Return a result by hand."""
    values = {
        "test": "by hand", "null_hypothesis": "nothing", "pvalue": 0.5, "estimate": 0.0, "method": "none",
        "n_samples": 9, "null_distribution": None if draws is None else np.asarray(draws, dtype=float),
    }  # fmt: skip
    return CalibrationTestResult(statistic=statistic, tail=tail, **values | changes)


def bars(container):
    """Return left, right and height of drawn bars."""
    return np.array([(b.get_x(), b.get_x() + b.get_width(), b.get_height()) for b in container]).reshape(
        -1, 3
    )


def area(collection):
    """Return the area of drawn polygons, by the shoelace formula."""
    total = 0.0
    for path in collection.get_paths():
        x, y = path.vertices[:-1].T if path.codes is not None else path.vertices.T
        total += 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
    return total


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.mark.parametrize(
    "test",
    [
        TCal(n_resamples=199, random_state=0),
        TCal(combine="max", n_resamples=199, random_state=0),
        TCal(smoothness=1.0, n_resamples=199, random_state=1),
        CutoffTest(method="monte_carlo", n_resamples=199, random_state=0),
        ConsistencyTest(cutoff_calibration_error, n_resamples=199, random_state=0),
    ],
    ids=["tcal", "tcal_max", "tcal_fixed", "cutoff", "consistency"],
)
@pytest.mark.parametrize("power", [1.0, 1.1, 2.0])
def test_the_dark_bars_are_the_pvalue(forecast, test, power):
    y, p = forecast
    result = test.test(y, p**power)
    display = TestDisplay.from_result(result)
    assert display.kind_ == "null"
    assert set(display.observed_.get_xdata()) == {result.statistic}
    pale, dark = bars(display.null_), bars(display.tail_)
    assert (1 + dark[:, 2].sum()) / 200 == pytest.approx(result.pvalue, rel=1e-12)
    assert pale[:, 2].sum() + dark[:, 2].sum() == 199
    assert result.tail == (
        "lower" if test.get_params().get("combine") == "weighted" and len(result.scales) > 1 else "upper"
    )
    above, below = (dark, pale) if result.tail == "upper" else (pale, dark)
    slack = 1e-6 * (1 + result.statistic)
    assert (above[:, 0] >= result.statistic - slack).all()
    assert (below[:, 1] <= result.statistic + slack).all()
    # the bars are the histogram of the draws
    for left, right, height in np.concatenate((pale, dark)):
        assert height == np.count_nonzero(
            (result.null_distribution >= left) & (result.null_distribution < right)
        )
    expected = [
        f"{int(pale[:, 2].sum())} simulations less extreme",
        f"{int(dark[:, 2].sum())} simulations as extreme or more",
    ]
    texts = legend_texts(display)
    assert [text for text in texts if "simulations" in text] == [t for t in expected if t[:2] != "0 "]
    assert f"observed {result.statistic:.3g}" in texts
    assert display.ax_.get_legend().get_title().get_text().startswith(f"{result.test}: ")


@pytest.mark.parametrize("tail", ["upper", "lower", "two-sided"])
@pytest.mark.parametrize("observed", [-1.0, 0.25, 2.0, 40.0])
@pytest.mark.parametrize("kind", ["normal", "integers", "constant", "skewed", "positive"])
def test_every_draw_is_on_its_side(tail, observed, kind):
    rng = np.random.default_rng(1)
    draws = {
        "normal": rng.normal(size=99), "integers": rng.integers(-4, 5, 99) / 2.0, "constant": np.full(9, 2.0),
        "skewed": np.append(rng.normal(size=50) * 1e-3, 3.0), "positive": rng.uniform(size=99) ** 4 + 1e-4,
    }[kind]  # fmt: skip
    chosen = {
        "upper": draws >= observed,
        "lower": draws <= observed,
        "two-sided": abs(draws) >= abs(observed),
    }
    display = TestDisplay.from_result(made(observed, draws, tail), show_legend=False)
    dark, pale = bars(display.tail_), bars(display.null_)
    assert dark[:, 2].sum() == chosen[tail].sum()
    assert dark[:, 2].sum() + pale[:, 2].sum() == draws.size
    drawn = np.concatenate((dark, pale))
    assert (drawn[:, 1] > drawn[:, 0]).all()
    assert drawn.shape[0] < 1100


def test_rounding_does_not_part_ties():
    draws = np.repeat([0.1, 0.3, 0.5], 5)
    for observed in (0.1 + 0.2, 0.3 - 1e-15):
        for tail, dark in [("upper", 10), ("lower", 10), ("two-sided", 10)]:
            display = TestDisplay.from_result(made(observed, draws, tail), show_legend=False)
            assert bars(display.tail_)[:, 2].sum() == dark


def test_small_statistics_speak_against_the_null_hypothesis_of_min_p(forecast):
    y, p = forecast
    for power in (1.0, 1.3):
        result = TCal(n_resamples=199, combine="min-p", random_state=0).test(y, p**power)
        display = TestDisplay.from_result(result)
        dark, pale = bars(display.tail_), bars(display.null_)
        assert (dark[:, 1] <= result.statistic * (1 + 1e-6)).all()
        assert (pale[:, 0] >= result.statistic * (1 - 1e-6)).all()
        # ties go by another statistic: between those below and those at most the observed one
        below = np.count_nonzero(result.null_distribution < result.statistic - 1e-12)
        assert (1 + below) / 200 <= result.pvalue <= (1 + dark[:, 2].sum()) / 200
        assert display.ax_.get_xscale() == "log"
    assert TestDisplay.from_result(made(0.4, np.linspace(0.2, 0.9, 30), "lower")).ax_.get_xscale() == "linear"


@pytest.mark.parametrize(
    ("test", "distribution"),
    [
        (CutoffTest(method="asymptotic"), "distribution of the range of Brownian motion"),
        (SpiegelhalterTest(method="asymptotic"), "normal distribution"),
        (CoxTest(method="asymptotic"), "chi-squared distribution, 2 df"),
        (CoxTest(parameter="slope", method="asymptotic"), "chi-squared distribution, 1 df"),
        (HosmerLemeshowTest(n_bins=7, method="asymptotic"), "chi-squared distribution, 7 df"),
    ],
    ids=["cutoff", "spiegelhalter", "cox", "cox_slope", "hosmer_lemeshow"],
)
@pytest.mark.parametrize("power", [1.0, 0.9, 1.2])
def test_the_dark_area_is_the_pvalue(forecast, test, distribution, power):
    y, p = forecast
    result = test.test(y, p**power)
    display = TestDisplay.from_result(result)
    # trapezia on 801 nodes; what lies beyond the picture is under .001
    assert area(display.tail_) == pytest.approx(result.pvalue, abs=2e-3)
    assert set(display.observed_.get_xdata()) == {result.statistic}
    assert display.null_.get_label() == distribution
    assert distribution in legend_texts(display)
    x, density = display.null_.get_data()
    if "1 df" not in distribution:
        assert trapezoid(density, x) == pytest.approx(1.0, abs=2e-3)
        assert display.ax_.get_ylim()[1] > density.max()
    else:
        # the pole is cut off, the tail is seen
        assert display.ax_.get_ylim()[1] < 2.0
    assert display.critical_ is None


@pytest.mark.parametrize("tail", ["upper", "lower", "two-sided"])
@pytest.mark.parametrize("observed", [-1.5, 0.3, 7.0])
def test_the_side_of_a_law(tail, observed):
    result = made(observed, None, tail, asymptotic_null="normal")
    display = TestDisplay.from_result(result, show_legend=False)
    assert {-abs(observed), abs(observed)} <= set(display.null_.get_xdata())
    expected = {
        "upper": norm.sf(observed),
        "lower": norm.cdf(observed),
        "two-sided": 2 * norm.sf(abs(observed)),
    }
    assert area(display.tail_) == pytest.approx(expected[tail], abs=5e-3)


def test_scales_are_drawn_as_they_are(forecast):
    result = TCal(combine="max", n_resamples=199, random_state=0).test(forecast[0], forecast[1] ** 1.5)
    display = TestDisplay.from_result(result, kind="scales")
    assert display.kind_ == "scales"
    x, z = display.observed_.get_data()
    scales = result.scales
    np.testing.assert_array_equal(x, [scale.n_bins for scale in scales])
    np.testing.assert_allclose(z, [scale.statistic / scale.null_std for scale in scales], rtol=1e-12)
    filled = display.tail_.get_xdata()
    assert list(filled) == [scale.n_bins for scale in scales if scale.pvalue <= 0.05]
    assert 0 < len(filled) < len(scales)
    segments = np.array(display.null_.get_segments())
    np.testing.assert_allclose(segments[:, 1, 1], z)
    np.testing.assert_array_equal(segments[:, 0, 1], 0)
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.xaxis.get_transform().base == 2
    low, high = display.ax_.get_xlim()
    assert low < 2
    assert high > scales[-1].n_bins


@pytest.mark.parametrize("level", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("smoothness", ["adaptive", 1.0])
def test_the_critical_value_parts_what_rejects(forecast, level, smoothness):
    test = TCal(smoothness=smoothness, combine="max", n_resamples=199, random_state=0)
    for power in (1.0, 1.15, 1.5):
        result = test.test(forecast[0], forecast[1] ** power)
        display = TestDisplay.from_result(result, kind="scales", confidence=1 - level)
        largest = display.observed_.get_ydata().max()
        assert (largest > display.critical_.get_ydata()[0]) == result.rejects(level)
        assert "simulated" in display.critical_.get_label()
        assert f"{level:g}" in display.critical_.get_label()


def test_a_normal_critical_value_without_draws_of_the_largest(forecast):
    for test, level, expected in [
        (TCal(method="asymptotic", combine="max"), 0.05, 1.6449),
        (TCal(combine="max", n_resamples=19, random_state=0), 0.01, 2.3263),
    ]:
        display = TestDisplay.from_predictions(*forecast, test=test, kind="scales", confidence=1 - level)
        assert display.critical_.get_ydata()[0] == pytest.approx(expected, abs=1e-4)
        assert "normal distribution" in display.critical_.get_label()


@pytest.mark.parametrize(
    "test",
    [
        TCal(n_resamples=399, random_state=0),
        TCal(combine="bonferroni", n_resamples=399, random_state=0),
        TCal(combine="min-p", n_resamples=399, random_state=0),
        TCal(method="asymptotic", combine="min-p"),
        TCal(method="theory"),
        TCal(smoothness=1.0, method="asymptotic"),
        TCal(tolerance=0.05, n_resamples=399, random_state=0),
    ],
    ids=[
        "weighted",
        "bonferroni",
        "min_p",
        "asymptotic_min_p",
        "theory",
        "asymptotic_fixed",
        "tolerance",
    ],
)
def test_pvalues_where_z_is_not_what_is_compared(forecast, test):
    for power in (1.0, 1.15, 8.0):
        result = test.test(forecast[0], forecast[1] ** power)
        display = TestDisplay.from_result(result, kind="scales")
        pvalues = np.array([scale.pvalue for scale in result.scales])
        shown = display.observed_.get_ydata()
        np.testing.assert_array_equal(shown, pvalues)
        assert list(display.tail_.get_ydata()) == [value for value in pvalues if value <= 0.05]
        assert display.ax_.get_yscale() == "log"
        weak, strong = display.ax_.get_ylim()
        assert weak > 1
        assert strong < shown.min()
        critical = display.critical_.get_ydata()[0]
        if test.combine == "min-p" and test.method == "monte_carlo":
            assert "of the smallest, simulated" in display.critical_.get_label()
            # ties of the smallest are parted by another statistic
            assert (shown.min() < critical) <= result.rejects() <= (shown.min() <= critical)
        else:
            assert critical == 0.05
            assert "of one scale alone" in display.critical_.get_label()


def test_a_pvalue_of_nothing_can_be_drawn(forecast):
    result = TCal(method="theory").test(*forecast)
    result = replace(result, scales=(replace(result.scales[0], pvalue=0.0), *result.scales[1:]))
    display = TestDisplay.from_result(result)
    display.figure_.canvas.draw()
    assert 0 < display.ax_.get_ylim()[1] < display.observed_.get_ydata().min()


def test_auto_takes_what_the_result_holds(forecast):
    kinds = {
        "null": [TCal(n_resamples=19, random_state=0), CoxTest()],
        "scales": [TCal(method="asymptotic"), TCal(method="theory")],
    }
    for kind, tests in kinds.items():
        for test in tests:
            assert TestDisplay.from_predictions(*forecast, test=test).kind_ == kind


def test_what_cannot_be_drawn_says_what_to_do(forecast):
    theory = TCal(method="theory").test(*forecast)
    with pytest.raises(
        ValueError, match=r"kind='null' needs .* 'T-Cal'.*keeps its simulations.*kind='scales'"
    ):
        TestDisplay.from_result(theory, kind="null")
    with pytest.raises(ValueError, match=r"'Cox test'.* has no scales to draw. Use kind='null'"):
        TestDisplay.from_predictions(*forecast, test=CoxTest(), kind="scales")
    with pytest.raises(
        ValueError, match=r"no null distribution and no scales to draw. Run a test that keeps"
    ):
        TestDisplay.from_result(made(1.0, None, scales=("text",)))
    with pytest.raises(ValueError, match=r"kind='null' needs .*monte_carlo'\)\.$"):
        TestDisplay.from_result(made(1.0, None), kind="null")
    with pytest.raises(ValueError, match=r"is inf, which cannot be shown"):
        TestDisplay.from_result(made(np.inf, [0.0, 1.0]))
    for bad in ({"kind": "bars"}, {"confidence": 0}, {"confidence": 2}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            TestDisplay.from_result(theory, **bad)
    with pytest.raises(ValueError, match="tail"):
        TestDisplay.from_result(made(1.0, [0.0, 1.0], "left"))
    with pytest.raises(ValueError, match="asymptotic_null"):
        TestDisplay.from_result(made(1.0, None, asymptotic_null="cauchy"))
    assert plt.get_fignums() == []


def test_wrong_kinds_of_objects(forecast):
    with pytest.raises(TypeError, match="result must be a CalibrationTestResult, got float"):
        TestDisplay.from_result(0.3)
    with pytest.raises(TypeError, match=r"test is the class TCal; pass an instance, TCal\(\)"):
        TestDisplay.from_predictions(*forecast, test=TCal)
    with pytest.raises(ValueError, match=r"test='t-cal' is not the name of a test. Use one of \['binomial'"):
        TestDisplay.from_predictions(*forecast, test="t-cal")
    with pytest.raises(TypeError, match="test must be a test"):
        TestDisplay.from_estimator(None, None, None, test=None)
    model = LinearRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(TypeError, match="estimator must have predict_proba"):
        TestDisplay.from_estimator(model, [[0.0]], [0], test=CoxTest())


def test_from_estimator_is_from_predictions():
    X, y = load_breast_cancer(return_X_y=True)
    words = np.where(y == 1, "good", "bad")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[::2], words[::2])
    X, words = X[1::2], words[1::2]
    weight = np.random.default_rng(0).integers(1, 4, len(words))
    test = TCal(n_resamples=49, random_state=0)
    proba = model.predict_proba(X)
    display = TestDisplay.from_estimator(model, X, words, test=test, sample_weight=weight, name="pipeline")
    assert display.result == test.test(words, proba, sample_weight=weight)
    assert display.ax_.get_legend().get_title().get_text().startswith("pipeline: ")
    display = TestDisplay.from_estimator(model, X, words, test=test, pos_label="bad")
    assert display.result == test.test(words, proba[:, 0], pos_label="bad")
    assert not hasattr(test, "result_")
    with pytest.raises(ValueError, match="pos_label='ugly' is not among the classes"):
        TestDisplay.from_estimator(model, X, words, test=test, pos_label="ugly")
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="y_proba has 3 columns, but CoxTest tests binary problems"):
        TestDisplay.from_estimator(LogisticRegression(max_iter=999).fit(X, y), X, y, test=CoxTest())


@pytest.mark.parametrize("kind", ["null", "scales"])
def test_the_callers_axes_and_style_are_left_alone(forecast, kind):
    figure, (ax, other) = plt.subplots(1, 2, figsize=(9, 3))
    before = (
        dict(mpl.rcParams),
        figure.get_size_inches().tolist(),
        ax.get_position().bounds,
        ax.get_aspect(),
    )
    test = TCal(n_resamples=49, random_state=0)
    display = TestDisplay.from_predictions(*forecast, test=test, ax=ax, kind=kind)
    figure.canvas.draw()
    after = (dict(mpl.rcParams), figure.get_size_inches().tolist(), ax.get_position().bounds, ax.get_aspect())
    assert before == after
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert not other.has_data()
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize("kind", ["null", "scales"])
def test_the_legend_covers_no_line_and_can_be_left_out(forecast, kind):
    result = TCal(n_resamples=49, random_state=0).test(*forecast)
    display = TestDisplay.from_result(result, kind=kind, show_legend=False, color="purple", linewidth=3)
    assert display.ax_.get_legend() is None
    assert display.observed_.get_color() == "purple"
    assert display.observed_.get_linewidth() == 3
    display = display.plot(kind="null")
    display.figure_.canvas.draw()
    box = display.ax_.get_legend().get_window_extent()
    top = display.ax_.transData.transform((result.statistic, display.observed_.get_ydata().max()))
    assert not box.contains(*top)


def test_names_are_not_mathematics(forecast):
    result = replace(CoxTest().test(*forecast), test=r"$\undefined{$ & <b>")
    display = TestDisplay.from_result(result)
    display.figure_.canvas.draw()
    assert display.ax_.get_legend().get_title().get_text().startswith(r"\$\undefined{\$ & <b>: ")


def test_tones_differ_in_grey(forecast):
    display = TestDisplay.from_predictions(*forecast, test=TCal(n_resamples=99, random_state=2))
    assert len(display.tail_) > 0
    tones = [
        np.dot(mpl.colors.to_rgb(part[0].get_facecolor()), [0.2126, 0.7152, 0.0722])
        for part in (display.null_, display.tail_)
    ]
    assert tones[0] - tones[1] > 0.3


def test_without_matplotlib(monkeypatch, forecast):
    real = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(ImportError, match=r"sklearn-calib\[plot\]"):
        TestDisplay.from_predictions(*forecast, test=CoxTest())


def test_a_name_must_be_a_text(forecast):
    result = SequentialTest().test(*forecast[:2])
    with pytest.raises(TypeError, match="A name to be shown must be a string, got 3"):
        TestDisplay.from_result(result, name=3)


def test_a_path_of_no_observations_cannot_be_drawn(forecast):
    result = SequentialTest().test(*forecast[:2])
    assert TestDisplay.from_result(result).kind_ == "path"
    with pytest.raises(ValueError, match="contains no observations"):
        TestDisplay.from_result(replace(result, log_e_path=np.empty(0)))
