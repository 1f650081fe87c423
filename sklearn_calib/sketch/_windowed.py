"""Sketches of the recent past: a ring of slots of equal length."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._html import result_html
from sklearn_calib._validation import check_integer, check_option, check_size
from sklearn_calib.sketch._batch import Batch, check_batch
from sklearn_calib.sketch._clock import DATES, NUMBERS, ROWS, Clock
from sklearn_calib.sketch._files import check_precision, write_json
from sklearn_calib.sketch._sketch import CalibrationSketch

__all__ = ["WindowedSketch"]

_FORMAT, _VERSION = "sklearn_calib.WindowedSketch", 1


class WindowedSketch:
    """Sketch of the recent past, of constant size: slots in a ring, of which the oldest gives way.

    Time is cut into slots of equal length, and each holds the sketch of its rows. The window is the newest
    slot that has a row and the ``n_slots - 1`` before it: what :meth:`current` returns stands for exactly
    their rows.

    Parameters
    ----------
    window : int, float or timedelta
        Length of the window. Without times, a number of rows. With numbers as times, a number of their unit.
        With dates as times a duration: of numpy, of the standard library, or of pandas.
    n_slots : int, default=10
        Slots of the window, which must divide it into whole rows, or whole nanoseconds.
    late : {"raise", "count"}, default="raise"
        What to do with rows that are older than the window was before the batch: refuse the batch, or leave
        them out and count them. Late rows within the window are put into their slot. Rows of one batch are
        taken in order of time, so that none is too late for another.
    precision : int, default=17
        As of :class:`CalibrationSketch`.
    pos_label : label, default=None
        The positive class.

    See Also
    --------
    CalibrationSketch : What each slot holds.

    Notes
    -----
    Slot k covers the times t with k L <= t < (k + 1) L, where L = window / n_slots: they begin at 0, or on 1
    January 1970, whatever comes first, so that the slots of two machines are the same, and can be merged.
    Numbers are floats, and the edges are those of floats. Dates with a time zone are taken in coordinated
    universal time, and dates without one as they are. Counted rows have no clock in common with other rows.

    An update takes time in proportion to its rows, and :meth:`current` in proportion to the occupied cells
    of all slots.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.sketch import WindowedSketch
    >>> week = WindowedSketch(np.timedelta64(7, "D"), n_slots=7)
    >>> day = np.datetime64("2024-01-01")
    >>> for number in range(30):
    ...     _ = week.update([0, 1, 1], [0.25, 0.5, 0.75], time=day + np.timedelta64(number, "D"))
    >>> week.current().n_rows
    21
    >>> start, end, sketch = list(week.slots())[0]
    >>> str(start.astype("datetime64[D]")), sketch.n_rows
    ('2024-01-24', 3)
    """

    def __init__(
        self,
        window: Any,
        *,
        n_slots: int = 10,
        late: str = "raise",
        precision: int = 17,
        pos_label: Any = None,
    ) -> None:
        self._clock = Clock(window, n_slots)
        self._late = check_option(late, "late", ("raise", "count"))
        self._precision, self._pos_label = check_precision(precision), pos_label
        self._ring: dict[int, CalibrationSketch] = {}
        self._newest_slot: int | None = None
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
        """Add a batch of rows.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Outcomes; one label only, or no row at all, is allowed.
        y_proba : array-like of shape (n,), (n, 1) or (n, 2)
            Predicted probabilities of the positive class.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. Rows of weight 0 are left out, and have no time.
        time : number, date, or array-like of shape (n,), default=None
            When: one time for the batch, or one for each row, in any order. Dates may be those of numpy, the
            standard library, or pandas. None counts rows, one for each whatever its weight; all calls must
            agree in this.

        Returns
        -------
        self
            The sketch, which is left as it was if an argument is wrong.

        Raises
        ------
        ValueError
            If an argument is malformed (the message names it), or, with ``late="raise"``, if a row is older
            than the window.
        TypeError
            If ``time`` holds neither numbers nor dates.
        """
        batch = check_batch(y_true, y_proba, sample_weight, self._pos_label)
        kind, ticks = self._clock.read(time, batch.p.shape[0])
        if batch.w is not None and not (batch.w > 0).all():
            keep = batch.w > 0
            batch = Batch(batch.y[keep], batch.p[keep], batch.w[keep])
            ticks = ticks[keep] if ticks.shape[0] > 1 else ticks
        n_rows = batch.p.shape[0]
        if not n_rows:
            return self
        if kind == ROWS:
            ticks = np.arange(self._n_seen, self._n_seen + n_rows)
        slot = self._clock.slot(kind, ticks)
        late = self._check_late(slot, ticks)
        self._clock.settle(kind)
        latest, newest = ticks.max(), int(slot.max())
        if self._newest_slot is not None:
            latest, newest = max(latest, self._newest), max(newest, self._newest_slot)
        self._move(newest)
        self._newest = latest
        self._n_seen += n_rows
        self._n_late += late * (n_rows if slot.shape[0] == 1 else 1)
        for number, part in _by_slot(slot, batch):
            if number > newest - self._clock.n_slots:
                self._slot(number)._add(part)
        return self

    def current(self, n_slots: int | None = None) -> CalibrationSketch:
        """Return the sketch of the window.

        Parameters
        ----------
        n_slots : int, default=None
            How many of its newest slots; None means all.

        Returns
        -------
        CalibrationSketch
            The sum of the slots: a sketch of its own, empty if no row has come.

        Raises
        ------
        ValueError
            If ``n_slots`` is less than 1.
        """
        length = self._clock.n_slots if n_slots is None else check_size(n_slots, "n_slots")
        total = self._empty()
        for number, sketch in self._ring.items():
            if self._newest_slot is not None and number > self._newest_slot - length:
                total.merge(sketch)
        return total

    def slots(self) -> Iterator[tuple[Any, Any, CalibrationSketch]]:
        """Iterate over the slots of the window that hold rows, in order of time.

        Yields
        ------
        start, end : int, float or datetime64
            The slot holds the rows at times from ``start`` to before ``end``: numbers of rows, numbers, or
            dates of nanoseconds, as ``time`` was passed.
        sketch : CalibrationSketch
            A copy of their sketch.
        """
        for number in sorted(self._ring):
            yield self._clock.edge(number), self._clock.edge(number + 1), self._ring[number].copy()

    def merge(self, other: "WindowedSketch") -> Self:
        """Add the rows of another sketch of the same clock, in place.

        What remains is what one sketch would hold that had seen all rows.

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
            If the sketches are not alike, or count rows.
        TypeError
            If ``other`` is no such sketch.
        """
        if not isinstance(other, WindowedSketch):
            raise TypeError(f"Only windowed sketches can be merged, got {type(other).__name__}.")
        if not self._clock.same_as(other._clock):
            raise ValueError("The sketches have different windows, slots or kinds of time.")
        if ROWS in (self._clock.kind, other._clock.kind):
            raise ValueError("Rows that two sketches have counted are not in one order. Pass time to update.")
        # checks precision and positive class before anything changes
        self._empty().merge(other._empty())
        if other._newest_slot is None or other._clock.kind is None:
            return self
        self._clock.settle(other._clock.kind)
        latest, newest = other._newest, other._newest_slot
        if self._newest_slot is not None:
            latest, newest = max(latest, self._newest), max(newest, self._newest_slot)
        self._move(newest)
        for number, sketch in other._ring.items():
            if number > newest - self._clock.n_slots:
                self._slot(number).merge(sketch)
        self._newest = latest
        self._n_seen, self._n_late = self._n_seen + other._n_seen, self._n_late + other._n_late
        return self

    def copy(self) -> Self:
        """Return an independent sketch of the same rows.

        Returns
        -------
        WindowedSketch
            The copy.
        """
        return type(self).from_dict(self.to_dict())

    @property
    def n_rows(self) -> int:
        """Number of rows in the window."""
        return sum(sketch.n_rows for sketch in self._ring.values())

    @property
    def n_seen(self) -> int:
        """Number of rows of positive weight that have come."""
        return self._n_seen

    @property
    def n_late(self) -> int:
        """Number of them that were left out because they were older than the window."""
        return self._n_late

    @property
    def newest(self) -> Any:
        """The latest time of a row: int, float or datetime64; None if there is none."""
        return None if self._newest is None else self._clock.show(self._newest)

    @property
    def newest_slot(self) -> int | None:
        """Number of the newest slot that has a row; None if there is none."""
        return self._newest_slot

    def to_dict(self) -> dict[str, Any]:
        """Return the sketch as a dict of numbers, texts and lists, fit for JSON; nothing is lost.

        Returns
        -------
        dict
            What :meth:`from_dict` reads.

        Raises
        ------
        ValueError
            If ``pos_label`` is neither a text nor a number.
        """
        clock = self._clock
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "window": clock.window,
            "n_slots": clock.n_slots,
            "kind": clock.kind,
            "late": self._late,
            "newest": None if self._newest is None else np.asarray(self._newest).item(),
            "n_seen": self._n_seen,
            "n_late": self._n_late,
            "empty": self._empty().to_dict(),
            "slots": [[number, self._ring[number].to_dict()] for number in sorted(self._ring)],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the sketch that :meth:`to_dict` has written.

        Parameters
        ----------
        data : dict
            What ``to_dict`` returned.

        Returns
        -------
        WindowedSketch
            An equal sketch.

        Raises
        ------
        ValueError
            If the dict is foreign, damaged, or of a newer version.
        """
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise ValueError("This is not a saved WindowedSketch. Pass what to_dict or save has written.")
        if not isinstance(data.get("version"), int) or data["version"] > _VERSION:
            raise ValueError(
                f"This sketch has version {data.get('version')!r} of the format, and this release knows "
                f"{_VERSION}. Read it with a newer release of sklearn_calib."
            )
        try:
            return cls._read(data)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise ValueError(f"The saved sketch is damaged: {type(error).__name__}: {error}") from None

    @classmethod
    def _read(cls, found: dict[str, Any]) -> Self:
        kind, empty = found["kind"], CalibrationSketch.from_dict(found["empty"])
        window = np.timedelta64(found["window"], "ns") if kind == DATES else found["window"]
        new = cls(
            window,
            n_slots=found["n_slots"],
            late=found["late"],
            precision=empty.precision,
            pos_label=empty.pos_label,
        )
        new._n_seen, new._n_late = (check_integer(found[name], name, 0) for name in ("n_seen", "n_late"))
        if kind not in (None, ROWS, NUMBERS, DATES):
            raise ValueError(f"kind={kind!r}.")
        if kind is not None:
            new._clock.check_new(kind)
            new._clock.settle(kind)
        if found["newest"] is not None:
            new._newest = float(found["newest"]) if kind == NUMBERS else int(found["newest"])
            new._newest_slot = int(new._clock.slot(kind, np.array([new._newest]))[0])
            least = new._newest_slot - new._clock.n_slots
            for number, sketch in found["slots"]:
                if not least < check_integer(number, "slot", least + 1) <= new._newest_slot:
                    raise ValueError(f"slot {number} is not in the window.")
                new._slot(number).merge(CalibrationSketch.from_dict(sketch))
        return new

    def save(self, path: Any) -> None:
        """Write the sketch to a file; nothing is lost.

        Parameters
        ----------
        path : str or path-like
            Name of the file, ending in ``.json``. A file of this name is replaced when the new one is
            complete.

        Raises
        ------
        ValueError
            If the name ends otherwise, or ``pos_label`` is neither a text nor a number.
        OSError
            If the file cannot be written.
        """
        write_json(_json(path), self.to_dict())

    @classmethod
    def load(cls, path: Any) -> Self:
        """Return the sketch of a file written by :meth:`save`.

        Parameters
        ----------
        path : str or path-like
            Name of the file.

        Returns
        -------
        WindowedSketch
            A sketch equal to the one that was saved.

        Raises
        ------
        ValueError
            If the file is foreign, damaged, or of a newer version.
        OSError
            If the file cannot be read.
        """
        try:
            found = json.loads(_json(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{str(path)!r} is damaged or no saved WindowedSketch ({error}).") from None
        return cls.from_dict(found)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WindowedSketch):
            return NotImplemented
        return (
            self._clock.same_as(other._clock) and self._newest == other._newest and self._ring == other._ring
        )

    __hash__ = None  # type: ignore[assignment]  # as of every object that changes

    def __repr__(self) -> str:
        return f"<WindowedSketch of {self.n_rows} rows in {len(self._ring)} of {self._clock.n_slots} slots>"

    def __str__(self) -> str:
        lines = [f"  {name:<15}  {value}" for name, value in self._facts()]
        return "\n".join([f"window of {self.n_rows} rows", *lines])

    def _repr_html_(self) -> str:
        return result_html(f"window of {self.n_rows} rows", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("slots", f"{len(self._ring)} of {self._clock.n_slots} hold rows")]
        if self._newest_slot is not None:
            first = self._clock.edge(self._newest_slot - self._clock.n_slots + 1)
            facts.append(("from", f"{first}"))
            facts.append(("newest", f"{self.newest}"))
        facts += [("rows seen", f"{self._n_seen}"), ("too late", f"{self._n_late}" if self._n_late else "")]
        return [(name, value) for name, value in facts if value]

    def _empty(self) -> CalibrationSketch:
        return CalibrationSketch(precision=self._precision, pos_label=self._pos_label)

    def _slot(self, number: int) -> CalibrationSketch:
        if number not in self._ring:
            self._ring[number] = self._empty()
        return self._ring[number]

    def _move(self, newest: int) -> None:
        """Let the window end with this slot, and drop what is older than it."""
        if self._newest_slot is not None and newest > self._newest_slot:
            for number in [k for k in self._ring if k <= newest - self._clock.n_slots]:
                del self._ring[number]
            # slots that are complete hold nothing but their cells
            for sketch in self._ring.values():
                sketch._contents()
        self._newest_slot = newest

    def _check_late(self, slot: NDArray[np.int64], ticks: NDArray[Any]) -> int:
        """Return how many times are older than the window before them, or raise if there are any."""
        if self._newest_slot is None:
            return 0
        oldest = self._newest_slot - self._clock.n_slots + 1
        late = slot < oldest
        if late.any() and self._late == "raise":
            row = int(late.argmax())
            raise ValueError(
                f"time is {self._clock.show(ticks[row])} at row {row}, older than the window, which begins "
                f"at {self._clock.edge(oldest)}. Use a longer window, or leave such rows out by late='count'."
            )
        return int(late.sum())


def _by_slot(slot: NDArray[np.int64], batch: Batch) -> Iterator[tuple[int, Batch]]:
    """Yield the rows of each slot, in the order in which they came."""
    if slot.shape[0] == 1 or (slot == slot[0]).all():
        yield int(slot[0]), batch
        return
    order = np.argsort(slot, kind="stable")
    cuts = np.flatnonzero(np.diff(slot[order])) + 1
    for rows in np.split(order, cuts):
        part = Batch(batch.y[rows], batch.p[rows], None if batch.w is None else batch.w[rows])
        yield int(slot[rows[0]]), part


def _json(path: Any) -> Path:
    target = Path(path)
    if target.suffix.lower() != ".json":
        raise ValueError(f"path must end in .json, got {str(path)!r}.")
    return target
