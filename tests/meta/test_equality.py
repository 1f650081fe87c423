"""Isotonic and Platt calibration equal scikit-learn's CalibratedClassifierCV."""

import numpy as np
import pytest
import sklearn.calibration
from scipy.optimize import minimize
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV, _SigmoidCalibration
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator, TemperatureCalibrator
from sklearn_calib.meta import CalibratedClassifier
from tests._sklearn import SKLEARN, calibrates_log_odds

LOGISTIC, BAYES, SVC = LogisticRegression(), GaussianNB(), LinearSVC(random_state=0)


class SigmoidOfSklearn(ClassifierMixin, BaseEstimator):
    """scikit-learn's own sigmoid as a calibrator object: any difference is then the mechanism's."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.sigmoid_ = _SigmoidCalibration().fit(np.ravel(X), y == self.classes_[1], sample_weight)
        return self

    def predict_proba(self, X):
        p = self.sigmoid_.predict(np.ravel(X))
        return np.column_stack([1 - p, p])


class LogOdds(ClassifierMixin, BaseEstimator):
    """A classifier whose decision function is the log-odds of the probability of each class."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y, sample_weight=None):
        self.model_ = clone(self.estimator).fit(X, y, sample_weight=sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def decision_function(self, X):
        scores = logit(self.model_.predict_proba(X))
        return scores[:, 1] if scores.shape[1] == 2 else scores


class Probabilities(LogOdds):
    """A classifier without a decision function."""

    decision_function = property()  # which hasattr denies

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def minimize_to_the_end(fun, x0, *, options=None, **rest):
    return minimize(fun, x0, options={"gtol": 1e-13, "ftol": 1e-20, "maxiter": 1000}, **rest)


def problem(n_classes, seed=0):
    X, y = make_classification(240, 6, n_informative=4, n_classes=n_classes, flip_y=0.2, random_state=seed)
    return X, y, np.random.default_rng(seed).normal(scale=2, size=(200, 6))


#: Classifiers, numbers of classes, weights, whether each fold has a calibrator, and calibrators, in pairs.
DESIGN = [
    (LOGISTIC, 2, True, False, "isotonic"),
    (LOGISTIC, 3, False, True, "sigmoid"),
    (LOGISTIC, 2, False, True, "platt"),
    (BAYES, 3, False, True, "isotonic"),
    (BAYES, 2, True, False, "sigmoid"),
    (BAYES, 3, True, False, "platt"),
    (SVC, 3, True, False, "isotonic"),
    (SVC, 2, False, True, "sigmoid"),
    (SVC, 3, True, False, "platt"),
]
CALIBRATORS = {"isotonic": IsotonicCalibrator(), "sigmoid": SigmoidOfSklearn()}
CALIBRATORS["platt"] = PlattCalibrator(link="identity")


def usual(estimator, X, y, X_new):
    """Tell which rows have probabilities that no calibrator of log-odds clips, as samples have such ones."""
    p = clone(estimator).fit(X, y).predict_proba(X_new)
    return ((p > 0.1) & (p < 0.9)).all(axis=1)


@pytest.mark.parametrize(("estimator", "n_classes", "weighted", "ensemble", "name"), DESIGN)
def test_equals_sklearn(estimator, n_classes, weighted, ensemble, name, monkeypatch):
    calibrator, method = CALIBRATORS[name], "isotonic" if name == "isotonic" else "sigmoid"
    log_odds = calibrates_log_odds() and hasattr(estimator, "predict_proba")
    if log_odds and isinstance(calibrator, SigmoidOfSklearn):
        pytest.skip("the sigmoid of this release of scikit-learn is fitted to log-odds, which it lacks")
    if isinstance(calibrator, PlattCalibrator):
        calibrator = PlattCalibrator() if log_odds else calibrator
        # scikit-learn's solver stops at a gradient of 1e-6; both shall go on to the optimum
        monkeypatch.setattr(sklearn.calibration, "minimize", minimize_to_the_end)
    X, y, X_new = problem(n_classes)
    y = np.array(["c", "a", "b"])[y]
    weight = np.random.default_rng(1).integers(1, 5, y.shape[0]) if weighted else None
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    theirs = CalibratedClassifierCV(estimator, method=method, cv=cv, ensemble=ensemble)
    response = "predict_proba" if log_odds else "auto"
    ours = CalibratedClassifier(estimator, calibrator, response_method=response, cv=cv, ensemble=ensemble)
    expected = theirs.fit(X, y, sample_weight=weight).predict_proba(X_new)
    found = ours.fit(X, y, sample_weight=weight).predict_proba(X_new)
    rows = usual(estimator, X, y, X_new) if log_odds and name == "platt" else slice(None)
    np.testing.assert_allclose(found[rows], expected[rows], rtol=0, atol=1e-8)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert len(ours.calibrated_classifiers_) == len(theirs.calibrated_classifiers_) == (4 if ensemble else 1)
    np.testing.assert_array_equal(ours.predict(X_new), theirs.predict(X_new))


@pytest.mark.parametrize(
    ("estimator", "n_classes", "method", "scores", "calibrator"),
    [
        (LOGISTIC, 2, "isotonic", Probabilities, IsotonicCalibrator()),
        (LOGISTIC, 3, "sigmoid", LogOdds, PlattCalibrator()),
        (BAYES, 2, "sigmoid", LogOdds, PlattCalibrator()),
    ],
)
def test_equals_sklearn_with_probabilities_preferred(
    estimator, n_classes, method, scores, calibrator, monkeypatch
):
    """What scikit-learn will compute where a classifier has probabilities, in any of its releases."""
    monkeypatch.setattr(sklearn.calibration, "minimize", minimize_to_the_end)
    X, y, X_new = problem(n_classes)
    theirs = CalibratedClassifierCV(scores(estimator), method=method)
    ours = CalibratedClassifier(estimator, calibrator, response_method="predict_proba", ensemble=True)
    found, expected = (model.fit(X, y).predict_proba(X_new) for model in (ours, theirs))
    rows = usual(estimator, X, y, X_new) if method == "sigmoid" else slice(None)
    assert found[rows].shape[0] >= 50
    np.testing.assert_allclose(found[rows], expected[rows], rtol=0, atol=1e-8)


@pytest.mark.parametrize(("n_classes", "ensemble"), [(2, "auto"), (3, True)])
def test_equals_sklearn_when_frozen(n_classes, ensemble):
    X, y, X_new = problem(n_classes)
    frozen = FrozenEstimator(GaussianNB().fit(X[:120], y[:120]))
    theirs = CalibratedClassifierCV(frozen, method="isotonic", ensemble=ensemble).fit(X[120:], y[120:])
    ours = CalibratedClassifier(frozen, IsotonicCalibrator(), ensemble=ensemble).fit(X[120:], y[120:])
    np.testing.assert_allclose(ours.predict_proba(X_new), theirs.predict_proba(X_new), rtol=0, atol=1e-8)
    assert len(ours.calibrated_classifiers_) == (1 if ensemble == "auto" else 5)


@pytest.mark.skipif(SKLEARN < (1, 8), reason="scikit-learn has temperature scaling since 1.8")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_equals_sklearn_temperature(n_classes):
    X, y, X_new = problem(n_classes)
    theirs = CalibratedClassifierCV(LOGISTIC, method="temperature", ensemble=False).fit(X, y)
    ours = CalibratedClassifier(LOGISTIC, TemperatureCalibrator(link="identity"), ensemble=False).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X_new), theirs.predict_proba(X_new), rtol=0, atol=1e-5)
