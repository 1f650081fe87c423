"""The refit rule: worked examples, ties, missing values, and the search it is made for."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline

from sklearn_calib import scorers
from sklearn_calib.scorers import BestCalibrated, MultiScorer


def results(calibration, proper, names=("neg_smooth_ece", "neg_log_loss")):
    """Lay scores of shape (candidates, splits) out as a search does."""
    out = {"params": [{"candidate": j} for j in range(len(proper))]}
    for name, scores in zip(names, (calibration, proper), strict=True):
        scores = np.asarray(scores, dtype=float)
        for k in range(scores.shape[1]):
            out[f"split{k}_test_{name}"] = scores[:, k]
        out[f"mean_test_{name}"] = scores.mean(axis=1)
    return out


# mean -0.4, standard deviation 0.02, hence standard error 0.02 / sqrt(3) = 0.011547
BEST = [-0.38, -0.40, -0.42]


def test_one_standard_error_by_hand():
    edge = 0.02 / np.sqrt(3)
    inside, outside = -0.4 - edge * 0.999, -0.4 - edge * 1.001
    proper = [BEST, [inside] * 3, [outside] * 3, [-0.405] * 3]
    calibration = [[-0.05] * 3, [-0.02] * 3, [-0.001] * 3, [-0.03] * 3]
    assert BestCalibrated()(results(calibration, proper)) == 1
    assert BestCalibrated(n_standard_errors=1.01)(results(calibration, proper)) == 2
    assert BestCalibrated(n_standard_errors=0.5)(results(calibration, proper)) == 3
    assert BestCalibrated(n_standard_errors=0)(results(calibration, proper)) == 0
    assert isinstance(BestCalibrated()(results(calibration, proper)), int)


def test_rule_equals_its_definition():
    rng = np.random.default_rng(0)
    chosen = set()
    for _ in range(200):
        n_candidates, n_splits, slack = rng.integers(1, 8), rng.integers(2, 6), rng.choice([0.0, 1.0, 2.0])
        # coarse values, so that ties occur
        proper = -rng.integers(1, 5, (n_candidates, n_splits)) / 10
        calibration = -rng.integers(1, 3, (n_candidates, 1)) / 10 * np.ones((1, n_splits))
        means = [row.mean() for row in proper]
        best = max(range(n_candidates), key=lambda j: means[j])
        spread = sum((value - means[best]) ** 2 for value in proper[best]) / (n_splits - 1)
        bar = means[best] - slack * np.sqrt(spread / n_splits)
        good = [j for j in range(n_candidates) if means[j] >= bar]
        expected = max(good, key=lambda j: (calibration[j, 0], means[j], -j))
        found = BestCalibrated(n_standard_errors=slack)(results(calibration, proper))
        assert found == expected
        chosen.add(found != best)
    assert chosen == {True, False}


def test_the_best_of_those_whose_error_is_small_enough():
    proper = [BEST, [-0.5] * 3, [-0.6] * 3, [-0.5] * 3, [np.nan] * 3]
    calibration = [[-0.05] * 3, [-0.02, -0.03, -0.04], [-0.001] * 3, [-0.01] * 3, [0.0] * 3]
    table = results(calibration, proper)
    for max_error, chosen in ((0.06, 0), (0.04, 3), (0.015, 3), (0.005, 2)):
        assert BestCalibrated(max_error=max_error)(table) == chosen
    # ties of the proper score go to the smaller error, and the bound itself is allowed
    assert BestCalibrated(max_error=0.25)(results([[-0.25], [-0.25]], [[-1.0], [-0.5]])) == 1
    with pytest.raises(ValueError, match=r"at most max_error=0.0001: the smallest is 0.001"):
        BestCalibrated(max_error=1e-4)(table)


def test_ties_go_to_the_better_proper_score_then_to_the_first():
    calibration = [[-0.02] * 3, [-0.02] * 3, [-0.02] * 3]
    assert BestCalibrated()(results(calibration, [[-0.405] * 3, BEST, [-0.401] * 3])) == 1
    assert BestCalibrated()(results(calibration, [[-0.405] * 3, [-0.4] * 3, [-0.4] * 3])) == 1


def test_candidates_without_finite_scores_are_never_chosen():
    nan, inf = [np.nan] * 3, [-np.inf] * 3
    assert BestCalibrated()(results([[-0.1] * 3, nan, [0.0] * 3], [BEST, BEST, nan])) == 0
    assert BestCalibrated()(results([[0.0] * 3, [-0.1] * 3], [inf, BEST])) == 1
    assert BestCalibrated()(results([[np.inf] * 3, [-0.1] * 3], [BEST, BEST])) == 1
    # nor do they raise the bar
    assert BestCalibrated()(results([nan, [-0.2] * 3, [-0.1] * 3], [[0.0] * 3, BEST, [-0.405] * 3])) == 2
    with pytest.raises(ValueError, match=r"No candidate has a finite mean of both 'neg_smooth_ece'"):
        BestCalibrated()(results([nan, [-0.1] * 3], [BEST, nan]))


def test_one_split_has_no_standard_error():
    assert BestCalibrated()(results([[-0.1], [-0.0]], [[-0.4], [-0.41]])) == 0


def test_names_that_contain_each_other_are_told_apart():
    table = results([[-0.1] * 3, [0.0] * 3], [BEST, [-0.43] * 3])
    more = results([[-0.1] * 3] * 2, [[-9.0, 0.0, 9.0]] * 2, names=("x", "neg_log_loss_2"))
    assert BestCalibrated()({**table, **more}) == BestCalibrated()(table) == 0


def test_missing_scores_are_named():
    table = results([[-0.1]], [[-0.4]], names=("neg_smooth_ece", "roc_auc"))
    with pytest.raises(ValueError, match=r"'neg_log_loss', only \['neg_smooth_ece', 'roc_auc'\]"):
        BestCalibrated()(table)
    with pytest.raises(ValueError, match=r"did not compute 'neg_smooth_ece', only \['score'\]"):
        BestCalibrated()({"mean_test_score": [0.0]})


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"calibration": "neg_log_loss"}, ValueError, "cannot select a model"),
        ({"proper": None}, TypeError, "proper must be the name"),
        ({"n_standard_errors": -1}, ValueError, "must be at least 0"),
        ({"n_standard_errors": "1"}, TypeError, "must be a number"),
        ({"max_error": -0.1}, ValueError, "max_error must be at least 0"),
    ],
)
def test_construction_is_checked(kwargs, error, message):
    with pytest.raises(error, match=message):
        BestCalibrated(**kwargs)


@pytest.mark.parametrize("proper", ["neg_log_loss", "neg_brier_score"])
def test_calibration_alone_selects_the_base_rate_and_the_rule_does_not(proper):
    X, y = make_classification(600, 10, n_informative=4, n_redundant=4, flip_y=0.05, random_state=0)
    pipe = Pipeline([("model", DummyClassifier())])
    grid = {"model": [DummyClassifier(strategy="prior"), GaussianNB(), LogisticRegression()]}
    ece = "neg_expected_calibration_error"
    alone = GridSearchCV(pipe, grid, scoring=scorers.neg_expected_calibration_error, cv=3).fit(X, y)
    assert isinstance(alone.best_params_["model"], DummyClassifier)
    scoring = MultiScorer([ece, proper, "roc_auc"])
    search = GridSearchCV(
        pipe, grid, scoring=scoring, refit=BestCalibrated(calibration=ece, proper=proper), cv=3
    ).fit(X, y)
    assert isinstance(search.best_params_["model"], LogisticRegression)
