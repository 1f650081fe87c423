"""Logistic recalibration of grouped outcomes: intercept and slope on the log-odds of the predictions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._links import logit
from sklearn_calib._core._newton import fit_logistic, log_likelihood
from sklearn_calib._typing import Array

_MOST_STEPS = 200
_ROUNDING = 1e-13
# A step moves no log-odds farther than this.
_FARTHEST = 10.0
# For many samples at once: tolerances of gain and step at which the fit ends; the information below which no
# step is made; and the largest size of an array.
_LITTLE, _SHORTEST, _FLAT, _MOST_NUMBERS = 1e-10, 1e-9, 1e-200, 1 << 18


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A recalibration: its event probabilities, and whether the likelihood is attained at finite a and b."""

    intercept: float
    slope: float
    prob: Array
    complement: Array
    log_likelihood: float
    finite: bool = True

    @property
    def variance(self) -> Array:
        return self.prob * self.complement

    def describe(self, parameter: str) -> str:
        if not self.finite:
            return "perfect separation"
        parts = {"intercept": f"intercept {self.intercept:.3g}", "slope": f"slope {self.slope:.3g}"}
        return parts[parameter] if parameter in parts else ", ".join(parts.values())


class LogitOutcomes:
    """Grouped outcomes on the log-odds axis: x = logit(p), and u, x standardised."""

    def __init__(self, grouped: GroupedOutcomes) -> None:
        x = logit(grouped.prob)
        # clipping can make predictions equal
        starts = group_starts(x)
        self.x = x[starts]
        self.weight = np.add.reduceat(grouped.weight, starts)
        self.positives = np.add.reduceat(grouped.positives, starts)
        self.negatives = self.weight - self.positives
        self.constant = bool(self.x[0] == self.x[-1])
        self.base_rate = float(self.positives.sum() / grouped.total)
        self.one_class = self.base_rate in (0.0, 1.0)
        self.centre = float(self.weight @ self.x / grouped.total)
        spread = float(np.sqrt(self.weight @ (self.x - self.centre) ** 2 / grouped.total))
        self.spread = 1.0 if self.constant else spread
        self.u = (self.x - self.centre) / self.spread

    def at(self, intercept: float, slope: float) -> Recalibration:
        """Return the model with given parameters."""
        return self._model(intercept + slope * self.x, intercept, slope)

    def _standardised(self, level: float, rise: float) -> Recalibration:
        """Return the model level + rise * u."""
        slope = rise / self.spread
        return self._model(level + rise * self.u, level - slope * self.centre, slope)

    def _model(self, eta: Array, intercept: float, slope: float) -> Recalibration:
        likelihood = log_likelihood(eta, self.weight, self.positives)
        return Recalibration(intercept, slope, expit(eta), expit(-eta), likelihood)

    def residual(self, fit: Recalibration) -> Array:
        """Return the residual sum of each group."""
        return self.positives * fit.complement - self.negatives * fit.prob

    def information(self, fit: Recalibration) -> tuple[float, float]:
        """Return the entries (1, 1) and (1, u) of the Fisher information."""
        v = self.weight * fit.variance
        return float(v.sum()), float(v @ self.u)

    def score_statistic(
        self, null: Recalibration, parameter: str, total: float | Array, along: float | Array
    ) -> Any:
        """Return the score statistic of samples with residual sums ``total``, and ``along`` times u."""
        level, mixed = self.information(null)
        rest = float((self.weight * null.variance) @ (self.u - mixed / level) ** 2)
        by_intercept = total**2 / level
        # the part of u that the intercept does not explain
        by_slope = (along - mixed / level * total) ** 2 / rest if rest > 0.0 else 0.0 * total
        return {"intercept": by_intercept, "slope": by_slope, "both": by_intercept + by_slope}[parameter]

    def likelihood_ratio(
        self, null: Recalibration, total: Array, along: Array, *, slope_free: bool = True
    ) -> Array:
        """Return twice the gain in log-likelihood of the fit over ``null`` for r samples.

        Parameters
        ----------
        null : Recalibration
            The null hypothesis.
        total, along : ndarray of shape (r,)
            Residual sums under ``null``, and the sums of residuals times u.
        slope_free : bool
            Whether the slope is fitted, or the intercept only.
        """
        if not slope_free:
            total, which = np.unique(total, return_inverse=True)
            along = np.zeros_like(total)
        r = max(1, _MOST_NUMBERS // self.u.shape[0])
        parts = [slice(start, start + r) for start in range(0, total.shape[0], r)]
        gains = np.concatenate([_gain(self, null, total[part], along[part], slope_free) for part in parts])
        return gains if slope_free else gains[which]

    def wald_statistic(self, full: Recalibration, parameter: str) -> float:
        level, mixed = self.information(full)
        if parameter == "intercept":
            return full.intercept**2 * level
        rise = (full.slope - 1.0) * self.spread
        rest = float((self.weight * full.variance) @ (self.u - mixed / level) ** 2)
        by_slope = rise**2 * rest
        if parameter == "slope":
            return by_slope
        # a + (b - 1) x, written in 1 and u, at the mean of u
        intercept = full.intercept + (full.slope - 1.0) * self.centre + rise * mixed / level
        return intercept**2 * level + by_slope

    def standard_errors(self, fit: Recalibration) -> tuple[float, float, float]:
        """Return standard errors: of the intercept for a known slope, of the intercept, and of the slope."""
        level, mixed = self.information(fit)
        if self.constant or not level > 0.0:
            return (float(level**-0.5) if level > 0.0 else np.inf), np.inf, np.inf
        rest = float((self.weight * fit.variance) @ (self.u - mixed / level) ** 2)
        if not rest > 0.0:
            return float(level**-0.5), np.inf, np.inf
        slope = rest**-0.5 / self.spread
        middle = self.centre + self.spread * mixed / level
        return float(level**-0.5), float(np.hypot(level**-0.5, middle * slope)), float(slope)

    def _mean_log_odds(self) -> float:
        # not by the base rate, which may be rounded to nearly 1
        return float(np.log(self.positives.sum()) - np.log(self.negatives.sum()))

    def fit_intercept(self, slope: float = 1.0) -> Recalibration:
        """Return the maximum likelihood fit with a given slope."""
        if self.one_class:
            return self._limit(np.full_like(self.x, self.base_rate))
        start = self._mean_log_odds() - slope * self.centre
        return self.at(float(self._fit(np.ones((1, self.x.size)), [start], slope * self.x)[0]), slope)

    def fit_slope(self, intercept: float, start: float) -> Recalibration:
        """Return the maximum likelihood fit with a given intercept; outcomes must not be separated."""
        offset = np.full_like(self.x, intercept)
        return self.at(intercept, float(self._fit(self.x[np.newaxis], [start], offset)[0]))

    def fit_both(self) -> Recalibration:
        """Return the maximum likelihood fit of intercept and slope, or its limit under perfect separation."""
        limit = self._separated()
        if limit is not None:
            return self._limit(limit)
        columns = np.stack([np.ones_like(self.u), self.u])
        return self._standardised(*self._fit(columns, [self._mean_log_odds(), 0.0]))

    def _fit(self, columns: Array, start: list[float], offset: Array | None = None) -> Array:
        return fit_logistic(columns, self.weight, self.positives, start=np.array(start), offset=offset).coef

    def _separated(self) -> Array | None:
        """Return the limit of the event probabilities under perfect separation, else None."""
        events, others = np.flatnonzero(self.positives), np.flatnonzero(self.negatives)
        if self.one_class or events[0] >= others[-1] or others[0] >= events[-1]:
            return self.positives / self.weight
        return None

    def _limit(self, prob: Array) -> Recalibration:
        likelihood = float((xlogy(self.positives, prob) + xlog1py(self.negatives, -prob)).sum())
        return Recalibration(np.nan, np.nan, prob, 1.0 - prob, likelihood, finite=False)


def _gain(data: LogitOutcomes, null: Recalibration, total: Array, along: Array, slope_free: bool) -> Array:
    """See :meth:`LogitOutcomes.likelihood_ratio`; Newton's method with halved steps, all samples at once.

    For 999 samples this takes at most a quarter of the time of separate calls of :func:`fit_logistic`.

    With log-odds eta + d, d = level + rise u, and null probabilities q the gain in log-likelihood is
    total level + along rise - sum of w [log(1 + exp(eta + d)) - log(1 + exp(eta)) - q d]. Under perfect
    separation, the iteration ends when the remaining gain is negligible.
    """
    u, w, q = data.u[:, np.newaxis], data.weight[:, np.newaxis], null.prob[:, np.newaxis]
    eta = (null.intercept + null.slope * data.x)[:, np.newaxis]
    before = np.logaddexp(0.0, eta)
    out = np.zeros(total.shape[0])
    left = np.arange(total.shape[0])
    point, step = np.zeros((2, left.shape[0])), np.zeros((2, left.shape[0]))
    value = np.full(left.shape[0], -np.inf)
    for _ in range(_MOST_STEPS):
        trial = point + step
        move = trial[0] + u * trial[1]
        log_odds = eta + move
        small = np.exp(-np.abs(log_odds))
        spent = np.log1p(small) + np.maximum(log_odds, 0.0) - before - q * move
        larger = 1.0 / (1.0 + small)
        fitted = np.where(log_odds > 0.0, larger, small * larger)
        found = total[left] * trial[0] + along[left] * trial[1] - (w * spent).sum(axis=0)
        residual = w * (fitted - q)
        variance = w * small * larger**2
        level, mixed = variance.sum(axis=0), (u * variance).sum(axis=0)
        first = total[left] - residual.sum(axis=0)
        second = along[left] - (u * residual).sum(axis=0)
        worse = ~(found >= value - _ROUNDING * (1.0 + np.abs(value)))
        with np.errstate(all="ignore"):
            middle = mixed / level
            spread = (variance * (u - middle) ** 2).sum(axis=0)
            rise = np.where(slope_free & (spread > _FLAT), (second - middle * first) / spread, 0.0)
            ahead = np.stack((np.where(level > _FLAT, (first - mixed * rise) / level, 0.0), rise))
        predicted = ahead[0] * first + ahead[1] * second
        farthest = np.abs(ahead[0] + u * ahead[1]).max(axis=0)
        # near perfect separation, log-odds become large
        admitted = np.maximum(_FARTHEST, 2.0 * np.abs(move).max(axis=0))
        ahead *= admitted / np.maximum(admitted, farthest)
        point = np.where(worse, point, trial)
        value = np.where(worse, value, found)
        step = np.where(worse, step / 2.0, ahead)
        done = (~worse & (predicted < _LITTLE)) | (np.abs(step).max(axis=0) < _SHORTEST)
        out[left[done]] = 2.0 * value[done] + np.where(worse, 0.0, predicted)[done]
        left, point, step, value = left[~done], point[:, ~done], step[:, ~done], value[~done]
        if not left.size:
            break
    out[left] = 2.0 * value
    return np.maximum(out, 0.0)
