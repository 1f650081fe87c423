"""Slow, plain evaluations from the definitions, against which the package is tested."""

import itertools

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import norm

from sklearn_calib.metrics import MetricKernel


def gaussian(z):
    return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def absolute_integral(values, step):
    """Integral of |f| for f linear between nodes."""
    left, right = values[:-1], values[1:]
    crossing = left * right < 0
    span = np.where(crossing, np.abs(right - left), 1.0)
    return float((np.where(crossing, (left**2 + right**2) / span, np.abs(left + right)) / 2).sum() * step)


def folded_gaussian_sum(t, points, mass, s):
    """Sum of mass times the density, at increasing t, of points plus Gaussian noise folded into [0, 1]."""
    total, reach = np.zeros_like(t), int(np.ceil(9 * s / 2)) + 1
    for point, m in zip(points, mass, strict=True):
        for image in range(-reach, reach + 1):
            for center in (2 * image + point, 2 * image - point):
                # farther away the density is below the smallest number
                near = slice(*np.searchsorted(t, (center - 39 * s, center + 39 * s)))
                total[near] += m * gaussian((t[near] - center) / s) / s
    return total


def smooth_ece_at(y, p, w, s, part=lambda g, zero: g):
    """smECE_s by dense quadrature of its definition, or the part of one sign, np.maximum or np.minimum."""
    t = np.linspace(0, 1, int(np.ceil(200 / s)) + 1)
    g = folded_gaussian_sum(t, p, w * (y - p) / w.sum(), s)
    return absolute_integral(part(g, 0), t[1])


def kernel_mean(t, p, value, w, s, scale):
    """Kernel regression (eq. 1) by a double loop, with mirror images on the axis of probabilities (eq. 2)."""
    found = []
    for at in np.atleast_1d(t):
        sums = np.zeros(2)
        for x, v, weight in zip(p, value, w, strict=True):
            gaps = [at - 2 * k - image for k in range(-4, 5) for image in (x, -x)]
            gaps = gaps if scale == "probability" else [np.log(at / (1 - at) / (x / (1 - x)))]
            sums += weight * sum(np.exp(-0.5 * (gap / s) ** 2) for gap in gaps) * np.array([v, 1.0])
        found.append(sums[0] / sums[1])
    return np.array(found)


def logit_smoothed_ece_at(y, p, w, s, eps):
    """LS-ECE with Gaussian noise by dense quadrature around each cluster of log-odds."""
    q = np.clip(p, eps, 1 - eps)
    h, stretches = np.log(q / (1 - q)), []
    for point in np.sort(h):
        if stretches and point - 9 * s < stretches[-1][1]:
            stretches[-1][1] = point + 9 * s
        else:
            stretches.append([point - 9 * s, point + 9 * s])
    total = 0.0
    for low, high in stretches:
        t = np.linspace(low, high, int(np.ceil((high - low) / min(s, 0.5) * 200)) + 1)
        parts = zip(y, h, w / s, strict=True)
        g = sum(weight * gaussian((t - at) / s) * (outcome - expit(t)) for outcome, at, weight in parts)
        total += absolute_integral(g, t[1] - t[0])
    return total / w.sum()


def cutoff_by_enumeration(y, p, w):
    """Largest absolute residual sum over all intervals of predictions."""
    values, best = np.unique(p), 0.0
    for low, high in itertools.combinations_with_replacement(values, 2):
        best = max(best, abs(float(np.sum((w * (y - p))[(p >= low) & (p <= high)]))))
    return best / w.sum()


def lipschitz_program(y, p, w, place=lambda p: p):
    """wCE as the linear program of its definition, Lipschitz in the places of the predictions."""
    values, inverse = np.unique(p, return_inverse=True)
    c, m = np.bincount(inverse, weights=w * (y - p)), values.shape[0]
    rows, limits = [], []
    for i in range(m - 1):
        step = np.zeros(m)
        step[i], step[i + 1] = -1.0, 1.0
        rows += [step, -step]
        limits += [place(values[i + 1]) - place(values[i])] * 2
    A_ub = np.array(rows) if rows else None
    return -linprog(-c, A_ub=A_ub, b_ub=limits or None, bounds=[(-1, 1)] * m, method="highs").fun / w.sum()


def transport_program(y, p, w, grid):
    """The least E|u - p| over couplings of (p, y) with u on a grid that are calibrated: a dense program."""
    n, k = p.shape[0], grid.shape[0]
    cost, marginal = np.abs(grid - p[:, None]).ravel(), np.kron(np.eye(n), np.ones(k))
    # sum_i pi(i, u) (y_i - u) = 0 for every u
    balance = np.hstack([np.diag(outcome - grid) for outcome in y])
    A_eq, b_eq = np.vstack([marginal, balance]), np.append(w / w.sum(), np.zeros(k))
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solution = linprog(cost, A_eq=A_eq, b_eq=b_eq, method="highs", options=tight)
    assert solution.status == 0
    return solution.fun


def interval_by_partitions(y, p, w):
    """The interval error by trying all partitions of the distinct predictions."""
    values, best = np.unique(p), np.inf
    for cuts in itertools.product([False, True], repeat=len(values) - 1):
        parts, part = [], [values[0]]
        for cut, value in zip(cuts, values[1:], strict=True):
            if cut:
                parts.append(part)
                part = []
            part.append(value)
        parts.append(part)
        total = 0.0
        for part in parts:
            rows = (p >= part[0]) & (p <= part[-1])
            total += abs(np.sum((w * (y - p))[rows])) + (part[-1] - part[0]) * w[rows].sum()
        best = min(best, total)
    return best / w.sum()


def binned_ece(y, p, w, edges, norm_):
    """Binned ECE by a loop over bins given by their edges, the last one closed."""
    gaps, shares = [], []
    for j, (low, high) in enumerate(itertools.pairwise(edges)):
        inside = (p >= low) & ((p <= high) if j == len(edges) - 2 else (p < high))
        if w[inside].sum() > 0:
            gaps.append(np.sum((w * (y - p))[inside]) / w[inside].sum())
            shares.append(w[inside].sum() / w.sum())
    gaps, shares = np.abs(gaps), np.array(shares)
    return {"l1": shares @ gaps, "l2": np.sqrt(shares @ gaps**2), "max": gaps.max()}[norm_]


def decision_gap(y, p, w, tau, recalibration="monotone"):
    """Risk at a threshold minus the least risk of any rule 'act from this prediction upward'.

    For "either" also of any rule 'act up to this prediction', for "any" of acting on any set of predictions.
    """
    values, rank = np.unique(p, return_inverse=True)
    rules = rank >= np.arange(len(values) + 1)[:, np.newaxis]
    if recalibration == "either":
        rules = np.concatenate([rules, ~rules])
    if recalibration == "any":
        rules = (np.arange(2 ** len(values))[:, np.newaxis] >> rank & 1).astype(bool)

    def risk(act):
        return np.sum(w * np.where(act, tau * (1 - y), (1 - tau) * y), axis=-1) / w.sum()

    return risk(p >= tau) - risk(rules).min()


def isotonic_by_extremes(y, p, w):
    """Isotonic regression at each row: over beginnings the greatest of the least means over ends."""
    rows = w > 0
    values = np.unique(p[rows])
    weight = np.array([w[rows][p[rows] == value].sum() for value in values])
    events = np.array([(w * y)[rows][p[rows] == value].sum() for value in values])
    m = values.shape[0]
    fit = np.empty(m)
    for k in range(m):
        means = ([events[i:j].sum() / weight[i:j].sum() for j in range(k + 1, m + 1)] for i in range(k + 1))
        fit[k] = max(map(min, means))
    # a row without weight lies on the step below it
    return fit[np.maximum(np.searchsorted(values, p, side="right") - 1, 0)]


def brownian_range_tail(x):
    """P(range of Brownian motion on [0, 1] > x): 8 sum_k (-1)^(k - 1) k P(N > k x)."""
    k = np.arange(1, 400)
    return 8 * float(np.sum((-1.0) ** (k - 1) * k * norm.sf(k * x)))


def holm(pvalues):
    """P-values adjusted by Holm's step-down method, in the order given."""
    adjusted, largest = np.empty(len(pvalues)), 0.0
    for i, index in enumerate(np.argsort(pvalues)):
        largest = max(largest, min(1.0, (len(pvalues) - i) * pvalues[index]))
        adjusted[index] = largest
    return adjusted


@MetricKernel()
def brier(y_true, y_proba):
    """The Brier score without the checks of scikit-learn's, which take most of its time."""
    return float(np.mean((y_true - y_proba) ** 2))
