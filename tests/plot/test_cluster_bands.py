"""Bands of displays of dependent samples: their coverage, and what cannot be had."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, norm

from sklearn_calib._validation import check_binary
from sklearn_calib.inference import CutoffTest
from sklearn_calib.plot import CutoffDisplay
from sklearn_calib.plot._curve import reliability_curve


def dependent(seed, n_clusters=60, size=20, rho=0.3, truth=lambda p: p):
    rng, clusters = np.random.default_rng(seed), np.repeat(np.arange(n_clusters), size)
    p = rng.uniform(0.05, 0.95, clusters.size)
    effect = np.sqrt(rho) * rng.normal(size=n_clusters)[clusters]
    noise = np.sqrt(1 - rho) * rng.normal(size=p.size)
    return (effect + noise < norm.ppf(truth(p))).astype(int), p, clusters


def steep(p):
    return expit(2.5 * logit(p))


def curve_of(data, **params):
    return reliability_curve(check_binary(*data[:2], clusters=data[2]), n_resamples=199, **params)


@pytest.mark.parametrize("curve", ["smooth", "binned", "isotonic"])
def test_consistency_bands_are_wider(curve):
    # predictions hardly vary within clusters
    rng, clusters = np.random.default_rng(0), np.repeat(np.arange(60), 20)
    p = np.clip(np.repeat(rng.uniform(0.1, 0.9, 60), 20) + rng.uniform(-0.02, 0.02, 1200), 0, 1)
    effect = 0.5 * rng.normal(size=60)[clusters]
    y = (effect + 0.75**0.5 * rng.normal(size=1200) < norm.ppf(p)).astype(int)
    band = curve_of((y, p, clusters), curve=curve, band="consistency").band
    plain = curve_of((y, p, None), curve=curve, band="consistency").band
    wide, narrow = (np.nanmean(each.upper - each.lower) for each in (band, plain))
    assert wide > 1.3 * narrow
    assert band.kind == "consistency"


@pytest.mark.weekly
@pytest.mark.parametrize("kind", ["smooth", "binned"])
@pytest.mark.parametrize("band", ["confidence", "consistency"])
def test_coverage(kind, band):
    """Pointwise 95% bands of dependent samples contain the frequency, or the curve, in about 95%."""

    def truth(p):
        return p if band == "consistency" else p**1.4

    inside, repetitions = [], 200
    for seed in range(repetitions):
        curve = curve_of(dependent(seed, truth=truth), curve=kind, band=band, n_bins=6)
        limits = curve.band
        if band == "confidence":
            where = 0.5 if kind == "smooth" else curve.predicted[3]
            k = int(np.abs(curve.predicted - where).argmin())
            inside.append(limits.lower[k] <= truth(curve.predicted[k]) <= limits.upper[k])
        else:
            k = int(np.nanargmin(np.abs(curve.predicted - 0.5)))
            inside.append(limits.lower[k] <= curve.observed[k] <= limits.upper[k])
    rate = np.mean(inside)
    # a smooth curve has a little bias, and dependence is estimated
    assert binom.ppf(0.002, repetitions, 0.94) / repetitions <= rate <= 0.995


def test_single_clusters_change_nothing():
    y, p, _ = dependent(1)
    plain, single = (curve_of((y, p, code), band="confidence").band for code in (None, np.arange(y.size)))
    np.testing.assert_array_equal(plain.lower, single.lower)


def test_bins_without_events_have_an_interval():
    rng, p = np.random.default_rng(3), np.repeat([0.01, 0.5], 200)
    y = np.where(p == 0.5, rng.integers(0, 2, 400), 0)
    band = curve_of((y, p, np.arange(400) // 4), curve="binned").band
    assert band.lower[0] == 0.0
    assert 0.0 < band.upper[0] < 0.1


def test_band_where_the_curve_is_clipped_contains_rare_events():
    """Without a clipped point's own uncertainty the band has no width there and misses 1 in 150."""
    at, inside = np.array([0.12, 0.88]), []
    for seed in range(4):
        data = dependent(seed, n_clusters=500, size=4, rho=0.2, truth=steep)
        lower, upper = curve_of(data).band.at(at)
        inside.append((lower <= steep(at)) & (steep(at) <= upper))
    assert np.mean(inside) >= 0.9


@pytest.mark.parametrize("params", [{"band": "simultaneous"}, {"curve": "isotonic"}])
def test_exact_bands_need_independent_samples(params):
    with pytest.raises(ValueError, match="assumes independent samples"):
        curve_of(dependent(0), **params)


def test_strip_of_the_cutoff_display_is_that_of_the_test():
    for seed in range(2):
        y, p, clusters = dependent(seed, truth=lambda p: p**1.15)
        display = CutoffDisplay.from_predictions(y, p, clusters=clusters, n_resamples=199, show_legend=False)
        test = CutoffTest(n_resamples=199, random_state=0).test(y, p, clusters=clusters)
        assert display.test.pvalue == test.pvalue
        height = display.strip_.get_height()
        assert (display.result.value > height) == (test.pvalue <= 0.05)
        alone = CutoffDisplay.from_predictions(y, p, n_resamples=199, show_legend=False).strip_.get_height()
        assert height > 1.2 * alone
        plt.close(display.figure_)
