"""Every public entrance takes every container, and gives the same numbers for all of them."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.utils import _safe_indexing

from sklearn_calib import CalibratedClassifier, CrossFitScorer, SelectiveClassifier, metrics
from sklearn_calib.calibrators import GroupCalibrator, IsotonicCalibrator, PlattCalibrator
from sklearn_calib.inference import (
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    HosmerLemeshowTest,
    SequentialTest,
    SpiegelhalterTest,
    compare_models,
    confidence_interval,
    expected_under_calibration,
    paired_test,
)
from sklearn_calib.monitor import CalibrationMonitor, StreamingCalibrator
from sklearn_calib.plot import (
    ComparisonDisplay,
    CutoffDisplay,
    DecisionDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    TestDisplay,
)
from sklearn_calib.report import calibration_report
from sklearn_calib.scorers import MultiScorer, PValueScorer, get_scorer
from sklearn_calib.sketch import CalibrationSketch, WindowedSketch
from tests._containers import CONTAINERS, over
from tests._optional import pyplot as plt
from tests._registry import METRICS
from tests.calibrators._registry import CALIBRATORS
from tests.inference._registry import TESTS

# Each stands for the containers that numpy reads in the same way; the border itself is tested with all.
FEW = [c for c in CONTAINERS if c.name in ("memory_map", "pandas_nullable", "polars", "pyarrow_chunked")]
FEW += [c for c in CONTAINERS if c.name in ("stand_in_tensor", "torch_gradient", "exchangeable")]
# Where a call takes long, of these only those that differ most.
SLOW = [c for c in FEW if c.name in ("pandas_nullable", "stand_in_tensor", "torch_gradient")]


def take_turns(cases):
    """Return the mark of a test of all cases, each with two containers, so that all have their turn."""
    available = [container for container in FEW if container.available]
    turns = [(case, available[i % len(available)]) for i, case in enumerate(cases)]
    turns += [(case, available[(i + 2) % len(available)]) for i, case in enumerate(cases)]
    names = [f"{case.name}-{container.name}" for case, container in turns]
    return pytest.mark.parametrize(("case", "container"), turns, ids=names)


@pytest.fixture(scope="module")
def binary():
    """Labels, probabilities and frequencies of 48 rows, in multiples of 1/128, with ties."""
    rng = np.random.default_rng(5)
    p = rng.integers(1, 128, 48) / 128
    p[:8] = p[8:16]
    return (rng.random(48) < p).astype(np.int64), p, rng.integers(0, 3, 48)


@pytest.fixture(scope="module")
def three():
    """Labels and probabilities of 60 rows and three classes, in multiples of 1/128, and frequencies."""
    rng = np.random.default_rng(6)
    rows = rng.multinomial(125, [0.4, 0.3, 0.3], 60)
    rows[:30] = rows[30:][::-1]
    rows = (rows + 1) / 128
    labels = np.array([rng.choice(3, p=row) for row in rows])
    return labels, rows, rng.integers(0, 3, 60)


@over(CONTAINERS)
def test_metrics(container, binary, tmp_path):
    held = [container.make(values, tmp_path) for values in binary]
    y, p, w = binary
    for case in METRICS:
        assert case.call(*held[:2], sample_weight=held[2]) == case.call(y, p, sample_weight=w), case.name
        assert case.call(*held[:2]) == case.call(y, p), case.name
    thresholds = np.array([0.25, 0.5])
    found = metrics.decision_risk_result(*held[:2], thresholds=container.make(thresholds, tmp_path))
    np.testing.assert_array_equal(found.thresholds, thresholds)
    for function in (
        metrics.distance_from_calibration,
        metrics.score_decomposition,
        metrics.risk_coverage_curve,
    ):
        assert str(function(*held[:2])) == str(function(y, p))


@over(FEW)
def test_metrics_of_several_classes(container, three, tmp_path):
    y, p, w = three
    held = [container.make(values, tmp_path) for values in three]
    many = (np.arange(60)[:, None] % np.array([2, 3, 4]) > 0).astype(np.int64)
    for metric in (metrics.expected_calibration_error, metrics.smooth_ece, metrics.kernel_calibration_error):
        for reduction in ("classwise", "confidence", "top-label"):
            call = partial(metric, reduction=reduction)
            assert call(*held[:2], sample_weight=held[2]) == call(y, p, sample_weight=w)
        assert metric(container.make(many, tmp_path), held[1]) == metric(many, p)
    labels = container.make(np.arange(3), tmp_path)
    assert metrics.smooth_ece(*held[:2], labels=labels) == metrics.smooth_ece(y, p)


OTHER_TESTS = [
    CoxTest(),
    HosmerLemeshowTest(),
    SpiegelhalterTest(),
    CutoffTest(random_state=0),
    ConsistencyTest(metrics.smooth_ece, n_resamples=39, random_state=0),
]


@over(FEW)
def test_tests(container, binary, tmp_path):
    y, p, w = (np.repeat(values, 3) for values in binary)
    held = [container.make(values, tmp_path) for values in (y, p, w)]
    cases = [(case.name, case.test) for case in TESTS] + [(type(t).__name__, t) for t in OTHER_TESTS]
    for name, test in cases:
        found = test.test(*held[:2], sample_weight=held[2])
        expected = test.test(y, p, sample_weight=w)
        assert (found.pvalue, found.statistic) == (expected.pvalue, expected.statistic), name
    test = clone(OTHER_TESTS[0]).fit(held[1], held[0], held[2])
    assert test.classes_.tolist() == [0, 1]
    assert test.n_features_in_ == 1
    assert test.transform(held[1]) is held[1]
    assert test.score(held[1], held[0]) == OTHER_TESTS[0].test(y, p).pvalue


@over(FEW)
def test_streams_and_several_classes(container, binary, three, tmp_path):
    y, p, _ = (container.make(values, tmp_path) for values in binary)
    stream = SequentialTest().partial_fit(p, y, classes=container.make(np.array([0, 1]), tmp_path))
    assert stream.partial_fit(p, y).n_samples_ == 96
    assert SequentialTest().fit(p, y).pvalue_ == SequentialTest().test(*binary[:2]).pvalue
    labels, rows, _ = (container.make(values, tmp_path) for values in three)
    test = TESTS[0].test
    assert test.test(labels, rows).pvalue == test.test(*three[:2]).pvalue
    assert clone(test).fit(rows, labels).n_features_in_ == 3


@take_turns(CALIBRATORS)
def test_calibrators(case, container, binary, tmp_path):
    y, p, w = (np.tile(values, 2) for values in binary)
    labels, scores, weight = (container.make(values, tmp_path) for values in (y, p, w))
    expected = case.make().fit(p, y, w).transform(p)
    found = case.make().fit(scores, labels, weight)
    np.testing.assert_array_equal(found.transform(scores), expected)
    np.testing.assert_array_equal(found.predict_proba(scores)[:, 1], expected)
    assert set(found.predict(scores).tolist()) <= {0, 1}


@take_turns([case for case in CALIBRATORS if case.multiclass])
def test_calibrators_of_several_classes(case, container, three, tmp_path):
    y, p, w = three
    labels, scores, weight = (container.make(values, tmp_path) for values in three)
    expected = case.make().fit(p, y, w).predict_proba(p)
    found = case.make().fit(scores, labels, weight).predict_proba(scores)
    np.testing.assert_array_equal(found, expected)


@over(CONTAINERS)
def test_groups(container, binary, tmp_path):
    y, p, w = (np.tile(values, 4) for values in binary)
    groups = np.repeat([0, 1], 96)
    scores, labels, weight, keys = (container.make(values, tmp_path) for values in (p, y, w, groups))
    calibrator = GroupCalibrator(IsotonicCalibrator(), min_group_size=10)
    expected = calibrator.fit(p, y, w, groups=groups).predict_proba(p, groups=groups)
    found = calibrator.fit(scores, labels, weight, groups=keys).predict_proba(scores, groups=keys)
    np.testing.assert_array_equal(found, expected)
    table = np.column_stack([p, groups])
    by_column = GroupCalibrator(IsotonicCalibrator(), group_column=1, min_group_size=10)
    held = container.make(table, tmp_path)
    np.testing.assert_array_equal(by_column.fit(held, labels, weight).predict_proba(held), expected)
    if hasattr(held, "columns"):
        by_name = clone(by_column).set_params(group_column="b").fit(held, labels, weight)
        np.testing.assert_array_equal(by_name.predict_proba(held), expected)


@over(SLOW)
def test_comparisons_intervals_and_floors(container, binary, tmp_path):
    y, p, w = (np.tile(values, 2) for values in binary)
    q = np.sqrt(np.round(p * 64) ** 2) / 64
    y_in, p_in, w_in, q_in = (container.make(values, tmp_path) for values in (y, p, w, q))
    for function, args, held in (
        (paired_test, (y, p, q), (y_in, p_in, q_in)),
        (compare_models, (y, {"a": p, "b": q}), (y_in, {"a": p_in, "b": q_in})),
        (confidence_interval, (y, p), (y_in, p_in)),
        (expected_under_calibration, (y, p), (y_in, p_in)),
    ):
        call = partial(function, metric="cutoff_calibration_error", n_resamples=39, random_state=0)
        assert str(call(*held, sample_weight=w_in)) == str(call(*args, sample_weight=w))


@pytest.mark.thorough
@over(SLOW)
def test_report(container, binary, three, tmp_path):
    settings = {"n_resamples": 20, "progress": False}
    for data in (binary, three):
        y, p, w = (np.tile(values, (2, 1)) if values.ndim == 2 else np.tile(values, 2) for values in data)
        groups = np.arange(y.shape[0]) % 2
        held = [container.make(values, tmp_path) for values in (y, p, w, groups)]
        found = calibration_report(*held[:2], sample_weight=held[2], groups=held[3], **settings)
        assert str(found) == str(calibration_report(y, p, sample_weight=w, groups=groups, **settings))
        settings = {**settings, "labels": container.make(np.arange(3), tmp_path)}


@over(SLOW)
def test_displays(container, binary, three, tmp_path):
    plt.close("all")
    y, p, w = (container.make(values, tmp_path) for values in binary)
    groups = container.make(np.arange(48) % 2, tmp_path)
    weighted = {"sample_weight": w}
    plain = {"sample_weight": binary[2]}
    for method, band in (("smooth", "confidence"), ("binned", "none"), ("corp", "confidence")):
        options = {"method": method, "band": band}
        found = ReliabilityDisplay.from_predictions(y, p, **weighted, **options)
        expected = ReliabilityDisplay.from_predictions(*binary[:2], **plain, **options)
        np.testing.assert_array_equal(found.curve.observed, expected.curve.observed)
        plt.close("all")
    ReliabilityDisplay.from_predictions(y, p, groups=groups, **weighted)
    labels, rows, weight = (container.make(values, tmp_path) for values in three)
    ReliabilityDisplay.from_predictions(labels, rows, sample_weight=weight)
    plt.close("all")
    few = {"n_resamples": 99, "random_state": 0}
    CutoffDisplay.from_predictions(y, p, **weighted, **few)
    DecisionDisplay.from_predictions(y, p, **weighted, **few)
    RiskCoverageDisplay.from_predictions(y, p, **weighted)
    TestDisplay.from_predictions(y, p, test=TESTS[0].test, **weighted)
    ComparisonDisplay.from_predictions(y, {"a": p, "b": p}, **few)
    plt.close("all")


class Echo(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose probabilities are X, in a container of their own."""

    def __init__(self, container, folder):
        self.container = container
        self.folder = folder
        self.classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.container.make(X, self.folder)

    def __sklearn_is_fitted__(self):
        return True


@over(FEW)
def test_scorers(container, binary, tmp_path):
    y, p, w = binary
    X = np.column_stack([1 - p, p])
    y_in, w_in = (container.make(values, tmp_path) for values in (y, w))
    echo, plain = Echo(container, tmp_path), Echo(CONTAINERS[2], tmp_path)
    plain.predict_proba = lambda X: X
    for scorer in (
        get_scorer("neg_smooth_ece"),
        PValueScorer(SpiegelhalterTest()),
        PValueScorer(SpiegelhalterTest(), reduction="top-label"),
        MultiScorer(["neg_smooth_ece", "neg_cutoff_calibration_error"]),
    ):
        assert scorer(echo, X, y_in, sample_weight=w_in) == scorer(plain, X, y, sample_weight=w)
    if container.tensor:
        return
    # those of scikit-learn beside ours
    mixed = MultiScorer(["neg_smooth_ece", "neg_brier_score"])
    assert mixed(plain, X, y_in)["neg_brier_score"] == -brier_score_loss(y, p)


@over(CONTAINERS)
def test_classifier(container, binary, tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = np.round(rng.normal(size=(80, 3)) * 16 + 16 * y[:, None]) / 128
    w = rng.integers(1, 3, 80)
    model = CalibratedClassifier(LogisticRegression(), PlattCalibrator(link="identity"), cv=3)
    expected = clone(model).fit(X, y, w).predict_proba(X)
    labels, weight = container.make(y, tmp_path), container.make(w, tmp_path)
    np.testing.assert_array_equal(clone(model).fit(X, labels, weight).predict_proba(X), expected)
    selective = SelectiveClassifier(LogisticRegression(), target=0.6, random_state=0)
    found = clone(selective).fit(X, labels, weight)
    assert found.threshold_ == clone(selective).fit(X, y, w).threshold_
    stage = CrossFitScorer(LogisticRegression(), cv=3)
    found = clone(stage).fit_transform(X, labels, weight)
    np.testing.assert_array_equal(found, clone(stage).fit_transform(X, y, w))
    # the features go to scikit-learn as they are
    if container.tensor:
        return
    features = container.make(X, tmp_path)
    try:
        _safe_indexing(features, [0, 1])
    except TypeError:
        pytest.skip("this version of scikit-learn cannot take rows of such features")
    found = clone(model).fit(features, labels, weight).predict_proba(features)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@over(CONTAINERS)
def test_sketch(container, binary, tmp_path):
    y, p, w = binary
    held = [container.make(values, tmp_path) for values in binary]
    assert CalibrationSketch().update(*held[:2]) == CalibrationSketch().update(y, p)
    weighted = CalibrationSketch().update(*held[:2], sample_weight=held[2])
    assert weighted == CalibrationSketch().update(y, p, sample_weight=w)


@over(CONTAINERS)
def test_streams_in_operation(container, binary, tmp_path):
    y, p, w = binary
    y_in, p_in, w_in = (container.make(values, tmp_path) for values in binary)
    windows = WindowedSketch(window=20).update(y_in, p_in, sample_weight=w_in)
    assert windows.current() == WindowedSketch(window=20).update(y, p, sample_weight=w).current()
    monitor, expected = CalibrationMonitor(), CalibrationMonitor()
    monitor.update(y_in, p_in, sample_weight=w_in)
    expected.update(y, p, sample_weight=w)
    assert monitor.pvalue_ == expected.pvalue_
    found = StreamingCalibrator(PlattCalibrator()).partial_fit(p_in, y_in, w_in).transform(p_in)
    np.testing.assert_array_equal(found, StreamingCalibrator(PlattCalibrator()).fit(p, y, w).transform(p))
    days = np.arange(48) // 10 + 0.5
    timed = WindowedSketch(3.0, n_slots=3).update(y_in, p_in, time=container.make(days, tmp_path))
    assert timed == WindowedSketch(3.0, n_slots=3).update(y, p, time=days)
