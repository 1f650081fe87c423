"""Sketches of samples whose labels are found during reading."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._typing import Array
from sklearn_calib.sketch._columns import Labels, is_number
from sklearn_calib.sketch._sketch import CalibrationSketch

Codes = NDArray[np.int32]

# With more groups, sums over all bins are not kept for each from one call to the next.
_FEW_GROUPS = 8


class OutcomeSketches:
    """One sketch, or one for each group, of samples with two labels, of which one may come late.

    While a single label is known, which may be the positive or the negative one, samples are summed as both;
    the second label decides.

    Parameters
    ----------
    labels : Labels
        The labels of the samples; it may grow before each call of ``add``.
    where : str
        Source of the labels, for messages.
    precision : int
        Precision of the sketches.
    pos_label : label, default=None
        The positive class: a label, or how it is written. By default the greater of two labels.
    ordered : bool, default=False
        Whether two texts have a default, too: there are probabilities of both classes, in sorted order.
    """

    def __init__(
        self, labels: Labels, where: str, precision: int, pos_label: Any = None, *, ordered: bool = False
    ) -> None:
        self._labels, self._where, self._precision, self._pos_label = labels, where, precision, pos_label
        self._ordered = ordered
        self._known: list[Any] = []
        self._positive = np.empty(0, dtype=bool)
        # for each group a sketch; twice if one label is known: first as negative, then as positive
        self._sides: list[dict[int, CalibrationSketch]] = [{}] if pos_label is not None else [{}, {}]

    def add(self, y: Codes, p: Array, w: Array | None = None, groups: Codes | None = None) -> None:
        """Add samples by the numbers of their labels and of their groups."""
        self._read_labels()
        for side, sketches in enumerate(self._sides):
            outcome = self._positive[y] if len(self._sides) == 1 else np.full(y.shape[0], side == 1)
            for group, rows in [(0, slice(None))] if groups is None else _parts(groups):
                sketch = sketches.setdefault(group, CalibrationSketch(precision=self._precision))
                sketch.update(outcome[rows], p[rows], sample_weight=None if w is None else w[rows])
                if len(sketches) > _FEW_GROUPS:
                    sketch._contents()

    def result(self) -> dict[int, CalibrationSketch]:
        """Return the sketch of each group by its number, or the only one as that of group 0."""
        if not self._known:
            return {0: CalibrationSketch(precision=self._precision, pos_label=self._pos_label)}
        if len(self._sides) == 2:
            (only,) = self._known
            if isinstance(only, str) or only not in (-1, 0, 1):
                raise ValueError(
                    f"{self._where} contains the single label {only!r}, so the positive class is unknown. "
                    "Name it by pos_label."
                )
            sketches, label = self._sides[int(only == 1)], None
        else:
            (sketches,) = self._sides
            label = self._positive_label()
        return {group: sketch._like(sketch._contents(), label) for group, sketch in sketches.items()}

    def _positive_label(self) -> Any:
        """Return the positive label as in the data; None if it is 1 and was not named."""
        found = self._labels.values()[self._positive].tolist()
        label = found[0] if found else self._pos_label
        return None if self._pos_label is None and label == 1 and self._known[0] in (-1, 0) else label

    def _read_labels(self) -> None:
        """Find out which labels are positive, if new ones have turned up."""
        if len(self._labels) == self._positive.shape[0]:
            return
        values = self._labels.values()
        self._known = np.unique(values).tolist()
        shown = ", ".join(str(label) for label in self._known[:5])
        if len(self._known) > 2:
            raise ValueError(
                f"{self._where} has {len(self._known)} or more distinct outcomes ({shown}), but a sketch is "
                "for a binary target. Name the column of outcomes, or reduce the problem to one class "
                "against the rest."
            )
        if self._pos_label is None and not self._ordered and ambiguous(self._known):
            raise ValueError(
                f"{self._where} contains the labels {self._known}, and pos_label is not specified, so the "
                f"class of the probabilities is ambiguous. Pass pos_label={self._known[0]!r} or "
                f"pos_label={self._known[1]!r}."
            )
        wanted = self._known[-1] if self._pos_label is None else self._pos_label
        self._positive = np.array([is_label(label, wanted) for label in values.tolist()])
        if len(self._known) == 1:
            return
        if not self._positive.any():
            raise ValueError(
                f"pos_label={wanted!r} does not occur among the outcomes of {self._where}: {shown}."
            )
        if len(self._sides) == 2:
            self._sides = [self._sides[int(self._positive[0])]]


def is_label(label: Any, wanted: Any) -> bool:
    """Tell whether a label is the one that is named, or written so."""
    if isinstance(wanted, str) and not isinstance(label, str | bool):
        try:
            return bool(label == float(wanted))
        except ValueError:
            return False
    return bool(label == wanted) or str(label) == str(wanted)


def ambiguous(labels: list[Any]) -> bool:
    """Tell whether these are two texts, sorted, other than numbers, and than false and true."""
    if len(labels) != 2 or not isinstance(labels[0], str) or [t.lower() for t in labels] == ["false", "true"]:
        return False
    return not all(map(is_number, labels))


def _parts(groups: Codes) -> list[tuple[int, Any]]:
    """Return each group with its samples."""
    order = np.argsort(groups, kind="stable")
    found, starts = np.unique(groups[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, starts[1:]), strict=True))
