"""Logit-smoothed ECE: the calibration error of predictions with noise added on the logit axis."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array
from scipy.special import expit

from sklearn_calib._core._bounds import effective_size
from sklearn_calib._core._grouping import GroupedOutcomes, group_outcomes, group_starts
from sklearn_calib._core._links import EPS, logit
from sklearn_calib._core._smoothing import (
    NODES_PER_SCALE,
    TAIL,
    LogitPositions,
    integrate_absolute_rows,
    node_count,
    outcome_coefficients,
    smooth_at_nodes,
)
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array
from sklearn_calib._validation import BinarySample, check_fraction, check_option, check_positive
from sklearn_calib.metrics._metric_kernel import Evaluate, MetricKernel, residuals
from sklearn_calib.metrics._reductions import Reduction, checked_error
from sklearn_calib.metrics._smooth import smoothing_bins

_MOST_NODES = 1 << 20
# Rounding errors of log-odds are about 1e-14 and would dominate below the first limit; above the second the
# computation is slow and all predictions are smoothed into one.
_SMALLEST, _LARGEST = 1e-7, 1e4
# With more nodes, or more entries of the matrix, samples are evaluated one by one.
_MOST_KERNEL_NODES, _MOST_ENTRIES = 1 << 14, 1 << 23
# The density of the noise is truncated at this many standard deviations, which leaves out 2e-9 of it.
_REACH = 6.0
# Samples times nodes that are held in memory at a time, few enough to stay in cache.
_WORK = 1 << 17


def _at_size(n_samples: float, bandwidth: float | str = "auto", **_: Any) -> dict[str, Any]:
    return {"bandwidth": n_samples ** (-1.0 / 3.0)} if isinstance(bandwidth, str) else {}


def _make(
    prob: Array, n_samples: float, bandwidth: float, noise: str = "gaussian", eps: float = EPS
) -> Evaluate | None:
    if bandwidth == 0.0:
        # the automatic one of a population of finitely many predictions, whose error tends to the ECE
        return lambda count, positives: (
            np.abs(residuals(prob, count, positives)).sum(axis=0) / count.sum(axis=0)
        )
    h = logit(prob, eps)
    length = float(h[-1] - h[0]) + 2.0 * TAIL * bandwidth
    finest = min(bandwidth, 2.0) / length
    if noise != "gaussian" or finest * _MOST_KERNEL_NODES < NODES_PER_SCALE:
        return None
    nodes = math.ceil(NODES_PER_SCALE / finest)
    step = length / nodes
    origin = h[0] - TAIL * bandwidth
    near = int(2.0 * _REACH * bandwidth / step)
    if near * h.shape[0] > _MOST_ENTRIES:
        return None
    # the noise density around each prediction, at the nodes in its neighbourhood
    first = np.ceil((h - _REACH * bandwidth - origin) / step).astype(np.int32)
    index = first[:, np.newaxis] + np.arange(near, dtype=np.int32)
    z = (origin + step * index - h[:, np.newaxis]) / bandwidth
    density = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * bandwidth)
    pointers = near * np.arange(h.shape[0] + 1, dtype=np.int32)
    smooth = csc_array((density.ravel(), index.ravel(), pointers), (nodes + 1, h.shape[0]))
    target = expit(origin + step * np.arange(nodes + 1))[:, np.newaxis]
    columns = max(1, _WORK // nodes)

    def errors(count: Array, positives: Array) -> Array:
        r = positives.shape[1]
        expected = (smooth @ count) * target if count.shape[1] == 1 else None
        values = np.empty(r)
        for start in range(0, r, columns):
            part = slice(start, start + columns)
            difference = smooth @ positives[:, part].astype(np.float64, copy=False)
            difference -= (smooth @ count[:, part]) * target if expected is None else expected
            values[part] = integrate_absolute_rows(np.ascontiguousarray(difference.T), step)
        return np.asarray(np.minimum(values / count.sum(axis=0), 1.0))

    return errors


def _local(prob: Array, direction: Array) -> Array:
    """Return the peaks of a direction: a local error adds to the noise, others are lost in it."""
    size = np.abs(direction)
    return np.sign(direction) * np.maximum(size - 0.5 * size.max(), 0.0)


def _pooling_bins(
    grouped: GroupedOutcomes, bandwidth: float, noise: str = "gaussian", eps: float = EPS
) -> NDArray[np.int64]:
    return smoothing_bins(logit(grouped.prob, eps), grouped, bandwidth)


@shared_docs
@MetricKernel(
    _make,
    calibration_error=True,
    _accuracy=1e-6,
    _bins=_pooling_bins,
    _at_size=_at_size,
    _other_direction=_local,
)
def logit_smoothed_ece(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | Literal["auto"] = "auto",
    noise: Literal["gaussian", "uniform"] = "gaussian",
    eps: float = EPS,
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
        Scale s of the noise in log-odds, from 1e-7 to 10,000: the standard deviation of Gaussian noise, the
        full width of uniform noise. "auto" is n**(-1/3), which vanishes slowly enough for the estimate to
        converge to the ECE if the log-odds of each outcome have an almost everywhere continuous density
        (Theorem 5.4 of [1]_); n is the total weight, or the effective sample size (sum w)^2 / sum w^2 if the
        weights are not whole numbers.
    noise : {"gaussian", "uniform"}, default="gaussian"
        Distribution of the noise; uniform noise on [-s/2, s/2] is that of Appendix A.
    eps : float, default=2**-53
        Predictions are clipped to [eps, 1 - eps] before the logit, so that 0 and 1 have log-odds of about
        -+36.7. A larger eps changes confident predictions and therefore the error.
    %(weight)s
    %(reduction)s

    %(error)s

    See Also
    --------
    smooth_ece : Smooths residuals, with an automatic bandwidth.
    sklearn_calib.plot.BinningDisplay : This error beside binned ECE.

    Notes
    -----
    With h_i = logit(p_i), total weight n and noise density :math:`\phi_s`, the expectation over the noise
    is a one-dimensional integral (eqs. 5.5 and 5.6 of [1]_, in which the Jacobian of the sigmoid cancels):

    .. math:: \mathrm{LS\text{-}ECE}_s = \int_{-\infty}^{\infty} \Bigl|\frac1n \sum_i w_i\,\phi_s(t - h_i)
              \,\bigl(y_i - \sigma(t)\bigr)\Bigr|\,dt .

    The computation is deterministic, see docs/methods/logit_smoothed_ece.md: O(n + R/s log(R/s)) for
    Gaussian noise and log-odds of range R, O(n log n) for uniform noise. Large unweighted samples are first
    gathered in narrow bins, which changes the result by less than 1e-6.

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
    check_option(noise, "noise", ("gaussian", "uniform"))
    check_fraction(eps, "eps")
    if eps >= 0.5:
        raise ValueError(f"eps must be below 0.5, got {eps!r}.")
    if isinstance(bandwidth, str):
        check_option(bandwidth, "bandwidth", ("auto",), "a number")
    else:
        check_positive(bandwidth, "bandwidth")
        if not _SMALLEST <= bandwidth <= _LARGEST:
            raise ValueError(
                f"bandwidth={bandwidth!r} is out of range: choose a value from {_SMALLEST:g} to "
                f"{_LARGEST:g}; log-odds lie between -37 and 37."
            )

    def error(sample: BinarySample) -> float:
        if isinstance(bandwidth, str):
            size = float(sample.y.shape[0]) if sample.w is None else effective_size(sample.w)
            width = max(size ** (-1.0 / 3.0), _SMALLEST)
        else:
            width = float(bandwidth)
        value = (_uniform_noise if noise == "uniform" else _gaussian_noise)(sample, width, eps)
        return min(value, 1.0)  # rounding can exceed 1 by an ulp

    return checked_error(error, y_true, y_proba, sample_weight, pos_label, reduction, labels)


def _gaussian_noise(sample: BinarySample, s: float, eps: float) -> float:
    low, high = logit(np.array([sample.p.min(), sample.p.max()]), eps).tolist()
    if (high - low + 2 * TAIL * s) / s * NODES_PER_SCALE <= _MOST_NODES:
        return _on_one_axis(sample, s, eps, low, high) / sample.total
    # the axis is long compared with s: keep only the parts near data, one batch of segments at a time
    h = logit(sample.p, eps)
    order = np.argsort(h, kind="stable")
    h, y, w = h[order], sample.y[order], None if sample.w is None else sample.w[order]
    cut = 2 * TAIL * s
    gap = np.diff(h, prepend=h[0])
    compact = np.cumsum(np.minimum(gap, cut))
    # a gap is cut out as a whole, so batches end at gaps
    batch = np.floor(compact / (s * _MOST_NODES / NODES_PER_SCALE)).astype(np.int64)
    ends = np.flatnonzero((np.diff(batch, append=batch[-1] + 1) > 0) & (np.append(gap[1:], cut) >= cut)) + 1
    total, start = 0.0, 0
    for end in ends.tolist():
        part = slice(start, end)
        total += _on_cut_axis(y[part], h[part], None if w is None else w[part], s, cut)
        start = end
    return total / sample.total


def _on_one_axis(sample: BinarySample, s: float, eps: float, low: float, high: float) -> float:
    """Integrate over an interval beyond which both kernel sums vanish."""
    origin, length = low - TAIL * s, high - low + 2 * TAIL * s
    finest = min(s, 2.0) / length
    nodes = node_count(finest)
    t = origin + length / nodes * np.arange(nodes + 1)
    x = LogitPositions(sample.p, origin, length, eps)
    return _integrate(sample.y, x, sample.w, s / length, nodes, expit(t))


def _on_cut_axis(y: NDArray[np.int64], h: Array, w: Array | None, s: float, cut: float) -> float:
    """Integrate over sorted h with every gap above ``cut`` shortened to it."""
    gap = np.diff(h, prepend=h[0])
    excess = np.where(gap > cut, gap - cut, 0.0)
    shift = np.cumsum(excess)
    compact = h - h[0] - shift
    origin, length = -0.5 * cut, float(compact[-1]) + cut
    nodes = node_count(min(s, 2.0) / length)
    node = origin + length / nodes * np.arange(nodes + 1)
    # a node belongs to the segment whose data are nearest, which begins half a gap before its first point
    first = np.flatnonzero(excess)
    segment = np.searchsorted(compact[first] - 0.5 * cut, node, side="right")
    t = node + h[0] + np.concatenate(([0.0], shift[first]))[segment]
    return _integrate(y, (compact - origin) / length, w, s / length, nodes, expit(t))


def _integrate(y: NDArray[np.int64], x: Any, w: Array | None, s: float, nodes: int, target: Array) -> float:
    event, mass = smooth_at_nodes(outcome_coefficients(y, x, w, s), s, nodes)
    return float(integrate_absolute_rows((event - target * mass)[np.newaxis], 1.0 / nodes)[0])


def _uniform_noise(sample: BinarySample, s: float, eps: float) -> float:
    grouped = group_outcomes(sample.y, np.clip(sample.p, eps, 1.0 - eps), sample.w)
    h = logit(grouped.prob, eps)
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
