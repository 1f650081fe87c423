"""Logistic recalibration of grouped outcomes: intercept and slope on the log-odds of the predictions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from sklearn_calib._core._blocks import ALL, block_sum
from sklearn_calib._core._grouping import CHUNK, GroupedOutcomes, group_starts
from sklearn_calib._core._links import logit
from sklearn_calib._core._newton import Columns, fit_logistic, log_likelihood
from sklearn_calib._typing import Array

#: From groups, and 1.0 or -1.0, to the probability of an event, or of the opposite.
Sides = Callable[[slice, float], Array]
LogOdds = Callable[[slice], Array]


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A recalibration: its event probabilities, and whether the likelihood is attained at finite a and b."""

    intercept: float
    slope: float
    sides: Sides
    log_likelihood: float
    finite: bool = True

    def prob(self, rows: slice = ALL) -> Array:
        return self.sides(rows, 1.0)

    def complement(self, rows: slice = ALL) -> Array:
        return self.sides(rows, -1.0)

    def describe(self, parameter: str) -> str:
        if not self.finite:
            return "perfect separation"
        parts = {"intercept": f"intercept {self.intercept:.3g}", "slope": f"slope {self.slope:.3g}"}
        return parts[parameter] if parameter in parts else ", ".join(parts.values())


#: Scores of a parameter: of the intercept, of the slope, or both.
ROWS = {"intercept": slice(0, 1), "slope": slice(1, 2), "both": slice(0, 2)}


class LogitOutcomes:
    """Grouped outcomes on the log-odds axis: x = logit(p), and u, x standardized.

    Of many groups, the log-odds alone are kept; all else is computed for blocks of them.
    """

    def __init__(self, grouped: GroupedOutcomes) -> None:
        self.x, self.weight, self.positives = logit(grouped.prob), grouped.weight, grouped.positives
        # the sum of squared weights of samples
        self.squares = grouped.weight if grouped.design is None else grouped.design.squares
        starts = group_starts(self.x)
        # clipping can make predictions equal
        if starts.shape[0] < self.x.shape[0]:
            self.x = self.x[starts]
            self.weight, self.positives, self.squares = (
                np.add.reduceat(part, starts) for part in (self.weight, self.positives, self.squares)
            )
        del starts
        self.constant = bool(self.x[0] == self.x[-1])
        self.base_rate = float(self.positives.sum() / grouped.total)
        self.one_class = self.base_rate in (0.0, 1.0)
        total = grouped.total
        self.center = self._sum(lambda rows: (self.weight[rows] * self.x[rows]).sum()) / total
        squares = self._sum(lambda rows: (self.weight[rows] * (self.x[rows] - self.center) ** 2).sum())
        self.spread = 1.0 if self.constant else float(np.sqrt(squares / total))
        self._whole_u: Array | None = None
        if self.x.shape[0] <= CHUNK:
            self._whole_u = self.u()

    def _sum(self, part: Callable[[slice], Any]) -> Any:
        return block_sum(self.x.shape[0], part)

    def u(self, rows: slice = ALL) -> Array:
        """Return the standardized log-odds."""
        if self._whole_u is not None:
            return self._whole_u[rows]
        return (self.x[rows] - self.center) / self.spread

    @property
    def negatives(self) -> Array:
        """Weight of non-events of each group."""
        return self.weight - self.positives

    def at(self, intercept: float, slope: float) -> Recalibration:
        """Return the model with given parameters."""
        return self._model(lambda rows: intercept + slope * self.x[rows], intercept, slope)

    def _model(self, eta: LogOdds, intercept: float, slope: float) -> Recalibration:
        few = self._whole_u is not None
        if few:
            whole = eta(ALL)
            eta = whole.__getitem__
        likelihood = self._sum(
            lambda rows: log_likelihood(eta(rows), self.weight[rows], self.positives[rows])
        )

        def sides(rows: slice, sign: float) -> Array:
            return np.asarray(expit(sign * eta(rows)))

        kept = _kept(expit(whole), expit(-whole)) if few else sides
        return Recalibration(intercept, slope, kept, float(likelihood))

    def score_sums(self, fit: Recalibration) -> Array:
        """Return the sums over samples of the residual, and of the residual times u."""

        def sums(rows: slice) -> Array:
            positives = self.positives[rows]
            negatives = self.weight[rows] - positives
            residual = positives * fit.complement(rows) - negatives * fit.prob(rows)
            return np.array([residual.sum(), residual @ self.u(rows)])

        return np.asarray(self._sum(sums))

    def information(self, fit: Recalibration, weight: Array | None = None) -> tuple[float, float]:
        """Return the entries (1, 1) and (1, u) of the Fisher information."""

        def sums(rows: slice) -> Array:
            v = self._variance(fit, rows, weight)
            return np.array([v.sum(), v @ self.u(rows)])

        level, mixed = self._sum(sums).tolist()
        return level, mixed

    def _variance(self, fit: Recalibration, rows: slice, weight: Array | None = None) -> Array:
        """Return the variance of the events of each group."""
        return (self.weight if weight is None else weight)[rows] * fit.prob(rows) * fit.complement(rows)

    def _rest(self, fit: Recalibration, center: float, weight: Array | None = None) -> float:
        """Return the entry (u, u) of the Fisher information about a center."""
        return float(self._sum(lambda rows: self._variance(fit, rows, weight) @ (self.u(rows) - center) ** 2))

    def residual_center(self, null: Recalibration, parameter: str) -> float:
        """Return what is subtracted from u so that the scores of intercept and slope are uncorrelated.

        If the intercept is fitted, it is what the intercept explains of u.
        """
        level, mixed = self.information(null, None if parameter == "slope" else self.squares)
        return mixed / level

    def scores(self, null: Recalibration, parameter: str) -> Callable[[Any, Any], Array]:
        """Return the function from residual sums, and those times u, to scores of variance 1.

        Those of the parameter: of the intercept, of the slope, or both.
        """
        level, mixed = self.information(null, self.squares)
        center = self.residual_center(null, parameter) if parameter == "slope" else mixed / level
        rest = self._rest(null, center, self.squares)

        def scores(total: float | Array, along: float | Array) -> Array:
            by_slope = (along - center * total) / np.sqrt(rest) if rest > 0.0 else 0.0 * total
            return np.array([total / np.sqrt(level), by_slope])[ROWS[parameter]]

        return scores

    def standard_errors(self, fit: Recalibration) -> tuple[float, float, float]:
        """Return standard errors: of the intercept for a known slope, of the intercept, and of the slope."""
        level, mixed = self.information(fit)
        if self.constant or not level > 0.0:
            return (float(level**-0.5) if level > 0.0 else np.inf), np.inf, np.inf
        rest = self._rest(fit, mixed / level)
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
        offset = self.x if slope == 1.0 else slope * self.x
        return self.at(
            float(self._fit(lambda rows: np.ones((1, self.x[rows].size)), [start], offset)[0]), slope
        )

    def fit_slope(self, intercept: float, start: float) -> Recalibration:
        """Return the maximum likelihood fit with a given intercept; outcomes must not be separated."""
        offset = np.full_like(self.x, intercept)
        return self.at(intercept, float(self._fit(self.x[np.newaxis], [start], offset)[0]))

    def fit_both(self) -> Recalibration:
        """Return the maximum likelihood fit of intercept and slope, or its limit under perfect separation."""
        kinds = self.positives > 0.0, self.positives < self.weight
        (event, other), (last_event, last_other) = (
            [int(kind[::way].argmax()) for kind in kinds] for way in (1, -1)
        )
        last = self.x.shape[0] - 1
        if self.one_class or event >= last - last_other or other >= last - last_event:
            return self._limit(self.positives / self.weight)
        level, rise = self._fit(
            lambda rows: np.stack([np.ones_like(u := self.u(rows)), u]), [self._mean_log_odds(), 0.0]
        )
        slope = rise / self.spread
        return self._model(lambda rows: level + rise * self.u(rows), level - slope * self.center, slope)

    def _fit(self, columns: Columns, start: list[float], offset: Array | None = None) -> Array:
        return fit_logistic(columns, self.weight, self.positives, start=np.array(start), offset=offset).coef

    def _limit(self, prob: Array) -> Recalibration:
        likelihood = float((xlogy(self.positives, prob) + xlog1py(self.negatives, -prob)).sum())
        return Recalibration(np.nan, np.nan, _kept(prob, 1.0 - prob), likelihood, finite=False)


def _kept(prob: Array, complement: Array) -> Sides:
    return lambda rows, sign: (prob if sign > 0.0 else complement)[rows]
