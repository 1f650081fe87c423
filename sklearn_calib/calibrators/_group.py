"""A pooled map, with an intercept and a slope for each group of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._core._links import logit
from sklearn_calib._core._maps import Groups, recalibrated
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib.calibrators._base import both_classes, inside, may_be_certain
from sklearn_calib.calibrators._multiclass import (
    ComposedCalibrator,
    check_calibrator,
    event_probability,
    fit_clone,
)
from sklearn_calib.calibrators._platt import or_platt

# Quadratic approximations of the likelihood, EM steps for each, and the longest step of a coefficient.
_RELINEARISATIONS, _EM_STEPS, _LONGEST_STEP = 4, 10, 2.0
# Smallest variance between groups at the start, and smallest spread (square root of the trace) in the grid.
_LEAST_START, _LEAST_SPREAD = 1e-3, 0.1
# Grid of the spread, relative to the estimate; besides 0, which has the prior probability of equal groups.
_MULTIPLES, _EQUAL = 2.0 ** np.arange(-3, 4), 0.05
# Covariance of groups, of trace 1, which counts as so many groups: slopes vary less than intercepts.
_USUAL_SHAPE, _USUAL_GROUPS = np.diag([0.8, 0.2]), 4.0
# Precisions of the mean of the groups, of intercept and slope, around the log-odds of the scores.
_PRECISIONS = np.array([10.0**k * np.diag([1.0, 4.0]) for k in range(2, -3, -1)])


@shared_docs
class GroupPrediction:
    """Mixin: predictions that may depend on the group of each sample."""

    classes_: NDArray[Any]
    #: Returns the probability of ``classes_[1]``, shape (n,), or of all classes, shape (n, K).
    _calibrated: Callable[[Any, Any], Array]

    def predict_proba(self, X: ArrayLike, groups: ArrayLike | None = None) -> Array:
        """Return the calibrated probabilities of all classes.

        Parameters
        ----------
        %(new_scores)s

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        return both_classes(self._calibrated(X, groups))

    def predict(self, X: ArrayLike, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Return the most probable label; of two classes ``classes_[1]`` if its probability exceeds 1/2.

        Parameters
        ----------
        %(new_scores)s

        Returns
        -------
        ndarray of shape (n,)
            Labels among ``classes_``.
        """
        proba = self.predict_proba(X, groups)
        labels: NDArray[Any] = self.classes_[proba.argmax(axis=1)]
        return labels


class GroupCalibrator(GroupPrediction, ComposedCalibrator):
    r"""A pooled map, and for each group an intercept and a slope (partial pooling).

    A model that is calibrated overall can overpredict in one group and underpredict in another. With the
    log-odds :math:`f` of the pooled map, and :math:`x` the same standardized, the log-odds in group g are

    .. math:: f + a_g + b_g x, \qquad (a_g, b_g) \sim N(\mu, \Sigma).

    :math:`\mu` and :math:`\Sigma` are estimated from all groups: a large group has its own map, a small one
    nearly the mean of the groups. This mean is near the pooled map; with few samples it is shrunk to the
    scores themselves, if they are probabilities. Groups that did not occur in ``fit`` have the pooled map.

    The groups are metadata: the argument ``groups`` of ``fit``, ``transform``, ``predict`` and
    ``predict_proba``. Without groups in ``fit``, the pooled map is used for all samples.

    Parameters
    ----------
    calibrator : calibrator, classifier or None, default=None
        The pooled map: a calibrator of this package, or any classifier with ``predict_proba``, which then
        receives the scores of a binary problem as one column. None means :class:`PlattCalibrator`.

    Attributes
    ----------
    pooled_calibrator_ : object
        The calibrator fitted to all samples, with labels 0, 1, ...
    groups_ : list
        Groups with samples of positive weight.
    slopes_, intercepts_ : ndarray of shape (n_groups,) or (n_groups, n_classes)
        The map of each group: its log-odds are ``slope * f + intercept``.
    covariances_ : ndarray of shape (2, 2) or (n_classes, 2, 2)
        Estimate of :math:`\Sigma`, of the intercept and the slope of standardized log-odds.
    %(multiclass_fit)s

    See Also
    --------
    SegmentCalibrator : Calibration given features, whose segments need not be named.

    Notes
    -----
    Empirical Bayes with a quadratic approximation of the log likelihood around the current coefficients,
    which is renewed four times. :math:`\Sigma = \tau^2 S` with the trace of S being 1: the shape S is the
    estimate of the EM algorithm, which starts with the variances of DerSimonian and Laird [1]_, and to which
    four groups are added whose slopes vary half as much as their intercepts. With few groups no single
    :math:`\tau` is right: coefficients are posterior means over a grid of :math:`\tau`, which is 0 with
    prior probability 0.05 and else half-normal, and of the variance of :math:`\mu` (0.01 to 100, of the slope
    a quarter of it) around the intercept and slope that return the scores, or of other scores than
    probabilities the pooled map.

    The cost is that of the pooled fit and O(n). With three or more classes each class is treated against the
    rest, and the probabilities are divided by their sum.

    The ranking of samples of different groups may change, so there is no certificate.

    With metadata routing, request the groups for each method that needs them:
    ``GroupCalibrator().set_fit_request(groups=True).set_predict_proba_request(groups=True)``. Then
    :class:`~sklearn_calib.meta.CalibratedClassifier` passes them on.

    References
    ----------
    .. [1] DerSimonian, Laird (1986). Meta-analysis in clinical trials. Controlled Clinical Trials 7.
    .. [2] Pleiss, Raghavan, Wu, Kleinberg, Weinberger (2017). On fairness and calibration. NeurIPS.

    Examples
    --------
    Group 0 has 400 samples, and few events; group 1 has four, which say little:

    >>> import numpy as np
    >>> from sklearn_calib.calibrators import GroupCalibrator
    >>> scores = np.tile([0.2, 0.4, 0.6, 0.8], 201)
    >>> groups = np.repeat([0, 1, 2], [400, 4, 400])
    >>> y = np.random.default_rng(0).random(804) < np.where(groups == 0, scores / 2, scores)
    >>> calibrator = GroupCalibrator().fit(scores, y, groups=groups)
    >>> calibrator.predict_proba([0.8, 0.8, 0.8, 0.8], groups=[0, 1, 2, 3])[:, 1].round(2)
    array([0.41, 0.81, 0.82, 0.62])
    """

    pooled_calibrator_: Any
    groups_: list[Any]
    slopes_: Array
    intercepts_: Array
    covariances_: Array

    def __init__(self, calibrator: Any = None) -> None:
        self.calibrator = calibrator

    def fit(  # type: ignore[override] # maps of groups have no certificate, and no clusters
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Fit the pooled map, and the intercept and slope of each group.

        Parameters
        ----------
        %(fitted_scores)s
        sample_weight : array-like of shape (n,) or None, default=None
            Non-negative weights; a weight of k is equivalent to k repetitions of the sample.
        groups : array-like of shape (n,) or None, default=None
            Group of each sample: numbers, or texts, dates and others, whose text is the group
            (docs/inputs.md); of the same kind in later calls. 1 and 1.0 are the same group.
        %(fitted_classes)s

        Returns
        -------
        self
            The fitted calibrator.
        """
        self._check_parameters()
        scores, codes, weight, known = self._read(X, y, sample_weight, classes)
        self._fit_known(scores, codes, weight, known)
        self._warn_of_absent()
        self.groups_ = []
        if groups is None:
            return self
        labels, group = _validation.check_groups(groups, scores.shape[0])
        weight = np.ones(codes.shape[0]) if weight is None else weight
        found, group = np.unique(group[weight > 0], return_inverse=True)
        self.groups_ = [labels[k] for k in found]
        scores, targets, kept = scores[weight > 0], codes[weight > 0], weight[weight > 0]
        proba = self._map_scores(scores)
        # scores that are no probabilities say nothing about the mean of the groups
        scores = scores if self._score_kind() == "probability" else proba
        if proba.ndim == 1:
            fit = partially_pooled(group, logit(proba), targets, kept, scores)
            self.slopes_, self.intercepts_, self.covariances_ = fit
            return self
        fits = [
            partially_pooled(group, logit(proba[:, k]), targets == k, kept, scores[:, k])
            for k in range(proba.shape[1])
        ]
        slopes, intercepts, covariances = zip(*fits, strict=True)
        self.slopes_, self.intercepts_ = np.column_stack(slopes), np.column_stack(intercepts)
        self.covariances_ = np.array(covariances)
        return self

    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Array:
        """Fit as :meth:`fit`, and return the calibrated probabilities of the same samples.

        Parameters
        ----------
        X, y, sample_weight, groups
            As for :meth:`fit`.

        Returns
        -------
        ndarray
            As for :meth:`transform`.
        """
        return self.fit(X, y, sample_weight, groups).transform(X, groups)

    def transform(self, X: ArrayLike, groups: ArrayLike | None = None) -> Array:
        """Return calibrated probabilities in the shape of the scores.

        Parameters
        ----------
        %(new_scores)s

        %(mapped)s
        """
        return self._shaped(self._calibrated(X, groups), X)

    def _check_parameters(self) -> None:
        check_calibrator(or_platt(self.calibrator))

    def _members(self) -> list[Any]:
        return [or_platt(self.calibrator)]

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        classes = np.arange(self.classes_.shape[0])
        self.pooled_calibrator_ = fit_clone(or_platt(self.calibrator), scores, codes, weight, classes)

    def _check_scores(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Array:
        try:
            return super()._check_scores(X, y, reset=reset)
        except ValueError as error:
            if not hasattr(X, "columns") or X.shape[1] == 1:
                raise
            raise ValueError(f"{error} If a column has the groups, pass it as groups=, not in X.") from None

    def _calibrated(self, X: Any, groups: Any) -> Array:
        check_is_fitted(self)
        scores = self._check_scores(X, reset=False)
        grouped = bool(self.groups_)
        if (groups is not None) != grouped:
            found = "groups were passed to fit, but not now" if grouped else "fit had no groups"
            raise ValueError(f"{found}. Pass groups to fit and to all later calls, or to none.")
        proba = self._map_scores(scores)
        if not grouped:
            return self._with_kept(scores, proba)
        labels, group = _validation.check_groups(groups, scores.shape[0], fitted=self.groups_)
        place = {label: k for k, label in enumerate(self.groups_)}
        own = np.array([place.get(label, -1) for label in labels])[group]
        known, own = own >= 0, own[own >= 0]
        moved = inside(expit(logit(proba[known]) * self.slopes_[own] + self.intercepts_[own]))
        proba[known] = moved if moved.ndim == 1 else moved / moved.sum(axis=1, keepdims=True)
        return self._with_kept(scores, proba)

    def _export(self, build: Any) -> Any:
        pooled = build.part(self.pooled_calibrator_)
        if not self.groups_:
            return pooled
        lines = zip(self.slopes_, self.intercepts_, strict=True)
        own = (recalibrated(pooled, np.atleast_1d(a), np.atleast_1d(b)) for a, b in lines)
        return Groups(self.groups_, tuple(map(self._kept_node, own)), (self._kept_node(pooled),))

    def _may_be_certain(self) -> bool:
        return may_be_certain(self.pooled_calibrator_)

    def _map_scores(self, scores: Array) -> Array:
        if scores.ndim == 1:
            return event_probability(self.pooled_calibrator_, scores).copy()
        return np.array(self.pooled_calibrator_.predict_proba(scores), dtype=np.float64)


def partially_pooled(
    group: NDArray[np.intp], f: Array, target: NDArray[Any], weight: Array, scores: Array
) -> tuple[Array, Array, Array]:
    """Return slope and intercept of the log-odds of each group, and the covariance of the groups."""
    center = np.average(f, weights=weight)
    spread = float(np.sqrt(np.average((f - center) ** 2, weights=weight))) or 1.0
    x, n_groups = (f - center) / spread, int(group.max()) + 1
    # the mean of the groups if the log-odds are those of the scores: a weighted regression on (1, x)
    columns = weight * scores * (1.0 - scores) * np.array([np.ones_like(x), x])
    moments = columns @ np.array([np.ones_like(x), x]).T
    origin = np.linalg.pinv(moments, hermitian=True) @ columns @ (logit(scores) - f)
    found = np.zeros((2, n_groups))
    covariance: Array | None = None
    for _ in range(_RELINEARISATIONS):
        q = expit(f + found[0, group] + found[1, group] * x)
        h, r = weight * q * (1.0 - q), weight * (target - q)
        # gradient and information of each group, as of a quadratic function of (a, b)
        i00, i01, i11 = (np.bincount(group, h * x**k, n_groups) for k in range(3))
        information = np.array([[i00, i01], [i01, i11]])
        gradient = np.array([np.bincount(group, r * x**k, n_groups) for k in range(2)])
        gradient += _times(information, found)
        if covariance is None:
            first = _first_variance(gradient[0], i00), _first_variance(gradient[1], i11)
            covariance = np.diag(np.array(first))
        covariance = _maximized(covariance, information, gradient)
        posterior, estimate = _averaged(covariance, information, gradient, origin)
        step = posterior - found
        found += step * np.minimum(1.0, _LONGEST_STEP / np.maximum(np.abs(step).max(axis=0), _LONGEST_STEP))
    slope = found[1] / spread
    return 1.0 + slope, found[0] - slope * center, estimate


def _maximized(covariance: Array, information: Array, gradient: Array) -> Array:
    """Return the covariance between groups after steps of the EM algorithm, drawn to the usual shape."""
    n_groups = gradient.shape[1]
    for _ in range(_EM_STEPS):
        within, total, right, _ = _given(covariance, information, gradient)
        mean = np.linalg.solve(total + _PRECISIONS[-1], right)[:, np.newaxis]
        away = _times(within, gradient - _times(information, mean))
        usual = _USUAL_GROUPS * np.trace(covariance) * _USUAL_SHAPE
        covariance = (within.sum(axis=2) + away @ away.T + usual) / (n_groups + _USUAL_GROUPS)
    return covariance


def _averaged(covariance: Array, information: Array, gradient: Array, origin: Array) -> tuple[Array, Array]:
    """Return the means of coefficients and covariance, over its multiples and the variances of the mean."""
    spread = np.sqrt(np.trace(covariance))
    shape = covariance / spread**2
    spreads = max(spread, _LEAST_SPREAD) * np.array([0.0, *_MULTIPLES])
    # half-normal prior of the spread, on a logarithmic grid
    step = np.log(_MULTIPLES[1] / _MULTIPLES[0])
    prior = np.log((1.0 - _EQUAL) * np.sqrt(2.0 / np.pi) * step * spreads[1:]) - 0.5 * spreads[1:] ** 2
    prior = np.array([np.log(_EQUAL), *prior])
    evidence, means, parts = np.empty((spreads.shape[0], _PRECISIONS.shape[0])), [], []
    constant = np.linalg.slogdet(_PRECISIONS)[1] - origin @ _PRECISIONS @ origin
    for k, size in enumerate(spreads):
        within, total, right, own = _given(size**2 * shape, information, gradient)
        total, right = total + _PRECISIONS, right + _PRECISIONS @ origin
        means.append(np.linalg.solve(total, right[..., np.newaxis])[..., 0])
        change = (means[k] * right).sum(axis=1) - np.linalg.slogdet(total)[1] + constant
        evidence[k] = own + 0.5 * change + prior[k]
        parts.append(within)
    posterior = np.zeros_like(gradient)
    for share, mean, within in zip(softmax(evidence), means, parts, strict=True):
        center = (share @ mean)[:, np.newaxis]
        posterior += center + _times(within, share.sum() * gradient - _times(information, center))
    return posterior, (softmax(evidence).sum(axis=1) @ spreads**2) * shape


def _given(covariance: Array, information: Array, gradient: Array) -> tuple[Array, Array, Array, float]:
    """Return (I + S^-1)^-1 of each group, the quadratic function of the mean, and its constant.

    The log likelihood of the mean m, with covariance S of the groups, is m'u - m'W m / 2 plus the constant;
    W and u are sums over the groups. S may be singular.
    """
    size, sizes = max(_det(covariance), 0.0), _det(information)
    factor = 1.0 + np.einsum("jk,jkg->g", covariance, information) + size * sizes
    within = (covariance[..., np.newaxis] + size * _adjugate(information)) / factor
    total = ((information + sizes * _adjugate(covariance)[..., np.newaxis]) / factor).sum(axis=2)
    shift = _times(within, gradient)
    right = (gradient - _times(information, shift)).sum(axis=1)
    return within, total, right, 0.5 * float((gradient * shift).sum() - np.log(factor).sum())


def _det(matrix: Array) -> Any:
    """Return the determinant of 2 x 2 matrices, whose rows and columns are the first two axes."""
    return matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0]


def _adjugate(matrix: Array) -> Array:
    return np.array([[matrix[1, 1], -matrix[0, 1]], [-matrix[1, 0], matrix[0, 0]]])


def _times(matrix: Array, vector: Array) -> Array:
    """Return the products of 2 x 2 matrices and vectors of groups, which are the last axis."""
    product: Array = matrix[:, 0] * vector[0] + matrix[:, 1] * vector[1]
    return product


def _first_variance(gradient: Array, information: NDArray[Any]) -> float:
    """Return the variance between groups of DerSimonian and Laird for a mean of 0, at least a small one."""
    known = information > 0.0
    excess = float((gradient[known] ** 2 / information[known]).sum()) - np.count_nonzero(known)
    return max(excess / max(float(information.sum()), 1.0), _LEAST_START)
