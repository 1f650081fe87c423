"""Properties that every metric has, generated from the registry."""

import numpy as np
import pytest

from tests._registry import METRICS

every_metric = pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)


@every_metric
def test_balanced_constant_prediction(case):
    for y in ([0, 1], [1, 0], [0] * 50 + [1] * 50, [1] * 50 + [0] * 50, [0, 1] * 50):
        value = case.call(y, [0.5] * len(y))
        if case.zero_when_balanced:
            assert value == 0.0
        else:
            # noise on the logit axis makes the prediction itself uncertain
            assert value < 0.2


@every_metric
def test_certain_and_wrong(case):
    # a debiased or thresholded version of the error can only be 1 or the cost of the mistake
    for y, p in (([0], [1.0]), ([1] * 9, [0.0] * 9)):
        value = case.call(y, p)
        assert np.isfinite(value)
        assert value <= 1
        if "debias" not in case.params and "threshold" not in case.params:
            assert value == pytest.approx(1.0, abs=1e-9)


@every_metric
def test_minus_zero_and_denormals(case):
    y, p = [0, 1, 0, 1], [0.0, 5e-324, 1 - 2**-53, 1.0]
    assert case.call(y, [-0.0, *p[1:]]) == case.call(y, p)
    assert 0 <= case.call(y, p) <= 1


BAD_INPUT = [
    ({"y_proba": [0.1, np.nan, 0.5]}, "y_proba"),
    ({"y_proba": [0.1, np.inf, 0.5]}, "y_proba"),
    ({"y_proba": [0.1, 1.00001, 0.5]}, "y_proba"),
    ({"y_proba": [0.1, -1e-5, 0.5]}, "y_proba"),
    ({"y_proba": [0.1, 0.5]}, "y_proba"),
    ({"y_proba": ["a", "b", "c"]}, "y_proba"),
    ({"y_proba": ["0.1", "0.2", "0.3"]}, "y_proba"),
    ({"y_proba": [0.1, None, 0.5]}, "y_proba"),
    ({"y_proba": np.full((3, 3), 1 / 3), "y_true": ["a", "b", "b"]}, "y_proba"),
    ({"y_proba": np.full((3, 3), 1 / 3), "pos_label": 1}, "pos_label"),
    ({"labels": [0, 1]}, "labels"),
    ({"reduction": "mean"}, "reduction"),
    ({"y_proba": [[0.5, 0.5], [0.2, 0.3], [0.5, 0.5]]}, "y_proba"),
    ({"y_proba": [[0.5, 0.5], [np.nan, 0.3], [0.5, 0.5]]}, "y_proba"),
    ({"y_proba": 0.5}, "y_proba"),
    ({"y_proba": [], "y_true": []}, "y_proba"),
    ({"y_true": [0, 1, 2]}, "y_true"),
    ({"y_true": [0.0, np.nan, 1.0]}, "y_true"),
    ({"y_true": [None, 0, 1]}, "y_true"),
    ({"y_true": [0, "a", 1]}, "y_true"),
    ({"y_true": np.eye(3, dtype=int)}, "y_true"),
    ({"y_true": ["a", "a", "a"]}, "pos_label"),
    ({"pos_label": [1]}, "pos_label must be one label"),
    ({"y_true": np.array([1, "a", 2], dtype=object)}, "mixes labels of types"),
    ({"y_true": ["a", "b", "a"], "pos_label": "c"}, "pos_label"),
    ({"sample_weight": [1, -1, 1]}, "sample_weight"),
    ({"sample_weight": [0, 0, 0]}, "sample_weight"),
    ({"sample_weight": [1, np.nan, 1]}, "sample_weight"),
    ({"sample_weight": [1, np.inf, 1]}, "sample_weight"),
    ({"sample_weight": [1, 1]}, "sample_weight"),
    ({"sample_weight": [[1, 1, 1]]}, "sample_weight"),
    ({"sample_weight": ["x", "y", "z"]}, "sample_weight"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD_INPUT)
def test_bad_input(arguments, named):
    good = {"y_true": [0, 1, 1], "y_proba": [0.1, 0.2, 0.5]}
    with pytest.raises(ValueError, match=named):
        METRICS[0].call(**(good | arguments))


@every_metric
def test_fractional_weights(case):
    if not case.any_weights:
        with pytest.raises(ValueError, match="sample_weight"):
            case.call([0, 1], [0.2, 0.7], sample_weight=[0.3, 0.8])


@pytest.mark.thorough
@every_metric
def test_large_sample_agrees_with_its_weighted_summary(case):
    # above the size at which fast kernels condense the rows
    rng = np.random.default_rng(8)
    p = np.round(rng.beta(0.7, 1.3, 300_000), 3)
    y = (rng.random(300_000) < p**1.3).astype(int)
    keys, counts = np.unique(np.column_stack([y, p]), axis=0, return_counts=True)
    summary = case.call(keys[:, 0].astype(int), keys[:, 1], sample_weight=counts)
    assert case.call(y, p) == pytest.approx(summary, abs=1e-6)
