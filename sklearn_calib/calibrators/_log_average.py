"""Ensemble of calibrators: the average of their log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._links import EPS, clip_probability
from sklearn_calib._core._maps import Chain, Softmax
from sklearn_calib._progress import Progress
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import check_link, inside
from sklearn_calib.calibrators._matrix import StructuredMatrixScalingCalibrator
from sklearn_calib.calibrators._multiclass import (
    ComposedCalibrator,
    OneVsRestCalibrator,
    check_calibrator,
    class_probabilities,
    fit_clone,
)
from sklearn_calib.calibrators._softmax import softmax
from sklearn_calib.calibrators._spline import SplineCalibrator

# The default splines have a weight if their gain in log loss, summed over the training samples, is more than
# this for each effective parameter.
_NOISE = 0.4
# Number of knots of the default splines: more improve the loss little, and take longer.
_N_KNOTS = 8
# Penalty of these splines with more classes than this, where an average over penalties takes too long.
_PENALTY, _MANY_CLASSES = 10.0, 30


class LogAverageCalibrator(ComposedCalibrator):
    r"""Ensemble of calibrators: the normalized geometric mean of their probabilities.

    With weights :math:`a_m` that sum to 1, the calibrated probabilities are proportional to :math:`\prod_m
    p_{mk}^{a_m}`; for two classes the log-odds are averaged. As the log loss is convex in log-probabilities,
    that of the average is at most the average of the losses, up to the clipping below. Averaging is most
    useful for different calibrators, such as one of each class against the rest and one of all classes
    jointly.

    Parameters
    ----------
    calibrators : sequence of calibrators or classifiers, or None, default=None
        None: a joint map, ``StructuredMatrixScalingCalibrator(penalty="auto", shrink_temperature=True)``, the
        average of temperature, vector and matrix scaling by their evidence, and its refinement, a spline of
        each class against the rest, ``OneVsRestCalibrator(SplineCalibrator(n_knots=8))``, which maps the
        probabilities of the joint map. Otherwise calibrators of this package, or classifiers with
        ``predict_proba``, which receive the scores as columns. Each is cloned. For more than two classes wrap
        binary ones in :class:`OneVsRestCalibrator`.
    weights : array-like of shape (n_calibrators,) or None, default=None
        Weights of the calibrators, divided by their sum. None: equal weights, or for the default calibrators
        those in the Notes. A calibrator of weight zero is fitted but not used.
    link : {"logit", "identity"}, default="logit"
        Type of the scores for the default calibrators: probabilities or logits. Ignored with ``calibrators``,
        which have their own links.
    %(progress)s

    Attributes
    ----------
    calibrators_ : list
        The fitted calibrators, each fitted to the indices of the labels in ``classes_``.
    weights_ : ndarray of shape (n_calibrators,)
        The normalized weights :math:`a`.
    %(multiclass_fit)s

    See Also
    --------
    StructuredMatrixScalingCalibrator : Calibrates all classes jointly.
    OneVsRestCalibrator : Calibrates each class against the rest.

    Notes
    -----
    The cost is the sum over the calibrators. Probabilities are clipped at 2**-53 first (for two classes also
    at 1 - 2**-53), so that a single 0 does not determine the result.

    The default splines correct what a linear map of the log-probabilities leaves. Their weight is
    :math:`\max(0, 1 - 0.4\,\nu / G)`, with G the log loss of the joint map less that of the splines, summed
    over the training samples, and :math:`\nu` the sum of their ``effective_parameters_``; the joint map has
    the remaining weight. Splines that fit only noise gain about :math:`\nu/2`, and for a quadratic loss the
    shrinkage factor with the smallest expected loss is about :math:`1 - \nu/(2 G)` [2]_; the smaller constant
    was chosen on simulations and real data. With more than 30 classes the splines have the penalty 10. If a
    class has no sample, they are omitted.

    References
    ----------
    .. [1] Genest, Zidek (1986). Combining probability distributions: a critique and an annotated
       bibliography. Statistical Science 1(1), Section 3.
    .. [2] James, Stein (1961). Estimation with quadratic loss. Proceedings of the Fourth Berkeley Symposium
       on Mathematical Statistics and Probability 1.

    Examples
    --------
    >>> from sklearn_calib.calibrators import (
    ...     IsotonicCalibrator, LogAverageCalibrator, PlattCalibrator
    ... )
    >>> scores, outcomes = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0, 1, 0, 1, 0, 1]
    >>> calibrator = LogAverageCalibrator([IsotonicCalibrator(), PlattCalibrator()])
    >>> calibrator.fit(scores, outcomes).transform([0.25]).round(3)
    array([0.479])

    Multiclass targets, without further choices:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.dirichlet(np.ones(3), 600)
    >>> labels = (proba.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
    >>> calibrator = LogAverageCalibrator().fit(proba, labels)
    >>> calibrator.weights_.round(2), calibrator.predict_proba([[0.2, 0.3, 0.5]]).round(1)
    (array([0.47, 0.53]), array([[0.2, 0.3, 0.5]]))
    """

    calibrators_: list[Any]
    weights_: Array

    def __init__(
        self,
        calibrators: Sequence[Any] | None = None,
        *,
        weights: ArrayLike | None = None,
        link: str = "logit",
        progress: bool | Callable[[int, int, str], Any] = False,
    ) -> None:
        self.calibrators = calibrators
        self.weights = weights
        self.link = link
        self.progress = progress

    def _check_parameters(self) -> None:
        check_link(self.link)
        if not (isinstance(self.progress, bool) or callable(self.progress)):
            raise TypeError(f"progress must be True, False or a function, got {self.progress!r}.")
        if self.calibrators is None:
            return
        if not isinstance(self.calibrators, list | tuple):
            raise TypeError(f"calibrators must be a list of calibrators, got {self.calibrators!r}.")
        if not self.calibrators:
            raise ValueError("calibrators is empty. Pass at least one calibrator.")
        for calibrator in self.calibrators:
            check_calibrator(calibrator)
        if self.weights is not None:
            _validation.check_weights(self.weights, len(self.calibrators), "weights")
        self._score_kind()

    def _members(self) -> Sequence[Any]:
        return self.calibrators if isinstance(self.calibrators, list | tuple) else ()

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        n_classes = self.classes_.shape[0]
        members = self.calibrators
        if members is None:
            every_class = bool(np.bincount(codes, minlength=n_classes).all())
            penalty = _PENALTY if n_classes > _MANY_CLASSES else "auto"
            members = [
                StructuredMatrixScalingCalibrator(penalty="auto", shrink_temperature=True, link=self.link),
                OneVsRestCalibrator(SplineCalibrator(n_knots=_N_KNOTS, penalty=penalty)),
            ][: 1 + every_class]
        weights = np.ones(len(members))
        if self.weights is not None:
            weights = _validation.check_weights(self.weights, len(members), "weights")
        self._refined = self.calibrators is None and len(members) == 2
        self.calibrators_ = []
        tables: list[Array] = []
        with Progress(self.progress, len(members)) as step:
            for one in members:
                step(type(one).__name__)
                self.calibrators_.append(fit_clone(one, scores, codes, weight, np.arange(n_classes)))
                if self._refined:
                    tables.append(class_probabilities(self.calibrators_[-1], scores))
                    scores = _scores_of(tables[-1])
        if self._refined and self.weights is None:
            weights = self._refinement_weights(tables, codes, weight)
        self.weights_ = weights / weights.sum()

    def _refinement_weights(self, tables: Sequence[Array], codes: Codes, weight: Array | None) -> Array:
        """Return the weights of the joint map and the splines, given their probabilities of the samples."""
        rows = np.arange(codes.shape[0])
        joint, splines = (np.log(clip_probability(table[rows, codes])) for table in tables)
        gains = splines - joint if weight is None else (splines - joint) * weight
        # exactly rounded, so that it does not depend on the order of the samples
        gain = math.fsum(gains.tolist())
        size = _NOISE * sum(one.effective_parameters_ for one in self.calibrators_[1].calibrators_)
        share = 1.0 - size / gain if gain > size else 0.0
        return np.array([1.0 - share, share])

    def _export(self, build: Any) -> Any:
        used = np.flatnonzero(self.weights_)
        parts = [self.calibrators_[m] for m in used]
        n_classes = self.classes_.shape[0]
        if n_classes == 2:
            return build.composed(self, self.calibrators_[:1] if self._refined else parts)
        average = build.log_average(parts, self.weights_[used])
        if not self._refined or used[-1] == 0:
            return average
        # the average of the splines and the identity, after the joint map
        same = Softmax(EPS, 0.0, 1.0, False, np.ones(n_classes), np.zeros(n_classes))
        average = replace(average, maps=(same, average.maps[-1])[-len(parts) :])
        return Chain((build.part(self.calibrators_[0]), average))

    def _map_scores(self, scores: Array) -> Array:
        used = np.flatnonzero(self.weights_)
        mean = log_average(self._tables(scores, used), self.weights_[used])
        return mean if scores.ndim > 1 else np.ascontiguousarray(mean[:, 1])

    def _tables(self, scores: Array, used: NDArray[np.intp]) -> Iterator[Array]:
        """Yield the probabilities of the calibrators with these numbers; a refinement maps those before."""
        for m in range(used[-1] + 1) if self._refined else used:
            table = class_probabilities(self.calibrators_[m], scores)
            if m in used:
                yield table
            if self._refined:
                scores = _scores_of(table)


def _scores_of(table: Array) -> Array:
    """Return the scores that have these probabilities (n, K): of two classes the last column."""
    return np.ascontiguousarray(table[:, 1]) if table.shape[1] == 2 else table


def default_calibrator(link: str, several: bool) -> Any:
    """Return the one that ranked first in ``benchmarks/compare_calibrators.py``, binary or multiclass."""
    return LogAverageCalibrator(link=link) if several else SplineCalibrator(link=link)


def log_average(tables: Iterable[ArrayLike], weights: Iterable[float]) -> Array:
    """Return the geometric mean of tables of probabilities (n, K), divided by its sum over the classes."""
    total: Array | float = 0.0
    for table, weight in zip(tables, weights, strict=True):
        logs = clip_probability(np.asarray(table, dtype=np.float64))
        np.log(logs, out=logs)
        logs *= weight
        total += logs
    return inside(softmax(np.asarray(total)))
