"""Statistic and null moments over nested bins, against definitions and complete enumeration."""

import itertools

import numpy as np
import pytest

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._nested_bins import MAX_LEVEL, NestedBins
from sklearn_calib._core._simplex_bins import alcoves, shared_alcoves
from tests._tiers import thorough


def dyadic_moments(grouped, levels):
    """Moments of the levels 1, ..., ``levels``."""
    return NestedBins(grouped, levels).moments()


def bin_of(p, n_bins):
    """Equal-width bins, the last closed at 1."""
    return min(int(np.floor(p * n_bins)), n_bins - 1)


def naive_statistic(y, p, n_bins):
    """T by a double loop over pairs of rows."""
    bins = [bin_of(value, n_bins) for value in p]
    size, total = {b: bins.count(b) for b in bins}, 0.0
    for i, j in itertools.permutations(range(len(p)), 2):
        if bins[i] == bins[j]:
            total += (y[i] - p[i]) * (y[j] - p[j]) / size[bins[i]]
    return total / len(p)


def as_array(moments):
    names = ("statistic", "variance", "third_cumulant", "covariance", "n_paired", "pairs")
    return np.array([getattr(moments, name) for name in names])


SMALL = {
    "spread": np.array([0.03, 0.11, 0.13, 0.62, 0.63, 0.97]),
    "ties": np.array([0.2, 0.2, 0.2, 0.7, 0.7, 0.71]),
    "ends": np.array([0.0, 0.001, 0.5, 0.5, 0.999, 1.0]),
    "close": 0.3 + np.array([0.0, 1e-9, 2e-9, 1e-4, 0.3, 0.31]),
}


@pytest.mark.parametrize("name", SMALL)
def test_complete_enumeration(name):
    p, levels = SMALL[name], 5
    outcomes = np.array(list(itertools.product([0, 1], repeat=len(p))))
    probability = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
    every = np.array([dyadic_moments(group_outcomes(y, p), levels).statistic for y in outcomes])
    for row in range(0, len(outcomes), 37):
        expected = [naive_statistic(outcomes[row], p, 2**level) for level in range(1, levels + 1)]
        np.testing.assert_allclose(every[row], expected, atol=1e-14)
    moments = dyadic_moments(group_outcomes(outcomes[5], p), levels)
    np.testing.assert_allclose(probability @ every, 0, atol=1e-14)
    np.testing.assert_allclose(moments.variance, probability @ every**2, atol=1e-15)
    np.testing.assert_allclose(moments.third_cumulant, probability @ every**3, atol=1e-15)
    found = moments.covariance
    np.testing.assert_allclose(found, [*(probability @ (every[:, :-1] * every[:, 1:])), 0], atol=1e-15)
    grouped = group_outcomes(outcomes[5], p)
    for level in range(1, levels + 1):
        index = np.array([bin_of(value, 2**level) for value in grouped.prob])
        one = np.delete(as_array(NestedBins(grouped, bin_of=index).moments())[:, 0], 3)
        np.testing.assert_allclose(one, np.delete(as_array(moments)[:, level - 1], 3), atol=1e-15)


def sums_by_level(y, p, w, level):
    """The fields of ``as_array`` but for the covariance, by sorting and numpy sums, for larger samples."""
    n, v = w.sum(), p * (1 - p)
    m = v * (1 - 2 * p)
    _, label = np.unique(np.minimum(np.floor(p * 2.0**level), 2.0**level - 1), return_inverse=True)
    terms = np.ones_like(p), y - p, (y - p) ** 2, v, v**2, v**3, m, m**2
    size, s, q, a, v2, v3, b, b2 = (np.bincount(label, w * term) for term in terms)
    weight, kappa = a**2 - v2, 4 * (b**2 - b2) + 8 * (a**3 - 3 * a * v2 + 2 * v3)
    size, s, q, weight, kappa = (each[size > 1] for each in (size, s, q, weight, kappa))
    pairs = np.sum(weight / size**2)
    moments = [np.sum((s**2 - q) / size) / n, 2 * pairs / n**2, np.sum(kappa / size**3) / n**3]
    return np.array([*moments, size.sum(), pairs**2 / max(2 * np.sum(weight / size**4), 1e-300)])


KINDS = ["uniform", "crowded", "rounded", "small", "ends"]
#: Many blocks take as long as all the rest.
BLOCKS = [(150_000, "crowded"), thorough(150_000, "small"), thorough(150_000, "ends")]


@pytest.mark.parametrize(("n", "kind"), [*itertools.product([90, 3000], KINDS), *BLOCKS])
def test_blocks_and_refinement(n, kind):
    rng = np.random.default_rng(n)
    p = {
        "uniform": lambda: rng.random(n),
        "crowded": lambda: np.where(rng.random(n) < 0.5, 0.7 + 1e-6 * rng.random(n), rng.random(n)),
        "rounded": lambda: np.round(rng.random(n), 4),
        "small": lambda: 1e-3 * rng.random(n),
        "ends": lambda: np.append(np.repeat([0.0, 1.0], n // 3), 1 - 10 ** (-9 * rng.random(n // 3))),
    }[kind]()
    y = (rng.random(n) < p).astype(np.int64)
    found = np.delete(as_array(dyadic_moments(group_outcomes(y, p), 30)), 3, axis=0)
    for level in (1, 2, 7, 12, 13, 16, 17, 18, 19, 22, 26, 30):
        expected = sums_by_level(y, p, np.ones(n), level)
        scale = np.array([np.sqrt(expected[1]), expected[1], expected[1] ** 1.5, 1, expected[4]])
        difference = np.abs(found[:, level - 1] - expected)
        assert difference[3] == 0
        wanted = np.array([1e-9, 1e-7, 1e-7, 1, 1e-7]) * scale + 1e-25
        np.testing.assert_array_less(difference, wanted, err_msg=str(level))


def test_nothing_shared_is_exactly_zero():
    p = (np.arange(32) + 0.5) / 32
    moments = dyadic_moments(group_outcomes((p > 0.4).astype(np.int64), p), 9)
    assert (as_array(moments)[:, 5:] == 0).all()
    assert (moments.variance[:4] > 0).all()


def test_one_row_has_no_pair():
    assert (as_array(dyadic_moments(group_outcomes(np.array([1]), np.array([0.3])), 3)) == 0).all()


def test_finest_bins_separate_what_floats_can():
    ulp = np.array([0.5, np.nextafter(0.5, 1), np.nextafter(1.0, 0), 1.0])
    moments = dyadic_moments(group_outcomes(np.array([1, 0, 1, 1]), ulp), MAX_LEVEL)
    # bins of width 2**-52 hold the neighbors of 1/2, and those of 1
    assert moments.n_paired[-1] == 4
    p = np.array([0.5, 0.5 + 2.0**-30, 0.75, 0.75 + 2.0**-40])
    moments, expected = dyadic_moments(group_outcomes(np.array([1, 0, 1, 0]), p), 45), []
    for level in range(1, 46):
        counts = np.unique([bin_of(x, 2**level) for x in p], return_counts=True)[1]
        expected.append(counts[counts > 1].sum())
    assert expected[28:31] == [4, 2, 2]
    np.testing.assert_array_equal(moments.n_paired, expected)


def plain_statistics(grouped, positives, center, level):
    """T of one sample in 2**level bins around ``center``: eq. (6) of the paper, a loop over bins."""
    prob, weight = grouped.prob, grouped.weight
    bin_of, total = np.minimum((prob * 2**level).astype(int), 2**level - 1), 0.0
    for bin_ in np.unique(bin_of):
        inside = bin_of == bin_
        rows = weight[inside].sum()
        if rows > 1:
            y, w, c = positives[inside], weight[inside], center[inside]
            s, q = np.sum(y - w * c), np.sum(y * (1 - c) ** 2 + (w - y) * c**2)
            total += (s * s - q) / rows
    return total / weight.sum()


def grouped_sample(kind, n, rng):
    if kind == "spread":
        p = rng.random(n)
    elif kind == "few values":
        p = rng.choice(np.linspace(0.0, 1.0, 12), n)
    elif kind == "one heap":
        p = 0.3 + 1e-7 * rng.random(n)
    else:
        p = np.append(rng.beta(0.5, 100.0, n - 4), [0.0, 1.0, 0.25, 0.5])
    return group_outcomes((rng.random(n) < p).astype(np.int64), p)


@pytest.mark.parametrize("n", [2, 150, 9000])
@pytest.mark.parametrize("kind", ["spread", "few values", "one heap", "rare events"])
def test_statistics_of_many_samples(kind, n):
    rng = np.random.default_rng(n)
    grouped = grouped_sample(kind, max(n, 4 + (kind == "rare events")), rng)
    n_groups = grouped.prob.shape[0]
    center = rng.random(n_groups)
    positives = rng.binomial(grouped.weight.astype(int)[:, np.newaxis], 0.4, (n_groups, 3))
    statistic = NestedBins(grouped, 27).statistic_around(center)
    found = statistic(positives)
    for level in (1, 2, 5, 9) if n > 1000 else range(1, 28):
        expected = [plain_statistics(grouped, draw, center, level) for draw in positives.T]
        np.testing.assert_allclose(found[:, level - 1], expected, rtol=1e-9, atol=1e-12)
    # equal samples are the same, whatever stands beside them
    np.testing.assert_allclose(statistic(positives[:, 1:2])[0], found[1], rtol=1e-10, atol=1e-13)


def test_deviations_stay_above_rounding():
    # of two predictions in a bin one is nearly certain, and so are their labels at finer levels
    grouped = group_outcomes(np.array([0, 1, 0, 1]), np.array([1e-30, 0.2, 0.6, 0.7]))
    moments = dyadic_moments(grouped, 2)
    assert moments.variance[0] > 1e-3
    np.testing.assert_allclose(moments.deviation[0], np.sqrt(moments.variance[0]))
    # [0, 1/4) holds 1e-30 and 0.2: W = 2 * 1e-30 * .16; [1/2, 3/4) the others
    single = NestedBins(grouped, bin_of=np.array([0, 0, 1, 2])).moments()
    assert np.sqrt(single.variance[0]) < 1e-14
    assert single.deviation[0] == pytest.approx(1e-6 * 0.16 / 2 / 4)


def plain_cell(z, m):
    """Return the integer parts of m (z_1 + ... + z_i), and the order of the fractional parts."""
    c = np.minimum(m * np.cumsum(z[:-1]), np.nextafter(m, 0))
    whole = np.floor(c)
    fractions = c - whole
    return tuple(whole), tuple(sorted(range(len(c)), key=lambda i: (fractions[i], i)))


def same_partition(first, second):
    return len(set(zip(first, second, strict=True))) == len(set(first)) == len(set(second))


def test_cells_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    for n_classes in (2, 3, 4, 7):
        z = rng.dirichlet(np.ones(n_classes), 400)
        for m in (1, 2, 5):
            assert same_partition(alcoves(z, m).tolist(), [plain_cell(row, m) for row in z])


def test_two_classes_have_the_bins_of_the_last_column():
    p = np.linspace(0, 1, 101)
    for m in (2, 10, 100):
        expected = np.minimum(np.arange(101) * m // 100, m - 1)
        assert alcoves(np.column_stack((1 - p, p)), m).tolist() == expected.tolist()


def test_finer_cells_lie_in_coarser_ones():
    z = np.random.default_rng(2).dirichlet(np.ones(4), 5000)
    coarse, fine = alcoves(z, 3), alcoves(z, 6)
    assert len(set(zip(coarse.tolist(), fine.tolist(), strict=True))) == len(set(fine.tolist()))
    direct, refined = shared_alcoves(z, 6), shared_alcoves(z, 6, shared_alcoves(z, 3).rows)
    assert sorted(direct.rows.tolist()) == sorted(refined.rows.tolist())
    assert sorted(direct.count.tolist()) == sorted(refined.count.tolist())


def test_faces_and_corners_belong_to_the_simplex():
    z = np.array([[1, 0, 0], [1 - 1e-12, 1e-12, 0], [0, 0, 1], [1e-13, 1e-13, 1 - 2e-13], [0, 1, 0]])
    code = alcoves(z, 2)
    assert code[2] == code[3]
    # a single whole number: a corner and a row inside, fractional parts in the same order
    assert alcoves(z[:1], 1) == alcoves(np.array([[0.5, 0.3, 0.2]]), 1)
    # no cell beyond the last whole number
    everything = alcoves(np.vstack((z, np.random.default_rng(0).dirichlet(np.ones(3), 1000))), 2)
    assert np.unique(everything).shape == (4,)


def test_cells_of_one_row_are_left_out():
    z = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.91, 0.05, 0.04]])
    cells = shared_alcoves(z, 4)
    assert (sorted(cells.rows.tolist()), cells.count.tolist()) == ([0, 2], [2])
    assert shared_alcoves(z[:2], 4).rows.shape == (0,)
