"""Certificates: bounds of the cutoff calibration error of monotone calibrators on new data."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._core._bounds import MARGIN_METHODS, cutoff_bound, effective_size, whole_numbers
from sklearn_calib._core._grouping import CHUNK, GroupedOutcomes
from sklearn_calib._validation import (
    as_double,
    check_fraction,
    check_generator,
    check_option,
    check_randomness,
    check_resamples,
    check_size,
)
from sklearn_calib.metrics._cutoff import bootstrap_margin

__all__ = [
    "CutoffCertificateMixin",
    "certify",
    "check_tolerance",
    "cutoff_error_of_map",
    "record_sample",
    "resolve_tolerance",
]

Array = NDArray[np.float64]

_TOLERANCES = ("sharp", "paper")
# The tolerance of the paper is its margin at this confidence.
_PAPER_CONFIDENCE = 0.95


class CutoffCertificateMixin:
    """Mixin of calibrators with a monotone map: they have a certificate.

    It takes no part in the fit, which calls :func:`certify` at its end.
    """

    classes_: NDArray[Any]
    training_cutoff_error_: float
    training_event_rate_: float
    training_size_: float
    _training_counts: tuple[NDArray[Any], NDArray[Any]] | None

    def cutoff_certificate(
        self,
        confidence: float = 0.95,
        method: str = "asymptotic",
        *,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> float:
        r"""Return an upper confidence bound of the cutoff calibration error of the fitted map on new data.

        It is ``training_cutoff_error_`` plus a margin that holds for all monotone maps of the score at once
        and therefore also for this one, although it was fitted on the same rows. With :math:`d` = 1 -
        confidence, :math:`n` rows, and :math:`\pi` their event rate, the margin is

        - "asymptotic": :math:`q_{1-d}(\pi)/\sqrt n`, where :math:`q` is the quantile of the range of a
          Brownian bridge on :math:`[0, \pi]` plus its range on :math:`[\pi, 1]`; 2.86 at most for 95 %;
        - "dkw": :math:`4\sqrt{\log(4/d)/(2n)}`, valid for every :math:`n`; 5.92 over :math:`\sqrt n` for 95
          %;
        - "bootstrap": the quantile of the largest disagreement, over all monotone maps and intervals, of the
          rows with bootstrap samples of them; tighter, above all where scores are tied;
        - "paper": :math:`(30 + 2\sqrt{2\log(2/d)})/\sqrt n`, Proposition 5.1 of [1]_; 35.4 for 95 %.

        The result is at most 1, where it says nothing.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability, over the draw of the training rows, with which the bound holds.
        method : {"asymptotic", "dkw", "paper", "bootstrap"}, default="asymptotic"
            The margin.
        n_resamples : int, default=999
            Bootstrap samples; at least 1 / (1 - ``confidence``) - 1.
        random_state : int, Generator, RandomState or None, default=None
            Source of the bootstrap samples; an integer makes the certificate reproducible.

        Returns
        -------
        float
            The bound, in [0, 1].

        Raises
        ------
        ValueError
            If a parameter is out of range; if the fit used weights that are not integers, as a certificate
            counts independent samples; or for more than two classes, as the cutoff calibration error is one
            of binary forecasts.
        TypeError
            If ``confidence`` is not a number.

        Notes
        -----
        Assumes that the rows are independent draws of the same law as the new data, and that the scores come
        from a model that was fitted on other rows. Integer weights stand for as many independent rows; do not
        use them for copies made to rebalance classes.

        References
        ----------
        .. [1] Rossellini, Soloff, Barber, Ren, Willett (2025). Can a calibration metric be both testable and
           actionable? COLT. arXiv:2502.19851.
        """
        confidence = check_fraction(confidence, "confidence")
        method = check_option(method, "method", MARGIN_METHODS)
        check_size(n_resamples, "n_resamples")
        check_randomness(random_state)
        check_is_fitted(self)
        if self.classes_.shape[0] > 2:
            raise ValueError(
                f"A certificate exists for two classes, but y of fit had {self.classes_.shape[0]}. Calibrate "
                "one class against the rest to certify its probability."
            )
        if self._training_counts is None:
            raise ValueError(
                "sample_weight of fit had weights that are not integers, and a certificate needs to know the "
                "number of independent rows. Fit with integer weights (row counts) or without weights."
            )
        if method == "bootstrap":
            generator = check_generator(random_state)
            n_resamples = check_resamples(n_resamples, confidence)
            weight, positives = (count.astype(np.float64) for count in self._training_counts)
            # ranks in the place of scores
            rows = GroupedOutcomes(np.arange(weight.shape[0], dtype=np.float64), weight, positives)
            margin = bootstrap_margin(rows, confidence, n_resamples, generator, refitted=True)
        else:
            margin = cutoff_bound(
                self.training_size_, confidence, method, base_rate=self.training_event_rate_, refitted=True
            )
        return min(1.0, self.training_cutoff_error_ + margin)


def certify(calibrator: Any, grouped: GroupedOutcomes, weight: Array | None) -> None:
    """Record at a monotone calibrator, once its map is fitted, what its certificate depends on."""
    record_sample(calibrator, grouped, weight)
    mapped = calibrator._probabilities(grouped.prob)
    calibrator.training_cutoff_error_ = cutoff_error_of_map(grouped, mapped)
    calibrator._training_counts = None
    if whole_numbers(weight):
        calibrator._training_counts = _in_few_bytes(grouped.weight), _in_few_bytes(grouped.positives)


def record_sample(calibrator: Any, grouped: GroupedOutcomes, weight: Array | None) -> None:
    """Set the number of training samples and their event rate."""
    calibrator.training_size_ = grouped.total if weight is None else effective_size(weight)
    calibrator.training_event_rate_ = float(grouped.positives.sum()) / grouped.total


def _in_few_bytes(count: Array) -> NDArray[np.unsignedinteger[Any]]:
    """Return whole numbers in the smallest type that holds them, as fitted objects are sent around."""
    return count.astype(np.min_scalar_type(int(count.max())))


def cutoff_error_of_map(grouped: GroupedOutcomes, mapped: Array) -> float:
    """Return the plug-in cutoff calibration error of a monotone map with values ``mapped`` on the groups.

    Scores with the same value form one group of the mapped forecast, so that no interval can part them.
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
        # the walk has no value inside a tie
        last = np.append(part[1:] != part[:-1], start + CHUNK >= n or mapped[start + CHUNK] != part[-1])
        seen = steps if last.all() else steps[last]
        if seen.shape[0]:
            high, low = max(high, float(seen.max())), min(low, float(seen.min()))
    return (high - low) / grouped.total


def check_tolerance(tolerance: Any) -> None:
    """Raise unless ``tolerance`` is a name of one, or a number that is finite and not negative."""
    if isinstance(tolerance, str):
        check_option(tolerance, "tolerance", _TOLERANCES)
    elif isinstance(tolerance, bool) or not isinstance(tolerance, Real):
        raise TypeError(f"tolerance must be 'sharp', 'paper' or a number, got {tolerance!r}.")
    elif not 0 <= as_double(tolerance) < float("inf"):
        raise ValueError(f"tolerance must not be negative and must be finite, got {tolerance!r}.")


def resolve_tolerance(tolerance: str | float, size: float, confidence: float, event_rate: float) -> float:
    """Return what a plug-in cutoff calibration error on ``size`` rows is compared with."""
    if tolerance == "paper":
        return cutoff_bound(size, _PAPER_CONFIDENCE, "paper")
    if tolerance == "sharp":
        return cutoff_bound(size, confidence, base_rate=event_rate)
    return float(tolerance)
