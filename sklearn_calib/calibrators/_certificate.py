"""Certificates: bounds of the cutoff calibration error of calibrators on new data."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._atomic import AtomicFit
from sklearn_calib._core._binning import bin_starts
from sklearn_calib._core._bounds import MARGIN_METHODS, cutoff_bound, effective_size, whole_numbers
from sklearn_calib._core._clusters import Clusters
from sklearn_calib._core._grouping import CHUNK, GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._core._null import draw_outcomes
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    Outcomes,
    as_double,
    check_clusters,
    check_fraction,
    check_frequency_weights,
    check_generator,
    check_option,
    check_randomness,
    check_resamples,
    check_size,
    is_summary,
)
from sklearn_calib.metrics._cutoff import bootstrap_margin, walk_ranges
from sklearn_calib.metrics._metric_kernel import residuals

#: Methods of a certificate: for the map that was fitted, or for all monotone maps.
CERTIFICATE_METHODS = ("fitted", *MARGIN_METHODS)
#: Those of them that use random samples.
RESAMPLING_METHODS = ("fitted", "bootstrap")

_TOLERANCES = ("sharp", "paper")
# With fewer samples the bootstrap of the fitted map has too low coverage.
_FEWEST_SAMPLES, _FEWEST_OF_CLASS = 100, 10
# More fitted values than the first are pooled; more than the second before anything else is computed.
_MOST_VALUES, _MOST_KEPT = 500, 2000
# The tolerance of the paper is its margin at this confidence.
_PAPER_CONFIDENCE = 0.95


class CutoffCertificate(float):
    """Upper confidence bound of the cutoff calibration error of a calibrator on new data.

    It is a float; ``print`` shows how it was computed.

    Parameters
    ----------
    value : float
        The bound; values above 1 are clipped to 1 and are not informative.
    confidence : float
        Probability, over the samples, with which the bound holds.
    method : str
        The method used.
    n_samples : float
        Number of samples from which the bound was computed.
    note : str, default=""
        Why the method used is not the requested one, or that the bound is for probabilities before
        normalisation to sum 1.

    Attributes
    ----------
    confidence, method, n_samples, note
        As passed.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import IsotonicCalibrator
    >>> p = (np.arange(2000) + 0.5) / 2000
    >>> y = np.random.default_rng(0).random(2000) < p
    >>> certificate = IsotonicCalibrator().fit(p, y).cutoff_certificate(random_state=0)
    >>> certificate < 0.03, certificate.method
    (True, 'fitted')
    >>> few = IsotonicCalibrator().fit(p[::40], y[::40]).cutoff_certificate(random_state=0)
    >>> few.method
    'asymptotic'
    >>> few.note
    "'fitted' needs 100 samples and 10 of each class, but there are 50 and 24 of the rarer class"
    """

    confidence: float
    method: str
    n_samples: float
    note: str

    def __new__(
        cls, value: float, *, confidence: float, method: str, n_samples: float, note: str = ""
    ) -> CutoffCertificate:
        self = super().__new__(cls, min(1.0, value))
        self.confidence, self.method, self.n_samples, self.note = confidence, method, n_samples, note
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:
        return (float(self),), dict(self.__dict__)

    def __str__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return (
            f"cutoff calibration error on new data at most {float(self):.4f} with {100 * self.confidence:g}% "
            f"confidence (method={self.method!r}, n = {self.n_samples:g}{note})"
        )


@shared_docs
class CutoffCertificateMixin(AtomicFit):
    """Mixin of calibrators whose map has a certificate.

    The fit calls :func:`certify` at its end.
    """

    classes_: NDArray[Any]
    training_cutoff_error_: float
    training_event_rate_: float
    training_size_: float
    #: Outcomes in the order of the scores; None if the map may be non-monotone.
    _training_counts: tuple[NDArray[Any], NDArray[Any]] | None
    #: Fitted values, their weights, positives, and clusters if there are any; None if weights are not counts.
    _fitted_outcomes: tuple[Array, Array, Array] | tuple[Array, Array, Array, Clusters | None] | None
    _monotone = True

    def fit(
        self,
        X: Outcomes,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Fit the map from scores to probabilities.

        Parameters
        ----------
        %(fitted_scores)s
        sample_weight : array-like of shape (n,) or None, default=None
            Non-negative weights; a weight of k is equivalent to k repetitions of the sample, with
            ``clusters`` in the same cluster. Samples of weight zero are ignored, except that their labels
            are included in ``classes_``.
        %(fitted_classes)s
        clusters : array-like of shape (n,) or None, default=None
            Label of the cluster (patient, customer, day) of each sample, within which samples need not be
            independent. The map is the same; :meth:`cutoff_certificate` allows for the dependence. For
            binary problems.

        Returns
        -------
        self
            The fitted calibrator.

        Raises
        ------
        ValueError
            If an argument has the wrong shape, NaN or infinite values, values outside [0, 1] if probabilities
            are required, or negative weights; if fewer than two classes have a sample of positive weight; or
            if there are fewer than four clusters.
        TypeError
            If ``X`` is sparse, or a parameter is of the wrong type.
        """
        fitted: Any = super()
        fitted.fit(X, y, sample_weight, classes=classes)
        if clusters is not None:
            self._keep_clusters(X, y, sample_weight, classes, clusters)
        return self

    def _keep_clusters(self, X: Any, y: Any, sample_weight: Any, classes: Any, clusters: ArrayLike) -> None:
        """Record the clusters of the fitted values."""
        if is_summary(X):
            raise ValueError(
                f"clusters need the outcomes of each sample, which a {type(X).__name__} does not keep. Pass "
                "arrays."
            )
        if self.classes_.shape[0] > 2:
            raise ValueError(
                f"clusters are for certificates of binary problems, but y has {self.classes_.shape[0]} "
                "classes. Leave them out."
            )
        calibrator: Any = self
        scores, codes, weight, _ = calibrator._read(X, y, sample_weight, classes)
        if weight is not None:
            check_frequency_weights(weight)
        own = check_clusters(clusters, scores.shape[0], weight)
        if own is not None:
            if weight is not None:
                keep = weight > 0
                scores, codes, weight = scores[keep], codes[keep], weight[keep]
            grouped = group_outcomes(codes, calibrator._probabilities(scores), weight, own)
            fitted = outcomes_by_value(grouped, grouped.prob, _MOST_KEPT)
            self._fitted_outcomes = fitted.prob, fitted.weight, fitted.positives, fitted.clusters

    def cutoff_certificate(
        self,
        confidence: float = 0.95,
        method: str = "fitted",
        *,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> CutoffCertificate:
        r"""Return an upper confidence bound of the cutoff calibration error of the fitted map on new data.

        "fitted" bounds the error of this map. It is a quantile of the range of the cumulative sums

        .. math:: \frac1n \Bigl[\sum_{f_j \le t} (e_j - k_j f_j) + \sqrt{\tfrac{n}{n - K}} \sum_{f_j \le t}
            \bigl(e^*_j - k^*_j f_j - k_j (\tilde p_j - f_j)\bigr)\Bigr]

        plus :math:`1/n`. The map has the value :math:`f_j` at :math:`k_j` of the :math:`n` training samples,
        of which :math:`e_j` are events. These values lie in the :math:`K` blocks of the isotonic regression
        of the outcomes on :math:`f`, and with :math:`N` samples in the block, :math:`\tilde p_j = (N e_j /
        k_j + 1/2) / (N + 1)`. The counts :math:`k^*` are sampled from the multinomial distribution with
        probabilities :math:`k_j / n`, and :math:`e^*_j` from the binomial distribution of :math:`k^*_j`
        trials with probability :math:`\tilde p_j`. The bound is asymptotically valid. With fewer than 100
        samples, or 10 of either class, the method is "asymptotic", which the result states.

        If ``fit`` was called with clusters, "fitted" simulates :math:`e^*_j` with the estimated dependence
        within clusters and the event rate :math:`\tilde p` of the block, and :math:`k^*_j = k_j`. :math:`K`
        is replaced by :math:`\sum_{b,c} N_{bc}^2 / N_b`, where :math:`N_{bc}` of the :math:`N_b` samples of
        block :math:`b` belong to cluster :math:`c`, because the residuals of a cluster are smaller where it
        is a large part of a block. The other methods assume independent samples and raise an error.

        The other methods bound the error of all monotone maps simultaneously: they are
        ``training_cutoff_error_`` plus a margin that is valid however the map was chosen. With :math:`d` = 1
        - confidence and the event rate :math:`\pi`, the margin is

        - "asymptotic": :math:`q_{1-d}(\pi)/\sqrt n`, where :math:`q` is the quantile of the range of a
          Brownian bridge on :math:`[0, \pi]` plus its range on :math:`[\pi, 1]`; 2.86 at most for 95%;
        - "dkw": :math:`4\sqrt{\log(4/d)/(2n)}`, valid for every :math:`n`; 5.92 over :math:`\sqrt n` for 95%;
        - "bootstrap": the bootstrap quantile of the largest deviation of residual sums over all monotone maps
          and intervals; tighter, in particular with tied scores;
        - "paper": :math:`(30 + 2\sqrt{2\log(2/d)})/\sqrt n`, Proposition 5.1 of [1]_; 35.4 for 95%.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability, over the training samples, with which the bound holds.
        method : {"fitted", "asymptotic", "dkw", "paper", "bootstrap"}, default="fitted"
            Method of the bound; see above.
        n_resamples : int, default=999
            Number of bootstrap samples of "fitted" and "bootstrap"; at least 1 / (1 - ``confidence``) - 1.
        random_state : int, Generator, RandomState or None, default=None
            Source of the bootstrap samples; an integer makes the certificate reproducible.

        Returns
        -------
        CutoffCertificate
            The bound, a float in [0, 1], with the method used.

        Raises
        ------
        ValueError
            If a parameter is out of range; if the fit used non-integer weights, because a certificate depends
            on the number of independent samples; for more than two classes, because the cutoff calibration
            error is defined for binary forecasts; if a map that may be non-monotone has too few samples for
            "fitted", or another method is requested for it; or, with clusters, if there are too few samples
            for "fitted", or another method is requested.
        TypeError
            If ``confidence`` is not a number.

        Notes
        -----
        Assumes that the samples are independent and have the same distribution as the new data, and that the
        scores come from a model that was fitted to other samples. Integer weights are numbers of independent
        samples; do not use them to rebalance classes.

        More than 500 fitted values are pooled with their neighbours into 500 bins of about equal weight.
        This changes the bounded error by at most the largest probability of a bin times the largest
        difference between event rate and forecast within a bin; see docs/certificates.md.

        References
        ----------
        .. [1] Rossellini, Soloff, Barber, Ren, Willett (2025). Can a calibration metric be both testable and
           actionable? COLT. arXiv:2502.19851.
        """
        confidence = check_fraction(confidence, "confidence")
        method = check_option(method, "method", CERTIFICATE_METHODS)
        check_size(n_resamples, "n_resamples")
        check_randomness(random_state)
        check_is_fitted(self)
        if self.classes_.shape[0] > 2:
            raise ValueError(
                f"A certificate needs a binary problem, but y had {self.classes_.shape[0]} classes in fit. "
                "Calibrate one class against the rest to certify its probability."
            )
        if self._fitted_outcomes is None:
            raise ValueError(
                "sample_weight had non-integer weights in fit, but a certificate depends on the number of "
                "independent samples. Fit with integer weights (sample counts) or without weights."
            )
        outcomes = GroupedOutcomes(*self._fitted_outcomes)
        refuse_dependent(outcomes, method)
        n_resamples = check_resamples(n_resamples, confidence) if method in RESAMPLING_METHODS else 0
        note = too_few(outcomes) if method == "fitted" else ""
        if note and outcomes.clusters is not None:
            raise ValueError(
                f"There is no certificate for so few dependent samples: {note}. Pass more samples."
            )
        monotone = self._training_counts is not None
        if not monotone and (note or method != "fitted"):
            raise ValueError(
                f"The map of {type(self).__name__} need not be monotone, in which case "
                + (f"there is no certificate: {note}." if note else f"method={method!r} has no certificate.")
                + " Use CertifiedCalibrator, which certifies with samples that the fit did not use"
                + (", or pass more samples." if note else ", or method='fitted'.")
            )
        generator = check_generator(random_state)
        if note:
            method = "asymptotic"
        if method == "fitted":
            if monotone:
                outcomes = outcomes_by_value(outcomes, outcomes.prob)
            bound = fitted_bound(outcomes, confidence, n_resamples, generator, monotone=monotone)
        elif method == "bootstrap":
            weight, positives = (count.astype(np.float64) for count in self._training_counts or ())
            # ranks in place of scores
            rows = GroupedOutcomes(np.arange(weight.shape[0], dtype=np.float64), weight, positives)
            margin = bootstrap_margin(rows, confidence, n_resamples, generator, refitted=True)
            bound = self.training_cutoff_error_ + margin
        else:
            bound = self.training_cutoff_error_ + cutoff_bound(
                self.training_size_, confidence, method, base_rate=self.training_event_rate_, refitted=True
            )
        return CutoffCertificate(
            bound, confidence=confidence, method=method, n_samples=self.training_size_, note=note
        )


def certify(calibrator: Any, grouped: GroupedOutcomes, weight: Array | None) -> None:
    """Store the quantities that the certificate of a fitted monotone calibrator depends on."""
    record_sample(calibrator, grouped, weight)
    mapped = calibrator._probabilities(grouped.prob)
    calibrator.training_cutoff_error_ = cutoff_error_of_map(grouped, mapped)
    calibrator._training_counts = calibrator._fitted_outcomes = None
    if whole_numbers(weight):
        calibrator._training_counts = _in_few_bytes(grouped.weight), _in_few_bytes(grouped.positives)
        fitted = outcomes_by_value(grouped, mapped, _MOST_KEPT)
        calibrator._fitted_outcomes = fitted.prob, fitted.weight, fitted.positives


def outcomes_by_value(grouped: GroupedOutcomes, mapped: Array, most: int = _MOST_VALUES) -> GroupedOutcomes:
    """Return outcomes by the value of a monotone map, in increasing order; more than ``most`` are pooled."""
    rows = slice(None, None, -1 if mapped[0] > mapped[-1] else 1)
    clusters = grouped.clusters if rows.step == 1 else None
    fitted = GroupedOutcomes(mapped[rows], grouped.weight[rows], grouped.positives[rows], clusters)
    starts = group_starts(fitted.prob)
    if starts.shape[0] < mapped.shape[0]:
        fitted = fitted.pooled(starts)
    size = starts.shape[0]
    if size <= most:
        return fitted
    if fitted.total == size:
        # a faster equivalent of the general case for distinct scores
        bins = np.arange(_MOST_VALUES)
        return fitted.pooled(np.ceil(bins * (size / _MOST_VALUES) - 0.5).astype(np.intp))
    return fitted.pooled(bin_starts(fitted, _MOST_VALUES, "quantile"))


def refuse_dependent(outcomes: GroupedOutcomes, method: str) -> None:
    """Raise if samples are dependent, and the method assumes that they are independent."""
    if outcomes.clusters is not None and method != "fitted":
        raise ValueError(
            f"method={method!r} assumes independent samples, but fit was called with clusters. Use "
            "method='fitted'."
        )


def too_few(outcomes: GroupedOutcomes) -> str:
    """Return why there are too few samples for the method "fitted", or nothing if there are enough."""
    total, positives = outcomes.total, float(outcomes.positives.sum())
    rarer = min(positives, total - positives)
    if total >= _FEWEST_SAMPLES and rarer >= _FEWEST_OF_CLASS:
        return ""
    return (
        f"'fitted' needs {_FEWEST_SAMPLES} samples and {_FEWEST_OF_CLASS} of each class, but there are "
        f"{total:g} and {rarer:g} of the rarer class"
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

    Parameters
    ----------
    outcomes : GroupedOutcomes
        Outcomes with integer weights, by the value of the map.
    confidence : float
        Level of the bound.
    n_resamples : int
        Number of bootstrap samples, at least 1 / (1 - ``confidence``) - 1.
    generator : Generator
        Source of the bootstrap samples.
    monotone : bool
        Whether the map is monotone in the score. Otherwise its values are those of bins of the score that do
        not depend on the outcomes, and the bound holds for every order of the bins: the range of the
        cumulative sums is replaced by its maximum over all orders, the sum of the positive or of the negative
        steps.

    Returns
    -------
    float
        The quantile plus 1 / n, for intervals that end between two values of the sample.
    """
    ranges = [
        walk_ranges(steps) if monotone else largest_sums(steps)
        for steps in fitted_steps(outcomes, n_resamples, generator, monotone=monotone)
    ]
    total = outcomes.total
    return (float(np.quantile(np.concatenate(ranges), confidence, method="weibull")) + 1.0) / total


def fitted_steps(
    outcomes: GroupedOutcomes, n_resamples: int, generator: np.random.Generator, *, monotone: bool = True
) -> Iterator[Array]:
    """Yield simulated steps (groups, r) of n times the cumulative residuals of a fitted map on new data."""
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
    spread = np.sqrt(total / max(total - used, 1.0))
    centre = weight * (rate - outcomes.prob)
    for drawn, positives in draw_outcomes(outcomes, n_resamples, generator, truth=rate):
        steps = residuals(outcomes.prob, drawn, positives)
        steps -= centre[:, np.newaxis]
        steps *= spread
        steps += outcomes.residual[:, np.newaxis]
        yield steps


def largest_sums(steps: Array) -> Array:
    """Return the largest absolute sum over a subset of the steps, in each column."""
    return np.maximum(np.maximum(steps, 0.0).sum(axis=0), -np.minimum(steps, 0.0).sum(axis=0))


def record_sample(calibrator: Any, grouped: GroupedOutcomes, weight: Array | None) -> None:
    """Set the number of training samples and their event rate."""
    calibrator.training_size_ = grouped.total if weight is None else effective_size(weight)
    calibrator.training_event_rate_ = float(grouped.positives.sum()) / grouped.total


def _in_few_bytes(count: Array) -> NDArray[np.unsignedinteger[Any]]:
    """Return whole numbers in the smallest integer type that holds them, to keep pickles small."""
    return count.astype(np.min_scalar_type(int(count.max())))


def cutoff_error_of_map(grouped: GroupedOutcomes, mapped: Array) -> float:
    """Return the plug-in cutoff calibration error of a monotone map with values ``mapped`` on the groups.

    Scores with the same value form one group of the mapped forecast, which no interval can separate.
    """
    high = low = walk = 0.0
    n = mapped.shape[0]
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
        part = mapped[rows]
        steps = grouped.weight[rows] * part
        np.subtract(grouped.positives[rows], steps, out=steps)
        steps[0] += walk
        np.cumsum(steps, out=steps)
        walk = float(steps[-1])
        # the cumulative sum is not defined inside a tie
        last = np.append(part[1:] != part[:-1], start + CHUNK >= n or mapped[start + CHUNK] != part[-1])
        seen = steps if last.all() else steps[last]
        if seen.shape[0]:
            high, low = max(high, float(seen.max())), min(low, float(seen.min()))
    return (high - low) / grouped.total


def check_tolerance(tolerance: Any) -> None:
    """Raise unless ``tolerance`` is a valid name, or a finite non-negative number."""
    if isinstance(tolerance, str):
        check_option(tolerance, "tolerance", _TOLERANCES)
    elif isinstance(tolerance, bool) or not isinstance(tolerance, Real):
        raise TypeError(f"tolerance must be 'sharp', 'paper' or a number, got {tolerance!r}.")
    elif not 0 <= as_double(tolerance) < float("inf"):
        raise ValueError(f"tolerance must not be negative and must be finite, got {tolerance!r}.")


def resolve_tolerance(tolerance: str | float, size: float, confidence: float, event_rate: float) -> float:
    """Return the tolerance of the plug-in cutoff calibration error on ``size`` samples."""
    if tolerance == "paper":
        return cutoff_bound(size, _PAPER_CONFIDENCE, "paper")
    if tolerance == "sharp":
        return cutoff_bound(size, confidence, base_rate=event_rate)
    return float(tolerance)
