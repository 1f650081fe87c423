"""p-values of tests as scores: which data the test sees, that scores repeat, and what they are not."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline

import sklearn_calib.scorers as scorers
from sklearn_calib.inference import (
    BinomialTest,
    CalibrationTest,
    CalibrationTestResult,
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    TCal,
)
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.scorers import BestCalibrated, MultiScorer, PValueScorer, get_scorer, get_scorer_names
from tests.inference._registry import TESTS

PVALUE_SCORERS = [name for name in get_scorer_names() if name.startswith("pvalue_")]


class ShareOfPositives(CalibrationTest):
    """Its p-value shows which data it was given; it keeps no distribution."""

    def _check_parameters(self):
        pass

    def _test_sample(self, sample):
        w = np.ones(sample.y.shape[0]) if sample.w is None else sample.w
        pvalue = float(np.average(sample.y, weights=w)) / 2 + float(np.average(sample.p, weights=w)) / 4
        return CalibrationTestResult("share", "none", 0.0, pvalue, 0.0, "", int(sample.total))


SHOWS = PValueScorer(ShareOfPositives())


@pytest.fixture(scope="module")
def binary():
    return make_classification(240, 5, flip_y=0.3, weights=[0.7], random_state=0)


@pytest.mark.parametrize("case", TESTS, ids=lambda case: case.name)
def test_is_the_pvalue_of_the_test(binary, case):
    X, y = (values[:100] for values in binary)
    model = LogisticRegression().fit(X, y)
    assert PValueScorer(case.test)(model, X, y) == case.test.test(y, model.predict_proba(X)[:, 1]).pvalue


def test_weights_are_sampling_weights(binary):
    X, y = binary
    model, w = GaussianNB().fit(X, y), np.random.default_rng(0).uniform(0.5, 2.0, y.shape[0])
    p = model.predict_proba(X)[:, 1]
    assert scorers.pvalue_cox(model, X, y, sample_weight=w) == CoxTest().test(y, p, sample_weight=w).pvalue
    for name in PVALUE_SCORERS:
        scorer = get_scorer(name)
        assert scorer(model, X, y, sample_weight=np.full(y.shape, 3.0)) == scorer(model, X, y)
    times = np.random.default_rng(0).integers(0, 4, y.shape[0])
    counted = PValueScorer("cox", weights="frequency")(model, X, y, sample_weight=times)
    assert counted == CoxTest().test(np.repeat(y, times), np.repeat(p, times)).pvalue


def test_several_classes(binary, three):
    X, y = three
    model = GaussianNB().fit(X, np.array(["a", "b", "c"])[y])
    labels, proba = np.array(["a", "b", "c"])[y], model.predict_proba(X)
    scorer = PValueScorer(CoxTest())
    assert scorer(model, X, labels) == CoxTest().test(y, proba).pvalue
    single = CoxTest().test(y == 1, proba[:, 1]).pvalue
    assert PValueScorer(CoxTest(), pos_label="b")(model, X, labels) == single
    top = PValueScorer(CoxTest(reduction="confidence"))(model, X, labels)
    assert top == CoxTest().test(proba.argmax(axis=1) == y, proba.max(axis=1)).pvalue
    # a fold may lack a class
    rows = labels != "b"
    expected = CoxTest().test(y[rows], proba[rows], labels=range(3)).pvalue
    assert scorer(model, X[rows], labels[rows]) == expected
    # of two classes the last column is tested
    X, y = binary
    model = GaussianNB().fit(X, y)
    assert SHOWS(model, X, y) == PValueScorer(ShareOfPositives(), pos_label=model.classes_[1])(model, X, y)


@pytest.mark.parametrize(
    "test",
    [TCal(n_resamples=39), CutoffTest(n_resamples=39), ConsistencyTest(smooth_ece, n_resamples=39)],
    ids=lambda test: type(test).__name__,
)
def test_random_tests_repeat_themselves(binary, test):
    X, y = binary
    model, scorer = LogisticRegression().fit(X, y), PValueScorer(test)
    p = model.predict_proba(X)[:, 1]
    assert scorer(model, X, y) == scorer(model, X, y)
    assert scorer(model, X, y) == clone(test).test(y, p).pvalue
    assert scorer.test is test
    # what was asked for is respected, and not used up
    for state in (7, np.random.default_rng(7), np.random.RandomState(7)):
        seeded = PValueScorer(clone(test).set_params(random_state=state))
        first = seeded(model, X, y)
        assert first == seeded(model, X, y) == clone(seeded.test).test(y, p).pvalue
    assert len({PValueScorer(clone(test).set_params(random_state=s))(model, X, y) for s in range(5)}) > 1


def test_a_search_with_a_refit_rule_is_not_fooled():
    """The p-value alone takes the model that knows nothing over the one that is over-confident."""
    X, y = make_classification(900, 6, n_informative=2, n_redundant=4, flip_y=0.05, random_state=3)
    model, grid = Pipeline([("model", GaussianNB())]), {"model": [GaussianNB(), DummyClassifier()]}
    alone = GridSearchCV(model, grid, scoring=scorers.pvalue_cutoff).fit(X, y)
    assert isinstance(alone.best_estimator_["model"], DummyClassifier)
    assert alone.best_score_ > 0.5
    scoring = MultiScorer(["pvalue_cutoff", "neg_log_loss"])
    refit = BestCalibrated(calibration="pvalue_cutoff")
    search = GridSearchCV(model, grid, scoring=scoring, refit=refit).fit(X, y)
    assert isinstance(search.best_estimator_["model"], GaussianNB)
    assert search.cv_results_["mean_test_pvalue_cutoff"][0] < 0.1
    own = clone(alone).set_params(scoring=PValueScorer(CutoffTest()))
    assert own.set_params(scoring__test__n_resamples=49).scoring.test.n_resamples == 49


def test_what_it_refuses(binary):
    X, y = binary
    model = GaussianNB().fit(X, y)
    with pytest.raises(TypeError, match=r"pass an instance, TCal\(\)"):
        PValueScorer(TCal)(model, X, y)
    with pytest.raises(ValueError, match="test='t-cal' is not the name of a test"):
        PValueScorer("t-cal")(model, X, y)
    for wrong in (smooth_ece, None):
        with pytest.raises(TypeError, match="test must be a test of calibration"):
            PValueScorer(wrong)(model, X, y)
    with pytest.raises(ValueError, match="use TCal for continuous"):
        PValueScorer(BinomialTest())(model, X, y)
