"""SelectiveClassifier: the threshold by plain loops, the guarantee by simulation, inputs and errors."""

import re
import warnings
from math import ceil, log

import numpy as np
import pytest
from scipy.stats import binom, binomtest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import CalibratedClassifier, SelectiveClassifier
from sklearn_calib.calibrators import PlattCalibrator


class Given(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are the probabilities of its classes."""

    def __init__(self, classes=(0, 1)):
        self.classes = classes
        self.classes_ = np.asarray(classes)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        X = np.asarray(X, dtype=float)
        return np.column_stack([1 - X[:, 0], X[:, 0]]) if X.shape[1] == 1 else X


def given(classes=(0, 1)):
    return FrozenEstimator(Given(classes))


def forecasts(n, rng, power=0.5):
    """Return probabilities of class 1, as features, and classes that are more predictable than they say."""
    p = rng.random(n)
    sharp = np.where(p > 0.5, 1 - 0.5 * (2 - 2 * p) ** (1 / power), 0.5 * (2 * p) ** (1 / power))
    return p[:, np.newaxis], (rng.random(n) < sharp).astype(int)


COSTS = np.array([[0.0, 1.0], [4.0, 0.0]])
UNEQUAL = np.array([[0.0, 1.0, 3.0], [2.0, 0.5, 1.0], [5.0, 1.0, 0.0]])


def plain_decision(row, risk, positive):
    """Return the decision for a sample and the confidence, from the definitions."""
    if isinstance(risk, str):
        if risk == "false_discovery":
            return positive, row[positive]
        best = max(range(len(row)), key=lambda k: row[k])
        return best, row[best]
    expected = [sum(row[i] * risk[i][j] for i in range(len(row))) for j in range(len(row))]
    best = min(range(len(row)), key=lambda j: expected[j])
    return best, 1 - expected[best] / np.max(risk)


def plain_limits(n, risk, alpha):
    """Return the most errors with each number of correct samples, from all walks of errors one by one."""
    first, last = ceil(log(alpha) / log(1 - risk)), n - int(binom.ppf(alpha, n, risk))
    spent_at = {round(first * (last / first) ** (i / 99)) for i in range(100)}
    # probabilities of (errors) of walks that have not passed, when they reach a number of correct samples
    alive, used, limits, limit = {0: 1.0}, 0.0, {}, -1
    for c in range(1, last + 1):
        reached, carried = {}, 0.0
        for errors in range(max(alive) + 60):
            carried = carried * risk + alive.get(errors, 0.0) * (1 - risk)
            reached[errors] = carried
        if c in spent_at:
            allowed = alpha * log((c + 1) / first) / log((last + 1) / first)
            while used + reached[limit + 1] <= allowed:
                limit += 1
                used += reached[limit]
        limits[c] = limit
        alive = {errors: value for errors, value in reached.items() if errors > limit and value > 1e-20}
    assert 0.8 * alpha < used <= alpha
    return {**limits, **dict.fromkeys(range(last, n + 1), limit), 0: -1}


def plain_threshold(P, y, weight, risk, target, alpha, seed, positive=1):
    """Return the lowest threshold with so few errors as the limits allow, in plain loops."""
    highest = 1.0 if isinstance(risk, str) else np.max(risk)
    decided = [plain_decision(row, risk, positive) for row in P.tolist()]
    costs = 1 - np.eye(P.shape[1]) if isinstance(risk, str) else risk / highest
    losses = np.array([costs[label][choice] for (choice, _), label in zip(decided, y, strict=True)])
    generator = np.random.default_rng(seed)
    weight = generator.multinomial(weight, [0.0, 1.0])[:, 1]
    rows = np.flatnonzero(weight)
    errors = dict(zip(rows, generator.binomial(weight[rows], 1.0 - (1.0 - losses[rows])), strict=True))
    limits, found = plain_limits(weight.sum(), target / highest, alpha), np.inf
    for threshold in [*sorted({decided[i][1] for i in rows}, reverse=True), 0.0]:
        accepted = [i for i in rows if decided[i][1] >= threshold - 1e-12]
        wrong = sum(errors[i] for i in accepted)
        if wrong <= limits[sum(weight[i] for i in accepted) - wrong]:
            found = threshold
    return found


@pytest.mark.parametrize(
    ("risk", "target", "n_classes"),
    [
        ("error", 0.2, 2),
        ("error", 0.3, 3),
        ("false_discovery", 0.2, 2),
        (COSTS, 0.7, 2),
        (UNEQUAL, 1.5, 3),
        (4 * (1 - np.eye(3)), 1.5, 3),
    ],
    ids=["error", "three", "precision", "costs", "three-costs", "equal-costs"],
)
def test_threshold_by_plain_loops(risk, target, n_classes):
    found = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        P = np.round(rng.dirichlet(np.full(n_classes, 0.5), 150), 2)
        P[:, -1] = np.abs(1 - P[:, :-1].sum(axis=1))
        sharp = P**1.5 / (P**1.5).sum(axis=1, keepdims=True)
        y = np.array([rng.choice(n_classes, p=row) for row in sharp])
        weight = rng.integers(0, 3, 150)
        settings = {"risk": risk, "target": target, "confidence": 0.9, "weights": "frequency"}
        model = SelectiveClassifier(given(range(n_classes)), **settings, random_state=seed)
        with warnings.catch_warnings(action="ignore"):
            model.fit(P, y, sample_weight=weight)
        expected = plain_threshold(P, y, weight, risk, target, 0.1, seed)
        assert model.threshold_ == pytest.approx(expected, abs=1e-12)
        accepted = model.accepts(P)
        assert model.coverage_ == pytest.approx(weight @ accepted / weight.sum())
        found.append(model.threshold_)
        if accepted.any():
            assert model.risk_ < target
            assert 0 < model.risk_bound_ <= target
    assert np.isfinite(found).any()


def test_bound_is_that_of_clopper_and_pearson_at_a_stricter_level():
    X, y = forecasts(2000, np.random.default_rng(0))
    model = SelectiveClassifier(given(), target=0.1).fit(X, y)
    accepted = model.accepts(X)
    wrong = int((model.predict(X) != y)[accepted].sum())
    assert (model.coverage_, model.risk_) == pytest.approx((accepted.mean(), wrong / accepted.sum()))
    exact = binomtest(wrong, int(accepted.sum()), alternative="less")
    pointwise, strict = (exact.proportion_ci(level).high for level in (0.95, 0.999))
    assert pointwise < model.risk_bound_ < min(strict, 0.1 + 1e-15)


def test_abstention():
    X, y = forecasts(3000, np.random.default_rng(1))
    model = SelectiveClassifier(given(), target=0.05, random_state=0).fit(X, y)
    accepted = model.accepts(X)
    assert 0.2 < accepted.mean() < 0.95
    np.testing.assert_array_equal(accepted, np.maximum(X[:, 0], 1 - X[:, 0]) >= model.threshold_)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], X[:, 0])
    labels = model.predict(X)
    np.testing.assert_array_equal(labels, X[:, 0] > 0.5)
    marked = model.set_params(abstain_label=-1).predict(X)
    assert marked.dtype.kind == "i"
    np.testing.assert_array_equal(marked, np.where(accepted, labels, -1))
    words = np.array(["no", "yes"])[y]
    model = SelectiveClassifier(given(("no", "yes")), abstain_label="do not know", random_state=0)
    found = model.fit(X, words).predict(X)
    assert found[~accepted].tolist() == ["do not know"] * int((~accepted).sum())
    np.testing.assert_array_equal(found[accepted], np.array(["no", "yes"])[labels[accepted]])
    mixed = model.set_params(abstain_label=-1).predict(X)
    assert (mixed.dtype, set(mixed.tolist())) == (object, {"no", "yes", -1})


def test_precision_of_a_class_without_abstention():
    X, y = forecasts(3000, np.random.default_rng(2))
    for label in (1, 0):
        settings = {"risk": "false_discovery", "pos_label": label, "target": 0.1}
        model = SelectiveClassifier(given(), **settings, random_state=0).fit(X[:2000], y[:2000])
        found = model.predict(X[2000:])
        np.testing.assert_array_equal(found == label, model.accepts(X[2000:]))
        assert np.mean(y[2000:][found == label] != label) < 0.13
    three = SelectiveClassifier(given((0, 1, 2)), risk="false_discovery", target=0.3, random_state=0)
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.3] * 3, 1000)
    y = np.array([rng.choice(3, p=row) for row in P])
    with pytest.raises(ValueError, match=r"pos_label must be one of the classes \[0, 1, 2\]"):
        three.fit(P, y)
    three.set_params(pos_label=2).fit(P, y)
    found, accepted = three.predict(P), three.accepts(P)
    np.testing.assert_array_equal(found == 2, accepted)
    np.testing.assert_array_equal(found[~accepted], P[~accepted, :2].argmax(axis=1))


def test_no_threshold_meets_the_target():
    X, y = forecasts(1000, np.random.default_rng(0))
    model = SelectiveClassifier(given(), target=0.001, abstain_label=-1, random_state=0)
    message = "always abstains.*best threshold, .* of the 1000 held-out"
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(X, y)
    assert (len(caught), caught[0].filename) == (1, __file__)
    assert (model.threshold_, model.coverage_) == (np.inf, 0.0)
    assert np.isnan([model.risk_, model.risk_bound_]).all()
    assert not model.accepts(X).any()
    assert set(model.predict(X).tolist()) == {-1}
    # the best threshold is that of the least target that these samples meet
    pattern = r"threshold, (\S+), accepts (\d+) of .*; their risk is (\S+), and its upper bound (\S+)\. Use"
    threshold, accepted, risk, bound = map(float, re.search(pattern, str(caught[0].message)).groups())
    with pytest.warns(UserWarning, match="always abstains"):
        model.set_params(target=0.98 * bound).fit(X, y)
    model.set_params(target=1.01 * bound).fit(X, y)
    assert (model.threshold_, model.accepts(X).sum()) == (pytest.approx(threshold, abs=1e-4), accepted)
    assert model.risk_ == pytest.approx(risk, abs=1e-4)
    with pytest.warns(UserWarning, match="always abstains. The 2 held-out samples are too few"):
        model.fit(X[:2], [0, 1])


def test_the_estimator_does_not_see_the_held_out_samples():
    X, y = make_classification(n_samples=400, random_state=0)
    model = SelectiveClassifier(LogisticRegression(), target=0.2, random_state=3, weights="frequency")
    model.fit(X, y)
    train = np.random.default_rng(3).multinomial(np.ones(400, int), [0.75, 0.25])[:, 0] > 0
    expected = LogisticRegression().fit(X[train], y[train])
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], expected.predict_proba(X)[:, 1])
    # of a sample that was observed several times each observation is in one part
    weight = np.random.default_rng(0).integers(0, 4, 400)
    model.fit(X, y, sample_weight=weight)
    parts = np.random.default_rng(3).multinomial(weight, [0.75, 0.25])
    rows = parts[:, 0] > 0
    expected = LogisticRegression().fit(X[rows], y[rows], sample_weight=parts[rows, 0])
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-12)


def violations(model, make, true_risk, n, repetitions):
    """Return how often the risk of the accepted samples exceeds the target."""
    rng = np.random.default_rng(0)
    count = accepted = 0
    for seed in range(repetitions):
        X, y = make(n, rng)
        with warnings.catch_warnings(action="ignore"):
            model.set_params(random_state=seed).fit(X, y)
        accepted += bool(model.coverage_)
        count += bool(model.coverage_) and true_risk(model.threshold_) > model.target
    assert accepted > 0.5 * repetitions
    return count / repetitions


def limit(repetitions):
    return 0.05 + 2 * np.sqrt(0.05 * 0.95 / repetitions)


def calibrated(n, rng):
    p = rng.random(n)
    return p[:, np.newaxis], (rng.random(n) < p).astype(int)


@pytest.mark.thorough
def test_guarantee_by_simulation():
    # accepted are those with p >= t and p <= 1 - t, whose mean error is (1 - t) / 2
    model = SelectiveClassifier(given(), target=0.2)
    assert violations(model, calibrated, lambda t: (1 - t) / 2 if t > 0.5 else 0.25, 400, 60) <= limit(60)


@pytest.mark.thorough
def test_few_fits_abstain_where_a_quarter_of_the_samples_meets_the_target():
    rng = np.random.default_rng(0)
    model, coverage = SelectiveClassifier(given(), target=0.05), []
    for _ in range(40):
        # errors of 0.4 (1 - u): below 0.05 on average in the best quarter
        u = rng.random(3000)
        error = 0.4 * (1 - u)
        y = (rng.random(3000) >= error).astype(int)
        with warnings.catch_warnings(action="ignore"):
            coverage.append(model.fit(0.5 + u[:, np.newaxis] / 2, y).coverage_)
    assert np.mean(np.array(coverage) == 0) <= 0.25
    assert np.mean(coverage) > 0.4 * 0.25


@pytest.mark.weekly
def test_level_where_all_confidences_have_the_risk_of_the_target():
    """The worst case: any accepted sample is a violation, which has a probability of almost 0.05."""
    rng, accepted = np.random.default_rng(0), 0
    model = SelectiveClassifier(given(), target=0.1)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(1000):
            p = rng.uniform(0.5, 1, 300)
            accepted += model.fit(p[:, np.newaxis], (rng.random(300) >= 0.1).astype(int)).coverage_ > 0
    assert 0.03 < accepted / 1000 <= limit(1000)


def coarse(n, rng):
    """Few confidences, the highest of which is overconfident."""
    level = rng.integers(0, 4, n)
    p, true = np.array([0.6, 0.75, 0.9, 1.0])[level], np.array([0.85, 0.9, 0.97, 0.7])[level]
    return p[:, np.newaxis], (rng.random(n) < true).astype(int)


def coarse_risk(threshold):
    used = np.array([0.6, 0.75, 0.9, 1.0]) >= threshold
    return np.mean(np.array([0.15, 0.1, 0.03, 0.3])[used])


def cost_risk(threshold):
    # expected costs of the decisions are p / 4 for 0 and (1 - p) / 16, in units of the highest
    p = (np.arange(20000) + 0.5) / 20000
    expected = np.minimum(4 * p, 1 - p)
    used = 1 - expected / 4 >= threshold
    return expected[used].mean()


@pytest.mark.weekly
@pytest.mark.parametrize("n", [1000, 4000])
def test_guarantee_by_long_simulation(n):
    for model, make, risk in (
        (SelectiveClassifier(given(), target=0.2), calibrated, lambda t: (1 - t) / 2 if t > 0.5 else 0.25),
        (SelectiveClassifier(given(), target=0.2, risk="false_discovery"), calibrated, lambda t: (1 - t) / 2),
        (SelectiveClassifier(given(), target=0.164 if n > 3000 else 0.2), coarse, coarse_risk),
        (SelectiveClassifier(given(), target=0.35, risk=COSTS), calibrated, cost_risk),
    ):
        assert violations(model, make, risk, n, 150) <= limit(150)


def test_in_a_pipeline_and_a_search():
    X, y = make_classification(n_samples=900, flip_y=0.1, random_state=0)
    base = CalibratedClassifier(GaussianNB(), PlattCalibrator(), cv=3, ensemble=False)
    pipe = make_pipeline(StandardScaler(), SelectiveClassifier(base, target=0.15, random_state=0))

    def coverage(model, X, y):
        return model[-1].accepts(model[:-1].transform(X)).mean()

    search = GridSearchCV(pipe, {"selectiveclassifier__target": [0.1, 0.25]}, scoring=coverage, cv=2)
    with warnings.catch_warnings(action="ignore"):
        search.fit(X, y)
    assert search.best_params_ == {"selectiveclassifier__target": 0.25}
    costs = clone(SelectiveClassifier(base, risk=COSTS, target=0.4, random_state=0))
    np.testing.assert_array_equal(costs.risk, COSTS)
    assert costs.fit(X.astype(np.float32), y.tolist()).coverage_ > 0


def test_metadata_routing():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 2))
    y = (X[:, 0] + 0.7 * rng.standard_normal(1000) > 0).astype(int)
    weight = rng.integers(1, 4, 1000)
    plain = SelectiveClassifier(LogisticRegression(), target=0.12, random_state=0, weights="frequency")
    expected = clone(plain).fit(X, y, sample_weight=weight)
    assert 0.5 < expected.threshold_ < 1
    with config_context(enable_metadata_routing=True):
        assert clone(plain).set_params(target=0.5).fit(X, y).coverage_ == 1.0
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            clone(plain).fit(X, y, sample_weight=weight)
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        routed = SelectiveClassifier(inner, target=0.12, random_state=0, weights="frequency")
        found = clone(routed).fit(X, y, sample_weight=weight)
        assert found.threshold_ == expected.threshold_
        np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
        staged = make_pipeline(StandardScaler(with_std=False, with_mean=False), routed)
        staged[0].set_fit_request(sample_weight=False)
        staged[-1].set_fit_request(sample_weight=True)
        assert staged.fit(X, y, sample_weight=weight)[-1].threshold_ == expected.threshold_
        frozen = clone(plain).set_params(estimator=FrozenEstimator(expected.estimator_))
        found = frozen.fit(X, y, sample_weight=weight).threshold_
    assert found == frozen.fit(X, y, sample_weight=weight).threshold_


def test_a_class_that_only_the_frozen_estimator_knows():
    P = np.random.default_rng(0).dirichlet([3, 3, 0.1], 500)
    y = (P[:, 1] > P[:, 0]).astype(int)
    model = SelectiveClassifier(given((0, 1, 2)), target=0.2, random_state=0).fit(P, y)
    assert model.classes_.tolist() == [0, 1, 2]
    message = "y contains the class 3, which the fitted FrozenEstimator does not have"
    with pytest.raises(ValueError, match=message):
        model.fit(P, np.where(y == 1, 3, 0))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"target": 0}, ValueError, "target must lie strictly between 0 and 1"),
        ({"target": "0.1"}, TypeError, "target must be a number"),
        ({"risk": "precision"}, ValueError, "risk must be one of 'error', 'false_discovery'"),
        ({"risk": [[0, 1]]}, ValueError, r"costs of shape \(2, 2\), with a row for each true class"),
        ({"risk": [[0, -1], [1, 0]]}, ValueError, "finite, non-negative costs"),
        ({"risk": [[0, 1], [2, 0]], "target": 2}, ValueError, "target must be less than the highest cost, 2"),
        ({"risk": "false_discovery", "pos_label": 2}, ValueError, "pos_label must be one of the classes"),
        ({"abstain_label": 1}, ValueError, r"abstain_label must be a label other than the classes \[0, 1\]"),
        ({"estimator": RidgeClassifier()}, TypeError, "must have predict_proba, which RidgeClassifier lacks"),
        ({"estimator": LogisticRegression}, TypeError, "estimator is the class LogisticRegression"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_parameters(params, error, message):
    X, y = make_classification(n_samples=60, random_state=0)
    model = SelectiveClassifier(**{"estimator": LogisticRegression(), **params})
    with pytest.raises(error, match=message):
        model.fit(X, y)


def test_bad_samples():
    X, y = make_classification(n_samples=60, random_state=0)
    model, fixed = SelectiveClassifier(LogisticRegression(), random_state=0), SelectiveClassifier(given())
    counted, p = clone(model).set_params(weights="frequency"), calibrated(60, np.random.default_rng(0))[0]
    for fitted, rows, options, message in (
        (model, X, {"sample_weight": np.full(60, 2)}, r"sampling weights .* Pass weights='frequency'"),
        (counted, X, {"sample_weight": np.full(60, 0.5)}, "sample_weight must contain whole numbers"),
        (model, X, {"groups": np.arange(60)}, "samples must be independent"),
        (fixed, p, {"groups": y}, "samples must be independent"),
        (fixed, p, {"clusters": y}, r"clusters cannot be used.* Pass one sample of each cluster"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.fit(rows, y, **options)
    rare = np.zeros(60, int)
    rare[5] = 1
    parts = ([seed, *np.random.default_rng(seed).multinomial(1, [0.75, 0.25], 60)[5]] for seed in range(50))
    seed = next(seed for seed, trained, *_ in parts if not trained)
    with pytest.raises(ValueError, match="The class 1 is absent from the samples that remain to fit"):
        model.set_params(random_state=seed).fit(X, rare)
    with pytest.raises(ValueError, match=r"predict_proba of .* returned NaN"):
        SelectiveClassifier(given()).fit([[0.2], [np.nan], [0.3]] * 9, [0, 1, 1] * 9)


def test_a_target_near_one_accepts_everything_at_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    model = SelectiveClassifier(LogisticRegression(), target=1 - 2**-53).fit(X, rng.random(300) < 0.5)
    assert model.coverage_ == 1
    assert model.risk_bound_ < 0.999
