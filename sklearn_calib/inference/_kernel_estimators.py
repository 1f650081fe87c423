"""Estimators of the squared kernel calibration error, and their values for simulated labels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._clusters import Clusters, clusters_of_classes
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample, group_starts
from sklearn_calib._core._kernel import (
    MAX_DENSE,
    Form,
    covariance_products,
    kernel_form,
    kernel_matrix,
    null_variance,
    powered_bandwidth,
)
from sklearn_calib._core._null import MAX_ELEMENTS, draw_positives, sample_labels
from sklearn_calib._typing import Array
from sklearn_calib._validation import BinarySample, ClassSample

Labels = NDArray[np.int64]

# Simulations at a time in a block, and numbers in the arrays of a step.
_DRAWS = 1 << 10
_WORK = 1 << 21
# Blocks need a label for every sample.
_MOST_SAMPLES = 1 << 27


@dataclass(frozen=True, eq=False)
class KernelSample:
    """Distinct predictions in increasing order, with the number of samples and of samples of each class.

    ``points`` and ``counts`` have one column per class; in a binary problem one for the positive class.
    """

    points: Array
    weight: Array
    counts: Array
    clusters: Clusters | None = None
    # of several classes with clusters, the point of each sample
    point: NDArray[np.intp] | None = None

    @classmethod
    def from_binary(cls, sample: BinarySample) -> "KernelSample":
        """Group outcomes by their prediction."""
        grouped = group_sample(sample)
        points, counts = grouped.prob[:, np.newaxis], grouped.positives[:, np.newaxis]
        return cls(points, grouped.weight, counts, grouped.clusters)

    @classmethod
    def from_classes(cls, sample: ClassSample) -> "KernelSample":
        """Group labels by their vector of probabilities."""
        order = np.lexsort(sample.p.T[::-1])
        p, y, w = sample.p[order], sample.y[order], sample.weights[order]
        changes = np.any(p[1:] != p[:-1], axis=1)
        group = np.concatenate(([0], np.cumsum(changes)))
        starts = group_starts(group)
        counts = np.zeros((starts.shape[0], p.shape[1]))
        np.add.at(counts, (group, y), w)
        found = cls(p[starts], np.add.reduceat(w, starts), counts)
        if sample.clusters is None:
            return found
        times = w.astype(np.int64)
        y, p, code, group = (np.repeat(each, times, axis=0) for each in (y, p, sample.clusters[order], group))
        return replace(found, clusters=clusters_of_classes(y, p, code), point=group)

    @property
    def probabilities(self) -> Array:
        """The predictions of ``clusters``: of points, or of samples of several classes."""
        return self.points[:, 0] if self.point is None else self.points[self.point]

    @property
    def total(self) -> int:
        """Number of samples."""
        return int(self.weight.sum())

    def residuals(self, counts: Array) -> Array:
        """Return the sums of residuals of each point for counts (r, G, C): (r, C, G)."""
        return np.moveaxis(counts - self.weight[:, np.newaxis] * self.points, 2, 1)

    def squares(self, counts: Array) -> Array:
        """Return the sum over samples of squared residuals for counts (r, G, C): (r,).

        No term is negative: the rounding error of differences could exceed the contribution of rare events.
        """
        square, opposite = np.square(self.points), np.square(1.0 - self.points)
        if square.shape[1] == 1:
            column = counts[:, :, 0]
            return np.asarray(column @ opposite[:, 0] + (self.weight - column) @ square[:, 0])
        others = square @ (1.0 - np.eye(square.shape[1]))
        return np.asarray(np.einsum("rgc,gc->r", counts, opposite + others))

    def draw(self, n_draws: int, generator: np.random.Generator) -> Iterator[Array]:
        """Yield counts (r, G, C) of labels simulated from the predictions, ``n_draws`` in all."""
        n_points, n_columns = self.points.shape
        if n_columns == 1:
            grouped = GroupedOutcomes(self.points[:, 0], self.weight, self.counts[:, 0], self.clusters)
            for positives in draw_positives(grouped, n_draws, generator):
                yield np.asarray(positives.T[:, :, np.newaxis], dtype=np.float64)
            return
        if self.point is not None:
            place, size = self.point * n_columns, n_points * n_columns
            for labels in sample_labels(self.points[self.point], n_draws, generator, self.clusters):
                drawn = np.bincount(place + labels[0], minlength=size).astype(np.float64)
                yield drawn.reshape(1, n_points, n_columns)
            return
        trials = self.weight.astype(np.int64)
        # all pairs are computed once for the simulations of a step
        step = max(256 // n_columns, MAX_ELEMENTS // (n_points * n_columns), 1)
        for first in range(0, n_draws, step):
            r = min(step, n_draws - first)
            yield generator.multinomial(trials, self.points, size=(r, n_points)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates at each bandwidth, (S,), and for simulated labels, (S, r).

    ``deviation`` is the standard deviation under the null hypothesis, given the predictions, and ``blocks``
    contains the terms whose mean is the block estimator, (S, m).
    """

    observed: Array
    deviation: Array
    null: Array
    blocks: Array


def quadratic_estimates(
    sample: KernelSample, kernel: str, bandwidths: Array, n_draws: int, generator: np.random.Generator
) -> Estimates:
    """Return the unbiased quadratic estimator, the mean of h over all pairs of samples."""
    n_points, n_columns = sample.points.shape
    if n_columns > 1 and n_points > MAX_DENSE:
        raise ValueError(
            f"y_proba has {n_points} distinct rows, but estimator='quadratic' computes all pairs of "
            f"them for three or more classes, at most {MAX_DENSE} rows. Use estimator='block'."
        )
    pairs = float(sample.total) * (sample.total - 1.0)
    observed, deviation = np.zeros(bandwidths.shape[0]), np.zeros(bandwidths.shape[0])
    null = np.zeros((bandwidths.shape[0], n_draws))
    seed = generator.integers(1 << 32, size=4).tolist()
    for scale, bandwidth in enumerate(bandwidths):
        form = kernel_form(sample.points, kernel, bandwidth)
        observed[scale] = _pair_sums(sample, form, sample.counts[np.newaxis])[0] / pairs
        variance = null_variance(sample.points, sample.weight, kernel, bandwidth)
        deviation[scale] = np.sqrt(variance) / pairs
        # the labels are the same for every bandwidth
        done = 0
        for counts in sample.draw(n_draws, np.random.default_rng(seed)):
            null[scale, done : done + counts.shape[0]] = _pair_sums(sample, form, counts) / pairs
            done += counts.shape[0]
    if sample.clusters is not None:
        # pairs of samples in a cluster shift the mean, the same for all samples that are compared
        mean, deviation = null.mean(axis=1), null.std(axis=1)
        observed, null = observed - mean, null - mean[:, np.newaxis]
    return Estimates(observed, deviation, null, observed[:, np.newaxis])


def _pair_sums(sample: KernelSample, form: Form, counts: Array) -> Array:
    """Return sum_{i != j} kappa_ij <r_i, r_j> over samples for counts (r, G, C): (r,)."""
    n_draws, n_points, n_columns = counts.shape
    residual = sample.residuals(counts).reshape(-1, n_points)
    return form(residual).reshape(n_draws, n_columns).sum(axis=1) - sample.squares(counts)


def assign_blocks(
    sample: KernelSample, block_size: int, generator: np.random.Generator
) -> tuple[NDArray[np.intp], Labels]:
    """Return the point and the label of the samples of each block, shape (m, block_size).

    Samples are shuffled, so that their order does not matter and blocks do not depend on labels. Samples that
    do not fill a block are left out. The label of a binary problem is 1 or 0.
    """
    n, n_columns = sample.total, sample.points.shape[1]
    if n > _MOST_SAMPLES:
        raise ValueError(
            f"sample_weight stands for {n} samples, which exceeds the limit of {_MOST_SAMPLES} for blocks. "
            "Use estimator='quadratic'."
        )
    counts = sample.counts
    if n_columns == 1:
        counts = np.hstack((sample.weight[:, np.newaxis] - counts, counts))
    category_of = np.repeat(np.arange(counts.size), counts.ravel().astype(np.int64))
    m = n // block_size
    chosen = category_of[generator.permutation(n)[: m * block_size]].reshape(m, block_size)
    return chosen // counts.shape[1], (chosen % counts.shape[1]).astype(np.int64)


def block_estimates(
    sample: KernelSample,
    kernel: str,
    bandwidths: Array,
    block_size: int,
    n_draws: int,
    generator: np.random.Generator,
) -> Estimates:
    """Return the block estimator, the mean over blocks of the quadratic estimators of their samples."""
    point, label = assign_blocks(sample, block_size, generator)
    n_blocks, n_columns = point.shape[0], sample.points.shape[1]
    pairs = block_size * (block_size - 1.0)
    terms = np.zeros((bandwidths.shape[0], n_blocks))
    variance = np.zeros(bandwidths.shape[0])
    null = np.zeros((bandwidths.shape[0], n_draws))
    step = max(1, _WORK // (block_size * max(block_size, min(n_draws, _DRAWS) * n_columns)))
    for start in range(0, n_blocks, step):
        here = slice(start, start + step)
        p = sample.points[point[here]]
        kappas = [kernel_matrix(p, p, kernel, bandwidth) for bandwidth in bandwidths]
        residual = _residuals(p, label[here][np.newaxis])
        covariance = covariance_products(p)
        for scale, (kappa, bandwidth) in enumerate(zip(kappas, bandwidths, strict=True)):
            terms[scale, here] = _block_sums(kappa, residual)[:, 0] / pairs
            narrow = powered_bandwidth(kernel, bandwidth, 2)
            product = kernel_matrix(p, p, kernel, narrow) * covariance
            product[:, np.arange(block_size), np.arange(block_size)] = 0.0
            variance[scale] += 2.0 * product.sum()
        for first in range(0, n_draws, _DRAWS):
            r = min(_DRAWS, n_draws - first)
            redrawn = _residuals(p, _draw_labels(p, r, generator))
            for scale, kappa in enumerate(kappas):
                sums = _block_sums(kappa, redrawn).sum(axis=0)
                null[scale, first : first + r] += sums / (pairs * n_blocks)
    deviation = np.sqrt(np.maximum(variance, 0.0)) / (pairs * n_blocks)
    return Estimates(terms.mean(axis=1), deviation, null, terms)


def _draw_labels(p: Array, n_draws: int, generator: np.random.Generator) -> Labels:
    """Return labels simulated from probabilities (m, B, C), shape (r, m, B)."""
    if p.shape[-1] == 1:
        return (generator.random((n_draws, *p.shape[:-1])) < p[..., 0]).astype(np.int64)
    rows = p.reshape(-1, p.shape[-1])
    return np.concatenate(list(sample_labels(rows, n_draws, generator))).reshape(n_draws, *p.shape[:-1])


def _residuals(p: Array, label: Labels) -> Array:
    """Return one-hot labels (r, m, B) minus predictions p (m, B, C), shape (r, m, B, C)."""
    if p.shape[-1] == 1:
        return label[..., np.newaxis] - p
    return (label[..., np.newaxis] == np.arange(p.shape[-1])) - p


def _block_sums(kappa: Array, residual: Array) -> Array:
    """Return sum_{i != j} kappa_ij <r_i, r_j> of each block and simulation, shape (m, r)."""
    n_draws, n_blocks, size, n_columns = residual.shape
    r = residual.transpose(1, 2, 0, 3).reshape(n_blocks, size, -1)
    form = np.einsum("bij,bij->bj", kappa @ r, r) - np.einsum("bij,bij->bj", r, r)
    return np.asarray(form.reshape(n_blocks, n_draws, n_columns).sum(axis=2))
