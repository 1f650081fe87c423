"""Quadratic forms of the kernel of the kernel calibration error, kappa(p, q) = exp(-d / s).

d is the total variation distance, half the l1 distance. Points are rows: class probabilities, or one column
with the probability of the positive class, for which d = |p - q|, as if both classes had a column. Points of
one column come in increasing order.
"""

from collections.abc import Callable, Iterator

import numpy as np

from sklearn_calib._core._blocks import ALL, block_sum, blocks
from sklearn_calib._core._grouping import CHUNK
from sklearn_calib._typing import Array

#: Values on the last axis, or a function from a slice to that part of them.
Columns = Array | Callable[[slice], Array]
Form = Callable[[Columns], Array]

#: Largest number of distinct points of several columns for which all pairs are computed.
MAX_DENSE = 1 << 13

# The median of distances is computed from at most this many samples.
_MEDIAN_SAMPLES = 1000

# Exponents up to this are far from overflow.
_LONGEST = 300.0
# Largest matrix of all pairs that is kept in memory.
_KEPT_PAIRS = 1 << 22
_SMALL_CHUNK = 1 << 7


def kernel_matrix(first: Array, second: Array, bandwidth: float) -> Array:
    """Return kappa between rows: (m, C) and (k, C) give (m, k)."""
    distance = _distances(first, second)
    with np.errstate(over="ignore"):
        distance /= -bandwidth
    return np.exp(distance, out=distance)


def median_distance(points: Array, weight: Array) -> float:
    """Return the median distance of two different samples, where each point has ``weight`` samples.

    Of more than 1000 samples, 1000 equally spaced ones in the order of the points are used. If more than
    half of the distances are 0, it is the median of the others; 1 if there is none.
    """
    last = np.cumsum(weight)
    n = last[-1]
    rows = min(int(n), _MEDIAN_SAMPLES)
    chosen = np.searchsorted(last, (np.arange(rows) + 0.5) * (n / rows), side="right")
    picked = points[chosen]
    distance = _distances(picked, picked)[np.triu_indices(rows, 1)]
    for some in (distance, distance[distance > 0.0]):
        if some.size and (median := float(np.median(some))) > 0.0:
            return median
    return 1.0


def kernel_form(points: Array, bandwidth: float) -> Form:
    """Return the function that maps rows x of shape (r, G) to sum_{g,h} kappa(p_g, p_h) x_g x_h, shape (r,).

    O(G) per row of x for one column. For several columns O(G^2): a small matrix of all pairs is kept in
    memory; a large one is computed in parts, once per call.
    """
    if points.shape[1] == 1:
        return _form_on_line(points[:, 0], bandwidth)
    parts = list(blocks(points.shape[0], _SMALL_CHUNK))
    if points.shape[0] ** 2 <= _KEPT_PAIRS:
        gram = np.concatenate([kernel_matrix(points[rows], points, bandwidth) for rows in parts])
        return lambda x: np.asarray(np.einsum("rg,rg->r", _at(x, ALL) @ gram, _at(x, ALL)))

    def form(x: Columns) -> Array:
        x = _at(x, ALL)
        total = np.zeros(x.shape[0])
        for rows in parts:
            near = kernel_matrix(points[rows], points, bandwidth)
            total += np.einsum("rg,rg->r", (near @ x.T).T, x[:, rows])
        return total

    return form


def kernel_triangles(points: Array, mass: Columns, bandwidth: float) -> float:
    """Return sum_{g,h,l} kappa_gh kappa_hl kappa_lg m_g m_h m_l for points of one column, O(G).

    The product of the three depends only on the outermost two points.
    """
    u = points[:, 0]
    ordered = singles = pairs = cubes = 0.0
    # sums over points, and over pairs of points, before each, with the decay exp(-2 d / s)
    for rows, growth, decay in _segments(u, bandwidth / 2.0):
        m = _at(mass, rows)
        before = _before(m * growth, singles * decay)
        both = _before(m * before[:-1], pairs * decay)
        ordered += float(m @ (both[:-1] / growth))
        singles, pairs = before[-1] / growth[-1], both[-1] / growth[-1]
        cubes += float(np.sum(m**3))
    squared = _bilinear(kernel_form(points, bandwidth / 2.0), lambda rows: _at(mass, rows) ** 2, mass)
    return 6.0 * ordered + 3.0 * (squared - cubes) + cubes


def _before(values: Array, start: float) -> Array:
    """Return the cumulative sums before each value and after the last, from ``start`` on."""
    sums = np.empty(values.shape[0] + 1)
    sums[0] = start
    sums[1:] = values
    return np.cumsum(sums, out=sums)


def null_variance(points: Array, weight: Array, bandwidth: float, scale: Array | float = 1.0) -> float:
    """Return the variance of sum_{i != j} kappa_ij <e_i - p_i, e_j - p_j> for labels e with distributions p.

    It is 2 sum_{i != j} kappa_ij^2 tr(S_i S_j); ``weight`` is the number of samples at each point. Their
    residuals are multiplied by ``scale``, and S by its square.
    """
    # the square of the kernel is one of half the bandwidth
    narrow = bandwidth / 2.0
    if points.shape[1] == 1:
        v = _variances(points, scale)
        own = float(block_sum(points.shape[0], lambda rows: weight[rows] @ v(rows) ** 2))
        total = float(kernel_form(points, narrow)(lambda rows: (weight[rows] * v(rows))[np.newaxis])[0])
    else:
        square = np.square(scale)
        total = own = 0.0
        mass = weight * square
        for rows in blocks(points.shape[0], _SMALL_CHUNK):
            product = _cross_products(points[rows], points)
            product *= kernel_matrix(points[rows], points, narrow)
            total += float(mass[rows] @ product @ mass)
            own += float((mass * square)[rows] @ product[:, rows].diagonal())
    between = total - own
    # below this, only rounding errors: no two uncertain samples are near each other
    return 2.0 * between if between > 1e-12 * own else 0.0


def null_cumulants(
    points: Array, weight: Array, bandwidth: float, scale: Array | float = 1.0
) -> tuple[float, float]:
    """Return variance and third cumulant of sum_{i != j} kappa_ij r_i r_j, r = w (y - p), for one column.

    With v = w^2 p (1 - p) and m = w v (1 - 2 p), where ``scale`` is w, the latter is

        8 sum_{i, j, k distinct} kappa_ij kappa_jk kappa_ki v_i v_j v_k + 4 sum_{i != j} kappa_ij^3 m_i m_j.
    """
    n, v = points.shape[0], _variances(points, scale)
    scales = np.broadcast_to(scale, n)

    def w_m(rows: slice) -> Array:
        return weight[rows] * scales[rows] * v(rows) * (1.0 - 2.0 * points[rows, 0])

    def w_v(rows: slice) -> Array:
        return weight[rows] * v(rows)

    squared = kernel_form(points, bandwidth / 2.0)
    cubed = kernel_form(points, bandwidth / 3.0)
    cubes = float(block_sum(n, lambda rows: weight[rows] @ v(rows) ** 3))
    equal_two = _bilinear(squared, lambda rows: w_v(rows) * v(rows), w_v) - cubes
    distinct = kernel_triangles(points, w_v, bandwidth) - 3.0 * equal_two - cubes
    own = float(block_sum(n, lambda rows: (w_m(rows) ** 2 / weight[rows]).sum()))
    pairs = float(cubed(lambda rows: w_m(rows)[np.newaxis])[0]) - own
    return null_variance(points, weight, bandwidth, scale), 8.0 * distinct + 4.0 * pairs


def _variances(points: Array, scale: Array | float) -> Callable[[slice], Array]:
    """Return the function from points of one column to the variances of weighted outcomes there."""
    scales = np.broadcast_to(scale, points.shape[0])
    return lambda rows: scales[rows] ** 2 * points[rows, 0] * (1.0 - points[rows, 0])


def _at(values: Columns, rows: slice) -> Array:
    """Return values on the last axis, where they are known or computed."""
    return values(rows) if callable(values) else values[..., rows]


def _distances(first: Array, second: Array) -> Array:
    total = np.zeros((first.shape[0], second.shape[0]))
    for one, other in zip(first.T, second.T, strict=True):
        gap = one[:, np.newaxis] - other
        total += np.abs(gap, out=gap)
    if first.shape[1] > 1:
        total *= 0.5
    return total


def _cross_products(first: Array, second: Array) -> Array:
    """Return tr(S_i S_j), S = diag(p) - p p', between rows of class probabilities."""
    other = second.T
    inner = first @ other
    return np.asarray(inner - (first * first) @ other - first @ (other * other) + inner * inner)


def _bilinear(form: Form, x: Columns, y: Columns) -> float:
    def both(rows: slice) -> Array:
        one, other = _at(x, rows), _at(y, rows)
        return np.stack((one + other, one - other))

    found = form(both)
    return float(found[0] - found[1]) / 4.0


def _gaps(u: Array, bandwidth: float) -> Array:
    """Return the distances of neighbors in units of the bandwidth, limited to the domain of exp."""
    with np.errstate(over="ignore"):
        return np.minimum(np.diff(u) / bandwidth, 700.0)


def _segments(u: Array, bandwidth: float) -> Iterator[tuple[slice, Array, float]]:
    """Yield segments of increasing points that are short enough for exp(distance / bandwidth).

    That of each point from the first is yielded, and the decay since the last point of the previous segment.
    """
    first = 0
    while first < u.shape[0]:
        near = u[first : first + CHUNK]
        last = first + max(1, int(np.searchsorted(near, u[first] + _LONGEST * bandwidth)))
        growth = np.exp((u[first:last] - u[first]) / bandwidth)
        decay = float(np.exp(-_gaps(u[first - 1 : first + 1], bandwidth)[0])) if first else 0.0
        yield slice(first, last), growth, decay
        first = last


def _form_on_line(u: Array, bandwidth: float) -> Form:
    """Return the form of exp(-|u - v| / s) on increasing points.

    With rho_g = exp(-(u_g - u_{g-1}) / s) and A_g = x_g + rho_g A_{g-1}, it is
    sum_g (1 - rho_{g+1}^2) A_g^2, where the last rho is 0. A is a cumulative sum after multiplication by
    exp(u / s), over segments short enough for it.
    """

    def parts() -> Iterator[tuple[slice, Array, float, Array]]:
        for rows, growth, decay in _segments(u, bandwidth):
            innovation = np.ones_like(growth)
            gaps = _gaps(u[rows.start : rows.stop + 1], bandwidth)
            innovation[: gaps.shape[0]] = -np.expm1(-2.0 * gaps)
            yield rows, growth, decay, innovation / growth**2

    # few points are evaluated often
    kept = list(parts()) if u.shape[0] <= CHUNK else None

    def form(x: Columns) -> Array:
        total, before = np.zeros(1), np.zeros(1)
        for rows, growth, decay, coefficient in parts() if kept is None else kept:
            part = _at(x, rows) * growth
            part[:, 0] += decay * before
            np.cumsum(part, axis=1, out=part)
            before = part[:, -1] / growth[-1]
            total = total + np.square(part, out=part) @ coefficient
        return total

    return form
