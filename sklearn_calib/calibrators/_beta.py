"""Beta calibration: log-odds linear in log p and log(1 - p)."""

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_scores
from sklearn_calib._core._links import clip_probability
from sklearn_calib._core._maps import Beta
from sklearn_calib._core._newton import fit_logistic, log_likelihood
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify
from sklearn_calib.calibrators._log_clip import LogClip

_PARAMETERS = ("abm", "ab", "am")
# Precision of the normal prior of the slopes around 1, the identity: negligible against dozens of samples,
# but it determines the slopes if the samples do not.
_PRECISION = 0.01
_LOG_2 = float(np.log(2.0))


class BetaCalibrator(LogClip, CutoffCertificateMixin, BaseCalibrator):
    r"""Beta calibration, :math:`\mathrm{logit}\, h(p) = c + a \log p - b \log(1 - p)`, :math:`a, b \ge 0`.

    The map is correctly specified if the scores of each class follow a beta distribution (Section 3 of [1]_).
    Special cases are the identity, :math:`a = b = 1, c = 0`, and Platt scaling of the log-odds, :math:`a =
    b`. Unlike Platt scaling it can correct small and large probabilities differently.

    Parameters
    ----------
    parameters : {"abm", "ab", "am"}, default="abm"
        Free parameters. "abm": :math:`a`, :math:`b` and :math:`c`. "ab": the map passes through (1/2, 1/2),
        that is :math:`c = (a - b) \log 2`. "am": :math:`a = b`. The letter m stands for the probability that
        is mapped to 1/2.

    Attributes
    ----------
    a_, b_, c_ : float
        The coefficients.
    %(min_proba)s
    %(trained_fit)s

    See Also
    --------
    PlattCalibrator : A single slope, which may also be negative.

    Notes
    -----
    %(clipped)s

    The parameters minimize, under :math:`a, b \ge 0`,

    .. math::
        \sum_i w_i \left( \log(1 + e^{z_i}) - t_i z_i \right)
        + \frac{(a - 1)^2 + (b - 1)^2}{2 \cdot 10^2},

    where :math:`z_i` are the calibrated log-odds. The targets :math:`t_i = (n y_i + p_i + \bar y)/(n + 2)`,
    with :math:`n` the total weight and :math:`\bar y = (n_1 + 1/2)/(n + 1)`, correspond to two
    pseudo-observations, one that agrees with the forecasts and one with the event rate. Without them there
    would be no solution under perfect separation; the maximum likelihood estimate of [1]_ is the limit of a
    large :math:`n`, and has a larger log loss with a hundred samples (``benchmarks/compare_calibrators.py``).

    If a slope is negative, it is fixed at 0 and the other parameters are fitted again, which gives the
    constrained minimum; if the event rate decreases with the score, the map is a constant. Newton's method
    with a line search; O(n log n) for the sort that groups equal scores, then O(n) for each step.

    References
    ----------
    .. [1] Kull, Silva Filho, Flach (2017). Beyond sigmoids: How to obtain well-calibrated probabilities from
       binary classifiers with beta calibration. Electronic Journal of Statistics 11(2).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import BetaCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = rng.random(5000) < p**2
    >>> calibrator = BetaCalibrator().fit(p, y)
    >>> calibrator.transform([0.0, 0.1, 0.5, 0.9]).round(2)
    array([0.  , 0.01, 0.25, 0.82])
    """

    _multiclass = False
    _fractions = True
    a_: float
    b_: float
    c_: float

    def __init__(self, *, parameters: str = "abm") -> None:
        self.parameters = parameters

    def _check_parameters(self) -> None:
        _validation.check_option(self.parameters, "parameters", _PARAMETERS)

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        self._fit_clip(scores, codes, weight)
        grouped = group_scores(codes, scores, weight)
        columns = np.stack([*self._logs(grouped.prob), np.ones_like(grouped.prob)])
        total = grouped.total
        rate = (float(grouped.positives.sum()) + 0.5) / (total + 1.0)
        # the sum of the targets in each group, with the two pseudo-observations
        target = grouped.positives * (total / (total + 2.0))
        target += grouped.weight * (grouped.prob + rate) / (total + 2.0)
        _, theta = _fit(columns, grouped.weight, target, _BASES[self.parameters])
        self.a_, self.b_, self.c_ = theta.tolist()
        certify(self, grouped, weight, expit(theta @ columns))

    def _export(self, build: Any) -> Beta:
        return Beta(self.a_, self.b_, self.c_, self.min_proba_)

    def _map_scores(self, scores: Array) -> Array:
        low, high = self._logs(scores)
        return np.asarray(expit(self.a_ * low + self.b_ * high + self.c_))

    def _logs(self, p: Array) -> tuple[Array, Array]:
        """Return log p and -log(1 - p), both finite."""
        q = clip_probability(p, self.min_proba_)
        return np.log(q), -np.log1p(-q)


# Columns that turn the free parameters into (a, b, c).
_BASES = {
    "abm": np.eye(3),
    "ab": np.array([[1.0, 0.0], [0.0, 1.0], [_LOG_2, -_LOG_2]]),
    "am": np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
}


def _fit(columns: Array, weight: Array, mass: Array, basis: Array) -> tuple[float, Array]:
    """Return the minimum of the loss over (a, b, c) without a negative slope, and where it is attained."""
    theta = basis @ _minimize(columns, weight, mass, basis) if basis.size else np.zeros(3)
    negative = np.flatnonzero(theta[:2] < 0)
    if negative.size:
        # each negative slope, and those that are equal to it, fixed at 0
        rest = (basis[:, basis[slope] == 0.0] for slope in negative)
        return min((_fit(columns, weight, mass, free) for free in rest), key=lambda found: found[0])
    prior = _PRECISION / 2.0 * float(np.square(theta[:2] - 1.0).sum())
    return prior - float(log_likelihood(theta @ columns, weight, mass)), theta


def _minimize(columns: Array, weight: Array, mass: Array, basis: Array) -> Array:
    """Return the coefficients of the basis with the least loss."""
    # the intercept is the only parameter in its column
    alone = (basis[:2] == 0.0).all(axis=0)
    fit = fit_logistic(
        lambda rows: basis.T @ columns[:, rows],
        weight,
        mass,
        start=np.where(alone, 0.0, 1.0),
        penalty=_PRECISION * np.square(basis[:2]).sum(axis=0),
        center=np.where(alone, 0.0, 1.0),
        last_gain=1e-20,
    )
    if not fit.converged:
        _validation.warn_user("Beta calibration did not converge.", ConvergenceWarning)
    return fit.coef
