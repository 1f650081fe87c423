"""T-Cal keeps its level: rejection rates under the null hypothesis within binomial error."""

import numpy as np
import pytest

from sklearn_calib.inference import TCal
from tests.inference._properties import check_level

pytestmark = pytest.mark.thorough


def pvalues(n, repetitions, test_of, shape):
    """P-values of calibrated samples."""
    out = []
    for seed in range(repetitions):
        rng = np.random.default_rng([n, seed])
        p = rng.beta(*shape, n)
        out.append(test_of(seed).test((rng.random(n) < p).astype(int), p).pvalue)
    return out


@pytest.mark.parametrize("combine", ["weighted", "bonferroni"])
@pytest.mark.parametrize(("n", "repetitions"), [(60, 400), (1000, 250)])
def test_monte_carlo_is_exact(combine, n, repetitions):
    found = pvalues(
        n, repetitions, lambda seed: TCal(n_resamples=399, combine=combine, random_state=seed), (1, 1)
    )
    for alpha in (0.05, 0.1, 0.3):
        check_level(found, alpha, least=0.8 * alpha if combine == "weighted" else 0.0)


@pytest.mark.parametrize("shape", [(1, 1), (0.5, 12)])
def test_monte_carlo_is_exact_for_one_scale(shape):
    found = pvalues(60, 500, lambda seed: TCal(smoothness=1.0, n_resamples=99, random_state=seed), shape)
    for alpha in (0.05, 0.2):
        check_level(found, alpha, least=0.8 * alpha)


@pytest.mark.parametrize("options", [{}, {"smoothness": 1.0}])
@pytest.mark.parametrize("shape", [(1, 1), (0.2, 0.2), (0.5, 12)])
def test_asymptotic_is_close(options, shape):
    found = pvalues(1000, 250, lambda seed: TCal(method="asymptotic", **options), shape)
    for alpha in (0.05, 0.1):
        check_level(found, alpha, least=0.5 * alpha)


def test_theory_is_conservative():
    check_level(pvalues(1000, 100, lambda seed: TCal(method="theory"), (1, 1)), 0.05)
