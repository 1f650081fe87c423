"""Logistic recalibration of grouped outcomes: intercept and slope on the log-odds of the predictions."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from sklearn_calib._core._grouping import GroupedOutcomes, group_starts
from sklearn_calib._core._links import logit
from sklearn_calib._core._newton import fit_logistic, log_likelihood
from sklearn_calib._typing import Array


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


#: Scores of a parameter: of the intercept, of the slope, or both.
ROWS = {"intercept": slice(0, 1), "slope": slice(1, 2), "both": slice(0, 2)}


class LogitOutcomes:
    """Grouped outcomes on the log-odds axis: x = logit(p), and u, x standardized."""

    def __init__(self, grouped: GroupedOutcomes) -> None:
        x = logit(grouped.prob)
        # clipping can make predictions equal
        starts = group_starts(x)
        self.x = x[starts]
        self.weight = np.add.reduceat(grouped.weight, starts)
        self.positives = np.add.reduceat(grouped.positives, starts)
        # the sum of squared weights of samples
        squares = grouped.weight if grouped.design is None else grouped.design.squares
        self.squares = np.add.reduceat(squares, starts)
        self.negatives = self.weight - self.positives
        self.constant = bool(self.x[0] == self.x[-1])
        self.base_rate = float(self.positives.sum() / grouped.total)
        self.one_class = self.base_rate in (0.0, 1.0)
        self.center = float(self.weight @ self.x / grouped.total)
        spread = float(np.sqrt(self.weight @ (self.x - self.center) ** 2 / grouped.total))
        self.spread = 1.0 if self.constant else spread
        self.u = (self.x - self.center) / self.spread

    def at(self, intercept: float, slope: float) -> Recalibration:
        """Return the model with given parameters."""
        return self._model(intercept + slope * self.x, intercept, slope)

    def _model(self, eta: Array, intercept: float, slope: float) -> Recalibration:
        likelihood = float(log_likelihood(eta, self.weight, self.positives))
        return Recalibration(intercept, slope, expit(eta), expit(-eta), likelihood)

    def residual(self, fit: Recalibration) -> Array:
        """Return the residual sum of each group."""
        return self.positives * fit.complement - self.negatives * fit.prob

    def information(self, fit: Recalibration) -> tuple[float, float]:
        """Return the entries (1, 1) and (1, u) of the Fisher information."""
        v = self.weight * fit.variance
        return float(v.sum()), float(v @ self.u)

    def residual_center(self, null: Recalibration, parameter: str) -> float:
        """Return what is subtracted from u so that the scores of intercept and slope are uncorrelated.

        If the intercept is fitted, it is what the intercept explains of u.
        """
        v = (self.weight if parameter == "slope" else self.squares) * null.variance
        return float(v @ self.u / v.sum())

    def scores(
        self, null: Recalibration, parameter: str, total: float | Array, along: float | Array
    ) -> Array:
        """Return the scores of samples with residual sums ``total``, and ``along`` times u, of variance 1.

        Those of the parameter: of the intercept, of the slope, or both.
        """
        center, v = self.residual_center(null, parameter), self.squares * null.variance
        rest = float(v @ (self.u - center) ** 2)
        by_intercept = total / np.sqrt(v.sum())
        by_slope = (along - center * total) / np.sqrt(rest) if rest > 0.0 else 0.0 * total
        return np.array([by_intercept, by_slope])[ROWS[parameter]]

    def standard_errors(self, fit: Recalibration) -> tuple[float, float, float]:
        """Return standard errors: of the intercept for a known slope, of the intercept, and of the slope."""
        level, mixed = self.information(fit)
        if self.constant or not level > 0.0:
            return (float(level**-0.5) if level > 0.0 else np.inf), np.inf, np.inf
        rest = float((self.weight * fit.variance) @ (self.u - mixed / level) ** 2)
        if not rest > 0.0:
            return float(level**-0.5), np.inf, np.inf
        slope = rest**-0.5 / self.spread
        middle = self.center + self.spread * mixed / level
        return float(level**-0.5), float(np.hypot(level**-0.5, middle * slope)), float(slope)

    def _mean_log_odds(self) -> float:
        # not by the base rate, which may be rounded to nearly 1
        return float(np.log(self.positives.sum()) - np.log(self.negatives.sum()))

    def fit_intercept(self, slope: float = 1.0) -> Recalibration:
        """Return the maximum likelihood fit with a given slope."""
        if self.one_class:
            return self._limit(np.full_like(self.x, self.base_rate))
        start = self._mean_log_odds() - slope * self.center
        return self.at(float(self._fit(np.ones((1, self.x.size)), [start], slope * self.x)[0]), slope)

    def fit_slope(self, intercept: float, start: float) -> Recalibration:
        """Return the maximum likelihood fit with a given intercept; outcomes must not be separated."""
        offset = np.full_like(self.x, intercept)
        return self.at(intercept, float(self._fit(self.x[np.newaxis], [start], offset)[0]))

    def fit_both(self) -> Recalibration:
        """Return the maximum likelihood fit of intercept and slope, or its limit under perfect separation."""
        events, others = np.flatnonzero(self.positives), np.flatnonzero(self.negatives)
        if self.one_class or events[0] >= others[-1] or others[0] >= events[-1]:
            return self._limit(self.positives / self.weight)
        columns = np.stack([np.ones_like(self.u), self.u])
        level, rise = self._fit(columns, [self._mean_log_odds(), 0.0])
        slope = rise / self.spread
        return self._model(level + rise * self.u, level - slope * self.center, slope)

    def _fit(self, columns: Array, start: list[float], offset: Array | None = None) -> Array:
        return fit_logistic(columns, self.weight, self.positives, start=np.array(start), offset=offset).coef

    def _limit(self, prob: Array) -> Recalibration:
        likelihood = float((xlogy(self.positives, prob) + xlog1py(self.negatives, -prob)).sum())
        return Recalibration(np.nan, np.nan, prob, 1.0 - prob, likelihood, finite=False)
