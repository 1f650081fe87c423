"""Decision curves, Murphy diagrams and the plane of miscalibration and discrimination."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from sklearn_calib.inference import dominance_test
from sklearn_calib.metrics import calibration_loss, net_benefit, score_decomposition
from sklearn_calib.plot import DecisionCurveDisplay, MurphyDisplay, ScoreDecompositionDisplay
from sklearn_calib.sketch import CalibrationSketch

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    return (rng.random(300) < p).astype(int), p, rng.integers(0, 4, 300)


@pytest.mark.parametrize("weights", [None, "whole", "any"])
def test_decision_curve_is_the_net_benefit(data, weights):
    y, p, w = data
    w = {None: None, "whole": w, "any": w / 3}[weights]
    display = DecisionCurveDisplay.from_predictions(y, p, sample_weight=w)
    tau, value = display.lines_[0].get_data()
    np.testing.assert_allclose(tau, np.arange(1, 100) / 100)
    np.testing.assert_allclose(value, [net_benefit(y, p, threshold=t, sample_weight=w) for t in tau])
    treat_all = next(line for line in display.ax_.lines if line.get_label() == "treat all")
    assert treat_all.get_ydata()[0] == pytest.approx(np.average(y, weights=w))
    t, height = (each[200] for each in treat_all.get_data())
    everyone = net_benefit(y, np.ones(300) / 2 + 0.4, threshold=t, sample_weight=w)
    assert height == pytest.approx(everyone)


def test_pointwise_band_is_that_of_a_mean(data):
    y, p, w = data
    display = DecisionCurveDisplay.from_predictions(y, p, thresholds=[0.3], sample_weight=w)
    again = np.repeat(np.arange(300), w)
    benefit = np.where(y == 1, 1.0, -3 / 7)[again] * (p[again] >= 0.3)
    error = benefit.std() / np.sqrt(len(again))
    curve = display.curves[None]
    assert curve.value[0] == pytest.approx(benefit.mean())
    assert curve.lower[0] == pytest.approx(benefit.mean() - 1.959964 * error)
    assert curve.upper[0] == pytest.approx(benefit.mean() + 1.959964 * error)
    assert display.lines_[0].get_marker() == "o"
    # of weights that are no counts, the error of a ratio
    w = w / 3
    curve = DecisionCurveDisplay.from_predictions(y, p, thresholds=[0.3], sample_weight=w).curves[None]
    benefit = np.where(y == 1, 1.0, -3 / 7) * (p >= 0.3)
    error = np.sqrt(np.sum(w**2 * (benefit - curve.value[0]) ** 2)) / w.sum()
    assert curve.upper[0] - curve.value[0] == pytest.approx(1.959964 * error)


def test_simultaneous_bands_are_wider(data):
    y, p, _ = data
    bands = {}
    for band in ("pointwise", "simultaneous"):
        curve = MurphyDisplay.from_predictions(y, p, band=band).curves[None]
        bands[band] = curve.upper - curve.lower
    ratio = bands["simultaneous"] / bands["pointwise"]
    np.testing.assert_allclose(ratio, ratio[0])
    assert 1.3 < ratio[0] < 1.8


@pytest.mark.thorough
@pytest.mark.parametrize("band", ["pointwise", "simultaneous"])
def test_coverage_of_bands(band):
    rng = np.random.default_rng(0)
    tau = np.array([0.1, 0.3, 0.5, 0.7])
    # of uniform calibrated predictions: the integral of x - (1 - x) t / (1 - t) from t to 1
    truth = (1 - tau**2) / 2 - (1 - tau) ** 2 / 2 * tau / (1 - tau)
    inside = []
    for _ in range(400):
        p = rng.random(200)
        y = (rng.random(200) < p).astype(int)
        params = {"thresholds": tau, "band": band, "n_resamples": 199, "random_state": rng}
        curve = DecisionCurveDisplay.from_predictions(y, p, show_legend=False, **params).curves[None]
        plt.close()
        inside.append((curve.lower <= truth) & (truth <= curve.upper))
    inside = np.array(inside)
    found = inside.all(axis=1).mean() if band == "simultaneous" else inside.mean(axis=0)
    assert (np.abs(found - 0.95) <= 4 * np.sqrt(0.05 * 0.95 / 400)).all()


def test_area_of_the_murphy_diagram_is_the_brier_score(data):
    y, p, w = data
    p = np.round(p, 3)
    tau = (np.arange(2000) + 0.5) / 2000
    curve = MurphyDisplay.from_predictions(y, p, sample_weight=w, thresholds=tau).curves[None]
    assert curve.value.mean() == pytest.approx(brier_score_loss(y, p, sample_weight=w), abs=1e-6)


def test_differences_are_those_of_the_test(data):
    y, p, _ = data
    models = {"$a$": p**2, "b": p, "c": np.sqrt(p)}
    one = MurphyDisplay.from_predictions(y, models, reference="b", kind="differences")
    test = dominance_test(y, models["$a$"], p, n_resamples=499, random_state=0)
    assert list(one.differences) == ["$a$", "c"]
    np.testing.assert_allclose(one.differences["$a$"].difference, test.difference)
    np.testing.assert_allclose(one.lines_[0].get_ydata(), 2 * test.difference)
    assert one.lines_[0].get_label().startswith(r"\$a\$ - b: p = ")
    other = DecisionCurveDisplay.from_predictions(y, models, reference="b")
    assert [line.get_label() for line in other.lines_] == [r"\$a\$", "b", "c"]
    curves = {key: curve.value for key, curve in other.curves.items()}
    other.plot(kind="differences")
    np.testing.assert_allclose(other.lines_[0].get_ydata(), curves["$a$"] - curves["b"], atol=1e-12)
    low, high = (other.bands_[0].get_paths()[0].vertices[:, 1].min(), curves["b"].max())
    assert low < other.lines_[0].get_ydata().min() < high


@pytest.mark.parametrize("display", [DecisionCurveDisplay, MurphyDisplay, ScoreDecompositionDisplay])
def test_estimators_sketches_and_bad_input(display, data):
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=999).fit(X[:, :2], y)
    drawn = display.from_estimator(model, X[:, :2], y)
    expected = display.from_predictions(y, model.predict_proba(X[:, :2]))
    for one, other in zip(drawn.ax_.lines, expected.ax_.lines, strict=True):
        np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())
    y, p, _ = data
    # between thresholds
    p = np.floor(p * 100) / 100 + 0.005
    sketch = CalibrationSketch().update(y, p)
    found, expected = display.from_predictions(sketch), display.from_predictions(y, p)
    np.testing.assert_allclose(found.ax_.lines[0].get_xydata(), expected.ax_.lines[0].get_xydata(), atol=1e-4)
    with pytest.raises(ValueError, match="y_proba is empty"):
        display.from_predictions(y, {})
    with pytest.raises(ValueError, match="reduction"):
        display.from_predictions(y, p, reduction="all")


def test_bad_options(data):
    y, p, _ = data
    with pytest.raises(ValueError, match="reference='c' is not one of the models"):
        MurphyDisplay.from_predictions(y, {"a": p}, reference="c")
    with pytest.raises(ValueError, match="kind='differences' needs several models"):
        MurphyDisplay.from_predictions(y, p, kind="differences")
    with pytest.raises(ValueError, match="band"):
        MurphyDisplay.from_predictions(y, p, band="belt")
    with pytest.raises(ValueError, match=r"y_proba\['b'\] has other classes"):
        MurphyDisplay.from_predictions(y, {"a": p, "b": np.full((300, 3), 1 / 3)})
    with pytest.raises(ValueError, match=r"log loss of y_proba\['b'\] is infinite"):
        ScoreDecompositionDisplay.from_predictions(
            y, {"a": p, "b": np.where(p == p.max(), 1.0 - y, p)}, score="log_loss"
        )


def test_plane_is_the_decomposition(data):
    y, p, w = data
    models = {"a": p**2, "b": p}
    display = ScoreDecompositionDisplay.from_predictions(y, models, sample_weight=w, score="log_loss")
    for point, (name, proba) in zip(display.points_, models.items(), strict=True):
        parts = score_decomposition(y, proba, sample_weight=w, score="log_loss")
        x, height = point.get_data()
        assert (x[0], height[0]) == pytest.approx((parts.miscalibration, parts.discrimination))
        assert point.get_label() == f"{name}: {parts.score:.3f}"
    assert display.lines_
    P = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    y = np.arange(60) % 3
    found = ScoreDecompositionDisplay.from_predictions(y, P).decompositions[None]
    assert found.miscalibration == pytest.approx(calibration_loss(y, P))
    mean = found.miscalibration - found.discrimination + found.uncertainty
    assert found.score == pytest.approx(mean)
    two = {"a": P, "b": P[:, ::-1]}
    # accuracies differ, and so do uncertainties: no common lines of equal score
    display = ScoreDecompositionDisplay.from_predictions(y, two, reduction="confidence")
    assert not display.lines_
    assert not ScoreDecompositionDisplay.from_predictions(y, P, show_scores=False).lines_
