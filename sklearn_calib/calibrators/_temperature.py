"""Temperature scaling, for binary and multiclass problems."""

from typing import Any

import numpy as np
from scipy.special import expit

from sklearn_calib._core._grouping import group_scores
from sklearn_calib._core._maps import Node, Softmax, logistic
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator, check_link
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify
from sklearn_calib.calibrators._inverse_temperature import fit_inverse_temperature
from sklearn_calib.calibrators._log_clip import LogClip
from sklearn_calib.calibrators._softmax import softmax


class TemperatureCalibrator(LogClip, CutoffCertificateMixin, BaseCalibrator):
    r"""Temperature scaling: the softmax of log-probabilities divided by one parameter, the temperature.

    With :math:`\beta = 1/T` the calibrated probabilities are :math:`p_k^\beta / \sum_j p_j^\beta`, and for
    binary problems the log-odds are multiplied by :math:`\beta`. A temperature above 1 corrects
    overconfidence. The temperature minimizes the weighted log loss of the training samples, which is
    therefore never larger than that of the clipped scores. The ranking of the classes of a sample does not
    change.

    Parameters
    ----------
    %(link)s

    Attributes
    ----------
    temperature_ : float
        :math:`T > 0`. Under perfect separation, or if scores are worse than constant ones, there is no
        minimum, and :math:`\beta` is at the end of its range, a factor :math:`e^{10}` beyond both 1 and the
        inverse of the root mean square difference of logits.
    training_cutoff_error_, training_event_rate_, training_size_ : float
        For binary problems, as those of :class:`PlattCalibrator`.
    %(clipped_fit)s

    See Also
    --------
    PlattCalibrator : With an intercept, for binary problems.

    Notes
    -----
    The loss is convex in :math:`\beta`, and minimized by Newton's method in :math:`\log\beta` within a
    bracket; each step is a pass over all :math:`n K` scores. The certificate is for binary problems.

    %(clipped)s

    In multiclass problems, probabilities down to 2**-1022 can be informative, for example those of naive
    Bayes. The limit is the smallest positive probability of the calibration sample, at most 2**-53, or if
    there are zeros at most :math:`1/(2\sqrt n)`. Another one is chosen if it lowers the sum of the losses by
    more than 1, and among these the one with the smallest loss: 2**-53, 2**-106, 2**-212, ..., down to the
    smallest positive probability, and, if there are zeros, that probability, 2**-26, 1e-4, 1/(2n), 2/n and
    8/n, as far as they are below 1/K.

    References
    ----------
    .. [1] Guo et al. (2017). On calibration of modern neural networks. ICML. arXiv:1706.04599.

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

    _scale_free = True
    _fractions = True
    temperature_: float

    def __init__(self, *, link: str = "logit") -> None:
        self.link = link

    def _score_kind(self) -> str:
        return check_link(self.link, "logit")

    def _needs_every_class(self) -> bool:
        return False

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        for name in ("training_cutoff_error_", "training_event_rate_", "training_size_"):
            self.__dict__.pop(name, None)
        self._fit_clip(scores, codes, weight)
        if scores.ndim == 1:
            grouped = group_scores(codes, scores, weight)
            codes, scores, mass = grouped.rows()
            z = self._linked(scores)
            self.temperature_ = 1.0 / fit_inverse_temperature(np.stack([-z, z], axis=1) / 2.0, codes, mass)
            certify(self, grouped, weight)
            return
        self.temperature_ = 1.0 / fit_inverse_temperature(self._linked(scores), codes, weight)

    def _export(self, build: Any) -> Node:
        n_classes, slope = self.classes_.shape[0], 1.0 / self.temperature_
        if n_classes == 2:
            return logistic(self._floor, slope, 0.0)
        return Softmax(self._floor, 0.0, 1.0, False, np.full(n_classes, slope), np.zeros(n_classes))

    def _map_scores(self, scores: Array) -> Array:
        z = self._linked(scores) / self.temperature_
        return np.asarray(expit(z)) if z.ndim == 1 else softmax(z)
