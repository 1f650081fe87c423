"""Binned ECE and the monotone sweep against loops over bins."""

import itertools

import numpy as np
import pytest

from sklearn_calib.metrics import expected_calibration_error, sweep_calibration_error
from tests._references import binned_ece
from tests._samples import small


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("edges", [[0, 1], [0, 0.05, 0.2, 0.9, 1], np.arange(8) / 7])
def test_edges(edges, norm):
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(100), np.repeat(edges, 3)])
    y = (rng.random(p.shape[0]) < p**2).astype(int)
    w = rng.integers(1, 5, p.shape[0]).astype(float)
    value = expected_calibration_error(y, p, sample_weight=w, n_bins=edges, norm=norm)
    assert value == pytest.approx(binned_ece(y, p, w, edges, norm), abs=1e-12)
    # edges decide, whatever the strategy
    options = {"sample_weight": w, "n_bins": edges, "norm": norm, "strategy": "quantile"}
    assert expected_calibration_error(y, p, **options) == value


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_quantile_bins(norm):
    rng = np.random.default_rng(0)
    p = np.sort(rng.random(60))
    y = (rng.random(60) < p).astype(int)
    # 60 distinct values in 12 bins of five
    expected = binned_ece(y, p, np.ones(60), np.append(p[::5], 1.0), norm)
    found = expected_calibration_error(y, p, strategy="quantile", n_bins=12, norm=norm)
    assert found == pytest.approx(expected)


def test_quantile_bins_keep_ties_together():
    p = np.array([0.1] * 7 + [0.9])
    # whatever the labels' order, seven equal predictions form one bin
    for y in ([0, 0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0, 1]):
        value = expected_calibration_error(y, p, strategy="quantile", n_bins=4)
        assert value == pytest.approx(7 / 8 * abs(3 / 7 - 0.1) + 1 / 8 * 0.1)


def squares_by_loops(y, p, w, n_bins, debias):
    """The squared l2 error of a binary sample, bin by bin and sample by sample; it may be negative."""
    total = 0.0
    for b in range(n_bins):
        members = [i for i in range(len(y)) if min(int(p[i] * n_bins), n_bins - 1) == b and w[i] > 0]
        count = sum(w[i] for i in members)
        if count == 0 or (debias and count == 1):
            continue
        frequency = sum(w[i] * y[i] for i in members) / count
        gap = frequency - sum(w[i] * p[i] for i in members) / count
        noise = frequency * (1 - frequency) / (count - 1) if debias else 0.0
        total += count / sum(w) * (gap**2 - noise)
    return total


@pytest.mark.parametrize("debias", [False, True])
@pytest.mark.parametrize("calibrated", [False, True])
def test_l2_over_classes_is_the_root_of_the_mean_square(debias, calibrated):
    rng = np.random.default_rng(3)
    p = rng.dirichlet([1, 2, 3, 1], size=120)
    q = p if calibrated else p[:, ::-1]
    y, w = np.array([rng.choice(4, p=row) for row in q]), rng.integers(0, 3, 120)
    top = p.argmax(axis=1)
    by_class = [squares_by_loops(y == k, p[:, k], w, 5, debias) for k in range(4)]
    rows = [(k, top == k) for k in range(4) if w[top == k].sum() > 0]
    predicted = [w[r].sum() * squares_by_loops((y == k)[r], p[r, k], w[r], 5, debias) for k, r in rows]
    squares = {
        "classwise": sum(by_class) / 4,
        "confidence": squares_by_loops(y == top, p.max(axis=1), w, 5, debias),
        "top-label": sum(predicted) / w.sum(),
    }
    if debias and calibrated:
        assert min(by_class) < 0 < max(by_class)
    for reduction, square in squares.items():
        options = {"norm": "l2", "debias": debias, "n_bins": 5, "sample_weight": w, "reduction": reduction}
        value = expected_calibration_error(y, p, **options)
        assert value == pytest.approx(np.sqrt(max(square, 0.0)), abs=1e-12)
    # labels that exclude each other, as columns
    labels = expected_calibration_error(np.eye(4)[y], p, norm="l2", debias=debias, n_bins=5, sample_weight=w)
    assert labels == pytest.approx(np.sqrt(max(squares["classwise"], 0.0)), abs=1e-12)


def canonical_by_loops(y, p, w, n_bins, norm, debias=False):
    """Rows are gathered in a dictionary by the cell of the simplex that they lie in."""
    n_classes, cells = p.shape[1], {}
    for i, row in enumerate(p):
        c = [n_bins * sum(row[: k + 1]) for k in range(n_classes - 1)]
        whole = tuple(int(np.floor(value)) for value in c)
        order = tuple(sorted(range(len(c)), key=lambda k, c=c: c[k] - np.floor(c[k])))
        cells.setdefault((whole, order), []).append(i)
    terms, shares = [], []
    for rows in cells.values():
        total = w[rows].sum()
        gap = [np.sum(w[rows] * ((y[rows] == k) - p[rows, k])) / total for k in range(n_classes)]
        if norm == "l2":
            value = sum(g * g for g in gap) / 2
            if debias:
                frequency = [np.sum(w[rows] * (y[rows] == k)) / total for k in range(n_classes)]
                noise = sum(f * (1 - f) for f in frequency) / 2
                value = value - noise / (total - 1) if total > 1 else 0.0
        else:
            value = sum(abs(g) for g in gap) / 2
        terms.append(value)
        shares.append(total / w.sum())
    if norm == "max":
        return max(terms)
    mean = float(np.dot(shares, terms))
    return mean if norm == "l1" else np.sqrt(max(mean, 0.0))


@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize(("norm", "debias"), [("l1", False), ("l2", False), ("l2", True), ("max", False)])
def test_canonical_bins(n_classes, norm, debias):
    rng = np.random.default_rng(n_classes)
    p, y = rng.dirichlet(np.ones(n_classes), size=150), rng.integers(0, n_classes, 150)
    w = rng.integers(1, 4, 150)
    for n_bins in (1, 2, 4):
        options = {"n_bins": n_bins, "norm": norm, "debias": debias, "reduction": "canonical"}
        value = expected_calibration_error(y, p, sample_weight=w, **options)
        assert value == pytest.approx(canonical_by_loops(y, p, w, n_bins, norm, debias), abs=1e-9)
        repeated = expected_calibration_error(np.repeat(y, w), np.repeat(p, w, axis=0), **options)
        assert value == pytest.approx(repeated, abs=1e-9)


def test_canonical_bins_of_two_classes_are_the_usual_ones():
    y, p, canonical = [0, 1, 1, 2], [[0.5, 0.3, 0.2]] * 4, {"reduction": "canonical"}
    binary = expected_calibration_error([0, 1, 1], [0.2, 0.3, 0.9])
    assert expected_calibration_error([0, 1, 1], [0.2, 0.3, 0.9], **canonical) == binary
    with pytest.raises(ValueError, match="strategy"):
        expected_calibration_error(y, p, strategy="quantile", **canonical)
    with pytest.raises(ValueError, match="whole numbers"):
        expected_calibration_error(y, p, norm="l2", debias=True, sample_weight=[0.5] * 4, **canonical)


def frequencies(y, p, w, n_bins, strategy):
    """Event frequency of each non-empty bin, by a walk over the distinct values."""
    place = {}
    total, before = w.sum(), 0.0
    for value in sorted(set(p.tolist())):
        mass = w[p == value].sum()
        if strategy == "quantile":
            place[value] = min(int((before + mass / 2) * n_bins / total), n_bins - 1)
        else:
            place[value] = max(j for j in range(n_bins) if j / n_bins <= value)
        before += mass
    index = np.array([place[value] for value in p.tolist()])
    return [np.sum((w * y)[index == j]) / w[index == j].sum() for j in sorted(set(index.tolist()))]


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("seed", range(12))
def test_stops_before_the_first_fall(strategy, seed):
    y, p, w = small(seed, largest=120)
    chosen = 1
    for n_bins in range(2, len(set(p.tolist())) + 1):
        found = frequencies(y, p, w, n_bins, strategy)
        if any(after < before - 1e-12 for before, after in itertools.pairwise(found)):
            break
        chosen = n_bins
    for norm in ("l1", "l2"):
        given = {"sample_weight": w, "strategy": strategy, "norm": norm, "pos_label": 1}
        expected = expected_calibration_error(y, p, n_bins=chosen, **given)
        value = sweep_calibration_error(y, p, **given)
        assert value == pytest.approx(expected, abs=1e-12)
        if strategy == "uniform":
            edges = np.arange(chosen + 1) / chosen
            assert value == pytest.approx(binned_ece(y, p, w, edges, norm), abs=1e-12)
