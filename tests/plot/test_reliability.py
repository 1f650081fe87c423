"""ReliabilityDisplay: what is drawn is what was computed, and nothing of the caller's is touched."""

import builtins
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import (
    calibration_loss,
    expected_calibration_error,
    smooth_ece,
    smooth_ece_result,
)
from sklearn_calib.plot import ReliabilityDisplay
from tests._optional import pandas as pd
from tests._optional import polars as pl

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def forecast():
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 0.9, 500)
    return (rng.random(500) < p**1.5).astype(int), p


def band_limits(display):
    """Return the x, lower and upper of the drawn band."""
    (path,) = display.band_.get_paths()
    vertices = np.unique(path.vertices, axis=0)
    x = np.unique(vertices[:, 0])
    lower = [vertices[vertices[:, 0] == u, 1].min() for u in x]
    upper = [vertices[vertices[:, 0] == u, 1].max() for u in x]
    return x, np.array(lower), np.array(upper)


def test_drawn_equals_computed(forecast):
    display = ReliabilityDisplay.from_predictions(*forecast, name="model", bandwidth="smooth_ece")
    result = smooth_ece_result(*forecast)
    x, y = display.line_.get_data()
    np.testing.assert_array_equal(x, display.curve.predicted)
    np.testing.assert_array_equal(y, display.curve.observed)
    np.testing.assert_allclose(
        y[np.isfinite(y)], np.interp(x[np.isfinite(y)], result.grid, result.curve), rtol=1e-12
    )
    shown = np.isfinite(display.curve.observed)
    at, lower, upper = band_limits(display)
    np.testing.assert_array_equal(at, display.curve.predicted[shown])
    np.testing.assert_array_equal(lower, display.curve.lower[shown])
    np.testing.assert_array_equal(upper, display.curve.upper[shown])
    np.testing.assert_array_equal(np.asarray(display.diagonal_.get_data()), [[0, 1], [0, 1]])
    assert display.line_.get_label() == f"model: smECE = {smooth_ece(*forecast):.3f}"
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["perfect calibration", display.line_.get_label(), "95% confidence band (pointwise)"]
    assert display.figure_ is display.ax_.figure


@pytest.mark.parametrize("method", ["smooth", "binned", "corp", "belt"])
def test_strip_shows_the_histogram_below_the_diagram(forecast, method):
    display = ReliabilityDisplay.from_predictions(*forecast, method=method)
    display.figure_.canvas.draw()
    (path,) = display.density_.get_paths()
    x, height = path.vertices.T
    edges, density = display.curve.edges, display.curve.density
    for j in (0, 17, int(density.argmax()), 49):
        corners = height[(x == edges[j]) | (x == edges[j + 1])]
        assert np.isclose(corners, density[j] / density.max()).sum() >= 2
    on_screen = display.density_.get_transform().transform(path.vertices)
    axes = display.ax_.transAxes.inverted().transform(on_screen)[:, 1]
    (_, zero) = display.ax_.transAxes.inverted().transform(display.ax_.transData.transform((0.0, 0.0)))
    assert 0.0 < axes.min() < axes.max() < zero
    # the histogram stands above its predictions
    expected = display.ax_.transData.transform(np.column_stack((x, np.zeros_like(x))))[:, 0]
    np.testing.assert_allclose(on_screen[:, 0], expected)


def test_binned(forecast):
    display = ReliabilityDisplay.from_predictions(*forecast, method="binned", n_bins=8, strategy="quantile")
    expected = expected_calibration_error(*forecast, n_bins=8, strategy="quantile")
    assert display.line_.get_label() == f"ECE = {expected:.3f}"
    assert display.line_.get_xdata().shape == (8,)
    segments = np.array(display.band_.get_segments())
    np.testing.assert_array_equal(segments[:, 0, 1], display.curve.lower)
    np.testing.assert_array_equal(segments[:, 1, 1], display.curve.upper)


@pytest.mark.parametrize("method", ["smooth", "binned", "corp", "belt"])
def test_the_callers_axes_and_style_are_left_alone(forecast, method):
    figure, (ax, other) = plt.subplots(1, 2, figsize=(9, 3))
    before = (
        dict(mpl.rcParams),
        figure.get_size_inches().tolist(),
        ax.get_position().bounds,
        ax.get_aspect(),
    )
    display = ReliabilityDisplay.from_predictions(*forecast, method=method, ax=ax)
    figure.canvas.draw()
    after = (dict(mpl.rcParams), figure.get_size_inches().tolist(), ax.get_position().bounds, ax.get_aspect())
    assert before == after
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert not other.has_data()
    assert plt.get_fignums() == [figure.number]


def test_style_in_force_reaches_new_figures(forecast):
    with mpl.rc_context({"font.size": 7.0, "axes.facecolor": "yellow"}):
        display = ReliabilityDisplay.from_predictions(*forecast)
        assert display.ax_.xaxis.label.get_fontsize() == 7.0
        assert mpl.colors.to_hex(display.ax_.get_facecolor()) == "#ffff00"


@pytest.mark.parametrize("method", ["smooth", "binned", "corp"])
def test_the_number_with_its_interval(forecast, method):
    y, p = forecast[0][:150], forecast[1][:150]
    weight = np.random.default_rng(0).integers(1, 3, 150)
    metrics = {"smooth": smooth_ece, "corp": calibration_loss}
    metric = metrics.get(method, partial(expected_calibration_error, n_bins=5))
    display = ReliabilityDisplay.from_predictions(
        y, p, sample_weight=weight, method=method, n_bins=5, confidence=0.8, error_interval=True
    )
    expected = confidence_interval(y, p, metric=metric, sample_weight=weight, confidence=0.8, random_state=0)
    assert display.curve.error_interval == (expected.lower, expected.upper)
    text = display.line_.get_label()
    digits = 4 if method == "corp" else 3
    values = (expected.estimate, expected.corrected, expected.lower, expected.upper)
    raw, corrected, lower, upper = (f"{value:.{digits}f}" for value in values)
    value = f"{corrected} [{lower}, {upper}]"
    value = f"{raw} (corrected {value})" if method == "corp" else value
    assert text.partition("\n")[0].endswith(f" = {value}")
    with pytest.raises(ValueError, match="sample_weight"):
        ReliabilityDisplay.from_predictions(
            y, p, sample_weight=weight / 3, method=method, error_interval=True
        )


def test_two_models_share_axes(forecast):
    y, p = forecast
    first = ReliabilityDisplay.from_predictions(y, p, name="before")
    second = ReliabilityDisplay.from_predictions(y, p**1.5, name="after", ax=first.ax_)
    assert first.line_.get_color() != second.line_.get_color()
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    assert second.diagonal_ is None
    labels = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    curves = [first.line_.get_label(), second.line_.get_label()]
    # what the bands are is said once
    assert labels == ["perfect calibration", *curves, "95% confidence band (pointwise)"]
    # the strip of the first stands above that of the second
    first.figure_.canvas.draw()
    upper, lower = (
        display.density_.get_transform().transform(display.density_.get_paths()[0].vertices)[:, 1]
        for display in (first, second)
    )
    assert lower.max() < upper.min()


def test_curves_differ_in_colour_and_dashes(forecast):
    display = ReliabilityDisplay.from_predictions(*forecast)
    lines = [display.line_, *(display.plot(display.ax_).line_ for _ in range(5))]
    for styles in ({line.get_color() for line in lines}, {str(line._dash_pattern) for line in lines}):
        assert len(styles) == 6


def test_parts_can_be_left_out(forecast):
    display = ReliabilityDisplay.from_predictions(
        *forecast, show_band=False, density="none", show_diagonal=False, show_legend=False
    )
    assert display.band_ is display.density_ is display.diagonal_ is None
    assert display.ax_.get_legend() is None
    assert len(display.ax_.lines) == 1
    assert not display.ax_.collections
    assert display.ax_.get_ylim()[0] > -0.1


def test_line_properties_are_passed_on_and_colour_shared(forecast):
    display = ReliabilityDisplay.from_predictions(*forecast, color="red", linewidth=0.5, label="mine")
    assert display.line_.get_linewidth() == 0.5
    assert display.line_.get_label() == "mine"
    for artist in (display.band_, display.density_):
        assert mpl.colors.to_hex(artist.get_facecolor()[0]) == "#ff0000"


def test_replot_with_another_name(forecast):
    display = ReliabilityDisplay.from_predictions(*forecast, name="a")
    axes = display.ax_
    again = display.plot(name="b")
    assert again is display
    assert display.ax_ is not axes
    assert display.line_.get_label().startswith("b: ")


def test_pandas_and_polars_give_the_numbers_of_their_values(forecast):
    y, p = forecast
    expected = ReliabilityDisplay.from_predictions(y, p).curve
    index = np.random.default_rng(0).permutation(y.shape[0])
    for labels, proba in (
        (pd.Series(y, index=index), pd.Series(p)),
        (pl.Series(y), pl.Series(p)),
        (y.tolist(), np.column_stack((1 - p, p))),
    ):
        curve = ReliabilityDisplay.from_predictions(labels, proba).curve
        np.testing.assert_array_equal(curve.observed, expected.observed)


def test_string_labels_and_pos_label(forecast):
    y, p = forecast
    words = np.array(["no", "yes"])[y]
    plain = ReliabilityDisplay.from_predictions(y, p)
    named = ReliabilityDisplay.from_predictions(words, p, pos_label="yes")
    np.testing.assert_array_equal(named.curve.observed, plain.curve.observed)
    assert named.ax_.get_xlabel() == "Predicted probability (yes)"
    flipped = ReliabilityDisplay.from_predictions(words, 1 - p, pos_label="no").curve
    np.testing.assert_allclose(flipped.observed[::-1], 1 - plain.curve.observed, atol=1e-6)
    np.testing.assert_allclose(flipped.lower[::-1], 1 - plain.curve.upper, atol=1e-6)


def test_from_estimator_is_from_predictions():
    X, y = load_breast_cancer(return_X_y=True)
    words = np.array(["bad", "good"])[y]
    model = GaussianNB().fit(X[::2], words[::2])
    X, words = X[1::2], words[1::2]
    weight = np.random.default_rng(0).integers(1, 4, words.shape[0])
    display = ReliabilityDisplay.from_estimator(model, X, words, sample_weight=weight)
    expected = ReliabilityDisplay.from_predictions(words, model.predict_proba(X), sample_weight=weight)
    np.testing.assert_array_equal(display.curve.observed, expected.curve.observed)
    assert display.line_.get_label().startswith("GaussianNB: smECE = ")
    other = ReliabilityDisplay.from_estimator(model, X, words, pos_label="bad", name="bad ones")
    expected = ReliabilityDisplay.from_predictions(words == "bad", model.predict_proba(X)[:, 0])
    np.testing.assert_array_equal(other.curve.observed, expected.curve.observed)
    # a test set with one class only is no riddle: the estimator knows its classes
    good = words == "good"
    ReliabilityDisplay.from_estimator(model, X[good], words[good])


def test_from_estimator_refuses_what_it_cannot_draw():
    X, y = load_iris(return_X_y=True)
    for model in (LinearRegression(), RidgeClassifier()):
        with pytest.raises(TypeError, match="estimator must have predict_proba"):
            ReliabilityDisplay.from_estimator(model.fit(X, y), X, y)
    binary = LogisticRegression().fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="pos_label=7 is not among the classes"):
        ReliabilityDisplay.from_estimator(binary, X[:100], y[:100], pos_label=7)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"method": "corps"}, ValueError, "method must be one of"),
        ({"band": "belt"}, ValueError, "band must be one of"),
        ({"scale": "log"}, ValueError, "scale must be one of"),
        ({"density": "violin"}, ValueError, "density must be one of"),
        ({"layout": "tower"}, ValueError, "layout must be one of"),
        ({"reduction": "mean"}, ValueError, "reduction must be one of"),
        ({"labels": [0, 1]}, ValueError, "labels name the columns of y_proba"),
        ({"groups": [1, 2]}, ValueError, "groups has shape"),
        ({"groups": [1, None, 2]}, ValueError, "groups has a missing value at index 1"),
        ({"band": "consistency", "n_resamples": 10}, ValueError, "n_resamples=10 is too few"),
        ({"band": "consistency", "random_state": "x"}, TypeError, "random_state must be"),
        (
            {"method": "belt", "band": "consistency"},
            ValueError,
            "method='belt' does not support band='consistency'",
        ),
        (
            {"method": "belt", "error_interval": True},
            ValueError,
            "error_interval is not available for method='belt'",
        ),
        (
            {"method": "belt", "y_proba": [0.1, 0.5, 1.0]},
            ValueError,
            "y_proba contains 1 predictions of exactly",
        ),
        (
            {"method": "belt", "y_proba": [0.3, 0.3, 0.3]},
            ValueError,
            "y_proba has only one distinct value, 0.3",
        ),
        ({"method": "belt"}, ValueError, "a threshold of y_proba separates"),
        (
            {"band": "simultaneous", "sample_weight": [1, 1, 0.5]},
            ValueError,
            "sample_weight must contain whole",
        ),
        ({"method": "belt", "sample_weight": [1, 1, 0.5]}, ValueError, "sample_weight must contain whole"),
        ({"method": "corp", "sample_weight": [1, 1, 0.5]}, ValueError, "sample_weight must contain whole"),
        ({"strategy": "kmeans"}, ValueError, "strategy must be one of"),
        ({"n_bins": 0}, ValueError, "n_bins must be at least 1"),
        ({"n_bins": 2.5}, TypeError, "n_bins must be an integer"),
        ({"confidence": 1.0}, ValueError, "confidence must lie strictly between"),
        ({"bandwidth": -1.0}, ValueError, "bandwidth must be positive"),
        ({"bandwidth": "silverman"}, ValueError, "bandwidth must be one of"),
        ({"y_proba": [0.1, np.nan, 0.3]}, ValueError, "y_proba contains NaN"),
        ({"y_proba": [0.1, 1.00001, 0.3]}, ValueError, "y_proba contains"),
        ({"y_true": [0, 1, 2]}, ValueError, "y_true has 3 distinct values"),
        ({"y_true": [0, 1]}, ValueError, "y_true has 2 samples"),
        ({"sample_weight": [1, -1, 1]}, ValueError, "sample_weight contains"),
        ({"pos_label": "no"}, ValueError, "pos_label='no' is not a label"),
    ],
)
def test_bad_input_is_named_before_anything_is_drawn(params, error, message):
    arguments = {"y_true": [0, 1, 1], "y_proba": [0.1, 0.4, 0.8]} | params
    with pytest.raises(error, match=message):
        ReliabilityDisplay.from_predictions(**arguments)
    assert plt.get_fignums() == []


def test_without_matplotlib_the_extra_is_named(forecast, monkeypatch):
    real_import = builtins.__import__

    def no_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    with pytest.raises(ImportError, match=r"sklearn-calib\[plot\]"):
        ReliabilityDisplay.from_predictions(*forecast)


@pytest.mark.parametrize("method", ["smooth", "binned", "corp"])
@pytest.mark.parametrize("p", [[0.4], [0.0] * 6, [0.5, 0.5, 0.5]])
def test_a_handful_of_predictions_can_be_drawn(method, p):
    y = [1] * len(p)
    for scale in ("probability", "logit"):
        ax = plt.figure(figsize=(2, 2)).add_subplot()
        for band in ("confidence", "consistency", "simultaneous"):
            display = ReliabilityDisplay.from_predictions(
                y, p, method=method, scale=scale, band=band, n_resamples=39, ax=ax, show_legend=False
            )
            assert np.isfinite(display.line_.get_ydata()).any()
        ax.figure.canvas.draw()
