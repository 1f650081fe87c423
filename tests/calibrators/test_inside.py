"""Maps stay inside (0, 1), and so do their complements, but for those that are event frequencies."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib import CalibratedClassifier, calibrators
from sklearn_calib.monitor import StreamingCalibrator
from tests._samples import simulated
from tests.calibrators._own import Keeper
from tests.calibrators._registry import CALIBRATORS, once_a_class

LEAST, MOST = 2.0**-53, 1.0 - 2.0**-53
# frequencies of blocks or bins, as they are
FREQUENCIES = {"isotonic", "isotonic_step", "histogram_binning_plain", "scaling_binning_all_rows"}
FREQUENCIES |= {"one_vs_rest_isotonic", "certified_isotonic"}
ENDS = [0.0, 5e-324, 1e-300, 2.0**-53, 0.5, 1 - 2.0**-53, 1.0]

INNER = [case for case in CALIBRATORS if case.name not in FREQUENCIES]


def ordinary():
    """Forecasts that are a little timid, and some of 0 and 1 that are right."""
    y, p = simulated(400, "beta", 0.3, 0.3, truth=lambda p: expit(1.5 * np.log(p / (1 - p))))
    return np.concatenate([p, np.repeat([0.0, 1.0], 10)]), np.concatenate([y, np.repeat([0, 1], 10)])


def assert_inside(proba):
    assert proba.dtype == np.float64
    assert proba.min() >= LEAST, proba.min()
    assert proba.max() <= MOST, proba.max()
    assert ((1 - proba > 0) & (1 - proba < 1)).all()
    assert np.isfinite(np.log(proba)).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-14)


@pytest.mark.parametrize("case", once_a_class(INNER))
def test_two_classes(case):
    p, y = ordinary()
    calibrator = case.make().fit(p.astype(np.float32), y)
    for kind in (np.float64, np.float32):
        ends = np.array(ENDS, dtype=kind)
        assert_inside(calibrator.predict_proba(ends))
        column = calibrator.transform(ends)
        assert_inside(np.column_stack([1 - column, column]))


@pytest.mark.parametrize("case", once_a_class(INNER))
def test_separated_classes(case):
    p = np.repeat([0.0, 1.0], 20)
    assert_inside(case.make().fit(p, p.astype(int)).predict_proba(np.array(ENDS)))


@pytest.mark.parametrize("case", once_a_class([case for case in INNER if case.multiclass], slow={"auto"}))
def test_several_classes(case):
    rng = np.random.default_rng(1)
    scores = np.vstack([12 * rng.standard_normal((80, 4)), 300 * np.eye(4), [[-800.0, 0.0, 0.0, 800.0]]])
    proba = np.exp(scores - scores.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    y = (proba.cumsum(axis=1) > rng.random((85, 1))).argmax(axis=1)
    X = scores if case.log_odds else proba
    for rows in (slice(None), slice(80)):
        calibrator = case.make().fit(X[rows], y[rows])
        for kind in (np.float64, np.float32):
            assert_inside(calibrator.predict_proba(X.astype(kind)))


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_remote_scores(link):
    """Each curve passes 1/2 between the scores, and is certain far out, of probabilities as far as seen."""
    scores = np.array([-1000.0, -40.0, 0.0, 40.0, 1000.0])
    X = expit(scores) if link == "logit" else scores
    for name in ("Platt", "ModifiedPlatt", "Temperature"):
        calibrator = getattr(calibrators, f"{name}Calibrator")(link=link)
        calibrator.fit(np.tile(expit([-2, 2]) if link == "logit" else [-2, 2], 50), [0, 1] * 50)
        proba = calibrator.predict_proba(X)
        assert_inside(proba)
        assert proba[2, 1] == pytest.approx(0.5)
        far = calibrator.predict_proba([0.05])[0] if link == "logit" else [MOST, LEAST]
        np.testing.assert_allclose(np.vstack([proba[:2], proba[3:, ::-1]]), np.tile(far, (4, 1)), rtol=1e-12)


@pytest.mark.parametrize(
    ("average", "ensemble", "n_classes", "calibrator"),
    [
        ("log", True, 2, None),
        ("probability", False, 3, None),
        ("probability", True, 3, calibrators.PlattCalibrator()),
        ("log", False, 2, calibrators.TemperatureCalibrator()),
        ("log", True, 3, calibrators.TemperatureCalibrator()),
        ("probability", True, 2, calibrators.VennAbersCalibrator()),
    ],
)
def test_a_calibrated_classifier(average, ensemble, n_classes, calibrator):
    rng, y = np.random.default_rng(2), np.arange(120) % n_classes
    X = 40.0 * y[:, None] + rng.standard_normal((120, 1))
    model = CalibratedClassifier(GaussianNB(), calibrator, cv=3, ensemble=ensemble, average=average).fit(X, y)
    assert_inside(model.predict_proba(np.vstack([X, [[-1e6], [1e6]]])))


def test_frequencies_stay_as_they_are():
    p, y = np.repeat([0.0, 0.2, 0.8, 1.0], 10), np.repeat([0, 0, 1, 1], 10)
    y[[12, 28]] = 1, 0
    steps = calibrators.IsotonicCalibrator()
    for calibrator in (
        steps,
        calibrators.HistogramBinningCalibrator(n_bins=4, smoothing=None),
        calibrators.OneVsRestCalibrator(steps),
        calibrators.OneVsRestCalibrator(DecisionTreeClassifier()),
        calibrators.ScalingBinningCalibrator(steps, split=False),
        calibrators.CertifiedCalibrator(steps),
        StreamingCalibrator(steps),
    ):
        np.testing.assert_array_equal(calibrator.fit(p, y).transform([0.0, 1.0]), [0.0, 1.0])
    # an average has no veto, whatever it is made of
    assert_inside(calibrators.LogAverageCalibrator([steps, steps]).fit(p, y).predict_proba([0.0, 1.0]))
    assert_inside(calibrators.HistogramBinningCalibrator(n_bins=4).fit(p, y).predict_proba([0.0, 1.0]))
    assert_inside(calibrators.IsotonicCalibrator(clip="auto").fit(p, y).predict_proba([0.0, 1.0]))


def test_a_calibrator_of_a_user_declares_it():
    given = np.array([0.0, 0.5, 1.0])
    inside, certain = (Keeper(certain=flag).fit(given, [0, 1, 1]) for flag in (False, True))
    np.testing.assert_array_equal(inside.transform(given), [LEAST, 0.5, MOST])
    np.testing.assert_array_equal(certain.transform(given), given)
    np.testing.assert_array_equal(given, [0.0, 0.5, 1.0])
    for flag in (False, True):
        lifted = calibrators.OneVsRestCalibrator(Keeper(certain=flag)).fit(np.eye(3), [0, 1, 2])
        assert (lifted.predict_proba(np.eye(3)).max() == 1) == flag
