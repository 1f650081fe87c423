"""Beta calibration: log-odds linear in log p and log(1 - p), fitted with little leverage of far scores."""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._core._grouping import GroupedOutcomes, group_scores
from sklearn_calib._core._links import clip_probability, expit
from sklearn_calib._core._newton import fit_logistic, log_likelihood
from sklearn_calib._validation import check_flag, check_option
from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify
from sklearn_calib.calibrators._remote import balanced_intercept, core_reach, discounts

__all__ = ["BetaCalibrator"]

Array = NDArray[np.float64]

_PARAMETERS = ("abm", "ab", "am")
# Slopes are taken for normal around 1, the identity, with this standard deviation: nothing against dozens of
# samples, but it decides where the samples do not.
_PRIOR_DEVIATION = 10.0
_LOG_2 = float(np.log(2.0))


class BetaCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Beta calibration, :math:`\mathrm{logit}\, h(p) = c + a \log p - b \log(1 - p)`, :math:`a, b \ge 0`.

    It is the true map where the scores of either class follow a beta distribution (Section 3 of [1]_). It
    contains the identity, :math:`a = b = 1, c = 0`, Platt scaling of the log-odds, :math:`a = b`, and maps
    that distort both ends differently.

    Parameters
    ----------
    parameters : {"abm", "ab", "am"}, default="abm"
        What is free. "abm": :math:`a`, :math:`b` and :math:`c`. "ab": the map passes through (1/2, 1/2), that
        is :math:`c = (a - b) \log 2`. "am": :math:`a = b`. The letter m is the probability mapped to 1/2.
    regularized : bool, default=True
        Whether the fit is regularized and limits the leverage of remote samples; see Notes. False: plain
        maximum likelihood under :math:`a, b \ge 0`, the fit of [1]_. If the scores separate the outcomes it
        has no solution, and a very steep map is returned.

    Attributes
    ----------
    a_, b_, c_ : float
        The coefficients.
    reach_ : float
        Absolute log-odds beyond which training samples lose leverage; see Notes. Infinite with
        ``regularized=False``.
    training_cutoff_error_ : float
        Cutoff calibration error of the fitted map on the training samples.
    %(trained_fit)s

    See Also
    --------
    PlattCalibrator : one slope for both ends, which may also be negative.

    Notes
    -----
    Scores are probabilities; 0 and 1 are moved inwards by 2**-53 only, because very confident models still
    rank their samples at such distances. Maximum likelihood would then give a sample at such a distance an
    influence without bound: a handful of them that are contradicted can flatten the whole map. So the slopes
    minimise

    .. math::
        \sum_i d_i w_i \left( \log(1 + e^{z_i}) - t_i z_i \right)
        + \frac{(a - 1)^2 + (b - 1)^2}{2 \cdot 10^2},
        \qquad d_i = \min(1, r^3 / |\ell_i|^3),

    where :math:`z_i` is the calibrated and :math:`\ell_i` the given log-odds, and the reach :math:`r` is the
    .95 quantile of :math:`|\ell|` by weight, but at least :math:`\log 19`. The targets :math:`t_i = (n y_i +
    p_i + \bar y)/(n + 2)`, with :math:`n` the total weight and :math:`\bar y = (n_1 + 1/2)/(n + 1)`, are as
    with two pseudo-observations, one that agrees with the forecasts and one with the event rate: without
    them scores that separate the outcomes would have no best map. The influence of a sample grows with its
    distance up to the reach and then falls like the inverse of its square. As :math:`d` depends on the score
    alone, the estimate stays consistent where the model is right (Mallows' type of bounded influence [2]_);
    and where more than 5% of the samples are equally far out, none of them is discounted. With these slopes
    :math:`c`, where it is free, is set so that the map and the targets have the same mean over all samples,
    each counted in full. With ``regularized=False`` slopes and :math:`c` minimise :math:`\sum_i w_i (\log(1 +
    e^{z_i}) - y_i z_i)`.

    A slope that comes out negative is fixed at 0 and the rest fitted anew, which gives the minimum under the
    constraint; if the event becomes rarer as the score grows, what remains is a constant. Newton's method
    with a safeguarded line search; O(n log n) for the sort that groups equal scores, then O(n) a step.

    References
    ----------
    .. [1] Kull, Silva Filho, Flach (2017). Beyond sigmoids: How to obtain well-calibrated probabilities from
       binary classifiers with beta calibration. Electronic Journal of Statistics 11(2).
    .. [2] Künsch, Stefanski, Carroll (1989). Conditionally unbiased bounded-influence estimation in general
       regression models, with applications to generalized linear models. JASA 84.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import BetaCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = rng.random(5000) < p**2
    >>> calibrator = BetaCalibrator().fit(p, y)
    >>> calibrator.transform([0.0, 0.1, 0.5, 0.9]).round(2)
    array([0.  , 0.01, 0.25, 0.81])
    """

    _multiclass = False
    a_: float
    b_: float
    c_: float
    reach_: float

    def __init__(self, *, parameters: str = "abm", regularized: bool = True) -> None:
        self.parameters = parameters
        self.regularized = regularized

    def _check_parameters(self) -> None:
        check_option(self.parameters, "parameters", _PARAMETERS)
        check_flag(self.regularized, "regularized")

    def _score_kind(self) -> str:
        return "probability"

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        grouped = group_scores(codes, scores, weight)
        columns = np.stack([*_logs(grouped.prob), np.ones_like(grouped.prob)])
        low, high, _ = columns
        odds = np.abs(low + high)
        self.reach_ = core_reach(odds, grouped.weight) if self.regularized else float("inf")
        discount = discounts(odds, self.reach_)
        target = _targets(grouped) if self.regularized else grouped.positives
        precision = 1.0 / _PRIOR_DEVIATION**2 if self.regularized else 0.0
        _, theta = _fit(
            columns, discount * grouped.weight, discount * target, precision, _BASES[self.parameters]
        )
        self.a_, self.b_, self.c_ = theta.tolist()
        if self.regularized and self.parameters != "ab":
            slope_part = self.a_ * low + self.b_ * high
            self.c_ = balanced_intercept(slope_part, grouped.weight, target, self.c_)
        certify(self, grouped, weight)

    def _map_scores(self, scores: Array) -> Array:
        low, high = _logs(scores)
        return np.asarray(expit(self.a_ * low + self.b_ * high + self.c_))


# Columns that turn the free parameters into (a, b, c).
_BASES = {
    "abm": np.eye(3),
    "ab": np.array([[1.0, 0.0], [0.0, 1.0], [_LOG_2, -_LOG_2]]),
    "am": np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
}


def _logs(p: Array) -> tuple[Array, Array]:
    """Return log p and -log(1 - p), both finite."""
    q = clip_probability(p)
    return np.log(q), -np.log1p(-q)


def _targets(grouped: GroupedOutcomes) -> Array:
    """Return the sum of weighted targets of each group, with a sample for forecasts and one for the rate."""
    total = grouped.total
    rate = (float(grouped.positives.sum()) + 0.5) / (total + 1.0)
    # divided first: the square of the total may be no float
    target: Array = grouped.positives * (total / (total + 2.0))
    target += grouped.weight * (grouped.prob + rate) / (total + 2.0)
    return target


def _fit(columns: Array, weight: Array, mass: Array, precision: float, basis: Array) -> tuple[float, Array]:
    """Return the least loss of (a, b, c) without a negative slope, and where it is attained."""

    def loss(theta: Array) -> float:
        prior = precision / 2.0 * float(np.square(theta[:2] - 1.0).sum())
        return prior - log_likelihood(theta @ columns, weight, mass)

    theta = basis @ _minimise(columns, weight, mass, precision, basis) if basis.size else np.zeros(3)
    negative = np.flatnonzero(theta[:2] < 0)
    if not negative.size:
        return loss(theta), theta
    # each negative slope, and those that are equal to it, fixed at 0
    rest = (basis[:, basis[slope] == 0.0] for slope in negative)
    return min((_fit(columns, weight, mass, precision, free) for free in rest), key=lambda found: found[0])


def _minimise(columns: Array, weight: Array, mass: Array, precision: float, basis: Array) -> Array:
    """Return the coefficients of the basis with the least loss."""
    mean = float(mass.sum()) / float(weight.sum())
    if not precision:
        # without a prior the likelihood may be flat: its rounding must not depend on the unit of the weights
        unit = np.ldexp(1.0, np.frexp(weight.sum())[1])
        weight, mass = weight / unit, mass / unit
    # intercepts stand alone in their column
    alone = (basis[:2] == 0.0).all(axis=0)
    fit = fit_logistic(
        lambda rows: basis.T @ columns[:, rows],
        weight,
        mass,
        start=np.where(alone, np.log(mean / (1.0 - mean)), 0.0),
        penalty=precision * np.square(basis[:2]).sum(axis=0),
        centre=np.where(alone, 0.0, 1.0),
        # without a prior the loss may have no minimum, and what is left to gain is its rounding
        last_gain=1e-20 if precision else 1e-14,
    )
    if not fit.converged:
        warnings.warn("Beta calibration did not converge.", ConvergenceWarning, stacklevel=2)
    return fit.coef
