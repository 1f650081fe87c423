"""Estimates of the inverse temperature of samples of logits: maximum likelihood, and posterior mode."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import expit

from sklearn_calib._core._blocks import blocks
from sklearn_calib._typing import Array, Codes

# From an inverse temperature to derivative and second derivative of the loss.
Derivatives = Callable[[float], tuple[float, float]]

# The inverse temperature is limited to this factor (as a logarithm) beyond 1 and 1 / typical logit.
_REACH = 10.0
_MAX_ITERATIONS = 100
_LAST_MOVE = 1e-8
# Size of blocks of logits, so that temporary arrays stay in cache, and least number of samples in each.
_CHUNK = 1 << 15
_FEWEST = 512
# Standard deviation of the normal prior of the logarithm of a shrunk temperature of multiclass problems.
_PRIOR_DEVIATION = 1.0
#: Prior odds of more flexible models.
PRIOR_ODDS = 2.0
#: Center of that prior for scores in an unknown unit, divided by their typical size.
USUAL_SLOPE = 2.0


def fit_inverse_temperature(z: Array, codes: Codes, weight: Array | None) -> float:
    """Return the inverse temperature of samples of logits."""
    d, w, scale = _from_truth(z, codes, weight)
    if scale == 0.0:
        return 1.0
    shift, limits = float(np.log(scale)), _limits(scale)
    separated = not (d > 0.0).any()
    if separated or float((d.mean(axis=0) * w).sum()) >= 0.0:
        return float(np.exp(limits[separated] - shift))

    def slope(theta: float) -> tuple[float, float]:
        first, second = _sample_derivatives(d, w, float(np.exp(theta)))
        return first, float(np.exp(theta)) * second

    theta, _ = _root(slope, float(np.clip(shift, *limits)), *limits)
    return float(np.exp(theta - shift))


def fit_shrunk_temperature(z: Array, codes: Codes, weight: Array | None, known: bool) -> float:
    """Return the shrunk inverse temperature; its center is 1 if the logits have a ``known`` unit."""
    d, w, scale = _from_truth(z, codes, weight)
    if scale == 0.0:
        return 1.0

    def loss(beta: float) -> float:
        return float(sum(weights @ _log_sum(beta * part) for part, weights in _parts(d, w)))

    center = scale if known else USUAL_SLOPE
    beta, posterior = shrunk_temperature(
        lambda beta: _sample_derivatives(d, w, beta), loss, center, _PRIOR_DEVIATION
    )
    return posterior * (beta / scale) + 1.0 - posterior if known else beta / scale


def shrunk_temperature(
    derivatives: Derivatives, loss: Callable[[float], float], center: float, deviation: float
) -> tuple[float, float]:
    """Return the posterior mode of the inverse temperature, and the posterior probability of this model.

    The logarithm of its ratio to ``center`` has a normal prior of mean 0 and this standard ``deviation``.
    The simpler model is ``center`` itself. The evidence is computed by Laplace's approximation.
    """
    pull = 1.0 / deviation**2

    def slope(theta: float) -> tuple[float, float]:
        beta = center * float(np.exp(theta))
        first, second = derivatives(beta)
        return beta * first + pull * theta, beta * (beta * second + first) + pull

    # nearly equal probabilities have one mode near the center, and often a higher one far from it
    plain, usual = loss(center), float(np.log(USUAL_SLOPE / abs(center)))
    far = loss(float(np.copysign(USUAL_SLOPE, center))) + pull * usual * usual / 2.0 < plain
    theta, bend = _root(slope, usual if far else 0.0, -np.inf, np.inf)
    beta = center * float(np.exp(theta))
    gain = plain - loss(beta) - pull * theta * theta / 2.0
    log_ratio = gain + float(np.log(pull / max(bend, pull))) / 2.0
    return beta, float(expit(log_ratio + np.log(PRIOR_ODDS)))


def _log_sum(scores: Array) -> Array:
    """Return the logarithm of the sum over classes of exp(scores), (K, n), which are overwritten."""
    largest = scores.max(axis=0)
    scores -= largest
    return np.asarray(np.log(np.exp(scores, out=scores).sum(axis=0)) + largest)


def _sample_derivatives(d: Array, w: Array, beta: float) -> tuple[float, float]:
    """Return derivative and second derivative of sum_i w_i log sum_k exp(beta d_ki)."""
    first = second = 0.0
    for part, weights in _parts(d, w):
        e = beta * part
        e -= e.max(axis=0)
        np.exp(e, out=e)
        total = e.sum(axis=0)
        e *= part
        mean = e.sum(axis=0) / total
        e *= part
        variance = e.sum(axis=0) / total - mean * mean
        first += float((weights * mean).sum())
        second += float((weights * variance).sum())
    return first, second


def _parts(d: Array, w: Array) -> Iterator[tuple[Array, Array]]:
    parts = blocks(d.shape[1], max(_FEWEST, _CHUNK // d.shape[0]))
    return ((d[:, part], w[part]) for part in parts)


def _from_truth(z: Array, codes: Codes, weight: Array | None) -> tuple[Array, Array, float]:
    """Return the logits d less that of the true class, over their root mean square; weights; and the latter.

    The loss of a sample is log sum_k exp(beta d_k). The shape of d is (classes, n): sums over few classes are
    several times faster by columns.
    """
    n = z.shape[0]
    w, d = np.ones(n) if weight is None else weight, np.subtract(z.T, z[np.arange(n), codes], order="C")
    square = np.einsum("ki,ki->i", d, d) / d.shape[0]
    scale = float(np.sqrt((square * w).sum() / w.sum()))
    return (d / scale if scale else d), w, scale


def _limits(scale: float) -> tuple[float, float]:
    """Return limits of the logarithm of the inverse temperature, in units in which logits are of order 1."""
    shift = float(np.log(scale))
    return min(0.0, shift) - _REACH, max(0.0, shift) + _REACH


def _root(
    function: Callable[[float], tuple[float, float]], theta: float, low: float, high: float
) -> tuple[float, float]:
    """Return the root of a function that ends up positive, and its derivative there: Newton in a bracket."""
    slope = 0.0
    for _ in range(_MAX_ITERATIONS):
        value, slope = function(theta)
        low, high = (theta, high) if value < 0.0 else (low, theta)
        # far from the solution a Newton step is inaccurate
        longest = 1.0 + abs(theta)
        step = -value / slope if slope > 0.0 else -np.sign(value) * np.inf
        moved = theta + float(np.clip(step, -longest, longest))
        moved = moved if low <= moved <= high else (low + high) / 2.0
        done = abs(moved - theta) <= _LAST_MOVE
        theta = moved
        if done:
            break
    return theta, slope
