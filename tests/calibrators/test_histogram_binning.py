"""Histogram binning against loops over rows."""

import numpy as np
import pytest

from sklearn_calib.calibrators import HistogramBinningCalibrator


def equal_mass_by_loops(scores, y, w, n_bins):
    """Walk through the distinct scores: each goes where the middle of its weight falls."""
    below, members = 0.0, {}
    for s in np.unique(scores):
        rows = scores == s
        members.setdefault(min(int((below + w[rows].sum() / 2) / w.sum() * n_bins), n_bins - 1), []).append(s)
        below += w[rows].sum()
    value = {}
    for group in members.values():
        rows = np.isin(scores, group)
        for s in group:
            value[s] = ((w * y)[rows].sum(), w[rows].sum())
    return np.array([value[s] for s in scores]).T


def equal_width_by_loops(p, y, w, n_bins):
    events, weight = np.zeros(n_bins), np.zeros(n_bins)
    for s, label, mass in zip(p, y, w, strict=True):
        # the greatest j with j / n_bins <= s
        j = max(k for k in range(n_bins) if k / n_bins <= s)
        events[j] += label * mass
        weight[j] += mass
    return events, weight


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(150), np.repeat([0.0, 0.29, 0.5, 1.0], 15)])
    return p, (rng.random(210) < p).astype(int), rng.integers(1, 4, 210).astype(float)


@pytest.mark.parametrize("n_bins", [1, 2, 7, 15, 60, 1000])
@pytest.mark.parametrize(("smoothing", "added"), [(None, 0), (1, 1), (0.3, 0.3)])
def test_bins_of_equal_mass(data, n_bins, smoothing, added):
    p, y, w = data
    calibrator = HistogramBinningCalibrator(n_bins=n_bins, smoothing=smoothing).fit(p, y, w)
    events, weight = equal_mass_by_loops(p, y, w, n_bins)
    expected = (events + added) / (weight + 2 * added)
    np.testing.assert_allclose(calibrator.transform(p), expected, rtol=0, atol=1e-14)
    # ties are never parted, and no bin is empty
    assert calibrator.n_bins_ <= n_bins
    assert (calibrator.bin_counts_ > 0).all()
    assert calibrator.bin_counts_.sum() == w.sum()
    assert not np.isin(calibrator.bin_edges_, p).any()


@pytest.mark.parametrize("n_bins", [1, 2, 10, 100])
@pytest.mark.parametrize(("smoothing", "added"), [(None, 0), (1, 1)])
def test_bins_of_equal_width(data, n_bins, smoothing, added):
    p, y, w = data
    calibrator = HistogramBinningCalibrator(n_bins=n_bins, strategy="uniform", smoothing=smoothing)
    calibrator.fit(p, y, w)
    events, weight = equal_width_by_loops(p, y, w, n_bins)
    assert calibrator.n_bins_ == n_bins
    np.testing.assert_allclose(calibrator.bin_counts_, weight, rtol=1e-14)
    occupied = weight > 0
    assert occupied.all() == (n_bins < 100)
    rate = events[occupied] / weight[occupied]
    np.testing.assert_allclose(calibrator.bin_event_rates_[occupied], rate, rtol=1e-14)
    assert np.isnan(calibrator.bin_event_rates_[~occupied]).all()
    value = (events[occupied] + added) / (weight[occupied] + 2 * added)
    np.testing.assert_allclose(calibrator.bin_values_[occupied], value, rtol=1e-14)


def test_empty_bins_by_hand():
    """Five bins, of which the second and third have rows, and the last."""
    calibrator = HistogramBinningCalibrator(n_bins=6, strategy="uniform", smoothing=None)
    calibrator.fit([0.2, 0.3, 0.4, 0.45, 0.95], [0, 1, 0, 0, 1])
    assert calibrator.bin_counts_.tolist() == [0, 2, 2, 0, 0, 1]
    np.testing.assert_allclose(calibrator.bin_values_, [1 / 2, 1 / 2, 0, 1 / 3, 2 / 3, 1], rtol=0, atol=1e-15)
    assert calibrator.transform([0.0, 1 / 6, 0.99]).tolist() == [0.5, 0.5, 1.0]


def test_by_hand():
    scores, y = [-3.0, -1.0, -1.0, 4.0, 5.0, 6.0], [0, 0, 1, 1, 1, 1]
    calibrator = HistogramBinningCalibrator(n_bins=2, smoothing=None).fit(scores, y)
    assert calibrator.bin_edges_.tolist() == [1.5]
    assert calibrator.transform([-9.0, 1.4, 1.5]).tolist() == [1 / 3, 1 / 3, 1.0]
    laplace = HistogramBinningCalibrator(n_bins=2, smoothing=1).fit(scores, y)
    assert laplace.transform([-9.0, 9.0]).tolist() == [2 / 5, 4 / 5]


def test_neighboring_floats_are_told_apart():
    for low in (1.0, 0.0, -1e100):
        scores = np.array([low, np.nextafter(low, np.inf)])
        calibrator = HistogramBinningCalibrator(n_bins=2, smoothing=None)
        assert calibrator.fit(scores, [0, 1]).transform(scores).tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize(("n", "bins"), [(2, 2), (8, 2), (9, 3), (1000, 10), (5000, 18)])
def test_number_of_bins_grows_with_the_cube_root(n, bins):
    scores, y = np.arange(n, dtype=float), np.arange(n) % 2
    assert HistogramBinningCalibrator(n_bins="auto").fit(scores, y).n_bins_ == bins
    # weights that are not counts stand for as many rows, whatever their unit
    assert HistogramBinningCalibrator(n_bins="auto").fit(scores, y, np.full(n, 0.01)).n_bins_ == bins
