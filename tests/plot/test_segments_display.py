"""The forest plot of segments shows the numbers of find_segments."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_calib.inference import find_segments
from sklearn_calib.plot import SegmentsDisplay


def data():
    rng = np.random.default_rng(0)
    X = {"age": rng.integers(18, 80, 2000), "price$": rng.standard_normal(2000)}
    p = rng.uniform(0.1, 0.5, 2000)
    return X, (rng.random(2000) < p + 0.2 * (X["age"] <= 30)).astype(int), p


def test_numbers_drawn():
    X, y, p = data()
    result = find_segments(X, y, p, segments=["age", "price$"], n_resamples=99)
    display = SegmentsDisplay.from_result(result, color="black")
    expected = [(row.difference, k) for k, row in enumerate(result.segments)]
    np.testing.assert_array_equal(display.points_.get_xydata(), expected)
    assert display.points_.get_color() == "black"
    ends = [segment[:, 0].tolist() for segment in display.intervals_.get_segments()]
    assert ends == [[row.lower, row.upper] for row in result.segments]
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels == [row.segment.replace("$", r"\$") for row in result.segments]
    first = result.segments[0]
    assert display.ax_.texts[0].get_text() == f"  n = {first.n_samples:,.0f}, p = 0.01"


def test_nothing_found():
    X, _, p = data()
    y = (np.random.default_rng(1).random(2000) < p).astype(int)
    display = SegmentsDisplay.from_predictions(X, y, p, n_resamples=99)
    assert [text.get_text() for text in display.ax_.texts] == ["no segment found"]


def test_estimator_and_axes():
    from matplotlib.figure import Figure

    X, y, _ = data()
    table = np.column_stack(list(X.values()))
    model = LogisticRegression().fit(table[:, 1:], y)

    class Model:
        classes_ = model.classes_

        def predict_proba(self, X):
            return model.predict_proba(X[:, 1:])

    ax = Figure().subplots()
    display = SegmentsDisplay.from_estimator(Model(), table, y, ax=ax, n_resamples=99)
    assert display.ax_ is ax
    assert ax.get_legend() is None
    assert display.result == find_segments(table, y, model.predict_proba(table[:, 1:]), n_resamples=99)
    with pytest.raises(TypeError, match="find_segments"):
        SegmentsDisplay.from_result(table)
