"""The two-step procedure for any calibrator: fit on one half of the samples, certify on the other."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._core._bounds import cutoff_bound
from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._maps import Step, through
from sklearn_calib._typing import Array, Codes, CountingWeights
from sklearn_calib.calibrators._base import BaseCalibrator, may_be_certain
from sklearn_calib.calibrators._certificate import (
    CERTIFICATE_METHODS,
    CutoffCertificate,
    CutoffCertificateMixin,
    check_independent,
    fitted_bound,
    outcomes_by_value,
    pooled_outcomes,
)
from sklearn_calib.calibrators._multiclass import (
    check_calibrator,
    event_probability,
    fit_clone,
    one_by_one,
    scores_wanted,
)
from sklearn_calib.calibrators._platt import or_platt
from sklearn_calib.metrics._cutoff import cutoff_of_groups

_RESAMPLES = 999


class CertifiedCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Any calibrator, with a guarantee: its cutoff calibration error on new data is at most a target.

    The procedure of Section 4.1 of [1]_. The samples are divided at random into halves. The calibrator is
    fitted to the first, and its plug-in cutoff calibration error is computed on the second. If the error is
    at most ``target`` minus a margin of order :math:`1/\sqrt n`, the fitted map is used, otherwise the
    constant event rate of the second half, and ``fit`` warns.

    Parameters
    ----------
    calibrator : calibrator, classifier, "passthrough" or None, default=None
        A binary calibrator, or any classifier with ``predict_proba``, which receives the scores as one column
        and labels 0 and 1. It is cloned. None means :class:`PlattCalibrator`. "passthrough", for scores that
        are probabilities, and a fitted calibrator within :class:`sklearn.frozen.FrozenEstimator` need no fit:
        all samples are used as the second half, and must not have been used to fit them.
    target : float, default=None
        The error that is guaranteed, strictly between 0 and 1. None means twice the margin (with "fitted",
        that of "asymptotic"), so that a perfectly calibrated map is rarely rejected. With too few samples the
        constant is used: about 1000 are needed for 0.1 and 5000 for 0.05, and with ``method="asymptotic"``
        5000 and 20,000 (simulated in docs/certificates.md).
    confidence : float, default=0.95
        :math:`1 - \delta`, the probability with which ``certificate_`` holds.
    method : {"fitted", "asymptotic", "dkw", "paper"}, default="fitted"
        The margin; see Notes. Clusters, which are not divided, require "fitted".
    random_state : int, Generator, RandomState or None, default=0
        Source of the halves, and of the 999 bootstrap samples of "fitted".
    %(counted_weight)s

    Attributes
    ----------
    calibrator_ : object
        The fitted calibrator, also if it is not accepted; None if the first half had one class only.
    accepted_ : bool
        Whether the fitted map is used: ``cutoff_error_ <= target_ - margin_``.
    cutoff_error_, margin_ : float
        Plug-in cutoff calibration error of ``calibrator_`` on the second half (NaN if it is None), and its
        margin.
    target_ : float
        The error that is guaranteed; a value of 1 or more is no restriction.
    mean_ : float
        Frequency of ``classes_[1]`` in the second half: the constant used if the map is not accepted.
    certificate_ : float
        Upper confidence bound of the cutoff calibration error of the resulting map, at most 1:
        ``cutoff_error_ + margin_``; for the constant ``margin_ / 2``, or the bound of "fitted". It holds with
        probability :math:`1 - \delta`, whichever of the two maps is used.
    certified_size_ : int
        Number of samples of the second half.
    %(binary_fit)s

    Notes
    -----
    With :math:`n'` samples in the second half the margin is, as for :meth:`cutoff_certificate` of
    :class:`IsotonicCalibrator`, :math:`q_{1-\delta}(\pi)/\sqrt{n'}` ("asymptotic") or
    :math:`4\sqrt{\log(4/\delta)/(2n')}` ("dkw"); :math:`(20 + \sqrt{2\log(1/\delta)})/\sqrt{n'}` ("paper",
    Proposition 4.1 of [1]_); or the bootstrap bound of the error of this map minus ``cutoff_error_``
    ("fitted"). "dkw" and "paper" hold for every :math:`n'`, the others for large :math:`n'`. The bounds of
    "fitted" for the map and for the constant each hold with probability :math:`1 - \delta/2`, so that the one
    that is used holds with probability :math:`1 - \delta`; the other margins hold for both at once.

    For every calibrator and distribution, the error of the resulting map is at most ``target_`` with
    probability at least :math:`1 - \delta` if ``method`` is "fitted" or the target is at least the margin,
    and :math:`1 - 2\delta` otherwise (Corollary 4.1 of [1]_). Below the margin the constant is always used.
    Below :math:`\sqrt{\log(1/\delta)/(2n')}` (with "fitted" :math:`\delta/2` in place of :math:`\delta`),
    Hoeffding's bound of the error of the constant, ``fit`` raises ValueError. All probabilities are for one
    division, whose seed is chosen beforehand. docs/certificates.md contains proofs and simulations.

    %(cutoff_paper)s

    Examples
    --------
    A misspecified logistic curve, and a correctly specified one:

    >>> import numpy as np
    >>> import warnings
    >>> from sklearn_calib.calibrators import CertifiedCalibrator, PlattCalibrator
    >>> scores, platt = np.tile([0.0, 0.25, 0.5, 1.0], 1000), PlattCalibrator(link="identity")
    >>> with warnings.catch_warnings(action="ignore"):  # that the constant is used
    ...     wrong = CertifiedCalibrator(platt, target=0.15).fit(scores, np.tile([1, 0, 0, 1], 1000))
    >>> wrong.accepted_, round(wrong.cutoff_error_, 2), round(wrong.margin_, 3)
    (False, 0.26, 0.011)
    >>> outcomes = np.random.default_rng(0).random(4000) < scores
    >>> right = CertifiedCalibrator(platt, target=0.15).fit(scores, outcomes)
    >>> right.accepted_, right.certificate_ < 0.15
    (True, True)
    """

    _multiclass = False
    _monotone = False

    def __init__(
        self,
        calibrator: Any = None,
        *,
        target: float | None = None,
        confidence: float = 0.95,
        method: str = "fitted",
        random_state: Any = 0,
        weights: CountingWeights = None,
    ) -> None:
        self.calibrator = calibrator
        self.target = target
        self.confidence = confidence
        self.method = method
        self.random_state = random_state
        self.weights = weights

    def _check_parameters(self) -> None:
        if isinstance(self.calibrator, str):
            _validation.check_option(self.calibrator, "calibrator", ["passthrough"])
        elif self.calibrator is not None:
            check_calibrator(self.calibrator)
        if self.target is not None:
            _validation.check_fraction(self.target, "target")
        _validation.check_fraction(self.confidence, "confidence")
        if _validation.check_option(self.method, "method", CERTIFICATE_METHODS) == "fitted":
            _validation.check_resamples(_RESAMPLES, self._fitted_confidence(self.confidence))
        _validation.check_randomness(self.random_state)

    @property
    def _fractions(self) -> bool:  # type: ignore[override]
        given = or_platt(self.calibrator)
        return isinstance(given, str | FrozenEstimator) or getattr(given, "_fractions", False)

    def _score_kind(self) -> str:
        if isinstance(self.calibrator, str):
            return "probability"
        given = or_platt(self.calibrator)
        return scores_wanted(given.estimator if isinstance(given, FrozenEstimator) else given)

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        if weight is not None:
            _validation.check_counts(weight, self.weights)
        scores, codes = one_by_one(scores, codes, weight, "a random part of the samples")
        self._fit_halves(scores, codes, None)

    def _fit_clusters(self, scores: Array, codes: Codes, weight: Array | None, clusters: Codes) -> None:
        if weight is not None:
            raise ValueError("clusters cannot be combined with sample_weight. Repeat samples instead.")
        self._fit_halves(scores, codes, clusters)

    def _fit_map(
        self, scores: Array, codes: Codes, clusters: Codes | None, generator: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Set ``calibrator_``, and return which samples are left to certify it."""
        second = np.ones(codes.shape[0], dtype=bool)
        if isinstance(self.calibrator, str):
            self.calibrator_: Any = self.calibrator
            return second
        if isinstance(self.calibrator, FrozenEstimator):
            self.calibrator_ = self.calibrator.estimator
            check_is_fitted(self.calibrator_)
            known = np.asarray(getattr(self.calibrator_, "classes_", [0, 1])).tolist()
            if known not in ([0, 1], self.classes_.tolist()):
                raise ValueError(
                    f"calibrator was fitted to the labels {known}, but those of y are "
                    f"{self.classes_.tolist()}. Use the labels of its fit."
                )
            return second
        if codes.shape[0] < 2:
            raise ValueError("At least 2 samples are needed, one for each half, but y has 1.")
        units = np.arange(codes.shape[0]) if clusters is None else clusters
        order = generator.permutation(int(units.max()) + 1)
        second = np.isin(units, order[: order.shape[0] // 2])
        first, self.calibrator_ = codes[~second], None
        if first.min() < first.max():
            self.calibrator_ = fit_clone(or_platt(self.calibrator), scores[~second], first, None)
        return second

    def _fit_halves(self, scores: Array, codes: Codes, clusters: Codes | None) -> None:
        generator = _validation.check_generator(self.random_state)
        second = self._fit_map(scores, codes, clusters, generator)
        scores, codes = scores[second], codes[second]
        if clusters is not None:
            clusters = np.unique(clusters[second], return_inverse=True)[1]
        self.certified_size_, self.mean_ = codes.shape[0], float(codes.mean())
        forecasts = np.full(scores.shape, self.mean_)
        if self.calibrator_ is not None:
            forecasts = _validation.check_probabilities(
                self._calibrated(scores), "calibrator.predict_proba(X)"
            )
        rows = group_outcomes(codes, forecasts, None, clusters)
        check_independent(rows, self.method)
        self.cutoff_error_ = math.nan if self.calibrator_ is None else cutoff_of_groups(rows)
        size = codes.shape[0] / (1.0 if rows.clusters is None else rows.clusters.design_effect(rows.prob))
        method = "asymptotic" if self.method == "fitted" else self.method
        self.margin_ = cutoff_bound(size, self.confidence, method, base_rate=self.mean_)
        self.target_ = 2.0 * self.margin_ if self.target is None else float(self.target)
        # outcomes by the values of the resulting map
        self._certification = pooled_outcomes(rows)
        level = self.confidence
        if self.method == "fitted":
            level = self._fitted_confidence(self.confidence)
            upper = fitted_bound(self._certification, level, _RESAMPLES, generator)
            self.margin_ = upper - self.cutoff_error_
        # Hoeffding's inequality
        deviation = math.sqrt(-math.log(1.0 - level) / (2.0 * size))
        # the margin is of order 1 / sqrt(n); that of "fitted" is NaN without a map
        ratio = float(np.fmax(self.margin_, deviation)) / max(self.target_, 1e-9)
        needed = (1 if second.all() else 2) * math.ceil(self.certified_size_ * ratio**2)
        more = (
            f"Pass a larger target, or at least {needed} samples, with which the margin is below the target; "
            f"with {4 * needed} samples a calibrated map is rarely rejected."
        )
        if self.target_ < deviation:
            raise ValueError(
                f"target={self.target_:.3g} is below {deviation:.3g}, by which even the constant event rate "
                f"may be wrong. {more}"
            )
        self.accepted_ = self.cutoff_error_ <= self.target_ - self.margin_
        self.certificate_ = min(1.0, self.cutoff_error_ + self.margin_)
        if not self.accepted_:
            self._warn_of_constant(more)
            constant = np.full_like(self._certification.prob, self.mean_)
            self._certification = outcomes_by_value(self._certification, constant)
            self.certificate_ = self._certificate(self.confidence, self.method, _RESAMPLES, generator).upper

    def _warn_of_constant(self, more: str) -> None:
        if self.target_ < self.margin_:
            reason = f"target={self.target_:.3g} is below the margin {self.margin_:.3g}"
        elif self.calibrator_ is None:
            reason, more = "The samples for the fit are all of one class", "Pass more samples."
        else:
            reason = (
                f"The error {self.cutoff_error_:.3g} of the fitted map exceeds target - margin = "
                f"{self.target_:.3g} - {self.margin_:.3g}"
            )
            more = "Pass more samples, a better calibrator, or a larger target."
        _validation.warn_user(f"{reason}, so that the constant event rate is used. {more}")

    def _certificate(
        self, confidence: float, method: str, n_resamples: int, generator: np.random.Generator
    ) -> CutoffCertificate:
        check_independent(self._certification, method)
        if method == "fitted":
            level = self._fitted_confidence(confidence)
            bound = fitted_bound(self._certification, level, n_resamples, generator)
        else:
            margin = cutoff_bound(self.certified_size_, confidence, method, base_rate=self.mean_)
            bound = self.cutoff_error_ + margin if self.accepted_ else margin / 2.0
        return CutoffCertificate(min(1.0, bound), confidence, method, self.certified_size_)

    def _fitted_confidence(self, confidence: float) -> float:
        # the bounds of the map and of the constant hold both with the confidence
        return 1.0 - (1.0 - confidence) / 2.0

    def _calibrated(self, scores: Array) -> Array:
        return scores if isinstance(self.calibrator_, str) else event_probability(self.calibrator_, scores)

    def _may_be_certain(self) -> bool:
        return may_be_certain(self.calibrator_)

    def _export(self, build: Any) -> Any:
        if not self.accepted_:
            return Step(np.zeros(0), np.array([self.mean_]))
        ends = np.array([0.0, 1.0])
        return through(ends, ends) if isinstance(self.calibrator_, str) else build.part(self.calibrator_)

    def _map_scores(self, scores: Array) -> Array:
        return self._calibrated(scores) if self.accepted_ else np.full(scores.shape, self.mean_)
