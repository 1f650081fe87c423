"""Segments, which are conjunctions of conditions on features, and a shift of the log-odds in each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sklearn_calib._core._columns import Scale
from sklearn_calib._typing import Array

# L2 penalty of a shift, and cost of each end of the conditions but the first.
_PENALTY, _COST = 5.0, 10.0
# First conditions: bins of a number, most frequent categories, how many are paired with all others, and
# samples with which pairs are compared.
_CUTS, _FREQUENT, _PAIRED, _MOST_COMPARED = 8, 20, 100, 20_000


class Condition(NamedTuple):
    """Whether each code of a feature is inside, and the number of ends of the interval of codes."""

    inside: NDArray[np.bool_]
    ends: int


Conditions = dict[int, Condition]
Codes = NDArray[np.intp]


class Segments:
    """Segments by their conditions on columns of codes, and the shifts of the log-odds."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.found: list[tuple[Conditions, float]] = []

    def staged_predict(self, Z: Codes) -> Iterator[Array]:
        """Yield the sum of the shifts of the first k segments, for k from 1 to ``most``."""
        total = np.zeros(Z.shape[0])
        for k in range(self.most):
            if k < len(self.found):
                conditions, shift = self.found[k]
                total = total + shift * _members(conditions, Z)
            yield total

    def predict(self, Z: Codes) -> Array:
        """Return the sum of all shifts."""
        *_, total = self.staged_predict(Z)
        return total


def grow_segments(scales: list[Scale], Z: Codes, f: Array, y: Array, w: Array, most: int) -> Segments:
    """Return up to ``most`` segments, one after the other, in which log-odds f are too high or too low."""
    found, f, first = Segments(most), f.copy(), _first_conditions(Z, scales)
    some = slice(None, None, -(-Z.shape[0] // _MOST_COMPARED))
    inside = np.array([each.inside[Z[some, j]] for j, each in first], dtype=np.float32)
    for _ in range(most):
        p = expit(f)
        g, h = w * (y - p), w * p * (1.0 - p)
        # the best conditions, each with any other
        few = [v[some].astype(np.float32) for v in (g, h)]
        best = np.argsort(-_score(*(inside @ v for v in few)))[:_PAIRED]
        score = _score(*((inside[best] * v) @ inside.T for v in few))
        i, k = np.unravel_index(score.argmax(), score.shape)
        conditions = _improved(dict([first[best[i]], first[k]]), Z, scales, g, h)
        if not conditions:
            break
        members = _members(conditions, Z)
        found.found.append((conditions, float(g[members].sum() / (h[members].sum() + _PENALTY))))
        f[members] += found.found[-1][1]
    return found


def _first_conditions(Z: Codes, scales: list[Scale]) -> list[tuple[int, Condition]]:
    """Return half-lines and frequent categories of each feature."""
    found = []
    for j, scale in enumerate(scales):
        size = scale.size + 2
        if scale.kind == "categories":
            rows = np.eye(min(size, _FREQUENT), size, dtype=bool)
        else:
            cuts = np.quantile(Z[:, j], np.arange(1, _CUTS) / _CUTS, method="lower")
            below = np.tri(size, dtype=bool)[np.unique(cuts)]
            rows = np.concatenate((below, ~below))
        found += [(j, Condition(row, 1)) for row in rows]
    return found


def _improved(conditions: Conditions, Z: Codes, scales: list[Scale], g: Array, h: Array) -> Conditions:
    """Return the conditions after the best changes of one at a time, or none if the score is not positive.

    The score is that of the shift minus the cost of the ends.
    """
    members, n_ends = _members(conditions, Z), sum(each.ends for each in conditions.values())
    largest = float(_score(g[members].sum(), h[members].sum())) - _cost(n_ends)
    while True:
        change, members = None, _members(conditions, Z)
        for j, scale in enumerate(scales):
            others = {k: each for k, each in conditions.items() if k != j}
            rows = members if j not in conditions else _members(others, Z)
            codes, size = Z[rows, j], scale.size + 2
            G, H = (np.bincount(codes, v[rows], size) for v in (g, h))
            order = np.argsort(G / (H + _PENALTY)) if scale.kind == "categories" else np.arange(size)
            known = (H > 0) | (scale.kind != "categories")
            # differences are the sums over intervals of codes in this order
            G, H = (np.append(0.0, np.cumsum(v[order])) for v in (G, H))
            at = np.arange(size + 1)
            ends = (at[:, np.newaxis] > 0).astype(int) + (at < size)
            cost = _cost(ends + sum(each.ends for each in others.values()))
            score = _score(G - G[:, np.newaxis], np.abs(H - H[:, np.newaxis])) - cost
            low, high = map(int, np.unravel_index(score.argmax(), score.shape))
            if score[low, high] > largest + 1e-9:
                largest = float(score[low, high])
                inside = np.zeros(size, dtype=bool)
                inside[order[low:high]] = True
                change = others, j, Condition(inside & known, int(ends[low, high]))
        if change is None:
            return conditions if largest > 0.0 else {}
        conditions, j, condition = change
        if condition.ends:
            conditions[j] = condition


def _cost(ends: Any) -> Any:
    return _COST * np.maximum(ends - 1, 0)


def _score(G: Any, H: Any) -> Any:
    """Return about twice the increase of the log likelihood by a shift."""
    return G**2 / (H + _PENALTY)


def _members(conditions: Conditions, Z: Codes) -> NDArray[np.bool_]:
    inside = np.ones(Z.shape[0], dtype=bool)
    for j, condition in conditions.items():
        inside &= condition.inside[Z[:, j]]
    return inside
