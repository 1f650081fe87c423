"""Every calibrator of the registry behind a classifier."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_calib import calibrators as cal
from sklearn_calib.meta import CalibratedClassifier
from tests.calibrators._registry import CALIBRATORS, calibrators_with, once_a_class
from tests.meta._probabilities import assert_probabilities

N = 160
#: Every calibrator once for each fold with weights, or once for all folds without.
TURNS = [
    pytest.param(*param.values, bool(place % 2), marks=param.marks, id=param.id)
    for place, param in enumerate(once_a_class(CALIBRATORS, slow={"auto"}))
]


def problem(n_classes):
    given = {"n_informative": 4, "n_classes": n_classes, "class_sep": 1.5, "flip_y": 0.1}
    X, y = make_classification(N, n_features=6, **given, random_state=0)
    return X, np.array(["c", "a", "b"])[y], np.random.default_rng(0).integers(0, 3, N)


@pytest.mark.parametrize(("case", "each_fold"), TURNS)
def test_binary(case, each_fold):
    X, y, w = problem(2)
    model = CalibratedClassifier(LogisticRegression(), case.make(), cv=3, ensemble=each_fold)
    model.fit(X, y, **({"sample_weight": w} if each_fold else {}))
    proba = model.predict_proba(X)
    assert model.classes_.tolist() == ["a", "c"]
    assert_probabilities(proba, N, 2)
    assert all(isinstance(calibrator, cal.BaseCalibrator) for calibrator in model.calibrators_)
    # the classifier is informative, and stays so
    event = y == "c"
    assert np.mean((proba[:, 1] - event) ** 2) < event.var() * (1.01 if case.constant else 0.9)


@calibrators_with("multiclass", slow={"auto"})
def test_several_classes(case):
    X, y, _ = problem(3)
    response = "decision_function" if case.log_odds else "predict_proba"
    given = {"response_method": response, "cv": 3, "ensemble": False}
    model = CalibratedClassifier(LogisticRegression(), case.make(), **given).fit(X, y)
    assert_probabilities(model.predict_proba(X), N, 3)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case",
    # "auto" chooses among the others
    [case for case in CALIBRATORS if case.name == "platt" or (case.multiclass and case.name != "auto")],
    ids=lambda case: case.name,
)
def test_a_hundred_classes_with_few_rows_each(case):
    calibrator = case.make()
    if "penalty" in calibrator.get_params():
        calibrator.set_params(penalty=1.0)
    elif case.name == "log_average":
        platt = cal.OneVsRestCalibrator(cal.PlattCalibrator())
        calibrator.set_params(calibrators=[platt, cal.MatrixScalingCalibrator(penalty=1.0)])
    rng = np.random.default_rng(0)
    centers, y = 3 * rng.standard_normal((100, 8)), np.tile(np.arange(100), 6)
    X = centers[y] + rng.standard_normal((600, 8))
    response = "decision_function" if case.log_odds else "predict_proba"
    base = FrozenEstimator(LinearDiscriminantAnalysis().fit(X[:300], y[:300]))
    model = CalibratedClassifier(base, calibrator, response_method=response).fit(X[300:], y[300:])
    assert_probabilities(model.predict_proba(X), 600, 100)
    assert (model.predict(X[300:]) == y[300:]).mean() > 0.7
