"""T-Cal for several classes by Monte Carlo: statistics of redrawn labels over partitions of the simplex."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_calib._core._alcoves import SharedCells, shared_alcoves
from sklearn_calib._core._null import sample_labels, spawn
from sklearn_calib.inference._tcal_draws import Draws

__all__ = ["draw_class_labels", "draw_class_pairs", "draw_plug_in", "nested_alcoves"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def nested_alcoves(p: Array, n_bins: Array) -> list[SharedCells]:
    """Return the shared cells for each number of bins per axis; each one divides the next."""
    partitions: list[SharedCells] = []
    among = None
    for m in n_bins:
        cells = shared_alcoves(p, float(m), among) if among is None or among.size else partitions[-1]
        partitions.append(cells)
        among = cells.rows
    return partitions


@dataclass(frozen=True, eq=False)
class _Level:
    """What the statistic of one partition needs: per row its cell and the cell's residual offsets."""

    rows: NDArray[np.intp]
    cell: NDArray[np.intp]
    inverse: Array
    expected: Array

    @classmethod
    def of(cls, cells: SharedCells, p: Array) -> "_Level":
        cell = np.repeat(np.arange(cells.count.shape[0]), cells.count)
        expected = np.add.reduceat(p[cells.rows], cells.starts, axis=0)
        return cls(cells.rows, cell, 1.0 / cells.count, expected)

    def squared_sums(self, y: Labels) -> Array:
        """Return the sum over cells of the squared residual sum over |I|, for labels of shape (r, n).

        With counts N and expected counts E of a cell it is N.N - 2 N.E + E.E, and N.E a sum over rows.
        """
        r, (n_cells, n_classes) = y.shape[0], self.expected.shape
        label = y[:, self.rows]
        place = self.cell * n_classes + label
        cross = _sums(self.expected.ravel()[place], self.inverse[self.cell])
        constant = float(np.square(self.expected).sum(axis=1) @ self.inverse)
        if n_cells * n_classes <= 8 * self.rows.shape[0]:
            place += (np.arange(r) * (n_cells * n_classes))[:, np.newaxis]
            counts = np.bincount(place.ravel(), minlength=r * n_cells * n_classes)
            squares = _sums(np.square(counts.reshape(r, n_cells, n_classes)).sum(axis=2), self.inverse)
        else:
            squares = np.array([self._squares_of_runs(draw, n_classes) for draw in np.sort(place, axis=1)])
        out: Array = squares - 2.0 * cross + constant
        return out

    def _squares_of_runs(self, place: NDArray[np.int64], n_classes: int) -> float:
        """Return sum N.N/|I| from sorted places, for tables too sparse to be written out."""
        begins = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
        runs = np.diff(begins, append=place.shape[0]).astype(np.float64)
        return float(runs**2 @ self.inverse[place[begins] // n_classes])

    def absolute_sums(self, y: Labels) -> Array:
        """Return the sum over cells of the absolute residual sums of all classes."""
        n_cells, n_classes = self.expected.shape
        place = self.cell * n_classes + y[:, self.rows]
        return np.array(
            [
                np.abs(np.bincount(draw, minlength=n_cells * n_classes) - self.expected.ravel()).sum()
                for draw in place
            ]
        )


def _sums(terms: Array, weights: Array | float = 1.0) -> Array:
    """Return the weighted sum of each row, the same for the same row whatever stands beside it.

    A matrix product is not: by rounding, a sample could then differ from draws of the very same labels.
    """
    out: Array = np.multiply(terms, weights, order="C").sum(axis=1)
    return out


def _row_squares(p: Array, y: Labels) -> Array:
    """Return the squared norm of the residual of each row, shape (r, n)."""
    out: Array = 1.0 - 2.0 * p[np.arange(p.shape[0]), y] + np.square(p).sum(axis=1)
    return out


def draw_class_labels(
    partitions: list[SharedCells],
    y: Labels,
    p: Array,
    law: Array,
    variance: Array,
    n_resamples: int,
    generator: np.random.Generator,
) -> Draws:
    """Redraw the labels from ``law``; T of every partition around ``law``, and of the sample around ``p``."""

    def statistics(labels: Labels, levels: list[_Level], centre: Array) -> Array:
        squares = _row_squares(centre, labels)
        values = [
            level.squared_sums(labels) - _sums(squares[:, level.rows], level.inverse[level.cell])
            for level in levels
        ]
        out: Array = np.array(values).T / p.shape[0]
        return out

    around = [_Level.of(cells, law) for cells in partitions]
    observed = statistics(
        y[np.newaxis], around if law is p else [_Level.of(cells, p) for cells in partitions], p
    )
    drawn = [statistics(labels, around, law) for labels in sample_labels(law, n_resamples, generator)]
    values = np.concatenate((observed, *drawn))
    deviation = np.sqrt(variance)
    z = values / deviation
    return Draws(values[0], z[0], deviation, values[1:], z[1:])


def draw_plug_in(
    partitions: list[SharedCells],
    y: Labels,
    p: Array,
    norm: str,
    n_resamples: int,
    generator: np.random.Generator,
) -> Draws:
    """Redraw the labels; plug-in statistics that are not debiased, "biased" (squared l2) or "l1".

    z is centred and scaled by mean and deviation of the observed and drawn statistics together, which their
    exchangeability under the null hypothesis allows.
    """
    levels = [_Level.of(cells, p) for cells in partitions]

    def statistics(labels: Labels) -> Array:
        # rows that are alone in their cell
        if norm == "l1":
            row = 2.0 * (1.0 - p[np.arange(p.shape[0]), labels])
            values = [
                level.absolute_sums(labels) + _sums(row) - _sums(row[:, level.rows]) for level in levels
            ]
        else:
            row = _row_squares(p, labels)
            values = [level.squared_sums(labels) + _sums(row) - _sums(row[:, level.rows]) for level in levels]
        out: Array = np.array(values).T / p.shape[0]
        return out

    return Draws.pooled(
        np.concatenate(
            [statistics(y[np.newaxis]), *map(statistics, sample_labels(p, n_resamples, generator))]
        )
    )


def draw_class_pairs(
    partitions: list[SharedCells],
    y: Labels,
    p: Array,
    n_resamples: int,
    generator: np.random.Generator,
) -> Draws:
    """Redraw predictions with replacement, and labels from them; z as in :func:`draw_plug_in`."""
    n = p.shape[0]
    codes = []
    for cells in partitions:
        # rows alone in their cell can still be drawn twice
        code = np.arange(n) + cells.count.shape[0]
        code[cells.rows] = np.repeat(np.arange(cells.count.shape[0]), cells.count)
        codes.append(code)

    def statistics(rows: NDArray[Any], labels: Labels) -> Array:
        residual = -p[rows]
        residual[np.arange(n), labels] += 1.0
        squares = np.square(residual).sum(axis=1)
        values = []
        for code in codes:
            _, cell, count = np.unique(code[rows], return_inverse=True, return_counts=True)
            adder = csr_array((np.ones(n), (cell.ravel(), np.arange(n))), shape=(count.shape[0], n))
            x = np.square(adder @ residual).sum(axis=1) - adder @ squares
            values.append(float((x / count)[count > 1].sum()) / n)
        return np.array(values)

    choice, outcome = spawn(generator, 2)
    drawn = [statistics(np.arange(n), y)]
    for _ in range(n_resamples):
        rows = choice.integers(n, size=(n,))
        (labels,) = sample_labels(p[rows], 1, outcome)
        drawn.append(statistics(rows, labels[0]))
    return Draws.pooled(np.array(drawn))
