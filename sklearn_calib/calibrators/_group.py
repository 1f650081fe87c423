"""One calibrator for each group of samples, and a pooled one for the others."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._core._maps import Groups
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_groups, check_integer
from sklearn_calib.calibrators._base import both_classes, may_be_certain
from sklearn_calib.calibrators._multiclass import (
    ComposedCalibrator,
    check_calibrator,
    event_probability,
    fit_clone,
)
from sklearn_calib.calibrators._platt import or_platt


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
    """One calibrator for each group, so that predictions are calibrated within each of them.

    A model that is calibrated overall can overpredict in one group and underpredict in another. Each group of
    sufficient size has its own map. A pooled map, fitted to all samples, is used for groups that are too
    small, that lack a class, or that did not occur in ``fit``.

    The groups are metadata: the argument ``groups`` of ``fit``, ``transform``, ``predict`` and
    ``predict_proba``. Without groups, the pooled map is used for all samples.

    Parameters
    ----------
    calibrator : calibrator, classifier or None, default=None
        A calibrator of this package, or any classifier with ``predict_proba``, which then receives the scores
        of a binary problem as one column. It is cloned for each group. None means :class:`PlattCalibrator`.
    min_group_size : int, default=100
        Minimum number of samples, or total weight, of a group with its own map.

    Attributes
    ----------
    calibrators_ : dict
        The fitted calibrators by group, each fitted to labels 0, 1, ...
    pooled_calibrator_ : object
        The calibrator fitted to all samples.
    pooled_groups_ : list
        Groups in ``fit`` that use it, because they had too few samples or lacked a class.
    %(multiclass_fit)s

    See Also
    --------
    OneVsRestCalibrator : One calibrator for each class.

    Notes
    -----
    The cost is that of one fit to all samples and one to each group. The ranking of samples of different
    groups may change, so there is no certificate; the ``calibrators_`` have certificates for their groups.

    With metadata routing, request the groups for each method that needs them:
    ``GroupCalibrator().set_fit_request(groups=True).set_predict_proba_request(groups=True)``. Then
    :class:`~sklearn_calib.meta.CalibratedClassifier` passes them on.

    References
    ----------
    .. [1] Pleiss, Raghavan, Wu, Kleinberg, Weinberger (2017). On fairness and calibration. NeurIPS.

    Examples
    --------
    The scores are calibrated for group 0 and reversed for group 1:

    >>> import numpy as np
    >>> from sklearn_calib.calibrators import GroupCalibrator, IsotonicCalibrator
    >>> scores, groups = np.array([0.2, 0.8, 0.2, 0.8] * 2), [0, 0, 1, 1] * 2
    >>> y = [0, 1, 0, 1, 0, 1, 1, 0]
    >>> calibrator = GroupCalibrator(IsotonicCalibrator(), min_group_size=4).fit(scores, y, groups=groups)
    >>> calibrator.predict_proba([0.8, 0.8, 0.8], groups=[0, 1, 2])[:, 1]
    array([1.  , 0.5 , 0.75])
    """

    calibrators_: dict[Any, Any]
    pooled_calibrator_: Any
    pooled_groups_: list[Any]

    def __init__(self, calibrator: Any = None, *, min_group_size: int = 100) -> None:
        self.calibrator = calibrator
        self.min_group_size = min_group_size

    def fit(  # type: ignore[override] # maps of groups have no certificate, and no clusters
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Fit the pooled map, and one for each group of sufficient size.

        Parameters
        ----------
        %(fitted_scores)s
        sample_weight : array-like of shape (n,) or None, default=None
            Non-negative weights; a weight of k is equivalent to k repetitions of the sample.
        groups : array-like of shape (n,) or None, default=None
            Group of each sample: all numbers or all strings, also in later calls. Numbers are compared by
            value, so that 1 and 1.0 are the same group.
        %(fitted_classes)s

        Returns
        -------
        self
            The fitted calibrator.
        """
        self._check_parameters()
        scores, codes, weight, known = self._read(X, y, sample_weight, classes)
        found = members_of(groups, scores)
        self._group_type = None if groups is None else type_of(list(found))
        self._fit_known(scores, codes, weight, known)
        self.calibrators_, self.pooled_groups_ = {}, []
        mass = np.ones(codes.shape[0]) if weight is None else weight
        for group, members in found.items():
            rows = members[mass[members] > 0]
            present = np.unique(codes[rows]).shape[0] == known.shape[0]
            if present and mass[rows].sum() >= self.min_group_size:
                own = None if weight is None else weight[rows]
                self.calibrators_[group] = self._fit_clone(scores[rows], codes[rows], own)
            else:
                self.pooled_groups_.append(group)
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
        check_integer(self.min_group_size, "min_group_size")

    def _members(self) -> list[Any]:
        return [or_platt(self.calibrator)]

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        self.pooled_calibrator_ = self._fit_clone(scores, codes, weight)

    def _fit_clone(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> Any:
        classes = np.arange(self.classes_.shape[0])
        return fit_clone(or_platt(self.calibrator), scores, codes, weight, classes)

    def _calibrated(self, X: Any, groups: Any) -> Array:
        check_is_fitted(self)
        scores = self._check_scores(X, reset=False)
        grouped = self._group_type is not None
        if (groups is not None) != grouped:
            found = "groups were passed to fit, but not now" if grouped else "fit had no groups"
            raise ValueError(f"{found}. Pass groups to fit and to all later calls, or to none.")
        proba = self._map_scores(scores)
        for group, rows in members_of(groups, scores, self._group_type).items():
            if group in self.calibrators_:
                proba[rows] = _apply(self.calibrators_[group], scores[rows])
        return proba

    def _export(self, build: Any) -> Any:
        pooled = build.part(self.pooled_calibrator_)
        if self._group_type is None:
            return pooled
        own = tuple(build.part(one) for one in self.calibrators_.values())
        return Groups(list(self.calibrators_), own, (pooled,))

    def _may_be_certain(self) -> bool:
        return may_be_certain(self.pooled_calibrator_)

    def _map_scores(self, scores: Array) -> Array:
        return _apply(self.pooled_calibrator_, scores)


def _apply(calibrator: Any, scores: Array) -> Array:
    """Return probabilities in the shape of the scores."""
    if scores.ndim == 1:
        return event_probability(calibrator, scores).copy()
    return np.array(calibrator.predict_proba(scores), dtype=np.float64)


def members_of(
    groups: ArrayLike | None, scores: Array, expected: str | None = None
) -> dict[Any, NDArray[np.intp]]:
    """Return the samples of each group; ``expected`` is the type of the groups of the fit."""
    if groups is None:
        return {}
    if isinstance(groups, list | tuple):
        # an array of other types would turn numbers among strings into strings
        check_groups(np.array(groups, dtype=object), scores.shape[0])
    known, index = np.unique(check_groups(groups, scores.shape[0]), return_inverse=True)
    found = known.tolist()
    if expected not in (None, type_of(found)):
        raise ValueError(
            f"groups contains {type_of(found)}, such as {found[0]!r}, but those of fit were {expected}. Pass "
            "groups of the same type."
        )
    order = np.argsort(index, kind="stable")
    ends = np.cumsum(np.bincount(index))[:-1]
    return dict(zip(found, np.split(order, ends), strict=True))


def type_of(groups: list[Any]) -> str:
    """Return "strings" or "numbers", if groups are all of one of these."""
    for name, kind in (("strings", str), ("numbers", Real)):
        if all(isinstance(group, kind) for group in groups):
            return name
    types = sorted({type(group).__name__ for group in groups})
    raise ValueError(f"groups must be all numbers or all strings, got {', '.join(types)}. Convert them.")
