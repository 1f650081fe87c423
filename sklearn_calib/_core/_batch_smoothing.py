"""Smoothed errors of many samples at once: the same predictions, another sum of residuals in each.

The cosine coefficients of all samples are one matrix product, and the search for the bandwidth takes its
steps for all of them together, each at a scale of its own.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

from sklearn_calib._core._grouping import group_starts
from sklearn_calib._core._smoothing import (
    CELL_MOMENTS,
    NODES_PER_SCALE,
    SMALLEST_SCALE,
    TOLERANCE,
    coefficients_of_moments,
    harmonics,
    integrate_absolute_rows,
    moment_cells,
    place_in_cells,
    smooth_at_nodes,
)

__all__ = ["CosineProjection", "smoothed_errors", "smoothed_fixed_points"]

Array = NDArray[np.float64]

# Up to so many cosines are tabulated for all positions; a table larger than that costs more than cells do.
_TABLE = 1 << 22
# Numbers held at a time by each step of an evaluation, few enough to stay in cache.
_WORK = 1 << 16
# The search begins with coefficients down to this multiple of the scale it expects, and goes on in steps.
_FIRST = 0.6
_FINER = 0.4
_PILOT = 16
# Residuals that add up to no more than this have no error worth a search.
_NOTHING = 1e-9


class CosineProjection:
    """c_k = sum_i mass_i cos(pi k x_i) at fixed positions, for many samples of masses.

    Parameters
    ----------
    x : ndarray of shape (n,)
        Non-decreasing positions in [0, 1].
    """

    def __init__(self, x: Array) -> None:
        self.x = x
        self._table = np.zeros((x.shape[0], 0))

    def __call__(self, mass: Array, s: float) -> Array:
        """Return the coefficients that matter at scale s or larger.

        Parameters
        ----------
        mass : ndarray of shape (n, r)
            Signed masses of r samples.
        s : float
            Smallest scale at which the coefficients will be used.

        Returns
        -------
        ndarray of shape (r, K)
        """
        count = harmonics(s)
        if count * self.x.shape[0] > _TABLE:
            return coefficients_of_moments(self._moments(mass, moment_cells(s)), s)
        known = self._table.shape[1]
        if known < count:
            k = np.arange(known, count)
            self._table = np.hstack((self._table, np.cos(np.multiply.outer(math.pi * self.x, k))))
        return np.asarray(mass.T @ self._table[:, :count])

    def _moments(self, mass: Array, cells: int) -> Array:
        """Return the moments of each sample in each cell, as :func:`coefficients_of_moments` wants them."""
        cell, offset = place_in_cells(self.x, cells)
        starts = group_starts(cell)
        moments = np.zeros((CELL_MOMENTS, mass.shape[1], cells))
        term = mass
        for order in range(CELL_MOMENTS):
            moments[order][:, cell[starts]] = np.add.reduceat(term, starts, axis=0).T
            if order + 1 < CELL_MOMENTS:
                term = term * offset[:, np.newaxis]
        return moments


def smoothed_errors(coefficients: Array, s: Array) -> Array:
    """Return the integral of the absolute smoothed residual of each row, at a scale of its own.

    Parameters
    ----------
    coefficients : ndarray of shape (r, K)
        Cosine coefficients of the residuals.
    s : ndarray of shape (r,)
        Scales.

    Returns
    -------
    ndarray of shape (r,)
        Not above 1.
    """
    nodes = next_fast_len(max(64, math.ceil(NODES_PER_SCALE / float(s.min()))), real=True)
    rows = max(1, _WORK // nodes)
    errors = np.empty(s.shape[0])
    for start in range(0, s.shape[0], rows):
        part = slice(start, start + rows)
        values = smooth_at_nodes(coefficients[part], s[part], nodes)
        errors[part] = integrate_absolute_rows(values, 1.0 / nodes)
    return np.minimum(errors, 1.0)


def smoothed_fixed_points(projection: CosineProjection, residual: Array, length: float = 1.0) -> Array:
    """Solve E(s / length) = s for each sample, E its smoothed error: the batch of ``fixed_point``.

    Parameters
    ----------
    projection : CosineProjection
        The positions, on an axis scaled to [0, 1].
    residual : ndarray of shape (n, r)
        Residual masses of r samples, divided by the total weight.
    length : float
        Length of the axis in the units of s.

    Returns
    -------
    ndarray of shape (r,)
        The solutions to 1e-6; where they lie below 2**-14 of the axis, the errors at that scale.
    """
    total, mass = np.abs(residual.sum(axis=0)), np.abs(residual).sum(axis=0)
    values = total.copy()
    # residuals of one sign cannot cancel: their error is their sum, at every scale
    pending = np.flatnonzero(mass - total > _NOTHING)
    if pending.shape[0]:
        # noise of n residuals has an error in proportion to (n s)**-1/2: that sets where to begin
        noise = 0.55 * np.einsum("ij,ij->j", residual, residual) ** (1.0 / 3.0)
        guess = np.maximum(noise, total)[pending]
        # the first samples show how far the guess is off
        pilot = slice(0, _PILOT)
        _descend(projection, residual, length, pending[pilot], guess[pilot], values)
        if pending.shape[0] > _PILOT:
            rest = slice(_PILOT, None)
            guess *= float(np.median(values[pending[pilot]] / guess[pilot]))
            _descend(projection, residual, length, pending[rest], guess[rest], values)
    return np.minimum(values, 1.0)


def _descend(
    projection: CosineProjection,
    residual: Array,
    length: float,
    pending: NDArray[np.intp],
    guess: Array,
    values: Array,
) -> None:
    """Write the solutions of the pending samples to ``values``, those of coarse scale first."""
    smallest = SMALLEST_SCALE * length
    guess = np.clip(guess, smallest, 0.5)
    finest = max(_FIRST * float(np.median(guess)), smallest)
    while pending.shape[0]:
        scale = finest / length
        rows = max(1, (_WORK << 4) // (moment_cells(scale) * CELL_MOMENTS))
        deeper = np.zeros(pending.shape[0], dtype=bool)
        for start in range(0, pending.shape[0], rows):
            some = slice(start, start + rows)
            coefficients = projection(residual[:, pending[some]], scale)
            begin = np.maximum(guess[some], finest)
            values[pending[some]], deeper[some] = _solve(coefficients, begin, finest, length)
        if finest == smallest:
            break
        pending, guess = pending[deeper], np.minimum(guess[deeper], finest)
        finest = max(_FINER * finest, smallest)


def _solve(coefficients: Array, s: Array, smallest: float, length: float) -> tuple[Array, NDArray[np.bool_]]:
    """Return the solutions, and which of them lie below ``smallest``; for those, the error at ``smallest``.

    The same bracket as in ``fixed_point``: the solution lies between s and E(s). In it, E is taken for a
    power of s, which noise (s**-1/2) and bias (s**0) both are.
    """
    value, below = np.zeros_like(s), np.zeros(s.shape[0], dtype=bool)
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
        below[active[under]] = True
        keep = ~stop
        active = active[keep]
        last_s, last_error, power = s[keep], error[keep], power[keep]
        low, high, s = low[keep], high[keep], np.maximum(proposal, smallest)[keep]
    return value, below
