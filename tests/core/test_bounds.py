"""The limit distribution of the cutoff margin against other formulas, and against simulated samples."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from sklearn_calib._core import _bounds
from sklearn_calib._core._bounds import _range_pdf, _range_sf
from sklearn_calib._core._weights import effective_size


def range_sf(r, z, t):
    return float(_range_sf(np.array([r]), np.array([z]), t)[0])


def range_pdf(r, z, t):
    return float(_range_pdf(np.array([r]), np.array([z]), t)[0])


def stays_within(a, b, z, t):
    """P(-a < bridge < b) of a Brownian bridge from 0 to z over time t, by eigenfunctions."""
    k = np.arange(1, 200) * np.pi / (a + b)
    density = 2 / (a + b) * np.sum(np.sin(k * a) * np.sin(k * (z + a)) * np.exp(-(k**2) * t / 2))
    return density * math.sqrt(2 * math.pi * t) * math.exp(z * z / (2 * t))


def range_sf_by_quadrature(r, z, t, h=1e-4):
    """P(range > r): for each place of the maximum, the chance that the minimum is not r below it."""

    def density(b):
        return (stays_within(r - b, b + h, z, t) - stays_within(r - b, b - h, z, t)) / (2 * h)

    return 1 - quad(density, z + h, r - h, limit=200)[0]


@pytest.mark.parametrize(("z", "t"), [(0.0, 1.0), (0.3, 1.0), (0.7, 0.5), (0.1, 0.04)])
def test_range_of_a_bridge_agrees_with_the_heat_equation(z, t):
    for r in z + np.array([0.6, 0.9, 1.3]) * math.sqrt(t):
        assert range_sf(r, z, t) == pytest.approx(range_sf_by_quadrature(r, z, t), abs=5e-4)


@pytest.mark.parametrize(("z", "t"), [(0.0, 1.0), (0.3, 1.0), (1.2, 0.5), (0.1, 0.04)])
def test_density_of_the_range_is_the_derivative(z, t):
    for r in z + np.array([0.5, 0.8, 1.1, 2.0]) * math.sqrt(t):
        slope = (range_sf(r - 1e-6, z, t) - range_sf(r + 1e-6, z, t)) / 2e-6
        assert range_pdf(r, z, t) == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_no_base_rate_gives_the_law_of_kuiper():
    for x in (0.8, 1.2, 1.747, 2.5):
        kuiper = 2 * sum((4 * k * k * x * x - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 20))
        assert _bounds.bridge_ranges_sf(x, 0.0) == pytest.approx(kuiper, rel=1e-9)
        assert _bounds.bridge_ranges_sf(x, 1.0) == pytest.approx(kuiper, rel=1e-9)
        assert _bounds.bridge_ranges_sf(x, 1e-10) == pytest.approx(kuiper, rel=1e-3)
    # Stephens (1970), table of Kuiper's statistic
    quantiles = [_bounds.bridge_ranges_quantile(c, 0.0) for c in (0.90, 0.95, 0.99)]
    assert quantiles == pytest.approx([1.620, 1.747, 2.001], abs=5e-4)


def test_quantiles_of_the_worst_case():
    quantiles = [_bounds.bridge_ranges_quantile(c) for c in (0.90, 0.95, 0.99)]
    assert quantiles == pytest.approx([2.6298, 2.8641, 3.3523], abs=5e-5)


@pytest.mark.parametrize(
    ("confidence", "base_rate"),
    [(0.5, 1e-4), (0.9, 0.02), (0.999, 0.02), (0.9, 0.3), (1 - 1e-8, 0.5), (0.5, 0.9)],
)
def test_quantile_inverts_the_tail(confidence, base_rate):
    x = _bounds.bridge_ranges_quantile(confidence, base_rate)
    assert _bounds.bridge_ranges_sf(x, base_rate) == pytest.approx(1 - confidence, rel=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("confidence", [0.5, 0.999])
def test_one_half_is_the_worst_base_rate(confidence):
    rates = np.linspace(0, 0.5, 11)
    quantiles = [_bounds.bridge_ranges_quantile(confidence, float(rate)) for rate in rates]
    assert (np.diff(quantiles) > 0).all()
    mirrored = [_bounds.bridge_ranges_quantile(confidence, float(1 - rate)) for rate in rates]
    assert mirrored == pytest.approx(quantiles, rel=1e-9)


@pytest.mark.parametrize("base_rate", [0.0, 1e-6, 0.5])
def test_extreme_confidences_stay_on_the_safe_side(base_rate):
    confidences = [1e-300, 1e-9, 1e-6, 1e-3, 0.5, 1 - 1e-8, 1 - 1e-10, 1 - 1e-15, np.nextafter(1, 0)]
    quantiles = [_bounds.bridge_ranges_quantile(float(c), base_rate) for c in confidences]
    assert (np.diff(quantiles) >= 0).all()
    assert quantiles[0] == quantiles[2]
    assert quantiles[-1] == pytest.approx(_bounds.cutoff_bound(1, confidences[-1], "dkw"))


def deviation_over_intervals(t, low, high):
    """Largest |(P_n - P)(J)| over intervals J within [low, high], for a sorted uniform sample t of [0, 1]."""
    n, inside = t.shape[0], t[(t > low) & (t <= high)]
    counts = np.arange(inside.shape[0] + 1) / n
    before = counts[:-1] - (inside - low)
    walk = np.concatenate([[0.0], before, counts[1:] - (inside - low), [counts[-1] - (high - low)]])
    return walk.max() - walk.min()


@pytest.mark.parametrize("base_rate", [0.05, 0.5])
def test_margin_covers_the_deviation_of_samples(base_rate):
    """The sum of both classes' deviations exceeds the 90 % margin in about one sample of ten."""
    rng = np.random.default_rng(0)
    n, draws = 1500, 700
    margin = _bounds.cutoff_bound(n, 0.9, base_rate=base_rate)
    sure, sums = _bounds.cutoff_bound(n, 0.9, "dkw"), []
    for _ in range(draws):
        t = np.sort(rng.random(n))
        sums.append(deviation_over_intervals(t, 0.0, base_rate) + deviation_over_intervals(t, base_rate, 1.0))
    assert np.mean(np.array(sums) > margin) == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / draws))
    assert np.mean(np.array(sums) > sure) < 0.1


def test_margins_are_those_of_the_formulas():
    assert _bounds.cutoff_bound(400, 0.95, "dkw") == pytest.approx(4 * math.sqrt(math.log(80) / 800))
    assert _bounds.cutoff_bound(400, 0.95, "paper") == pytest.approx((20 + math.sqrt(2 * math.log(20))) / 20)
    expected = (30 + 2 * math.sqrt(2 * math.log(40))) / 20
    assert _bounds.cutoff_bound(400, 0.95, "paper", refitted=True) == pytest.approx(expected)
    assert _bounds.cutoff_bound(10_000) == pytest.approx(0.028641, abs=1e-6)
    assert _bounds.cutoff_bound(10_000, base_rate=0.1) == pytest.approx(0.0232876, abs=1e-6)
    assert _bounds.cutoff_bound(10_000, refitted=True) == _bounds.cutoff_bound(10_000)


def test_effective_size():
    assert (effective_size(np.array([1.0, 0.0, 3.0])), effective_size(np.array([0.5, 0.5]))) == (4, 2)
    assert effective_size(np.array([0.5, 1.5])) == pytest.approx(4 / 2.5)
