"""Scaling-binning: its steps one by one, its division of the rows, its promise."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator, ScalingBinningCalibrator
from tests.calibrators._own import Keeper


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(140), np.repeat([0.1, 0.5], 20)])
    return p, (rng.random(180) < p**2).astype(int), rng.integers(1, 4, 180).astype(float)


def bins_by_loops(value, w, n_bins):
    """Number of the bin of each row: where the middle of its value's weight falls, counted without gaps."""
    below, number = 0.0, {}
    for v in np.unique(value):
        mass = w[value == v].sum()
        number[v] = min(int((below + mass / 2) / w.sum() * n_bins), n_bins - 1)
        below += mass
    ranks = {j: k for k, j in enumerate(sorted(set(number.values())))}
    return np.array([ranks[number[v]] for v in value])


@pytest.mark.parametrize("calibrator", [PlattCalibrator(), IsotonicCalibrator()], ids=repr)
@pytest.mark.parametrize("n_bins", [1, 4, 15])
@pytest.mark.parametrize("unit", [1.0, 0.37])
def test_without_division_step_by_step(data, calibrator, n_bins, unit):
    p, y, w = data
    w = w * unit
    value = type(calibrator)().fit(p, y, w).transform(p)
    bins = bins_by_loops(value, w, n_bins)
    expected = [np.average(value[bins == j], weights=w[bins == j]) for j in bins]
    result = ScalingBinningCalibrator(calibrator, n_bins=n_bins, split=False).fit(p, y, w)
    np.testing.assert_allclose(result.transform(p), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.bin_counts_, np.bincount(bins, w), rtol=1e-12)
    np.testing.assert_allclose(result.part_sizes_, w.sum(), rtol=1e-12)


@pytest.mark.parametrize("n_bins", [2, 5])
def test_with_division_step_by_step(n_bins):
    """With distinct scores the parts can be told: one fits, and the means of the bins tell the others."""
    p, y = np.random.default_rng(0).permutation(np.arange(1, 91) / 91), np.arange(90) % 3 // 2
    found = ScalingBinningCalibrator(Keeper(np.square), n_bins=n_bins, random_state=3).fit(p, y)
    scores, codes, weight = found.calibrator_.given_
    assert weight is None
    assert (np.bincount(codes).tolist(), found.part_sizes_.tolist()) == ([20, 10], [30, 30, 30])
    assert all(y[p == s] == c for s, c in zip(scores, codes, strict=True))
    # the other rows: those of one half have the means of the bins, those of the other the edges
    left = np.setdiff1d(p, scores) ** 2
    inside = np.searchsorted(found.bin_edges_, left)
    for j, (mean, count) in enumerate(zip(found.bin_values_, found.bin_counts_, strict=True)):
        mine = np.sort(left[inside == j])
        assert 1 <= count < mine.size
        assert mine[: int(count)].mean() <= mean <= mine[-int(count) :].mean()
        # as many rows placed the bins, by equal weight
        assert mine.size - count == pytest.approx(30 / n_bins, abs=1)
    for edge in found.bin_edges_:
        assert np.isclose(np.add.outer(left, left) / 2, edge, rtol=0, atol=1e-15).any()


def test_weights_are_counts_that_are_divided(data):
    p, y, w = data
    times, weighted = w.astype(int), ScalingBinningCalibrator(random_state=0).fit(p, y, w)
    # the same rows in the same order, hence the same draw
    repeated = ScalingBinningCalibrator(random_state=0).fit(np.repeat(p, times), np.repeat(y, times))
    np.testing.assert_array_equal(weighted.transform(p), repeated.transform(p))
    assert weighted.part_sizes_.sum() == w.sum()


def test_a_bin_without_rows_of_the_third_part():
    calibrator = ScalingBinningCalibrator(random_state=0).fit([0.2, 0.6, 0.9], [0, 1, 1])
    assert (calibrator.part_sizes_.tolist(), calibrator.bin_counts_.tolist()) == ([2, 1, 0], [0])
    assert calibrator.bin_values_[0] in calibrator.calibrator_.transform([0.2, 0.6, 0.9])


def test_a_map_that_ignores_weights_and_one_of_scikit_learn():
    rng = np.random.default_rng(2)
    s = rng.normal(size=600) * 3
    y = (rng.random(600) < 1 / (1 + np.exp(-s))).astype(int)
    calibrator = ScalingBinningCalibrator(LogisticRegression(), n_bins="auto", random_state=0).fit(s, y)
    assert calibrator.n_bins_ == 6
    assert (np.diff(calibrator.bin_values_) > 0).all()
    assert np.mean((calibrator.transform(s) - 1 / (1 + np.exp(-s))) ** 2) < 0.01


def test_what_cannot_be_divided():
    with pytest.raises(ValueError, match="X has 2 samples, which cannot be divided into three"):
        ScalingBinningCalibrator().fit([0.1, 0.9], [0, 1])
    assert ScalingBinningCalibrator(split=False).fit([0.1, 0.9], [0, 1]).bin_counts_.sum() == 2
    with pytest.raises(ValueError, match="sample_weight must contain whole numbers"):
        ScalingBinningCalibrator().fit([0.1, 0.5, 0.9], [0, 0, 1], [1, 1.5, 1])
    with pytest.raises(ValueError, match=r"3 rows count as 1e\+09 samples, .*Pass smaller weights, or split"):
        ScalingBinningCalibrator().fit([0.1, 0.5, 0.9], [0, 0, 1], [10**9, 1, 1])
