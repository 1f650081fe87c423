"""Modified Platt scaling: Platt scaling with a fallback if its cutoff calibration error is too large."""

from typing import Any

import numpy as np

from sklearn_calib import _validation
from sklearn_calib._core._bounds import cutoff_bound
from sklearn_calib._core._grouping import group_scores
from sklearn_calib._core._maps import Node, Step
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._certificate import certify
from sklearn_calib.calibrators._platt import PlattCalibrator


class ModifiedPlattCalibrator(PlattCalibrator):
    r"""Platt scaling with a fallback if its cutoff calibration error is significantly too large.

    A misspecified logistic curve has a calibration error that does not vanish with the sample size: with
    scores uniform on 0, 1/4, 1/2, 1 and event probabilities 1, 0, 0, 1 the error of Platt scaling converges
    to .243. The modification (Appendix D.2 of [1]_) uses Platt scaling if its plug-in cutoff calibration
    error on the training samples is within a tolerance of order :math:`1/\sqrt n`, and otherwise the constant
    event rate. The error on new data therefore converges to 0 for every distribution.

    Parameters
    ----------
    %(score_link)s
    tolerance : {"sharp", "paper"} or float, default="sharp"
        Upper limit of the plug-in error. "sharp": the "asymptotic" margin of the certificate at
        ``confidence``; a correctly specified curve is rarely rejected. "paper": :math:`(20 + \sqrt{2 \log
        20})/\sqrt n`, which cannot reject for :math:`n \le 500`. A number is used as the limit.
    confidence : float, default=0.95
        Confidence level of the tolerance "sharp"; otherwise not used.

    Attributes
    ----------
    fallback_used_ : bool
        Whether Platt scaling was rejected.
    platt_cutoff_error_ : float
        Cutoff calibration error of Platt scaling on the training samples.
    tolerance_ : float
        The tolerance with which it was compared.
    slope_, intercept_ : float
        The logistic curve, whether or not it is used.
    %(min_proba)s
    %(trained_fit)s

    See Also
    --------
    PlattCalibrator : Without a fallback.
    IsotonicCalibrator : Has no such error.

    Notes
    -----
    O(n log n). Both maps are monotone, so that the certificate is valid for the resulting map although the
    same samples choose between them.

    %(clipped)s

    %(cutoff_paper)s

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

    fallback_used_: bool
    platt_cutoff_error_: float
    tolerance_: float

    def __init__(
        self, *, link: str = "logit", tolerance: str | float = "sharp", confidence: float = 0.95
    ) -> None:
        self.link = link
        self.tolerance = tolerance
        self.confidence = confidence

    def _check_parameters(self) -> None:
        _validation.check_fraction(self.confidence, "confidence")
        if isinstance(self.tolerance, str):
            _validation.check_option(self.tolerance, "tolerance", ("sharp", "paper"), "a number")
        else:
            _validation.check_not_negative(self.tolerance, "tolerance")

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        self.fallback_used_ = False
        super()._fit_scores(scores, codes, weight)
        self.platt_cutoff_error_ = self.training_cutoff_error_
        if self.tolerance == "paper":
            self.tolerance_ = cutoff_bound(self.training_size_, 0.95, "paper")
        elif self.tolerance == "sharp":
            rate = self.training_event_rate_
            self.tolerance_ = cutoff_bound(self.training_size_, self.confidence, base_rate=rate)
        else:
            self.tolerance_ = float(self.tolerance)
        self.fallback_used_ = self.platt_cutoff_error_ > self.tolerance_
        if self.fallback_used_:
            certify(self, group_scores(codes, scores, weight), weight)

    def _export(self, build: Any) -> Node:
        if self.fallback_used_:
            return Step(np.zeros(0), np.array([self.training_event_rate_]))
        return super()._export(build)

    def _map_scores(self, scores: Array) -> Array:
        if self.fallback_used_:
            return np.full(scores.shape, self.training_event_rate_)
        return super()._map_scores(scores)
