"""Matrix scaling: a linear map of log-probabilities, shrunk to temperature scaling; plain and structured."""

from dataclasses import replace

import numpy as np

from sklearn_calib import _validation
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._affine import AffineCalibrator, AffineFit, fold_fractions
from sklearn_calib.calibrators._inverse_temperature import PRIOR_ODDS
from sklearn_calib.calibrators._softmax import (
    AffinePoint,
    AffineProblem,
    Preconditioner,
    affine_scores,
    log_losses,
    minimize_affine,
    softmax,
)

# Averaged by evidence: prior standard deviations of the factors of the classes (diagonal), of all factors
# between two classes together, and of the intercepts.
_VECTOR_PRIORS = ((0.05, 0.0, 1.0), (0.25, 0.0, 0.25), (0.5, 0.0, 1.0))
_MATRIX_PRIORS = ((0.5, 0.5, 1.0), (0.25, 0.25, 0.25), (0.5, 1.0, 1.0), (1.0, 2.0, 1.0))
# With more classes than the first of these limits, averaged by held-out samples; with more than the second
# limit, vector scaling alone.
_MANY_PRIORS = ((0.5, 0.45, 1.0),)
_MANY_CLASSES, _VERY_MANY_CLASSES = 30, 200
# Maps with a smaller weight are not fitted to all samples.
_LEAST_WEIGHT = 1e-3
# Weight of the uniform distribution, in samples, that is mixed into the probabilities before.
_DOUBT = 0.1


class MatrixScalingCalibrator(AffineCalibrator):
    r"""Matrix scaling: the softmax of a linear map of the log-probabilities, shrunk to temperature scaling.

    With :math:`z` the log-probabilities, centered so that :math:`\sum_k z_k = 0`, the calibrated
    probabilities are the softmax of :math:`\beta (I + V) z + b`. Here :math:`1/\beta` is the temperature of
    :class:`TemperatureCalibrator`, fitted first, and V and b minimize

    .. math:: \sum_i w_i \ell_i(V, b) + \frac{\lambda K}{2} \Big(\sum_k V_{kk}^2 + \sum_k b_k^2
        + \rho \sum_{j \ne k} V_{jk}^2\Big)

    with :math:`\ell_i` the log loss of sample i. In the limit of a large :math:`\rho` this is vector scaling,
    in that of a large :math:`\lambda` temperature scaling; :math:`\lambda = 0` is the matrix scaling of [1]_,
    which overfits.

    Parameters
    ----------
    penalty : "auto" or float, default="auto"
        :math:`\lambda \ge 0`; its influence decreases with the total weight. "auto": chosen by
        cross-validation with preference for large penalties; see Notes. With 0 and perfect separation of a
        class there is no solution, and a very steep map is returned.
    off_diagonal_ratio : float, default=10.0
        :math:`\rho \ge 0`, the penalty of off-diagonal elements relative to that of the diagonal.
    %(shrink_temperature)s
    %(link)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        :math:`\beta (I + V)`, the map of the centered log-probabilities.
    intercept_ : ndarray of shape (n_classes,)
        :math:`b`.
    %(shrunk_to)s
    %(affine_fit)s

    See Also
    --------
    StructuredMatrixScalingCalibrator : Published penalties that grow with the number of classes.
    DirichletCalibrator : Log-probabilities are not centered, and the diagonal is not penalized.
    LogAverageCalibrator : Average with a calibrator of each class against the rest.

    Notes
    -----
    The loss is convex. It is minimized by Newton's method until no derivative exceeds 1e-9 per unit of weight
    and of the typical feature. A product with the Hessian costs O(n K^2). The fit is deterministic, and
    invariant to the names of the classes, to the order of the samples, and to temperature scaling of all
    forecasts beforehand.

    %(clipped_there)s

    With n the total weight, "auto" selects the largest of the penalties :math:`500/n` times 1e5, 1e4, ..., 1
    whose log loss in 3-fold cross-validation exceeds the smallest one by no more than half a standard error;
    see docs/fitting.md, also for ``shrink_temperature``.

    References
    ----------
    .. [1] Guo et al. (2017). On calibration of modern neural networks. ICML. arXiv:1706.04599, Section 4.2.

    Examples
    --------
    The first two classes are confused with each other, not with the third:

    >>> import numpy as np
    >>> from sklearn_calib.calibrators import MatrixScalingCalibrator
    >>> proba = np.tile([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], (200, 1))
    >>> labels = np.tile([0, 1, 2, 1, 0, 2], 100)
    >>> calibrator = MatrixScalingCalibrator().fit(proba, labels)
    >>> calibrator.predict_proba(proba[:3]).round(1)
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """

    temperature_: float

    def __init__(
        self,
        *,
        penalty: float | str = "auto",
        off_diagonal_ratio: float = 10.0,
        shrink_temperature: bool = False,
        link: str = "logit",
    ) -> None:
        self.penalty = penalty
        self.off_diagonal_ratio = off_diagonal_ratio
        self.shrink_temperature = shrink_temperature
        self.link = link

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _validation.check_not_negative(self.off_diagonal_ratio, "off_diagonal_ratio")

    def _penalties(self, penalty: float, n_classes: int, total: float) -> Array:
        one = penalty * n_classes
        return matrix_penalties(n_classes, one, one * float(self.off_diagonal_ratio), one)

    def _keep(self, fit: AffineFit) -> None:
        super()._keep(fit)
        self.temperature_ = 1.0 / fit.beta
        self.coef_ *= fit.beta


class StructuredMatrixScalingCalibrator(AffineCalibrator):
    r"""Structured matrix scaling: temperature, vector and matrix scaling with increasing penalties.

    Temperature scaling comes first, smoothed by Laplace's rule so that no probability is 0: with n the total
    weight, :math:`q = \frac{n}{n+1} \mathrm{softmax}(\beta z) + \frac{1}{(n+1) K}`. With x the centered
    logarithms of q, the calibrated probabilities are the softmax of :math:`(I + \mathrm{diag}(v) + M) x + b`,
    where the diagonal of M is zero and v, M, b minimize

    .. math:: \sum_i w_i \ell_i + \lambda \Big(K \sum_k b_k^2 + K \sum_k v_k^2
        + K (K - 1) \sum_{j \ne k} M_{jk}^2\Big)

    with :math:`\ell_i` the log loss of sample i: each group of parameters is penalized in proportion to their
    number, and relative to the mean loss the penalty decreases as 1 / n. With :math:`\lambda = 1` this is the
    ridge penalty of [1]_ with exponents of one and unit factors. The centring of x is not part of [1]_.

    Parameters
    ----------
    penalty : "auto" or float, default=1.0
        :math:`\lambda \ge 0`. "auto": the average of maps with several penalties, from temperature scaling to
        matrix scaling, by their evidence; see Notes. It is the main part of :class:`LogAverageCalibrator`.
    %(shrink_temperature)s
    %(link)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        :math:`I + \mathrm{diag}(v) + M`, the map of x.
    intercept_ : ndarray of shape (n_classes,)
        :math:`b`.
    %(shrunk_to)s
    smoothing_ : float
        :math:`1/(n + 1)`, the weight of the uniform distribution in q; :math:`0.1/(n + 0.1)` for "auto".
    posterior_probability_ : float
        The posterior probability that temperature scaling is not sufficient; 1 unless ``penalty="auto"``.
    %(affine_fit)s

    See Also
    --------
    MatrixScalingCalibrator : The same map with smaller penalties and without smoothing.

    Notes
    -----
    The solver and its cost are those of :class:`MatrixScalingCalibrator`. With ``penalty="auto"`` seven maps
    with normal priors, and the temperature alone, are averaged by their posterior probabilities, from
    Laplace's approximation of their evidence [3]_, or for more than 30 classes from their log losses on a
    third of the samples; docs/fitting.md lists the priors. ``penalty_`` is NaN.

    %(clipped_there)s

    References
    ----------
    .. [1] Berta et al. (2025). Structured matrix scaling for multi-class calibration. arXiv:2511.03685.
    .. [2] Berta et al. (2025). Rethinking early stopping: refine, then calibrate. arXiv:2501.19195.
    .. [3] MacKay (1992). Bayesian interpolation. Neural Computation 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import StructuredMatrixScalingCalibrator
    >>> proba = np.tile([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], (200, 1))
    >>> labels = np.tile([0, 1, 2, 1, 0, 2], 100)
    >>> calibrator = StructuredMatrixScalingCalibrator().fit(proba, labels)
    >>> calibrator.predict_proba(proba[:3]).round(1)
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """

    temperature_: float
    smoothing_: float
    posterior_probability_: float

    def __init__(
        self, *, penalty: float | str = 1.0, shrink_temperature: bool = False, link: str = "logit"
    ) -> None:
        self.penalty = penalty
        self.shrink_temperature = shrink_temperature
        self.link = link

    def _choose(self, logits: Array, codes: Codes, weight: Array, beta: float) -> float:
        return np.nan

    @np.errstate(under="ignore")
    def _features(self, logits: Array, beta: float, total: float) -> Array:
        doubt = _DOUBT if isinstance(self.penalty, str) else 1.0
        self.smoothing_ = doubt / (total + doubt)
        scaled = beta * logits
        proba = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        proba *= (1.0 - self.smoothing_) / proba.sum(axis=1, keepdims=True)
        proba += self.smoothing_ / logits.shape[1]
        features: Array = np.log(proba, out=proba)
        features -= features.mean(axis=1, keepdims=True)
        return features

    def _penalties(self, penalty: float, n_classes: int, total: float) -> Array:
        # the solver penalizes half the square of a parameter, hence the factor 2
        one = 2.0 * penalty * n_classes
        return matrix_penalties(n_classes, one, one * (n_classes - 1), one)

    def _solve(self, fit: AffineFit) -> None:
        self.posterior_probability_ = 1.0
        if not isinstance(self.penalty, str):
            super()._solve(fit)
            return
        n_classes = fit.theta.shape[0]
        many = n_classes > _MANY_CLASSES
        matrix = _MANY_PRIORS[: n_classes <= _VERY_MANY_CLASSES] if many else _MATRIX_PRIORS
        priors = _VECTOR_PRIORS + matrix
        starts: list[Array] = []
        log_odds = np.zeros(1 + len(priors))
        log_odds[0] = np.log(len(priors) / PRIOR_ODDS)
        if many:
            held_out = fit.weight * fold_fractions(fit.features, fit.codes, fit.weight)[:, 0]
            starts, _ = _maps(fit, fit.weight - held_out, priors, [])
            for m, theta in enumerate([fit.theta, *starts]):
                log_odds[m] -= log_losses(affine_scores(theta, fit.features), fit.codes) @ held_out
            kept = np.flatnonzero(softmax(log_odds[np.newaxis])[0, 1:] > _LEAST_WEIGHT)
            priors, starts = tuple(priors[m] for m in kept), [starts[m] for m in kept]
            log_odds = log_odds[[0, *(kept + 1)]]
        found, evidence = _maps(fit, fit.weight, priors, starts, not many)
        log_odds[1:] += evidence
        weights = softmax(log_odds[np.newaxis])[0]
        self.posterior_probability_ = 1.0 - float(weights[0])
        fit.theta = np.tensordot(weights, [fit.theta, *map(_full, found)], 1)

    def _keep(self, fit: AffineFit) -> None:
        super()._keep(fit)
        self.temperature_ = 1.0 / fit.beta

    def _inner(self) -> tuple[float, float, bool]:
        return 1.0 / self.temperature_, 1.0 - self.smoothing_, True


def _maps(
    fit: AffineFit,
    weight: Array,
    priors: tuple[tuple[float, float, float], ...],
    starts: list[Array],
    evidence: bool = False,
) -> tuple[list[Array], Array]:
    """Return the minimizer for each prior and, on request, its log evidence against temperature scaling."""
    n_classes = fit.theta.shape[0]
    plain = np.column_stack([np.ones(n_classes), np.zeros(n_classes)])
    preconditioners = {size: Preconditioner() for size in (2, n_classes + 1)}
    found: list[Array] = []
    ratios = np.zeros(len(priors))
    before = float(log_losses(fit.features, fit.codes) @ weight)
    point: AffinePoint | None = None
    for m, (diagonal, off_diagonal, intercept) in enumerate(priors):
        if off_diagonal:
            precision = (n_classes - 1) / off_diagonal**2
            penalties = matrix_penalties(n_classes, diagonal**-2, precision, intercept**-2)
            center = fit.theta
        else:
            penalties, center = np.tile([diagonal**-2, intercept**-2], (n_classes, 1)), plain
        problem = AffineProblem(fit.features, fit.codes, weight, penalties, center)
        if starts or point is None:
            point = problem.at(starts[m] if starts else plain)
        elif off_diagonal:
            point = replace(point, theta=_full(point.theta))
        preconditioner = preconditioners[center.shape[1]]
        best = minimize_affine(problem, point, True, preconditioner)
        point = best.point
        fit.n_iter, fit.converged = fit.n_iter + best.n_iter, fit.converged and best.converged
        found.append(point.theta)
        if evidence:
            information = problem.information(point.proba)
            preconditioner.update(information)
            ratios[m] = problem.log_evidence_ratio(before - best.value, information)
    return found, ratios


def _full(theta: Array) -> Array:
    """Return [W, b], also of a diagonal W."""
    return np.column_stack([np.diag(theta[:, 0]), theta[:, 1]]) if theta.shape[1] == 2 else theta


def matrix_penalties(n_classes: int, diagonal: float, off_diagonal: float, intercept: float) -> Array:
    """Return the penalties of [W, b]."""
    penalties = np.full((n_classes, n_classes + 1), off_diagonal)
    penalties[np.arange(n_classes), np.arange(n_classes)] = diagonal
    penalties[:, -1] = intercept
    return penalties
