"""Slots of equal length on an axis of counted samples, of numbers, or of dates."""

from copy import copy
from datetime import UTC, date, datetime, timedelta
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._validation import as_array, check_length, check_positive, check_size

#: What time is counted in.
SAMPLES, NUMBERS, DATES = "samples", "numbers", "dates"
_NANOSECONDS, _YEARS = "datetime64[ns]", "datetime64[Y]"
# Whole numbers up to here are floats.
_MOST_SLOTS = 2.0**53


class Clock:
    """Slots of equal length; slot k begins at k times their length.

    Parameters
    ----------
    window : int, float or timedelta
        Total length of the slots of a window: a number of samples, a number in the unit of numeric times, or
        a duration of any library for dates.
    n_slots : int
        Slots in a window.

    Attributes
    ----------
    kind : {"samples", "numbers", "dates"} or None
        What time is counted in; None before the first samples if ``window`` is a number.
    length : int or float
        Length of a slot: samples, units or nanoseconds.
    """

    def __init__(self, window: Any, n_slots: int) -> None:
        self.n_slots = check_size(n_slots, "n_slots")
        self.kind: str | None = None
        self.window: int | float
        self.length: int | float
        if isinstance(window, np.timedelta64 | timedelta) or hasattr(window, "to_timedelta64"):
            self.window, self.kind = _nanoseconds(window), DATES
            if self.window % self.n_slots:
                raise ValueError(
                    f"window={window!r} cannot be divided into n_slots={n_slots} slots of whole nanoseconds. "
                    "Choose an n_slots that divides it."
                )
            self.length = int(self.window) // self.n_slots
        else:
            self.window = check_positive(window, "window")
            if isinstance(window, Integral):
                self.window = check_size(window, "window", maximum=int(_MOST_SLOTS))
            self.length = self.window / self.n_slots

    def read(self, time: Any, n_samples: int) -> tuple[str, NDArray[Any]]:
        """Return the kind of times, and one time for all samples or one for each; None counts from 0."""
        if time is None:
            kind, ticks = SAMPLES, np.zeros(0, dtype=np.int64)
        else:
            alone = isinstance(time, Real | np.datetime64 | date) or hasattr(time, "to_datetime64")
            ticks = as_array([time] if alone else time, "time")
            if ticks.ndim == 0:
                ticks = ticks.reshape(1)
            if ticks.ndim != 1:
                raise ValueError(f"time must be one time, or have shape (n,), got shape {ticks.shape}.")
            if ticks.shape[0] != 1:
                check_length("time", ticks.shape[0], "y_true", n_samples)
            kind, ticks = _ticks(ticks)
        if self.kind is None:
            self.check_new(kind)
        elif kind != self.kind:
            wanted = {
                SAMPLES: "counts samples, so that no time can be passed",
                NUMBERS: "wants numbers as time",
            }
            raise ValueError(
                f"time holds {kind if time is not None else 'nothing'}, but this clock "
                f"{wanted.get(self.kind, 'wants dates as time, because window is a duration')}."
            )
        return kind, ticks

    def check_new(self, kind: str) -> None:
        """Raise unless a clock can begin with times of this kind."""
        if self.kind == DATES:
            return
        if kind == DATES:
            raise ValueError(
                f"time holds dates, but window={self.window!r} is a number. Pass a duration as window, "
                "such as numpy.timedelta64(7, 'D')."
            )
        if kind == SAMPLES and (not isinstance(self.window, int) or self.window % self.n_slots):
            raise ValueError(
                f"window={self.window!r} samples is not a multiple of n_slots={self.n_slots}. "
                "Choose a multiple of n_slots, or pass time."
            )

    def of(self, kind: str) -> "Clock":
        """Return a clock that counts time in this kind."""
        new = copy(self)
        if kind == SAMPLES:
            new.length = int(self.window) // self.n_slots
        new.kind = kind
        return new

    def slot(self, ticks: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of the slot in which times fall."""
        if self.kind == NUMBERS:
            slot = np.floor(ticks / self.length)
            if not (np.abs(slot) < _MOST_SLOTS).all():
                raise ValueError(
                    f"time is {float(np.abs(ticks).max()):g}, too far from 0 for slots of {self.length:g}. "
                    "Subtract the beginning of the stream."
                )
            return slot.astype(np.int64)
        return ticks // int(self.length)

    def show(self, tick: Any) -> Any:
        """Return a time as the user passes it: int for samples, float, or datetime64."""
        if self.kind == DATES:
            return np.int64(tick).view(_NANOSECONDS)
        return float(tick) if self.kind == NUMBERS else int(tick)

    def edge(self, slot: int) -> Any:
        """Return the time at which a slot begins."""
        return self.show(slot * self.length)

    def same_as(self, other: "Clock") -> bool:
        mine, theirs = ((c.window, c.n_slots, c.kind == DATES) for c in (self, other))
        return mine == theirs and (self.kind == other.kind or None in (self.kind, other.kind))


def _nanoseconds(window: Any) -> int:
    """Return a duration in nanoseconds."""
    duration = window.to_timedelta64() if hasattr(window, "to_timedelta64") else np.timedelta64(window)
    if np.isnat(duration) or duration.astype(np.int64) <= 0:
        raise ValueError(f"window must be positive, got {window!r}.")
    if np.datetime_data(duration)[0] in ("Y", "M", "generic"):
        raise ValueError(f"window={window!r} has no fixed length. Use days, or shorter units.")
    try:
        found = duration.astype("timedelta64[ns]")
        fits = bool(found.astype(duration.dtype) == duration) and found.astype(np.int64) > 0
    except OverflowError:  # so newer numpy says it; older ones turn over
        fits = False
    if not fits:
        raise ValueError(f"window={window!r} is longer than nanoseconds can count, 292 years.")
    return int(found.astype(np.int64))


def _ticks(times: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """Return the kind of times, and finite floats, or whole nanoseconds since 1970."""
    if times.dtype.kind in "iuf":
        ticks = times.astype(np.float64)
        if not np.isfinite(ticks).all():
            row = int(np.flatnonzero(~np.isfinite(ticks))[0])
            raise ValueError(f"time contains {ticks[row]} at index {row}. Times must be finite.")
        return NUMBERS, ticks
    if times.dtype.kind == "O" and times.size and all(_is_date(value) for value in times):
        dates = [_as_datetime64(value) for value in times]
        _check_years(np.array([value.astype(_YEARS) for value in dates]), times)
        times = np.array(dates, dtype=_NANOSECONDS)
    if times.dtype.kind != "M":
        shown = type(times[0]).__name__ if times.size else times.dtype
        raise TypeError(f"time must hold numbers or dates, got {shown}.")
    _check_years(times.astype(_YEARS), times)
    return DATES, times.astype(_NANOSECONDS).view(np.int64)


def _check_years(years: NDArray[Any], times: NDArray[Any]) -> None:
    """Raise where a date is missing, or too far off for nanoseconds, in which it would turn over."""
    if np.isnat(years).any():
        raise ValueError(f"time is missing at index {int(np.isnat(years).argmax())}.")
    far = (years < np.datetime64("1678", "Y")) | (years > np.datetime64("2261", "Y"))
    if far.any():
        row = int(far.argmax())
        raise ValueError(
            f"time is {times[row]} at index {row}; only the years 1678 to 2261 can be counted in nanoseconds."
        )


def _is_date(value: Any) -> bool:
    return isinstance(value, date | np.datetime64) or hasattr(value, "to_datetime64")


def _as_datetime64(value: Any) -> Any:
    """Return a date without time zone: one with a time zone in coordinated universal time."""
    if hasattr(value, "to_datetime64"):
        return value.to_datetime64()
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value)
