"""BinningDisplay: both errors over the number of bins, and the verdict."""

import numpy as np
import pytest
from scipy.special import expit

from sklearn_calib.metrics import expected_calibration_error, logit_smoothed_ece
from sklearn_calib.plot import BinningDisplay

pytest.importorskip("matplotlib")


def test_both_curves_are_those_of_the_metrics():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 300)
    y = rng.integers(0, 3, 300)
    given = {"reduction": "confidence", "sample_weight": rng.integers(1, 3, 300)}
    display = BinningDisplay.from_predictions(y, p, name="net", **given, show_legend=False)
    for m in (1, 7, 100):
        assert display.line_.get_ydata()[m - 1] == expected_calibration_error(y, p, n_bins=m, **given)
        smoothed = logit_smoothed_ece(y, p, bandwidth=1 / m, **given)
        assert display.smoothed_line_.get_ydata()[m - 1] == smoothed
    low, high = display.binned[9:].min(), display.binned[9:].max()
    assert display.line_.get_label() == f"net: binned ECE {low:.3f} to {high:.3f}"
    assert display.smoothed_line_.get_label().endswith(": the bins matter")


def test_the_verdict_of_the_paper_on_two_points():
    # odd numbers of bins do not separate the two predictions
    display = BinningDisplay.from_predictions([0, 1], expit([-5e-4, 5e-4]), show_legend=False)
    assert display.binned[9::2].min() > 0.499
    assert display.binned[10::2].max() < 0.001
    assert display.bins_matter


def test_the_verdict_on_a_large_sample():
    # two rows for each of 300 log-odds, whose weights are the frequencies of the outcomes
    h = np.repeat(np.linspace(-4.0, 7.0, 300), 2)
    y = np.tile([0, 1], 300)
    w = np.exp(-0.5 * ((h - 1.5) / 2.0) ** 2) * np.where(y == 1, expit(0.7 * h), expit(-0.7 * h))
    display = BinningDisplay.from_predictions(y, expit(h), sample_weight=w)
    assert display.smoothed_line_.get_label().endswith(": the bins make little difference")
    other = BinningDisplay.from_predictions(y, expit(0.7 * h), sample_weight=w, ax=display.ax_)
    assert other.bins_matter
    assert display.ax_.get_ylim()[1] > display.smoothed.max() > other.smoothed.max()
    assert other.line_.get_color() == other.smoothed_line_.get_color() != display.line_.get_color()


def test_rounding_errors_do_not_matter():
    assert not BinningDisplay(np.zeros(100), np.append(np.zeros(99), 9e-10)).bins_matter
    assert BinningDisplay(np.zeros(100), np.append(np.zeros(99), 2e-9)).bins_matter


@pytest.mark.thorough
def test_errors_of_perfect_predictions_are_rounding_errors():
    display = BinningDisplay.from_predictions([0, 1, 1], [0.0, 1.0, 1.0])
    assert 0.0 < display.smoothed.max() < 1e-9
    assert not display.bins_matter


@pytest.mark.parametrize(("lowest", "matter"), [(0.91, False), (0.89, True)])
@pytest.mark.parametrize("at", [9, 99])
def test_values_from_ten_bins_on_may_differ_by_a_tenth(lowest, matter, at):
    flat, other = np.ones(100), np.ones(100)
    flat[:9] = 0.2
    other[at] = lowest
    assert BinningDisplay(flat, other).bins_matter is matter
    assert BinningDisplay(other, flat).bins_matter is matter
