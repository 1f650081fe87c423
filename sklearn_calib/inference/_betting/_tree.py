"""Betting strategies on the bins of nested partitions, and the arithmetic of bets in logarithms."""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._typing import Array

Bins = NDArray[np.uint8]

# Levels of the tree: level d cuts the arcsine axis into 3**d equal bins. Three, not two, so that no bin
# ends at 1/2 and the mirror image of a bin is a bin.
_DEPTH = 4
_SHIFTS = np.array([-1.0, -0.3, 0.3, 1.0])
# Initial wealth of the strategies within a bin: each fixed shift, the learned shift, and no shift.
_LOG_PRIOR = np.log(np.append(np.full(len(_SHIFTS), 1.0 / (3.0 * len(_SHIFTS))), (1.0 / 3.0, 1.0 / 3.0)))
_MOST_LEARNED = 1.0
_PRIOR_VARIANCE = 1.0
_LOG_HALF = float(np.log(0.5))
#: Bins of the finest level.
N_BINS = 3**_DEPTH


class BettingTree:
    """Betting strategies on the bins of nested partitions, mixed over all prunings of their tree.

    The wealth of a bin is halved: one half is bet on the bin as a whole, the other half is passed to its
    three sub-bins, whose wealths are multiplied. Level by level from the leaves to the root.
    """

    def __init__(self) -> None:
        sizes = [3**d for d in range(_DEPTH + 1)]
        self.moments = [np.zeros((2, m)) for m in sizes]
        self.log_wealths = [np.zeros((len(_SHIFTS) + 1, m)) for m in sizes]
        self.log_totals = [np.zeros((1, m)) for m in sizes]

    def advance(
        self, y: NDArray[np.int64], p: Array, sign: Array, signed: Array, base: Array, bin_of: Bins
    ) -> Array:
        """Return the log-wealth of the root after each sample."""
        moments = np.stack((y - p, p * (1.0 - p)))
        fixed = base - softplus(-(signed + np.multiply.outer(_SHIFTS, sign)))
        gains = np.empty((len(_SHIFTS) + 1, sign.shape[0]))
        gained = handed_on = np.empty((1, 0))
        for level in range(_DEPTH, -1, -1):
            groups = _Groups(bin_of // 3 ** (_DEPTH - level))
            order = groups.order
            seen = groups.running(moments[:, order], self.moments[level])
            residual, variance = groups.before(seen, self.moments[level])
            shift = _learned_shift(residual, variance)
            gains[:-1] = fixed[:, order]
            gains[-1] = base[order] - softplus(-(signed[order] + shift * sign[order]))
            wealths = groups.running(gains, self.log_wealths[level])
            total = np.logaddexp.reduce(np.vstack((wealths, np.zeros_like(shift))) + _LOG_PRIOR[:, None])[
                None
            ]
            if level < _DEPTH:
                within = groups.running(gained[:, order], handed_on)
                total = np.logaddexp(total, within) + _LOG_HALF
            totals = self.log_totals[level]
            gained = np.empty_like(total)
            gained[:, order] = total - groups.before(total, totals)
            if level:
                handed_on = totals.reshape(1, -1, 3).sum(axis=2)
            groups.store(seen, self.moments[level])
            groups.store(wealths, self.log_wealths[level])
            groups.store(total, totals)
        return total[0]  # all samples are in one group, in order


class BatchTrees:
    """Several such trees that bet on all samples of a batch at once, with what they learned before it."""

    def __init__(self, n_trees: int) -> None:
        sizes = [3**d for d in range(_DEPTH + 1)]
        self._moments = [np.zeros((n_trees, 2, m)) for m in sizes]
        self._log_wealths = [np.zeros((n_trees, len(_SHIFTS) + 1, m)) for m in sizes]

    def replace(self, k: int) -> None:
        """Put a new tree in the place of tree ``k``."""
        for values in (*self._moments, *self._log_wealths):
            values[k] = 0.0

    def begin(self) -> None:
        """Begin a batch: all bets are made."""
        self._shifts = [_learned_shift(both[:, 0], both[:, 1]) for both in self._moments]
        self._new_moments = np.zeros((2, N_BINS))
        self._fixed = np.zeros((len(_SHIFTS), N_BINS))
        self._learned = [np.zeros(shift.shape) for shift in self._shifts]

    def add(
        self,
        residual: Array,
        variance: Array,
        weight: Array,
        sign: Array,
        signed: Array,
        base: Array,
        bin_of: Bins,
    ) -> None:
        """Add samples to the batch, each ``weight`` times."""
        fixed = base - softplus(-(signed + np.multiply.outer(_SHIFTS, sign)))
        self._new_moments += _sums(bin_of, np.stack((residual, variance)) * weight, N_BINS)
        self._fixed += _sums(bin_of, fixed * weight, N_BINS)
        for level, (shift, learned) in enumerate(zip(self._shifts, self._learned, strict=True)):
            within = bin_of // 3 ** (_DEPTH - level)
            gain = base - softplus(-(signed + shift[:, within] * sign))
            learned += _sums(within, gain * weight, 3**level)

    def close(self) -> Array:
        """Settle the bets on what was added; return the log-wealth of each root."""
        inner = np.empty(0)
        for level in range(_DEPTH, -1, -1):
            self._moments[level] += self._new_moments.reshape(2, 3**level, -1).sum(axis=2)
            wealths = self._log_wealths[level]
            wealths[:, :-1] += self._fixed.reshape(len(_SHIFTS), 3**level, -1).sum(axis=2)
            wealths[:, -1] += self._learned[level]
            owned = np.concatenate((wealths, np.zeros_like(wealths[:, :1])), axis=1) + _LOG_PRIOR[:, None]
            total = np.logaddexp.reduce(np.moveaxis(owned, 1, 0))
            if level < _DEPTH:
                within = inner.reshape(total.shape[0], 3**level, 3).sum(axis=2)
                total = np.logaddexp(total, within) + _LOG_HALF
            inner = total
        return inner[:, 0]


class _Groups:
    """Samples grouped by bin, in temporal order within each, for sums that continue earlier ones."""

    def __init__(self, bin_of: Bins) -> None:
        self.order = np.argsort(bin_of, kind="stable")
        ordered = bin_of[self.order]
        self._starts = np.append(0, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
        self._lasts = np.append(self._starts[1:], bin_of.shape[0]) - 1
        self._occupied = ordered[self._starts]
        self._lengths = self._lasts - self._starts + 1

    def running(self, values: Array, carry: Array) -> Array:
        """Return the sums of ordered ``values`` (k, n) up to each sample in its bin, plus ``carry``."""
        out: Array = np.cumsum(values, axis=1)
        level = carry[:, self._occupied]
        level[:, 1:] -= out[:, self._lasts[:-1]]
        out += np.repeat(level, self._lengths, axis=1)
        return out

    def before(self, after: Array, carry: Array) -> Array:
        """Return the values one sample earlier in the same bin; ``carry`` for the first."""
        out = np.empty_like(after)
        out[:, 1:] = after[:, :-1]
        out[:, self._starts] = carry[:, self._occupied]
        return out

    def store(self, after: Array, carry: Array) -> None:
        """Write the values after the last sample of each bin to ``carry``."""
        carry[:, self._occupied] = after[:, self._lasts]


def _sums(bin_of: Bins, values: Array, n_bins: int) -> Array:
    """Return the sum of each row of ``values`` (k, n) over each bin."""
    place = bin_of + n_bins * np.arange(values.shape[0])[:, None]
    sums: Array = np.bincount(place.ravel(), values.ravel(), values.shape[0] * n_bins).astype(np.float64)
    return sums.reshape(-1, n_bins)


def smallest_bin(p: Array) -> Bins:
    """Return the finest bin that contains each forecast."""
    return np.minimum((np.arcsin(np.sqrt(p)) * (2.0 / np.pi) * 3**_DEPTH).astype(np.uint8), 3**_DEPTH - 1)


def _learned_shift(residual: Array, variance: Array) -> Array:
    """Return the shift of the log-odds estimated from past residuals."""
    shift: Array = np.clip(residual / (variance + _PRIOR_VARIANCE), -_MOST_LEARNED, _MOST_LEARNED)
    return shift


@np.errstate(under="ignore")
def softplus(z: Array) -> Array:
    """Return log(1 + exp(z)), minus the log of a probability; half the time of ``np.logaddexp(0, z)``."""
    out: Array = np.log1p(np.exp(-np.abs(z)))
    out += np.maximum(z, 0.0)
    return out
