"""Sketches of a moving window: a ring of slots of equal length, and the clock that numbers them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from datetime import UTC, date, datetime, timedelta
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._maps import require
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array, Codes
from sklearn_calib.sketch._batch import Batch, check_batch
from sklearn_calib.sketch._saved import Saved, check_precision
from sklearn_calib.sketch._sketch import CalibrationSketch

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
        self.n_slots = _validation.check_size(n_slots, "n_slots")
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
            self.window = _validation.check_size(window, "window", maximum=int(_MOST_SLOTS))
        else:
            self.window = _validation.check_positive(window, "window")

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
        times = np.atleast_1d(_validation.as_array([time] if alone else time, "time"))
        if times.ndim != 1:
            raise ValueError(f"time must be one time, or have shape (n,), got shape {times.shape}.")
        if times.shape[0] != 1:
            _validation.check_length("time", times.shape[0], "y_true", n_samples)
        kind, ticks = _ticks(times)
        return self.check(kind), ticks

    def check(self, kind: str) -> str:
        """Return the kind of times; raise unless the clock counts in it, or can begin with it."""
        if self.kind not in (None, kind):
            given = "time is required, because" if kind == SAMPLES else f"time contains {kind}, but"
            raise ValueError(f"{given} window and earlier calls count {self.kind}. Pass times of this kind.")
        if kind == DATES and self.kind is None:
            raise ValueError(
                f"time contains dates, but window={self.window!r} is a number. Pass a duration as window, "
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

    def same_as(self, other: Clock) -> bool:
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


@shared_docs
class WindowedSketch(Saved):
    """Sketch of a moving window, of constant size.

    Time is divided into slots of equal length, with one sketch per slot. The window consists of the newest
    slot that has a sample and the ``n_slots - 1`` slots before it; :meth:`current` returns the sketch of
    exactly their samples.

    Parameters
    ----------
    window : int, float or timedelta
        Length of the window: without times, a number of samples; with numeric times, a number in their unit;
        with dates, a duration of numpy, the standard library, or pandas.
    n_slots : int, default=10
        Number of slots, which must divide the window into whole samples, or whole nanoseconds.
    late : {"raise", "drop"}, default="raise"
        How to handle samples that are older than the window was before the batch: raise an error, or drop and
        count them. Late samples within the window are added to their slot. The samples of one batch are
        sorted by time, so that none of them is too late for another.
    %(sketched)s

    See Also
    --------
    CalibrationSketch : The sketch of each slot.

    Notes
    -----
    Slot k covers the times t with k L <= t < (k + 1) L, where L = window / n_slots: they begin at 0, or on 1
    January 1970, whatever comes first, so that the slots of two machines are the same, and can be merged.
    Numbers are floats, and the edges are those of floats. Dates with a time zone are taken in coordinated
    universal time, and dates without one as they are. Windows of counted samples cannot be merged.

    An update takes time in proportion to its samples, and :meth:`current` in proportion to the occupied bins
    of all slots.

    Threads and interrupted updates are described in the user guide.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.sketch import WindowedSketch
    >>> week = WindowedSketch(np.timedelta64(7, "D"), n_slots=7)
    >>> day = np.datetime64("2024-01-01")
    >>> for number in range(30):
    ...     _ = week.update([0, 1, 1], [0.25, 0.5, 0.75], time=day + np.timedelta64(number, "D"))
    >>> week.current().n_samples
    21
    >>> start, end, sketch = list(week.slots())[0]
    >>> str(start.astype("datetime64[D]")), sketch.n_samples
    ('2024-01-24', 3)
    """

    _KIND = "WindowedSketch"

    def __init__(
        self,
        window: Any,
        *,
        n_slots: int = 10,
        late: str = "raise",
        precision: int = 17,
        pos_label: Any = None,
    ) -> None:
        self._late = _validation.check_option(late, "late", ("raise", "drop"))
        self._precision, self._pos_label = check_precision(precision), pos_label
        self._clock = Clock(window, n_slots)
        # the sketches of the slots by number, and the latest time of a sample
        self._ring: dict[int, CalibrationSketch] = {}
        self._newest: Any = None
        self._n_seen = self._n_late = 0

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        time: Any = None,
    ) -> Self:
        """Add a batch of samples.

        Parameters
        ----------
        %(batch)s
        time : number, date, or array-like of shape (n,), default=None
            One time for the batch, or one for each sample, in any order. Dates may be those of numpy, the
            standard library, or pandas. None counts samples, each once whatever its weight. Use the same kind
            in all calls.

        Returns
        -------
        self
            The sketch, unchanged if an argument is invalid.

        Raises
        ------
        %(invalid)s
        """
        return self._add(check_batch(y_true, y_proba, sample_weight, self._pos_label), time)

    def current(self, n_slots: int | None = None) -> CalibrationSketch:
        """Return the sketch of the window.

        Parameters
        ----------
        n_slots : int, default=None
            Number of newest slots; None means all.

        Returns
        -------
        CalibrationSketch
            The sum of the slots, an independent sketch; empty if there are no samples.
        """
        self._check_whole()
        length = self._clock.n_slots if n_slots is None else _validation.check_size(n_slots, "n_slots")
        total, newest = self._empty(), self.newest_slot
        for number, sketch in self._ring.items():
            if newest is not None and number > newest - length:
                total.merge(sketch)
        return total

    def weighted_sample(self) -> tuple[Codes, Array, Array]:
        """Return outcomes, predictions and weights that represent the samples of the window.

        Returns
        -------
        y, p, w : ndarray of shape (m,)
            Outcomes 0 or 1, predictions in increasing order, and positive weights.
        """
        return self.current().weighted_sample()

    def slots(self) -> Iterator[tuple[Any, Any, CalibrationSketch]]:
        """Iterate over the slots of the window that hold samples, in order of time.

        Yields
        ------
        start, end : int, float or datetime64
            The slot contains the samples with start <= time < end: numbers of samples, numbers, or dates in
            nanoseconds, as ``time`` was passed.
        sketch : CalibrationSketch
            A copy of their sketch.
        """
        self._check_whole()
        for number in sorted(self._ring):
            yield self._clock.edge(number), self._clock.edge(number + 1), self._ring[number].copy()

    def merge(self, other: WindowedSketch) -> Self:
        """Add the samples of another sketch of the same clock, in place.

        The result equals that of one sketch updated with all samples.

        Parameters
        ----------
        other : WindowedSketch
            A sketch of the same window, slots, precision and positive class, filled with times.

        Returns
        -------
        self
            The sketch.

        Raises
        ------
        ValueError
            If the sketches are not alike, or count samples.
        TypeError
            If ``other`` is not a WindowedSketch.
        """
        if not isinstance(other, WindowedSketch):
            raise TypeError(f"Only windowed sketches can be merged, got {type(other).__name__}.")
        # checks precision and positive class before anything changes
        self._empty().merge(other._empty())
        mine, theirs = self._clock, other._clock
        if not mine.same_as(theirs):
            raise ValueError("The sketches have different windows, slots or kinds of time.")
        if SAMPLES in (mine.kind, theirs.kind):
            raise ValueError("Samples that two sketches counted are not in one order. Pass time to update.")
        other._check_whole()
        if other._newest is not None:
            with self._changing():
                mine.kind = theirs.kind
                self._move(other._newest)
                for number, sketch in other._ring.items():
                    if number >= self._oldest_slot:
                        self._ring.setdefault(number, self._empty()).merge(sketch)
                self._n_seen += other._n_seen
                self._n_late += other._n_late
        return self

    @property
    def n_samples(self) -> int:
        """Number of samples in the window."""
        return sum(sketch.n_samples for sketch in self._ring.values())

    @property
    def n_seen(self) -> int:
        """Number of samples of positive weight that have come."""
        return self._n_seen

    @property
    def n_late(self) -> int:
        """Number of them that were left out because they were older than the window."""
        return self._n_late

    @property
    def newest(self) -> Any:
        """The latest time of a sample: int, float or datetime64; None if there is none."""
        return None if self._newest is None else self._clock.show(self._newest)

    @property
    def newest_slot(self) -> int | None:
        """Number of the newest slot that has a sample; None if there is none."""
        return None if self._newest is None else int(self._clock.slot(np.array([self._newest]))[0])

    @property
    def _oldest_slot(self) -> int:
        """Number of the first slot of the window; only if it has a newest one."""
        newest = self.newest_slot
        assert newest is not None
        return newest - self._clock.n_slots + 1

    def _content(self) -> dict[str, Any]:
        self._check_whole()
        clock = self._clock
        return {
            "window": clock.window,
            "n_slots": clock.n_slots,
            "kind": clock.kind,
            "late": self._late,
            "newest": None if self._newest is None else np.asarray(self._newest).item(),
            "n_seen": self._n_seen,
            "n_late": self._n_late,
            "empty": self._empty()._content(),
            "slots": [[number, self._ring[number]._content()] for number in sorted(self._ring)],
        }

    @classmethod
    def _read(cls, content: dict[str, Any]) -> Self:
        kind, empty = content["kind"], content["empty"]
        new = cls(
            np.timedelta64(content["window"], "ns") if kind == DATES else content["window"],
            n_slots=content["n_slots"],
            late=content["late"],
            precision=empty["precision"],
            pos_label=empty["pos_label"],
        )
        require(kind in (None, SAMPLES, NUMBERS, DATES), "kind is unknown")
        if kind is not None:
            new._clock.kind = new._clock.check(kind)
        new._newest = content["newest"]
        new._n_seen, new._n_late = content["n_seen"], content["n_late"]
        new._ring = {number: CalibrationSketch._read(sketch) for number, sketch in content["slots"]}
        require(new._content() == content, "it is not what to_dict writes")
        counts = new._n_seen, new._n_late, *new._ring
        require(all(type(n) is int for n in counts) and new._n_late >= 0, "a number is wrong")
        require(new._n_seen >= new.n_samples and (new._newest is None) == (not new._ring), "newest is wrong")
        if new._ring:
            ends = min(new._ring), max(new._ring)
            require(type(new._newest) is (float if kind == NUMBERS else int), "newest is of another kind")
            require(new._oldest_slot <= ends[0] and ends[1] == new.newest_slot, "slots are wrong")
        for sketch in new._ring.values():
            alike = (sketch._precision, sketch._pos_label) == (new._precision, new._pos_label)
            require(alike and sketch.n_samples > 0, "a slot holds something else")
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WindowedSketch):
            return NotImplemented
        mine, theirs = ((window._newest, window._ring) for window in (self, other))
        return self._clock.same_as(other._clock) and mine == theirs

    def __getstate__(self) -> dict[str, Any]:
        self._check_whole()
        ring = {number: sketch.copy() for number, sketch in self._ring.items()}
        return {**vars(self), "_clock": copy(self._clock), "_ring": ring}

    def __repr__(self) -> str:
        n_slots = f"{len(self._ring)} of {self._clock.n_slots} slots"
        return f"<WindowedSketch of {self.n_samples} samples in {n_slots}>"

    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        facts = [("slots", f"{len(self._ring)} of {self._clock.n_slots} hold samples")]
        if self._newest is not None:
            facts.append(("from", f"{self._clock.edge(self._oldest_slot)}"))
            facts.append(("newest", f"{self.newest}"))
        facts.append(("samples seen", f"{self._n_seen}"))
        if self._n_late:
            facts.append(("too late", f"{self._n_late}"))
        return f"window of {self.n_samples} samples", facts

    def _empty(self) -> CalibrationSketch:
        return CalibrationSketch(precision=self._precision, pos_label=self._pos_label)

    def _add(self, batch: Batch, time: Any) -> Self:
        """Add checked samples; nothing changes if their times are invalid."""
        kind, ticks = self._clock.read(time, batch.p.shape[0])
        if batch.w is not None and not (batch.w > 0).all():
            keep = batch.w > 0
            batch, ticks = batch.part(keep), ticks[keep] if ticks.shape[0] > 1 else ticks
        n_samples = batch.p.shape[0]
        if not n_samples:
            return self
        if kind == SAMPLES:
            ticks = np.arange(self._n_seen, self._n_seen + n_samples)
        clock = copy(self._clock)
        clock.kind = kind
        slot, n_late = clock.slot(ticks), 0
        if self._newest is not None and (late := slot < self._oldest_slot).any():
            if self._late == "raise":
                row = int(late.argmax())
                raise ValueError(
                    f"time is {clock.show(ticks[row])} at index {row}, older than the window, which begins "
                    f"at {clock.edge(self._oldest_slot)}. Use a longer window, or leave such samples out by "
                    "late='drop'."
                )
            n_late = int(late.sum()) if slot.shape[0] > 1 else n_samples
        with self._changing():
            self._n_late += n_late
            self._clock = clock
            self._n_seen += n_samples
            self._move(ticks.max())
            for number, part in _by_slot(slot, batch):
                if number >= self._oldest_slot:
                    if number not in self._ring:
                        self._ring[number] = self._empty()
                    self._ring[number]._add(part)
        return self

    def _move(self, tick: Any) -> None:
        """Move the window so that it holds a time; slots that it leaves are dropped."""
        before = self.newest_slot
        self._newest = tick if self._newest is None else max(self._newest, tick)
        if before is not None and self.newest_slot != before:
            kept = {number: sketch for number, sketch in self._ring.items() if number >= self._oldest_slot}
            # slots that are complete hold nothing but their bins
            self._ring = {number: sketch._finish() for number, sketch in kept.items()}


def _by_slot(slot: Codes, batch: Batch) -> Iterator[tuple[int, Batch]]:
    """Yield the samples of each slot, in the order in which they came."""
    if slot.shape[0] == 1 or (slot == slot[0]).all():
        yield int(slot[0]), batch
        return
    order = np.argsort(slot, kind="stable")
    cuts = np.flatnonzero(np.diff(slot[order])) + 1
    for rows in np.split(order, cuts):
        yield int(slot[rows[0]]), batch.part(rows)
