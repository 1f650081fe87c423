"""Estimates of the squared kernel calibration error, and their values for simulated labels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._clusters import Clusters, clusters_of_classes
from sklearn_calib._core._grouping import GroupedOutcomes, group_sample, group_starts
from sklearn_calib._core._kernel import MAX_DENSE, Form, kernel_form, null_variance
from sklearn_calib._core._null import MAX_ELEMENTS, draw_positives, sample_labels
from sklearn_calib._core._weights import written_out
from sklearn_calib._typing import Array
from sklearn_calib._validation import BinarySample, ClassSample
from sklearn_calib.inference._testing._simulated import VarianceRatio


@dataclass(frozen=True, eq=False)
class KernelSample:
    """Distinct predictions in increasing order, with the number of samples and of samples of each class.

    ``points`` and ``counts`` have one column per class; in a binary problem one for the positive class.
    """

    points: Array
    weight: Array
    counts: Array
    # sampling weights of the samples of each point, of which some are tied
    scale: Array
    clusters: Clusters | None = None
    # binary samples
    grouped: GroupedOutcomes | None = None
    # multiclass samples with clusters: the point of each sample
    point: NDArray[np.intp] | None = None

    @classmethod
    def from_binary(cls, sample: BinarySample) -> "KernelSample":
        """Group outcomes by their prediction."""
        grouped = group_sample(sample)
        cells = grouped.samples
        scale = np.ones_like(cells.prob) if grouped.design is None else grouped.design.weight
        points, counts = cells.prob[:, np.newaxis], cells.positives[:, np.newaxis]
        return cls(points, cells.weight, counts, scale, cells.clusters, cells)

    @classmethod
    def from_classes(cls, sample: ClassSample) -> "KernelSample":
        """Group labels by their vector of probabilities."""
        scale = sample.weights if sample.sampling else np.ones(sample.y.shape[0])
        order = np.lexsort((scale, *sample.p.T[::-1]))
        p, y, scale = sample.p[order], sample.y[order], scale[order]
        w = np.ones_like(scale) if sample.sampling else sample.weights[order]
        changes = np.any(p[1:] != p[:-1], axis=1) | (scale[1:] != scale[:-1])
        group = np.concatenate(([0], np.cumsum(changes)))
        starts = group_starts(group)
        counts = np.zeros((starts.shape[0], p.shape[1]))
        np.add.at(counts, (group, y), w)
        found = cls(p[starts], np.add.reduceat(w, starts), counts, scale[starts])
        if sample.clusters is None:
            return found
        rows = written_out(w)
        clusters = clusters_of_classes(y[rows], p[rows], sample.clusters[order[rows]])
        return replace(found, clusters=clusters, point=group[rows])

    @property
    def probabilities(self) -> Array:
        """The predictions of ``clusters``: of points, or of multiclass samples."""
        return self.points[:, 0] if self.point is None else self.points[self.point]

    @property
    def total(self) -> int:
        """Number of samples."""
        return int(self.weight.sum())

    def squares(self, counts: Array) -> Array:
        """Return the sum over samples of squared residuals for counts (r, G, C): (r,).

        No term is negative: the rounding error of differences could exceed the contribution of rare events.
        """
        weight = np.square(self.scale)[:, np.newaxis]
        square, opposite = weight * np.square(self.points), weight * np.square(1.0 - self.points)
        if square.shape[1] == 1:
            column = counts[:, :, 0]
            return np.asarray(column @ opposite[:, 0] + (self.weight - column) @ square[:, 0])
        others = square @ (1.0 - np.eye(square.shape[1]))
        return np.asarray(np.einsum("rgc,gc->r", counts, opposite + others))

    def draw(self, n_draws: int, generator: np.random.Generator) -> Iterator[Array]:
        """Yield counts (r, G, C) of labels simulated from the predictions, ``n_draws`` in all."""
        n_points, n_columns = self.points.shape
        if self.grouped is not None:
            for positives in draw_positives(self.grouped, n_draws, generator):
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

    def estimates(
        self, bandwidths: Array, n_draws: int, generator: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Return the mean of h over all pairs of samples, the unbiased estimator, at each bandwidth.

        Then its standard deviation under the null hypothesis, given the predictions, and its values for
        simulated labels, (bandwidths, n_draws).
        """
        n_points, n_columns = self.points.shape
        if n_columns > 1 and n_points > MAX_DENSE:
            raise ValueError(
                f"y_proba has {n_points} distinct rows, but the test computes all pairs of them for three or "
                f"more classes, at most {MAX_DENSE} rows. Pass a random subset of the samples, or use TCal."
            )
        # a single sample has no pair
        pairs = max(float(self.total) * (self.total - 1.0), 1.0)
        observed, deviation = np.zeros((2, bandwidths.shape[0]))
        null = np.zeros((bandwidths.shape[0], n_draws))
        spread = VarianceRatio.of(self.points, self.weight, self.counts, self.scale)
        seed = generator.integers(1 << 32, size=4).tolist()
        for scale, bandwidth in enumerate(bandwidths):
            form = kernel_form(self.points, bandwidth)
            observed[scale] = self._pair_sums(form, self.counts[np.newaxis])[0] / pairs
            variance = null_variance(self.points, self.weight, bandwidth, self.scale)
            deviation[scale] = np.sqrt(variance) / pairs * spread.own
            # the labels are the same for every bandwidth
            drawn = self.draw(n_draws, np.random.default_rng(seed))
            if n_draws:
                values = [
                    self._pair_sums(form, counts) * spread.relative(counts.reshape(counts.shape[0], -1).T)
                    for counts in drawn
                ]
                null[scale] = np.concatenate(values) / pairs
        if self.clusters is not None:
            # pairs of samples in a cluster shift the mean, the same for all samples that are compared
            mean, deviation = null.mean(axis=1), null.std(axis=1)
            observed, null = observed - mean, null - mean[:, np.newaxis]
        return observed, deviation, null

    def _pair_sums(self, form: Form, counts: Array) -> Array:
        """Return sum_{i != j} kappa_ij <r_i, r_j> over samples for counts (r, G, C): (r,)."""
        n_draws, n_points, n_columns = counts.shape
        residual = np.moveaxis(counts - self.weight[:, np.newaxis] * self.points, 2, 1) * self.scale
        forms = form(residual.reshape(-1, n_points)).reshape(n_draws, n_columns).sum(axis=1)
        out: Array = forms - self.squares(counts)
        return out
