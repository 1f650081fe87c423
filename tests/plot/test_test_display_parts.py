"""TestDisplay of tests of several parts, and of the path of a sequential test."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from sklearn_calib.inference import (
    BinomialTest,
    CombinedTest,
    CoxTest,
    CutoffTest,
    KernelTest,
    SampleSplittingTest,
    SequentialTest,
    TCal,
)
from sklearn_calib.plot import TestDisplay

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=400)
    return (rng.random(400) < p**1.4).astype(int), p


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def title(display):
    return display.ax_.get_legend().get_title().get_text()


def test_values_of_a_binomial_test(forecast):
    y, p = forecast[0], np.round(forecast[1] * 8 + 1) / 10
    result = BinomialTest().test(y, p)
    display = TestDisplay.from_result(result)
    assert display.kind_ == "scales"
    x, shown = display.observed_.get_data()
    np.testing.assert_array_equal(x, [value.value for value in result.scales])
    np.testing.assert_array_equal(shown, [value.adjusted_pvalue for value in result.scales])
    filled = display.tail_.get_xdata()
    assert list(filled) == [value.value for value in result.scales if value.rejects()]
    assert 0 < len(filled) < len(x)
    assert "for all values at once" in display.critical_.get_label()
    assert display.critical_.get_ydata()[0] == 0.05
    assert display.ax_.get_xlabel() == "Predicted probability"
    assert display.ax_.get_xscale() == "linear"
    assert title(display).startswith("binomial test: ")


def test_components_of_a_combined_test(forecast):
    result = CombinedTest(n_resamples=199, random_state=0).test(*forecast)
    assert TestDisplay.from_result(result).kind_ == "null"
    display = TestDisplay.from_result(result, kind="scales")
    x, shown = display.observed_.get_data()
    np.testing.assert_array_equal(x, np.arange(len(result.scales)))
    np.testing.assert_array_equal(shown, [part.pvalue for part in result.scales])
    names = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert names == [part.name for part in result.scales]
    assert "of one component alone" in display.critical_.get_label()


def test_classes_of_a_sample_splitting_test():
    X, y = load_iris(return_X_y=True)
    X = X + 2.0 * np.random.default_rng(0).normal(size=X.shape)
    proba = LogisticRegression(max_iter=999).fit(X[::2], y[::2]).predict_proba(X[1::2])
    result = SampleSplittingTest(random_state=0).test(y[1::2], proba)
    display = TestDisplay.from_result(result, kind="scales")
    np.testing.assert_array_equal(display.observed_.get_ydata(), [part.pvalue for part in result.scales])
    names = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert names == [f"{part.label}, half {part.half + 1}" for part in result.scales]


def test_bandwidths_of_a_kernel_test(forecast):
    result = KernelTest(n_resamples=199, random_state=0).test(*forecast)
    display = TestDisplay.from_result(result, kind="scales")
    scales = sorted(result.scales, key=lambda scale: scale.bandwidth)
    x, shown = display.observed_.get_data()
    np.testing.assert_array_equal(x, [scale.bandwidth for scale in scales])
    np.testing.assert_allclose(shown, [scale.statistic / scale.null_std for scale in scales], rtol=1e-12)
    assert (shown.max() > display.critical_.get_ydata()[0]) == result.rejects()
    assert display.ax_.get_xscale() == "log"


@pytest.mark.parametrize("level", [0.05, 0.001])
def test_the_path_of_a_sequential_test(forecast, level):
    result = SequentialTest().test(*forecast)
    display = TestDisplay.from_result(result, confidence=1 - level)
    assert display.kind_ == "path"
    x, shown = display.observed_.get_data()
    np.testing.assert_array_equal(x, np.arange(1, 401))
    np.testing.assert_allclose(shown, result.log_e_path / np.log(10.0), rtol=1e-12)
    assert display.critical_.get_ydata()[0] == pytest.approx(-np.log10(level))
    reached = result.rejected_at(level)
    assert reached is not None
    assert list(display.tail_.get_xdata()) == [reached]
    assert shown[reached - 1] >= -np.log10(level) > shown[: reached - 1].max()
    assert f"rejects at level {level:g}, reached at observation {reached}" in legend_texts(display)
    assert title(display).startswith("sequential test: ")
    low, high = display.ax_.get_ylim()
    assert low < min(0.0, shown.min())
    assert high > max(shown.max(), -np.log10(level))


def test_a_path_that_reaches_nothing_and_one_that_reached_it_before(forecast):
    y, p = forecast
    calm = SequentialTest().test((np.random.default_rng(1).random(400) < p).astype(int), p)
    assert calm.rejected_at() is None
    display = TestDisplay.from_result(calm)
    assert len(display.tail_.get_xdata()) == 0
    assert "rejects at level 0.05, not reached" in legend_texts(display)
    test = SequentialTest()
    X = p.reshape(-1, 1)
    test.partial_fit(X, y, classes=[0, 1])
    later = test.partial_fit(X[:50], y[:50]).result_
    display = TestDisplay.from_result(later)
    np.testing.assert_array_equal(display.observed_.get_xdata(), np.arange(401, 451))
    assert len(display.tail_.get_xdata()) == 0
    assert any("before the first observation shown" in text for text in legend_texts(display))


def test_a_long_path_is_thinned():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    result = SequentialTest().test((rng.random(20_000) < p).astype(int), p)
    display = TestDisplay.from_result(result)
    x, shown = display.observed_.get_data()
    assert x.shape[0] <= 4000
    assert (x[0], x[-1]) == (1, 20_000)
    assert shown.max() == pytest.approx(result.log_e_path.max() / np.log(10.0))
    assert shown.min() == pytest.approx(result.log_e_path.min() / np.log(10.0))


def test_errors_of_paths(forecast):
    with pytest.raises(ValueError, match=r"kind='path' is for a SequentialTest.* 'Cox test'.*kind='auto'"):
        TestDisplay.from_predictions(*forecast, test=CoxTest(), kind="path")
    with pytest.raises(ValueError, match="kind='null' needs a null distribution"):
        TestDisplay.from_predictions(*forecast, test=SequentialTest(), kind="null")
    assert plt.get_fignums() == []


@pytest.mark.parametrize("size", [pytest.param((6.4, 4.2), marks=pytest.mark.thorough), (2.8, 2.2)])
@pytest.mark.parametrize(
    ("test", "kind"),
    [
        (TCal(n_resamples=99, random_state=0), "null"),
        (TCal(n_resamples=99, random_state=0), "scales"),
        (TCal(combine="max", n_resamples=99, random_state=0), "scales"),
        (CutoffTest(method="asymptotic"), "null"),
        (CombinedTest(n_resamples=99, random_state=0), "scales"),
        (SequentialTest(), "path"),
    ],
)
def test_the_legend_covers_no_data(forecast, size, test, kind):
    figure, ax = plt.subplots(figsize=size)
    display = TestDisplay.from_predictions(*forecast, test=test, ax=ax, kind=kind)
    figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    for line in (display.observed_, display.critical_):
        if line is not None:
            points = line.get_transform().transform(np.transpose(line.get_data()))
            assert points[:, 1].max() < legend.y0
    assert legend.width <= ax.get_window_extent().width
    assert "extreme" in ax.get_xlabel() or kind != "null"


def test_contradicted_predictions_of_0_and_1_are_told_apart(forecast):
    y, p = np.append(forecast[0], [1, 0]), np.append(forecast[1], [0.0, 0.0])
    test = CoxTest(n_resamples=99)
    display = TestDisplay.from_predictions(y, p, test=test)
    assert display.result.pvalue == 0.0 < display.result.pvalue_clipped
    told = "without 1 of 2 predictions of\nexactly 0 or 1 that are contradicted"
    assert told in title(display)
    assert f"(p = {display.result.pvalue_clipped:.2g})" in title(display)
