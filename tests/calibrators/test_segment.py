"""SegmentCalibrator against its definition, on calibrated data and with a segment that is off, and errors."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sklearn_calib.calibrators import PlattCalibrator, SegmentCalibrator, SplineCalibrator
from sklearn_calib.export import to_json
from sklearn_calib.inference import CoxTest
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer
from tests._optional import pandas as pd
from tests._optional import polars as pl


@pytest.fixture
def two_rounds(monkeypatch):
    """Leave out most of the trees where a test does not look at them: they take most of the time."""
    monkeypatch.setattr("sklearn_calib.calibrators._segment._ROUNDS", 2)
    monkeypatch.setattr("sklearn_calib.calibrators._segment._TREES", 6)


def segmented(n, seed=0, error=1.5):
    """Scores, an age, a category (0, 1, 2), and outcomes that differ for the young of category 1."""
    rng = np.random.default_rng(seed)
    p, age, kind = rng.integers(2, 9, n) / 10, rng.integers(0, 8, n), rng.integers(0, 3, n)
    y = rng.random(n) < expit(logit(p) - error * ((age < 4) & (kind == 1)))
    return np.column_stack([p, age, kind]), y.astype(int)


def best_box(Z, r, v):
    """Return bounds of the box low < z <= high with the largest score, of all boxes, and the score.

    The score is (sum r)^2 / (sum v + 5) minus 10 for each finite bound but the first.
    """
    values, codes = zip(*(np.unique(column, return_inverse=True) for column in Z.T), strict=True)
    sums = np.zeros((2, *(len(each) for each in values)))
    np.add.at(sums, (slice(None), *codes), np.stack([r, v]))
    pairs = [list(combinations(range(len(each) + 1), 2)) for each in values]
    inside = [
        np.array([[low <= k < high for k in range(len(each))] for low, high in own], dtype=float)
        for own, each in zip(pairs, values, strict=True)
    ]
    G, H = np.einsum("ia,jb,kc,nabc->nijk", *inside, sums, optimize=True)
    ends = [
        np.array([(low > 0) + (high < len(each)) for low, high in own])
        for own, each in zip(pairs, values, strict=True)
    ]
    score = G**2 / (H + 5) - 10 * np.maximum(ends[0][:, None, None] + ends[1][:, None] + ends[2] - 1, 0)
    place = np.unravel_index(score.argmax(), score.shape)
    chosen = [own[k] for own, k in zip(pairs, place, strict=True)]
    bounds = [
        (np.r_[-np.inf, each][i], np.r_[-np.inf, each[:-1], np.inf][j])
        for each, (i, j) in zip(values, chosen, strict=True)
    ]
    return bounds, score.max()


class Boxes:
    """Boxes, one after the other, each with a Newton step, and their stages as those of trees."""

    def __init__(self, Z, y, w, f, most):
        self.found, self.most = [], most
        for _ in range(most):
            p = expit(f)
            bounds, score = best_box(Z, w * (y - p), w * p * (1 - p))
            if score <= 0 or not np.isfinite(bounds).any():
                break
            rows = self.members(bounds, Z)
            shift = (w * (y - p))[rows].sum() / ((w * p * (1 - p))[rows].sum() + 5)
            self.found.append((bounds, shift))
            f = f + shift * rows

    @staticmethod
    def members(bounds, Z):
        return np.all([(low < z) & (z <= high) for (low, high), z in zip(bounds, Z.T, strict=True)], axis=0)

    def staged_predict(self, Z):
        steps = [shift * self.members(bounds, Z) for bounds, shift in self.found]
        return [sum(steps[: k + 1], np.zeros(len(Z))) for k in range(self.most)]


def reference(X, y, w, new, seed, rounds, trees):
    """Return the probabilities of new samples from the definition, of features with few values."""

    def grow(rows, f, n_trees, boxes):
        p = expit(f[rows])
        if boxes:
            return Boxes(Z[rows], y[rows], w[rows], f[rows], n_trees)
        small = {"max_leaf_nodes": 4, "min_samples_leaf": 50, "early_stopping": False}
        penalized = {"learning_rate": 0.1, "l2_regularization": 30.0, "max_iter": n_trees}
        model = HistGradientBoostingRegressor(**small, **penalized)
        return model.fit(Z[rows], (y[rows] - p) / (p * (1 - p)), w[rows] * p * (1 - p))

    spline = SplineCalibrator().fit(X[:, 0], y, w)
    start, at = logit(spline.transform(X[:, 0])), logit(spline.transform(new[:, 0]))
    Z, Z_new = np.column_stack([X[:, 1:], start]), np.column_stack([new[:, 1:], at])
    folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(Z, y))
    per_fold, full, found = [start.copy() for _ in folds], start.copy(), np.zeros(len(new))
    for n_round in range(rounds):
        tried = []
        for boxes, most in ((False, trees), (True, 1))[: 1 if n_round else 2]:
            losses, models = np.zeros(most + 1), []
            for (train, test), f in zip(folds, per_fold, strict=True):
                models.append(grow(train, f, most, boxes))
                for k, step in enumerate([np.zeros(len(test)), *models[-1].staged_predict(Z[test])]):
                    p = expit(f[test] + step)
                    losses[k] += w[test].sum() * log_loss(y[test], p, sample_weight=w[test])
            tried.append((losses[0] - losses.min(), int(losses.argmin()), models, boxes))
        gain, best, models, boxes = max(tried, key=lambda each: each[0])
        if gain <= 1e-5 * w.sum():
            break
        for model, f in zip(models, per_fold, strict=True):
            f += list(model.staged_predict(Z))[best - 1]
        model = grow(np.arange(len(y)), full, best, boxes)
        full += list(model.staged_predict(Z))[-1]
        found += list(model.staged_predict(Z_new))[-1]
    g = np.empty(len(y))
    for (_, test), f in zip(folds, per_fold, strict=True):
        g[test] = (f - start)[test]
    b = minimize_scalar(lambda b: w @ (np.logaddexp(0, start + b * g) - y * (start + b * g))).x
    p = expit(start + b * g)
    z2 = b**2 * (w * p * (1 - p) * g**2).sum()
    return expit(at + np.clip(b, 0, 1.5) * max(0, 1 - 2 / z2) * found)


@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_probabilities_are_those_of_the_definition(weighted, monkeypatch):
    n, rounds, trees = (700, 2, 8) if weighted else (2000, 12, 25)
    # the search finds the best box, but not always the second
    monkeypatch.setattr("sklearn_calib.calibrators._segment._SEGMENTS", 1)
    if weighted:
        monkeypatch.setattr("sklearn_calib.calibrators._segment._ROUNDS", rounds)
        monkeypatch.setattr("sklearn_calib.calibrators._segment._TREES", trees)
    X, y = segmented(n, error=2.5)
    new, _ = segmented(200, 1)
    w = np.random.default_rng(2).uniform(0.5, 1.5, n) if weighted else np.ones(n)
    calibrator = SegmentCalibrator().fit(X, y, w if weighted else None)
    seed = int(np.random.default_rng(0).integers(2**31))
    assert 0.5 < calibrator.weight_ < 1.5
    expected = reference(X, y, w, new, seed, rounds, trees)
    np.testing.assert_allclose(calibrator.predict_proba(new)[:, 1], expected, atol=1e-6)
    assert np.abs(expected - calibrator.calibrator_.transform(new[:, 0])).max() > 0.1


def test_a_segment_of_sets_and_an_interval_is_found(two_rounds):
    """Two categories, and numbers in the middle: neither is off without the other."""
    rng = np.random.default_rng(0)
    n = 3000
    kinds, x, p = rng.choice(["a", "b", "c", "d"], n), rng.uniform(size=n), rng.uniform(0.3, 0.7, n)
    off = np.isin(kinds, ["b", "d"]) & (x > 0.35) & (x < 0.65)
    y = rng.random(n) < np.where(off, p + 0.28, p)
    frame = pd.DataFrame({"score": p, "kind": kinds, "noise": rng.uniform(size=n), "x": x})
    found = SegmentCalibrator().fit(frame, y).predict_proba(frame)[:, 1]
    assert (found - p)[off].mean() > 0.75 * (y - p)[off].mean() > 0.15
    assert abs((found - p)[~off].mean()) < 0.01


@pytest.mark.thorough
def test_nothing_is_added_where_nothing_is_to_be_gained():
    lost, silent = [], 0
    for seed in range(10):
        X, y = segmented(500, seed, error=0.0)
        calibrator = SegmentCalibrator().fit(X, y)
        curve = SplineCalibrator().fit(X[:, 0], y).transform(X[:, 0])
        silent += np.array_equal(calibrator.predict_proba(X)[:, 1], curve)
        p, truth = calibrator.predict_proba(X)[:, 1], X[:, 0]
        lost.append(np.mean(-truth * np.log(p / curve) - (1 - truth) * np.log((1 - p) / (1 - curve))))
    assert silent >= 8
    assert max(lost) < 0.01


def test_few_samples_are_left_to_the_curve():
    X, y = segmented(95)
    for scores, labels in ((X, y), (segmented(900)[0], np.arange(900) < 4)):
        calibrator = SegmentCalibrator().fit(scores, labels)
        assert (calibrator.weight_, calibrator.trees_) == (0, [])
        curve = SplineCalibrator().fit(scores[:, 0], labels)
        np.testing.assert_array_equal(calibrator.predict_proba(scores), curve.predict_proba(scores[:, 0]))


def test_containers_categories_and_missing_values(two_rounds):
    X, y = segmented(600, error=3.5)
    names = np.array(["red", "green", None], dtype=object)[X[:, 2].astype(int)]
    frame = pd.DataFrame({"score": X[:, 0], "age": X[:, 1], "kind": names}, index=np.arange(600) + 7)
    frame.loc[frame.index[::9], "age"] = np.nan
    calibrator = SegmentCalibrator().fit(frame, y)
    expected = calibrator.predict_proba(frame)
    assert np.abs(expected[:, 1] - SplineCalibrator().fit(X[:, 0], y).transform(X[:, 0])).max() > 0.1
    for table in (frame.to_numpy(), frame.astype({"kind": "category"}), pl.from_pandas(frame)):
        found = SegmentCalibrator().fit(table, y)
        np.testing.assert_array_equal(found.predict_proba(table), expected)
    # the order of the samples is immaterial in prediction, and an unknown category has no effect of its own
    found = calibrator.predict_proba(frame.assign(kind=frame["kind"].replace("red", "unknown"))[::-1])[::-1]
    known = (frame["kind"] != "red").to_numpy()
    np.testing.assert_array_equal(found[known], expected[known])
    assert found.shape == expected.shape


def test_odd_features(two_rounds):
    """A constant, a column that is missing, a category for each sample, infinite numbers, dates, flags."""
    X, y = segmented(800, error=2.5)
    day = np.datetime64("2026-01-01") + X[:, 1].astype(int)
    table = {
        "score": X[:, 0],
        "constant": np.ones(800),
        "missing": np.full(800, np.nan),
        "nothing": np.full(800, None),
        "name": [f"sample {k}" for k in range(800)],
        "infinite": np.where(np.arange(800) % 2, np.inf, -np.inf),
        "day": day,
        "kind": X[:, 2] == 1,
    }
    frame = pd.DataFrame(table)
    found = SegmentCalibrator().fit(frame, y).predict_proba(frame)[:, 1]
    off = (X[:, 1] < 4) & (X[:, 2] == 1)
    assert (logit(found) - logit(X[:, 0]))[off].mean() < -0.8
    assert abs((logit(found) - logit(X[:, 0]))[~off].mean()) < 0.2


def test_samples_of_weight_zero_are_ignored(two_rounds):
    X, y = segmented(700, error=3.0)
    weight = np.ones(700)
    weight[500:], X[500:, 1], y[500:] = 0, 99, 1
    calibrator = SegmentCalibrator().fit(X, y, weight)
    expected = SegmentCalibrator().fit(X[:500], y[:500], np.ones(500)).predict_proba(X[:500])
    np.testing.assert_array_equal(calibrator.predict_proba(X[:500]), expected)


def test_any_score_and_labels(two_rounds):
    X, y = segmented(500, error=3.0)
    margins = np.column_stack([3 * logit(X[:, 0]), X[:, 1:]])
    calibrator = SegmentCalibrator(PlattCalibrator(link="identity"), random_state=1)
    calibrator.fit(margins, np.array(["no", "yes"])[y])
    expected = SegmentCalibrator(PlattCalibrator(), random_state=1).fit(X, y)
    np.testing.assert_allclose(calibrator.predict_proba(margins), expected.predict_proba(X), atol=1e-7)
    assert calibrator.predict(margins).tolist() == np.array(["no", "yes"])[expected.predict(X)].tolist()


@pytest.mark.thorough
def test_after_any_classifier():
    X, y = make_classification(900, n_features=4, n_informative=4, n_redundant=0, flip_y=0.2, random_state=0)
    model = make_pipeline(CrossFitScorer(LogisticRegression(), cv=3, passthrough=True), SegmentCalibrator())
    plain = make_pipeline(CrossFitScorer(LogisticRegression(), cv=3), SplineCalibrator())
    given = {"cv": 2, "method": "predict_proba"}
    loss, without = (log_loss(y, cross_val_predict(each, X, y, **given)) for each in (model, plain))
    assert loss < without - 0.02


def test_transforms_the_score_in_a_pipeline(two_rounds):
    X, y = segmented(500, error=3.0)
    calibrator = SegmentCalibrator().fit(X, y)
    expected = calibrator.predict_proba(X)[:, 1:]
    np.testing.assert_array_equal(calibrator.transform(X), expected)
    np.testing.assert_array_equal(SegmentCalibrator().fit_transform(X, y), expected)
    assert calibrator.get_feature_names_out().tolist() == ["x0"]
    frame = pd.DataFrame(X, columns=["risk", "age", "kind"])
    shown = SegmentCalibrator().set_output(transform="pandas").fit(frame, y).transform(frame)
    assert shown.columns.tolist() == ["risk"]
    np.testing.assert_array_equal(shown, expected)
    with pytest.raises(ValueError, match="input_features is not equal"):
        SegmentCalibrator().fit(frame, y).get_feature_names_out(["a", "b", "c"])
    tested = make_pipeline(SegmentCalibrator(), CoxTest()).fit(X, y)
    np.testing.assert_array_equal(tested.predict_proba(X)[:, 1:], expected)
    assert 0 < tested.score(X, y) <= 1
    with pytest.raises(NotFittedError):
        SegmentCalibrator().get_feature_names_out()


def test_errors_say_what_is_wrong(two_rounds):
    X, y = segmented(300)
    cases = [
        (X[:, :1], y, "passthrough=True"),
        (X[:, ::-1], y, r"X\[:, 0\] contains"),
        (X, np.arange(300) % 3, "Only binary classification is supported by SegmentCalibrator"),
        (X, np.zeros(300), "only one class"),
        (X, y[:-1], "y has 299 samples but X has 300"),
    ]
    for scores, labels, message in cases:
        with pytest.raises(ValueError, match=message):
            SegmentCalibrator().fit(scores, labels)
    with pytest.raises(TypeError, match="calibrator"):
        SegmentCalibrator(SplineCalibrator).fit(X, y)
    with pytest.raises(ValueError, match="passthrough=True"):
        CalibratedClassifier(LogisticRegression(), SegmentCalibrator()).fit(X, y)
    calibrator = SegmentCalibrator().fit(*segmented(400))
    with pytest.raises(ValueError, match=r"X\[:, 1\] contains categories, such as 'old', but numbers were"):
        calibrator.predict_proba(np.array([[0.5, "old", 1]], dtype=object))
    with pytest.raises(TypeError, match="SegmentCalibrator depends on features"):
        to_json(calibrator)


@pytest.mark.thorough
def test_passes_the_checks_of_scikit_learn(two_rounds):
    with warnings.catch_warnings(action="ignore"):
        results = check_estimator(SegmentCalibrator(SplineCalibrator(link="identity")), on_fail=None)
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []
    assert sum(result["status"] == "passed" for result in results) > 50
