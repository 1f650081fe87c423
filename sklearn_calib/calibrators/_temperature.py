"""Temperature scaling, for binary and multiclass problems."""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import GroupedOutcomes, group_scores
from sklearn_calib.calibrators._base import BaseCalibrator, check_link
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify
from sklearn_calib.calibrators._inverse_temperature import fit_grouped_temperature, fit_inverse_temperature
from sklearn_calib.calibrators._log_clip import clipped_logs, fit_log_clip
from sklearn_calib.calibrators._platt import link_scores, logistic_curve
from sklearn_calib.calibrators._remote import discount_remote
from sklearn_calib.calibrators._softmax import softmax

__all__ = ["TemperatureCalibrator"]

Array = NDArray[np.float64]


class TemperatureCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Temperature scaling: log-probabilities divided by one number, then normalised.

    With :math:`\beta = 1/T` the calibrated probabilities are :math:`p_k^\beta / \sum_j p_j^\beta`, and for
    binary problems the log-odds are multiplied by :math:`\beta`. A temperature above 1 corrects
    overconfidence. It is the one with the least weighted log loss of the training samples (for binary
    problems see the Notes); as :math:`T = 1` changes nothing, that loss is never above the original one, and
    the ranking of the classes of a sample never changes.

    Parameters
    ----------
    %(link)s

    Attributes
    ----------
    temperature_ : float
        :math:`T > 0`. Scores that separate the classes of all samples have no best temperature, nor have
        scores that are worse than none: :math:`\beta` then stops at the end of its range, which reaches a
        factor :math:`e^{10}` beyond both 1 and the inverse of the typical (root mean square) difference of
        logits.
    training_cutoff_error_ : float
        Binary problems: cutoff calibration error of the fitted map on the training samples.
    training_event_rate_ : float
        Binary problems: weighted frequency of ``classes_[1]`` among the training samples.
    training_size_ : float
        Binary problems: number of training samples; with weights that are not integers, their effective
        number.
    %(clipped_fit)s

    See Also
    --------
    PlattCalibrator : with an intercept, for binary problems.

    Notes
    -----
    The loss is convex in :math:`\beta`. Its derivative is brought to zero by Newton's method in
    :math:`\log\beta`, kept in a bracket; no step size is to be tuned. A subset of the samples, or for two
    classes a smaller problem of pooled log-odds, gives the start, so that one to three passes over all
    :math:`n K` scores suffice. The certificate is available for binary problems.

    In binary problems, probabilities that are remote (few, and far closer to 0 or 1 than the others) count
    less, by the rule of :class:`PlattCalibrator`: a handful of zeros and ones that are wrong would otherwise
    make the temperature large. The loss that is least is then the one with these weights. With
    ``link="identity"``, and where nothing is remote, every sample counts in full.

    In multiclass problems, probabilities down to 2**-1022 are informative: those of naive Bayes are often so
    small.
    How far they are believed is chosen. Tried are the limits 2**-53, 2**-106, 2**-212, ... down to the least
    positive probability of the fit, and, if there are zeros, that one itself, which shows what a forest of so
    many trees means by 0. A limit that cuts off what can be told apart is taken if it lowers the sum of the
    losses by more than 1, and of these the one that lowers it most. Where all probabilities are at least
    2**-53 the limit is that.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger (2017). On calibration of modern neural networks. ICML.
       arXiv:1706.04599.

    Examples
    --------
    >>> from sklearn_calib.calibrators import TemperatureCalibrator
    >>> scores, outcomes = [0.1, 0.1, 0.1, 0.9, 0.9, 0.9], [0, 0, 1, 0, 1, 1]
    >>> calibrator = TemperatureCalibrator().fit(scores, outcomes)
    >>> round(calibrator.temperature_, 3)
    3.17
    >>> calibrator.transform([0.1, 0.5, 0.9]).round(3)
    array([0.333, 0.5  , 0.667])
    """

    temperature_: float
    min_proba_: float

    def __init__(self, *, link: str = "logit") -> None:
        self.link = link

    def _score_kind(self) -> str:
        return "probability" if check_link(self.link) == "probability" else "logit"

    def _needs_every_class(self) -> bool:
        return False

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        for name in ("training_cutoff_error_", "training_event_rate_", "training_size_", "min_proba_"):
            self.__dict__.pop(name, None)
        if scores.ndim == 1:
            grouped = group_scores(codes, scores, weight)
            self.temperature_ = 1.0 / self._fit_grouped(grouped)
            certify(self, grouped, weight)
            return
        if self.link == "logit":
            self.min_proba_ = fit_log_clip(scores, codes, weight)
        self.temperature_ = 1.0 / fit_inverse_temperature(self._logits(scores), codes, weight)

    def _fit_grouped(self, grouped: GroupedOutcomes) -> float:
        z = self._logits(grouped.prob)
        discounted = discount_remote(z, grouped) if self.link == "logit" else None
        return fit_grouped_temperature(z, grouped if discounted is None else discounted)

    def _map_scores(self, scores: Array) -> Array:
        if scores.ndim == 1:
            return logistic_curve(scores, self.link, 1.0 / self.temperature_, 0.0)
        return softmax(self._logits(scores) / self.temperature_)

    def _logits(self, scores: Array) -> Array:
        if scores.ndim == 1:
            return link_scores(scores, self.link)
        return scores if self.link == "identity" else clipped_logs(scores, self.min_proba_)
