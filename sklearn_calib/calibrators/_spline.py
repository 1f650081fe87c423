"""Spline calibration: a penalized smooth curve of log-odds."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from sklearn_calib import _validation
from sklearn_calib._compat import available_if
from sklearn_calib._core._grouping import GroupedOutcomes, group_scores
from sklearn_calib._core._links import logit
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator, check_link
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify
from sklearn_calib.calibrators._inverse_temperature import USUAL_SLOPE
from sklearn_calib.calibrators._platt import fit_platt, platt_targets
from sklearn_calib.calibrators._pspline import (
    Anchor,
    LogisticSpline,
    aicc,
    akaike_weights,
    cells,
    evaluate,
    fit_spline,
    mid_quantiles,
    place_knots,
)

# Scores are pooled into this many bins of equal width between two knots, if they are more than all bins.
_BINS = 64
# The penalty limits the flexibility, so more knots hardly change the curve; time grows with their square.
_MOST_KNOTS = 1000
# The bulk of the scores lies between the quantiles of these levels.
_BULK = np.array([0.05, 0.95])
# Scores farther than this many half-widths of the bulk from its middle are outlying. Their further distance
# is compressed logarithmically on this scale, and they get full weight if many more than this many samples
# are outlying on the same side.
_FENCE = 2.5
_REMOTE_SCALE = 0.25
_NO_SLOPE = 1e-9
_OUTLYING_SAMPLES = 100.0
# Weight of the event rate, in samples, that is mixed into all probabilities.
_DOUBT = 0.1
# Prior odds of the curve and of Platt scaling of the probabilities.
_PRIOR_ODDS = np.array([2.0, 1.0])
# Smallest slope of a monotone spline, as a fraction of that of the straight line.
_LEAST_SLOPE = 1e-3


def _is_monotone(calibrator: Any) -> bool:
    if not calibrator.monotone:
        raise AttributeError(
            "cutoff_certificate needs a map that is monotone. Use SplineCalibrator(monotone=True)."
        )
    return True


class SplineCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Penalized logistic spline: a nonlinear extension of Platt scaling.

    The log-odds of an event are a cubic spline :math:`f` of the log-odds :math:`z` of the score. It minimizes
    the log loss against Platt's smoothed targets plus :math:`\lambda/2` times the sum of squared second
    differences of its coefficients. Straight lines are not penalized: without evidence of curvature the map
    is Platt scaling, and with few samples it is close to temperature scaling. The amount of smoothing is
    selected by AICc.

    Parameters
    ----------
    %(score_link)s
    n_knots : int, default=16
        Number of knots of the spline, at least 2, placed at quantiles of the scores. The penalty, not this
        number, limits the flexibility of the curve.
    penalty : "auto" or float, default="auto"
        :math:`\lambda`. "auto" averages the fits with :math:`\lambda = 10^{-3}, 10^{-2}, \dots, 10^3` and
        infinity by their Akaike weights, and averages the result with temperature scaling and, for
        "logit", Platt scaling of the probabilities; see Notes. A positive number, possibly infinite, is a
        fixed penalty.
    monotone : bool, default=False
        Whether the map must be strictly increasing or strictly decreasing. It then has
        :meth:`cutoff_certificate`. Distinct scores remain distinct up to rounding.

    Attributes
    ----------
    penalty_ : float
        The penalty, or the one with the largest Akaike weight.
    effective_parameters_ : float
        Effective number of parameters of the curve: 2 for a straight line, 1 for temperature scaling.
    %(trained_fit)s

    See Also
    --------
    PlattCalibrator : Straight line in the log-odds.
    IsotonicCalibrator : Any non-decreasing map.

    Notes
    -----
    *Fit.* With coefficients :math:`c_j` of cubic B-splines, Greville abscissae :math:`\xi_j`, and
    :math:`e_j` the second divided difference of :math:`c` at :math:`\xi_j, \xi_{j+1}, \xi_{j+2}`, twice the
    usual normalization, the fit minimizes

    .. math:: \sum_i w_i \bigl[\log(1 + e^{f(z_i)}) - t_i f(z_i)\bigr]
        + \frac\lambda2 \sum_j e_j^2\, \frac{\xi_{j+2} - \xi_j}2

    by Newton's method (penalized iteratively reweighted least squares [1]_). Scores are in units of half the
    distance between their quantiles of level .05 and .95. With :math:`\nu` the trace of the inverse penalized
    information times the information, :math:`\mathrm{AICc} = 2 \cdot \text{loss} + 2\nu +
    2\nu(\nu+1)/(n - \nu - 1)` [2]_. The curves are averaged with Akaike weights :math:`\propto
    e^{-\mathrm{AICc}/2}` [3]_, so that the map is stable if two penalties fit equally well. With
    ``monotone=True`` the increments of the coefficients are at least a thousandth of those of the straight
    line, which is sufficient for an increasing spline. Each Newton step is then a non-negative least squares
    problem, and coefficients at their bounds do not count in :math:`\nu`.

    *Few samples.* With ``penalty="auto"`` the curve is averaged with a straight line whose slope has a prior,
    by the evidence of each [5]_, and the probabilities are moved toward the event rate by 0.1 / n. The
    excess of scores far from the bulk is compressed by a logarithm, and a few of them are downweighted.
    Outside the range of the training scores the curve is a straight line. docs/fitting.md has the formulas.

    *Cost.* O(n log n) for the sort that groups equal scores. More distinct scores than 64 for each interval
    between two knots are pooled into 64 bins of equal width there; docs/fitting.md has the effect.

    References
    ----------
    .. [1] Eilers, Marx (1996). Flexible smoothing with B-splines and penalties. Statistical Science 11.
    .. [2] Hurvich, Simonoff, Tsai (1998). Smoothing parameter selection in nonparametric regression using an
       improved Akaike information criterion. Journal of the Royal Statistical Society B 60.
    .. [3] Burnham, Anderson (2002). Model selection and multimodel inference. Springer. (Akaike weights.)
    .. [4] Lucena (2018). Spline-based probability calibration. arXiv:1809.07751. (Splines of scores as
       features of a logistic regression.)
    .. [5] MacKay (1992). Bayesian interpolation. Neural Computation 4. (Evidence.)

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import SplineCalibrator
    >>> p = (np.arange(2000) + 0.5) / 2000
    >>> y = np.random.default_rng(0).random(2000) < p**2
    >>> calibrator = SplineCalibrator().fit(p, y)
    >>> bool(np.abs(calibrator.transform(p) - p**2).max() < 0.05)
    True
    """

    _multiclass = False
    _fractions = True
    training_event_rate_: float
    training_size_: float
    penalty_: float
    effective_parameters_: float

    def __init__(
        self, *, link: str = "logit", n_knots: int = 16, penalty: str | float = "auto", monotone: bool = False
    ) -> None:
        self.link = link
        self.n_knots = n_knots
        self.penalty = penalty
        self.monotone = monotone

    @property
    def _monotone(self) -> bool:  # type: ignore[override]
        return bool(self.monotone)

    cutoff_certificate = available_if(_is_monotone)(CutoffCertificateMixin.cutoff_certificate)

    def _check_parameters(self) -> None:
        check_link(self.link)
        _validation.check_size(self.n_knots, "n_knots", 2, _MOST_KNOTS)
        if isinstance(self.penalty, str):
            _validation.check_option(self.penalty, "penalty", ("auto",), "a number")
        elif not np.isscalar(self.penalty) or self.penalty != np.inf:
            _validation.check_positive(self.penalty, "penalty")
        _validation.check_flag(self.monotone, "monotone")

    def _score_kind(self) -> str:
        return check_link(self.link)

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        grouped = group_scores(codes, scores, weight)
        z = self._linked(grouped.prob)
        self._axis = _fit_axis(z, grouped.weight)
        x, trust = self._axis.place(z), self._axis.trust(z, grouped.weight)
        pooled = GroupedOutcomes(x, grouped.weight * trust, grouped.positives * trust)
        plain = replace(pooled, prob=grouped.prob)
        knots = place_knots(x, pooled.weight, self.n_knots)
        if x.shape[0] > _BINS * (self.n_knots - 1):
            starts = cells(x, knots, _BINS)
            pooled, plain = pooled.pooled(starts), plain.pooled(starts)
        self._spline = self._fit_curve(pooled, knots)
        self.penalty_, self.effective_parameters_ = self._spline.penalty, self._spline.edf
        self._share = 0.0
        if self.link == "logit" and isinstance(self.penalty, str):
            self._add_platt(self._curve(pooled.prob), plain)
        self._doubt = min(_DOUBT / grouped.total, 1.0) if isinstance(self.penalty, str) else 0.0
        self._event_rate = (float(grouped.positives.sum()) + 0.5) / (grouped.total + 1.0)
        certify(self, grouped, weight)

    def _linked(self, scores: Array) -> Array:
        return logit(scores) if self.link == "logit" else scores

    def _fit_curve(self, pooled: GroupedOutcomes, knots: Array) -> LogisticSpline:
        """Fit the curve, with the sign of the scores reversed if the event rate decreases with them."""
        slope, intercept = fit_platt(pooled.prob, pooled)
        # the sign of a slope of 0 would be that of a rounding error
        self._rising = slope >= -_NO_SLOPE
        if knots[0] == knots[-1]:
            return LogisticSpline(np.arange(2.0), np.full(2, intercept), np.zeros(2), np.inf, 1.0)
        rows = np.array([pooled.prob, pooled.weight, platt_targets(pooled), pooled.positives])
        unit, origin = self._axis.half_width, self._axis.place(np.zeros(1))[0]
        if not self._rising:
            rows = np.ascontiguousarray(rows[:, ::-1])
            rows[0], knots, unit, origin = -rows[0], -knots[::-1], -unit, -origin
        x, weight, target, observed = rows
        anchor: Anchor | None = Anchor(USUAL_SLOPE, None, observed)
        if self.link == "logit":
            # the average of an increasing line and a decreasing curve need not be monotone
            mixed = self._rising or not self.monotone
            anchor = Anchor(unit, float(origin), observed) if mixed else None
        penalty = None if isinstance(self.penalty, str) else float(self.penalty)
        least = _LEAST_SLOPE * abs(slope) if self.monotone else None
        return fit_spline(x, weight, target, knots, (abs(slope), intercept), penalty, least, anchor)

    def _add_platt(self, curve: Array, plain: GroupedOutcomes) -> None:
        """Fit Platt scaling of the probabilities, and set its weight against the log-odds of the curve."""
        self._slope, self._intercept = fit_platt(plain.prob, plain)
        line, edf = self._slope * plain.prob + self._intercept, self.effective_parameters_
        found = aicc(np.array([curve, line]), plain.weight, plain.positives, np.array([edf, 2.0]))
        # the average of an increasing and a decreasing map need not be monotone
        if (self._slope > 0.0) == self._rising:
            odds = _PRIOR_ODDS * akaike_weights(found / 2.0)
            self._share = float(odds[1] / odds.sum())
            self.effective_parameters_ += self._share * (2.0 - edf)

    def _curve(self, x: Array) -> Array:
        return evaluate(self._spline, x if self._rising else -x, self.monotone)

    def _export(self, build: Any) -> Any:
        if self.link == "logit":
            return build.curve(self)
        return build.curve(self, center=self._axis.middle, scale=self._axis.half_width)

    def _map_scores(self, scores: Array) -> Array:
        proba: Array = expit(self._curve(self._axis.place(self._linked(scores))))
        proba += self._doubt * (self._event_rate - proba)
        if self._share > 0.0:
            proba *= 1.0 - self._share
            proba += self._share * expit(self._slope * scores + self._intercept)
        return proba


@dataclass(frozen=True)
class _Axis:
    """Transformation of the scores: standardized by their bulk, with outlying ones compressed."""

    middle: float
    half_width: float

    def place(self, z: Array) -> Array:
        x: Array = (z - self.middle) / self.half_width
        far = np.flatnonzero(np.abs(x) > _FENCE)
        if far.size:
            # subtracting the excess from x would lose all digits of a very large x
            drawn_in = _REMOTE_SCALE * np.log1p((np.abs(x[far]) - _FENCE) / _REMOTE_SCALE)
            x[far] = np.copysign(_FENCE + drawn_in, x[far])
        return x

    def trust(self, z: Array, weight: Array) -> Array:
        """Return the factor of the weight of each score: less than 1 for outlying ones if they are few."""
        x = (z - self.middle) / self.half_width
        remote = 1.0 - 1.0 / (1.0 + np.maximum(np.abs(x) - _FENCE, 0.0)) ** 2
        below = weight @ np.where(x < 0.0, remote, 0.0)
        above = weight @ np.where(x > 0.0, remote, 0.0)
        return np.asarray(
            1.0 - remote * _OUTLYING_SAMPLES / (_OUTLYING_SAMPLES + np.where(x < 0.0, below, above))
        )


def _fit_axis(z: Array, weight: Array) -> _Axis:
    """Return the axis of sorted scores; all of them are the bulk if its quantiles coincide."""
    low, high = mid_quantiles(z, weight, _BULK).tolist()
    if low == high:
        low, high = float(z[0]), float(z[-1])
    return _Axis((low + high) / 2.0, (high - low) / 2.0 or 1.0)
