"""Logit-smoothed ECE: the calibration error of predictions with noise added on the logit axis."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array
from scipy.special import expit

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._core._links import clip_probability, logit
from sklearn_calib._core._smoothing import NODES_PER_SCALE, integrate_absolute_rows
from sklearn_calib._core._weights import effective_size
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel, residuals
from sklearn_calib.metrics._reductions import Reduction, checked_error
from sklearn_calib.metrics._smooth import SmoothingAxis, logit_axis, smoothing_bins

# Predictions of exactly 0 and 1 are resolved at this bandwidth, which is n**(-1/3) of 1e9 samples.
_SMALLEST_AUTOMATIC = 1e-3
# With more nodes, which the metric refuses, or more entries of the matrix, samples are evaluated one by one.
_MOST_KERNEL_NODES, _MOST_ENTRIES = 1 << 20, 1 << 23
# The density of the noise is truncated at this many standard deviations, which leaves out 2e-9 of it.
_REACH = 6.0
# Samples times nodes that are held in memory at a time, few enough to stay in cache.
_WORK = 1 << 17


def _automatic(n_samples: float) -> float:
    """Return the automatic bandwidth, 0 for a population."""
    return 0.0 if n_samples == np.inf else max(n_samples ** (-1.0 / 3.0), _SMALLEST_AUTOMATIC)


def _at_size(n_samples: float, bandwidth: float | str = "auto", **_: Any) -> dict[str, Any]:
    return {"bandwidth": _automatic(n_samples)} if isinstance(bandwidth, str) else {}


def _make(prob: Array, n_samples: float, bandwidth: float, noise: str = "gaussian") -> Evaluate | None:
    if bandwidth == 0.0:
        # the automatic one of a population of finitely many predictions, whose error tends to the ECE
        return lambda count, positives: (
            np.abs(residuals(prob, count, positives)).sum(axis=0) / count.sum(axis=0)
        )
    h = logit(prob)
    origin, length = logit_axis(float(h[0]), float(h[-1]), bandwidth)
    finest = min(bandwidth, 1.0) / length
    if noise != "gaussian" or finest * _MOST_KERNEL_NODES < NODES_PER_SCALE:
        return None
    nodes = math.ceil(NODES_PER_SCALE / finest)
    step = length / nodes
    near = int(2.0 * _REACH * bandwidth / step)
    if near * h.shape[0] > _MOST_ENTRIES:
        return None
    # the noise density around each prediction, at the nodes in its neighborhood
    first = np.ceil((h - _REACH * bandwidth - origin) / step).astype(np.int32)
    index = first[:, np.newaxis] + np.arange(near, dtype=np.int32)
    z = (origin + step * index - h[:, np.newaxis]) / bandwidth
    density = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * bandwidth)
    pointers = near * np.arange(h.shape[0] + 1, dtype=np.int32)
    # where a narrow kernel leaves gaps, the nodes beside them follow each other: the density there is about 0
    used = np.zeros(nodes + 1, dtype=bool)
    used[index] = True
    place, nodes = np.cumsum(used, dtype=np.int32) - 1, int(used.sum())
    smooth = csc_array((density.ravel(), place[index].ravel(), pointers), (nodes, h.shape[0]))
    target = expit(origin + step * np.flatnonzero(used))[:, np.newaxis]

    def errors(count: Array, positives: Array) -> Array:
        r = positives.shape[1]
        expected = (smooth @ count) * target if count.shape[1] == 1 else None
        values = np.empty(r)
        for part in blocks(r, _WORK, nodes):
            difference = smooth @ positives[:, part].astype(np.float64, copy=False)
            difference -= (smooth @ count[:, part]) * target if expected is None else expected
            values[part] = integrate_absolute_rows(np.ascontiguousarray(difference.T), step)
        return np.asarray(np.minimum(values / count.sum(axis=0), 1.0))

    return errors


def _local(prob: Array, direction: Array) -> Array:
    """Return the peaks of a direction: a local error adds to the noise, others are lost in it."""
    size = np.abs(direction)
    return np.sign(direction) * np.maximum(size - 0.5 * size.max(), 0.0)


def _pooling_bins(grouped: GroupedOutcomes, bandwidth: float, noise: str = "gaussian") -> NDArray[np.int64]:
    return smoothing_bins(logit(grouped.prob), grouped, bandwidth)


@shared_docs
@MetricKernel(
    _make,
    calibration_error=True,
    _accuracy=1e-6,
    _bins=_pooling_bins,
    _at_size=_at_size,
    _least_favorable=_local,
)
def logit_smoothed_ece(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | Literal["auto"] = "auto",
    noise: Literal["gaussian", "uniform"] = "gaussian",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> float:
    r"""Compute the logit-smoothed expected calibration error (LS-ECE) of predicted probabilities.

    The ECE of the randomized predictor that adds noise to the log-odds of the predictions. Unlike the ECE it
    is continuous in the predictions, and unlike the binned ECE it is continuous in its parameter. Its authors
    use it to check whether a binned ECE depends on its bins.

    Parameters
    ----------
    %(outcomes)s
    bandwidth : float or "auto", default="auto"
        Scale s of the noise in log-odds, at least 1e-5 of the range of the log-odds: the standard deviation
        of Gaussian noise, the full width of uniform noise. "auto" is n**(-1/3), and not below 0.001. It
        vanishes slowly enough for the estimate to converge to the ECE if the log-odds of each outcome have an
        almost everywhere continuous density (Theorem 5.4 of [1]_); n is the total weight, or the effective
        sample size (sum w)^2 / sum w^2 if the weights are not whole numbers.
    noise : {"gaussian", "uniform"}, default="gaussian"
        Distribution of the noise; uniform noise on [-s/2, s/2] is that of Appendix A.
    %(weight)s
    %(reduction)s

    %(error)s

    See Also
    --------
    smooth_ece : Smooths residuals, with an automatic bandwidth.
    sklearn_calib.plot.BinningDisplay : Plot of this error and binned ECE.

    Notes
    -----
    With h_i = logit(p_i), p_i clipped to [2**-53, 1 - 2**-53], total weight n and noise density
    :math:`\phi_s`, the expectation over the noise is a one-dimensional integral (eqs. 5.5 and 5.6 of [1]_, in
    which the Jacobian of the sigmoid cancels):

    .. math:: \mathrm{LS\text{-}ECE}_s = \int_{-\infty}^{\infty} \Bigl|\frac1n \sum_i w_i\,\phi_s(t - h_i)
              \,\bigl(y_i - \sigma(t)\bigr)\Bigr|\,dt .

    The computation is deterministic, see docs/methods/logit_smoothed_ece.md: O(n + R/s log(R/s)) for
    Gaussian noise and log-odds of range R, O(n log n) for uniform noise.

    %(not_proper)s

    References
    ----------
    .. [1] M. Chidambaram, H. Lee, C. McSwiggen and S. Rezchikov (2024). How Flawed Is ECE? An Analysis via
       Logit Smoothing. ICML. arXiv:2402.10046

    Examples
    --------
    >>> from sklearn_calib.metrics import logit_smoothed_ece
    >>> y_true, y_proba = [0, 0, 1, 1], [0.9, 0.9, 0.9, 0.9]
    >>> print(f"{logit_smoothed_ece(y_true, y_proba, bandwidth=0.1):.4f}")
    0.3996
    """
    _validation.check_option(noise, "noise", ("gaussian", "uniform"))
    if isinstance(bandwidth, str):
        _validation.check_option(bandwidth, "bandwidth", ("auto",), "a number")
    else:
        _validation.check_positive(bandwidth, "bandwidth")

    def error(sample: _validation.BinarySample) -> float:
        if isinstance(bandwidth, str):
            width = _automatic(float(sample.y.shape[0]) if sample.w is None else effective_size(sample.w))
        else:
            width = float(bandwidth)
        axis = SmoothingAxis(sample, "logit", width)
        axis.check(width)
        if noise == "uniform":
            return min(_uniform_noise(sample, width), 1.0)  # rounding can exceed 1 by an ulp
        # the area of eq. 7 of smooth ECE, on the axis of log-odds
        return axis.curve(width)[-1]

    return checked_error(error, y_true, y_proba, sample_weight, pos_label, reduction, labels)


def _uniform_noise(sample: _validation.BinarySample, s: float) -> float:
    grouped = group_outcomes(sample.y, clip_probability(sample.p), sample.w)
    h = logit(grouped.prob)
    edge = np.concatenate((h - s / 2, h + s / 2))
    order = np.argsort(edge, kind="stable")
    edge = edge[order]
    weight = np.cumsum(np.concatenate((grouped.weight, -grouped.weight))[order])
    positives = np.cumsum(np.concatenate((grouped.positives, -grouped.positives))[order])
    starts = group_starts(edge)
    last = np.append(starts[1:], edge.shape[0]) - 1
    left, right = edge[last[:-1]], edge[last[1:]]
    mass, event = weight[last[:-1]], positives[last[:-1]]
    # |event - mass sigma(t)| changes sign at logit(event / mass)
    inside = (event > 0) & (event < mass)
    root = np.where(inside, 0.0, left)
    root[inside] = np.log(event[inside]) - np.log(mass[inside] - event[inside])
    root = np.clip(root, left, right)

    def signed(a: Array, b: Array) -> Array:
        return event * (b - a) - mass * (np.logaddexp(0.0, b) - np.logaddexp(0.0, a))

    pieces = np.abs(signed(left, root)) + np.abs(signed(root, right))
    return float(pieces.sum() / (s * sample.total))
