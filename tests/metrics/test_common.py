"""Properties that every metric has, generated from the registry."""

import numpy as np
import pytest

from tests._registry import METRICS

TOLERANCE = 1e-8
every_metric = pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)


def metrics_with(flag):
    chosen = [case for case in METRICS if getattr(case, flag)]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.name)


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    p = np.concatenate([rng.random(60), np.repeat([0.0, 0.2, 0.5, 1.0], 5)])
    y = (rng.random(80) < 0.2 + 0.5 * p).astype(int)
    w = rng.integers(0, 4, 80)
    return y, p, w


@every_metric
def test_is_a_float_in_the_unit_interval(case, data):
    y, p, _ = data
    value = case.call(y, p)
    assert type(value) is float
    assert 0 <= value <= 1


@every_metric
def test_row_order_does_not_matter(case, data):
    y, p, w = data
    order = np.random.default_rng(0).permutation(80)
    assert case.call(y[order], p[order]) == pytest.approx(case.call(y, p), abs=1e-12)
    assert case.call(y[order], p[order], sample_weight=w[order]) == pytest.approx(
        case.call(y, p, sample_weight=w), abs=1e-12
    )


@every_metric
def test_weight_is_repetition(case, data):
    y, p, w = data
    assert case.call(y, p, sample_weight=w) == pytest.approx(
        case.call(np.repeat(y, w), np.repeat(p, w)), abs=TOLERANCE
    )
    assert case.call(y, p, sample_weight=np.ones(80)) == pytest.approx(case.call(y, p), abs=TOLERANCE)


@every_metric
def test_zero_weight_removes_a_row(case, data):
    y, p, w = data
    keep = w > 0
    assert case.call(y, p, sample_weight=w) == case.call(y[keep], p[keep], sample_weight=w[keep])


@metrics_with("scale_free")
def test_scale_of_weights(case, data):
    y, p, w = data
    assert case.call(y, p, sample_weight=w * 0.37) == pytest.approx(
        case.call(y, p, sample_weight=w), abs=TOLERANCE
    )


@metrics_with("flip_symmetric")
def test_flip_symmetry(case, data):
    y, p, w = data
    # dyadic predictions, so that 1 - p is exact
    p = np.round(p * 1024) / 1024
    assert case.call(1 - y, 1 - p, sample_weight=w) == pytest.approx(
        case.call(y, p, sample_weight=w), abs=TOLERANCE
    )


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
def test_one_row(case):
    for y in (0, 1):
        for p in (0.0, 0.3, 1.0):
            assert 0 <= case.call([y], [p]) <= 1


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
def test_fractional_weights(case, data):
    y, p, _ = data
    w = np.random.default_rng(5).random(80)
    if case.any_weights:
        assert 0 <= case.call(y, p, sample_weight=w) <= 1
    else:
        with pytest.raises(ValueError, match="sample_weight"):
            case.call(y, p, sample_weight=w)


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
