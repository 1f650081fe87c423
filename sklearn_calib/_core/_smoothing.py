"""Gaussian smoothing through cosine series.

The Gaussian kernel reflected at both ends of [0, 1] is diagonal in the cosine basis. A weighted sum of point
masses ``a_i`` at ``x_i``, smoothed at scale s, is

    g(t) = c_0 + 2 sum_{k>=1} exp(-(pi k s)^2 / 2) c_k cos(pi k t),      c_k = sum_i a_i cos(pi k x_i),

which contains all reflections and costs O(n) once, then O(K log K) for each s with K of order 1/s.
Smoothing on the whole line is the same computation on an interval that extends far enough beyond the data
for the reflections to vanish.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, dst, next_fast_len

from sklearn_calib._core._binning import bin_offsets
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import CHUNK, group_starts
from sklearn_calib._core._links import logit
from sklearn_calib._typing import Array, Codes

# an array, or what computes slices of one
Positions = Any

#: A Gaussian is zero in double precision beyond this many standard deviations.
TAIL = 8.6
#: Scales below this are not resolved; 2**-14 of the unit interval.
SMALLEST_SCALE = 2.0**-14
#: On the unit interval, reflected at its ends, a Gaussian of this scale is constant in double precision.
WIDEST_SCALE = 64.0
# Bins for each standard deviation on which masses are gathered: of many samples, and of one, whose curve is
# a ratio of sums, also where both are small. With moments up to the fifth, 4 leave an error below
# |kernel^(6)|_1 / (2^6 6! 4^6) < 1e-7 of the total mass.
_BINS_OF_MANY, _BINS_OF_ONE = 4, 6
#: Nodes for each standard deviation at which sums are evaluated; the quadrature is of fourth order too.
NODES_PER_SCALE = 12
#: Moments kept of the masses in a bin, an even number.
MOMENTS = 6
#: A fixed point is worked out to this.
TOLERANCE = 5e-7
# Cosines are tabulated for all positions up to this size of the table; above it, binning is faster.
_TABLE = 1 << 22
# Largest size of temporary arrays, so that they stay in cache.
_WORK = 1 << 16
#: The search for a fixed point begins with coefficients down to this multiple of the scale that it expects.
FIRST = 0.6


def node_count(s: float, per_scale: float = NODES_PER_SCALE) -> int:
    """Return a power of two that cuts [0, 1] into at least ``per_scale`` intervals for each length s."""
    return 1 << max(6, math.ceil(math.log2(per_scale / s)))


def fast_count(s: float, per_scale: float = NODES_PER_SCALE) -> int:
    """Return a number of intervals of which transforms are fast, at least ``per_scale`` for each length s."""
    return int(next_fast_len(max(64, math.ceil(per_scale / s)), real=True))


def moment_bins(s: float) -> int:
    """Return the number of bins whose moments determine the coefficients of many samples at scale s."""
    return fast_count(s, _BINS_OF_MANY)


class LogitPositions:
    """Log-odds inside an interval scaled to [0, 1], computed slice by slice on access."""

    def __init__(self, p: Array, origin: float, length: float) -> None:
        self.p, self.origin, self.length = p, origin, length

    def __getitem__(self, rows: slice) -> Array:
        h = logit(self.p[rows])
        h -= self.origin
        h /= self.length
        return h


def harmonics(s: float) -> int:
    """Return how many coefficients survive smoothing at scale s."""
    return math.ceil(TAIL / (math.pi * s)) + 1


def coefficients_of_masses(
    x: Positions, masses: Callable[[slice], Array | float], n: int, s: float, outcome: Codes | None = None
) -> Array:
    """Return the coefficients (1, K) of masses of n samples at x; ``masses`` returns those of a slice.

    With outcomes 0 and 1, return those of the samples of either outcome, (2, K).
    """
    n_bins, rows = fast_count(s, _BINS_OF_ONE), 1 if outcome is None else 2
    # the moments of a bin are neighbors in memory, and two of them are one complex number
    moments = np.zeros(rows * n_bins * MOMENTS // 2, dtype=np.complex128)
    for part in blocks(n, CHUNK):
        index, offset = bin_offsets(x[part], n_bins)
        if outcome is not None:
            index += n_bins * outcome[part]
        index *= MOMENTS // 2
        pair = np.empty(offset.shape[0], dtype=np.complex128)
        pair.real = masses(part)
        np.multiply(pair.real, offset, out=pair.imag)
        offset *= offset
        for order in range(MOMENTS // 2):
            if order:
                pair *= offset
            np.add.at(moments[order:], index, pair)
    return coefficients_of_moments(
        np.moveaxis(moments.view(np.float64).reshape(rows, n_bins, MOMENTS), 2, 0), s
    )


def coefficients_of_moments(moments: Array, s: float) -> Array:
    """Return cosine coefficients from the moments, shape (MOMENTS, samples, bins), of equal bins.

    cos(pi k x) is replaced by its Taylor polynomial about the center of the bin of x.
    """
    n_bins = moments.shape[-1]
    k = np.arange(min(harmonics(s), n_bins))
    step = math.pi * k / n_bins
    even = dct(moments[::2], type=2)[..., : k.shape[0]]
    odd = dst(moments[1::2], type=2)[..., : k.shape[0] - 1]
    # cos(a + b) about the center a: cos a - b sin a - b^2/2 cos a + b^3/6 sin a ...
    out, factor = np.zeros(even.shape[1:]), np.full(k.shape, 0.5)
    for order in range(0, MOMENTS, 2):
        out += factor * even[order // 2]
        factor *= -step / (order + 1)
        out[..., 1:] += factor[1:] * odd[order // 2]
        factor *= step / (order + 2)
    return out


@np.errstate(under="ignore", over="ignore")
def smooth_at_nodes(coefficients: Array, s: float | Array, nodes: int) -> Array:
    """Evaluate the smoothed masses at t = j / nodes, j = 0..nodes; works on the last axis.

    ``s`` is one scale, or one for each of the leading axes.
    """
    # wider kernels give exactly the mean
    scale = np.minimum(np.asarray(s, dtype=np.float64), WIDEST_SCALE)[..., np.newaxis]
    used = min(coefficients.shape[-1], harmonics(float(scale.min())), nodes)
    k = np.arange(used)
    series = np.zeros((*coefficients.shape[:-1], nodes + 1))
    damping = np.exp(-0.5 * (math.pi * scale * k) ** 2)
    np.multiply(coefficients[..., :used], damping, out=series[..., :used])
    return np.asarray(dct(series, type=1, overwrite_x=True))


def integrate_absolute_rows(values: Array, step: float, odd: Array | None = None) -> Array:
    """Integrate |f| over equally spaced nodes for each row.

    f is even about both ends, except for terms that are ``odd`` at the node beyond each of them.

    Each interval integrates the cubic through its four nearest nodes. Away from sign changes these sums
    telescope to the trapezoidal rule, which converges spectrally; an interval in which f changes sign is
    split at its zero, so the kink of |f| costs no accuracy (the split is stationary at the zero: a linear
    root is enough).
    """
    rows, width = values.shape
    size = np.abs(values)
    total = size.sum(axis=1) - 0.5 * (size[:, 0] + size[:, -1])
    if odd is not None:
        # in the cubics of the first and the last interval
        total -= np.copysign(1.0 / 12.0, values[:, [0, -1]]) @ odd
    negative = np.signbit(values)
    crossing = np.flatnonzero(negative[:, 1:] != negative[:, :-1])
    if crossing.shape[0]:
        row = crossing // (width - 1)
        first, place, nodes = crossing - row * (width - 1), crossing + row, values.ravel()
        starts, ends = first == 0, first == width - 2
        f0, f1 = nodes[place], nodes[place + 1]
        # the node beyond an end is the one before it
        before, after = nodes[place - 1 + 2 * starts], nodes[place + 2 - 2 * ends]
        if odd is not None:
            before += 2.0 * odd[0] * starts
            after += 2.0 * odd[1] * ends
        # f(u) = f0 + u (f1 - f0) + u (u - 1) (c0 + c1 u), the cubic in Newton form on u = 0, 1, -1, 2
        c1 = (after - before - 3.0 * (f1 - f0)) / 6.0
        c0 = (before - 2.0 * f0 + f1) / 2.0 + c1
        gap = f0 - f1
        # zeros of either sign need no split
        u = np.divide(f0, gap, out=np.zeros_like(gap), where=gap != 0)
        head = u * (f0 + u * ((f1 - f0 - c0) / 2.0 + u * ((c0 - c1) / 3.0 + u * c1 / 4.0)))
        whole = (13.0 * (f0 + f1) - before - after) / 24.0
        # in place of the trapezoid, and what the cubics on both sides of it leave of their sums
        rest = (gap + before - after) * np.copysign(1.0 / 24.0, f0) - np.abs(gap) / 2.0
        total += np.bincount(row, np.abs(head) + np.abs(whole - head) + rest, rows)
    return np.asarray(total * step)


class CosineProjection:
    """c_k = sum_i mass_i cos(pi k x_i) at non-decreasing positions x in [0, 1], for many masses."""

    def __init__(self, x: Array) -> None:
        self.x = x
        self._table = np.zeros((x.shape[0], 0))

    def __call__(self, mass: Array, s: float) -> Array:
        """Return the coefficients (r, K) of signed masses (n, r) that matter at scale s or larger."""
        count = harmonics(s)
        if count * self.x.shape[0] > _TABLE:
            n_bins = moment_bins(s)
            parts = blocks(mass.shape[1], _WORK << 3, n_bins * MOMENTS)
            return np.concatenate(
                [coefficients_of_moments(self._moments(mass[:, some], n_bins), s) for some in parts]
            )
        known = self._table.shape[1]
        if known < count:
            k = np.arange(known, count)
            self._table = np.hstack((self._table, np.cos(np.multiply.outer(math.pi * self.x, k))))
        return np.asarray(mass.T @ self._table[:, :count])

    def _moments(self, mass: Array, n_bins: int) -> Array:
        """Return the moments of each sample in each bin, in the format of :func:`coefficients_of_moments`."""
        index, offset = bin_offsets(self.x, n_bins)
        starts = group_starts(index)
        moments = np.zeros((MOMENTS, mass.shape[1], n_bins))
        term = mass
        for order in range(MOMENTS):
            moments[order][:, index[starts]] = np.add.reduceat(term, starts, axis=0).T
            if order + 1 < MOMENTS:
                term = term * offset[:, np.newaxis]
        return moments


def smoothed_errors(coefficients: Array, s: Array) -> Array:
    """Return the integral of the absolute smoothed residual of each row, at most 1, each at its own scale."""
    nodes = fast_count(float(s.min()))
    errors = np.empty(s.shape[0])
    for part in blocks(s.shape[0], _WORK, nodes):
        values = smooth_at_nodes(coefficients[part], s[part], nodes)
        errors[part] = integrate_absolute_rows(values, 1.0 / nodes)
    return np.minimum(errors, 1.0)


def fixed_points(
    coefficients: Callable[[NDArray[np.intp], float], Array], guess: Array, finest: float, length: float = 1.0
) -> Array:
    """Solve E(s / length) = s for each of r samples, with E the smoothed error of the sample.

    ``coefficients(index, s)`` returns the cosine coefficients (len(index), K) of some of the samples that
    matter at scale s or larger; they are first computed down to ``finest``, and again for solutions below.
    ``guess``, ``finest`` and ``length``, that of the axis, are in the units of s. Solutions are accurate to
    1e-6; for those below 2**-14, of the axis if it is longer than 1, the errors at that scale are returned.
    """
    smallest = SMALLEST_SCALE * max(length, 1.0)
    values = np.zeros(guess.shape[0])
    pending: NDArray[np.intp] = np.arange(guess.shape[0])
    guess, finest = np.clip(guess, smallest, max(1.0, smallest)), max(finest, smallest)
    while pending.shape[0]:
        deeper = np.zeros(pending.shape[0], dtype=bool)
        for some in blocks(pending.shape[0], _WORK << 4, moment_bins(finest / length) * MOMENTS):
            values[pending[some]], guess[some], deeper[some] = _solve(
                coefficients(pending[some], finest / length), np.maximum(guess[some], finest), finest, length
            )
        if finest == smallest:
            break
        pending, guess = pending[deeper], guess[deeper]
        if pending.shape[0]:
            finest = max(FIRST * float(np.median(guess)), smallest)
    return np.minimum(values, 1.0)


def _solve(
    coefficients: Array, s: Array, smallest: float, length: float
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return values, where the solutions are expected, and which lie below ``smallest``.

    The value is the solution, or the error at ``smallest``. As E is non-increasing, the solution lies between
    s and E(s) for every s. In this bracket E is approximated by a power of s; the powers are s**-1/2 for
    calibrated predictions and s**0 for a bias.
    """
    value, expected, below = np.zeros_like(s), np.zeros_like(s), np.zeros(s.shape[0], dtype=bool)
    active: NDArray[np.intp] = np.arange(s.shape[0])
    low, high = np.zeros_like(s), np.full_like(s, max(1.0, length))
    power = np.full_like(s, 0.5)
    last_s, last_error = s, np.zeros_like(s)
    while active.shape[0]:
        error = smoothed_errors(coefficients[active], s / length)
        excess = error - s
        done = np.abs(excess) <= TOLERANCE
        under = (excess < 0) & (s <= smallest) & ~done
        low = np.where(excess < 0, np.maximum(low, error), s)
        high = np.where(excess < 0, s, np.minimum(high, error))
        # the ends may even cross, by the error of the quadrature, whose nodes depend on all samples
        done |= high - low <= TOLERANCE
        moved = (last_error > 0) & (np.abs(s - last_s) > 1e-12) & (error > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = -np.log(error / last_error) / np.log(s / last_s)
            power = np.where(moved, np.maximum(slope, 0.0), power)
            proposal = s * (error / s) ** (1.0 / (1.0 + power))
        inside = (proposal >= low) & (proposal <= high)
        proposal = np.where(inside, proposal, 0.5 * (low + high))
        # the step errs by the product of the last two distances, in proportion to s and less than that
        done |= inside & moved & (np.abs(excess * (last_error - last_s)) <= 1e-7 * s)
        stop = done | under
        value[active[stop]] = np.where(under, error, proposal)[stop]
        expected[active[stop]] = proposal[stop]
        below[active[under]] = True
        keep = ~stop
        active = active[keep]
        last_s, last_error, power = s[keep], error[keep], power[keep]
        low, high, s = low[keep], high[keep], np.maximum(proposal, smallest)[keep]
    return value, expected, below
