"""The sketch: a mergeable summary of outcomes and predictions, of constant size."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core._binning import POSITIONS, octave_bins
from sklearn_calib._core._maps import require
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array, Codes
from sklearn_calib.sketch._batch import Batch, check_batch
from sklearn_calib.sketch._contents import Accumulator, Contents
from sklearn_calib.sketch._saved import Saved, check_precision


@shared_docs
class CalibrationSketch(Saved):
    r"""Summary of constant size of outcomes, predictions and weights of a binary problem.

    A sketch is updated by batches and merged with others, in any order. Its :meth:`weighted_sample` is
    passed to any function that accepts ``sample_weight``, with ``weights="frequency"`` for inference.

    Parameters
    ----------
    precision : int, default=17
        Resolution of the predictions, ``2 ** -precision``, and finer near 0 and 1; from 8 to 20. A sketch has
        at most about ``1.25 * 2 ** precision`` bins.
    pos_label : label, default=None
        The positive class. Needed for other labels than 0 and 1, -1 and 1, or booleans, because a batch may
        hold one of the two labels only.

    See Also
    --------
    WindowedSketch : The sketch of a moving window.

    Notes
    -----
    Each bin holds the weight of either outcome and the mean prediction, which is the prediction itself,
    without rounding, if all predictions in the bin are equal: of predictions with few distinct values, such
    as those with two decimals, nothing is lost. In the middle bins have the width
    :math:`h = 2^{-\text{precision}}`; below :math:`2^{-8}`, and in the same way for 1 - p, there are
    :math:`2^{\text{precision} - 8}` bins for each octave, so that the width is at most :math:`2^{8} h` times
    the prediction, down to :math:`2^{-40}`; 0 and 1 are bins of their own.

    Different predictions in a bin are rounded down to multiples of :math:`2^{-16}` of its width before they
    are averaged. All sums are then sums of integers, and exact: for samples without weights, or with integer
    weights, a sketch does not depend on the order of samples, batches or merges, bit for bit, as long as the
    weight in one bin is at most :math:`2^{37}`. With other weights the sums agree up to rounding.

    :meth:`update` takes O(n) time and constant memory. Threads and interrupted updates are described in the
    user guide.

    Bins of bounded relative width, found from the bits of a float, are used in quantile sketches [1]_; here
    they are used for the tails, at both ends of the scale.

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
    sketch of 5 samples
      total weight     5
      event rate       0.4
      mean prediction  0.45
      bins             3 of precision 17
    """

    _KIND = "CalibrationSketch"

    def __init__(self, *, precision: int = 17, pos_label: Any = None) -> None:
        self._precision, self._pos_label = check_precision(precision), pos_label
        # finished bins, and sums over all bins while samples are added
        self._finished = Contents(np.empty(0, dtype=np.int64), np.empty((3, 0)), np.empty(0), 0)
        self._sums: Accumulator | None = None
        # both together, as they were last read
        self._read_last: Contents | None = None

    def update(
        self, y_true: ArrayLike, y_proba: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a batch of samples.

        Parameters
        ----------
        %(batch)s

        Returns
        -------
        self
            The sketch, unchanged if an argument is invalid.

        Raises
        ------
        %(malformed)s
        """
        return self._add(check_batch(y_true, y_proba, sample_weight, self._pos_label))

    def merge(self, other: CalibrationSketch) -> Self:
        """Add all samples of another sketch, in place.

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
            If ``other`` is not a sketch.
        """
        if not isinstance(other, CalibrationSketch):
            raise TypeError(
                f"Only sketches can be merged, got {type(other).__name__}. Add samples by update."
            )
        if other._precision != self._precision:
            raise ValueError(
                f"precision differs: {self._precision} and {other._precision}. Only sketches of the same "
                "precision can be merged."
            )
        if None not in (self._pos_label, other._pos_label) and self._pos_label != other._pos_label:
            raise ValueError(f"pos_label differs: {self._pos_label!r} and {other._pos_label!r}.")
        contents = other._contents()
        with self._changing():
            self._open().add_contents(contents)
        if self._pos_label is None:
            self._pos_label = other._pos_label
        return self

    def __add__(self, other: Any) -> Self:
        return self.copy().merge(other) if isinstance(other, CalibrationSketch) else NotImplemented

    def __radd__(self, other: Any) -> Self:
        # sum() begins with 0
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CalibrationSketch):
            return NotImplemented
        mine, theirs = self._contents(), other._contents()
        return (
            self._precision == other._precision
            and np.array_equal(mine.bins, theirs.bins)
            and np.array_equal(mine.sums, theirs.sums)
            and np.array_equal(mine.values, theirs.values, equal_nan=True)
        )

    @property
    def precision(self) -> int:
        """Resolution of the predictions, ``2 ** -precision``."""
        return self._precision

    @property
    def pos_label(self) -> Any:
        """The positive class, or None."""
        return self._pos_label

    @property
    def n_samples(self) -> int:
        """Number of samples that were added and had a positive weight; not compared by ``==``."""
        return self._finished.n_samples + (0 if self._sums is None else self._sums.n_samples)

    @property
    def total_weight(self) -> float:
        """Total weight; the number of samples if there were no weights."""
        return float(self._contents().weight.sum())

    @property
    def n_bins(self) -> int:
        """Number of occupied bins."""
        return self._contents().bins.shape[0]

    @property
    def event_rate(self) -> float:
        """Fraction of the weight that belongs to the positive class."""
        contents = self._filled()
        return float(contents.sums[1].sum() / contents.weight.sum())

    @property
    def mean_prediction(self) -> float:
        """Mean prediction, up to ``2 ** -16`` of the width of a bin."""
        contents = self._filled()
        weight = contents.weight
        return float((contents.means(octave_bins(self._precision)) * weight).sum() / weight.sum())

    def weighted_sample(self) -> tuple[Codes, Array, Array]:
        """Return outcomes, predictions and weights that represent the sketch: at most two points a bin.

        Every function that accepts ``sample_weight`` accepts them, as ``y_true``, ``y_proba`` and
        ``sample_weight``; for inference with ``weights="frequency"``, if the weights given to the sketch were
        numbers of samples. A sketch does not contain the squares of sampling weights.

        Returns
        -------
        y : ndarray of shape (m,)
            Outcomes 0 or 1.
        p : ndarray of shape (m,)
            Predictions in increasing order: the mean prediction of each occupied bin, once for each outcome
            that has weight.
        w : ndarray of shape (m,)
            Positive weights; whole numbers where all samples had integer weights.

        Examples
        --------
        >>> from sklearn_calib.metrics import expected_calibration_error
        >>> from sklearn_calib.sketch import CalibrationSketch
        >>> y, p, w = CalibrationSketch().update([1, 0, 1, 1], [0.5, 0.25, 0.5, 0.25]).weighted_sample()
        >>> y.tolist(), p.tolist(), w.tolist()
        ([0, 1, 1], [0.25, 0.25, 0.5], [1.0, 1.0, 2.0])
        >>> expected_calibration_error(y, p, sample_weight=w)
        0.375
        """
        return self._filled().weighted_sample(octave_bins(self._precision))

    def _content(self) -> dict[str, Any]:
        contents, pos_label = self._contents(), self._pos_label
        if isinstance(pos_label, np.generic):
            pos_label = pos_label.item()
        if not isinstance(pos_label, str | Real | None):
            raise ValueError(f"pos_label={pos_label!r} cannot be written to a file. Use a text or a number.")
        negatives, positives, offset = contents.sums.tolist()
        return {
            "precision": self._precision,
            "pos_label": pos_label,
            "n_samples": contents.n_samples,
            "bins": contents.bins.tolist(),
            "negatives": negatives,
            "positives": positives,
            "offset": offset,
            "values": [None if value != value else value for value in contents.values.tolist()],
        }

    @classmethod
    def _read(cls, content: dict[str, Any]) -> Self:
        bins = np.array(content["bins"], dtype=np.int64)
        sums = np.array([content[name] for name in ("negatives", "positives", "offset")], dtype=np.float64)
        values, n_samples = np.array(content["values"], dtype=np.float64), content["n_samples"]
        new, known = cls(precision=content["precision"]), ~np.isnan(values)
        new._pos_label, grid = content["pos_label"], octave_bins(new._precision)
        require(bool(((sums >= 0.0) & (sums <= 1e300)).all()), "sums are out of range")
        require((sums[2] <= (sums[0] + sums[1]) * POSITIONS).all(), "offset is out of range")
        require(bool(((values[known] >= 0.0) & (values[known] <= 1.0)).all()), "values are no predictions")
        require((grid.locate(values[known])[0] == bins[known]).all(), "values are not those of their bins")
        require(type(n_samples) is int and (n_samples > 0) == (bins.size > 0), "n_samples is wrong")
        new._open().add_contents(Contents(bins, sums, values, n_samples))
        require(new._finish()._content() == content, "it is not what to_dict writes")
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_finished": self._contents(), "_sums": None, "_read_last": None}

    def __repr__(self) -> str:
        label = "" if self.pos_label is None else f", pos_label={self.pos_label!r}"
        return f"<CalibrationSketch(precision={self._precision}{label}) of {self.n_samples} samples>"

    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        facts = [("bins", f"{self.n_bins} of precision {self._precision}")]
        if self.n_bins:
            facts = [
                ("total weight", f"{self.total_weight:.15g}"),
                ("event rate", f"{self.event_rate:.6g}"),
                ("mean prediction", f"{self.mean_prediction:.6g}"),
                *facts,
            ]
        return f"sketch of {self.n_samples} sample{'s' * (self.n_samples != 1)}", facts

    def _add(self, batch: Batch) -> Self:
        """Add checked samples."""
        if batch.p.shape[0]:
            with self._changing():
                self._open().add_batch(batch)
        return self

    def _open(self) -> Accumulator:
        """Return the sums to which samples are added."""
        if self._sums is None:
            self._sums = Accumulator(octave_bins(self._precision))
        self._read_last = None
        return self._sums

    def _finish(self) -> Self:
        """Give up the sums over all bins, which take megabytes, until there are more samples."""
        self._finished, self._sums, self._read_last = self._contents(), None, None
        return self

    def _contents(self) -> Contents:
        """Return the occupied bins, with all that was added."""
        self._check_whole()
        if self._sums is None:
            return self._finished
        if self._read_last is None:
            self._read_last = self._sums.contents(self._finished)
        return self._read_last

    def _filled(self) -> Contents:
        contents = self._contents()
        if not contents.bins.shape[0]:
            raise ValueError("The sketch is empty. Add samples to it by update or merge first.")
        return contents

    def _like(self, contents: Contents, pos_label: Any) -> Self:
        """Return a new sketch of the same precision."""
        new = type(self)(precision=self._precision, pos_label=pos_label)
        new._finished = contents
        return new
