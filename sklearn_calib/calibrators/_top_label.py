"""Top-label calibration: the probability that the predicted class is correct."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._maps import Step, TopLabel
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_option
from sklearn_calib.calibrators._base import BaseCalibrator, may_be_certain
from sklearn_calib.calibrators._multiclass import check_calibrator, event_probability, fit_clone

Codes = NDArray[np.int64]

_MODES = ("per_class", "pooled")


class TopLabelCalibrator(BaseCalibrator):
    """Calibration of the confidence, with one binary calibrator for each predicted class.

    The samples are grouped by the most probable class. In each group the largest probability, the confidence,
    is calibrated as the probability that the prediction is correct: among the samples with the same predicted
    class and calibrated confidence c, a fraction c is correct (top-label calibration [1]_). With a single
    calibrator for all samples this holds only on average over the predicted classes (confidence calibration
    [2]_). The remaining probability 1 - c is divided among the other classes in proportion to their
    probabilities, equally if these are all zero. Probabilities are at least 2**-53 unless the calibrator
    itself returns 0 or 1.

    Parameters
    ----------
    calibrator : calibrator or classifier
        A binary calibrator of this package, or any classifier with ``predict_proba``; it receives confidences
        as one column, and labels 0 and 1. It is cloned for each predicted class.
    mode : {"per_class", "pooled"}, default="per_class"
        Whether to fit one calibrator for each predicted class, or one for all samples.

    Attributes
    ----------
    calibrators_ : list
        The fitted calibrators, by index of the predicted class. A class that was never predicted, or whose
        predictions were all correct or all incorrect, has the calibrator of all samples.
    pooled_ : object or None
        The calibrator of all samples; None if it was not needed, or if all samples were correct or all
        incorrect: then the confidence of new samples is ``pooled_rate_``.
    pooled_rate_ : float
        Frequency of correct predictions by Laplace's rule, (correct + 1) / (samples + 2), in total weight.
    %(multiclass_fit)s

    Raises
    ------
    ValueError
        When fitting, if ``mode`` is unknown or scores are not probabilities; and as for any calibrator.
    TypeError
        When fitting, if ``calibrator`` cannot be fitted or does not predict probabilities.

    See Also
    --------
    OneVsRestCalibrator : Calibrates the probability of each class, for all samples.

    Notes
    -----
    The cost is that of binary fits with n samples in total. The calibrated confidence c is that of the class
    predicted from the original scores; if c is smaller than the probability of another class, ``predict``
    returns the latter. Of tied classes the first is used.

    References
    ----------
    .. [1] Gupta, Ramdas (2022). Top-label calibration and multiclass-to-binary reductions. ICLR.
       arXiv:2107.08353, Algorithm 1.
    .. [2] Guo, Pleiss, Sun, Weinberger (2017). On calibration of modern neural networks. ICML.
       arXiv:1706.04599.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import IsotonicCalibrator, TopLabelCalibrator
    >>> proba = np.tile([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2]], (4, 1))
    >>> labels = [0, 1, 0, 1, 1, 0, 0, 2]
    >>> calibrator = TopLabelCalibrator(IsotonicCalibrator()).fit(proba, labels)
    >>> calibrator.predict_proba(proba[:2]).round(2)
    array([[0.75, 0.19, 0.06],
           [0.17, 0.5 , 0.33]])
    """

    calibrators_: list[Any]
    pooled_: Any
    pooled_rate_: float

    def __init__(self, calibrator: Any, *, mode: str = "per_class") -> None:
        self.calibrator = calibrator
        self.mode = mode

    def _check_parameters(self) -> None:
        check_calibrator(self.calibrator)
        check_option(self.mode, "mode", _MODES)

    def _score_kind(self) -> str:
        return "probability"

    def _needs_every_class(self) -> bool:
        return False

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        proba, top, confidence = _top(scores)
        right = (codes == top).astype(np.int64)
        w = np.ones(codes.shape[0]) if weight is None else weight
        self.pooled_rate_ = float((w @ right + 1.0) / (w.sum() + 2.0))
        n_classes = proba.shape[1]
        parts = [top == k for k in range(n_classes)]
        own = [self.mode == "per_class" and _has_both(right[part]) for part in parts]
        self.pooled_ = None
        if not all(own) and _has_both(right):
            self.pooled_ = fit_clone(self.calibrator, confidence, right, weight)
        self.calibrators_ = [
            fit_clone(
                self.calibrator, confidence[part], right[part], None if weight is None else weight[part]
            )
            if fits
            else self.pooled_
            for part, fits in zip(parts, own, strict=True)
        ]

    def _may_be_certain(self) -> bool:
        return any(may_be_certain(one) for one in self.calibrators_ if one is not None)

    def _export(self, build: Any) -> Any:
        if self.classes_.shape[0] == 2:
            known = [one for one in self.calibrators_ if one is not None]
            return build.composed(self, known, mirrored=True)
        rate = Step(np.zeros(0), np.array([self.pooled_rate_]))
        return TopLabel(tuple(rate if one is None else build.part(one) for one in self.calibrators_))

    def _map_scores(self, scores: Array) -> Array:
        proba, top, confidence = _top(scores)
        calibrated = np.full(top.shape[0], self.pooled_rate_)
        for k, calibrator in enumerate(self.calibrators_):
            part = np.flatnonzero(top == k)
            if calibrator is not None and part.shape[0]:
                calibrated[part] = event_probability(calibrator, confidence[part])
        rows = np.arange(top.shape[0])
        others = proba.copy()
        others[rows, top] = 0.0
        rest = others.sum(axis=1)
        empty = np.flatnonzero(rest == 0.0)
        others[empty] = 1.0
        others[empty, top[empty]] = 0.0
        rest[empty] = proba.shape[1] - 1.0
        # division before multiplication: the inverse of a tiny sum would overflow
        others /= rest[:, np.newaxis]
        others *= (1.0 - calibrated)[:, np.newaxis]
        others[rows, top] = calibrated
        return others[:, 1] if scores.ndim == 1 else others


def _top(scores: Array) -> tuple[Array, Codes, Array]:
    """Return the probabilities of all classes, the most probable class, and its probability."""
    proba = np.column_stack([1.0 - scores, scores]) if scores.ndim == 1 else scores
    top: Codes = proba.argmax(axis=1)
    return proba, top, proba[np.arange(top.shape[0]), top]


def _has_both(right: Codes) -> bool:
    return bool(right.any() and not right.all())
