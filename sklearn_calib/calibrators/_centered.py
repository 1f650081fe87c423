"""Centred isotonic calibration: isotonic regression without plateaus."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib._core._grouping import group_scores, group_starts
from sklearn_calib._core._isotonic import fit_isotonic
from sklearn_calib._core._maps import Node, through
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_below_one
from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify
from sklearn_calib.calibrators._isotonic import interpolate_blocks

_FARTHEST = 1e300


class CenteredIsotonicCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Centred isotonic regression: strictly increasing, so that the ranking of the scores is preserved.

    Isotonic regression maps all scores of a block to one value, and thus creates ties. Here each block is
    replaced by a single point, its event frequency at its mean score, and the map is linear between these
    points: strictly increasing from the first to the last. Outside this range a small tilt preserves the
    order.

    Parameters
    ----------
    tilt : float, default=1e-6
        Weight :math:`\delta` in [0, 1) of a fixed increasing curve, see Notes, that is mixed into the map. It
        preserves the order of scores below the first and above the last block, and avoids probabilities of 0
        and 1; no probability changes by more than this. With 0 the map is that of the paper, constant outside
        the range of the block means.

    Attributes
    ----------
    X_thresholds_ : ndarray of shape (n_blocks,)
        Mean score of each block, strictly increasing.
    y_thresholds_ : ndarray of shape (n_blocks,)
        Event frequency of each block, strictly increasing.
    training_cutoff_error_ : float
        Cutoff calibration error of the fitted map on the training samples.
    %(trained_fit)s

    Raises
    ------
    ValueError
        When fitting, if ``tilt`` is not in [0, 1); and as for any calibrator.
    TypeError
        When fitting, if ``tilt`` is not a number.

    See Also
    --------
    IsotonicCalibrator : Constant on each block, at its event frequency.
    SplineCalibrator : A smooth curve, strictly monotone with ``monotone=True``.

    Notes
    -----
    With blocks :math:`b` of weight :math:`W_b`, event frequency :math:`h_b`, and mean score :math:`m_b =
    \sum_{i \in b} w_i s_i / W_b` (section 3 of [1]_; neighbours of equal frequency are one block, also where
    it is 0 or 1), and :math:`g` the linear interpolation of the points :math:`(m_b, h_b)`, constant outside,
    the map is

    .. math:: h(s) = (1 - \delta)\, g(s) + \frac\delta2 \Bigl(1 + \frac{u}{1 + |u|}\Bigr),

    where :math:`u` is the distance of :math:`s` from the middle of the training scores in half-ranges. Two
    scores closer together than about 1e-16 divided by the slope are equal after rounding. The mean of the
    map over a block differs from the event frequency, so the certificate is larger than that of isotonic
    regression.

    O(n log n), for the sort of the scores.

    References
    ----------
    .. [1] Oron, Flournoy (2017). Centered isotonic regression: point and interval estimation for
       dose-response studies. Statistics in Biopharmaceutical Research 9(3).

    Examples
    --------
    >>> from sklearn_calib.calibrators import CenteredIsotonicCalibrator
    >>> calibrator = CenteredIsotonicCalibrator(tilt=0.0).fit([1.0, 2.0, 3.0, 4.0, 5.0], [0, 1, 0, 1, 1])
    >>> calibrator.X_thresholds_, calibrator.y_thresholds_
    (array([1. , 2.5, 4.5]), array([0. , 0.5, 1. ]))
    >>> calibrator.transform([2.0, 3.0]).round(3)
    array([0.333, 0.625])
    """

    _multiclass = False
    X_thresholds_: Array
    y_thresholds_: Array

    def __init__(self, *, tilt: float = 1e-6) -> None:
        self.tilt = tilt

    def _check_parameters(self) -> None:
        check_below_one(self.tilt, "tilt")

    def _score_kind(self) -> str:
        return "score"

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        grouped = group_scores(codes, scores, weight)
        # divided first, so that scores near the largest float do not overflow
        self._magnitude = float(np.abs(grouped.prob[[0, -1]]).max()) or 1.0
        unit = grouped.prob / self._magnitude
        self._middle = float(unit[0] + unit[-1]) / 2.0
        self._half_range = float(unit[-1] - unit[0]) / 2.0 or 1.0
        blocks = fit_isotonic(grouped)
        first = np.searchsorted(grouped.prob, blocks.lower[group_starts(blocks.value)])
        mass, positives, moment = (
            np.add.reduceat(part, first)
            for part in (grouped.weight, grouped.positives, grouped.weight * unit)
        )
        self.X_thresholds_ = moment / mass * self._magnitude
        self.y_thresholds_ = positives / mass
        certify(self, grouped, weight)

    def _may_be_certain(self) -> bool:
        return float(self.tilt) == 0.0

    def _export(self, build: Any) -> Node:
        if self._may_be_certain():
            return through(self.X_thresholds_, self.y_thresholds_)
        center, scale = self._magnitude * self._middle, self._magnitude * self._half_range
        curve: Node = build.curve(self, self.X_thresholds_, center, scale, straight=True)
        return curve

    def _map_scores(self, scores: Array) -> Array:
        centred = interpolate_blocks(self.X_thresholds_, self.y_thresholds_, scores)
        tilt = float(self.tilt)
        if tilt == 0.0:
            return centred
        # relative to tiny training scores, other scores may overflow
        with np.errstate(over="ignore"):
            u = (scores / self._magnitude - self._middle) / self._half_range
        u = np.clip(u, -_FARTHEST, _FARTHEST)
        return (1.0 - tilt) * centred + tilt * (0.5 + 0.5 * (u / (1.0 + np.abs(u))))
