"""A calibrator for streams of samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators import BaseCalibrator, SplineCalibrator
from sklearn_calib.calibrators._base import may_be_certain
from sklearn_calib.calibrators._multiclass import (
    check_calibrator,
    event_probability,
    fit_clone,
    scores_wanted,
)
from sklearn_calib.inference._betting._sequential import check_known
from sklearn_calib.sketch import CalibrationSketch, WindowedSketch
from sklearn_calib.sketch._saved import Updated

# Weights are rescaled after this many half-lives; those of samples twice as old are rounding errors.
_STEP = 32.0


class FadingSketch(Updated):
    """A sketch of all samples, each with half the weight of a sample that came one half-life later.

    Instead of multiplying old weights by a factor below 1, new weights grow by its inverse, relative to that
    of a reference sample; occasionally all weights are divided by a power of two.
    """

    def __init__(self, precision: int, half_life: float) -> None:
        self._half_life, self._precision = half_life, precision
        self._sketch = CalibrationSketch(precision=precision)
        self.n_seen = 0
        # of the next sample, in samples since the reference
        self._age = 0.0

    def update(self, y: Codes, p: Array, *, sample_weight: Array | None) -> None:
        """Add samples, the oldest first."""
        with self._changing():
            self._add(y, p, sample_weight)

    def _add(self, y: Codes, p: Array, sample_weight: Array | None) -> None:
        n, size = p.shape[0], max(1, int(_STEP * self._half_life))
        self.n_seen += n
        # older samples are negligible compared with the last one
        first = max(0, n - 2 * size)
        self._age += first
        for begin in range(first, n, size):
            halvings = _STEP * (self._age // (_STEP * self._half_life))
            if halvings:
                self._sketch = self._scaled(2.0**-halvings)
                self._age -= halvings * self._half_life
            part = slice(begin, min(begin + size, n))
            grown = np.exp2((self._age + np.arange(part.stop - begin)) / self._half_life)
            weight = grown if sample_weight is None else grown * sample_weight[part]
            self._sketch.update(y[part], p[part], sample_weight=weight)
            self._age += part.stop - begin

    def current(self) -> CalibrationSketch:
        """Return a sketch of all samples in which the last one has its original weight."""
        self._check_whole()
        return self._scaled(2.0 ** ((1.0 - self._age) / self._half_life))

    def _scaled(self, factor: float) -> CalibrationSketch:
        """Return the sketch with scaled weights, without negligible ones."""
        new = CalibrationSketch(precision=self._precision)
        if not self._sketch.n_samples:
            return new
        y, p, w = self._sketch.weighted_sample()
        w = w * factor
        keep = w > 2.0 ** (-2.0 * _STEP) * w.max()
        return new.update(y[keep], p[keep], sample_weight=w[keep])


_Memory = CalibrationSketch | WindowedSketch | FadingSketch


class StreamingCalibrator(BaseCalibrator):
    r"""Any binary calibrator, fitted to a stream of batches in constant memory.

    ``partial_fit`` adds a batch to a sketch. The calibrator is refitted to the sketch when probabilities are
    requested, and only if there are new samples. With ``window`` or ``half_life`` old samples are forgotten,
    so that the map follows a drift.

    Parameters
    ----------
    calibrator : calibrator, default=None
        Calibrator to fit: a binary calibrator of probabilities that supports weights. None means
        :class:`SplineCalibrator`.
    half_life : float, default=None
        Number of samples, at least 1, after which the weight of a sample is halved. None weights all samples
        equally.
    window : int, default=None
        Number of samples after which a sample is forgotten. None means never. Cannot be combined with
        ``half_life``.
    n_slots : int, default=10
        Number of slots of the window, a divisor of it. The window moves by one slot at a time, and contains
        between ``window - window / n_slots + 1`` and ``window`` samples.
    refit_every : int, default=1
        Number of new samples before the calibrator is refitted.
    precision : int, default=17
        Precision of the sketch.

    Attributes
    ----------
    sketch_ : CalibrationSketch
        The remembered samples, with outcomes 1 for ``classes_[1]``. With ``half_life`` the newest sample has
        its original weight.
    calibrator_ : calibrator
        The fitted calibrator, with classes 0 and 1; it is fitted on access.
    n_samples_seen_ : int
        Number of samples so far that had a positive weight.
    %(binary_fit)s

    See Also
    --------
    CalibrationMonitor : Alerts when a stream is miscalibrated.

    Notes
    -----
    The scores are probabilities. A sketch rounds them to ``2 ** -precision``, and finer near 0 and 1; apart
    from this rounding, the map is that of the wrapped calibrator on all samples. Without forgetting, and with
    integer weights, it does not depend on how the stream is divided into batches, bit for bit.

    With ``half_life`` :math:`h`, the weight of the sample :math:`k` samples before the newest is multiplied
    by :math:`2^{-k/h}`; all weights sum to about :math:`h / \log 2` samples. The samples of one batch are in
    order of age, the last one is the newest. A sample counts once in these ages, whatever its weight; samples
    of weight 0 do not count.

    The time of a batch is proportional to its samples; a fit takes the time of the wrapped calibrator for one
    or two weighted samples in each occupied bin of the sketch.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.monitor import StreamingCalibrator
    >>> rng = np.random.default_rng(0)
    >>> calibrator = StreamingCalibrator(half_life=5000)
    >>> for day in range(10):
    ...     p = rng.uniform(size=1000)
    ...     y = (rng.uniform(size=1000) < p**2).astype(int)
    ...     _ = calibrator.partial_fit(p, y)
    >>> calibrator.transform([0.55, 0.8]).round(1)
    array([0.3, 0.6])
    """

    _multiclass = False
    _memory: _Memory
    # the calibrator fitted last, and the number of samples at that time
    _fitted: tuple[Any, int]

    def __init__(
        self,
        calibrator: Any = None,
        *,
        half_life: float | None = None,
        window: int | None = None,
        n_slots: int = 10,
        refit_every: int = 1,
        precision: int = 17,
    ) -> None:
        self.calibrator = calibrator
        self.half_life = half_life
        self.window = window
        self.n_slots = n_slots
        self.refit_every = refit_every
        self.precision = precision

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Add the next batch of a stream.

        Parameters
        ----------
        X : float or array-like of shape (n,), (n, 1) or (n, 2)
            Predicted probabilities, the oldest first, and later than those of earlier calls.
        y : label or array-like of shape (n,)
            Class labels; a batch with one label only is allowed.
        sample_weight : array-like of shape (n,) or None, default=None
            Non-negative weights.
        %(two_labels)s

        Returns
        -------
        self
            The calibrator; unchanged if an argument is invalid.
        """
        self._check_parameters()
        X, y = _validation.as_samples(X, y)
        first = not hasattr(self, "classes_")
        scores = self._check_scores(X, y, reset=first)
        known = _validation.check_two_labels(y, classes) if first else self.classes_
        labels = check_known(y, known, classes)
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if labels.shape != scores.shape[:1]:
            raise ValueError(
                f"y has shape {labels.shape} but X has {scores.shape[0]} samples. Pass one label per sample."
            )
        weight = self._read_weight(sample_weight, scores.shape[0])
        self._check_classes(known, scores)
        _validation.check_columns(X, known, "X")
        codes = np.asarray(labels == known[1], dtype=np.int64)
        if weight is not None and not (weight > 0).all():
            keep = weight > 0
            scores, codes, weight = scores[keep], codes[keep], weight[keep]
        if first:
            self.classes_, self._memory, self._fitted = known, self._new_memory(), (None, 0)
        self._memory.update(codes, scores, sample_weight=weight)
        return self

    @property
    def sketch_(self) -> CalibrationSketch:
        """The remembered samples."""
        check_is_fitted(self, "classes_")
        memory = self._memory
        return memory.copy() if isinstance(memory, CalibrationSketch) else memory.current()

    @property
    def n_samples_seen_(self) -> int:
        """Number of samples so far that had a positive weight."""
        check_is_fitted(self, "classes_")
        memory = self._memory
        return memory.n_samples if isinstance(memory, CalibrationSketch) else memory.n_seen

    @property
    def calibrator_(self) -> Any:
        """The fitted calibrator."""
        check_is_fitted(self, "classes_")
        fitted, seen = self._fitted
        if fitted is None or self.n_samples_seen_ - seen >= self.refit_every:
            self._fitted = self._fit_now()
        return self._fitted[0]

    def _check_parameters(self) -> None:
        if self.calibrator is not None:
            check_calibrator(self.calibrator)
            if scores_wanted(self.calibrator) == "logit":
                raise ValueError(
                    "calibrator needs logits, but a sketch contains probabilities. Use a calibrator of "
                    "probabilities, link='logit'."
                )
        _validation.check_integer(self.refit_every, "refit_every")
        _validation.check_size(self.n_slots, "n_slots")
        if self.half_life is not None and self.window is not None:
            raise ValueError("half_life and window cannot be combined. Pass one of them.")
        self._new_memory()

    def _new_memory(self) -> _Memory:
        if self.window is not None:
            window, n_slots = _validation.check_integer(self.window, "window"), int(self.n_slots)
            if window % n_slots:
                raise ValueError(
                    f"window={window} is not a multiple of n_slots={n_slots}. Pass a multiple of n_slots."
                )
            return WindowedSketch(window, n_slots=n_slots, precision=self.precision)
        if self.half_life is not None:
            half_life = _validation.check_positive(self.half_life, "half_life")
            if half_life < 1.0:
                raise ValueError(f"half_life must be at least 1 sample, got {self.half_life!r}.")
            return FadingSketch(self.precision, half_life)
        return CalibrationSketch(precision=self.precision)

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        self._memory = self._new_memory()
        self._memory.update(codes, scores, sample_weight=weight)
        # fit raises the errors of the wrapped calibrator here, not when probabilities are requested
        self._fitted = self._fit_now()

    def _fit_now(self) -> tuple[Any, int]:
        """Return a calibrator fitted to the remembered samples, and the number of samples so far."""
        sketch, n_seen = self.sketch_, self.n_samples_seen_
        if sketch.n_samples == 0 or sketch.event_rate in (0.0, 1.0):
            raise ValueError(
                f"The remembered samples, of {n_seen} seen, contain only one class. Pass more samples to "
                "partial_fit before predicting, or use a longer window or half_life."
            )
        y, p, w = sketch.weighted_sample()
        calibrator = SplineCalibrator() if self.calibrator is None else self.calibrator
        return fit_clone(calibrator, p, y, w), n_seen

    def _may_be_certain(self) -> bool:
        return may_be_certain(self.calibrator_)

    def _map_scores(self, scores: Array) -> Array:
        return event_probability(self.calibrator_, scores)
