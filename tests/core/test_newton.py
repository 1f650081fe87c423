"""Logistic regression on few columns against its definition, written as plain sums."""

import itertools
from math import exp, fsum, log1p

import numpy as np
import pytest

from sklearn_calib._core._newton import fit_logistic, log_likelihood


def slow_gradient(theta, columns, weight, positives, penalty, center, offset):
    """Return the derivatives of the penalized loss, and the sizes of their terms."""
    sums = [fsum(t * x for t, x in zip(theta, row, strict=True)) for row in columns.T]
    z = [o + value for o, value in zip(offset, sums, strict=True)]
    p, out = [1 / (1 + exp(-a)) if a > 0 else exp(a) / (1 + exp(a)) for a in z], []
    for j, (t, penal, c) in enumerate(zip(theta, penalty, center, strict=True)):
        terms = [(w * q - s) * x for w, q, s, x in zip(weight, p, positives, columns[j], strict=True)]
        out.append((fsum(terms) + penal * (t - c), fsum(map(abs, terms)) + penal))
    return out


def problem(seed, n, k):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(size=n))
    columns = np.stack([np.ones(n), x, np.maximum(x, 0.0) ** 2, np.sin(3 * x)])[:k]
    weight = rng.uniform(0.1, 5.0, n)
    return columns, weight, weight * rng.beta(0.4, 0.4, n), rng.normal(size=n)


@pytest.mark.parametrize(
    ("seed", "n"), [*itertools.product(range(4), [5, 60]), (0, 9000), (1, 9000), (2, 9000)]
)
def test_derivatives_vanish_at_the_solution(seed, n):
    k = 1 + seed % 4
    columns, weight, positives, offset = problem(seed, n, k)
    penalty, center = np.array([0.0, 0.5, 3.0, 0.1])[:k], np.array([0.0, 1.0, -1.0, 2.0])[:k]
    start = np.zeros(k)
    fit = fit_logistic(columns, weight, positives, start=start, penalty=penalty, center=center, offset=offset)
    assert fit.converged
    for found, size in slow_gradient(fit.coef, columns, weight, positives, penalty, center, offset):
        assert abs(found) < 1e-8 * size


def test_several_penalties_at_once():
    columns, weight, positives, _ = problem(2, 60, 3)
    penalty = np.array([0.0, 1.0, 1.0]) * np.array([[0.01], [3.0]])

    def bound(theta, gradient, hessian):
        return -np.linalg.solve(hessian, gradient[..., np.newaxis])[..., 0]

    def gram(weight):
        return np.einsum("mn,jn,kn->mjk", weight, columns, columns)

    start = np.array([[0.0, 9.0, -4.0], [0.0, 0.0, 0.0]])
    fit = fit_logistic(columns, weight, positives, start=start, penalty=penalty, bound=bound, gram=gram)
    for coef, information, own in zip(fit.coef, fit.information, penalty, strict=True):
        alone = fit_logistic(columns, weight, positives, start=np.zeros(3), penalty=own)
        np.testing.assert_allclose(coef, alone.coef, rtol=1e-9)
        np.testing.assert_allclose(information, alone.information, rtol=1e-6)


def test_one_coefficient_for_each_group_by_hand():
    """With as many columns as groups each frequency is met: log-odds log 3 and -log 4."""
    fit = fit_logistic(np.eye(2), np.array([4.0, 10.0]), np.array([3.0, 2.0]), start=np.zeros(2))
    np.testing.assert_allclose(fit.coef, [np.log(3.0), -np.log(4.0)], rtol=1e-13)
    # w p (1 - p)
    np.testing.assert_allclose(fit.information, [[0.75, 0.0], [0.0, 1.6]], rtol=1e-5)


@pytest.mark.parametrize("start", [0.0, -0.0, 1.0])
def test_log_odds_of_exactly_zero(start):
    """One of two is positive: the start 0 is the solution, and the information is 2 / 4."""
    fit = fit_logistic(np.ones((1, 1)), np.array([2.0]), np.array([1.0]), start=np.array([start]))
    assert fit.coef[0] == pytest.approx(0.0, abs=1e-15)
    assert fit.information[0, 0] == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("start", [-3000.0, 60.0, 3000.0])
def test_one_coefficient_is_found_from_where_all_outcomes_are_certain(start):
    fit = fit_logistic(np.ones((1, 2)), np.array([3.0, 1.0]), np.array([0.0, 1.0]), start=np.array([start]))
    assert fit.coef[0] == pytest.approx(-np.log(3.0), rel=1e-12)


@pytest.mark.parametrize("factor", [2.0**-900, 2.0**900])
def test_the_unit_of_the_weights_does_not_matter(factor):
    columns, weight, positives, _ = problem(1, 40, 4)
    fit = fit_logistic(columns, weight, positives, start=np.zeros(4))
    scaled = fit_logistic(columns, factor * weight, factor * positives, start=np.zeros(4))
    np.testing.assert_allclose(scaled.coef, fit.coef, rtol=1e-9)


def test_columns_may_be_a_function_and_many_observations_in_any_order():
    columns, weight, positives, offset = problem(2, 30_000, 3)
    start = np.zeros(3)
    fit = fit_logistic(columns, weight, positives, start=start, offset=offset).coef
    parts = fit_logistic(lambda rows: columns[:, rows], weight, positives, start=start, offset=offset).coef
    np.testing.assert_array_equal(parts, fit)
    order = np.random.default_rng(0).permutation(30_000)
    given = {"start": start, "offset": offset[order]}
    mixed = fit_logistic(columns[:, order], weight[order], positives[order], **given)
    np.testing.assert_allclose(mixed.coef, fit, rtol=1e-8)


def test_equal_columns_share_a_coefficient():
    columns, weight, positives, _ = problem(3, 40, 2)
    alone = fit_logistic(columns, weight, positives, start=np.zeros(2)).coef
    twice = fit_logistic(np.vstack([columns, columns[1]]), weight, positives, start=np.zeros(3)).coef
    np.testing.assert_allclose([twice[0], twice[1] + twice[2]], alone, rtol=1e-7)


def test_log_likelihood_does_not_cancel():
    z, weight, positives = np.array([-40.0, 3.0, 800.0]), np.array([1.0, 2.0, 1e9]), np.array([0.0, 0.5, 1e9])
    expected = -log1p(exp(-40)) + 0.5 * 3 - 2 * (3 + log1p(exp(-3)))
    assert log_likelihood(z, weight, positives) == pytest.approx(expected, rel=1e-15)
    assert log_likelihood(z[:1], weight[:1], positives[:1]) == pytest.approx(-exp(-40), rel=1e-15)
