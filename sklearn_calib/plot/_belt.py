r"""The calibration belt: polynomial logistic recalibration, its test, and its confidence regions.

The log-odds of the event are a polynomial in x = logit(p) of degree m >= 1; calibration is the polynomial x.
Starting with degree 1, the degree rises by one as long as the likelihood-ratio statistic of the next
coefficient exceeds the quantile k of chi-squared(1) at ``selection``, up to degree 4. The test statistic is
twice the gain in log-likelihood of the selected fit over calibration.

Its distribution given the selected degree. For large n, under calibration, the gain of degree 1 (two
coefficients) is chi-squared(2) and the gains D_2, D_3, ... of one more coefficient are chi-squared(1), all
independent of each other. Degree m is selected when D_2, ..., D_m exceed k and D_(m+1) does not; the last one
is independent of the statistic X + D_2 + ... + D_m and drops out. With F_r the tail of the statistic after r
= m - 1 steps, and f the density of D given D > k,

    F_0(t) = exp(-t / 2),    F_r(t) = int_k^u F_(r-1)(t - v) f(v) dv + P(D > u | D > k),   u = t - (r - 1) k,

and F_r(t) = 1 for t <= r k, because a term F_(r-1) is 1 when its argument is below (r - 1) k. With v = z^2
the integrand is smooth and Gauss-Legendre quadrature accurate to rounding.

The belt at one level collects all polynomials of the selected degree whose likelihood-ratio statistic,
against the selected fit, is below the quantile of that distribution; its limits at x are their extremes
there.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy.optimize import brentq
from scipy.special import chdtri, erfc, expit

from sklearn_calib._core._binning import weight_middles
from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._links import logit
from sklearn_calib._core._newton import fit_logistic
from sklearn_calib._html import result_html
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_fraction, check_numbers
from sklearn_calib.plot._bands import ReliabilityBand
from sklearn_calib.plot._matplotlib import FAR, p_text

MAX_DEGREE = 4
# Level of confidence with which a further coefficient is selected.
_SELECTION = 0.95
# More distinct predictions than this are gathered in this many bins.
_BINS = 2048
_POINTS = 101
_MOST_STEPS = 200
_MOST_HALVINGS = 50
# Smallest information, in observations, of a fit that exists: it vanishes under perfect separation.
_INFORMATION = 1e-6
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


def belt_sf(t: Array, degree: int, selection: float) -> Array:
    """Return P(statistic > t) under calibration, given the selected degree."""
    return _sf(np.asarray(t, dtype=np.float64), degree - 1, selection, float(chdtri(1, 1.0 - selection)))


def _sf(t: Array, steps: int, selection: float, k: float) -> Array:
    if steps == 0:
        return np.exp(-0.5 * np.maximum(t, 0.0))
    low, high = np.sqrt(k), np.sqrt(np.maximum(t - (steps - 1) * k, k))
    half = 0.5 * (high - low)[..., np.newaxis]
    z = low + half * (1.0 + _NODES)
    inner = _sf(t[..., np.newaxis] - z**2, steps - 1, selection, k)
    density = np.sqrt(2.0 / np.pi) * np.exp(-0.5 * z**2)
    whole = (inner * density * _WEIGHTS * half).sum(axis=-1) + erfc(high / np.sqrt(2.0))
    return np.where(t <= steps * k, 1.0, np.minimum(whole / (1.0 - selection), 1.0))


@lru_cache(maxsize=256)
def belt_quantile(confidence: float, degree: int, selection: float) -> float:
    """Return the quantile of the statistic under calibration, given the selected degree."""
    risk = 1.0 - confidence
    high = 10.0
    while belt_sf(np.array(high), degree, selection) > risk:
        high *= 2.0
    return float(
        brentq(lambda t: float(belt_sf(np.array(t), degree, selection)) - risk, 0.0, high, xtol=1e-10)
    )


@dataclass(frozen=True, eq=False)
class CalibrationBelt:
    """Polynomial recalibration on the logit axis, and its test of perfect calibration.

    Attributes
    ----------
    degree : int
        Selected degree of the polynomial, 1 to 4.
    statistic : float
        Twice the gain in log-likelihood over the predictions.
    pvalue : float
        P-value of the test, by its large-sample distribution given the selected degree.
    selection : float
        Level of the quantile at which the degree rises.
    n_samples : float
        Number of observations.
    """

    degree: int
    statistic: float
    pvalue: float
    selection: float
    n_samples: float
    _fit: "_Fit" = field(repr=False)
    _axis: "_Axis" = field(repr=False)

    def __str__(self) -> str:
        return (
            f"calibration belt of degree {self.degree}: statistic {self.statistic:.4g}, "
            f"{p_text(self.pvalue)} (n = {self.n_samples:g})"
        )

    def _repr_html_(self) -> str:
        return result_html(
            "calibration belt",
            [
                ("degree", str(self.degree)),
                ("statistic", f"{self.statistic:.4g}"),
                ("p-value", f"{self.pvalue:.3g}"),
                ("n", f"{self.n_samples:g}"),
            ],
        )

    def points(self) -> Array:
        """Return the predictions at which the belt is drawn, between the smallest and the largest.

        Returns
        -------
        ndarray of shape (m,)
            Evenly spaced on the axis of probabilities and on that of log-odds, in increasing order.
        """
        x = self._axis.x
        low, high = max(x[0], -FAR), min(x[-1], FAR)
        even = np.linspace(expit(low), expit(high), _POINTS)
        return np.unique(np.concatenate((even, expit(np.linspace(low, high, _POINTS)))))

    def curve(self, predicted: Array) -> Array:
        """Return the event probabilities of the selected fit.

        Parameters
        ----------
        predicted : ndarray of shape (k,)
            Predictions, strictly between 0 and 1.

        Returns
        -------
        ndarray of shape (k,)

        Raises
        ------
        ValueError
            If ``predicted`` is malformed.
        """
        x = logit(_inside(predicted))
        return np.asarray(expit(self._axis.basis(x, self.degree) @ self._fit.beta))

    def band(self, predicted: Array, confidence: float) -> ReliabilityBand:
        """Return the belt at one level.

        Parameters
        ----------
        predicted : ndarray of shape (k,)
            Predictions, strictly between 0 and 1, in increasing order.
        confidence : float
            Level of the confidence region of the whole polynomial.

        Returns
        -------
        ReliabilityBand

        Raises
        ------
        ValueError
            If an argument is malformed; the message names it.
        TypeError
            If ``confidence`` is not a number.
        """
        predicted, confidence = _inside(predicted), check_fraction(confidence, "confidence")
        reach = belt_quantile(confidence, self.degree, self.selection)
        basis = self._axis.basis(logit(predicted), self.degree)
        lower, upper = _extremes(self._axis, self._fit, basis, reach)
        return ReliabilityBand("belt", confidence, predicted, expit(lower), expit(upper))


def _inside(predicted: Array) -> Array:
    """Return predictions whose log-odds are finite."""
    p = check_numbers(predicted, "predicted")
    if p.ndim != 1 or not ((p > 0.0) & (p < 1.0)).all():
        raise ValueError("predicted must have shape (k,) and lie strictly between 0 and 1. Clip it first.")
    return p


class _Axis:
    """Grouped outcomes on the logit axis, with orthonormal polynomials."""

    def __init__(self, grouped: GroupedOutcomes) -> None:
        x = logit(grouped.prob)
        starts = group_starts(x)
        if starts.shape[0] > _BINS:
            # half of the bins have equal mass, half equal width, for resolution both in the bulk and in the
            # tails
            fraction = weight_middles(grouped.weight) / grouped.total
            width = (x - x[0]) / (x[-1] - x[0])
            mark = np.floor(fraction * (_BINS // 2)) + np.minimum(
                np.floor(width * (_BINS // 2)), _BINS // 2 - 1
            )
            starts = group_starts(mark)
        self.weight = np.add.reduceat(grouped.weight, starts)
        self.events = np.add.reduceat(grouped.positives, starts)
        self.others = self.weight - self.events
        # a bin of calibrated predictions is calibrated at their mean
        single = starts.shape[0] == x.shape[0]
        self.x = x if single else logit(np.add.reduceat(grouped.weight * grouped.prob, starts) / self.weight)
        self.total = grouped.total
        self._low, self._high = float(self.x[0]), float(self.x[-1])
        self._degree = min(MAX_DEGREE, self.x.shape[0] - 1)
        root = np.sqrt(self.weight / self.total)[:, np.newaxis]
        self._inverse = np.linalg.inv(np.linalg.qr(root * self._legendre(self.x), mode="r"))
        self.design = self.basis(self.x, self._degree)

    def _legendre(self, x: Array) -> Array:
        middle, half = 0.5 * (self._low + self._high), 0.5 * (self._high - self._low)
        return np.asarray(legvander((x - middle) / half, self._degree))

    def basis(self, x: Array, degree: int) -> Array:
        """Return the polynomials up to a degree, orthonormal on the sample."""
        return np.asarray(self._legendre(x) @ self._inverse[:, : degree + 1])

    @property
    def largest_degree(self) -> int:
        return self._degree

    def log_likelihood(self, eta: Array) -> Array:
        """Return the log-likelihood of log-odds of shape (bins,) or (bins, r)."""
        return np.asarray(-(self.events @ np.logaddexp(0.0, -eta)) - self.others @ np.logaddexp(0.0, eta))


@dataclass(frozen=True, eq=False)
class _Fit:
    beta: Array
    log_likelihood: float


def _fit_polynomial(axis: _Axis, degree: int, start: Array) -> _Fit | None:
    """Return the maximum likelihood fit, None if there is none."""
    design = axis.design[:, : degree + 1]
    fit = fit_logistic(np.ascontiguousarray(design.T), axis.weight, axis.events, start=start)
    if not fit.converged or np.linalg.eigvalsh(fit.information)[0] < _INFORMATION:
        return None
    return _Fit(fit.coef, float(axis.log_likelihood(design @ fit.coef)))


def fit_belt(grouped: GroupedOutcomes) -> CalibrationBelt:
    """Select the degree and test calibration; predictions lie strictly between 0 and 1."""
    if grouped.prob[0] == grouped.prob[-1]:
        raise ValueError(
            f"y_proba has only one distinct value, {grouped.prob[0]:.6g}: a curve cannot be fitted. "
            "Use method='binned' for such predictions."
        )
    axis = _Axis(grouped)
    rate = float(axis.events.sum() / axis.total)
    start = np.array([logit(np.array([rate]))[0] / axis.design[0, 0], 0.0])
    fit = None if rate in (0.0, 1.0) else _fit_polynomial(axis, 1, start)
    if fit is None:
        raise ValueError(
            "method='belt' needs outcomes that overlap, but a threshold of y_proba separates the events of "
            "y_true from the rest (or there is one class only): no logistic fit exists. Use another method."
        )
    degree, limit = 1, float(chdtri(1, 1.0 - _SELECTION))
    while degree < axis.largest_degree:
        more = _fit_polynomial(axis, degree + 1, np.append(fit.beta, 0.0))
        if more is None or 2.0 * (more.log_likelihood - fit.log_likelihood) <= limit:
            break
        fit, degree = more, degree + 1
    statistic = max(2.0 * (fit.log_likelihood - float(axis.log_likelihood(axis.x))), 0.0)
    pvalue = float(belt_sf(np.array(statistic), degree, _SELECTION))
    return CalibrationBelt(degree, statistic, pvalue, _SELECTION, axis.total, fit, axis)


def _extremes(axis: _Axis, fit: _Fit, basis: Array, reach: float) -> tuple[Array, Array]:
    """Return the minimum and the maximum of each row of ``basis`` times beta in the region.

    The region, where the root of 2 (L(fit) - L(beta)) is at most ``target``, is convex and bounded.
    """
    target = float(np.sqrt(reach))
    design = axis.design[:, : fit.beta.shape[0]]
    least, largest = (sign * _largest(axis, fit, design, sign * basis, target) for sign in (-1.0, 1.0))
    return least, largest


def _largest(axis: _Axis, fit: _Fit, design: Array, ways: Array, target: float) -> Array:
    """Return the maximum of each row of ``ways`` times beta in the region.

    At the maximum the gradient of L is -s way for some s > 0: Newton's method for beta and s jointly, for all
    rows at once. The root of the statistic is nearly linear in s, so that few steps are needed. Steps that
    leave a region a tenth larger are halved.
    """
    size = fit.beta.shape[0]
    squares = (design[:, :, np.newaxis] * design[:, np.newaxis, :]).reshape(-1, size * size).T
    events, others, weight = (part[:, np.newaxis] for part in (axis.events, axis.others, axis.weight))

    def root(at: Array) -> Array:
        gap = fit.log_likelihood - axis.log_likelihood(design @ at.T)
        return np.sqrt(np.maximum(2.0 * gap, 0.0))

    beta, s = np.tile(fit.beta, (ways.shape[0], 1)), np.zeros(ways.shape[0])
    pending = np.arange(ways.shape[0])
    for _ in range(_MOST_STEPS):
        at, way, tilt = beta[pending], ways[pending], s[pending]
        eta = design @ at.T
        high, low = expit(eta), expit(-eta)
        gradient = (events * low - others * high).T @ design
        information = (squares @ (weight * high * low)).T.reshape(-1, size, size)
        solved = np.linalg.solve(information, np.stack((way, gradient + tilt[:, np.newaxis] * way), axis=2))
        along, correction = solved[..., 0], solved[..., 1]
        length = np.einsum("ij,ij->i", way, along)
        value = root(at)
        # derivatives of the root; at the fit itself it grows by the length of the way for each unit of s
        away = value > 1e-3 * target
        divisor = np.where(away, value, 1.0)
        rate = np.where(away, np.einsum("ij,ij->i", -gradient, along) / divisor, np.sqrt(length))
        drift = np.where(away, np.einsum("ij,ij->i", -gradient, correction) / divisor, 0.0)
        delta = (target - value - drift) / np.where(rate > 0.0, rate, np.inf)
        step = correction + delta[:, np.newaxis] * along
        span = np.sqrt(np.einsum("ij,ijk,ik->i", step, information, step))
        cut = np.minimum(1.0, target / np.maximum(span, 1e-300))
        for _ in range(_MOST_HALVINGS):
            outside = root(at + cut[:, np.newaxis] * step) > 1.1 * target
            if not outside.any():
                break
            cut[outside] /= 2.0
        beta[pending] = at + cut[:, np.newaxis] * step
        s[pending] = np.maximum(tilt + cut * delta, 0.0)
        pending = pending[span > 1e-8 * target]
        if not pending.shape[0]:
            break
    return np.einsum("ij,ij->i", ways, beta)
