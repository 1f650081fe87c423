"""Modified Platt scaling: keep the logistic curve only where the data do not refute it."""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import group_scores
from sklearn_calib._validation import check_fraction, check_option
from sklearn_calib.calibrators._base import BaseCalibrator, check_link, inside
from sklearn_calib.calibrators._certificate import (
    CutoffCertificateMixin,
    certify,
    check_tolerance,
    cutoff_error_of_map,
    record_sample,
    resolve_tolerance,
)
from sklearn_calib.calibrators._isotonic import interpolate_blocks, isotonic_thresholds
from sklearn_calib.calibrators._platt import fit_linked, logistic_curve

__all__ = ["ModifiedPlattCalibrator"]

Array = NDArray[np.float64]

_FALLBACKS = ("mean", "isotonic")


class ModifiedPlattCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Platt scaling with a fallback if its cutoff calibration error is significantly too large.

    A logistic curve may miss the truth however many samples there are: with scores uniform on 0, 1/4, 1/2, 1
    and event probabilities 1, 0, 0, 1 Platt scaling keeps an error of .243. The modification (Appendix D.2 of
    [1]_) fits Platt scaling, and keeps it if its plug-in cutoff calibration error on the training samples is
    within a tolerance of order :math:`1/\sqrt n`; otherwise it returns another map that has no such error. So
    the error on new data goes to zero as :math:`n` grows, whatever the truth.

    Parameters
    ----------
    link : {"logit", "identity"}, default="logit"
        What the scores are, as for :class:`PlattCalibrator`.
    tolerance : {"sharp", "paper"} or float, default="sharp"
        "sharp": the "asymptotic" margin of the certificate at ``confidence``; a curve that is right in the
        population is rarely rejected. "paper": :math:`(20 + \sqrt{2 \log 20})/\sqrt n`, which cannot reject
        for :math:`n \le 500`. A number is taken as it is.
    fallback : {"mean", "isotonic"}, default="mean"
        The map used instead: the constant event rate, as in the paper, or isotonic regression, which keeps
        the ranking.
    confidence : float, default=0.95
        Confidence of the tolerance "sharp"; otherwise not used.

    Attributes
    ----------
    fallback_used_ : bool
        Whether Platt scaling was rejected.
    platt_cutoff_error_ : float
        Cutoff calibration error of Platt scaling on the training samples.
    tolerance_ : float
        The tolerance it was compared with.
    slope_, intercept_ : float
        The logistic curve, whether or not it is in use.
    training_cutoff_error_ : float
        Cutoff calibration error, on the training samples, of the map in use.
    %(trained_fit)s

    See Also
    --------
    PlattCalibrator : the logistic curve alone.
    IsotonicCalibrator : needs no rejection.

    Notes
    -----
    O(n log n). Both maps are monotone, so that the certificate holds for the one in use although the choice
    was made on the same samples.

    References
    ----------
    .. [1] Rossellini, Soloff, Barber, Ren, Willett (2025). Can a calibration metric be both testable and
       actionable? COLT. arXiv:2502.19851.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import ModifiedPlattCalibrator
    >>> scores, outcomes = np.tile([0.0, 0.25, 0.5, 1.0], 100), np.tile([1, 0, 0, 1], 100)
    >>> calibrator = ModifiedPlattCalibrator(link="identity").fit(scores, outcomes)
    >>> calibrator.fallback_used_, round(calibrator.platt_cutoff_error_, 2), round(calibrator.tolerance_, 2)
    (True, 0.24, 0.14)
    >>> calibrator.transform([0.1, 0.9])
    array([0.5, 0.5])
    """

    _multiclass = False
    fallback_used_: bool
    platt_cutoff_error_: float
    tolerance_: float
    slope_: float
    intercept_: float

    def __init__(
        self,
        *,
        link: str = "logit",
        tolerance: str | float = "sharp",
        fallback: str = "mean",
        confidence: float = 0.95,
    ) -> None:
        self.link = link
        self.tolerance = tolerance
        self.fallback = fallback
        self.confidence = confidence

    def _check_parameters(self) -> None:
        check_option(self.fallback, "fallback", _FALLBACKS)
        check_fraction(self.confidence, "confidence")
        check_tolerance(self.tolerance)

    def _score_kind(self) -> str:
        return check_link(self.link)

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        grouped = group_scores(codes, scores, weight)
        record_sample(self, grouped, weight)
        self.slope_, self.intercept_ = fit_linked(grouped, self.link)
        curve = inside(logistic_curve(grouped.prob, self.link, self.slope_, self.intercept_))
        self.platt_cutoff_error_ = cutoff_error_of_map(grouped, curve)
        self.tolerance_ = resolve_tolerance(
            self.tolerance, self.training_size_, self.confidence, self.training_event_rate_
        )
        self.fallback_used_ = self.platt_cutoff_error_ > self.tolerance_
        if self.fallback == "isotonic":
            self._thresholds = isotonic_thresholds(grouped)
        else:
            # a single threshold makes the constant map
            self._thresholds = grouped.prob[:1], np.array([self.training_event_rate_])
        certify(self, grouped, weight)

    def _may_be_certain(self) -> bool:
        return self.fallback_used_ and self.fallback == "isotonic"

    def _map_scores(self, scores: Array) -> Array:
        if self.fallback_used_:
            return interpolate_blocks(*self._thresholds, scores)
        return logistic_curve(scores, self.link, self.slope_, self.intercept_)
