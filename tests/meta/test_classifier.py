"""What CalibratedClassifier stores and returns, and how it works with the tools around it."""

import numpy as np
import pytest
from sklearn import model_selection
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib.calibrators import (
    BetaCalibrator,
    CertifiedCalibrator,
    HistogramBinningCalibrator,
    IsotonicCalibrator,
    LogAverageCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
)
from sklearn_calib.meta import CalibratedClassifier, CalibratedPair
from sklearn_calib.metrics import cutoff_calibration_error
from tests.meta._probabilities import assert_probabilities


def test_fitted_parts_are_public(binary):
    X, y = binary
    model = CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), cv=3).fit(X, y)
    assert len(model.estimators_) == len(model.calibrators_) == len(model.calibrated_classifiers_) == 3
    parts = zip(model.calibrated_classifiers_, model.estimators_, model.calibrators_, strict=True)
    for pair, estimator, calibrator in parts:
        assert isinstance(pair, CalibratedPair)
        assert pair.estimator is estimator
        assert pair.calibrator is calibrator
        assert isinstance(calibrator, IsotonicCalibrator)
        np.testing.assert_array_equal(pair.scores(X)[:, 0], estimator.predict_proba(X)[:, 1])
    mean = np.mean([pair.predict_proba(X) for pair in model.calibrated_classifiers_], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), mean, atol=1e-15)
    assert model.n_features_in_ == 5
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("estimator", "calibrator", "method"),
    [
        (LogisticRegression(), PlattCalibrator(link="logit"), "predict_proba"),
        (LogisticRegression(), PlattCalibrator(link="identity"), "decision_function"),
        (LogisticRegression(), OneVsRestCalibrator(PlattCalibrator(link="logit")), "predict_proba"),
        (LogisticRegression(), OneVsRestCalibrator(PlattCalibrator(link="identity")), "decision_function"),
        (
            LogisticRegression(),
            OneVsRestCalibrator(model_selection.GridSearchCV(PlattCalibrator(link="logit"), {}, cv=2)),
            "predict_proba",
        ),
        (LogisticRegression(), FrozenEstimator(PlattCalibrator().fit([0.1, 0.9], [0, 1])), "predict_proba"),
        (LogisticRegression(), TemperatureCalibrator(link="logit"), "predict_proba"),
        (LogisticRegression(), TemperatureCalibrator(link="identity"), "decision_function"),
        (LogisticRegression(), IsotonicCalibrator(), "decision_function"),
        (LogisticRegression(), "passthrough", "predict_proba"),
        (LogisticRegression(), None, "predict_proba"),
        (GaussianNB(), None, "predict_proba"),
        (GaussianNB(), IsotonicCalibrator(), "predict_proba"),
        (LinearSVC(random_state=0), IsotonicCalibrator(), "decision_function"),
    ],
)
def test_auto_reads_what_the_calibrator_takes(binary, estimator, calibrator, method):
    model = CalibratedClassifier(estimator, calibrator, cv=2).fit(*binary)
    assert model.response_method_ == method
    assert all(pair.response_method == method for pair in model.calibrated_classifiers_)
    assert_probabilities(model.predict_proba(binary[0]), 200, 2)


@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
def test_default_calibrator_of_several_classes(method):
    X, y = make_classification(300, n_informative=4, n_classes=3, random_state=0)
    model = CalibratedClassifier(LogisticRegression(), response_method=method, cv=2).fit(X, y)
    assert isinstance(model.calibrators_[0], LogAverageCalibrator)
    assert_probabilities(model.predict_proba(X), 300, 3)


def test_cross_venn_abers_is_the_formula_of_its_authors(binary):
    X, y = binary
    model = CalibratedClassifier(GaussianNB(), VennAbersCalibrator(), cv=4, average="log").fit(X, y)
    both = [pair.calibrator.predict_interval(pair.scores(X)) for pair in model.calibrated_classifiers_]
    upper = np.prod([p1 for _, p1 in both], axis=0) ** 0.25
    below = np.prod([1 - p0 for p0, _ in both], axis=0) ** 0.25
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], upper / (below + upper), rtol=0, atol=1e-12)
    ends = np.sort([1 - below, upper], axis=0)
    np.testing.assert_allclose(model.predict_interval(X), ends, rtol=0, atol=1e-12)
    assert (ends == [1 - below, upper]).mean() > 0.9
    model.set_params(average="probability")
    means = np.mean(both, axis=0)
    np.testing.assert_allclose(model.predict_interval(X), means, rtol=0, atol=1e-12)
    p = model.predict_proba(X)[:, 1]
    assert ((means[0] < p) & (p < means[1])).all()
    assert np.abs(p - upper / (below + upper)).max() > 1e-5


def test_interval_needs_calibrators_that_have_one(binary, three):
    assert hasattr(CalibratedClassifier(GaussianNB(), VennAbersCalibrator()), "predict_interval")
    assert not hasattr(CalibratedClassifier(GaussianNB(), PlattCalibrator()), "predict_interval")
    # of three classes each is calibrated against the rest
    X, y = three
    model = CalibratedClassifier(GaussianNB(), VennAbersCalibrator(), cv=3).fit(X, y)
    lower, upper = model.predict_interval(X)
    for k in range(3):
        pairs = [(pair.calibrator.calibrators_[k], pair.scores(X)) for pair in model.calibrated_classifiers_]
        both = [single.predict_interval(scores[:, k]) for single, scores in pairs]
        np.testing.assert_allclose([lower[:, k], upper[:, k]], np.mean(both, axis=0), rtol=0, atol=1e-12)
    assert not hasattr(CalibratedClassifier(GaussianNB(), PlattCalibrator()).fit(X, y), "predict_interval")
    single = CalibratedClassifier(GaussianNB(), VennAbersCalibrator(), ensemble=False, average="log")
    single.fit(*binary)
    pair = single.calibrated_classifiers_[0]
    expected = pair.calibrator.predict_interval(pair.scores(binary[0]))
    np.testing.assert_allclose(single.predict_interval(binary[0]), expected, rtol=0, atol=1e-15)


def test_log_average_of_several_classes():
    X, y = make_classification(300, n_informative=4, n_classes=3, random_state=0)
    model = CalibratedClassifier(GaussianNB(), TemperatureCalibrator(), cv=3, average="log").fit(X, y)
    product = np.prod([pair.predict_proba(X) for pair in model.calibrated_classifiers_], axis=0) ** (1 / 3)
    expected = product / product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="average must be one of"):
        CalibratedClassifier(GaussianNB(), average="median").fit(X, y)


@pytest.mark.parametrize(
    ("calibrator", "ensemble"),
    [
        (make_pipeline(SplineTransformer(n_knots=4, extrapolation="constant"), LogisticRegression()), False),
        (model_selection.GridSearchCV(IsotonicCalibrator(), {}, cv=2), True),
        (DecisionTreeClassifier(max_depth=2), True),
        (DecisionTreeClassifier(max_depth=2), False),
    ],
    ids=["pipeline", "search", "tree", "pooled tree"],
)
def test_any_classifier_may_calibrate(binary, three, calibrator, ensemble):
    for (X, y), n_classes in ((binary, 2), (three, 3)):
        model = CalibratedClassifier(GaussianNB(), calibrator, cv=3, ensemble=ensemble).fit(X, y)
        assert_probabilities(model.predict_proba(X), X.shape[0], n_classes)


def test_temperature_is_not_lifted_and_keeps_the_class(three):
    X, y = three
    base = LogisticRegression().fit(X, y)
    for link, response in (("logit", "predict_proba"), ("identity", "decision_function")):
        model = CalibratedClassifier(FrozenEstimator(base), TemperatureCalibrator(link=link)).fit(X, y)
        assert isinstance(model.calibrators_[0], TemperatureCalibrator)
        assert model.response_method_ == response
        np.testing.assert_array_equal(model.predict(X), base.predict(X))
        assert_probabilities(model.predict_proba(X), 240, 3)


def test_passthrough_is_the_classifier_itself(binary, three):
    for X, y in (binary, three):
        plain = GaussianNB().fit(X, y).predict_proba(X)
        single = CalibratedClassifier(GaussianNB(), "passthrough", ensemble=False).fit(X, y)
        np.testing.assert_allclose(single.predict_proba(X), plain, atol=1e-15)
        averaged = CalibratedClassifier(GaussianNB(), "passthrough", cv=2, ensemble=True).fit(X, y)
        parts = [train for train, _ in model_selection.StratifiedKFold(2).split(X, y)]
        expected = np.mean([GaussianNB().fit(X[a], y[a]).predict_proba(X) for a in parts], axis=0)
        np.testing.assert_allclose(averaged.predict_proba(X), expected, atol=1e-15)


def test_frozen_estimator_is_not_refitted(binary):
    X, y = binary
    base = GaussianNB().fit(X[:100], y[:100])
    means = base.theta_.copy()
    model = CalibratedClassifier(FrozenEstimator(base), IsotonicCalibrator()).fit(X[100:], y[100:])
    np.testing.assert_array_equal(base.theta_, means)
    (pair,) = model.calibrated_classifiers_
    assert pair.estimator.estimator is base
    expected = IsotonicCalibrator().fit(base.predict_proba(X[100:])[:, 1], y[100:])
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(base.predict_proba(X)[:, 1]))


@pytest.mark.parametrize("ensemble", [True, False])
def test_frozen_calibrator_is_applied_as_it_is(binary, ensemble):
    X, y = binary
    calibrator = IsotonicCalibrator().fit(np.array([0.2, 0.8]), np.array([0, 1]))
    model = CalibratedClassifier(
        GaussianNB(), FrozenEstimator(calibrator), cv=2, ensemble=ensemble, response_method="predict_proba"
    ).fit(X, y)
    scores = [pair.scores(X) for pair in model.calibrated_classifiers_]
    expected = np.mean([calibrator.predict_proba(each) for each in scores], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-15)


def test_grid_search_over_calibrators_and_their_parameters(binary):
    X, y = binary
    search = model_selection.GridSearchCV(
        CalibratedClassifier(LogisticRegression(), cv=2),
        [
            {"calibrator": [IsotonicCalibrator(), "passthrough", None]},
            {"calibrator": [PlattCalibrator()], "calibrator__link": ["logit", "identity"]},
            {"estimator__C": [0.1], "calibrator": [IsotonicCalibrator()], "ensemble": [True, False]},
        ],
        scoring="neg_log_loss",
        cv=2,
    ).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert scores.shape == (7,)
    assert np.isfinite(scores).all()
    assert np.unique(scores[:3]).shape[0] == 3
    # the logit of the probabilities of a logistic regression is its decision score; beyond those of the
    # calibration samples the probabilities are clipped
    np.testing.assert_allclose(scores[3], scores[4], atol=1e-3)


@pytest.mark.parametrize(
    "cv",
    [
        model_selection.LeaveOneOut(),
        model_selection.RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
        model_selection.ShuffleSplit(3, random_state=0),
    ],
)
def test_pooled_scores_need_no_partition(binary, cv):
    X, y = binary[0][:40], binary[1][:40]
    w = np.random.default_rng(0).uniform(0.5, 2, 40)
    model = CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), cv=cv, ensemble=False)
    model.fit(X, y, sample_weight=w)
    rows, scores = [], []
    for train, test in cv.split(X, y):
        rows.extend(test)
        scores.extend(GaussianNB().fit(X[train], y[train], w[train]).predict_proba(X[test])[:, 1])
    rows = np.array(rows)
    share = 1 / np.bincount(rows)[rows]
    pooled = IsotonicCalibrator().fit(np.array(scores), y[rows], sample_weight=w[rows] * share)
    expected = pooled.predict_proba(GaussianNB().fit(X, y, w).predict_proba(X)[:, 1])
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)


def test_repeated_scores_count_once(binary):
    X, y = binary[0][:200], binary[1][:200]
    cv = model_selection.RepeatedStratifiedKFold(n_splits=4, n_repeats=3, random_state=0)
    folds = list(cv.split(X, y))
    scores = np.concatenate([GaussianNB().fit(X[a], y[a]).predict_proba(X[b])[:, 1] for a, b in folds])
    rows = np.concatenate([b for _, b in folds])
    proba, first = GaussianNB().fit(X, y).predict_proba(X)[:, 1], np.empty(200)
    first[rows[:200]] = scores[:200]

    def fitted(calibrator):
        return CalibratedClassifier(GaussianNB(), calibrator, cv=cv, ensemble=False).fit(X, y)

    for calibrator in (PlattCalibrator(), SplineCalibrator(), BetaCalibrator()):
        expected = clone(calibrator).fit(scores, y[rows], sample_weight=np.full(600, 1 / 3))
        found = fitted(calibrator)
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(proba), rtol=1e-9)
        assert found.calibrators_[0].training_size_ == 200
    # certificates are for one score of each sample
    platt = fitted(PlattCalibrator()).calibrators_[0]
    certificate = platt.cutoff_certificate(n_resamples=99)
    assert certificate.n_samples == 200
    assert platt.training_cutoff_error_ == pytest.approx(cutoff_calibration_error(y, platt.transform(first)))
    once = PlattCalibrator().fit(first, y).cutoff_certificate(n_resamples=99)
    assert certificate.upper == pytest.approx(once.upper, rel=0.1)
    for calibrator in (HistogramBinningCalibrator(), CertifiedCalibrator(random_state=0)):
        expected, found = clone(calibrator).fit(first, y), fitted(calibrator)
        np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(proba))
        assert found.cutoff_certificate().upper == expected.cutoff_certificate().upper


def test_rare_class_works_with_one_calibrator_for_all_folds():
    X, y = make_classification(300, n_features=4, flip_y=0, class_sep=0.5, random_state=0)
    keep = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:3]])
    X, y = X[keep], y[keep]
    with (
        pytest.warns(UserWarning, match="least populated class"),
        pytest.raises(ValueError, match=r"class 1 has no sample .* held-out part of fold .*ensemble=False"),
    ):
        CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), ensemble=True).fit(X, y)
    folds = list(model_selection.StratifiedKFold(3).split(X, y))
    model = CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), cv=folds, ensemble=False).fit(X, y)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(3 / keep.shape[0], rel=1)
