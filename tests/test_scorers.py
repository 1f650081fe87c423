"""Scorers one at a time: which column they judge, what they say of bad input, and their names."""

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score
from sklearn.metrics import get_scorer as sklearn_get_scorer
from sklearn.metrics import get_scorer_names as sklearn_get_scorer_names
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import sklearn_calib.scorers as scorers
from sklearn_calib import metrics
from sklearn_calib._compat import register_scorers
from sklearn_calib.inference import CoxTest
from sklearn_calib.scorers import CalibrationScorer, PValueScorer, get_scorer, get_scorer_names
from tests._sklearn import SKLEARN

LABELS = {
    "01": [0, 1],
    "12": [1, 2],
    "signs": [-1, 1],
    "strings": ["no", "yes"],
    "objects": np.array(["b", "a"], dtype=object),
    "booleans": [False, True],
    "floats": [0.0, 2.0],
}

ROW = [[0.5, 0.5]]


@metrics.MetricKernel()
def bias(y_true, y_proba, *, sample_weight=None, factor=1.0):
    """Change sign with the positive class: unlike an error, it shows which column was judged."""
    return factor * np.average(np.asarray(y_proba) - y_true, weights=sample_weight)


@metrics.MetricKernel()
def unweighted(y_true, y_proba):
    return float(np.mean(y_proba))


class Fixed(BaseEstimator):
    """A fitted classifier that predicts X itself."""

    def __init__(self, classes):
        self.classes = classes

    @property
    def classes_(self):
        return np.asarray(self.classes)

    def predict_proba(self, X):
        return np.asarray(X, dtype=float)


class FixedLabels(Fixed):
    """A fitted multilabel classifier that predicts X as a list; of its last label it may know one class."""

    def __init__(self, n_labels, only=None):
        self.n_labels, self.only = n_labels, only

    @property
    def classes_(self):
        known = [np.array([0, 1])] * self.n_labels
        return known if self.only is None else [*known[:-1], np.array([self.only])]

    def predict_proba(self, X):
        each = [np.column_stack([1 - p, p]) for p in np.asarray(X, dtype=float).T]
        return each if self.only is None else [*each[:-1], np.ones((len(X), 1))]


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_of_any_kind_give_the_same_score(binary, labels):
    X, codes = binary
    y = np.asarray(labels)[codes]
    model = GaussianNB().fit(X, y)
    expected = np.mean(model.predict_proba(X)[:, 1] - (y == model.classes_[1]))
    assert abs(expected) > 1e-3
    scorer = CalibrationScorer(bias)
    assert scorer(model, X, y) == pytest.approx(-expected)
    assert scorer(model, X, y[:, None]) == pytest.approx(-expected)
    # the other class has the opposite bias
    assert CalibrationScorer(bias, pos_label=model.classes_[0])(model, X, y) == pytest.approx(expected)
    found = CalibrationScorer(bias, greater_is_better=True, factor=3)(model, X, y)
    assert found == pytest.approx(3 * expected)
    # a fold with one class is judged as part of the whole
    for only in (0, 1):
        rows = y == model.classes_[only]
        expected = np.mean(model.predict_proba(X[rows])[:, 1] - only)
        assert scorer(model, X[rows], y[rows]) == pytest.approx(-expected)


@pytest.mark.parametrize("only", [0, 1])
def test_every_name_judges_a_fold_with_one_class(binary, only):
    X, codes = binary
    y = np.array(LABELS["strings"])[codes]
    model, rows = GaussianNB().fit(X, y), np.flatnonzero(codes == only)[:40]
    for name in get_scorer_names():
        assert np.isfinite(get_scorer(name)(model, X[rows], y[rows])), name


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in get_scorer_names()
        if name.startswith("neg_") and getattr(get_scorer(name).metric, "__name__", "") in metrics.__all__
    ],
)
def test_names_are_the_negated_metrics(binary, name):
    X, y = binary
    model, scorer = GaussianNB().fit(X, y), get_scorer(name)
    expected = scorer.metric(y, model.predict_proba(X)[:, 1], **scorer.metric_params)
    assert expected > 0
    assert scorer(model, X, y) == -expected
    weights = np.random.default_rng(0).integers(0, 4, y.shape[0])
    again = np.repeat(np.arange(y.shape[0]), weights)
    assert scorer(model, X, y, sample_weight=weights) == pytest.approx(scorer(model, X[again], y[again]))


def test_a_metric_that_reduces_by_itself_or_not_at_all_is_given_the_matrix(three):
    X, codes = three
    y = np.array(["x", "y", "z"])[codes]
    model, seen = GaussianNB().fit(X, y), {}

    def reducing(y_true, y_proba, *, reduction="classwise"):
        seen.update(y=y_true, p=y_proba, reduction=reduction)
        return 0.25

    def plain(y_true, y_proba):
        return reducing(y_true, y_proba, reduction=None)

    for metric, reduction, greater in ((reducing, "top-label", False), (plain, None, True)):
        scorer = CalibrationScorer(metric, reduction=reduction, greater_is_better=greater)
        assert scorer(model, X, y) == (0.25 if greater else -0.25)
        np.testing.assert_array_equal(seen["y"], codes)
        np.testing.assert_array_equal(seen["p"], model.predict_proba(X))
        assert seen["reduction"] == reduction
    CalibrationScorer(reducing, pos_label="y", greater_is_better=False)(model, X, y)
    np.testing.assert_array_equal(seen["y"], codes == 1)


@pytest.mark.parametrize("data", ["binary", "three"])
@pytest.mark.parametrize("weighted", [False, True])
def test_proper_scores_equal_those_of_scikit_learn(data, weighted, request):
    X, y = request.getfixturevalue(data)
    model = GaussianNB().fit(X, y)
    kwargs = {"sample_weight": np.random.default_rng(0).uniform(size=y.shape[0])} if weighted else {}
    for name in ("neg_log_loss", "neg_brier_score"):
        # the Brier score of several classes is known there since 1.7
        if name == "neg_log_loss" or data == "binary" or SKLEARN >= (1, 7):
            theirs = sklearn_get_scorer(name)(model, X, y, **kwargs)
            assert get_scorer(name)(model, X, y, **kwargs) == pytest.approx(theirs, rel=1e-12)


def test_certain_and_wrong_has_a_finite_log_loss():
    score = get_scorer("neg_log_loss")(Fixed([0, 1]), np.array([[1.0, 0.0], [0.0, 1.0]]), [1, 1])
    assert score == pytest.approx(np.log(np.finfo(float).eps) / 2)
    theirs = sklearn_get_scorer("neg_log_loss")(DummyClassifier().fit([[0], [0]], [0, 1]), [[0], [0]], [1, 0])
    assert theirs == pytest.approx(-np.log(2))
    with pytest.raises(ValueError, match=r"sample 1 is \[1.5, -0.5\]"):
        get_scorer("neg_brier_score")(Fixed([0, 1]), [[0.5, 0.5], [1.5, -0.5]], [1, 1])


def test_regressors_of_outcomes_are_probability_forecasts():
    X = np.linspace(0, 1, 50)[:, None]
    y = (X[:, 0] > 0.5).astype(int)
    model = LinearRegression().fit(X, y)
    inside = (model.predict(X) >= 0) & (model.predict(X) <= 1)
    scorer = CalibrationScorer(bias, response_method="predict")
    expected = np.mean(model.predict(X[inside]) - y[inside])
    assert scorer(model, X[inside], y[inside]) == pytest.approx(-expected)
    assert scorer.set_params(pos_label=1)(model, X[inside], y[inside]) == pytest.approx(-expected)
    found = CalibrationScorer(bias, response_method="predict")(model, X[:10], y[:10])
    assert found == pytest.approx(-np.mean(model.predict(X[:10])))
    smooth = CalibrationScorer(metrics.smooth_ece, response_method=["predict_proba", "predict"])
    with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
        smooth(model, X * 3, y)


def test_columns_have_the_order_that_the_estimator_says(binary):
    X, y = binary
    model = LogisticRegression().fit(X, y)
    flipped = CalibrationScorer(bias, pos_label=1)(Fixed([1, 0]), model.predict_proba(X)[:, ::-1], y)
    assert flipped == pytest.approx(CalibrationScorer(bias)(model, X, y))


def test_bad_input_says_what_to_do():
    for classes, rows, labels, params, message in [
        ([0, 1], ROW, [0], {"pos_label": "x"}, "pos_label='x'"),
        ([0, 1], ROW, [2], {}, "label .*2.*classes_ are"),
        ([0, 1], ROW, ["0"], {}, "label '0', unknown to the estimator"),
        ([0, 1], ROW, [np.nan], {}, "label nan, unknown to the"),
        ([0, 1, 2], ROW, [0], {}, "3 classes .* 2 columns"),
        ([0, 1], ROW, [0, 1], {}, "y_true has 2 samples"),
        ([0, 1], ROW, [[[0, 1]]], {}, "y_true must have shape"),
        ([0, 1], ROW, [[0, 1, 1]], {}, r"y_true has shape \(1, 3\) but the prediction of X has shape"),
        ([0, 1], ROW, [[0, 2]], {}, "must hold 0 and 1 only"),
        ([0, 1], ROW, [[0, np.nan]], {}, "lacks the label of row 0 and column 1"),
        ([0, 1], ROW, [[0, 1]], {"pos_label": 1}, "pos_label=1 selects a class"),
        ([0, 1], ROW, [[0, 1]], {"reduction": "confidence"}, "needs mutually exclusive classes"),
        ([0], [[1.0]], [0], {}, "trained on the class 0 only"),
        ([0, 1], ROW, [0], {"reduction": "mean"}, "reduction"),
        ([0, 1], ROW, [0], {"reduction": "confidence", "pos_label": 1}, "Leave one of the two"),
    ]:
        with pytest.raises(ValueError, match=message):
            CalibrationScorer(bias, **params)(Fixed(classes), rows, labels)


def test_bad_responses_and_metrics(binary):
    svm, both = LinearSVC().fit(*binary), ("predict_proba", "decision_function")
    with pytest.raises(TypeError, match="LinearSVC has no method predict_proba"):
        CalibrationScorer(bias)(svm, *binary)
    with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
        CalibrationScorer(metrics.smooth_ece, response_method=both)(svm, *binary)
    with pytest.raises(TypeError, match="returned NoneType"):
        CalibrationScorer(lambda y, p: None, greater_is_better=False)(Fixed([0, 1]), ROW, [0])


def test_estimators_without_classes_or_with_several_outputs(three):
    X, y = three
    model = GaussianNB().fit(X, y)

    class NoClasses:
        def predict_proba(self, X):
            return model.predict_proba(X)

    with pytest.raises(ValueError, match="no classes_ and predicts 3 columns"):
        CalibrationScorer(bias)(NoClasses(), X, y)
    both = DummyClassifier().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="several outputs"):
        CalibrationScorer(bias)(both, X, y)
    with pytest.raises(ValueError, match="Outputs of three or more classes must be scored one at a time"):
        CalibrationScorer(bias)(both, X, np.column_stack([y, y]))


def test_multilabel_scores_are_means_over_labels():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=(60, 3))
    y, w = (rng.uniform(size=p.shape) < p).astype(int), rng.integers(1, 4, 60)
    models = [Fixed([0, 1, 2]), FixedLabels(3)]
    for place, name in enumerate(get_scorer_names()):
        if name == "neg_area_under_risk_coverage":
            with pytest.raises(ValueError, match="needs mutually exclusive classes"):
                get_scorer(name)(models[0], p, y)
            continue
        weights = {"sample_weight": w} if place % 2 and name != "pvalue_hosmer_lemeshow" else {}
        values = [get_scorer(name)(model, p, y, **weights) for model in models]
        assert values[0] == values[1]
        if not name.startswith("pvalue"):
            each = [
                get_scorer(name)(Fixed([0, 1]), np.column_stack([1 - q, q]), labels, **weights)
                for q, labels in zip(p.T, y.T, strict=True)
            ]
            assert values[0] == pytest.approx(np.mean(each), abs=1e-9), name
    assert CalibrationScorer(bias, reduction=None)(models[0], p, y) == pytest.approx(-np.mean(p - y))
    assert get_scorer("pvalue_cox")(models[1], p, y) == CoxTest().test(y, p).pvalue


@pytest.mark.parametrize("only", [0, 1])
def test_a_label_of_which_the_training_data_have_one_class(only):
    p = np.array([[0.2, 0.9], [0.4, 0.9], [0.7, 0.9]])
    y, model = np.array([[0, 1], [1, 0], [1, only]]), FixedLabels(2, only=only)
    gap = [p[:, 0] - y[:, 0], only - y[:, 1]]
    assert CalibrationScorer(bias)(model, p, y) == pytest.approx(-np.mean(gap))


def test_weights_for_a_metric_without_weights(binary):
    X, y = binary
    model, scorer = GaussianNB().fit(X, y), CalibrationScorer(unweighted)
    assert not scorer._accept_sample_weight()
    assert CalibrationScorer(bias)._accept_sample_weight()
    with pytest.raises(TypeError, match="the metric unweighted does not support it"):
        scorer(model, X, y, sample_weight=np.ones_like(y))


def test_construction_is_checked():
    scorer = CalibrationScorer("smooth_ece")
    assert scorer.metric is metrics.smooth_ece
    for make, error, message in (
        (lambda: CalibrationScorer("ece"), ValueError, "metric='ece' is not the name of a metric"),
        (lambda: CalibrationScorer(0.5), TypeError, "metric must be the name of a metric"),
        (lambda: CalibrationScorer("expected_calibration_error", n_bin=10), TypeError, "'n_bin' is neither"),
        (lambda: CalibrationScorer(lambda y, p: 0.0), ValueError, "Pass greater_is_better=True or"),
        (lambda: CalibrationScorer("smooth_ece", greater_is_better=0), TypeError, "must be True or False"),
        (lambda: scorer.set_params(n_bins=10), TypeError, "'n_bins' is neither"),
    ):
        with pytest.raises(error, match=message):
            make()


def test_the_declaration_of_the_metric_is_the_default_of_greater_is_better(binary):
    X, y = binary
    good, bad = LogisticRegression().fit(X, y), DummyClassifier().fit(X, y)
    for name in ("net_benefit", "roc_auc", "brier_score", "smooth_ece"):
        scorer = CalibrationScorer(name)
        value = scorer.metric(y, good.predict_proba(X)[:, 1])
        sign = 1.0 if name in ("net_benefit", "roc_auc") else -1.0
        assert scorer(good, X, y) == pytest.approx(sign * value)
        for fixed in (True, False):
            given = CalibrationScorer(name, greater_is_better=fixed)
            assert given(good, X, y) == pytest.approx(value if fixed else -value)
        if name != "smooth_ece":
            assert scorer(good, X, y) > scorer(bad, X, y)


def test_a_function_of_scikit_learn_has_the_direction_of_its_scorer(binary):
    X, y = binary
    good, bad = LogisticRegression().fit(X, y), DummyClassifier().fit(X, y)
    for function in (roc_auc_score, average_precision_score, partial(roc_auc_score, max_fpr=0.5)):
        scorer = CalibrationScorer(function)
        assert scorer(good, X, y) == function(y, good.predict_proba(X)[:, 1]) > scorer(bad, X, y)
    scorer = CalibrationScorer(brier_score_loss)
    assert scorer(good, X, y) == -brier_score_loss(y, good.predict_proba(X)[:, 1]) > scorer(bad, X, y)


def test_parameters_survive_clone_pickle_and_change(binary):
    X, y = binary
    model = GaussianNB().fit(X, y)
    given = {"metric": metrics.expected_calibration_error, "pos_label": 0, "n_bins": 7, "norm": "l2"}
    scorer = CalibrationScorer(**given)
    params = scorer.get_params()
    defaults = {"greater_is_better": None, "response_method": "predict_proba", "reduction": "classwise"}
    assert params == {**given, **defaults}
    for copy in (clone(scorer), pickle.loads(pickle.dumps(scorer))):
        assert copy is not scorer
        assert (copy.get_params(), copy(model, X, y)) == (params, scorer(model, X, y))
    edges = clone(scorer).set_params(n_bins=np.array([0, 0.2, 1]), norm="l1", pos_label=1)
    y_proba = model.predict_proba(X)[:, 1]
    assert -clone(edges)(model, X, y) == metrics.expected_calibration_error(y, y_proba, n_bins=[0, 0.2, 1])
    changed = clone(scorer).set_params(n_bins=3, greater_is_better=True)
    assert changed.get_params() == {**params, "n_bins": 3, "greater_is_better": True}
    assert scorer.get_params() == params
    names = {**vars(metrics), "CalibrationScorer": CalibrationScorer}
    assert eval(repr(scorer), names).get_params() == params


def test_every_name_is_an_attribute_and_each_access_a_new_object():
    assert set(get_scorer_names()) <= set(dir(scorers))
    assert get_scorer_names() == sorted(get_scorer_names())
    for name in get_scorer_names():
        # a test within the parameters is an object without equality
        assert repr(getattr(scorers, name).get_params()) == repr(get_scorer(name).get_params())
        assert getattr(scorers, name) is not getattr(scorers, name)
        assert get_scorer(name) is not get_scorer(name)
    with pytest.raises(AttributeError, match="neg_nothing"):
        _ = scorers.neg_nothing


def test_get_scorer_knows_other_names_and_callables():
    assert repr(get_scorer("roc_auc")) == repr(sklearn_get_scorer("roc_auc"))
    assert get_scorer(unweighted) is unweighted
    with pytest.raises(ValueError, match=r"no scorer named 'neg_ece'.*neg_smooth_ece"):
        get_scorer("neg_ece")
    with pytest.raises(TypeError, match="a name or a callable, got None"):
        get_scorer(None)


def test_names_are_registered_with_scikit_learn_and_none_is_overridden():
    for name in get_scorer_names():
        assert name in sklearn_get_scorer_names()
        theirs = sklearn_get_scorer(name)
        assert theirs is not sklearn_get_scorer(name)
        # names that scikit-learn had before stay its own
        ours = isinstance(theirs, CalibrationScorer | PValueScorer)
        assert ours is (name not in ("neg_log_loss", "neg_brier_score"))
    assert not {"neg_l2_calibration_error"} & set(get_scorer_names())


def test_names_reach_what_was_imported_before(monkeypatch):
    import sklearn.metrics._scorer as table
    from sklearn.feature_selection import SequentialFeatureSelector

    monkeypatch.setattr(table, "_SCORERS", dict(table._SCORERS))
    register_scorers({"neg_x": lambda estimator, X, y: 0.0})
    X = np.random.default_rng(0).normal(size=(20, 3))
    selector = SequentialFeatureSelector(GaussianNB(), scoring="neg_x", n_features_to_select=1, cv=2)
    assert selector.fit(X, np.arange(20) % 2).get_support().sum() == 1


def test_registration_never_fails_and_never_overrides(monkeypatch):
    import sklearn.metrics._scorer as table

    register_scorers({"accuracy": unweighted})
    assert sklearn_get_scorer("accuracy") is not unweighted
    monkeypatch.setattr(table, "_SCORERS", ("moved",))
    with pytest.warns(UserWarning, match="its table of scorers has changed"):
        register_scorers({"neg_x": unweighted})
    monkeypatch.delattr(table, "_SCORERS")
    with pytest.warns(UserWarning, match="its table of scorers has changed"):
        register_scorers({"neg_x": unweighted})
