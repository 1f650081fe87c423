"""Quadratic forms of the kernels of the kernel calibration error.

kappa(p, q) = exp(-d / s), "laplacian", d the total variation distance, half the l1 distance;
kappa(p, q) = exp(-d^2 / (2 s^2)), "gaussian", d the Euclidean distance divided by sqrt(2).

Points are rows: class probabilities, or one column with the probability of the positive class. In both
kernels d = |u - v| for two classes, whichever way they are written. Points of one column come in increasing
order.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from sklearn_calib._typing import Array

Form = Callable[[Array], Array]

KERNELS = ("laplacian", "gaussian")

#: Largest number of distinct points of several columns for which all pairs are computed.
MAX_DENSE = 1 << 13

# The median of distances is computed from at most this many samples.
_MEDIAN_SAMPLES = 1000

# exp(-_REACH^2 / 2) is the rounding error of 1.
_REACH = 8.5
# exp(-_FARTHEST^2 / 2) is 0.
_FARTHEST = 39.0
# Exponents up to this are far from overflow.
_LONGEST = 300.0
# Largest number of features kept in memory; more are recomputed for each call.
_KEPT_FEATURES = 1 << 23
# Largest matrix of all pairs that is kept in memory.
_KEPT_PAIRS = 1 << 22
_CHUNK = 1 << 11
_SMALL_CHUNK = 1 << 7


def kernel_matrix(first: Array, second: Array, kernel: str, bandwidth: float) -> Array:
    """Return kappa between rows: (m, C) and (k, C) give (m, k)."""
    distance = _distances(first, second, kernel)
    with np.errstate(over="ignore"):
        distance /= bandwidth
        if kernel == "gaussian":
            np.square(distance, out=distance)
            distance *= 0.5
    np.negative(distance, out=distance)
    return np.exp(distance, out=distance)


def powered_bandwidth(kernel: str, bandwidth: float, power: int) -> float:
    """Return the bandwidth at which the kernel is the given power of itself."""
    return bandwidth / (power if kernel == "laplacian" else float(np.sqrt(power)))


def median_distance(points: Array, weight: Array, kernel: str) -> float:
    """Return the median distance of two different samples, where each point has ``weight`` samples.

    Of more than 1000 samples, 1000 equally spaced ones in the order of the points are used. If more than
    half of the distances are 0, it is the median of the others; 1 if there is none.
    """
    last = np.cumsum(weight)
    n = last[-1]
    rows = min(int(n), _MEDIAN_SAMPLES)
    chosen = np.searchsorted(last, (np.arange(rows) + 0.5) * (n / rows), side="right")
    picked = points[chosen]
    distance = _distances(picked, picked, kernel)[np.triu_indices(rows, 1)]
    for some in (distance, distance[distance > 0.0]):
        if some.size and (median := float(np.median(some))) > 0.0:
            return median
    return 1.0


def kernel_form(points: Array, kernel: str, bandwidth: float) -> Form:
    """Return the function that maps rows x of shape (r, G) to sum_{g,h} kappa(p_g, p_h) x_g x_h, shape (r,).

    For one column: O(G) per row of x for the Laplacian kernel, and for the Gaussian kernel O(G min(G, 1/s)),
    up to rounding. For several columns O(G^2) per row. A small matrix of all pairs is kept in memory; a large
    one is computed in parts, once per call.
    """
    if points.shape[1] == 1 and kernel == "laplacian":
        return _laplacian_line(points[:, 0], bandwidth)
    if points.shape[1] == 1:
        frequency, _ = _frequencies(points[:, 0], bandwidth)
        if 2 * frequency.shape[0] < points.shape[0]:
            return _gaussian_line(points[:, 0], bandwidth)
    if points.shape[0] ** 2 <= _KEPT_PAIRS:
        gram = _gram(points, kernel, bandwidth)
        return lambda x: np.asarray(np.einsum("rg,rg->r", x @ gram, x))
    return _pairwise_form(points, kernel, bandwidth)


def kernel_triangles(points: Array, mass: Array, kernel: str, bandwidth: float) -> float:
    """Return sum_{g,h,l} kappa_gh kappa_hl kappa_lg m_g m_h m_l for points of one column.

    O(G) for the Laplacian kernel: kappa_gh kappa_hl kappa_lg depends only on the outermost two points.
    """
    u = points[:, 0]
    if kernel == "laplacian":
        decay = np.concatenate(([0.0], np.exp(-2.0 * _gaps(u, bandwidth))))
        ordered = singles = pairs = 0.0
        for first in range(0, u.shape[0], _CHUNK):
            rows = slice(first, first + _CHUNK)
            for m, keep in zip(mass[rows].tolist(), decay[rows].tolist(), strict=True):
                singles, pairs = singles * keep, pairs * keep
                ordered += m * pairs
                pairs += m * singles
                singles += m
        squared = _bilinear(kernel_form(points, kernel, bandwidth / 2.0), mass * mass, mass)
        cubes = float(np.sum(mass**3))
        return 6.0 * ordered + 3.0 * (squared - cubes) + cubes
    frequency, amplitude = _frequencies(u, bandwidth)
    if 2 * frequency.shape[0] < points.shape[0]:
        inner = np.zeros((2 * frequency.shape[0], 2 * frequency.shape[0]))
        for first in range(0, u.shape[0], _CHUNK):
            part = _features(u[first : first + _CHUNK] - u[0], frequency, amplitude)
            inner += part.T @ (part * mass[first : first + _CHUNK, np.newaxis])
        return float(np.sum((inner @ inner) * inner))
    return _narrow_triangles(points, mass, kernel, bandwidth)


def null_variance(points: Array, weight: Array, kernel: str, bandwidth: float) -> float:
    """Return the variance of sum_{i != j} kappa_ij <e_i - p_i, e_j - p_j> for labels e with distributions p.

    It is 2 sum_{i != j} kappa_ij^2 tr(S_i S_j); ``weight`` is the number of samples at each point.
    """
    narrow = powered_bandwidth(kernel, bandwidth, 2)
    if points.shape[1] == 1:
        v = points[:, 0] * (1.0 - points[:, 0])
        own = float(weight @ (v * v))
        total = float(kernel_form(points, kernel, narrow)((weight * v)[np.newaxis])[0])
    else:
        total = own = 0.0
        for first in range(0, points.shape[0], _SMALL_CHUNK):
            rows = slice(first, first + _SMALL_CHUNK)
            product = _cross_products(points[rows], points)
            product *= kernel_matrix(points[rows], points, kernel, narrow)
            total += float(weight[rows] @ product @ weight)
            own += float(weight[rows] @ product[:, rows].diagonal())
    between = total - own
    # below this, only rounding errors: no two uncertain samples are near each other
    return 2.0 * between if between > 1e-12 * own else 0.0


def null_cumulants(points: Array, weight: Array, kernel: str, bandwidth: float) -> tuple[float, float]:
    """Return variance and third cumulant of sum_{i != j} kappa_ij r_i r_j, r = y - p, for one column.

    With v = p (1 - p) and m = v (1 - 2 p) the latter is

        8 sum_{i, j, k distinct} kappa_ij kappa_jk kappa_ki v_i v_j v_k + 4 sum_{i != j} kappa_ij^3 m_i m_j.
    """
    p = points[:, 0]
    v = p * (1.0 - p)
    m = v * (1.0 - 2.0 * p)
    squared = kernel_form(points, kernel, powered_bandwidth(kernel, bandwidth, 2))
    cubed = kernel_form(points, kernel, powered_bandwidth(kernel, bandwidth, 3))
    cubes = float(weight @ v**3)
    equal_two = _bilinear(squared, weight * v * v, weight * v) - cubes
    distinct = kernel_triangles(points, weight * v, kernel, bandwidth) - 3.0 * equal_two - cubes
    pairs = float(cubed((weight * m)[np.newaxis])[0] - weight @ (m * m))
    return null_variance(points, weight, kernel, bandwidth), 8.0 * distinct + 4.0 * pairs


def _distances(first: Array, second: Array, kernel: str) -> Array:
    n_columns = first.shape[-1]
    total = np.zeros((*first.shape[:-1], second.shape[-2]))
    for column in range(n_columns):
        gap = first[..., :, np.newaxis, column] - second[..., np.newaxis, :, column]
        np.abs(gap, out=gap)
        if kernel == "gaussian" and n_columns > 1:
            np.square(gap, out=gap)
        total += gap
    if n_columns > 1:
        total *= 0.5
        if kernel == "gaussian":
            np.sqrt(total, out=total)
    return total


def _gram(points: Array, kernel: str, bandwidth: float) -> Array:
    gram = np.empty((points.shape[0], points.shape[0]))
    for first in range(0, points.shape[0], _SMALL_CHUNK):
        rows = slice(first, first + _SMALL_CHUNK)
        gram[rows] = kernel_matrix(points[rows], points, kernel, bandwidth)
    return gram


def _cross_products(first: Array, second: Array) -> Array:
    """Return tr(S_i S_j), S = diag(p) - p p', between rows of class probabilities."""
    other = np.swapaxes(second, -1, -2)
    inner = first @ other
    return np.asarray(inner - (first * first) @ other - first @ (other * other) + inner * inner)


def _bilinear(form: Form, x: Array, y: Array) -> float:
    both = form(np.stack((x + y, x - y)))
    return float(both[0] - both[1]) / 4.0


def _gaps(u: Array, bandwidth: float) -> Array:
    """Return the distances of neighbours in units of the bandwidth, limited to the domain of exp."""
    with np.errstate(over="ignore"):
        return np.minimum(np.diff(u) / bandwidth, 700.0)


def _laplacian_line(u: Array, bandwidth: float) -> Form:
    """Return the form of exp(-|u - v| / s) on increasing points.

    With rho_g = exp(-(u_g - u_{g-1}) / s) and A_g = x_g + rho_g A_{g-1}, it is
    sum_g (1 - rho_{g+1}^2) A_g^2, where the last rho is 0. A is a cumulative sum after multiplication by
    exp(u / s), over segments short enough for it.
    """
    gaps = _gaps(u, bandwidth)
    innovation = np.append(-np.expm1(-2.0 * gaps), 1.0)
    carry = np.exp(-gaps)
    place = np.concatenate(([0.0], np.cumsum(gaps)))
    starts = [0]
    while (after := int(np.searchsorted(place, place[starts[-1]] + _LONGEST))) < u.shape[0]:
        starts.append(max(after, starts[-1] + 1))
    starts.append(u.shape[0])
    segments = []
    for first, last in pairwise(starts):
        growth = np.exp((u[first:last] - u[first]) / bandwidth)
        segments.append((first, last, growth, innovation[first:last] / growth**2))

    def form(x: Array) -> Array:
        total = np.zeros(x.shape[0])
        before = np.zeros(x.shape[0])
        for first, last, growth, coefficient in segments:
            part = x[:, first:last] * growth
            if first:
                part[:, 0] += carry[first - 1] * before
            np.cumsum(part, axis=1, out=part)
            before = part[:, -1] / growth[-1]
            np.square(part, out=part)
            total += part @ coefficient
        return total

    return form


def _neighbourhoods(points: Array, bandwidth: float) -> Iterator[tuple[slice, list[slice]]]:
    """Yield blocks of points, and in parts the points for which a Gaussian kernel with them is not 0."""
    n, n_columns = points.shape
    for first in range(0, n, _SMALL_CHUNK):
        last, left, right = min(first + _SMALL_CHUNK, n), 0, n
        if n_columns == 1:
            u = points[:, 0]
            left = int(np.searchsorted(u, u[first] - _FARTHEST * bandwidth))
            right = int(np.searchsorted(u, u[last - 1] + _FARTHEST * bandwidth, side="right"))
        yield slice(first, last), [slice(at, min(at + _CHUNK, right)) for at in range(left, right, _CHUNK)]


def _pairwise_form(points: Array, kernel: str, bandwidth: float) -> Form:
    """Return the form as a sum over all pairs within reach, computed in blocks."""

    def form(x: Array) -> Array:
        total = np.zeros(x.shape[0])
        for here, pieces in _neighbourhoods(points, bandwidth):
            for there in pieces:
                near = kernel_matrix(points[there], points[here], kernel, bandwidth)
                total += np.einsum("rg,rg->r", x[:, there] @ near, x[:, here])
        return total

    return form


def _narrow_triangles(points: Array, mass: Array, kernel: str, bandwidth: float) -> float:
    """Return the sum over all triangles whose corners are within reach, computed in blocks."""
    total = 0.0
    for here, pieces in _neighbourhoods(points, bandwidth):
        for one in pieces:
            first = kernel_matrix(points[here], points[one], kernel, bandwidth) * mass[one]
            for other in pieces:
                second = kernel_matrix(points[here], points[other], kernel, bandwidth) * mass[other]
                between = kernel_matrix(points[one], points[other], kernel, bandwidth)
                total += float(mass[here] @ np.einsum("gh,gh->g", first @ between, second))
    return total


def _frequencies(u: Array, bandwidth: float) -> tuple[Array, Array]:
    """Return frequencies and weights with sum_k a_k cos(w_k x) = exp(-x^2 / (2 s^2)), up to rounding.

    It is the trapezoidal rule for the Fourier integral of the kernel. Its error comes from the periodic
    images of the kernel; the period keeps them away from all differences x of points.
    """
    period = (u[-1] - u[0]) / bandwidth + _REACH
    step = 2.0 * np.pi / period
    k = np.arange(np.ceil(min(_REACH / step, 1e7)) + 1.0)
    amplitude = np.exp(-0.5 * (k * step) ** 2) * step * np.sqrt(2.0 / np.pi)
    amplitude[0] /= 2.0
    return k * (step / bandwidth), amplitude


def _features(u: Array, frequency: Array, amplitude: Array) -> Array:
    angle = np.multiply.outer(u, frequency)
    root = np.sqrt(amplitude)
    return np.hstack((np.cos(angle) * root, np.sin(angle) * root))


def _gaussian_line(u: Array, bandwidth: float) -> Form:
    """Return the form of the Gaussian kernel on increasing points, by a Fourier expansion."""
    frequency, amplitude = _frequencies(u, bandwidth)
    place = u - u[0]
    n, n_features = u.shape[0], 2 * frequency.shape[0]
    kept = None
    if n * n_features <= _KEPT_FEATURES:
        kept = np.empty((n, n_features))
        for first in range(0, n, _CHUNK):
            kept[first : first + _CHUNK] = _features(place[first : first + _CHUNK], frequency, amplitude)

    def form(x: Array) -> Array:
        if kept is not None:
            projection = x @ kept
        else:
            projection = np.zeros((x.shape[0], n_features))
            for first in range(0, n, _CHUNK):
                rows = slice(first, first + _CHUNK)
                projection += x[:, rows] @ _features(place[rows], frequency, amplitude)
        return np.asarray(np.einsum("rf,rf->r", projection, projection))

    return form
