"""Levels of the tests by simulation: how often calibrated samples are rejected, within binomial error."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_calib.inference import (
    CombinedTest,
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    HosmerLemeshowTest,
    KernelTest,
    SampleSplittingTest,
    SpiegelhalterTest,
    TCal,
)
from sklearn_calib.metrics import expected_calibration_error
from tests._tiers import thorough, weekly
from tests.inference._properties import check_level

BINNED = partial(expected_calibration_error, n_bins=5)


def beta(n, a, b):
    return lambda rng: rng.beta(a, b, n)


def wide(n):
    return lambda rng: rng.uniform(0.05, 0.95, n)


def values(n, *of):
    return lambda rng: rng.choice(of, n)


def classes(n, n_classes, concentration=1.0):
    return lambda rng: rng.dirichlet(np.full(n_classes, concentration), n)


#: The test, what draws predictions, the number of runs, levels, and the least share of a level that is used.
QUICK = {
    "cutoff": (CutoffTest(method="monte_carlo", n_resamples=199), wide(40), 150, (0.1,), 0.7),
    "cutoff asymptotic": (CutoffTest(method="asymptotic"), wide(500), 150, (0.1,), 0.6),
    "cutoff of eight": (CutoffTest(method="asymptotic"), wide(8), 150, (0.1,), 0.0),
    "quantile bins": (HosmerLemeshowTest(method="asymptotic"), wide(400), 150, (0.1,), 0.7),
    "equal bins": (HosmerLemeshowTest(method="asymptotic", strategy="uniform"), wide(400), 150, (0.1,), 0.7),
    "spiegelhalter": (SpiegelhalterTest(method="asymptotic"), wide(300), 200, (0.1, 0.9), 0.9),
    "consistency": (ConsistencyTest(BINNED, n_resamples=19), wide(40), 80, (0.1,), 0.8),
}
SPLIT = SampleSplittingTest(n_resamples=239)
CROSS = SampleSplittingTest(n_resamples=239, cross_fit=True)
ADAPTIVE = KernelTest(bandwidth="adaptive", n_resamples=99)
THOROUGH = {
    "tcal": (TCal(n_resamples=399), beta(60, 1, 1), 150, (0.05, 0.1, 0.3), 0.8),
    "bonferroni": (TCal(n_resamples=399, combine="bonferroni"), beta(60, 1, 1), 150, (0.1, 0.3), 0.0),
    "one scale": (TCal(smoothness=1.0, n_resamples=99), beta(60, 0.5, 12), 200, (0.05, 0.2), 0.8),
    "asymptotic": (TCal(method="asymptotic"), beta(1000, 1, 1), 100, (0.05, 0.1), 0.5),
    "asymptotic near the ends": (TCal(method="asymptotic"), beta(1000, 0.2, 0.2), 100, (0.05, 0.1), 0.5),
    "of rare": (TCal(method="asymptotic", smoothness=1.0), beta(1000, 0.5, 12), 100, (0.05, 0.1), 0.5),
    "theory": (TCal(method="theory"), beta(1000, 1, 1), 50, (0.05,), 0.0),
    "tcal of classes": (TCal(n_resamples=39), classes(80, 3, 0.3), 80, (0.1,), 0.4),
    "confidence": (TCal(reduction="confidence", n_resamples=39), classes(80, 3, 0.3), 80, (0.1,), 0.4),
    "kernel": (KernelTest(n_resamples=99), wide(40), 100, (0.1,), 0.7),
    "kernel adaptive": (ADAPTIVE, wide(40), 80, (0.1,), 0.7),
    "kernel asymptotic": (KernelTest(method="asymptotic"), wide(200), 100, (0.1,), 0.6),
    "kernel of classes": (KernelTest(n_resamples=99), classes(60, 3), 80, (0.1,), 0.2),
    "cox": (CoxTest(method="asymptotic"), wide(300), 200, (0.1,), 0.7),
    "combined": (CombinedTest(n_resamples=39), wide(150), 100, (0.1,), 0.0),
    "combined asymptotic": (CombinedTest(method="asymptotic"), wide(150), 100, (0.1,), 0.0),
    "splitting": (SPLIT, beta(150, 1, 1), 200, (0.05,), 0.1),
    "splitting of rare events": (SPLIT, beta(300, 2, 48), 200, (0.05,), 0.1),
    "splitting of three classes": (SPLIT, classes(120, 3), 150, (0.05,), 0.1),
    "splitting of five classes": (SampleSplittingTest(n_resamples=399), classes(120, 5), 100, (0.05,), 0.1),
    "splitting of twelve": (SPLIT, beta(12, 1, 1), 200, (0.05,), 0.1),
    "splitting of weights": (SPLIT, values(150, 0.1, 0.3, 0.35, 0.8), 200, (0.05,), 0.1),
    "cross-fitted": (clone(CROSS).set_params(smoothness=0.5), beta(150, 1, 1), 200, (0.05,), 0.1),
    "cross-fitted classes": (CROSS, classes(120, 3), 150, (0.05,), 0.1),
}
#: Those that take longest are run once a week only.
LONG = {f"splitting of {kind}" for kind in ("rare events", "weights", "five classes", "twelve")}
LONG.add("cross-fitted classes")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *((name, 1) for name in QUICK),
        *(thorough(name, 1) for name in THOROUGH if name not in LONG),
        *(weekly(name, 4) for name in QUICK | THOROUGH),
    ],
)
def test_level(name, more):
    test, predictions, runs, alphas, used = (QUICK | THOROUGH)[name]
    pvalues = []
    for seed in range(more * runs):
        rng, given = np.random.default_rng([runs, seed]), {}
        p = predictions(rng)
        columns = p if p.ndim == 2 else np.column_stack((1 - p, p))
        y = (columns.cumsum(axis=1)[:, :-1] < rng.random((len(p), 1))).sum(axis=1)
        if name == "splitting of weights":
            rows, times = np.unique(np.column_stack((y, p)), axis=0, return_counts=True)
            y, p, given = rows[:, 0].astype(int), rows[:, 1], {"sample_weight": times, "weights": "frequency"}
        pvalues.append(test.set_params(random_state=seed).test(y, p, **given).pvalue)
    for alpha in alphas:
        check_level(pvalues, alpha, least=used * alpha)
