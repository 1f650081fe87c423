"""RiskCoverageDisplay: the curve, its band, and the point of a selective classifier."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_calib import SelectiveClassifier
from sklearn_calib.metrics import risk_coverage_curve
from sklearn_calib.plot import RiskCoverageDisplay
from tests._samples import simulated
from tests.plot._legend import legend_texts

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def forecast():
    return simulated(300, digits=2)


def test_the_curve_and_its_band(forecast):
    display = RiskCoverageDisplay.from_predictions(*forecast, name="model", confidence=0.9, show_legend=False)
    curve = risk_coverage_curve(*forecast)
    np.testing.assert_array_equal(display.line_.get_data(), (curve.coverage, curve.risk))
    assert display.line_.get_label() == f"model: AURC = {curve.area:.3f}"
    (path,) = display.band_.get_paths()
    for coverage, risk in list(zip(curve.coverage, curve.risk, strict=True))[::10]:
        heights = path.vertices[path.vertices[:, 0] == coverage, 1]
        accepted = round(300 * coverage)
        exact = binomtest(round(risk * accepted), accepted).proportion_ci(0.9)
        assert (heights.min(), heights.max()) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert display.point_ is None
    assert RiskCoverageDisplay(curve).plot(show_legend=False).band_ is None
    with pytest.raises(ValueError, match="threshold must be at least 0"):
        RiskCoverageDisplay(curve).plot(threshold=-1.0)


def test_several_models_share_axes(forecast):
    y, p = forecast
    first = RiskCoverageDisplay.from_predictions(y, p, name="one")
    second = RiskCoverageDisplay.from_predictions(y, np.abs(p - 0.1), name="two", ax=first.ax_)
    assert first.line_.get_color() != second.line_.get_color()
    assert [text.split(":")[0] for text in legend_texts(second)] == ["one", "two"]
    for name in ("three", "four"):
        third = RiskCoverageDisplay.from_predictions(y, p, name=name, ax=first.ax_, confidence=0.9)
    assert legend_texts(third).count("90% confidence band (at each coverage)") == 1


@pytest.mark.parametrize("risk", ["error", "false_discovery"])
def test_the_point_of_a_selective_classifier(risk):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(3000) > 0, "yes", "no")
    model = LogisticRegression().fit(X[:500], y[:500])
    selective = SelectiveClassifier(FrozenEstimator(model), risk=risk, target=0.13, random_state=0)
    selective.fit(X[500:2000], y[500:2000])
    X, y = X[2000:], y[2000:]
    display = RiskCoverageDisplay.from_estimator(selective, X, y, show_legend=False)
    accepted = selective.accepts(X)
    wrong = (selective.predict(X) != y)[accepted]
    (coverage,), (found,) = display.point_.get_data()
    assert (coverage, found) == pytest.approx((accepted.mean(), wrong.mean()))
    assert 0 < coverage < 1
    with pytest.warns(UserWarning, match="always abstains"):
        selective.set_params(target=1e-6).fit(X, y)
    assert RiskCoverageDisplay.from_estimator(selective, X, y, show_legend=False).point_ is None


def test_several_classes_and_a_single_threshold():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    display = RiskCoverageDisplay.from_estimator(model, X, y, confidence=0.95, show_legend=False)
    assert display.line_.get_label().startswith("LogisticRegression: AURC = ")
    band = RiskCoverageDisplay.from_predictions([0, 1, 1], [0.7, 0.7, 0.7], confidence=0.9, show_legend=False)
    assert band.line_.get_marker() == "o"
    assert (band.line_.get_xdata(), band.line_.get_ydata()) == (1.0, pytest.approx(1 / 3))
    (bar,) = band.band_.get_segments()
    interval = binomtest(1, 3).proportion_ci(0.9, method="exact")
    np.testing.assert_allclose(bar, [[1.0, interval.low], [1.0, interval.high]], atol=1e-9)
    assert band.ax_.get_ylim()[1] > interval.high
