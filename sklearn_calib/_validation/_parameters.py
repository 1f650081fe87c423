"""Parameters that are numbers, options or random states."""

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Limit of numbers of bins, simulations and slots.
_MOST = 10**7
#: The inverse of smaller positive numbers, or its multiples, can overflow.
_LEAST = 1e-300


def check_flag(value: Any, name: str) -> bool:
    """Return ``value`` as bool if it is True or False, those of numpy included."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_option(value: Any, name: str, options: Collection[str], other: str = "") -> str:
    """Return ``value`` if it is one of the options; ``other`` names what the caller accepts besides them."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options) + (other and f" or {other}")
        raise ValueError(f"{name} must be one of {listed}, got {value!r}.")
    return value


def check_integer(value: Any, name: str, minimum: int = 1) -> int:
    """Return ``value`` as an int not below ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if int(value) < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value!r}.")
    return int(value)


def check_size(value: Any, name: str, minimum: int = 1, maximum: int = _MOST) -> int:
    """Return ``value`` as an int from ``minimum`` to ``maximum``, for sizes that determine memory or time."""
    number = check_integer(value, name, minimum)
    if number > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {value!r}.")
    return number


def check_number_or_edges(value: Any, name: str = "n_bins") -> int | NDArray[np.float64]:
    """Return a number of bins of [0, 1], or their edges."""
    if np.ndim(value) == 0:
        return check_size(value, name)
    edges = np.asarray(value, dtype=np.float64)
    # NaN is refused, too
    rising = edges.ndim == 1 and edges.shape[0] > 1 and bool((np.diff(edges) > 0.0).all())
    if not (rising and edges[0] == 0.0 and edges[-1] == 1.0):
        raise ValueError(f"{name} as edges of bins must increase from 0 to 1, got {value!r}.")
    return edges


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a finite float greater than zero, whose inverse is finite, too."""
    number = _number(value, name)
    if not _LEAST <= number < float("inf"):
        raise ValueError(f"{name} must be positive and finite, at least {_LEAST:g}, got {value!r}.")
    return number


def check_not_negative(value: Any, name: str) -> float:
    """Return ``value`` as a finite float that is not less than zero."""
    number = _number(value, name)
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name} must be at least 0 and finite, got {value!r}.")
    return number


def check_fraction(value: Any, name: str) -> float:
    """Return ``value`` as a float strictly between 0 and 1."""
    number = _number(value, name)
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return number


def check_below_one(value: Any, name: str) -> float:
    """Return ``value`` as a float in [0, 1)."""
    number = _number(value, name)
    if not 0 <= number < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1, got {value!r}.")
    return number


def least_resamples(level: float) -> int:
    """Return the least B with 1 / (1 + B) <= level, the least number of simulations that can reject."""
    return int(np.ceil(1.0 / level - 1e-9)) - 1


def check_resamples(n_resamples: Any, confidence: float) -> int:
    """Return ``n_resamples`` as int if it is large enough for a quantile at level ``confidence``."""
    number = check_size(n_resamples, "n_resamples")
    needed = least_resamples(1.0 - confidence)
    if number < needed:
        raise ValueError(
            f"n_resamples={number} is too few for confidence={confidence:g}. Use n_resamples >= {needed}."
        )
    return number


def check_generator(random_state: Any) -> np.random.Generator:
    """Return a generator: a new one from None or an integer, the same one, or one seeded by a RandomState."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 1 << 32, size=4, dtype=np.uint32))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, bool) or not isinstance(random_state, Integral):
        raise TypeError(
            f"random_state must be None, an integer, a Generator or a RandomState, got {random_state!r}."
        )
    if random_state < 0:
        raise ValueError(f"random_state must not be negative, got {random_state!r}.")
    return np.random.default_rng(int(random_state))


def seed_of(random_state: Any) -> int:
    """Return an integer seed, sampled from ``random_state`` unless it is one."""
    generator = check_generator(random_state)
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(generator.integers(1 << 32))


def check_randomness(random_state: Any) -> None:
    """Raise if ``random_state`` is not a valid random state, without changing it."""
    # creating a generator takes time, and would advance a RandomState
    if type(random_state) is int and random_state >= 0:
        return
    if not isinstance(random_state, np.random.RandomState):
        check_generator(random_state)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    try:
        return float(value)
    except OverflowError:
        # an integer beyond the largest float
        return float("-inf") if value < 0 else float("inf")
