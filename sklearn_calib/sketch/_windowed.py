"""Sketches of a moving window: a ring of slots of equal length."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._typing import Array
from sklearn_calib._validation import check_integer, check_option, check_size
from sklearn_calib.sketch._batch import Batch, check_batch
from sklearn_calib.sketch._clock import DATES, NUMBERS, SAMPLES, Clock
from sklearn_calib.sketch._saved import Saved, check_precision, checksum, head
from sklearn_calib.sketch._sketch import CalibrationSketch

_HEAD = ("window", "n_slots", "kind", "late", "newest", "n_seen", "n_late")
_LEAST = -(2**63)


@dataclass(frozen=True, eq=False)
class WindowState:
    """Contents of a window; the ring is replaced, not changed."""

    clock: Clock
    ring: dict[int, CalibrationSketch]
    newest_slot: int | None = None
    newest: Any = None
    n_seen: int = 0
    n_late: int = 0

    @property
    def oldest_slot(self) -> int:
        """Number of the first slot of the window; only if it has a newest one."""
        assert self.newest_slot is not None
        return self.newest_slot - self.clock.n_slots + 1

    def moved(self, newest: int) -> WindowState:
        """Return the window that ends with this slot, without what is older than it."""
        first = newest - self.clock.n_slots + 1
        ring = {number: sketch for number, sketch in self.ring.items() if number >= first}
        return replace(self, ring=ring, newest_slot=newest)


@dataclass(eq=False)
class _Part:
    """Samples of one slot that are to be added to its sketch, which has had so many before."""

    number: int
    sketch: CalibrationSketch
    batch: Batch
    n_before: int

    @property
    def added(self) -> bool:
        return self.sketch.n_samples != self.n_before


@dataclass(eq=False)
class WindowStep:
    """An update of a window: what to add to the sketches of the slots, and what the window is then."""

    state: WindowState
    parts: list[_Part]

    def sketch(self, n_slots: int, empty: CalibrationSketch) -> CalibrationSketch:
        """Return the sum of the newest slots as they are after the step, before it has been made."""
        total = _sum(self.state, n_slots, empty)
        for part in self.parts:
            if self.state.newest_slot is not None and part.number > self.state.newest_slot - n_slots:
                total._add(part.batch)
        return total


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
    precision : int, default=17
        Precision of the sketches, see :class:`CalibrationSketch`.
    pos_label : label, default=None
        The positive class.

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

    A window is thread-safe: updates and merges are atomic, and each number, file or copy is consistent. A
    call that is interrupted, by Ctrl-C or a lack of memory, leaves the window as it was before or as it is
    after the call.

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
    _KEYS: ClassVar[frozenset[str]] = frozenset({"format", "version", "checksum", "empty", "slots", *_HEAD})

    def __init__(
        self,
        window: Any,
        *,
        n_slots: int = 10,
        late: str = "raise",
        precision: int = 17,
        pos_label: Any = None,
    ) -> None:
        super().__init__()
        self._late = check_option(late, "late", ("raise", "drop"))
        self._precision, self._pos_label = check_precision(precision), pos_label
        self._state = WindowState(Clock(window, n_slots), {})
        # an update that has begun
        self._step: WindowStep | None = None

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
        y_true : array-like of shape (n,)
            Outcomes; one label only, or no sample at all, is allowed.
        y_proba : array-like of shape (n,), (n, 1) or (n, 2)
            Predicted probabilities of the positive class.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Samples of weight 0 are ignored.
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
        ValueError
            If an argument is malformed (the message names it), or, with ``late="raise"``, if a sample is
            older than the window.
        TypeError
            If ``time`` contains neither numbers nor dates.
        """
        batch = check_batch(y_true, y_proba, sample_weight, self._pos_label)
        with self._lock:
            step = self._plan(batch, time)
            if step is not None:
                self._make(step)
        return self

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

        Raises
        ------
        ValueError
            If ``n_slots`` is less than 1.
        """
        length = None if n_slots is None else check_size(n_slots, "n_slots")
        with self._lock:
            state = self._now()
            return _sum(state, state.clock.n_slots if length is None else length, self._empty())

    def weighted_sample(self) -> tuple[NDArray[np.int64], Array, Array]:
        """Return outcomes, predictions and weights that represent the samples of the window.

        Returns
        -------
        y, p, w : ndarray of shape (m,)
            Outcomes 0 or 1, predictions in increasing order, and positive weights.

        Raises
        ------
        ValueError
            If the window is empty.
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
        state = copy(self)._state
        for number in sorted(state.ring):
            yield state.clock.edge(number), state.clock.edge(number + 1), state.ring[number]

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
        theirs = copy(other)._state
        with self._lock:
            mine = self._now()
            if not mine.clock.same_as(theirs.clock):
                raise ValueError("The sketches have different windows, slots or kinds of time.")
            if SAMPLES in (mine.clock.kind, theirs.clock.kind):
                raise ValueError(
                    "Rows that two sketches have counted are not in one order. Pass time to update."
                )
            if theirs.newest_slot is None or theirs.clock.kind is None:
                return self
            latest, newest = theirs.newest, theirs.newest_slot
            if mine.newest_slot is not None:
                latest, newest = max(latest, mine.newest), max(newest, mine.newest_slot)
            clock = mine.clock.of(theirs.clock.kind)
            mine, theirs = mine.moved(newest), theirs.moved(newest)
            both = {
                number: mine.ring[number] + theirs.ring[number] for number in mine.ring.keys() & theirs.ring
            }
            self._state = WindowState(
                clock=clock,
                ring={**theirs.ring, **mine.ring, **both},
                newest_slot=newest,
                newest=latest,
                n_seen=mine.n_seen + theirs.n_seen,
                n_late=mine.n_late + theirs.n_late,
            )
        return self

    @property
    def n_samples(self) -> int:
        """Number of samples in the window."""
        with self._lock:
            return _n_samples(self._now())

    @property
    def n_seen(self) -> int:
        """Number of samples of positive weight that have come."""
        return self._now().n_seen

    @property
    def n_late(self) -> int:
        """Number of them that were left out because they were older than the window."""
        return self._now().n_late

    @property
    def newest(self) -> Any:
        """The latest time of a sample: int, float or datetime64; None if there is none."""
        state = self._now()
        return None if state.newest is None else state.clock.show(state.newest)

    @property
    def newest_slot(self) -> int | None:
        """Number of the newest slot that has a sample; None if there is none."""
        return self._now().newest_slot

    def _dict(self) -> dict[str, Any]:
        state = copy(self)._state
        found = {
            **head(self._KIND),
            "window": state.clock.window,
            "n_slots": state.clock.n_slots,
            "kind": state.clock.kind,
            "late": self._late,
            "newest": None if state.newest is None else np.asarray(state.newest).item(),
            "n_seen": state.n_seen,
            "n_late": state.n_late,
            "empty": self._empty().to_dict(),
            "slots": [[number, state.ring[number].to_dict()] for number in sorted(state.ring)],
        }
        return found | {"checksum": _checksum(found)}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Self:
        kind, empty = data["kind"], CalibrationSketch.from_dict(data["empty"])
        window = np.timedelta64(data["window"], "ns") if kind == DATES else data["window"]
        new = cls(
            window,
            n_slots=data["n_slots"],
            late=data["late"],
            precision=empty.precision,
            pos_label=empty.pos_label,
        )
        state = new._state
        n_seen, n_late = (check_integer(data[name], name, 0) for name in ("n_seen", "n_late"))
        if kind not in (None, SAMPLES, NUMBERS, DATES):
            raise ValueError(f"kind={kind!r}.")
        if kind is not None:
            state.clock.check_new(kind)
            state = replace(state, clock=state.clock.of(kind))
        if data["newest"] is not None:
            newest = (
                float(data["newest"]) if kind == NUMBERS else check_integer(data["newest"], "newest", _LEAST)
            )
            if kind is None:
                raise ValueError(f"kind={kind!r} with newest={newest}.")
            newest_slot = int(state.clock.slot(np.array([newest]))[0])
            state = replace(state, newest_slot=newest_slot, newest=newest)
        for number, sketch in data["slots"]:
            if (
                state.newest_slot is None
                or check_integer(number, "slot", state.oldest_slot) > state.newest_slot
            ):
                raise ValueError(f"slot {number} is not in the window.")
            if number in state.ring:
                raise ValueError(f"slot {number} occurs twice.")
            state.ring[number] = new._empty().merge(CalibrationSketch.from_dict(sketch))
        if n_seen < n_late + _n_samples(state):
            raise ValueError(f"n_seen={n_seen} is less than the window holds.")
        if data["checksum"] != _checksum(data):
            raise ValueError("its checksum is that of other numbers")
        new._state = replace(state, n_seen=n_seen, n_late=n_late)
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WindowedSketch):
            return NotImplemented
        mine, theirs = copy(self)._state, copy(other)._state
        return mine.clock.same_as(theirs.clock) and (mine.newest, mine.ring) == (theirs.newest, theirs.ring)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = self._now()
            ring = {number: sketch.copy() for number, sketch in state.ring.items()}
            return super().__getstate__() | {"_state": replace(state, ring=ring)}

    def __repr__(self) -> str:
        state = copy(self)._state
        n_slots = f"{len(state.ring)} of {state.clock.n_slots} slots"
        return f"<WindowedSketch of {_n_samples(state)} samples in {n_slots}>"

    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        state = copy(self)._state
        facts = [("slots", f"{len(state.ring)} of {state.clock.n_slots} hold samples")]
        if state.newest_slot is not None:
            facts.append(("from", f"{state.clock.edge(state.oldest_slot)}"))
            facts.append(("newest", f"{state.clock.show(state.newest)}"))
        facts += [
            ("samples seen", f"{state.n_seen}"),
            ("too late", f"{state.n_late}" if state.n_late else ""),
        ]
        return f"window of {_n_samples(state)} samples", [(name, value) for name, value in facts if value]

    def _empty(self) -> CalibrationSketch:
        return CalibrationSketch(precision=self._precision, pos_label=self._pos_label)

    def _now(self) -> WindowState:
        """Return what the window holds, after an update that was interrupted: as a whole, or not at all."""
        if self._step is not None:
            with self._lock:
                if self._step is not None and any(part.added for part in self._step.parts):
                    self._make(self._step)
                self._step = None
        return self._state

    def _plan(self, batch: Batch, time: Any) -> WindowStep | None:
        """Return what an update with checked samples is, or None if they have no weight; nothing changes."""
        state = self._now()
        kind, ticks = state.clock.read(time, batch.p.shape[0])
        if batch.w is not None and not (batch.w > 0).all():
            keep = batch.w > 0
            batch, ticks = batch.part(keep), ticks[keep] if ticks.shape[0] > 1 else ticks
        n_samples = batch.p.shape[0]
        if not n_samples:
            return None
        if kind == SAMPLES:
            ticks = np.arange(state.n_seen, state.n_seen + n_samples)
        clock = state.clock if state.clock.kind == kind else state.clock.of(kind)
        slot = clock.slot(ticks)
        late = self._check_late(state, clock, slot, ticks) * (n_samples if slot.shape[0] == 1 else 1)
        latest, newest = ticks.max(), int(slot.max())
        if state.newest_slot is not None:
            latest, newest = max(latest, state.newest), max(newest, state.newest_slot)
        if state.newest_slot is not None and newest > state.newest_slot:
            # slots that are complete hold nothing but their bins
            for sketch in state.ring.values():
                sketch._contents()
        first, parts = newest - clock.n_slots + 1, []
        ring = {number: sketch for number, sketch in state.ring.items() if number >= first}
        for number, part in _by_slot(slot, batch):
            if number >= first:
                if number not in ring:
                    ring[number] = self._empty()
                parts.append(_Part(number, ring[number], part, ring[number].n_samples))
        after = WindowState(clock, ring, newest, latest, state.n_seen + n_samples, state.n_late + late)
        return WindowStep(after, parts)

    def _make(self, step: WindowStep) -> None:
        """Make an update; one that is interrupted is completed or forgotten when it is next asked for."""
        self._step = step
        for part in step.parts:
            if not part.added:
                part.sketch._add(part.batch)
        self._state = step.state
        self._step = None

    def _check_late(
        self, state: WindowState, clock: Clock, slot: NDArray[np.int64], ticks: NDArray[Any]
    ) -> int:
        """Return how many times are older than the window before them, or raise if there are any."""
        if state.newest_slot is None:
            return 0
        late = slot < state.oldest_slot
        if late.any() and self._late == "raise":
            row = int(late.argmax())
            raise ValueError(
                f"time is {clock.show(ticks[row])} at index {row}, older than the window, which begins at "
                f"{clock.edge(state.oldest_slot)}. Use a longer window, or leave such samples out by "
                "late='drop'."
            )
        return int(late.sum())


def _sum(state: WindowState, n_slots: int, total: CalibrationSketch) -> CalibrationSketch:
    """Add the newest slots to an empty sketch."""
    for number, sketch in state.ring.items():
        if state.newest_slot is not None and number > state.newest_slot - n_slots:
            total.merge(sketch)
    return total


def _n_samples(state: WindowState) -> int:
    return sum(sketch.n_samples for sketch in state.ring.values())


def _checksum(found: dict[str, Any]) -> str:
    sketches = [(number, sketch["checksum"]) for number, sketch in found["slots"]]
    return checksum([*(found[name] for name in _HEAD), found["empty"]["checksum"], sketches])


def _by_slot(slot: NDArray[np.int64], batch: Batch) -> Iterator[tuple[int, Batch]]:
    """Yield the samples of each slot, in the order in which they came."""
    if slot.shape[0] == 1 or (slot == slot[0]).all():
        yield int(slot[0]), batch
        return
    order = np.argsort(slot, kind="stable")
    cuts = np.flatnonzero(np.diff(slot[order])) + 1
    for rows in np.split(order, cuts):
        yield int(slot[rows[0]]), batch.part(rows)
