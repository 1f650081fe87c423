"""Slots of equal length on an axis of counted samples, of numbers, or of dates."""

from datetime import UTC, date, datetime, timedelta
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._typing import Codes
from sklearn_calib._validation import as_array, check_length, check_positive, check_size

#: What time is counted in.
SAMPLES, NUMBERS, DATES = "samples", "numbers", "dates"
_NANOSECONDS, _YEARS = "datetime64[ns]", "datetime64[Y]"
# Whole numbers up to here are floats.
_MOST_SLOTS = 2.0**53


class Clock:
    """Slots of equal length; slot k begins at k times their length.

    ``window`` is the length of ``n_slots`` slots: a number of samples, a number in the unit of numeric times,
    or a duration of any library for dates. ``kind`` tells which, "samples", "numbers" or "dates"; it is None
    before the first samples if ``window`` is a number.
    """

    def __init__(self, window: Any, n_slots: int) -> None:
        self.n_slots = check_size(n_slots, "n_slots")
        self.kind: str | None = None
        self.window: int | float
        if isinstance(window, np.timedelta64 | timedelta) or hasattr(window, "to_timedelta64"):
            self.window, self.kind = _nanoseconds(window), DATES
            if self.window % self.n_slots:
                raise ValueError(
                    f"window={window!r} cannot be divided into n_slots={n_slots} slots of whole nanoseconds. "
                    "Choose an n_slots that divides it."
                )
        elif isinstance(window, Integral):
            self.window = check_size(window, "window", maximum=int(_MOST_SLOTS))
        else:
            self.window = check_positive(window, "window")

    @property
    def length(self) -> int | float:
        """Length of a slot: samples, units or nanoseconds."""
        if self.kind in (SAMPLES, DATES):
            return int(self.window) // self.n_slots
        return self.window / self.n_slots

    def read(self, time: Any, n_samples: int) -> tuple[str, NDArray[Any]]:
        """Return the kind of times, and one time for all samples or one for each; None counts from 0."""
        if time is None:
            return self.check(SAMPLES), np.zeros(0, dtype=np.int64)
        alone = isinstance(time, Real | np.datetime64 | date)
        times = np.atleast_1d(as_array([time] if alone else time, "time"))
        if times.ndim != 1:
            raise ValueError(f"time must be one time, or have shape (n,), got shape {times.shape}.")
        if times.shape[0] != 1:
            check_length("time", times.shape[0], "y_true", n_samples)
        kind, ticks = _ticks(times)
        return self.check(kind), ticks

    def check(self, kind: str) -> str:
        """Return the kind of times; raise unless the clock counts in it, or can begin with it."""
        if self.kind not in (None, kind):
            raise ValueError(
                f"time holds {'nothing' if kind == SAMPLES else kind}, but this clock counts {self.kind}, as "
                "window and earlier calls say. Pass times of this kind."
            )
        if kind == DATES and self.kind is None:
            raise ValueError(
                f"time holds dates, but window={self.window!r} is a number. Pass a duration as window, "
                "such as numpy.timedelta64(7, 'D')."
            )
        if kind == SAMPLES and (not isinstance(self.window, int) or self.window % self.n_slots):
            raise ValueError(
                f"window={self.window!r} samples is not a multiple of n_slots={self.n_slots}. "
                "Choose a multiple of n_slots, or pass time."
            )
        return kind

    def slot(self, ticks: NDArray[Any]) -> Codes:
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
    if np.datetime_data(duration)[0] in ("Y", "M", "generic"):
        raise ValueError(f"window={window!r} has no fixed length. Use days, or shorter units.")
    if not 0.0 < duration / np.timedelta64(1, "D") < 106_000.0:
        raise ValueError(f"window must be positive and shorter than 290 years, got {window!r}.")
    return int(duration.astype("timedelta64[ns]").astype(np.int64))


def _ticks(times: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """Return the kind of times, and finite floats, or whole nanoseconds since 1970."""
    if times.dtype.kind in "iuf":
        ticks = times.astype(np.float64)
        if not np.isfinite(ticks).all():
            row = int(np.flatnonzero(~np.isfinite(ticks))[0])
            raise ValueError(f"time contains {ticks[row]} at index {row}. Times must be finite.")
        return NUMBERS, ticks
    if times.dtype.kind == "O" and all(isinstance(value, date | np.datetime64) for value in times):
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
    far = ~((years >= np.datetime64("1678", "Y")) & (years <= np.datetime64("2261", "Y")))
    if far.any():
        row = int(far.argmax())
        raise ValueError(f"time is {times[row]} at index {row}, not a date of the years 1678 to 2261.")


def _as_datetime64(value: Any) -> Any:
    """Return a date without time zone: one with a time zone in coordinated universal time."""
    if hasattr(value, "to_datetime64"):
        return value.to_datetime64()
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value)
