"""Kernel tests: definition by double loop, moments by enumeration, exactness, level, power."""

import itertools

import numpy as np
import pytest

from sklearn_calib._core import _kernel
from sklearn_calib.inference import KernelScale, KernelTest
from sklearn_calib.inference._testing import _kernel as kernel_test
from tests._samples import simulated
from tests.inference import _properties


def kappa(p, q, s):
    """The kernel by its definition, for numbers or vectors."""
    p, q = np.atleast_1d(p), np.atleast_1d(q)
    if p.shape[0] == 1:
        p, q = np.append(1 - p, p), np.append(1 - q, q)
    return np.exp(-0.5 * np.abs(p - q).sum() / s)


def residual_of(y, p):
    """One-hot label minus probabilities; for a binary problem the number y - p."""
    return np.array([y - p]) if np.ndim(p) == 0 else (np.arange(p.shape[0]) == y) - p


def double_loop(y, p, s):
    """Mean of h over all pairs."""
    n = len(y)
    r = [residual_of(*row) for row in zip(y, p, strict=True)]
    return sum(kappa(p[i], p[j], s) * (r[i] @ r[j]) for i in range(n) for j in range(i)) / (n * (n - 1) / 2)


def trace_product(p, q):
    """tr(S_i S_j) from the matrices."""
    if np.ndim(p) == 0:
        return p * (1 - p) * q * (1 - q)
    return np.trace((np.diag(p) - np.outer(p, p)) @ (np.diag(q) - np.outer(q, q)))


def class_sample(n=40, n_classes=3, seed=0, power=1.0):
    """Labels and probabilities of several classes, every fourth row repeated; calibrated if power is 1."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), n)
    p[3::4] = p[2::4][: p[3::4].shape[0]]
    distribution = p**power / np.sum(p**power, axis=1, keepdims=True)
    return np.array([rng.choice(n_classes, p=row) for row in distribution]), p


def samples():
    y, p = _properties.sample(25, power=2)
    return [(y, p), (y, np.round(p, 1)), class_sample(24), class_sample(21, 5, 1)]


@pytest.mark.parametrize(("which", "s"), [(0, 0.03), (1, 0.4), (2, 7.0), (3, 0.4), (2, 0.03)])
def test_quadratic_by_double_loop(which, s):
    y, p = samples()[which]
    result = KernelTest(bandwidth=s, method="monte_carlo", n_resamples=1).test(y, p)
    expected = double_loop(y, p, s)
    assert result.statistic == pytest.approx(expected, rel=1e-9, abs=1e-14)
    assert result.estimate == pytest.approx(np.sqrt(max(expected, 0)), rel=1e-9, abs=1e-7)
    n, pairs = len(y), itertools.permutations(p, 2)
    variance = sum(kappa(one, other, s) ** 2 * trace_product(one, other) for one, other in pairs)
    (scale,) = result.scales
    assert scale.null_std == pytest.approx(np.sqrt(2 * variance) / (n * (n - 1)), rel=1e-9)


def enumerated(p):
    """Every label vector with its probability under the null hypothesis."""
    if p.ndim == 1:
        p = np.column_stack((1 - p, p))
    labels = np.array(list(itertools.product(range(p.shape[1]), repeat=len(p))))
    return labels, np.prod(p[np.arange(len(p)), labels], axis=1)


def test_labels_of_several_classes_are_drawn_some_at_a_time(monkeypatch):
    y, p = class_sample(24)
    test = KernelTest(n_resamples=19, random_state=0)
    expected = test.test(y, p)
    monkeypatch.setattr(kernel_test, "MAX_ELEMENTS", 1)
    _properties.same(test.test(y, p), expected)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_moments_and_pvalue_by_enumeration(n_classes):
    rng = np.random.default_rng(1)
    p = np.array([0.1, 0.3, 0.3, 0.45, 0.97]) if n_classes == 2 else rng.dirichlet([1, 1, 1], 3)
    labels, probability = enumerated(p)
    given = {"pos_label": 1} if n_classes == 2 else {"labels": range(3)}
    test = KernelTest(bandwidth=0.3, n_resamples=1)
    values = np.array([test.test(y, p, **given).statistic for y in labels])
    assert probability @ values == pytest.approx(0, abs=1e-14)
    test = KernelTest(bandwidth=0.3, n_resamples=3000, random_state=0)
    for row in range(0, len(labels), len(labels) // 8):
        result = test.test(labels[row], p, **given)
        exact = probability[values >= values[row] - 1e-12].sum()
        assert result.pvalue == pytest.approx(exact, abs=4.5 * np.sqrt(exact * (1 - exact) / 3000) + 1e-3)
    assert probability @ values**2 == pytest.approx(result.scales[0].null_std ** 2)
    if n_classes == 2:
        grouped, weight = np.unique(p, return_counts=True)
        moments = _kernel.null_cumulants(grouped[:, np.newaxis], weight.astype(float), 0.3)
        sums = values * 5 * 4
        np.testing.assert_allclose(moments, (probability @ sums**2, probability @ sums**3), rtol=1e-9)


@pytest.mark.parametrize("s", [1e-300, 1e-6, 1e-3, 0.02, 0.3, 5.0, 1e9])
def test_fast_forms_are_those_of_the_matrix(s):
    rng = np.random.default_rng(0)
    points = np.sort(rng.uniform(size=(150, 1)) ** 3, axis=0)
    x, mass = rng.normal(size=(4, 150)), rng.uniform(size=150)
    gram = _kernel.kernel_matrix(points, points, s)
    expected = np.einsum("rg,gh,rh->r", x, gram, x)
    np.testing.assert_allclose(_kernel.kernel_form(points, s)(x), expected, rtol=1e-9, atol=1e-9)
    triangles = np.einsum("g,h,l,gh,hl,lg", mass, mass, mass, gram, gram, gram, optimize=True)
    assert _kernel.kernel_triangles(points, mass, s) == pytest.approx(triangles, rel=1e-9)


def test_median_distance():
    p, y = np.random.default_rng(0).uniform(size=41), np.arange(41) % 2
    gaps = [abs(a - b) for a, b in itertools.combinations(p, 2)]
    (scale,) = KernelTest(n_resamples=1).test(y, p).scales
    assert scale.bandwidth == pytest.approx(np.median(gaps))
    # more than half of the distances are 0: those of the others; 1 if there are none
    (tied,) = KernelTest(n_resamples=1).test(y, np.where(np.arange(41) == 7, 0.9, 0.5)).scales
    assert tied.bandwidth == pytest.approx(0.4)
    (constant,) = KernelTest(n_resamples=1).test(y, np.full(41, 0.5)).scales
    assert constant.bandwidth == 1.0
    # for three classes the distance is half of the l1 norm
    labels, q = class_sample(20)
    pairs = list(itertools.combinations(q, 2))
    (total,) = KernelTest(n_resamples=1).test(labels, q).scales
    assert total.bandwidth == pytest.approx(np.median([np.abs(a - b).sum() / 2 for a, b in pairs]))
    # of many rows some stand for all
    many = np.sort(np.random.default_rng(1).uniform(size=(20_000, 1)), axis=0)
    assert _kernel.median_distance(many, np.ones(20_000)) == pytest.approx(1 - np.sqrt(0.5), abs=0.01)


def test_adaptive_sees_what_oscillates():
    y, p = simulated(2000, "uniform", 0.1, 0.9, seed=3, truth=lambda p: p + 0.1 * np.sin(50 * p))
    result = KernelTest(bandwidth="adaptive", n_resamples=199, random_state=0).test(y, p)
    assert result.pvalue == 1 / 200
    bandwidths = [scale.bandwidth for scale in result.scales]
    assert bandwidths == sorted(bandwidths, reverse=True)
    best = max(result.scales, key=lambda scale: scale.statistic / scale.null_std)
    assert best.bandwidth < 0.1
    assert result.statistic == pytest.approx(best.statistic / best.null_std)
    assert result.estimate == pytest.approx(np.sqrt(best.statistic))
    assert isinstance(best, KernelScale)
    assert "max over 5 bandwidths" in result.method
    y, p = np.array([1, 1, 1, 1, 0]), np.array([0.05, 0.1, 0.2, 0.25, 0.9])
    test = KernelTest(bandwidth="adaptive", n_resamples=99, random_state=0)
    result = test.test(y, p)
    assert result.scales[-1].pvalue == 1
    assert result.pvalue <= 0.05


def test_asymptotic_agrees_with_draws():
    y, p = _properties.sample(400, power=1.1)
    drawn = KernelTest(n_resamples=1999, random_state=0).test(y, p)
    limit = KernelTest(method="asymptotic").test(y, p)
    assert (limit.statistic, limit.pvalue) == (drawn.statistic, pytest.approx(drawn.pvalue, abs=0.05))
    assert drawn.null_distribution.shape == (1999,)
    assert str(drawn.scales[0]).startswith(f"bandwidth {drawn.scales[0].bandwidth:.3g}: SKCE = ")


@pytest.mark.parametrize("bandwidth", ["median", "adaptive"])
def test_order_of_classes_and_rows(bandwidth):
    y, p = class_sample(50, 4)
    test = KernelTest(bandwidth=bandwidth, n_resamples=19, random_state=0)
    expected, order = test.test(y, p), np.array([2, 0, 3, 1])
    moved = test.test(np.argsort(order)[y], p[:, order])
    assert moved.statistic == pytest.approx(expected.statistic)
    assert moved.scales[0].bandwidth == pytest.approx(expected.scales[0].bandwidth)
    w = np.random.default_rng(1).integers(0, 4, 50)
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(50), w))
    _properties.same(test.test(y, p, sample_weight=w, weights="frequency"), test.test(y[rows], p[rows]))


def test_few_rows_and_few_events():
    for options in ({}, {"bandwidth": "adaptive"}):
        result = KernelTest(random_state=0, **options).test([1], [0.4], pos_label=1)
        assert (result.statistic, result.pvalue, result.estimate) == (0.0, 1.0, 0.0)
        assert "fewer than two" in result.reason
        assert 0 < KernelTest(random_state=0, **options).test([1, 0], [0.4, 0.3]).pvalue <= 1
        assert KernelTest(random_state=0, **options).test([2], [[0.2, 0.3, 0.5]]).pvalue == 1
    # certain outcomes that come true, and one uncertain one
    for method in ("monte_carlo", "asymptotic"):
        result = KernelTest(method=method, n_resamples=9).test([0, 1, 1], [0.0, 1.0, 0.5])
        assert result.pvalue == 1
        assert "no information" in result.reason
    assert KernelTest(bandwidth="adaptive").test([0, 1], [0.0, 1.0]).statistic == 0
    sure = np.eye(3)[[0, 1, 2, 1]]
    assert KernelTest(random_state=0).test([0, 1, 2, 1], sure).pvalue == 1
    assert KernelTest(random_state=0).test([0, 1, 2, 2], sure).pvalue == 0
    # far apart in units of the bandwidth
    assert KernelTest(bandwidth=1e-9).test([0, 1], [0.2, 0.7]).pvalue == 1
    p = np.full(50, 0.01) + np.arange(50) * 1e-5
    result = KernelTest(method="asymptotic").test(np.zeros(50, int), p)
    assert result.statistic > 0
    assert result.pvalue == 1
    assert "monte_carlo" in result.reason
    assert KernelTest(method="asymptotic").test(np.zeros(150, int), np.repeat(p, 3)).pvalue < 1


def test_large_samples_of_classes_are_refused(monkeypatch):
    monkeypatch.setattr(kernel_test, "MAX_DENSE", 20)
    y, p = class_sample(60)
    with pytest.raises(ValueError, match="random subset"):
        KernelTest(random_state=0).test(y, p)


def test_auto_is_asymptotic_for_large_binary_samples():
    y, p = _properties.sample(50)
    for test, data, method in (
        (KernelTest(), (y, p), "asymptotic"),
        (KernelTest(bandwidth="adaptive", n_resamples=9), (y, p), "9 simulations"),
        (KernelTest(n_resamples=9), class_sample(50), "9 simulations"),
    ):
        assert method in test.test(*data, sample_weight=np.full(50, 2000), weights="frequency").method
