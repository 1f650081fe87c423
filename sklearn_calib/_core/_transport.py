"""Lower distance to calibration as a flow along the line, and interval calibration error."""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded

from sklearn_calib._core._binning import bin_starts
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._typing import Array

# Duality gap of a solution, which is twice its largest error, and fractions of the samples that are ignored:
# those of an outcome at one prediction, and of an outcome.
_GAP, _NO_MASS, _RAREST = 1e-10, 1e-15, 1e-9
# What is added to the diagonal, relatively, so that rounding errors leave the matrix positive definite.
_RIDGE = 2e-15
# Steps go this far to the boundary; they are limited in number; and so many programs are solved together.
_WAY, _MOST_STEPS, _TOGETHER = 0.9995, 200, 16
# Of no more groups than this, all intervals are evaluated. Sums are rounded by less than the second number.
_FEW_GROUPS, _ROUNDING = 64, 1e-9


def gather(grouped: GroupedOutcomes, n_bins: int) -> tuple[GroupedOutcomes, float]:
    """Return one group per bin at the mean prediction, and the mean distance that predictions moved."""
    number, starts = grouped.prob.shape[0], bin_starts(grouped, n_bins, "uniform")
    pooled = grouped.pooled(starts)
    moved = np.abs(grouped.prob - np.repeat(pooled.prob, np.diff(starts, append=number)))
    return pooled, float(grouped.weight @ moved) / grouped.total


class _Programs:
    """The linear programs of the lower distance of several samples, solved together.

    If mass t_j ends at the target u_j = j / n_bins, its positive part is u_j t_j and its negative part
    (1 - u_j) t_j. Each mass of an outcome at a prediction goes to the targets j and j + 1 beside it, at the
    distances l and r, in two parts; flows of positives and of negatives between neighboring targets do the
    rest. The dual has potentials f_j and g_j of positives and negatives at the targets, and h of each mass a:

        max  sum a h  s.t.  u_j f_j + (1 - u_j) g_j <= 0,  |f_{j+1} - f_j| <= 1 / n_bins,
                            h <= f_j + l,  h <= f_{j+1} + r,  and the same with g.

    Variables x of the primal and slacks z of the dual are those of t, of flows to the left and to the right,
    and of the left and the right part of each mass; of each, those of one sample follow those of another.
    """

    def __init__(self, samples: Sequence[GroupedOutcomes], n_bins: int) -> None:
        self.r, self.n_bins, grid = len(samples), n_bins, np.arange(n_bins + 1) / n_bins
        self.share = np.stack((grid, 1.0 - grid), axis=1)
        sample, prob, kind, mass = [], [], [], []
        for number, each in enumerate(samples):
            masses = np.stack((each.positives, each.weight - each.positives), axis=1) / each.total
            rows, columns = np.nonzero(masses > _NO_MASS)
            sample.append(np.full(rows.shape[0], number))
            prob.append(each.prob[rows])
            kind.append(columns)
            mass.append(masses[rows, columns])
        place, self.mass = np.concatenate(prob), np.concatenate(mass)
        cell = np.minimum((place * n_bins).astype(np.intp), n_bins - 1)
        # the index of f_j or g_j among (samples, targets, 2); that of f_{j+1} is larger by 2
        self.at = 2 * ((n_bins + 1) * np.concatenate(sample) + cell) + np.concatenate(kind)
        self.near, self.far = np.maximum([place - grid[cell], grid[cell + 1] - place], 0.0)
        n_masses = [each.shape[0] for each in mass]
        self.first = np.cumsum(n_masses) - n_masses
        counts = ([n_bins + 1] * self.r, [2 * n_bins] * self.r, [2 * n_bins] * self.r, n_masses, n_masses)
        lengths = np.concatenate(counts)
        self.starts = np.cumsum(lengths) - lengths
        self.sample = np.repeat(np.tile(np.arange(self.r), 5), lengths)

    def split(self, values: Array) -> list[Array]:
        """Return the values for t, both flows and both parts."""
        t, left, right, near, far = np.split(values, self.starts[self.r :: self.r])
        flow = self.r, self.n_bins, 2
        return [t.reshape(self.r, -1, 1), left.reshape(flow), right.reshape(flow), near, far]

    def reduced(self, reduce: np.ufunc, values: Array) -> Array:
        """Return the sum or maximum for each sample."""
        out: Array = reduce.reduce(reduce.reduceat(values, self.starts).reshape(5, self.r))
        return out

    def arriving(self, near: Array, far: Array) -> Array:
        """Return sums at the targets of values of the left and the right part of each mass."""
        size = self.r * self.share.size
        sums = np.bincount(self.at, near, size) + np.bincount(self.at + 2, far, size)
        return sums.astype(np.float64, copy=False).reshape(self.r, -1, 2)

    def sides(self, e: Array, f: Array, h: Array) -> Array:
        """Return the left sides of the constraints of the dual, e = u f + (1 - u) g among them."""
        step, flat = np.diff(f, axis=1).ravel(), f.ravel()
        return np.concatenate((e.ravel(), step, -step, h - flat[self.at], h - flat[self.at + 2]))

    def fraction(self, values: Array, change: Array) -> Array:
        """Return the largest fraction, at most 1, of a change after which no value is negative."""
        return 1.0 / np.maximum(self.reduced(np.maximum, -change / values), 1.0)

    def start(self) -> tuple[Array, Array, Array]:
        """Return x, z and f of feasible solutions in the interior."""
        f = np.full((self.r, self.n_bins + 1, 2), -0.1)
        flows = np.full(4 * self.r * self.n_bins, 1.0 / self.n_bins)
        bounds = np.concatenate((np.zeros(f.size // 2), flows, self.near, self.far))
        z = bounds - self.sides(f[:, :, 0], f, np.minimum(self.near, self.far) - 0.3)
        half = 0.5 * self.mass
        arrived = self.arriving(half, half)
        # the rarer outcome is spread over all targets, and what remains of either is at 1 or 0
        total = arrived.sum(axis=1)
        rarer = total.min(axis=1, keepdims=True)
        t = np.repeat(rarer / (self.n_bins + 1), self.n_bins + 1, axis=1)
        t[:, [-1, 0]] += total - 0.5 * rarer
        flow = np.cumsum(self.share * t[:, :, np.newaxis] - arrived, axis=1)[:, :-1].ravel()
        ways = np.maximum(flow, 0.0) + 0.05, np.maximum(-flow, 0.0) + 0.05
        return np.concatenate((t.ravel(), *ways, half, half)), z, f

    def solve(self) -> Array:
        """Return the distances, by Mehrotra's predictor-corrector method."""
        x, z, f = self.start()
        narrow = np.zeros(self.r, dtype=bool)
        # a central path on which x and z of few samples need not be extreme
        weight = np.sqrt(x * z)
        weight /= self.reduced(np.add, weight)[self.sample]
        for _ in range(_MOST_STEPS):
            gap = self.reduced(np.add, x * z)
            # rounding errors of the balance of masses are left to one more step
            done, narrow = narrow & (gap < _GAP), gap < _GAP
            if done.all():
                break
            newton = _Newton(self, x, z)
            dx, dz, _ = newton.step(np.zeros_like(x))
            after = [v + self.fraction(v, dv)[self.sample] * dv for v, dv in ((x, dx), (z, dz))]
            ahead = self.reduced(np.add, after[0] * after[1])
            target = np.maximum((ahead / gap) ** 3 * gap, 0.1 * _GAP)
            dx, dz, df = newton.step((target[self.sample] * weight - dx * dz) / z)
            along_x, along_z = (
                np.where(done, 0.0, _WAY * self.fraction(v, dv)) for v, dv in ((x, dx), (z, dz))
            )
            x, z = x + along_x[self.sample] * dx, z + along_z[self.sample] * dz
            f = f + along_z[:, np.newaxis, np.newaxis] * df
        else:  # pragma: no cover - about 15 steps are enough, and 50 if predictions and targets nearly agree
            raise RuntimeError(f"the linear program of the distance was not solved in {_MOST_STEPS} steps")
        ends = f.ravel()
        h = np.minimum(ends[self.at] + self.near, ends[self.at + 2] + self.far)
        value = np.add.reduceat(self.mass * h, self.first) + 0.5 * gap
        # of calibrated predictions it is exactly 0
        return np.where(value < _GAP, 0.0, value)


class _Newton:
    """Newton's equations of the programs at x and z, reduced to the potentials of the targets.

    They are those of a ladder: conductances between neighboring potentials of the same outcome, and one for
    e = u f + (1 - u) g of each target. Where the latter is large, e and f - g are the unknowns: rounding
    errors of a large conductance must not exceed a small one of the other direction.
    """

    def __init__(self, programs: _Programs, x: Array, z: Array) -> None:
        self.programs, self.x, self.ratio = programs, x, x / z
        self.target, left, right, near, far = programs.split(self.ratio)
        self.both = near + far
        self.part = near / self.both
        # the two parts of a mass are in series
        self.along = left + right + programs.arriving(self.part * far, np.zeros_like(far))[:, :-1]
        beside = np.zeros((programs.r, programs.n_bins + 1, 2))
        beside[:, :-1] += self.along
        beside[:, 1:] += self.along
        # f = a + p b, g = q a + s b, e = c a + d b: the unknowns a and b are f and g, or e and f - g
        turned, (u, v) = self.target[..., 0] > beside.max(axis=2), programs.share.T
        p, q, s = np.where(turned, v, 0.0), turned.astype(np.float64), np.where(turned, -u, 1.0)
        c, d = np.where(turned, 1.0, u), np.where(turned, 0.0, v)
        self.basis = p, q, s, c, d
        weight = self.target[..., 0]
        of_f, of_g, far_f, far_g = (each[..., k] for each in (beside, self.along) for k in (0, 1))
        band = np.zeros((4, *beside.shape))
        band[0, ..., 0] = (1.0 + _RIDGE) * (of_f + q * q * of_g + c * c * weight)
        band[0, ..., 1] = (1.0 + _RIDGE) * (p * p * of_f + s * s * of_g + d * d * weight)
        band[1, ..., 0] = p * of_f + q * s * of_g + c * d * weight
        p0, q0, s0, p1, q1, s1 = (each[:, part] for part in (np.s_[:-1], np.s_[1:]) for each in (p, q, s))
        band[1, :, :-1, 1] = -p0 * far_f - s0 * q1 * far_g
        band[2, :, :-1, 0] = -far_f - q0 * q1 * far_g
        band[2, :, :-1, 1] = -p0 * p1 * far_f - s0 * s1 * far_g
        band[3, :, :-1, 0] = -p1 * far_f - q0 * s1 * far_g
        self.factor = cholesky_banded(band.reshape(4, -1), lower=True, check_finite=False), True

    def solved(self, t: Array, rest: Array) -> tuple[Array, Array]:
        """Return f, with g, and e from what the masses and flows of t, and the others, lack."""
        p, q, s, c, d = self.basis
        of_f, of_g, of_t = rest[..., 0], rest[..., 1], t[..., 0]
        right = np.stack((of_f + q * of_g - c * of_t, p * of_f + s * of_g - d * of_t), axis=2)
        out = cho_solve_banded(self.factor, right.ravel(), check_finite=False).reshape(right.shape)
        a, b = out[..., 0], out[..., 1]
        return np.stack((a + p * b, q * a + s * b), axis=2), (c * a + d * b)[..., np.newaxis]

    def step(self, v: Array) -> tuple[Array, Array, Array]:
        """Return changes of x, z and f; that of x is v - x - x / z dz and balances all masses."""
        programs = self.programs
        t, left, right, near, far = programs.split(v)
        short = programs.mass - near - far
        rest = programs.arriving(near + self.part * short, far + (1.0 - self.part) * short)
        rest[:, :-1] += left - right
        rest[:, 1:] -= left - right
        df, de = self.solved(t, rest)
        # one step of iterative refinement
        pull = self.along * np.diff(df, axis=1)
        rest[:, :-1] += pull
        rest[:, 1:] -= pull
        refined = self.solved(t + self.target * de, rest)
        df, de = df + refined[0], de + refined[1]
        ends = df.ravel()
        dh = self.part * ends[programs.at] + (1.0 - self.part) * ends[programs.at + 2] + short / self.both
        dz = -programs.sides(de, df, dh)
        return v - self.x - self.ratio * dz, dz, df


def transport_distances(samples: Sequence[GroupedOutcomes], n_bins: int) -> Array:
    """Return the smallest mean distance by which each sample must move to become calibrated on a grid.

    Samples move along the line and may be divided; the targets are j / n_bins. The error is at most 1e-10,
    or 1e-9 if fewer than 1e-9 of the samples have one of the outcomes. About 15 steps, O(bins + predictions)
    each.
    """
    rates = np.array([each.positives.sum() / each.total for each in samples])
    # if there is only one outcome, all samples move to it
    distance = rates + [(each.weight - 2.0 * each.positives) @ each.prob / each.total for each in samples]
    mixed = np.flatnonzero(np.minimum(rates, 1.0 - rates) > _RAREST)
    for first in range(0, mixed.shape[0], _TOGETHER):
        chunk = mixed[first : first + _TOGETHER]
        distance[chunk] = _Programs([samples[i] for i in chunk], n_bins).solve()
    return distance


def interval_errors(low: Array, high: Array, weight: Array, residual: Array) -> Array:
    """Return min over partitions into intervals of sum (absolute residual + weight times width) / n.

    Intervals begin and end with a group, of predictions from ``low`` to ``high``. Columns of weights and
    residuals are samples. Dynamic programming over the last interval; those whose weight times width exceeds
    the sum of a coarser partition are left out.
    """
    m = low.shape[0]
    until, total = (np.insert(np.cumsum(part, axis=0), 0, 0.0, axis=0) for part in (weight, residual))
    first = np.zeros(m, dtype=np.intp)
    if m > _FEW_GROUPS:
        begins = np.arange(0, m, 8)
        sums = (np.add.reduceat(part, begins) for part in (weight, residual))
        most = interval_errors(low[begins], high[np.append(begins[1:], m) - 1], *sums)
        most *= (1.0 + _ROUNDING) * until[-1]
        # bisection for the first group from which an interval can reach each group, in any of the samples
        beyond = np.arange(m)
        while (first < beyond).any():
            middle = (first + beyond) // 2
            size = (until[1:] - until[middle]) * (high - low[middle])[:, np.newaxis]
            possible = (size <= most).any(axis=1)
            first, beyond = np.where(possible, first, middle + 1), np.where(possible, middle, beyond)
    best = np.zeros_like(total)
    for j in range(m):
        some = slice(first[j], j + 1)
        costs = np.abs(total[j + 1] - total[some])
        costs += (until[j + 1] - until[some]) * (high[j] - low[some])[:, np.newaxis]
        costs += best[some]
        best[j + 1] = costs.min(axis=0)
    return np.asarray(best[-1] / until[-1])
