"""Dependence of outcomes within clusters: its estimate, and simulated outcomes that have it.

Samples of different clusters are independent. Within a cluster outcomes follow a Gaussian copula: with
independent standard normal z_c for each cluster and e_i for each sample,

    Y_i = 1  if  sqrt(rho) z_c + sqrt(1 - rho) e_i > -Phi^-1(p_i),

so that P(Y_i = 1) = p_i exactly, whatever rho, and rare events stay skewed. The likelihood of rho is that of
this model, by quadrature over z_c. A common shift of all -Phi^-1(p_i) has a flat prior and is integrated out,
so that miscalibration hardly counts as dependence, and a few clusters are not taken for more than they are.
The prior of rho is uniform in the logarithm of 1 + (m - 1) rho, where m is the mean size of the cluster of a
sample: for many samples in each cluster the simulated mean residual then has Student's t distribution around
0, with one degree of freedom less than there are clusters, scaled as in the t-test of the cluster sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import log_ndtr, ndtr, ndtri

__all__ = ["Clusters", "Dependence", "dependence"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# Values of rho, nodes of the quadrature, shifts in standard errors of the mean, width of bins of Phi^-1(p).
_N_RHO, _NODES = 20, np.linspace(-1.0, 1.0, 97)
_SHIFTS, _WIDTH = np.linspace(-4.0, 4.0, 17), 0.25
# Greatest rho, and bounds of the probabilities whose quantiles are needed.
_LARGEST, _LEAST = 0.99, 1e-9
# The effect of a cluster is not taken to be known better than by so many samples per unit of its odds; the
# likelihood would be narrower than the distance of nodes.
_MOST_INFORMATION = 60.0
# Of more clusters, some of all sizes estimate the dependence.
_MOST_CLUSTERS = 4096


@dataclass(frozen=True, eq=False)
class Dependence:
    """Distribution of the correlation rho, given the outcomes: values and their probabilities."""

    rho: Array
    probability: Array

    def sample(self, n_draws: int, generator: np.random.Generator) -> Array:
        """Return one rho for each simulation: equally spaced quantiles, in random order."""
        level = (generator.permutation(n_draws) + 0.5) / n_draws
        found = np.searchsorted(np.cumsum(self.probability), level)
        return self.rho[np.minimum(found, self.rho.shape[0] - 1)]

    @property
    def median(self) -> float:
        """The median of rho."""
        return float(self.rho[int(np.searchsorted(np.cumsum(self.probability), 0.5))])


@dataclass(frozen=True, eq=False)
class Clusters:
    """Samples of equal prediction in the same cluster, and the correlation of outcomes within clusters.

    One entry for each such cell, sorted by ``group``: its index among the distinct predictions, the code
    of its cluster, and the number of its samples.
    """

    group: Index
    code: Index
    count: Array
    n_clusters: int
    dependence: Dependence

    def pooled(self, starts: NDArray[np.intp], n_groups: int) -> Clusters:
        """Return the cells of runs of groups, which start at ``starts``."""
        run = np.repeat(np.arange(starts.shape[0]), np.diff(starts, append=n_groups))
        key, inverse = np.unique(run[self.group] * self.n_clusters + self.code, return_inverse=True)
        group, code = np.divmod(key, self.n_clusters)
        count = np.bincount(inverse, self.count).astype(np.float64, copy=False)
        return Clusters(group, code, count, self.n_clusters, self.dependence)

    def draw(
        self, prob: Array, n_draws: int, streams: list[np.random.Generator], at_once: int
    ) -> Iterator[NDArray[Any]]:
        """Yield numbers of positives of each distinct prediction, shape (groups, r), ``n_draws`` in all."""
        choice, effects, noise = streams
        rho = self.dependence.sample(n_draws, choice)
        starts = np.flatnonzero(np.diff(self.group, prepend=-1))
        n_cells, single = self.group.shape[0], bool(self.count.max() == 1.0)
        kind: Any = np.float32 if single else np.float64
        quantile = ndtri(prob)[self.group].astype(kind)
        trials = self.count.astype(np.int64)
        for first in range(0, n_draws, at_once):
            part = rho[first : first + at_once, np.newaxis]
            r = part.shape[0]
            effect = effects.standard_normal((r, self.n_clusters), dtype=kind)
            effect *= np.sqrt(part).astype(kind)
            rest = np.sqrt(1.0 - part)
            drawn = np.empty((r, n_cells), dtype=bool if single else np.float64)
            for k in range(r):
                threshold = quantile + effect[k].take(self.code)
                if single:
                    value = noise.standard_normal(n_cells, dtype=np.float32)
                    value *= kind(rest[k, 0])
                    np.less(value, threshold, out=drawn[k])
                else:
                    drawn[k] = noise.binomial(trials, ndtr(threshold / rest[k]))
            if starts.shape[0] < n_cells:
                drawn = np.add.reduceat(drawn, starts, axis=1, dtype=np.float64)
            yield np.ascontiguousarray(drawn.T)

    def design_effect(self, prob: Array) -> float:
        """Return the variance of the number of events over that of independent ones, at the median of rho."""
        rho = self.dependence.median
        independent = float(self.count @ (prob * (1.0 - prob))[self.group])
        if rho == 0.0 or independent == 0.0:
            return 1.0
        of_quantile, middle = _quantile_bins(prob)
        shape = self.n_clusters, middle.shape[0]
        table = csr_array((self.count, (self.code, of_quantile[self.group])), shape)
        z = 5.0 * _NODES[::4]
        density = np.exp(-0.5 * z * z)
        density /= density.sum()
        chance = ndtr((middle[:, np.newaxis] + np.sqrt(rho) * z) / np.sqrt(1.0 - rho))
        chance -= (chance @ density)[:, np.newaxis]
        together = float(((table @ chance) ** 2 @ density).sum())
        alone = float(np.asarray(table.sum(axis=0)) @ (chance**2 @ density))
        return max(1.0, 1.0 + (together - alone) / independent)


def dependence(code: Index, prob: Array, count: Array, positives: Array) -> Dependence:
    """Estimate the correlation within clusters.

    Parameters
    ----------
    code : ndarray of shape (cells,)
        Code of the cluster, from 0 on, of samples of the same cluster and prediction.
    prob : ndarray of shape (cells,) or (cells, K)
        Their prediction; of K >= 3 classes, each class against the rest is a problem of its own.
    count : ndarray of shape (cells,)
        Number of samples.
    positives : ndarray of shape (cells,) or (cells, K)
        Number of events, or of samples of each class.
    """
    size = np.bincount(code, count)
    mean_size = float(size @ size / size.sum())
    if mean_size == 1.0:
        return Dependence(np.zeros(1), np.ones(1))
    rho = (np.geomspace(1.0, 1.0 + _LARGEST * (mean_size - 1.0), _N_RHO) - 1.0) / (mean_size - 1.0)
    # clusters of one sample do not tell; of many others, some of all sizes do
    chosen = np.argsort(-size, kind="stable")[: np.count_nonzero(size > 1.0)]
    chosen = chosen[:: -(-chosen.shape[0] // _MOST_CLUSTERS)]
    place = np.full(size.shape[0], -1)
    place[chosen] = np.arange(chosen.shape[0])
    kept = place[code] >= 0
    columns, events = prob.reshape(prob.shape[0], -1)[kept], positives.reshape(prob.shape[0], -1)[kept]
    n_columns = columns.shape[1]
    log_likelihood = sum(
        _log_likelihood(rho, place[code[kept]], column, count[kept], event, chosen.shape[0])
        for column, event in zip(columns.T, events.T, strict=True)
    )
    if n_columns > 1:
        # indicators of K classes are K - 1 numbers
        log_likelihood = log_likelihood * (n_columns - 1.0) / n_columns
    probability = np.exp(log_likelihood - np.max(log_likelihood))
    return Dependence(rho, probability / probability.sum())


def _log_likelihood(
    rho: Array, code: Index, prob: Array, count: Array, positives: Array, n_clusters: int
) -> Array:
    """Return the logarithm of the likelihood of each rho, but for a constant."""
    column, middle = _quantile_bins(prob)
    n_bins = middle.shape[0]
    table = csr_array(
        (
            np.concatenate((positives, count - positives)),
            (np.tile(code, 2), np.append(column, column + n_bins)),
        ),
        (n_clusters, 2 * n_bins),
    )
    p = np.clip(prob, _LEAST, 1.0 - _LEAST)
    density = np.exp(-0.5 * ndtri(p) ** 2) / np.sqrt(2.0 * np.pi)
    # of the common shift, in each cluster, if its samples were independent
    information = np.bincount(code, count * density**2 / (p * (1.0 - p)), n_clusters)
    out = np.empty_like(rho)
    for k, value in enumerate(rho):
        error = (1.0 / (value + 1.0 / information)).sum() ** -0.5
        shifts, spread = _SHIFTS * error, np.sqrt(value)
        node = _NODES * (5.0 * spread - shifts[0]) if value else shifts
        x = (middle[:, np.newaxis] + node) / np.sqrt(1.0 - value)
        terms = table @ np.concatenate((log_ndtr(x), log_ndtr(-x)))
        if value:
            peak = terms.max(axis=1, keepdims=True)
            narrowed = np.minimum(1.0, _MOST_INFORMATION * (1.0 - value) / (information * value))
            weight = (
                np.exp(-0.5 * ((node[:, np.newaxis] - shifts) / spread) ** 2) / spread * (node[1] - node[0])
            )
            terms = peak + np.log(
                np.exp((terms - peak) * narrowed[:, np.newaxis]) @ weight / np.sqrt(2.0 * np.pi) + 1e-300
            )
        total = terms.sum(axis=0)
        # the integral over shifts
        out[k] = np.logaddexp.reduce(total) + np.log(error)
    return out


def _quantile_bins(prob: Array) -> tuple[Index, Array]:
    """Return the bin of the quantile of each probability, and the mean quantile of each bin."""
    quantile = ndtri(np.clip(prob, _LEAST, 1.0 - _LEAST))
    _, index = np.unique(np.rint(quantile / _WIDTH), return_inverse=True)
    return index, np.bincount(index, quantile) / np.bincount(index)
