"""The two-step procedure for any calibrator: fit on one part of the samples, certify on the other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._core._bounds import cutoff_bound
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes
from sklearn_calib._core._maps import Step, through
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    check_flag,
    check_fraction,
    check_frequency_weights,
    check_generator,
    check_option,
    check_probabilities,
    check_randomness,
    check_resamples,
)
from sklearn_calib.calibrators._base import BaseCalibrator, may_be_certain
from sklearn_calib.calibrators._certificate import (
    CERTIFICATE_METHODS,
    CutoffCertificate,
    CutoffCertificateMixin,
    check_independent,
    check_tolerance,
    fitted_bound,
    outcomes_by_value,
    pooled_outcomes,
    resolve_tolerance,
)
from sklearn_calib.calibrators._multiclass import (
    check_calibrator,
    event_probability,
    fit_clone,
    scores_wanted,
)
from sklearn_calib.calibrators._parts import one_by_one, select_at_random
from sklearn_calib.calibrators._platt import or_platt
from sklearn_calib.metrics._cutoff import cutoff_of_groups

Codes = NDArray[np.int64]
Index = NDArray[np.intp]

_PASSTHROUGH = "passthrough"
_RESAMPLES = 999


class CertifiedCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Any calibrator, used only if its calibration error on held-out samples is within a tolerance.

    The samples are split at random. The calibrator is fitted to one part, and its plug-in cutoff calibration
    error is estimated on the other. If the error is within a tolerance of order :math:`1/\sqrt n`, the fitted
    map is used, otherwise the constant event rate. The error of the resulting map therefore converges to 0
    for every distribution and every calibrator, monotone or not. ``certificate_`` is an upper confidence
    bound of the true error. Split and fallback are those of the two-step procedure of Section 4.1 of [1]_;
    for its acceptance rule see ``tolerance``.

    Parameters
    ----------
    calibrator : calibrator, classifier, "passthrough" or None, default=None
        A binary calibrator of this package, or any classifier with ``predict_proba``, which then receives the
        scores as one column and labels 0 and 1. It is cloned. None means :class:`PlattCalibrator`.
        "passthrough", for scores that are already probabilities, and a fitted calibrator within
        :class:`sklearn.frozen.FrozenEstimator` need no fit: the samples are not split, and all of them are
        used for certification; both must come from other samples.
    test_size : float, default=0.5
        Fraction of the samples used for certification.
    stratify : bool, default=True
        Whether the split is stratified by class; see Notes.
    tolerance : {"sharp", "paper"} or float, default="sharp"
        Upper limit of the plug-in error. "sharp": the "asymptotic" margin at ``confidence``; a perfectly
        calibrated map is rarely rejected. "paper": :math:`\epsilon_n = (20 + \sqrt{2 \log 20})/\sqrt n` of
        Appendix D.2 of [1]_, with the :math:`n` samples used for certification, which cannot reject for
        :math:`n \le 500`. A number is used as the limit. Section 4.1 of [1]_ accepts a map if its plug-in
        error is at most :math:`c` minus the margin, so that its true error is at most :math:`c` with the
        stated confidence: for this rule pass the number :math:`c` minus ``margin_``.
    confidence : float, default=0.95
        Confidence level of the certificate, and of the tolerance "sharp".
    method : {"fitted", "asymptotic", "dkw", "paper"}, default="fitted"
        The method of the certificate; see Notes.
    random_state : int, Generator, RandomState or None, default=0
        Source of the split, and of the 999 bootstrap samples of "fitted".

    Attributes
    ----------
    calibrator_ : object
        The fitted calibrator, whether or not it is accepted; "passthrough" if it was passed; None if the
        first part had samples of one class only, which cannot happen with ``stratify=True``.
    accepted_ : bool
        Whether the fitted calibrator is used.
    cutoff_error_ : float
        Plug-in cutoff calibration error of ``calibrator_`` on the certification samples; NaN if there is
        none.
    tolerance_ : float
        The tolerance with which it was compared.
    mean_ : float
        Frequency of ``classes_[1]`` among all samples: the constant used if the calibrator is not accepted.
    margin_ : float
        Margin of the certificate for a fitted map; with "fitted" that of the resulting map.
    certificate_ : float
        Upper confidence bound of the cutoff calibration error of the resulting map on new data.
    certified_size_ : int
        Number of certification samples.
    certified_event_rate_ : float
        Frequency of ``classes_[1]`` among them.
    %(binary_fit)s

    See Also
    --------
    ModifiedPlattCalibrator : Platt scaling with the same fallback, without a split.
    IsotonicCalibrator : Has a certificate without a split or a fallback.

    Notes
    -----
    For the split, weighted samples are expanded to repeated samples, at most 10**8. Clusters are not split,
    there is no stratification, and the tolerances "sharp" and "paper" use the effective number of samples.

    *Certificate.* "fitted" is that of :meth:`IsotonicCalibrator.cutoff_certificate`, with the resulting map
    and the certification samples. The others assume independent samples. Their margin is valid for a map that
    is independent of the certification samples: "asymptotic" and "dkw" as there, "paper" from Proposition 4.1
    of [1]_, ``(20 + sqrt(2 log(1 / (1 - confidence)))) / sqrt(n)`` with ``n`` certification samples. The
    certificate, clipped to 1, is ``cutoff_error_ + margin_`` for the fitted map, and ``abs(mean_ -
    certified_event_rate_) + margin_ / 2`` for the constant. Use ``stratify=False`` if "dkw" or "paper" must
    be valid for every n; docs/certificates.md contains the proofs.

    %(cutoff_paper)s

    Examples
    --------
    A misspecified logistic curve, and a correctly specified one:

    >>> import numpy as np
    >>> from sklearn_calib.calibrators import CertifiedCalibrator, PlattCalibrator
    >>> scores = np.tile([0.0, 0.25, 0.5, 1.0], 500)
    >>> platt = PlattCalibrator(link="identity")
    >>> wrong = CertifiedCalibrator(platt, random_state=0).fit(scores, np.tile([1, 0, 0, 1], 500))
    >>> wrong.accepted_, round(wrong.tolerance_, 3), round(wrong.certificate_, 3)
    (False, 0.091, 0.032)
    >>> wrong.transform([0.1, 0.9])
    array([0.5, 0.5])
    >>> outcomes = np.random.default_rng(0).random(2000) < scores
    >>> right = CertifiedCalibrator(platt, random_state=0).fit(scores, outcomes)
    >>> right.accepted_, right.certificate_ < 0.15
    (True, True)
    """

    _multiclass = False
    _monotone = False
    calibrator_: Any
    accepted_: bool
    cutoff_error_: float
    tolerance_: float
    mean_: float
    margin_: float
    certificate_: float
    certified_size_: int
    certified_event_rate_: float
    _certification: GroupedOutcomes

    def __init__(
        self,
        calibrator: Any = None,
        *,
        test_size: float = 0.5,
        stratify: bool = True,
        tolerance: str | float = "sharp",
        confidence: float = 0.95,
        method: str = "fitted",
        random_state: Any = 0,
    ) -> None:
        self.calibrator = calibrator
        self.test_size = test_size
        self.stratify = stratify
        self.tolerance = tolerance
        self.confidence = confidence
        self.method = method
        self.random_state = random_state

    def _certificate(
        self, confidence: float, method: str, n_resamples: int, generator: np.random.Generator
    ) -> CutoffCertificate:
        return self._certify(confidence, method, n_resamples, generator)[0]

    def _certify(
        self, confidence: float, method: str, n_resamples: int, generator: np.random.Generator
    ) -> tuple[CutoffCertificate, float]:
        """Return the certificate of the resulting map, and the margin for a fitted map."""
        rows = self._certification
        check_independent(rows, method)
        error, fraction = self.cutoff_error_, 1.0
        if not self.accepted_:
            error, fraction = abs(self.mean_ - self.certified_event_rate_), 0.5
        if method == "fitted":
            if not self.accepted_:
                rows = outcomes_by_value(rows, np.full_like(rows.prob, self.mean_))
            bound = fitted_bound(pooled_outcomes(rows), confidence, n_resamples, generator)
            margin = bound - error
        else:
            margin = cutoff_bound(self._effective_size(), confidence, method, base_rate=self.mean_)
            bound = error + fraction * margin
        return CutoffCertificate(min(1.0, bound), confidence, method, self.certified_size_), margin

    def _check_parameters(self) -> None:
        if isinstance(self.calibrator, str):
            check_option(self.calibrator, "calibrator", [_PASSTHROUGH])
        elif self.calibrator is not None:
            check_calibrator(self.calibrator)
        check_fraction(self.test_size, "test_size")
        check_flag(self.stratify, "stratify")
        check_tolerance(self.tolerance)
        check_fraction(self.confidence, "confidence")
        if check_option(self.method, "method", CERTIFICATE_METHODS) == "fitted":
            check_resamples(_RESAMPLES, self.confidence)
        check_randomness(self.random_state)

    def _score_kind(self) -> str:
        if isinstance(self.calibrator, str):
            return "probability"
        return scores_wanted(_unwrapped(or_platt(self.calibrator)))

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        self._fit_parts(scores, codes, weight, None)

    def _fit_clusters(self, scores: Array, codes: Codes, weight: Array | None, clusters: Codes) -> None:
        if weight is not None:
            raise ValueError("clusters cannot be combined with sample_weight. Repeat samples instead.")
        self._fit_parts(scores, codes, weight, clusters)

    def _fit_parts(self, scores: Array, codes: Codes, weight: Array | None, clusters: Codes | None) -> None:
        """Fit to one part of the samples and certify on the other; clusters are not split."""
        fixed = isinstance(self.calibrator, str | FrozenEstimator)
        generator = check_generator(self.random_state)
        if fixed:
            if weight is not None:
                check_frequency_weights(weight)
            self.calibrator_ = self._take_fixed()
        else:
            scores, codes = one_by_one(
                scores, codes, weight, "fit the calibrator to other samples and pass it in a FrozenEstimator"
            )
            weight = None
        self.mean_ = float(np.average(codes, weights=weight))
        if not fixed:
            if clusters is None:
                held_out, fitting = self._divide(codes, generator)
            else:
                held_out, fitting = self._divide_clusters(clusters, generator)
                clusters = clusters[held_out]
            self.calibrator_ = None
            if (codes[fitting] != codes[fitting[0]]).any():
                self.calibrator_ = fit_clone(or_platt(self.calibrator), scores[fitting], codes[fitting], None)
            scores, codes = scores[held_out], codes[held_out]
        forecasts = np.full(scores.shape, self.mean_)
        if self.calibrator_ is not None:
            forecasts = check_probabilities(self._calibrated(scores), "calibrator.predict_proba(X)")
        self._certification = group_outcomes(codes, forecasts, weight, clusters)
        self.certified_size_ = int(self._certification.total)
        self.certified_event_rate_ = float(self._certification.positives.sum()) / self.certified_size_
        # without a fitted map, the constant is certified
        found = self.calibrator_ is not None
        self.cutoff_error_ = cutoff_of_groups(self._certification) if found else float("nan")
        self.tolerance_ = resolve_tolerance(
            self.tolerance, self._effective_size(), self.confidence, self.mean_
        )
        self.accepted_ = self.cutoff_error_ <= self.tolerance_
        certificate, self.margin_ = self._certify(self.confidence, self.method, _RESAMPLES, generator)
        self.certificate_ = certificate.upper

    def _divide(self, codes: Codes, generator: np.random.Generator) -> tuple[Index, Index]:
        """Return the certification samples, sampled without replacement, and the training samples."""
        strata = codes if self.stratify else np.zeros_like(codes)
        # at least one sample is left for the fit
        sizes = [min(int(self.test_size * size + 0.5), size - 1) for size in np.bincount(strata).tolist()]
        if not any(sizes):
            raise ValueError(
                f"X has {codes.shape[0]} samples, which leaves none for certification with "
                f"test_size={self.test_size!r}. Pass more samples, or a larger test_size."
            )
        return select_at_random(strata, sizes, generator)

    def _divide_clusters(self, clusters: Codes, generator: np.random.Generator) -> tuple[Index, Index]:
        """Return the samples of the certification clusters, and those of the training clusters."""
        n_clusters = int(clusters.max()) + 1
        size = min(max(int(self.test_size * n_clusters + 0.5), 1), n_clusters - 1)
        certify = np.zeros(n_clusters, dtype=bool)
        certify[generator.permutation(n_clusters)[:size]] = True
        return np.flatnonzero(certify[clusters]), np.flatnonzero(~certify[clusters])

    def _effective_size(self) -> float:
        """Return the number of certification samples divided by the design effect."""
        rows = self._certification
        effect = 1.0 if rows.clusters is None else rows.clusters.design_effect(rows.prob)
        return self.certified_size_ / effect

    def _take_fixed(self) -> Any:
        """Return the calibrator that needs no fit."""
        if isinstance(self.calibrator, str):
            return self.calibrator
        check_is_fitted(self.calibrator)
        known = np.asarray(getattr(self.calibrator, "classes_", self.classes_))
        if not np.array_equal(known, self.classes_):
            raise ValueError(
                f"calibrator was fitted to the classes {known.tolist()}, but y has {self.classes_.tolist()}. "
                "Use the labels of its fit."
            )
        return self.calibrator

    def _calibrated(self, scores: Array) -> Array:
        """Return the probabilities of the fitted calibrator."""
        return scores if isinstance(self.calibrator_, str) else event_probability(self.calibrator_, scores)

    def _may_be_certain(self) -> bool:
        return may_be_certain(_unwrapped(self.calibrator_))

    def _export(self, build: Any) -> Any:
        if not self.accepted_:
            return Step(np.zeros(0), np.array([self.mean_]))
        if isinstance(self.calibrator_, str):
            ends = np.array([0.0, 1.0])
            return through(ends, ends)
        return build.part(self.calibrator_)

    def _map_scores(self, scores: Array) -> Array:
        return self._calibrated(scores) if self.accepted_ else np.full(scores.shape, self.mean_)


def _unwrapped(calibrator: Any) -> Any:
    return calibrator.estimator if isinstance(calibrator, FrozenEstimator) else calibrator
