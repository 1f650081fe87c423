"""The inverse of monotone maps, by bisection of floating point numbers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._typing import Array

Order = NDArray[np.int64]


def float_order(values: Array) -> Order:
    """Return integers in the order of floats, neighbors for neighbors."""
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def ordered_float(order: Order) -> Array:
    """Return the floats of :func:`float_order`."""
    return np.where(order < 0, np.iinfo(np.int64).min - order, order).view(np.float64)


def switches(holds: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array) -> tuple[Array, Array]:
    """Return the neighboring floats between which a condition, true at ``low``, fails as at ``high``."""
    below, above = float_order(low), float_order(high)
    while True:
        # halves first, as sum and difference of distant floats do not fit into 64 bits
        middle = below // 2 + above // 2 + (below % 2 + above % 2) // 2
        if (middle == below).all():
            return ordered_float(below), ordered_float(above)
        kept = holds(ordered_float(middle))
        below, above = np.where(kept, middle, below), np.where(kept, above, middle)


def invert(function: Callable[[Array], Array], low: float, high: float, values: Array, side: str) -> Array:
    """Return where a monotone function on [low, high] reaches each value; NaN where it does not.

    "left": the first float that reaches it; "right": the last that has not passed it.
    """
    ends = function(np.array([low, high]))
    sign = 1.0 if ends[0] <= ends[1] else -1.0
    first, last = (sign * ends).tolist()
    target = sign * values

    def before(scores: Array) -> NDArray[np.bool_]:
        reached = sign * function(scores)
        return np.asarray(reached < target if side == "left" else reached <= target)

    starts, ends = np.full(values.shape, low), np.full(values.shape, high)
    below, above = switches(before, starts, ends)
    if side == "left":
        found = np.where(first >= target, low, above)
        return np.where(last < target, np.nan, found)
    found = np.where(last <= target, high, below)
    return np.where(first > target, np.nan, found)
