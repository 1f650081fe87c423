"""A calibrator of a user: what it defines, what it is given, where it can be used."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from sklearn_calib import CalibratedClassifier, calibrators


class Shift(calibrators.BaseCalibrator):
    """The example of the base class, which also keeps what it was given."""

    _multiclass = False

    def _score_kind(self):
        return "probability"

    def _fit_scores(self, scores, codes, weight):
        self.given_ = scores, codes, weight
        self.shift_ = np.average(codes - scores, weights=weight)

    def _map_scores(self, scores):
        return np.clip(scores + self.shift_, 0.0, 1.0)


P = np.array([0.2, 0.4, 0.6, 0.8])
Y = np.array(["no", "yes", "yes", "yes"])
SCORES, OUTCOMES = np.linspace(0.2, 0.6, 60), np.arange(60) % 2


def test_is_given_checked_arrays():
    scores, codes, weight = Shift().fit(P[:, None].astype(np.float32), Y, [1, 0, 2, 3]).given_
    assert (scores.tolist(), scores.dtype) == (P[[0, 2, 3]].astype(np.float32).tolist(), np.float64)
    assert (codes.tolist(), weight.tolist()) == ([0, 1, 1], [1.0, 2.0, 3.0])
    assert Shift().fit(P, Y).given_[2] is None
    assert Shift().fit(P, Y).transform([0.3]).tolist() == [pytest.approx(0.55)]


@pytest.mark.parametrize(
    "wrap",
    [
        calibrators.OneVsRestCalibrator,
        calibrators.GroupCalibrator,
        lambda own: calibrators.ScalingBinningCalibrator(own, split=False, n_bins=100),
        lambda own: calibrators.LogAverageCalibrator([own]),
        lambda own: calibrators.AutoCalibrator(candidates={"own": own}),
        # fitted to all samples, not to one half
        lambda own: calibrators.CertifiedCalibrator(FrozenEstimator(own.fit(SCORES, OUTCOMES))),
    ],
)
def test_inside_another_calibrator(wrap):
    expected = Shift().fit(SCORES, OUTCOMES).transform(SCORES)
    found = wrap(Shift()).fit(SCORES, OUTCOMES).transform(SCORES)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_inside_a_calibrated_classifier(n_classes):
    X, y = make_classification(300, n_classes=n_classes, n_informative=4, n_redundant=0, random_state=0)
    labels = np.array(["c", "a", "b"])[y]
    w = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    model = CalibratedClassifier(LogisticRegression(), Shift(), cv=3).fit(X, labels, w)
    splits = StratifiedKFold(3).split(X, labels)
    for (train, test), pair in zip(splits, model.calibrated_classifiers_, strict=True):
        inner = LogisticRegression().fit(X[train], labels[train], w[train]).predict_proba(X)
        own = Shift() if n_classes == 2 else calibrators.OneVsRestCalibrator(Shift())
        expected = own.fit(inner[test], labels[test], w[test]).predict_proba(inner)
        assert pair.calibrator.classes_.tolist() == sorted(set(labels))
        np.testing.assert_allclose(pair.predict_proba(X), expected, rtol=0, atol=1e-12)
