"""The sketch: a summary of outcomes and predictions, of constant size, that can be added to and merged."""

from copy import deepcopy
from typing import Any, Self

from numpy.typing import ArrayLike

from sklearn_calib._html import result_html
from sklearn_calib.sketch._batch import Batch, check_batch
from sklearn_calib.sketch._cells import cell_grid
from sklearn_calib.sketch._contents import Accumulator, Contents
from sklearn_calib.sketch._files import (
    check_precision,
    contents_from_dict,
    contents_to_dict,
    read_file,
    write_file,
)
from sklearn_calib.sketch._sample import WeightedSample

__all__ = ["CalibrationSketch"]


class CalibrationSketch:
    r"""Summary of constant size of outcomes, predictions and weights of a binary problem.

    A sketch is filled by batches and merged with others, in any order. It is accepted wherever outcomes and
    predictions of two classes are: as the first argument, in place of ``y_true`` and ``y_proba``.

    Parameters
    ----------
    precision : int, default=17
        Predictions are told apart to ``2 ** -precision``, and finer near 0 and 1; from 8 to 20. A sketch
        holds at most about ``1.25 * 2 ** precision`` cells.
    pos_label : label, default=None
        The positive class. Needed for other labels than 0 and 1, -1 and 1, or booleans, because a batch may
        hold one of the two labels only.

    See Also
    --------
    WeightedSample : What a sketch stands for.

    Notes
    -----
    Each cell holds the weight of either outcome and the mean prediction. In the middle cells have the width
    :math:`h = 2^{-\text{precision}}`; below :math:`2^{-8}`, and in the same way for 1 - p, there are
    :math:`2^{\text{precision} - 8}` cells for each octave, so that the width is at most :math:`2^{8} h` times
    the prediction, down to :math:`2^{-40}`; 0 and 1 are cells of their own.

    Predictions are rounded down to multiples of :math:`2^{-16}` of the width of their cell before they are
    averaged. All sums are then sums of whole numbers, and exact: for rows without weights, or with weights
    that are whole numbers, a sketch does not depend on the order of rows, batches or merges, bit for bit, as
    long as the weight in one cell is at most :math:`2^{37}`. Of other weights the sums agree up to rounding.

    ``update`` takes time in proportion to the rows and no memory in proportion to them. Only when the sketch
    is read after an update are all cells looked at once.

    Cells of bounded relative width, found from the bits of a float, are known from sketches of quantiles
    [1]_; here they serve the tails, and both ends of the scale.

    References
    ----------
    .. [1] C. Masson, J. E. Rim and H. K. Lee (2019). DDSketch: A Fast and Fully-Mergeable Quantile Sketch
       with Relative-Error Guarantees. PVLDB 12(12). arXiv:1908.10693

    Examples
    --------
    >>> from sklearn_calib.sketch import CalibrationSketch
    >>> monday = CalibrationSketch().update([0, 1], [0.25, 0.75])
    >>> tuesday = CalibrationSketch().update([0, 0, 1], [0.25, 0.5, 0.5])
    >>> week = monday + tuesday
    >>> print(week)
    sketch of 5 rows
      total weight     5
      event rate       0.4
      mean prediction  0.45
      cells            3 of precision 17
    """

    def __init__(self, *, precision: int = 17, pos_label: Any = None) -> None:
        self._precision = check_precision(precision)
        self._pos_label = pos_label
        self._settled = Contents.empty()
        self._pending: Accumulator | None = None
        self._n_rows = 0

    def update(
        self, y_true: ArrayLike, y_proba: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a batch of rows.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Outcomes; one label only, or no row at all, is allowed. Or another summary, with
            ``as_weighted_sample``.
        y_proba : array-like of shape (n,), (n, 1) or (n, 2)
            Predicted probabilities of the positive class in [0, 1]; of two columns the last is used. Arrays
            of shape (n,) are not copied.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights; weight k counts as k repetitions of the row, and 0 as no row.

        Returns
        -------
        self
            The sketch, which is left as it was if an argument is wrong.

        Raises
        ------
        ValueError
            If an argument is malformed (the message names it), or labels need ``pos_label``.

        Notes
        -----
        O(n), about a hundred bytes of memory for each of at most 32768 rows at a time. Batches of at most
        2048 rows without weights are gathered until there are 32768 rows, or the sketch is read.
        """
        return self._add(check_batch(y_true, y_proba, sample_weight, self._pos_label))

    def merge(self, other: "CalibrationSketch") -> Self:
        """Add all rows of another sketch, in place.

        Parameters
        ----------
        other : CalibrationSketch
            A sketch of the same precision, and of the same positive class if both name one.

        Returns
        -------
        self
            The sketch.

        Raises
        ------
        ValueError
            If precision or positive class differ.
        TypeError
            If ``other`` is no sketch.
        """
        pos_label = self._check_alike(other)
        contents = other._contents()
        if contents.cell.shape[0]:
            self._accumulator().add_contents(contents)
        self._n_rows += other._n_rows
        self._pos_label = pos_label
        return self

    def copy(self) -> Self:
        """Return an independent sketch of the same rows.

        Returns
        -------
        CalibrationSketch
            The copy.
        """
        new = type(self)(precision=self._precision, pos_label=deepcopy(self._pos_label))
        new._settled, new._n_rows = self._contents(), self._n_rows
        return new

    def __add__(self, other: Any) -> Self:
        return self.copy().merge(other) if isinstance(other, CalibrationSketch) else NotImplemented

    def __radd__(self, other: Any) -> Self:
        # sum() begins with 0
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: Any) -> Self:
        """Take away rows that were added before; weights must be whole numbers, as other sums are rounded."""
        if not isinstance(other, CalibrationSketch):
            return NotImplemented
        pos_label = self._check_alike(other)
        mine, theirs = self._contents(), other._contents()
        if not (mine.whole and theirs.whole):
            raise ValueError(
                "Only sketches of whole-number weights can be subtracted: other sums are rounded."
            )
        left = mine.without(theirs) if theirs.cell.shape[0] else mine
        if left is None or other._n_rows > self._n_rows:
            raise ValueError("The sketch to subtract holds rows that this one does not.")
        new = type(self)(precision=self._precision, pos_label=pos_label)
        new._settled, new._n_rows = left, self._n_rows - other._n_rows
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CalibrationSketch):
            return NotImplemented
        return self._precision == other._precision and self._contents().same_as(other._contents())

    __hash__ = None  # type: ignore[assignment]  # as of every object that changes

    @property
    def precision(self) -> int:
        """Predictions are told apart to ``2 ** -precision``."""
        return self._precision

    @property
    def pos_label(self) -> Any:
        """The positive class, or None."""
        return self._pos_label

    @property
    def n_rows(self) -> int:
        """Number of rows that were added and had a positive weight; not compared by ``==``."""
        return self._n_rows

    @property
    def n_samples(self) -> float:
        """Total weight; the number of rows if there were no weights."""
        return float(self._contents().weight.sum())

    @property
    def n_cells(self) -> int:
        """Number of occupied cells."""
        return self._contents().cell.shape[0]

    @property
    def event_rate(self) -> float:
        """Share of the weight that belongs to the positive class."""
        contents = self._filled()
        return float(contents.positives.sum() / contents.weight.sum())

    @property
    def mean_prediction(self) -> float:
        """Mean prediction, up to ``2 ** -16`` of the width of a cell."""
        contents = self._filled()
        weight = contents.weight
        return float((contents.means(cell_grid(self._precision)) * weight).sum() / weight.sum())

    def as_weighted_sample(self) -> WeightedSample:
        """Return the rows for which the sketch stands: two at most for each occupied cell.

        Returns
        -------
        WeightedSample
            Outcomes, predictions in increasing order, and weights.

        Raises
        ------
        ValueError
            If the sketch is empty.
        """
        return self._filled().weighted_sample(cell_grid(self._precision))

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
        return contents_to_dict(self._contents(), self._precision, self._n_rows, self._pos_label)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the sketch that :meth:`to_dict` has written.

        Parameters
        ----------
        data : dict
            What ``to_dict`` returned.

        Returns
        -------
        CalibrationSketch
            An equal sketch.

        Raises
        ------
        ValueError
            If the dict is foreign, damaged, or of a newer version.
        """
        contents, precision, n_rows, pos_label = contents_from_dict(data)
        new = cls(precision=precision, pos_label=pos_label)
        new._settled, new._n_rows = contents, n_rows
        return new

    def save(self, path: Any) -> None:
        """Write the sketch to a file; nothing is lost.

        Parameters
        ----------
        path : str or path-like
            Name of the file: ``.npz``, compressed, or ``.json``, a text. A file of this name is replaced
            when the new one is complete.

        Raises
        ------
        ValueError
            If the name ends otherwise, or ``pos_label`` is neither a text nor a number.
        OSError
            If the file cannot be written.
        """
        write_file(path, self.to_dict())

    @classmethod
    def load(cls, path: Any) -> Self:
        """Return the sketch of a file written by :meth:`save`.

        Parameters
        ----------
        path : str or path-like
            Name of the file.

        Returns
        -------
        CalibrationSketch
            A sketch equal to the one that was saved.

        Raises
        ------
        ValueError
            If the file is foreign, damaged, or of a newer version.
        OSError
            If the file cannot be read.
        """
        return cls.from_dict(read_file(path))

    def __getstate__(self) -> dict[str, Any]:
        self._contents()
        return self.__dict__.copy()

    def __repr__(self) -> str:
        label = "" if self._pos_label is None else f", pos_label={self._pos_label!r}"
        return f"<CalibrationSketch(precision={self._precision}{label}) of {self._n_rows} rows>"

    def __str__(self) -> str:
        lines = [f"  {name:<15}  {value}" for name, value in self._facts()]
        return "\n".join([f"sketch of {self._n_rows} rows", *lines])

    def _repr_html_(self) -> str:
        return result_html(f"sketch of {self._n_rows} rows", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        cells = ("cells", f"{self.n_cells} of precision {self._precision}")
        if not self.n_cells:
            return [cells]
        return [
            ("total weight", f"{self.n_samples:.15g}"),
            ("event rate", f"{self.event_rate:.6g}"),
            ("mean prediction", f"{self.mean_prediction:.6g}"),
            cells,
        ]

    def _add(self, batch: Batch) -> Self:
        """Add checked rows."""
        self._n_rows += self._accumulator().add_batch(batch)
        return self

    def _accumulator(self) -> Accumulator:
        if self._pending is None:
            self._pending = Accumulator(cell_grid(self._precision))
        return self._pending

    def _contents(self) -> Contents:
        """Return the occupied cells, with all that was added."""
        if self._pending is not None:
            self._pending.add_contents(self._settled)
            self._settled, self._pending = self._pending.contents(), None
        return self._settled

    def _filled(self) -> Contents:
        contents = self._contents()
        if not contents.cell.shape[0]:
            raise ValueError("The sketch is empty. Add rows to it by update or merge first.")
        return contents

    def _check_alike(self, other: Any) -> Any:
        """Raise if sketches cannot be merged; return their positive class."""
        if not isinstance(other, CalibrationSketch):
            raise TypeError(f"Only sketches can be merged, got {type(other).__name__}. Add rows by update.")
        if other._precision != self._precision:
            raise ValueError(
                f"precision differs: {self._precision} and {other._precision}. Only sketches of the same "
                "precision can be merged."
            )
        if self._pos_label is None or other._pos_label is None:
            return other._pos_label if self._pos_label is None else self._pos_label
        if self._pos_label != other._pos_label:
            raise ValueError(f"pos_label differs: {self._pos_label!r} and {other._pos_label!r}.")
        return self._pos_label
