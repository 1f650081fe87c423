"""p-values of tests from simulated outcomes, Y* ~ Bernoulli(p): when, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import draw_positives
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    BinarySample,
    check_generator,
    check_option,
    check_randomness,
    check_size,
)
from sklearn_calib.inference._testing._base import CalibrationTest

_METHODS = ("auto", "asymptotic", "monte_carlo")

#: What counts as a tie of two standardised statistics.
TIE = 1e-9

# Number of observations up to which "auto" of the classical tests simulates.
MOST_SIMULATED = 10_000

# From this number of samples and null variance on, "auto" of the other tests is asymptotic.
_LARGE, _LARGE_VARIANCE = 100_000.0, 2000.0


class SimulatedTest(CalibrationTest):
    """Base class of tests of simulated or asymptotic p-values."""

    _knows_clusters = True

    def __init__(self, *, method: str = "auto", n_resamples: int = 999, random_state: Any = 0) -> None:
        self.method = method
        self.n_resamples = n_resamples
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_option(self.method, "method", _METHODS)
        check_size(self.n_resamples, "n_resamples")
        check_randomness(self.random_state)


def is_large(sample: BinarySample) -> bool:
    """Tell whether asymptotic distributions are accurate, and simulations slow."""
    return sample.total >= _LARGE and float(sample.weights @ (sample.p * (1.0 - sample.p))) >= _LARGE_VARIANCE


def simulates(method: str, large: bool, clusters: Any = None) -> bool:
    """Tell whether the p-value is simulated: with clusters always, by "auto" if not ``large``."""
    if method == "asymptotic":
        refuse_clusters(clusters, "method", method, "monte_carlo")
    return clusters is not None or method == "monte_carlo" or (method == "auto" and not large)


def refuse_clusters(clusters: Any, parameter: str, value: str, instead: str) -> None:
    """Raise ValueError if there are clusters and the chosen method assumes independent samples."""
    if clusters is not None:
        raise ValueError(
            f"{parameter}={value!r} assumes independent samples and cannot be given clusters. Use "
            f"{parameter}={instead!r}."
        )


def simulated(test: Any, grouped: GroupedOutcomes, statistic: Callable[[Array], Array]) -> Array:
    """Return the statistic of each sample that is simulated with the parameters of ``test``.

    ``statistic`` maps numbers of positives, shape (groups, r), to r values.
    """
    draws = draw_positives(grouped, test.n_resamples, check_generator(test.random_state))
    return np.concatenate([statistic(positives.astype(np.float64)) for positives in draws])


def conditional_sums(prob: Array, n_events: int, values: Array, n_resamples: int, random_state: Any) -> Array:
    """Return sums of ``values`` over the events of simulated samples with exactly ``n_events`` events.

    Outcomes are independent Bernoulli(prob), given their number. It is best to choose, among probabilities of
    the same odds ratios, those that sum to ``n_events``: then no probability of a count underflows.
    """
    n = prob.shape[0]
    if 2 * n_events > n:
        others = conditional_sums(1.0 - prob, n - n_events, values, n_resamples, random_state)
        return values.sum() - others
    # ahead[i, k]: probability of k events among the outcomes from i on
    ahead = np.zeros((n + 1, n_events + 1))
    ahead[n, 0] = 1.0
    for i in range(n - 1, -1, -1):
        np.multiply(ahead[i + 1], 1.0 - prob[i], out=ahead[i])
        ahead[i, 1:] += prob[i] * ahead[i + 1, :-1]
    generator = check_generator(random_state)
    left = np.full(n_resamples, n_events)
    sums = np.zeros(n_resamples)
    for i in range(n):
        # the probability of an event, times that of the count; the last entry is for -1 events
        chance = prob[i] * ahead[i + 1, left - 1] * (left > 0)
        event = generator.random(n_resamples) * ahead[i, left] < chance
        sums += values[i] * event
        left -= event
    return sums
