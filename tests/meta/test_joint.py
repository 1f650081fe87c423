"""Classifiers of overlapping halves with one calibrator, against plain loops, and when it is the default."""

from itertools import combinations

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib import calibrators
from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator, SplineCalibrator
from sklearn_calib.meta import CalibratedClassifier
from tests.meta._probabilities import assert_probabilities
from tests.meta.test_errors import Explosive

# the blocks of the design, each left out by one model: each part by five, and each two parts by two
BLOCKS = ["012", "013", "024", "035", "045", "125", "134", "145", "234", "235"]


def by_loops(estimator, calibrator, X, y, parts, left_out, weight=None):
    """Return a function for the probabilities: one calibrator of the mean of the scores of unseen rows."""
    weights = {} if weight is None else {"sample_weight": weight}
    models, unseen = [], [[] for _ in range(y.size)]
    for block in left_out:
        out = np.concatenate([parts[k] for k in block])
        rest = np.setdiff1d(np.arange(y.size), out)
        model = clone(estimator).fit(X[rest], y[rest], **{k: w[rest] for k, w in weights.items()})
        models.append(model)
        for row in out:
            unseen[row].append(model.predict_proba(X[[row]])[0])
    mean = np.array([np.mean(found, axis=0) for found in unseen])
    fitted = clone(calibrator).fit(mean[:, 1] if mean.shape[1] == 2 else mean, y, **weights)

    def predict(X_new):
        mean = np.mean([model.predict_proba(X_new) for model in models], axis=0)
        return fitted.predict_proba(mean[:, 1] if mean.shape[1] == 2 else mean)

    return predict


@pytest.mark.parametrize(
    ("problem", "n_parts", "weighted"),
    [("binary", 4, True), ("three", 5, False), ("binary", None, False), ("three", 6, True)],
)
def test_equals_loops(problem, n_parts, weighted, request):
    X, y = request.getfixturevalue(problem)
    estimator = DecisionTreeClassifier(min_samples_leaf=10, random_state=0)
    calibrator = SplineCalibrator() if problem == "binary" else calibrators.TemperatureCalibrator()
    weight = np.random.default_rng(0).integers(1, 4, y.size).astype(float) if weighted else None
    parts = [test for _, test in StratifiedKFold(n_parts or 6).split(X, y)]
    left_out = [tuple(map(int, block)) for block in BLOCKS]
    if len(parts) < 6:
        left_out = list(combinations(range(len(parts)), 2))
    expected = by_loops(estimator, calibrator, X, y, parts, left_out, weight)(X)
    model = CalibratedClassifier(estimator, calibrator, cv=n_parts).fit(X, y, weight)
    assert model.ensemble_ == "joint"
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0, atol=1e-9)
    assert len(model.estimators_) == (6 if n_parts == 4 else 10)
    assert len(model.calibrators_) == len(model.calibrated_classifiers_) == 1


def test_more_parts_are_merged_into_six_by_size():
    X, y = make_classification(240, random_state=0)
    groups = np.repeat(np.arange(8), [60, 50, 40, 30, 20, 20, 10, 10])
    parts = [np.flatnonzero(np.isin(groups, part)) for part in ([0], [1], [2], [3], [4, 6], [5, 7])]
    left_out = [tuple(map(int, block)) for block in BLOCKS]
    expected = by_loops(GaussianNB(), PlattCalibrator(), X, y, parts, left_out)(X)
    model = CalibratedClassifier(GaussianNB(), PlattCalibrator(), cv=LeaveOneGroupOut(), ensemble="joint")
    np.testing.assert_allclose(model.fit(X, y, groups=groups).predict_proba(X), expected, rtol=0, atol=1e-9)
    # no group is in the training part and in the held-out part of a model
    assert len(CalibratedClassifier(GaussianNB(), cv=10).fit(X, y).estimators_) == 10


def test_other_splits_are_those_of_a_model_each():
    X, y = make_classification(100, random_state=0)
    folds = list(ShuffleSplit(7, test_size=0.3, random_state=0).split(X))
    model = CalibratedClassifier(GaussianNB(), PlattCalibrator(), cv=folds, ensemble="joint").fit(X, y)
    total, times = np.zeros(100), np.zeros(100)
    for train, test in folds:
        total[test] += GaussianNB().fit(X[train], y[train]).predict_proba(X[test])[:, 1]
        times[test] += 1
    held = times > 0
    expected = PlattCalibrator().fit((total / np.maximum(times, 1))[held], y[held])
    p = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(model.calibrators_[0].transform(p), expected.transform(p), rtol=0, atol=1e-9)
    assert len(model.estimators_) == 7


def test_training_parts_of_ones_own_are_not_halved():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.integers(0, 2, 300)
    folds = list(StratifiedKFold(6).split(X, y))
    repeated = [(rng.choice(train, train.size), test) for train, test in folds]
    smaller = [(rng.choice(train, 100, replace=False), test) for train, test in folds]
    tree = DecisionTreeClassifier(random_state=0)
    for cv in (repeated, smaller):
        assert CalibratedClassifier(tree, PlattCalibrator(), cv=cv).fit(X, y).ensemble_ is True
    # features say nothing, and a model that had seen the samples of its scores would be confident
    joint = CalibratedClassifier(tree, PlattCalibrator(), cv=repeated, ensemble="joint").fit(X, y)
    assert np.ptp(joint.predict_proba(rng.normal(size=(300, 5)))[:, 1]) < 0.35


def test_decision_scores_are_averaged():
    X, y = make_classification(120, random_state=0)
    model = CalibratedClassifier(LinearSVC(random_state=0), PlattCalibrator(link="identity")).fit(X, y)
    assert (model.ensemble_, model.response_method_) == ("joint", "decision_function")
    mean = np.mean([member.decision_function(X) for member in model.estimators_], axis=0)
    expected = model.calibrators_[0].predict_proba(mean)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.coef_, np.mean([one.coef_ for one in model.estimators_], axis=0))


FROZEN = FrozenEstimator(GaussianNB().fit(np.arange(20.0).reshape(4, 5), [0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("params", "y", "mode"),
    [
        ({}, None, "joint"),
        ({"calibrator": calibrators.OneVsRestCalibrator(PlattCalibrator())}, None, "joint"),
        ({"calibrator": IsotonicCalibrator()}, None, True),
        ({"calibrator": IsotonicCalibrator(clip="auto")}, None, "joint"),
        ({"calibrator": calibrators.OneVsRestCalibrator(IsotonicCalibrator())}, None, True),
        ({"calibrator": calibrators.VennAbersCalibrator()}, None, True),
        ({"calibrator": calibrators.CertifiedCalibrator("passthrough")}, None, True),
        ({"calibrator": calibrators.AutoCalibrator(cv=2)}, None, True),
        ({"calibrator": "passthrough"}, None, True),
        ({"calibrator": LogisticRegression()}, None, True),
        ({"average": "log"}, None, True),
        ({"cv": 2}, None, True),
        ({"cv": 3}, None, True),
        ({"cv": LeaveOneOut()}, (np.arange(60) // 6) % 2, "joint"),
        ({"cv": LeaveOneOut(), "calibrator": IsotonicCalibrator()}, None, False),
        ({"cv": ShuffleSplit(3, random_state=0)}, None, True),
        ({"cv": TimeSeriesSplit(3)}, None, False),
        # three events of 60: too few for parts, and absent from a held-out part
        ({}, (np.arange(60) % 20 == 5).astype(int), False),
        ({}, (np.arange(60) % 13 == 5).astype(int), "joint"),
        # labels in order, and folds that are not shuffled
        ({"cv": KFold(3)}, np.where(np.arange(60) < 19, 0, np.arange(60) % 2), True),
        ({"cv": KFold(3)}, np.where(np.arange(60) < 21, 0, np.arange(60) % 2), False),
        ({"estimator": FROZEN}, None, False),
        ({"ensemble": True}, None, True),
        ({"ensemble": False}, None, False),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_auto(params, y, mode):
    X = np.random.default_rng(0).normal(size=(60, 5))
    y = np.arange(60) % 2 if y is None else y
    model = CalibratedClassifier(**{"estimator": GaussianNB(), **params}).fit(X, y)
    assert model.ensemble_ == mode
    assert_probabilities(model.predict_proba(X), 60, 2)


def test_few_samples_of_a_third_class():
    X, y = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 2
    y[[7, 31]] = 2
    with pytest.warns(UserWarning, match="least populated class"):
        model = CalibratedClassifier(GaussianNB(), PlattCalibrator()).fit(X, y)
    assert (model.ensemble_, model.predict_proba(X).shape) == (False, (60, 3))
    # a class with four samples has four parts, and no warning is due
    y[[11, 43]] = 2
    assert len(CalibratedClassifier(GaussianNB(), PlattCalibrator()).fit(X, y).estimators_) == 6


def test_samples_without_weight_do_not_count():
    X, y = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 2
    weight = np.where((y == 1) & (np.arange(60) % 20 > 1), 0.0, 1.0)
    # three events have weight
    assert CalibratedClassifier(GaussianNB()).fit(X, y, weight).ensemble_ is False


def test_folds_in_order_of_time():
    X, y = make_classification(200, random_state=0)
    with pytest.warns(UserWarning, match=r"order of time.*Use ensemble=False"):
        CalibratedClassifier(GaussianNB(), cv=TimeSeriesSplit(3), ensemble=True).fit(X, y)
    default = CalibratedClassifier(GaussianNB(), cv=TimeSeriesSplit(3)).fit(X, y)
    one = CalibratedClassifier(GaussianNB(), cv=TimeSeriesSplit(3), ensemble=False).fit(X, y)
    np.testing.assert_array_equal(default.predict_proba(X), one.predict_proba(X))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"estimator": FROZEN}, "frozen estimator"),
        ({"estimator": SVC(kernel="precomputed")}, "precomputed kernel"),
        ({"average": "log"}, "average='log' is for several calibrators"),
        ({"cv": 3}, "needs at least 4 folds.*there are 3"),
        ({"ensemble": "pairs"}, "ensemble must be one of 'auto', 'joint'"),
        ({"cv": KFold(4), "y": np.repeat([0, 1], 30)}, "class 0 has no sample .* for training"),
    ],
    ids=str,
)
def test_what_joint_cannot_do_is_refused(params, message):
    X = np.random.default_rng(0).normal(size=(60, 5))
    params = {"estimator": Explosive(), "ensemble": "joint", **params}
    y = params.pop("y", np.arange(60) % 2)
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(**params).fit(X, y)


def test_certificate_names_everything_that_is_missing():
    X, y = make_classification(100, random_state=0)
    model = CalibratedClassifier(GaussianNB()).fit(X, y)
    message = r"a single classifier \(ensemble=False.*ensemble_ is 'joint'; and a monotone binary calibrator"
    with pytest.raises(ValueError, match=message):
        model.cutoff_certificate()
    platt = CalibratedClassifier(GaussianNB(), PlattCalibrator()).fit(X, y)
    with pytest.raises(ValueError, match=r"needs a single classifier [^;]*$"):
        platt.cutoff_certificate()
    assert 0 < platt.set_params(ensemble=False).fit(X, y).cutoff_certificate().upper <= 1


def test_same_for_sparse_features_and_several_workers():
    X, y = make_classification(150, random_state=0)
    expected = CalibratedClassifier(LogisticRegression()).fit(X, y).predict_proba(X)
    with parallel_config("threading"):
        thin = CalibratedClassifier(LogisticRegression(), n_jobs=2).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict_proba(sparse.csr_array(X)), expected, rtol=0, atol=1e-6)
