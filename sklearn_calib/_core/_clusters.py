"""Dependence of outcomes within clusters: its estimate, and simulated outcomes that have it.

Samples of different clusters are independent. Within a cluster outcomes follow a Gaussian copula: with
independent standard normal z_c and t_c for each cluster, and e_i for each sample,

    Y_i = 1  if  sqrt(rho) z_c + sqrt(1 - rho) e_i + s x_i t_c > -sqrt(1 + s^2 x_i^2) q_i

with q_i = Phi^-1(p_i), and x_i, which is q_i standardized. So P(Y_i = 1) = p_i exactly, whatever rho and s,
and rare events stay skewed. In a cluster with a large z_c all predictions are too low; in one with a large
t_c they are too moderate.

The likelihood of rho is that of this model with s = 0, by quadrature over z_c; that of s is approximate. A
common shift of all q_i, and a common slope, have flat priors and are integrated out, so that miscalibration
hardly counts as dependence. A cluster of size n_c has the weight min(1, n_c / m)^1.5 in the log-likelihood of
rho, where m = sum n_c^2 / n: many small clusters must not decide about the dependence in large ones.

The prior of rho is uniform in the variance ratio 1 + (m - 1) rho: for many samples in each of C clusters the
simulated mean residual then has Student's t distribution with C - 3 degrees of freedom. A prior uniform in
its logarithm, as that of s^2, leads to C - 1, as in the t-test of the cluster sums, and to tests that reject
too often with few clusters. In addition, rho = 0 has a prior probability of its own, without which tests of
independent clusters reject too rarely.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import log_ndtr, ndtr, ndtri, stdtrit

from sklearn_calib._core._weights import kish_size, written_out
from sklearn_calib._typing import Array

Index = NDArray[np.int64]

# Values of rho, nodes of the quadrature, shifts in standard errors of the mean, width of bins of Phi^-1(p).
_N_RHO, _NODES = 20, np.linspace(-1.0, 1.0, 97)
_SHIFTS, _WIDTH = np.linspace(-4.0, 4.0, 17), 0.25
# Greatest rho, and bounds of the probabilities whose quantiles are needed.
_LARGEST, _LEAST = 1.0 - 1e-6, 1e-9
# The effect of a cluster is not taken to be known better than by so many samples per unit of its odds; the
# likelihood would be narrower than the distance of nodes.
_MOST_INFORMATION = 60.0
# Prior probability that rho is 0, in addition to that of the grid of its values.
_INDEPENDENT = 0.2
# Greatest s, and greatest distance of x from 0.
_STEEPEST, _FARTHEST = 1.0, 2.5
# Up to so many samples of the same prediction and cluster, on average, are simulated one by one.
_LIGHT = 8.0
# Power of the size in the weight of a cluster.
_SIZE_POWER = 1.5
# Of more clusters, some of all sizes estimate the dependence.
_MOST_CLUSTERS = 4096


@dataclass(frozen=True, eq=False)
class Dependence:
    """Distribution of the correlation rho, given the outcomes: values and their probabilities.

    ``slope`` holds values of s, ``slope_probability`` theirs, and ``center`` and ``scale`` standardize q.
    """

    rho: Array
    probability: Array
    slope: Array = field(default_factory=lambda: np.zeros(1))
    slope_probability: Array = field(default_factory=lambda: np.ones(1))
    center: float = 0.0
    scale: float = 1.0

    def sample(self, n_draws: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Return one rho and one s for each simulation: equally spaced quantiles, in random order."""

        def quantiles(values: Array, probability: Array) -> Array:
            level = (generator.permutation(n_draws) + 0.5) / n_draws
            found = np.searchsorted(np.cumsum(probability), level)
            return values[np.minimum(found, values.shape[0] - 1)]

        return quantiles(self.rho, self.probability), quantiles(self.slope, self.slope_probability)

    def covariate(self, prob: Array) -> Array:
        """Return x, the standardized quantile of each probability."""
        quantile = ndtri(np.clip(prob, _LEAST, 1.0 - _LEAST))
        return np.clip((quantile - self.center) / self.scale, -_FARTHEST, _FARTHEST)

    @property
    def median(self) -> float:
        """The median of rho."""
        return float(self.rho[int(np.searchsorted(np.cumsum(self.probability), 0.5))])


@dataclass(frozen=True, eq=False)
class Clusters:
    """Samples of equal prediction in the same cluster, and the correlation of outcomes within clusters.

    One entry for each such cell, sorted by ``group``: its index among the distinct predictions, the code
    of its cluster, and the numbers of its samples and of its positive samples.
    """

    group: Index
    code: Index
    count: Array
    positives: Array
    n_clusters: int
    dependence: Dependence

    def pooled(self, starts: NDArray[np.intp], n_groups: int) -> Clusters:
        """Return the cells of runs of groups, which start at ``starts``."""
        run = np.repeat(np.arange(starts.shape[0]), np.diff(starts, append=n_groups))
        key, inverse = np.unique(run[self.group] * self.n_clusters + self.code, return_inverse=True)
        group, code = np.divmod(key, self.n_clusters)
        count, positives = (_sums(inverse, values) for values in (self.count, self.positives))
        return Clusters(group, code, count, positives, self.n_clusters, self.dependence)

    def taken(self, groups: NDArray[np.bool_]) -> Clusters:
        """Return the cells of a subset of the groups."""
        cells = groups[self.group]
        return replace(
            self,
            group=(np.cumsum(groups) - 1)[self.group[cells]],
            code=self.code[cells],
            count=self.count[cells],
            positives=self.positives[cells],
        )

    def resample(
        self, n_draws: int, generator: np.random.Generator, at_once: int
    ) -> Iterator[tuple[Array, Array]]:
        """Yield bootstrap samples of clusters: samples and positives of each distinct prediction."""
        shape = int(self.group[-1]) + 1, self.n_clusters
        count, positives = (
            csr_array((v, (self.group, self.code)), shape) for v in (self.count, self.positives)
        )
        for first in range(0, n_draws, at_once):
            r = min(at_once, n_draws - first)
            chosen = generator.integers(self.n_clusters, size=(r, self.n_clusters))
            chosen += self.n_clusters * np.arange(r)[:, np.newaxis]
            times = np.bincount(chosen.ravel(), minlength=r * self.n_clusters).reshape(r, -1).T * 1.0
            yield count @ times, positives @ times

    def widening(self, alpha: float) -> float:
        """Return by what an error of a bootstrap of clusters is to be multiplied.

        Its standard deviation is too small by (1 - 1/C)^(1/2), and normal quantiles are those of Student's t
        with C - 1 degrees of freedom, where C is the effective number of clusters.
        """
        size = np.bincount(self.code, self.count)
        df = max(kish_size(size) - 1.0, 1.0)
        return float(np.sqrt((df + 1.0) / df) * stdtrit(df, 1.0 - alpha / 2.0) / ndtri(1.0 - alpha / 2.0))

    def draw(
        self, prob: Array, n_draws: int, streams: list[np.random.Generator], at_once: int
    ) -> Iterator[NDArray[Any]]:
        """Yield numbers of positives of each distinct prediction, shape (groups, r), ``n_draws`` in all."""
        choice, effects, noise = streams
        rho, slope = self.dependence.sample(n_draws, choice)
        group, code = self.group, self.code
        single = bool(self.count.sum() <= _LIGHT * group.shape[0])
        if single:
            # normal variables of samples are faster than a binomial one of few samples
            rows = written_out(self.count)
            group, code = group[rows], code[rows]
        starts, n_cells = np.flatnonzero(np.diff(group, prepend=-1)), group.shape[0]
        kind: Any = np.float32 if single else np.float64
        quantile = ndtri(prob)[group].astype(kind)
        x = self.dependence.covariate(prob)[group].astype(kind)
        square = x * x
        trials = self.count.astype(np.int64)
        for first in range(0, n_draws, at_once):
            r = min(at_once, n_draws - first)
            drawn = np.empty((r, n_cells), dtype=bool if single else np.float64)
            for k in range(r):
                rest = kind(np.sqrt(1.0 - rho[first + k]))
                spread, steep = kind(np.sqrt(rho[first + k])), kind(slope[first + k])
                effect = effects.standard_normal(self.n_clusters, dtype=kind) * spread
                threshold = effect.take(code)
                if steep > 0.0:
                    tilt = effects.standard_normal(self.n_clusters, dtype=kind) * steep
                    threshold += tilt.take(code) * x
                    threshold += np.sqrt(1.0 + (steep * steep) * square) * quantile
                else:
                    threshold += quantile
                if single:
                    value = noise.standard_normal(n_cells, dtype=np.float32)
                    value *= rest
                    np.less(value, threshold, out=drawn[k])
                else:
                    drawn[k] = noise.binomial(trials, ndtr(threshold / rest))
            if starts.shape[0] < n_cells:
                drawn = np.add.reduceat(drawn, starts, axis=1, dtype=np.float64)
            yield np.ascontiguousarray(drawn.T)

    def draw_labels(
        self, p: Array, n_draws: int, streams: list[np.random.Generator]
    ) -> Iterator[NDArray[np.int64]]:
        """Yield labels of samples from their probabilities of K classes, shape (1, n), ``n_draws`` times.

        Each sample and class k has an exponential variable, a function of a normal one that is correlated
        within clusters; the class for which it is smallest, divided by p_k, is the label.
        """
        choice, effects, noise = streams
        with np.errstate(divide="ignore"):
            log_p = np.log(p)
        for rho in self.dependence.sample(n_draws, choice)[0]:
            effect = np.sqrt(rho) * effects.standard_normal((self.n_clusters, p.shape[1]))
            latent = effect[self.code] + np.sqrt(1.0 - rho) * noise.standard_normal(p.shape)
            yield np.argmin(np.log(-log_ndtr(latent)) - log_p, axis=1)[np.newaxis]

    def design_effect(self, prob: Array) -> float:
        """Return the variance of the number of events over that of independent ones, at the median of rho.

        For K classes, that of the mean over classes, with weights by variance.
        """
        if prob.ndim == 2:
            variances = (prob * (1.0 - prob)).sum(axis=0)
            effects = [self.design_effect(column) for column in prob.T]
            return float(np.average(effects, weights=variances)) if variances.any() else 1.0
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


def dependence_of(clusters: Clusters | None, prob: Array) -> dict[str, Any]:
    """Return the fields with which results describe clusters, if there are any."""
    if clusters is None:
        return {}
    effect, total = clusters.design_effect(prob), float(clusters.count.sum())
    return {"n_clusters": clusters.n_clusters, "design_effect": effect, "n_effective": total / effect}


def single_clusters(n_samples: float) -> dict[str, Any]:
    """Return the same fields for samples that are all clusters of their own."""
    return {"n_clusters": int(n_samples), "design_effect": 1.0, "n_effective": float(n_samples)}


def cluster_words(result: Any) -> str:
    """Return what a result tells of clusters, in words; nothing if there are none."""
    if result.n_clusters is None:
        return ""
    return (
        f"{result.n_clusters:,} (design effect {result.design_effect:.3g}, effective number of samples "
        f"{result.n_effective:,.0f})"
    )


def clusters_of_classes(y: Index, p: Array, code: Index) -> Clusters:
    """Return the clusters of single samples of two classes, p (n,), or K, (n, K), to simulate from."""
    one = np.ones(y.shape[0])
    events = y if p.ndim == 1 else y[:, np.newaxis] == np.arange(p.shape[1])
    found = dependence(code, p, one, events.astype(np.float64))
    return Clusters(np.arange(y.shape[0]), code, one, one, int(code.max()) + 1, found)


def dependence(code: Index, prob: Array, count: Array, positives: Array) -> Dependence:
    """Estimate the correlation within clusters from cells of samples of the same cluster and prediction.

    ``code`` is the cluster of a cell, from 0 on, and ``count`` its number of samples; ``prob`` and
    ``positives``, (cells,) or (cells, K), are its prediction and number of events, or those of each of K >= 3
    classes, each of which against the rest is a problem of its own.
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
    # the variance of sums depends on the dependence in large clusters, which may differ from that in others
    weight = np.minimum(1.0, size[chosen] / mean_size) ** _SIZE_POWER
    columns, events = prob.reshape(prob.shape[0], -1)[kept], positives.reshape(prob.shape[0], -1)[kept]
    n_columns = columns.shape[1]
    log_likelihood: Any = sum(
        _log_likelihood(rho, place[code[kept]], column, count[kept], event, weight)
        for column, event in zip(columns.T, events.T, strict=True)
    )
    if n_columns > 1:
        # indicators of K classes are K - 1 numbers
        log_likelihood = log_likelihood * (n_columns - 1.0) / n_columns
    # uniform in the variance ratio, whose logarithm is equally spaced, and a probability of 0 of its own
    prior = (1.0 - _INDEPENDENT) * _normalized(np.log1p((mean_size - 1.0) * rho))
    prior[0] += _INDEPENDENT
    found = Dependence(rho, _normalized(log_likelihood + np.log(prior)))
    if n_columns > 1:
        return found
    return _with_slope(found, code, prob, count, positives)


def _with_slope(found: Dependence, code: Index, prob: Array, count: Array, positives: Array) -> Dependence:
    """Add the distribution of s, the spread of slopes among clusters.

    With residuals r, f = phi(q), u = x / sqrt(1 + s^2 x^2), and x~, x less its mean with weights f in the
    cluster, the sums of x~ r of a cluster are free of z_c, to first order. They are taken to be normal with
    variance sum v x~^2 + s^2 [(sum f u x~)^2 - sum (f u x~)^2] and mean mu sum f u x~, where mu is a common
    slope; with a flat prior, mu is integrated out.
    """
    p = np.clip(prob, _LEAST, 1.0 - _LEAST)
    quantile, v = ndtri(p), p * (1.0 - p)
    center = float((count * v) @ quantile / (count @ v))
    scale = float(np.sqrt((count * v) @ (quantile - center) ** 2 / (count @ v)))
    if scale <= _LEAST:
        return found
    found = replace(found, center=center, scale=scale)
    x, f = found.covariate(prob), _normal_density(quantile)
    size = np.maximum(np.bincount(code, count * f), _LEAST)
    within = x - (np.bincount(code, count * f * x) / size)[code]
    variance = np.bincount(code, count * v * within**2)
    informed = variance > _LEAST
    if not informed.any():
        return found
    variance, total = variance[informed], np.bincount(code, within * (positives - count * prob))[informed]
    information = np.bincount(code, count * f * within**2)[informed] ** 2 / variance
    unit = float(information @ information / information.sum())
    squares = (np.geomspace(1.0, 1.0 + _STEEPEST**2 * unit, _N_RHO) - 1.0) / unit
    log_likelihood = np.empty_like(squares)
    for k, square in enumerate(squares):
        term = f * within * x / np.sqrt(1.0 + square * x * x)
        reach = np.bincount(code, count * term)[informed]
        pairs = np.maximum(reach**2 - np.bincount(code, count * term**2)[informed], 0.0)
        spread = variance + square * pairs
        known, common = (reach**2 / spread).sum(), (reach * total / spread).sum()
        deviance = (np.log(spread) + total**2 / spread).sum() + np.log(known) - common**2 / known
        log_likelihood[k] = -0.5 * deviance
    return replace(found, slope=np.sqrt(squares), slope_probability=_normalized(log_likelihood))


def _normalized(log_likelihood: Array) -> Array:
    out: Array = np.exp(log_likelihood - np.max(log_likelihood))
    return out / out.sum()


def _log_likelihood(
    rho: Array, code: Index, prob: Array, count: Array, positives: Array, cluster_weight: Array
) -> Array:
    """Return the logarithm of the likelihood of each rho, but for a constant."""
    column, middle = _quantile_bins(prob)
    n_bins, n_clusters = middle.shape[0], cluster_weight.shape[0]
    table = csr_array(
        (
            np.concatenate((positives, count - positives)),
            (np.tile(code, 2), np.append(column, column + n_bins)),
        ),
        (n_clusters, 2 * n_bins),
    )
    p = np.clip(prob, _LEAST, 1.0 - _LEAST)
    density = _normal_density(ndtri(p))
    # of the common shift, in each cluster, if its samples were independent
    information = np.bincount(code, count * density**2 / (p * (1.0 - p)), n_clusters)
    out = np.empty_like(rho)
    for k, value in enumerate(rho):
        error = (cluster_weight / (value + 1.0 / information)).sum() ** -0.5
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
        total = cluster_weight @ terms
        # the integral over shifts
        out[k] = np.logaddexp.reduce(total) + np.log(error)
    return out


def _normal_density(quantile: Array) -> Array:
    out: Array = np.exp(-0.5 * quantile**2) / np.sqrt(2.0 * np.pi)
    return out


def _sums(index: Index, values: Array) -> Array:
    return np.bincount(index, values).astype(np.float64, copy=False)


def _quantile_bins(prob: Array) -> tuple[Index, Array]:
    """Return the bin of the quantile of each probability, and the mean quantile of each bin."""
    quantile = ndtri(np.clip(prob, _LEAST, 1.0 - _LEAST))
    _, index = np.unique(np.rint(quantile / _WIDTH), return_inverse=True)
    return index, np.bincount(index, quantile) / np.bincount(index)
