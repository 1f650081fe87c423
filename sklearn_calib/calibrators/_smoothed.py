"""Kernel smoothing as a calibrator: the curve of the result of smooth ECE as a map."""

from typing import Any

import numpy as np
from scipy.special import expit

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_scores
from sklearn_calib._core._links import logit
from sklearn_calib._core._maps import through
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.metrics._smooth import check_smoothing, smooth_result

# The curve is tabulated at this many nodes per bandwidth, and interpolated linearly.
_NODES_PER_BANDWIDTH, _MOST_NODES = 64, 1 << 24


class SmoothedCalibrator(BaseCalibrator):
    r"""Kernel regression of the outcomes on the probabilities, at the bandwidth of smooth ECE.

    A probability is mapped to the kernel-weighted event frequency of the training samples nearby. If noise of
    the same scale is first added to the probabilities (``randomized=True``), the result is perfectly
    calibrated on the training samples. At the automatic bandwidth it differs from the original probabilities
    on average by at most 2.6 times their smooth ECE, or 1.4 times with ``scale="logit"``.

    Parameters
    ----------
    bandwidth : "auto" or float, default="auto"
        Standard deviation of the kernel, in units of probability or log-odds. "auto": that of
        :func:`~sklearn_calib.metrics.smooth_ece`, which equals the error itself.
    scale : {"probability", "logit"}, default="probability"
        Axis on which the kernel acts. "logit" resolves probabilities near 0 and 1; those of exactly 0 and 1
        have log-odds of about -+36.7. The automatic bandwidth is the same number in log-odds, hence narrow:
        with few samples or events, set a larger one or use :class:`SplineCalibrator` for a small log loss on
        new samples.
    randomized : bool, default=False
        Whether Gaussian noise with the bandwidth as standard deviation is added to the probabilities and
        folded into [0, 1], or added to the log-odds, before the map is evaluated, as the guarantee requires.
        Equal scores in a call then have different probabilities.
    random_state : int, Generator, RandomState or None, default=0
        Source of the noise; not used unless ``randomized``. With an integer every call adds the same noise,
        so that samples that are passed one at a time all receive the same number. For these, use a generator,
        which every call advances, or None.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth.
    smooth_ece_ : float
        Smooth ECE of the training scores, at this bandwidth.
    grid_ : ndarray of shape (m,)
        Probabilities at which the curve is tabulated.
    curve_ : ndarray of shape (m,)
        The curve at these probabilities.
    %(binary_fit)s

    See Also
    --------
    sklearn_calib.metrics.smooth_ece_result : The curve with the error and the density.
    SplineCalibrator : Smooths log-odds, and is preferable for few samples.

    Notes
    -----
    With :math:`K_s(t, p)` the density at :math:`t` of :math:`p + s N`, :math:`N` standard normal, folded into
    [0, 1], or of :math:`\sigma(\mathrm{logit}(p) + s N)`, the map is (eq. 1 of [1]_)

    .. math:: \hat\mu(t) = \frac{\sum_i w_i K_s(t, p_i)\, y_i}{\sum_i w_i K_s(t, p_i)}.

    :math:`\hat\mu(t)` is also the event frequency of a random training sample given that its noisy score is
    :math:`t`: the randomized forecast is calibrated by construction (Theorem 17 of [1]_). The noise changes
    a score on average by at most :math:`s\sqrt{2/\pi}`, and the curve changes the noisy score by at most
    smooth ECE plus this value (Lemma 10 of [1]_); with ``scale="logit"`` a quarter of this value suffices in
    both. The changes are those of probabilities, as in the proof of the theorem: if all outcomes are events,
    only the probability 1 is calibrated, at an infinite distance in log-odds. The default map without noise
    has no such guarantee.

    The map need not be monotone and has no certificate; use :class:`CertifiedCalibrator`. If all outcomes
    near a score agree, the probability is within 2**-53 of 0 or 1. Where there are no training scores nearby,
    and the sums of the kernel vanish, the map is interpolated.

    O(n log n) for the sort; then O(n + K log K) with K of order 1 / bandwidth. Tabulated at 64 nodes for each
    bandwidth.

    References
    ----------
    .. [1] Blasiok, Nakkiran (2024). Smooth ECE: principled reliability diagrams via kernel smoothing. ICLR.
       arXiv:2309.12236.

    Examples
    --------
    >>> from sklearn_calib.calibrators import SmoothedCalibrator
    >>> calibrator = SmoothedCalibrator().fit([0.1, 0.1, 0.8, 0.8], [0, 1, 1, 1])
    >>> print(f"{calibrator.bandwidth_:.3f}")
    0.300
    >>> calibrator.transform([0.1, 0.8]).round(2)
    array([0.52, 0.97])
    """

    _multiclass = False
    _fractions = True
    _scale_free = True
    bandwidth_: float
    smooth_ece_: float
    grid_: Array
    curve_: Array

    def __init__(
        self,
        *,
        bandwidth: str | float = "auto",
        scale: str = "probability",
        randomized: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.bandwidth = bandwidth
        self.scale = scale
        self.randomized = randomized
        self.random_state = random_state

    def _check_parameters(self) -> None:
        bandwidth: Any = self.bandwidth
        check_smoothing(bandwidth, self.scale)
        _validation.check_flag(self.randomized, "randomized")
        _validation.check_randomness(self.random_state)

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        # sums over grouped samples do not depend on their order
        sample = _validation.BinarySample(*group_scores(codes, scores, weight).rows())
        bandwidth: Any = self.bandwidth
        result = smooth_result(sample, bandwidth, self.scale, _NODES_PER_BANDWIDTH, _MOST_NODES)
        self.smooth_ece_, self.bandwidth_ = result.value, result.bandwidth
        # log-odds above 37 have the same probability
        known = ~np.isnan(result.curve) & (np.diff(result.grid, prepend=-1.0) > 0.0)
        self.grid_, self.curve_ = result.grid[known], result.curve[known]

    def _export(self, build: Any) -> Any:
        if self.randomized:
            raise ValueError(
                "calibrator is a SmoothedCalibrator(randomized=True), whose map is random. Fit it with "
                "randomized=False."
            )
        return through(self.grid_, self.curve_)

    def _map_scores(self, scores: Array) -> Array:
        if self.randomized:
            noise = self.bandwidth_ * _validation.check_generator(self.random_state).standard_normal(
                scores.shape[0]
            )
            folded = np.mod(scores + noise, 2.0)
            folded = np.minimum(folded, 2.0 - folded)
            scores = expit(logit(scores) + noise) if self.scale == "logit" else folded
        return np.interp(scores, self.grid_, self.curve_)
