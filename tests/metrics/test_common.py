"""Properties that every metric has, generated from the registry."""

from inspect import signature

import numpy as np
import pytest

from sklearn_calib import metrics
from tests._registry import METRICS
from tests._samples import simulated

every_metric = pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)


@every_metric
def test_hand_computed_predictions(case):
    # balanced and constant
    for y in ([1, 0], [0] * 50 + [1] * 50, [0, 1] * 50):
        value = case.call(y, [0.5] * len(y))
        if case.zero_when_balanced:
            assert value == 0.0
        else:
            # noise on the logit axis makes the prediction itself uncertain
            assert value < 0.2
    # certain and wrong: a debiased or thresholded version can only be 1 or the cost of the mistake
    for y, p in (([0], [1.0]), ([1] * 9, [0.0] * 9)):
        value = case.call(y, p)
        assert np.isfinite(value)
        assert value <= 1
        if "debias" not in case.params and "threshold" not in case.params:
            assert value == pytest.approx(1.0, abs=1e-9)
    # minus zero and denormals
    y, p = [0, 1, 0, 1], [0.0, 5e-324, 1 - 2**-53, 1.0]
    assert case.call(y, [-0.0, *p[1:]]) == case.call(y, p)
    assert 0 <= case.call(y, p) <= 1
    if not case.any_weights:
        with pytest.raises(ValueError, match="sample_weight"):
            case.call([0, 1], [0.2, 0.7], sample_weight=[0.3, 0.8])


BAD_INPUT = [
    ({"y_proba": [0.1, np.nan, 0.5]}, "y_proba"),
    ({"y_proba": [0.1, np.inf, 0.5]}, "y_proba"),
    ({"y_proba": [0.1, 1.1, 0.5]}, r"y_proba contains 1\.1 at index 1, outside \[0, 1\]\. Pass proba"),
    ({"y_proba": [0.1, 1.00001, 0.5]}, r"1\.00001 at index 1, outside \[0, 1\] by more than the 1e-6"),
    ({"y_proba": [0.1, -1e-5, 0.5]}, "y_proba"),
    ({"y_proba": [0.1, 0.5]}, "y_true has 3 samples but y_proba has 2"),
    ({"y_proba": ["a", "b", "c"]}, "y_proba"),
    ({"y_proba": ["0.1", "0.2", "0.3"]}, "y_proba"),
    ({"y_proba": [0.1, None, 0.5]}, "y_proba"),
    ({"y_proba": np.full((3, 3), 1 / 3), "y_true": ["a", "b", "b"]}, "y_proba"),
    ({"y_proba": [[0.5, 0.5], [0.2, 0.3], [0.5, 0.5]]}, r"y_proba .* row 1 sums to 0\.5"),
    ({"y_proba": [[0.5, 0.5], [np.nan, 0.3], [0.5, 0.5]]}, "y_proba"),
    ({"y_proba": 0.5}, "y_proba"),
    ({"y_proba": [], "y_true": []}, "y_proba"),
    ({"y_true": [0, 1, 2]}, r"y_true has 3 distinct values, among them \[0, 1, 2\]"),
    ({"y_true": [0.0, np.nan, 1.0]}, "y_true"),
    ({"y_true": [None, 0, 1]}, "y_true"),
    ({"y_true": [0, "a", 1]}, "y_true"),
    ({"y_true": np.eye(3, dtype=int)}, "y_true"),
    ({"y_true": ["a", "a", "a"]}, "single label 'a'.*Pass pos_label"),
    ({"pos_label": [1]}, "pos_label must be one label"),
    ({"y_true": np.array([1, "a", 2], dtype=object)}, "mixes labels of types"),
    ({"y_true": ["a", "b", "a"], "pos_label": "c"}, "pos_label"),
    ({"sample_weight": [1, -2, 1]}, "sample_weight contains -2 at index 1"),
    ({"sample_weight": [0, 0, 0]}, "sample_weight"),
    ({"sample_weight": [1, np.nan, 1]}, "sample_weight"),
    ({"sample_weight": [1, np.inf, 1]}, "sample_weight"),
    ({"sample_weight": [1, 1]}, "sample_weight"),
    ({"sample_weight": [[1, 1, 1]]}, "sample_weight"),
    ({"sample_weight": ["x", "y", "z"]}, "sample_weight"),
]


def test_bad_input():
    good = {"y_true": [0, 1, 1], "y_proba": [0.1, 0.2, 0.5]}
    for arguments, named in BAD_INPUT:
        with pytest.raises(ValueError, match=named):
            METRICS[0].call(**(good | arguments))


#: Wrong arguments: the error names the first of them, or says what follows.
BAD_VALUES = {
    metrics.expected_calibration_error: [
        *({"n_bins": 0}, {"strategy": "kmeans"}, {"norm": "l3"}, {"debias": True}),
        {"sample_weight": [0.5, 1], "debias": True, "norm": "l2"},
        ({"reduction": "samples"}, "reduction.*canonical"),
        ({"n_bins": [0, 1], "reduction": "canonical"}, "n_bins as edges is not defined"),
        *(
            ({"n_bins": edges}, "n_bins as edges of bins must increase from 0 to 1")
            for edges in ([], [0], [0.1, 1], [0, 0.5], [0, 0.5, 0.5, 1], [0, np.nan, 1], [[0, 1]])
        ),
    ],
    metrics.sweep_calibration_error: [{"strategy": "max"}, {"norm": "max"}],
    metrics.decision_risk_gap: [
        *({"threshold": threshold} for threshold in (1, 1.5, -0.1, np.nan)),
        ({"threshold": "least"}, "threshold must be one of 'max' or a number, got 'least'"),
        ({"recalibration": "increasing"}, "recalibration must be one of"),
    ],
    metrics.decision_risk_result: [
        *({"thresholds": thresholds} for thresholds in ([], [[0.5]])),
        *({"thresholds": [0.5, threshold]} for threshold in (1, 1.5, -0.1, np.nan)),
        ({"recalibration": "increasing"}, "recalibration must be one of"),
    ],
    metrics.net_benefit: [{"threshold": threshold} for threshold in (1, -0.1, np.nan)],
    metrics.calibration_decision_loss: [
        ({"recalibration": "all"}, "recalibration must be one of 'monotone', 'either', 'any', got 'all'")
    ],
    metrics.score_decomposition: [{"score": "spherical"}, {"y_proba": [0.1, 1.2]}],
    metrics.lower_distance_to_calibration: [{"n_bins": 0}, {"n_bins": 10_001}, {"y_proba": [0.2, 1.3]}],
    metrics.distance_from_calibration: [{"n_bins": 0}, {"n_bins": 10_001}, {"y_proba": [0.2, 1.3]}],
    metrics.expected_performance: [
        *({"y_proba": [0.2, np.nan]}, {"y_proba": [0.2, 1.5]}, {"threshold": 1.0}, {"certificate": -0.1}),
        *({"certificate": np.nan}, {"max_density_ratio": np.inf}, {"cost_false_positive": -1.0}),
        *(({"max_density_ratio": r}, "max_density_ratio must be at least 1") for r in (0.0, 0.9)),
        *(({"max_density_ratio": 2.0}, "Pass certificate, too"), {"sample_weight": [1.0]}),
    ],
    metrics.kernel_calibration_error: [
        *({"bandwidth": "mean"}, {"bandwidth": 0.0}, {"reduction": "micro"}, {"sample_weight": [0.5, 1.0]}),
        {"sample_weight": [0.5, 1.0], "debias": False, "bandwidth": "median"},
    ],
    metrics.logit_smoothed_ece: [
        *({"bandwidth": bandwidth} for bandwidth in (0, np.inf, "wide")),
        {"noise": "cauchy"},
    ],
    metrics.smooth_ece: [
        *({"bandwidth": bandwidth} for bandwidth in (0, -1, np.nan, np.inf, "silverman")),
        *({"scale": "log"}, ({"bandwidth": 1e-7}, r"bandwidth=1e-07 is below the smallest")),
    ],
    metrics.calibration_summary: [
        *({"confidence": 1.0}, {"weights": "counts"}, {"y_proba": [0.1, 1.2]}),
        {"sample_weight": [0.5, 1.0], "weights": "frequency"},
    ],
}
BAD_TYPES = {
    metrics.expected_calibration_error: [{"n_bins": 2.5}, {"n_bins": True}],
    metrics.net_benefit: [{"threshold": "max"}],
    metrics.lower_distance_to_calibration: [{"n_bins": 1.5}],
    metrics.distance_from_calibration: [{"n_bins": 1.5}],
    metrics.kernel_calibration_error: [{"bandwidth": None}],
    metrics.logit_smoothed_ece: [{"bandwidth": [0.1]}],
    metrics.smooth_ece: [{"bandwidth": None}],
}


@pytest.mark.parametrize(("error", "bad"), [(ValueError, BAD_VALUES), (TypeError, BAD_TYPES)])
def test_bad_parameters(error, bad):
    for function, cases in bad.items():
        good = {"y_true": [0, 1], "y_proba": [0.1, 0.2]}
        good = {name: value for name, value in good.items() if name in signature(function).parameters}
        for case in cases:
            arguments, message = case if isinstance(case, tuple) else (case, next(iter(case)))
            with pytest.raises(error, match=message):
                function(**(good | arguments))


@pytest.fixture(scope="module")
def large():
    y, p = simulated(300_000, "beta", 0.7, 1.3, seed=8, truth=1.3, digits=3)
    return y, p, *np.unique(np.column_stack([y, p]), axis=0, return_counts=True)


@pytest.mark.thorough
@every_metric
def test_large_sample_agrees_with_its_weighted_summary(case, large):
    y, p, keys, counts = large
    summary = case.call(keys[:, 0].astype(int), keys[:, 1], sample_weight=counts)
    assert case.call(y, p) == pytest.approx(summary, abs=1e-6)


JUDGMENTS = 5


@pytest.fixture(scope="module")
def judged():
    """Predictions, how many of five judgments are positive, and all judgments one by one."""
    rng = np.random.default_rng(14)
    p = np.round(rng.random(60), 2)
    count = rng.binomial(JUDGMENTS, p**1.3)
    return p, count, (np.arange(JUDGMENTS) < count[:, None]).astype(int).ravel(), np.repeat(p, JUDGMENTS)


#: The variance of outcomes 0 and 1 is taken off, or the pairs of a judgment with itself.
DEBIASED = ("ece_debiased", "kernel_debiased")
MEANS = [case for case in METRICS if case.name not in DEBIASED]


@pytest.mark.parametrize("case", MEANS, ids=lambda case: case.name)
def test_mean_judgments_are_as_good_as_judgments(case, judged):
    p, count, one_by_one, repeated = judged
    y, w = count / JUDGMENTS, np.full(60, JUDGMENTS)
    for reduction in ("classwise", ("confidence", "top-label")[MEANS.index(case) % 2]):
        expected = case.call(one_by_one, repeated, reduction=reduction)
        assert case.call(y, p, sample_weight=w, reduction=reduction) == pytest.approx(expected, abs=1e-8)
        if case.scale_free:
            alone = case.call(list(y), p, pos_label=1, reduction=reduction)
            assert alone == pytest.approx(expected, abs=1e-8)


def test_mean_judgments_in_results(judged):
    p, count, one_by_one, repeated = judged
    y, w = count / JUDGMENTS, np.full(60, JUDGMENTS)
    for function in (
        metrics.cutoff_result,
        metrics.decision_risk_result,
        metrics.distance_from_calibration,
        metrics.score_decomposition,
        metrics.smooth_ece_result,
    ):
        counted = {"weights": "frequency"} if function is metrics.cutoff_result else {}
        found, expected = function(y, p, sample_weight=w, **counted), function(one_by_one, repeated)
        for name, value in vars(expected).items():
            if name != "weights" and value is not None and not isinstance(value, str):
                np.testing.assert_allclose(getattr(found, name), value, rtol=1e-6, atol=1e-9)
        assert getattr(function(y, p), "n_samples", 60) == 60
    risks = metrics.risk_coverage_curve(y, p), metrics.risk_coverage_curve(one_by_one, repeated)
    np.testing.assert_allclose(risks[0].risk, risks[1].risk, atol=1e-12)
    benefit = metrics.net_benefit(y, p, threshold=0.3)
    assert benefit == pytest.approx(metrics.net_benefit(one_by_one, repeated, threshold=0.3))


def test_outcomes_between_0_and_1_by_hand(judged):
    p, count, _, _ = judged
    y = count / JUDGMENTS
    # the bandwidth is that of 60 samples, not of 300 judgments
    assert metrics.logit_smoothed_ece(y, p) == metrics.logit_smoothed_ece(y, p, bandwidth=60 ** (-1 / 3))
    # without the pairs of a sample with itself
    kernel = np.exp(-np.abs(p[:, None] - p)) * np.outer(y - p, y - p)
    found = metrics.kernel_calibration_error(y, p, squared=True)
    assert found == pytest.approx((kernel.sum() - np.trace(kernel)) / (60 * 59), abs=1e-12)
    # loss |y - tau| of a prediction on the wrong side of tau
    loss, wrong = np.abs(y - 0.485), (p > 0.485) != (y > 0.485)
    rules = [np.mean(loss * ((p >= cut) != (y > 0.485))) for cut in [*np.unique(p), 2.0]]
    gap = metrics.decision_risk_gap(y, p, threshold=0.485)
    assert gap == pytest.approx(np.mean(loss * wrong) - min(rules), abs=1e-12)
    with pytest.raises(ValueError, match="debias=True subtracts the variance of outcomes 0 and 1"):
        metrics.expected_calibration_error(y, p, norm="l2", debias=True)


def test_what_is_no_outcome_between_0_and_1():
    y, p = [0.3, 0.6, 0.5], [0.2, 0.5, 0.7]
    for outcome, pos_label, named in (
        ([0.3, 1.2, 0.5], None, "y_true has 3 distinct values.*or floats from 0 to 1"),
        ([0.3, np.nan, 0.5], None, "y_true contains nan at index 1"),
        (y, 2, "needs pos_label=1, got 2"),
        (y, 0, r"needs pos_label=1, got 0\. For 0 pass 1 - y_true"),
        (np.array(y, dtype=object), None, r"this one has dtype object\. Convert it to float"),
    ):
        with pytest.raises(ValueError, match=named):
            metrics.smooth_ece(outcome, p, pos_label=pos_label)
    assert metrics.smooth_ece(y, p, pos_label=1.0) == metrics.smooth_ece(y, p)
    # rounding in single precision
    assert metrics.smooth_ece([0.3, 1.0000001, 0.5], p) == metrics.smooth_ece([0.3, 1.0, 0.5], p)
