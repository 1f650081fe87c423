"""Lower distance to calibration as a flow along the line, and interval calibration error."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from sklearn_calib._core._binning import bin_starts
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._typing import Array


def gather(grouped: GroupedOutcomes, n_bins: int) -> tuple[GroupedOutcomes, float]:
    """Return one group per bin at the mean prediction, and the mean distance that predictions moved."""
    number, starts = grouped.prob.shape[0], bin_starts(grouped, n_bins, "uniform")
    pooled = grouped.pooled(starts)
    moved = np.abs(grouped.prob - np.repeat(pooled.prob, np.diff(starts, append=number)))
    return pooled, float(grouped.weight @ moved) / grouped.total


def transport_distance(grouped: GroupedOutcomes, targets: Array) -> float:
    """Return the smallest mean distance by which samples must move to become calibrated at the targets.

    Samples move along the line and may be divided. If mass t_j ends at target u_j, its positive part is
    u_j t_j and its negative part (1 - u_j) t_j. With F(j) (G(j)) the flow of positive (negative) mass from
    node j to node j + 1, split by direction so that it is non-negative, this is the linear program

        min  sum_j gap_j (F+_j + F-_j + G+_j + G-_j)
        s.t. supply1_j + F_{j-1} - F_j = u_j t_j,  supply0_j + G_{j-1} - G_j = (1 - u_j) t_j,  t >= 0,

    with t_j = 0 at nodes that are not targets: O(nodes) variables and entries. The targets contain 0 and 1.
    """
    nodes = np.unique(np.concatenate((grouped.prob, targets)))
    n, m = nodes.shape[0], targets.shape[0]
    place = np.searchsorted(nodes, grouped.prob)
    supply = np.zeros((2, n))
    supply[0, place] = grouped.positives / grouped.total
    supply[1, place] = (grouped.weight - grouped.positives) / grouped.total
    goal = np.searchsorted(nodes, targets)
    edge = np.arange(n - 1)
    rows, columns, values = [], [], []

    def add(row: NDArray[np.intp], column: NDArray[np.intp], value: Array) -> None:
        rows.append(row)
        columns.append(column)
        values.append(value)

    column = np.arange(m)
    for kind, fraction in enumerate((targets, 1.0 - targets)):
        add(kind * n + goal, column, fraction)
        for way, sign in enumerate((1.0, -1.0)):
            flow = m + (2 * kind + way) * (n - 1) + edge
            add(kind * n + edge, flow, np.full(n - 1, sign))
            add(kind * n + edge + 1, flow, np.full(n - 1, -sign))
    size = m + 4 * (n - 1)
    matrix = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(2 * n, size)
    )
    cost = np.concatenate((np.zeros(m), np.tile(np.diff(nodes), 4)))
    solution = linprog(cost, A_eq=matrix.tocsc(), b_eq=supply.ravel(), bounds=(0, None), method="highs")
    if solution.status != 0:  # pragma: no cover - the program has a finite optimum
        raise RuntimeError(f"the linear program of the distance was not solved: {solution.message}")
    return max(float(solution.fun), 0.0)


def interval_error(grouped: GroupedOutcomes, n_bins: int) -> float:
    """Return min over partitions into intervals of sum (absolute residual + weight times width) / n.

    Dynamic programming over the last interval, O(m^2); intervals start and end at predictions. If there are
    more than ``n_bins`` distinct predictions, those in the same of ``n_bins`` bins are not separated.
    """
    m = grouped.prob.shape[0]
    starts = bin_starts(grouped, n_bins, "uniform") if m > n_bins else np.arange(m)
    low, high = grouped.prob[starts], grouped.prob[np.append(starts[1:], m) - 1]
    residual = np.concatenate(([0.0], np.cumsum(np.add.reduceat(grouped.residual, starts))))
    weight = np.concatenate(([0.0], np.cumsum(np.add.reduceat(grouped.weight, starts))))
    best = np.zeros(starts.shape[0] + 1)
    for j in range(1, starts.shape[0] + 1):
        width = high[j - 1] - low[:j]
        last = np.abs(residual[j] - residual[:j]) + (weight[j] - weight[:j]) * width
        best[j] = np.min(best[:j] + last)
    return float(best[-1] / grouped.total)
