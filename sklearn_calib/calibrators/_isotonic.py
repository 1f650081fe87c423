"""Isotonic calibration: the non-decreasing least-squares fit to the outcomes."""

from typing import Any

import numpy as np

from sklearn_calib import _validation
from sklearn_calib._core._grouping import GroupedOutcomes, group_scores
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._core._maps import Node, Step, through
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify

_INTERPOLATIONS = ("linear", "step")
_CLIPS = ("auto",)


class IsotonicCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Isotonic regression of the outcomes on the score.

    The map minimizes :math:`\sum_i w_i (y_i - h(s_i))^2` over all non-decreasing :math:`h`, and is computed
    by the pool-adjacent-violators algorithm: the scores are divided into blocks, and the value of a block is
    its event frequency. The residuals of each block sum to zero, and the cutoff calibration error on the
    training samples is exactly 0 (Lemma D.1 of [2]_), so that the certificate equals the margin. Scores can
    be any real numbers.

    Parameters
    ----------
    interpolation : {"linear", "step"}, default="linear"
        The map between blocks. "linear" interpolates between the last score of a block and the first of the
        next, as scikit-learn's ``IsotonicRegression``; "step" uses the value of the lower block. Both agree
        on the training scores, and are constant outside their range.
    clip : None or "auto", default=None
        How to handle blocks whose event frequency is exactly 0 or 1, for which a single contradicting outcome
        makes the log loss infinite. None: they are not changed, as in scikit-learn. "auto": in a block of
        weight :math:`N`, 0 is replaced by :math:`1/(N+2)` and 1 by :math:`(N+1)/(N+2)` (Laplace's rule of
        succession), or by the value of the next block if that is closer.

    Attributes
    ----------
    X_thresholds_ : ndarray of shape (n_thresholds,)
        First and last score of each block, strictly increasing.
    y_thresholds_ : ndarray of shape (n_thresholds,)
        Value of the map in the block of each threshold, non-decreasing: the event frequency, unless clipped.
    %(trained_fit)s

    See Also
    --------
    PlattCalibrator : A smooth map with two parameters, preferable for few samples.

    Notes
    -----
    O(n log n), for the sort of the scores.

    A clipped map is monotone, so that its certificate is valid, but it differs from the event frequency of
    the extreme blocks, which increases the certificate. With "auto" such a block adds less than :math:`1/n`
    to ``training_cutoff_error_``, at most :math:`2/n` in total; with a number, a block of weight :math:`N`
    and frequency 0 adds :math:`N/n` times that number.

    References
    ----------
    .. [1] Zadrozny, Elkan (2002). Transforming classifier scores into accurate multiclass probability
       estimates. KDD.
    .. [2] Rossellini, Soloff, Barber, Ren, Willett (2025). Can a calibration metric be both testable and
       actionable? COLT. arXiv:2502.19851.

    Examples
    --------
    >>> from sklearn_calib.calibrators import IsotonicCalibrator
    >>> calibrator = IsotonicCalibrator().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> calibrator.transform([0.1, 0.25, 0.35])
    array([0.  , 0.5 , 0.75])
    >>> clipped = IsotonicCalibrator(clip="auto").fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> clipped.transform([0.1, 0.25, 0.4])
    array([0.33333333, 0.5       , 0.66666667])
    """

    _multiclass = False
    _fractions = True
    X_thresholds_: Array
    y_thresholds_: Array

    def __init__(self, *, interpolation: str = "linear", clip: str | None = None) -> None:
        self.interpolation = interpolation
        self.clip = clip

    @property
    def _scale_free(self) -> bool:
        return self.clip is None

    def _check_parameters(self) -> None:
        _validation.check_option(self.interpolation, "interpolation", _INTERPOLATIONS)
        if self.clip is not None:
            _validation.check_option(self.clip, "clip", _CLIPS, "None")

    def _score_kind(self) -> str:
        return "score"

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        grouped = group_scores(codes, scores, weight)
        self.X_thresholds_, self.y_thresholds_ = isotonic_thresholds(grouped, self.clip)
        certify(self, grouped, weight)

    def _may_be_certain(self) -> bool:
        return self.clip is None

    def _export(self, build: Any) -> Node:
        x, y = self.X_thresholds_, self.y_thresholds_
        if self.interpolation == "linear":
            return through(x, y)
        change = np.flatnonzero(np.diff(y)) + 1
        return Step(x[change], y[np.append(0, change)])

    def _map_scores(self, scores: Array) -> Array:
        step = self.interpolation == "step"
        return interpolate_blocks(self.X_thresholds_, self.y_thresholds_, scores, step)


def isotonic_thresholds(grouped: GroupedOutcomes, clip: str | None) -> tuple[Array, Array]:
    """Return first and last score of each block of the isotonic fit, once if equal, and the values there."""
    blocks = fit_isotonic(grouped)
    value = blocks.value if clip is None else _move_from_ends(blocks.value, blocks.weight)
    thresholds = np.column_stack([blocks.lower, blocks.upper]).ravel()
    values = np.repeat(value, 2)
    keep = np.append(True, thresholds[1:] > thresholds[:-1])
    return thresholds[keep], values[keep]


def _move_from_ends(value: Array, weight: Array) -> Array:
    """Return frequencies in which 0 and 1 are replaced by Laplace's rule, limited by the next value."""
    never, always = value == 0.0, value == 1.0
    between = value[~never & ~always]
    moved = value.copy()
    if never.any():
        moved[never] = min([1.0 / (float(weight[never].sum()) + 2.0), *between[:1]])
    if always.any():
        total = float(weight[always].sum())
        moved[always] = max([(total + 1.0) / (total + 2.0), *between[-1:]])
    return moved


def interpolate_blocks(x: Array, value: Array, scores: Array, step: bool = False) -> Array:
    """Return the map through ``(x, value)`` at the scores: linear or a step function, constant outside."""
    below = np.searchsorted(x, scores, side="right") - 1
    left = np.maximum(below, 0)
    low: Array = value[left]
    if step:
        return low
    right = np.minimum(below + 1, x.shape[0] - 1)
    high = value[right]
    gap = x[right] - x[left]
    fraction = np.divide(scores - x[left], gap, out=np.zeros_like(scores), where=gap > 0)
    # the minimum corrects rounding errors above the value of the upper block
    return np.minimum(low + np.clip(fraction, 0.0, 1.0) * (high - low), high)
