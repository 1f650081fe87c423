"""Wrong input is refused before any work, with the argument and the way out."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, RepeatedKFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from sklearn_calib import calibrators as cal
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer, SelectiveClassifier
from sklearn_calib.monitor import StreamingCalibrator

X, Y = make_classification(60, n_features=4, random_state=0)
SORTED = np.sort(Y)


class Explosive(ClassifierMixin, BaseEstimator):
    """A classifier that must not be fitted."""

    def fit(self, X, y):
        raise AssertionError("work was done before the input was checked")

    def predict_proba(self, X):
        raise AssertionError


class OfTransforms:
    """A calibrator of another package, with fit and transform."""

    def fit(self, X, y):
        raise AssertionError

    def transform(self, X):
        raise AssertionError


@pytest.mark.parametrize("calibrator", [IsotonicRegression(), OfTransforms()], ids=["regressor", "transform"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda calibrator: cal.AutoCalibrator(candidates={"other": calibrator}),
        cal.CertifiedCalibrator,
        cal.GroupCalibrator,
        cal.SegmentCalibrator,
        cal.OneVsRestCalibrator,
        lambda calibrator: cal.LogAverageCalibrator([calibrator]),
        StreamingCalibrator,
    ],
)
def test_calibrators_refuse_what_has_no_probabilities(wrap, calibrator):
    message = "no predict_proba. Pass a calibrator, for example IsotonicCalibrator.., or write a subclass of"
    with pytest.raises(TypeError, match=message):
        wrap(calibrator).fit(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0, 1, 0, 1]))


def test_classifier_refuses_parameters():
    for params, error, message in [
        ({"estimator": GaussianNB}, TypeError, r"estimator is the class GaussianNB; pass an instance"),
        ({"estimator": "svm"}, TypeError, "estimator must be a classifier"),
        ({"calibrator": cal.IsotonicCalibrator}, TypeError, "calibrator is the class IsotonicCalibrator"),
        ({"calibrator": "isotonic"}, TypeError, r"'isotonic' has no fit.*IsotonicCalibrator\(\)"),
        ({"calibrator": IsotonicRegression()}, TypeError, r"IsotonicRegression\(\) has no predict_proba"),
        ({"calibrator": OfTransforms()}, TypeError, "no predict_proba.*IsotonicCalibrator.*BaseCalibrator"),
        ({"estimator": IsotonicRegression()}, TypeError, "classifier, but IsotonicRegression is a reg"),
        ({"response_method": "predict"}, ValueError, "response_method must be one of"),
        ({"ensemble": "yes"}, ValueError, "ensemble must be one of 'auto'"),
        ({"cv": []}, ValueError, "cv yields no split"),
        ({"n_jobs": 1.5}, TypeError, "n_jobs must be an integer, got 1.5"),
        ({"n_jobs": "all"}, TypeError, "n_jobs must be an integer, got 'all'"),
        ({"n_jobs": -(10**12)}, ValueError, "n_jobs must be at least -1000000"),
        ({"calibrator": "passthrough", "response_method": "decision_function"}, ValueError, "passthrough"),
        ({"cv": LeaveOneOut(), "ensemble": True}, ValueError, "class 0 has .* fold 1 of 60.*ensemble=False"),
    ]:
        given = {"estimator": Explosive(), "calibrator": cal.IsotonicCalibrator(), **params}
        with pytest.raises(error, match=message):
            CalibratedClassifier(**given).fit(X, Y)


def test_no_more_workers_than_folds():
    found = []

    class Watched(GaussianNB):
        def fit(self, X, y):
            found.append(None)
            return super().fit(X, y)

    with parallel_config(backend="threading"):
        for ensemble in (True, False):
            CalibratedClassifier(Watched(), ensemble=ensemble, cv=2, n_jobs=10**12).fit(X, Y)
        CrossFitScorer(Watched(), cv=2, n_jobs=10**12).fit_transform(X, Y)
    assert len(found) == 2 + 3 + 3


@pytest.mark.parametrize("model", [CalibratedClassifier(Explosive()), CrossFitScorer(Explosive())])
@pytest.mark.parametrize(
    ("rows", "labels", "weight", "message"),
    [
        (X, None, None, "requires y to be passed"),
        (X, Y[:-1], None, "inconsistent numbers of samples"),
        (X, np.zeros(60), None, "only one class"),
        (X, np.linspace(0, 1, 60), None, "y looks like probabilities"),
        (X, Y, np.ones(59), "sample_weight has 59 values"),
    ],
)
def test_data_are_refused(model, rows, labels, weight, message):
    with pytest.raises(ValueError, match=message):
        model.fit(rows, labels, sample_weight=weight)


@pytest.mark.parametrize("ensemble", [True, False])
def test_class_missing_from_training_part(ensemble):
    model = CalibratedClassifier(Explosive(), cv=KFold(2), ensemble=ensemble)
    message = r"class 'no' has no sample of positive weight for training in fold 1 of 2.*stratified"
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.array(["no", "yes"])[SORTED])
    with pytest.raises(ValueError, match=message):
        CrossFitScorer(Explosive(), cv=KFold(2)).fit_transform(X, np.array(["no", "yes"])[SORTED])


def test_class_missing_from_held_out_part():
    y = np.array([0, 1, 2])[np.arange(60) % 3]
    y[:20] = np.arange(20) % 2
    folds = KFold(3)
    message = r"class 2 has no sample of positive weight.*fold 1 of 3.*ensemble=False"
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(Explosive(), cal.IsotonicCalibrator(), cv=folds, ensemble=True).fit(X, y)
    pooled = CalibratedClassifier(GaussianNB(), cal.IsotonicCalibrator(), cv=folds, ensemble=False).fit(X, y)
    assert pooled.predict_proba(X).shape == (60, 3)
    # the default leaves out the calibrators that need every class
    with pytest.warns(UserWarning, match=r"no sample of class 2 \(8.4 expected\)"):
        default = CalibratedClassifier(GaussianNB(), cv=folds).fit(X, y)
    assert default.predict_proba(X).shape == (60, 3)
    # without calibrators nothing is fitted on the held-out part
    averaged = CalibratedClassifier(GaussianNB(), "passthrough", cv=folds, ensemble=True).fit(X, y)
    assert averaged.predict_proba(X).shape == (60, 3)


def test_class_without_weight_in_held_out_part():
    weight = np.where((np.arange(60) < 30) & (Y == 1), 0.0, 1.0)
    frozen = FrozenEstimator(LogisticRegression().fit(X, Y))
    model = CalibratedClassifier(frozen, cal.IsotonicCalibrator(), cv=KFold(2), ensemble=True)
    message = r"class 1 has no sample of positive weight in the held-out part of fold 1"
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, sample_weight=weight)
    for trained in (
        CalibratedClassifier(LogisticRegression(), cal.IsotonicCalibrator(), cv=KFold(2), ensemble=False),
        CrossFitScorer(LogisticRegression(), cv=KFold(2)),
    ):
        fit = getattr(trained, "fit_transform", trained.fit)
        message = r"class 1 has no sample of positive weight for training in fold 2"
        with pytest.raises(ValueError, match=message):
            fit(X, Y, sample_weight=weight)


def test_arguments_that_a_frozen_estimator_would_ignore():
    frozen = FrozenEstimator(LogisticRegression().fit(X, Y))
    for kind, name in [
        *((kind, "unknown") for kind in (CalibratedClassifier, CrossFitScorer, SelectiveClassifier)),
        (CalibratedClassifier, "logisticregression__sample_weight"),
    ]:
        with pytest.raises(ValueError, match=f"{name} would be ignored: the estimator is frozen"):
            kind(frozen).fit(X, Y, **{name: np.ones(60)})


def test_frozen_estimator_needs_no_class_in_training_parts():
    frozen = FrozenEstimator(GaussianNB().fit(X, Y))
    halves = [(np.flatnonzero(Y == 0), np.arange(0, 60, 2)), (np.flatnonzero(Y == 0), np.arange(1, 60, 2))]
    model = CalibratedClassifier(frozen, cal.IsotonicCalibrator(), cv=halves, ensemble=True).fit(X, Y)
    assert len(model.calibrators_) == 2


@pytest.mark.parametrize("cv", [RepeatedKFold(n_splits=2, n_repeats=2), ShuffleSplit(3, random_state=0)])
def test_cross_fit_needs_each_row_once(cv):
    message = r"hold out each sample exactly once; sample \d+ is held out \d times"
    with pytest.raises(ValueError, match=message):
        CrossFitScorer(Explosive(), cv=cv).fit_transform(X, Y)


def test_frozen_estimator_must_be_fitted_and_know_the_classes():
    for kind in (CalibratedClassifier, CrossFitScorer):
        with pytest.raises(NotFittedError):
            kind(FrozenEstimator(GaussianNB())).fit(X, Y)
    binary = FrozenEstimator(GaussianNB().fit(X, Y))
    message = r"class 2, which the fitted .* does not have \(its classes: \[0, 1\]\)"
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(binary).fit(X, np.arange(60) % 3)
    three = FrozenEstimator(GaussianNB().fit(X, np.arange(60) % 3))
    with pytest.raises(ValueError, match=r"no sample of class 2, which .* predicts, but GaussianNB needs"):
        CalibratedClassifier(three, GaussianNB()).fit(X, Y)


def test_classifier_without_the_needed_response():
    methods = "predict_proba", "decision_function"
    proba, scores = ({"response_method": name} for name in methods)
    lacks = "{} has no {}.*response_method='{}'".format
    for model, error, message in (
        (CrossFitScorer(IsotonicRegression()), TypeError, "classifier, but IsotonicRegression is a regr"),
        (CalibratedClassifier(LinearRegression()), TypeError, "LinearRegression is a regressor"),
        (CalibratedClassifier(StandardScaler()), TypeError, "StandardScaler has neither"),
        (CalibratedClassifier(LinearSVC(), **proba), ValueError, lacks("LinearSVC", *methods)),
        (CrossFitScorer(GaussianNB(), **scores), ValueError, lacks("GaussianNB", *methods[::-1])),
        (CalibratedClassifier(LinearSVC(), "passthrough"), ValueError, "LinearSVC has no predict_proba"),
    ):
        with pytest.raises(error, match=message):
            model.fit(X, Y)


def test_one_score_per_pair_of_classes_is_refused():
    model = CalibratedClassifier(SVC(decision_function_shape="ovo"), cal.IsotonicCalibrator(), cv=2)
    with pytest.raises(ValueError, match=r"shape \(\d+, 6\) for 4 classes, expected 4 columns.*'ovr'"):
        model.fit(X, np.arange(60) % 4)


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(random_state=0)])
def test_decision_scores_for_a_calibrator_of_probabilities(estimator):
    model = CalibratedClassifier(estimator, cal.PlattCalibrator(), response_method="decision_function")
    with pytest.raises(ValueError, match=r"outside \[0, 1\].*link='identity'"):
        model.fit(X, Y)


def test_probabilities_for_a_calibrator_of_logits():
    for estimator, method in ((GaussianNB(), "auto"), (LogisticRegression(), "predict_proba")):
        temperature = cal.TemperatureCalibrator(link="identity")
        with pytest.raises(ValueError, match=r"TemperatureCalibrator needs logits.*Use link='logit'"):
            CalibratedClassifier(estimator, temperature, response_method=method).fit(X, Y)


def test_weights_that_miss_a_part_are_told():
    weight, neighbors = np.ones(60), KNeighborsClassifier()
    search = GridSearchCV(neighbors, {}, cv=2)
    steps = StandardScaler(), SplineTransformer()
    scaled, spline = (make_pipeline(step, LogisticRegression()) for step in steps)
    for estimator, calibrator, message in (
        (neighbors, cal.IsotonicCalibrator(), "is not passed to the estimator: fit of KNeighborsClassifier"),
        (scaled, cal.IsotonicCalibrator(), "logisticregression__sample_weight"),
        (GaussianNB(), spline, "is not passed to the calibrator: fit of Pipeline"),
        (GaussianNB(), search, "is not passed to the calibrator: fit of GridSearchCV"),
    ):
        with pytest.warns(UserWarning, match=message):
            CalibratedClassifier(estimator, calibrator).fit(X, Y, sample_weight=weight)
    for model in (
        CalibratedClassifier(KNeighborsClassifier(), "passthrough"),
        CalibratedClassifier(KNeighborsClassifier(), spline),
        CrossFitScorer(KNeighborsClassifier()),
    ):
        with pytest.raises(ValueError, match="sample_weight cannot be used: fit of the estimator KNeighbors"):
            model.fit(X, Y, sample_weight=weight)


def test_weights_by_step_and_with_frozen_estimators_need_no_warning():
    weight, scaled = np.ones(60), make_pipeline(StandardScaler(), LogisticRegression())
    frozen = FrozenEstimator(KNeighborsClassifier().fit(X, Y))
    step = {"logisticregression__sample_weight": weight}
    CalibratedClassifier(scaled, cal.IsotonicCalibrator()).fit(X, Y, sample_weight=weight, **step)
    CalibratedClassifier(frozen, cal.IsotonicCalibrator()).fit(X, Y, sample_weight=weight)
    CalibratedClassifier(frozen, "passthrough").fit(X, Y, sample_weight=weight)
    CrossFitScorer(frozen).fit(X, Y, sample_weight=weight)
