"""The monotone sweep against plain loops."""

import itertools

import numpy as np
import pytest

from sklearn_calib.metrics import expected_calibration_error, sweep_calibration_error
from tests._references import binned_ece


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
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 120))
    p = rng.random(n) if seed % 2 else rng.integers(0, 11, n) / 10
    y = (rng.random(n) < p ** rng.uniform(0.2, 4)).astype(int)
    w = rng.integers(1, 4, n)
    chosen = 1
    for n_bins in range(2, len(set(p.tolist())) + 1):
        found = frequencies(y, p, w, n_bins, strategy)
        if any(after < before - 1e-12 for before, after in itertools.pairwise(found)):
            break
        chosen = n_bins
    for norm in ("l1", "l2"):
        expected = expected_calibration_error(
            y, p, sample_weight=w, n_bins=chosen, strategy=strategy, norm=norm, pos_label=1
        )
        value = sweep_calibration_error(y, p, sample_weight=w, strategy=strategy, norm=norm, pos_label=1)
        assert value == pytest.approx(expected, abs=1e-12)
        if strategy == "uniform":
            edges = np.arange(chosen + 1) / chosen
            assert value == pytest.approx(binned_ece(y, p, w, edges, norm), abs=1e-12)


def test_by_hand():
    # perfect ranking: every prediction is a bin of its own
    assert sweep_calibration_error([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8]) == pytest.approx(0.8 / 4)
    # the wrong way round: a single bin, in which the gaps cancel
    assert sweep_calibration_error([1, 1, 0, 0], [0.1, 0.2, 0.8, 0.9]) == pytest.approx(0.0, abs=1e-12)
    # 2 bins: 1/3, 2/3; 3 bins: 1/2, 1/2, 1/2; 4 bins: 0, 1/2, 1, 1/2
    y, p = [0, 1, 0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4, 0.8, 0.9]
    assert sweep_calibration_error(y, p) == pytest.approx((0.7 + 0.3 + 0.7) / 6)


def test_as_many_bins_as_values_by_hand():
    # 2 and 3 bins of equal weight part the first two values, of weight 1 each, from the third, of weight 4
    y, p = [1, 0, 1, 1, 1, 0], [0.1, 0.2, 0.9, 0.9, 0.9, 0.9]
    assert sweep_calibration_error(y, p) == pytest.approx((0.7 + 0.6) / 6)
    # 2 bins of equal width: all in one; 3 bins: one apart from the other two, which are the wrong way round
    y, p = [0, 1, 0], [0.1, 0.4, 0.45]
    assert sweep_calibration_error(y, p, strategy="uniform") == pytest.approx((0.1 + 0.15) / 3)


@pytest.mark.parametrize("name", ["strategy", "norm"])
def test_bad_options(name):
    with pytest.raises(ValueError, match=name):
        sweep_calibration_error([0, 1], [0.2, 0.3], **{name: "max"})
