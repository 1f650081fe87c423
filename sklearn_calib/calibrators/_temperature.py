"""Temperature scaling, for two classes and for many."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils import Tags

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._links import EPS, logit
from sklearn_calib.calibrators._base import BaseCalibrator, check_link
from sklearn_calib.calibrators._certificate import MonotoneCalibrator
from sklearn_calib.calibrators._platt import (
    StandardRows,
    chunks,
    is_long,
    logistic_curve,
    pool_in_pairs,
    power_of_two,
)
from sklearn_calib.calibrators._remote import discount_remote

__all__ = ["TemperatureCalibrator", "fit_inverse_temperature"]

Array = NDArray[np.float64]
# From an inverse temperature to derivative and second derivative of the loss.
Derivatives = Callable[[float], tuple[float, float]]

# The inverse temperature stays within this factor (as a logarithm) of both 1 and 1 / typical logit.
_REACH = 10.0
_MAX_ITERATIONS = 100
_LAST_MOVE = 1e-8
_LAST_CHORD = 1e-6
# Rows of the subset whose solution is the start for all rows.
_COARSE_ROWS = 2048
# Logits handled at a time, so that temporaries stay in cache.
_CHUNK = 1 << 15


class TemperatureCalibrator(MonotoneCalibrator):
    r"""Temperature scaling: log-probabilities divided by one number, then normalised.

    With :math:`\beta = 1/T` the calibrated probabilities are :math:`p_k^\beta / \sum_j p_j^\beta`, and for
    two classes the log-odds are multiplied by :math:`\beta`. A temperature above 1 repairs overconfidence. It
    is the one with the least weighted log loss of the training rows (for two classes see the Notes); as
    :math:`T = 1` changes nothing, that loss is never above the original one, and the ranking of the classes
    of a row never changes.

    Parameters
    ----------
    link : {"logit", "identity"}, default="logit"
        What the scores are. "logit": probabilities, in one, two or K columns; 0 is raised to 2**-53.
        "identity": logits, that is the log-odds of ``classes_[1]`` in one column, or one logit per class in
        two or more.

    Attributes
    ----------
    temperature_ : float
        :math:`T > 0`. Scores that separate the classes of all rows have no best temperature, nor have scores
        that are worse than none: :math:`\beta` then stops at the end of its range, which reaches a factor
        :math:`e^{10}` beyond both 1 and the inverse of the typical (root mean square) difference of logits.
    training_cutoff_error_ : float
        For two classes: cutoff calibration error of the fitted map on the training rows.
    training_event_rate_ : float
        For two classes: weighted frequency of ``classes_[1]`` among the training rows.
    training_size_ : float
        For two classes: number of training rows; with weights that are not integers, their effective number.
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of ``X``, where it has string names.

    See Also
    --------
    PlattCalibrator : an intercept besides, for two classes.

    Notes
    -----
    The loss is convex in :math:`\beta`. Its derivative is brought to zero by Newton's method in
    :math:`\log\beta`, kept in a bracket; no step size is to be tuned. A subset of the rows, or for two
    classes a smaller problem of pooled log-odds, gives the start, so that one to three passes over all
    :math:`n K` scores suffice. With two classes the certificate is available.

    Of two classes, probabilities that are remote (few, and far closer to 0 or 1 than the others) count less,
    by the rule of :class:`PlattCalibrator`: a handful of zeros and ones that are wrong would otherwise make
    the temperature great. The loss that is least is then the one with these weights. With
    ``link="identity"``, and where nothing is remote, every row counts in full.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger (2017). On calibration of modern neural networks. ICML.
       arXiv:1706.04599.

    Examples
    --------
    >>> from sklearn_calib.calibrators import TemperatureCalibrator
    >>> scores, outcomes = [0.1, 0.1, 0.1, 0.9, 0.9, 0.9], [0, 0, 1, 0, 1, 1]
    >>> calibrator = TemperatureCalibrator().fit(scores, outcomes)
    >>> round(calibrator.temperature_, 3)
    3.17
    >>> calibrator.transform([0.1, 0.5, 0.9]).round(3)
    array([0.333, 0.5  , 0.667])
    """

    temperature_: float

    def __init__(self, link: str = "logit") -> None:
        self.link = link

    def cutoff_certificate(
        self,
        confidence: float = 0.95,
        method: str = "asymptotic",
        *,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> float:
        """Return the certificate of the fitted map; see :meth:`PlattCalibrator.cutoff_certificate`.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability, over the draw of the training rows, with which the bound holds.
        method : {"asymptotic", "dkw", "paper", "bootstrap"}, default="asymptotic"
            The margin.
        n_resamples : int, default=999
            Bootstrap samples; at least 1 / (1 - ``confidence``) - 1.
        random_state : int, Generator, RandomState or None, default=None
            Source of the bootstrap samples; an integer makes the certificate reproducible.

        Returns
        -------
        float
            The bound, in [0, 1].

        Raises
        ------
        ValueError
            As for the other calibrators, and for more than two classes: the cutoff calibration error is one
            of binary forecasts.
        """
        if hasattr(self, "classes_") and self.classes_.shape[0] > 2:
            raise ValueError(
                f"A certificate exists for two classes, but y of fit had {self.classes_.shape[0]}. Calibrate "
                "one class against the rest to certify its probability."
            )
        return super().cutoff_certificate(
            confidence, method, n_resamples=n_resamples, random_state=random_state
        )

    def __sklearn_tags__(self) -> Tags:
        """Declare that several classes are supported."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags

    def _score_kind(self) -> str:
        return "probability" if check_link(self.link) == "probability" else "logit"

    def _check_classes(self, classes: NDArray[Any], scores: Array) -> None:
        BaseCalibrator._check_classes(self, classes, scores)

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        if scores.ndim == 1:
            super()._fit_scores(scores, codes, weight)
            return
        for name in ("training_cutoff_error_", "training_event_rate_", "training_size_"):
            self.__dict__.pop(name, None)
        self.temperature_ = 1.0 / fit_inverse_temperature(self._logits(scores), codes, weight)

    def _fit_monotone(self, grouped: GroupedOutcomes) -> None:
        z = self._logits(grouped.prob)
        discounted = discount_remote(z, grouped) if self.link == "logit" else None
        self.temperature_ = 1.0 / _fit_groups(z, grouped if discounted is None else discounted)

    def _map_scores(self, scores: Array) -> Array:
        if scores.ndim == 1:
            return logistic_curve(scores, self.link, 1.0 / self.temperature_, 0.0)
        mapped: Array = softmax(self._logits(scores) / self.temperature_, axis=1)
        return mapped

    def _logits(self, scores: Array) -> Array:
        if self.link == "identity":
            return scores
        if scores.ndim == 1:
            return logit(scores)
        logits: Array = np.maximum(scores, EPS)
        return np.log(logits, out=logits)


def _fit_groups(z: Array, grouped: GroupedOutcomes) -> float:
    """Return the inverse temperature of grouped log-odds, in increasing order."""
    if z[0] == 0.0 and z[-1] == 0.0:
        return 1.0
    magnitude = power_of_two(z)
    if is_long(z):
        few, mass = pool_in_pairs(z, grouped.weight, 1.0 / magnitude)
    else:
        few, mass = z / magnitude, grouped.weight
    spread = float(np.sqrt((few * few * mass).sum() / grouped.total))
    few = few / spread
    rows = StandardRows(z, grouped.weight, 1.0 / magnitude, 0.0, 1.0 / spread)
    linear = float(rows.moments(grouped.positives)[0])
    scale, flat_slope = spread * magnitude, float(few @ mass) / 2.0 - linear
    separated = _separates(z, grouped)
    coarse = StandardRows(few, mass)
    beta = _solve(_derivatives_of(coarse, linear), scale, separated, flat_slope)
    if separated or flat_slope >= 0.0 or not is_long(z):
        return beta
    # the curvature of the pooled log-odds is nearly right, so that a step that proves small needs no other
    unit = beta * scale
    second = _derivatives_of(coarse, linear)(unit)[1]
    move = (linear - float(rows.gradient(np.array([unit, 0.0]))[0])) / (unit * second)
    if abs(move) <= _LAST_CHORD:
        return float(beta * np.exp(move))
    return _solve(_derivatives_of(rows, linear), scale, separated, flat_slope, beta)


def _separates(z: Array, grouped: GroupedOutcomes) -> bool:
    """Tell whether no event has negative and no other row positive log-odds."""
    return not any(
        (((positives > 0) & (part < 0)) | ((positives < weight) & (part > 0))).any()
        for part, weight, positives in (
            (z[rows], grouped.weight[rows], grouped.positives[rows]) for rows in chunks(z.shape[0])
        )
    )


def _derivatives_of(rows: StandardRows, linear: float) -> Derivatives:
    """Return the derivatives of sum_i weight_i log(1 + exp(beta x_i)) - beta linear."""

    def derivatives(beta: float) -> tuple[float, float]:
        gradient, hessian = rows.derivatives(np.array([beta, 0.0]))
        return float(gradient[0]) - linear, float(hessian[0, 0])

    return derivatives


def fit_inverse_temperature(z: Array, codes: NDArray[np.int64], weight: Array | None) -> float:
    """Return the inverse temperature of rows of logits."""
    n = z.shape[0]
    w = np.ones(n) if weight is None else weight
    # the loss of a row is log sum_k exp(beta d_k), with d the logits less that of the true class
    d, scale = _unit_scale(z - z[np.arange(n), codes][:, np.newaxis], w)
    if scale == 0.0:
        return 1.0
    start, stride = 1.0, n // _COARSE_ROWS
    if stride > 1 and not _is_separated(d[::stride]):
        start = _solve_rows(d[::stride], w[::stride], scale, start)
    return _solve_rows(d, w, scale, start)


def _is_separated(d: Array) -> bool:
    return not (d > 0.0).any()


def _solve_rows(d: Array, w: Array, scale: float, start: float) -> float:
    separated, flat_slope = _is_separated(d), float((d.mean(axis=1) * w).sum())
    return _solve(lambda beta: _row_derivatives(d, w, beta), scale, separated, flat_slope, start)


def _row_derivatives(d: Array, w: Array, beta: float) -> tuple[float, float]:
    """Return derivative and second derivative of sum_i w_i log sum_k exp(beta d_ik)."""
    first = second = 0.0
    rows = max(1, _CHUNK // d.shape[1])
    for start in range(0, d.shape[0], rows):
        part, share = d[start : start + rows], w[start : start + rows]
        e = beta * part
        e -= e.max(axis=1, keepdims=True)
        np.exp(e, out=e)
        total = e.sum(axis=1)
        e *= part
        mean = e.sum(axis=1) / total
        e *= part
        variance = e.sum(axis=1) / total - mean * mean
        first += float((share * mean).sum())
        second += float((share * variance).sum())
    return first, second


def _unit_scale(z: Array, weight: Array) -> tuple[Array, float]:
    """Return logits divided by their weighted root mean square, and the latter."""
    largest = float(max(z.max(), -z.min()))
    if largest == 0.0:
        return z, 0.0
    unit = z / largest
    square = np.einsum("ij,ij->i", unit, unit) / unit.shape[1]
    spread = float(np.sqrt((square * weight).sum() / weight.sum()))
    unit /= spread
    return unit, spread * largest


def _solve(
    derivatives: Derivatives, scale: float, separated: bool, flat_slope: float, start: float = 1.0
) -> float:
    """Return the inverse temperature at which the derivative of the loss vanishes.

    ``derivatives`` take it in units in which logits are of order 1; what is returned, and ``start``, belong
    to the logits themselves. The derivative increases. It is ``flat_slope`` at 0, and negative for ever if
    the rows are separated.
    """
    shift = float(np.log(scale))
    low, high = min(0.0, shift) - _REACH, max(0.0, shift) + _REACH
    if separated or flat_slope >= 0.0:
        return float(np.exp((high if separated else low) - shift))
    theta = float(np.clip(np.log(start) + shift, low, high))
    for iteration in range(_MAX_ITERATIONS):
        beta = float(np.exp(theta))
        first, second = derivatives(beta)
        low, high = (theta, high) if first < 0.0 else (low, theta)
        newton = theta - first / (beta * second) if second > 0.0 else low
        if abs(newton - theta) <= _LAST_MOVE:
            return float(np.exp(newton - shift))
        # bisection, where Newton leaves the bracket or takes too long
        inside = low < newton < high and iteration < _MAX_ITERATIONS // 2
        theta = newton if inside else (low + high) / 2.0
        if high - low <= _LAST_MOVE:
            break
    return float(np.exp(theta - shift))
