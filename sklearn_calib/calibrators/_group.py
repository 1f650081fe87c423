"""A pooled map, with an intercept and a slope for each group of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
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
# Smallest variance between groups: at the start, and added so that the covariance has an inverse.
_LEAST_START, _LEAST_VARIANCE = 1e-3, 1e-6


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
    log-odds :math:`f` of the pooled map, and :math:`x` the same standardised, the log-odds in group g are

    .. math:: f + a_g + b_g x, \qquad (a_g, b_g) \sim N(\mu, \Sigma).

    :math:`\mu` and :math:`\Sigma` are estimated from all groups: a large group has its own map, a small one
    nearly the mean of the groups, and if groups do not differ all have the pooled map. Groups that did not
    occur in ``fit`` have the pooled map, too.

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
        :math:`\Sigma`, of the intercept and the slope of standardised log-odds.
    %(multiclass_fit)s

    See Also
    --------
    SegmentCalibrator : Calibration given features, whose segments need not be named.

    Notes
    -----
    The EM algorithm for :math:`\mu` and :math:`\Sigma`, for the quadratic approximation of the log likelihood
    around the current coefficients, which is renewed four times; the first variances are those of DerSimonian
    and Laird [1]_. The cost is that of the pooled fit and O(n). With three or more classes each class is
    treated against the rest, and the probabilities are divided by their sum.

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
    Group 0 has 400 samples, and few events; group 1 has three, which say little:

    >>> import numpy as np
    >>> from sklearn_calib.calibrators import GroupCalibrator
    >>> scores = np.tile([0.2, 0.4, 0.6, 0.8], 201)
    >>> groups = np.repeat([0, 1, 2], [400, 4, 400])
    >>> y = np.random.default_rng(0).random(804) < np.where(groups == 0, scores / 2, scores)
    >>> calibrator = GroupCalibrator().fit(scores, y, groups=groups)
    >>> calibrator.predict_proba([0.8, 0.8, 0.8, 0.8], groups=[0, 1, 2, 3])[:, 1].round(2)
    array([0.4 , 0.75, 0.82, 0.62])
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
        proba = self._map_scores(scores[weight > 0])
        targets = codes[weight > 0]
        kept = weight[weight > 0]
        if proba.ndim == 1:
            fit = partially_pooled(group, logit(proba), targets, kept)
            self.slopes_, self.intercepts_, self.covariances_ = fit
            return self
        fits = [
            partially_pooled(group, logit(proba[:, k]), targets == k, kept) for k in range(proba.shape[1])
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
            raise ValueError(f"{error} If a column holds the groups, pass it as groups=, not in X.") from None

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
    group: NDArray[np.intp], f: Array, target: NDArray[Any], weight: Array
) -> tuple[Array, Array, Array]:
    """Return slope and intercept of the log-odds of each group, and the covariance of the groups."""
    centre = np.average(f, weights=weight)
    spread = float(np.sqrt(np.average((f - centre) ** 2, weights=weight))) or 1.0
    x, n_groups = (f - centre) / spread, int(group.max()) + 1
    found, mean = np.zeros((2, n_groups)), np.zeros((2, 1))
    covariance: Array | None = None
    for _ in range(_RELINEARISATIONS):
        q = expit(f + found[0, group] + found[1, group] * x)
        h, r = weight * q * (1.0 - q), weight * (target - q)
        # gradient and information of each group, as of a quadratic function of (a, b)
        i00, i01, i11 = (np.bincount(group, h * x**k, n_groups) for k in range(3))
        gradient = np.array([np.bincount(group, r * x**k, n_groups) for k in range(2)])
        gradient += np.array([i00 * found[0] + i01 * found[1], i01 * found[0] + i11 * found[1]])
        if covariance is None:
            first = _first_variance(gradient[0], i00), _first_variance(gradient[1], i11)
            covariance = np.diag(np.array(first))
        for _ in range(_EM_STEPS):
            # posterior of (a, b): precision I + P, mean (I + P)^-1 (gradient + P mu) with P = Sigma^-1
            prior = np.linalg.inv(covariance + _LEAST_VARIANCE * np.eye(2))
            u, v = gradient + prior @ mean
            p00, p01, p11 = i00 + prior[0, 0], i01 + prior[0, 1], i11 + prior[1, 1]
            inverse = np.array([[p11, -p01], [-p01, p00]]) / (p00 * p11 - p01**2)
            posterior = np.array(
                [inverse[0, 0] * u + inverse[0, 1] * v, inverse[1, 0] * u + inverse[1, 1] * v]
            )
            mean = posterior.mean(axis=1, keepdims=True)
            away = posterior - mean
            covariance = (inverse.sum(axis=2) + away @ away.T) / n_groups
        step = posterior - found
        found += step * np.minimum(1.0, _LONGEST_STEP / np.maximum(np.abs(step).max(axis=0), _LONGEST_STEP))
    slope = found[1] / spread
    return 1.0 + slope, found[0] - slope * centre, np.asarray(covariance)


def _first_variance(gradient: Array, information: NDArray[Any]) -> float:
    """Return the variance between groups of DerSimonian and Laird for a mean of 0, at least a small one."""
    known = information > 0.0
    excess = float((gradient[known] ** 2 / information[known]).sum()) - np.count_nonzero(known)
    return max(excess / max(float(information.sum()), 1.0), _LEAST_START)
