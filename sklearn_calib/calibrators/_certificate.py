"""Certificates: bounds of the cutoff calibration error of calibrators on new data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._core._binning import bin_starts
from sklearn_calib._core._bounds import BOUND_METHODS, cutoff_bound
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._core._null import draw_outcomes
from sklearn_calib._core._weights import effective_size, whole_numbers
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import number_text
from sklearn_calib._typing import Array, Codes, CountingWeights
from sklearn_calib.metrics._cutoff import cutoff_of_groups, walk_ranges
from sklearn_calib.metrics._metric_kernel import residuals

#: Methods of a certificate: for the map that was fitted, or for all monotone maps.
CERTIFICATE_METHODS = ("fitted", *BOUND_METHODS)

# With fewer samples of a class, the spread of the bootstrap is that of this number.
_FEWEST_OF_CLASS = 8
# More fitted values are pooled.
_MOST_VALUES = 500


@shared_docs
@dataclass(frozen=True)
class CutoffCertificate:
    r"""Upper confidence bound of the cutoff calibration error of a calibrator on new data.

    Attributes
    ----------
    upper : float
        The bound, at most 1.
    distance : float
        Upper bound of the distance from calibration that follows from ``upper``; see Notes.
    confidence : float
        Probability, over the samples, with which the bound holds.
    method : str
        The method used.
    n_samples : float
        Number of samples from which the bound was computed.
    note : str
        That the bound is for probabilities before normalization to sum 1, or approximate because the scores
        come from several models; or empty.

    Notes
    -----
    With a cutoff calibration error of at most :math:`c` the distance from calibration dCE is at most
    :math:`\min_N (N c + 1 / (2 N))` over positive integers :math:`N`: predict the event rate in each of
    :math:`N` intervals of equal width. This is about :math:`\sqrt{2 c}`, and always less than :math:`3 \sqrt
    c`, the bound of Proposition 2.1 of [1]_. Its proof adds :math:`1 / N` for the width; the mean distance
    from the mean of an interval is at most half of it.

    %(cutoff_paper)s

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import IsotonicCalibrator
    >>> p = (np.arange(2000) + 0.5) / 2000
    >>> y = np.random.default_rng(0).random(2000) < p
    >>> certificate = IsotonicCalibrator().fit(p, y).cutoff_certificate()
    >>> print(certificate)  # doctest: +ELLIPSIS
    cutoff calibration error on new data at most 0.02... with 95% confidence (method='fitted', n = 2000)
    >>> print(f"{certificate.distance:.1f}")
    0.2
    """

    upper: float
    confidence: float
    method: str
    n_samples: float
    note: str = ""

    @property
    def distance(self) -> float:
        """Upper bound of the distance from calibration."""
        if self.upper <= 0.0:
            return 0.0
        n = math.floor(1.0 / math.sqrt(2.0 * self.upper))
        return min(1.0, *(k * self.upper + 0.5 / k for k in (max(n, 1), n + 1)))

    def __str__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return (
            f"cutoff calibration error on new data at most {number_text(self.upper)} with "
            f"{100 * self.confidence:g}% confidence (method={self.method!r}, n = {self.n_samples:g}{note})"
        )


@shared_docs
class CutoffCertificateMixin:
    """Mixin of calibrators whose map has a certificate; the fit calls :func:`certify` at its end."""

    classes_: NDArray[Any]
    training_cutoff_error_: float
    training_event_rate_: float
    training_size_: float
    #: Outcomes by fitted value, as arrays, which all file formats can store; None if weights are not counts.
    _fitted_outcomes: tuple[Any, ...] | None
    _weighted: bool
    _monotone = True

    def _fit_clusters(self, scores: Array, codes: Codes, weight: Array | None, clusters: Codes) -> None:
        calibrator: Any = self
        if not hasattr(calibrator, "cutoff_certificate"):
            calibrator = super()
            calibrator._fit_clusters(scores, codes, weight, clusters)
        calibrator._fit_scores(scores, codes, weight)
        grouped = group_outcomes(codes, calibrator._probabilities(scores), weight, clusters)
        found = pooled_outcomes(grouped)
        self._fitted_outcomes = found.prob, found.weight, found.positives, found.clusters

    def cutoff_certificate(
        self,
        confidence: float = 0.95,
        method: str = "fitted",
        *,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        weights: CountingWeights = None,
    ) -> CutoffCertificate:
        r"""Return an upper confidence bound of the cutoff calibration error of the map on new data.

        "fitted" bounds the error of this map by a bootstrap of its cumulative residuals, valid for large n.
        With m < 8 samples of a class, the simulated deviations are multiplied by :math:`\sqrt{8 / m}`. If
        ``fit`` was called with clusters, the simulated outcomes are dependent within clusters.

        The other methods assume independent samples and bound the error of all monotone maps simultaneously:
        they are ``training_cutoff_error_`` plus a margin that is valid however the map was chosen. With
        :math:`d` = 1 - confidence and the event rate :math:`\pi`, the margin is

        - "asymptotic": :math:`q_{1-d}(\pi)/\sqrt n`, where :math:`q` is the quantile of the range of a
          Brownian bridge on :math:`[0, \pi]` plus its range on :math:`[\pi, 1]`; 2.86 at most for 95%;
        - "dkw": :math:`4\sqrt{\log(4/d)/(2n)}`, valid for every :math:`n`; 5.92 over :math:`\sqrt n` for 95%;
        - "paper": :math:`(30 + 2\sqrt{2\log(2/d)})/\sqrt n`, Propositions 5.1 and D.1 of [1]_; 35.4 for 95%.

        :class:`CertifiedCalibrator` has smaller margins, since its certification samples were not used in the
        fit; see there. docs/certificates.md contains assumptions, proofs, and simulations of the coverage.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability, over the training samples, with which the bound holds.
        method : {"fitted", "asymptotic", "dkw", "paper"}, default="fitted"
            Method of the bound; see above.
        n_resamples : int, default=999
            Number of bootstrap samples of "fitted"; at least 1 / (1 - ``confidence``) - 1.
        %(random_state)s
        weights : "frequency" or None, default=None
            What ``sample_weight`` of ``fit`` meant. "frequency": a weight of k, a whole number, stands for k
            independent samples. None: only weights of 0 and 1. Fits with sampling weights have no
            certificate; use the upper limit of :func:`sklearn_calib.inference.confidence_interval` for
            samples that were not used in the fit.

        Returns
        -------
        CutoffCertificate
            The bound, ``upper``, with the method used.

        Raises
        ------
        ValueError
            If a parameter is out of range; if the fit used sampling weights, because a certificate depends on
            the number of independent samples; for more than two classes; or if a method other than "fitted"
            is requested for a map that may be non-monotone or a fit with clusters.

        Notes
        -----
        Assumes that the samples are independent and have the same distribution as the new data, and that the
        scores come from a model that was fitted to other samples.

        %(cutoff_paper)s
        """
        confidence = _validation.check_fraction(confidence, "confidence")
        _validation.check_option(method, "method", CERTIFICATE_METHODS)
        _validation.check_size(n_resamples, "n_resamples")
        _validation.check_randomness(random_state)
        _validation.check_counting(weights)
        check_is_fitted(self)
        if weights is None and hasattr(self, "_fitted_outcomes") and self._weighted:
            raise ValueError(
                "sample_weight was not 1 everywhere in fit, but certificates count samples: sampling weights "
                "are not supported. Use the upper limit of confidence_interval with "
                "metric='cutoff_calibration_error' and the weights, for samples that fit did not use. Pass "
                "weights='frequency' only if a weight of k counts k equal samples."
            )
        if method == "fitted":
            n_resamples = _validation.check_resamples(n_resamples, self._fitted_confidence(confidence))
        return self._certificate(confidence, method, n_resamples, _validation.check_generator(random_state))

    def _fitted_confidence(self, confidence: float) -> float:
        """Return the confidence of the bound of "fitted"."""
        return confidence

    def _certificate(
        self, confidence: float, method: str, n_resamples: int, generator: np.random.Generator
    ) -> CutoffCertificate:
        """Return the certificate, given checked arguments."""
        if self.classes_.shape[0] > 2:
            raise ValueError(
                f"A certificate needs a binary problem, but y had {self.classes_.shape[0]} classes in fit. "
                "Calibrate one class against the rest to certify its probability."
            )
        if not hasattr(self, "_fitted_outcomes"):
            raise ValueError("A certificate needs labels, but fit was called without. Pass y to fit.")
        if self._fitted_outcomes is None:
            raise ValueError(
                "sample_weight had non-integer weights in fit, but a certificate depends on the number of "
                "independent samples. Fit with integer weights (sample counts) or without weights."
            )
        outcomes = GroupedOutcomes(*self._fitted_outcomes)
        check_independent(outcomes, method)
        if not self._monotone and method != "fitted":
            raise ValueError(
                f"The map of {type(self).__name__} need not be monotone, in which case method={method!r} has "
                "no certificate. Use method='fitted', or CertifiedCalibrator, which certifies with samples "
                "that the fit did not use."
            )
        if method == "fitted":
            bound = fitted_bound(outcomes, confidence, n_resamples, generator, monotone=self._monotone)
        else:
            bound = self.training_cutoff_error_ + cutoff_bound(
                self.training_size_, confidence, method, base_rate=self.training_event_rate_, refitted=True
            )
        return CutoffCertificate(min(1.0, bound), confidence, method, self.training_size_)


def certify(
    calibrator: Any, grouped: GroupedOutcomes, weight: Array | None, mapped: Array | None = None
) -> None:
    """Store the quantities that the certificate of a fitted calibrator depends on.

    ``mapped`` is the map of the scores, where the fit has what it takes.
    """
    calibrator._weighted = weight is not None and bool((weight != 1.0).any())
    calibrator.training_size_ = grouped.total if weight is None else effective_size(weight)
    calibrator.training_event_rate_ = float(grouped.positives.sum()) / grouped.total
    calibrator._fitted_outcomes = None
    if calibrator._monotone:
        prob = grouped.prob
        mapped = calibrator._mapped(prob) if mapped is None else calibrator._probabilities(prob, mapped)
        fitted = outcomes_by_value(grouped, mapped)
        calibrator.training_cutoff_error_ = cutoff_of_groups(fitted)
        if whole_numbers(weight):
            found = pooled_outcomes(fitted)
            calibrator._fitted_outcomes = found.prob, found.weight, found.positives


def outcomes_by_value(grouped: GroupedOutcomes, mapped: Array) -> GroupedOutcomes:
    """Return outcomes by the value of a monotone map, in increasing order."""
    rows = slice(None, None, -1 if mapped[0] > mapped[-1] else 1)
    clusters = grouped.clusters if rows.step == 1 else None
    fitted = GroupedOutcomes(mapped[rows], grouped.weight[rows], grouped.positives[rows], clusters)
    # scores with the same value form one group, which no interval of values can separate
    starts = group_starts(fitted.prob)
    return fitted.pooled(starts) if starts.shape[0] < mapped.shape[0] else fitted


def pooled_outcomes(fitted: GroupedOutcomes) -> GroupedOutcomes:
    """Return at most 500 groups, of about equal weight."""
    if fitted.prob.shape[0] <= _MOST_VALUES:
        return fitted
    return fitted.pooled(bin_starts(fitted, _MOST_VALUES, "quantile"))


def check_independent(outcomes: GroupedOutcomes, method: str) -> None:
    """Raise if a method other than "fitted" is requested for dependent samples."""
    if method != "fitted" and outcomes.clusters is not None:
        raise ValueError(
            f"method={method!r} assumes independent samples, but fit was called with clusters. Use "
            "method='fitted'."
        )


def fitted_bound(
    outcomes: GroupedOutcomes,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
    *,
    monotone: bool = True,
) -> float:
    """Return an upper confidence bound of the cutoff calibration error of a map fitted to the outcomes.

    It is a quantile, plus 1 / n for intervals that end between two values of the sample. If the map may be
    non-monotone, its values are those of bins of the score that do not depend on the outcomes. The bound
    holds for every order of the bins: the range of the cumulative sums is replaced by its maximum over all
    orders, the sum of the positive or of the negative steps.
    """
    ranges = [
        walk_ranges(steps)
        if monotone
        else np.maximum(np.maximum(steps, 0.0).sum(axis=0), -np.minimum(steps, 0.0).sum(axis=0))
        for steps in fitted_steps(outcomes, n_resamples, generator, monotone=monotone)
    ]
    return (float(np.quantile(np.concatenate(ranges), confidence, method="weibull")) + 1.0) / outcomes.total


def fitted_steps(
    outcomes: GroupedOutcomes, n_resamples: int, generator: np.random.Generator, *, monotone: bool = True
) -> Iterator[Array]:
    """Yield simulated steps (groups, r) of n times the cumulative residuals of a fitted map on new data.

    With k samples and e events at the value f, N samples in its isotonic block, K blocks, and
    p = (N e / k + 1/2) / (N + 1), a step is e - k f + c (e* - k* f - k (p - f)), where c^2 is n / (n - K),
    times 8 / m if there are only m < 8 samples of a class.
    """
    weight, total, clusters = outcomes.weight, outcomes.total, outcomes.clusters
    edges = np.arange(weight.shape[0] + 1)
    if monotone:
        edges = isotonic_regression(outcomes.positives / weight, weights=weight).blocks
    size, starts, times = np.add.reduceat(weight, edges[:-1]), edges[:-1].astype(np.intp), np.diff(edges)
    frequency, used = outcomes.positives / weight, edges.shape[0] - 1.0
    if clusters is not None:
        # predictions stay, so that single samples tell nothing of the spread of outcomes
        frequency = np.repeat(np.add.reduceat(outcomes.positives, starts) / size, times)
        # sum of N_bc^2 / N_b; for clusters of single samples it is the number of blocks
        cells = clusters.pooled(starts, weight.shape[0])
        used = float(cells.count**2 @ (1.0 / size)[cells.group])
    block = np.repeat(size, times)
    rate = (block * frequency + 0.5) / (block + 1.0)
    events = float(outcomes.positives.sum())
    # half a sample, that of the prior, if a certification part has none of a class
    rarer = max(min(events, total - events), 0.5)
    spread = np.sqrt(total / max(total - used, 1.0) * max(_FEWEST_OF_CLASS / rarer, 1.0))
    center = weight * (rate - outcomes.prob)
    for drawn, positives in draw_outcomes(outcomes, n_resamples, generator, truth=rate):
        steps = residuals(outcomes.prob, drawn, positives)
        steps -= center[:, np.newaxis]
        steps *= spread
        steps += outcomes.residual[:, np.newaxis]
        yield steps
