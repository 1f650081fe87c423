"""Bands of reliability curves: against loops over all intervals, and by what they promise."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest
from sklearn.isotonic import IsotonicRegression

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._validation import check_binary
from sklearn_calib.metrics import smooth_ece_result
from sklearn_calib.plot import ReliabilityBand
from sklearn_calib.plot._curve import reliability_curve
from sklearn_calib.plot._monotone_band import bin_count, interval_lengths, monotone_band, monotone_limits
from tests._samples import simulated
from tests._tiers import thorough, weekly


def sample_of(n, **law):
    return check_binary(*simulated(n, "beta", 0.7, 0.9, **law))


def plain_bounds(events, trials, risk):
    """Clopper-Pearson bounds, each with its own error."""
    found = binomtest(int(events), int(trials)).proportion_ci(1 - 2 * risk, method="exact")
    return found.low, found.high


@pytest.mark.parametrize("pointwise", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_limits_against_a_double_loop_over_intervals(pointwise, some):
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 6, 10)
    positives = rng.binomial(weight, np.linspace(0.05, 0.95, 10))
    lengths = interval_lengths(10) if some else list(range(1, 11))
    intervals = [(j, k) for j in range(10) for k in range(j, 10) if k - j + 1 in lengths]
    lower, upper = np.zeros(10), np.ones(10)
    risk = 0.1 / 2 / (len(lengths) if pointwise else len(intervals))
    for j, k in intervals:
        low, high = plain_bounds(positives[j : k + 1].sum(), weight[j : k + 1].sum(), risk)
        for cell in range(10):
            if cell == k or (cell > k and not pointwise):
                lower[cell] = max(lower[cell], low)
            if cell == j or (cell < j and not pointwise):
                upper[cell] = min(upper[cell], high)
    given = (part.astype(float) for part in (weight, weight, positives))
    found = monotone_limits(*given, 0.1, lengths, pointwise=pointwise)
    np.testing.assert_allclose(found, (lower, upper), atol=1e-9)
    if not some and not pointwise:
        assert risk == pytest.approx(0.1 / (10 * 11))


@pytest.mark.parametrize("digits", [None, 1])
def test_limits_hold_between_and_within_cells(digits):
    """At each x, only cells that end at or before x, or begin at or after it, count."""
    sample = sample_of(300, digits=digits)
    grouped = group_outcomes(sample.y, sample.p)
    band = monotone_band(grouped, 0.9, "simultaneous")
    middle = (np.cumsum(grouped.weight) - 0.5 * grouped.weight) / 300
    cell = np.unique(np.floor(middle * bin_count(300)), return_inverse=True)[1]
    n_cells = int(cell.max()) + 1
    weight, positives = (np.bincount(cell, part) for part in (grouped.weight, grouped.positives))
    low, high = monotone_limits(weight, weight, positives, 0.1, interval_lengths(n_cells), pointwise=False)
    x = np.concatenate((grouped.prob, np.linspace(0, 1, 57)))
    for t, *found in zip(x, *band.at(x), strict=True):
        before = [low[k] for k in range(n_cells) if grouped.prob[cell == k].max() <= t]
        after = [high[k] for k in range(n_cells) if grouped.prob[cell == k].min() >= t]
        assert found == pytest.approx([max(before, default=0.0), min(after, default=1.0)], abs=1e-12)


STEP = {"calibrated": lambda p: p, "steps": lambda p: 0.1 + 0.5 * (p > 0.3) + 0.3 * (p > 0.8)}


@pytest.mark.parametrize(
    ("truth", "n", "digits"),
    [("steps", 300, 1), *(weekly(truth, n, None) for truth, n in product(STEP, (30, 300)))],
)
def test_simultaneous_band_holds_the_whole_curve_at_its_level(truth, n, digits):
    """In samples of any size; a step function is the hardest case, as bounds are then attained."""
    rng, truth = np.random.default_rng(2), STEP[truth]
    misses, repetitions = 0, 250
    for _ in range(repetitions):
        p = rng.beta(0.6, 0.8, n)
        p = p if digits is None else np.round(p, digits)
        y = (rng.random(n) < truth(p)).astype(int)
        grouped = group_outcomes(y, p)
        lower, upper = monotone_band(grouped, 0.8, "simultaneous").at(grouped.prob)
        misses += bool(((truth(grouped.prob) < lower) | (truth(grouped.prob) > upper)).any())
    assert misses <= binom.ppf(0.999, repetitions, 0.2)


def test_a_curve_that_falls_makes_the_limits_cross():
    y, p = simulated(2000, truth=lambda p: 1 - p)
    falling = monotone_band(group_outcomes(y, p), 0.95, "simultaneous")
    assert falling.crosses
    assert "limits cross" in str(falling)
    rising = monotone_band(group_outcomes(*simulated(2000)), 0.95, "simultaneous")
    assert not rising.crosses
    assert rising.departures == ()
    assert str(rising) == "95% confidence band (simultaneous); contains the diagonal"


def test_departures_are_where_the_diagonal_leaves():
    x = np.array([0.0, 0.2, 0.4, 0.6, 1.0])
    lower, upper = np.array([0.1, 0.2, 0.2, 0.2, 0.2]), np.array([1, 1, 0.6, 0.4, 0.4])
    band = ReliabilityBand("simultaneous", 0.9, x, lower, upper)
    above, below = band.departures
    assert above[:2] == pytest.approx((0.0, 0.2))
    assert above.side == "above"
    # from (0.4, 0.6) to (0.6, 0.4) the upper limit meets the diagonal at one half
    assert below[:2] == pytest.approx((0.5, 1.0))
    assert below.side == "below"
    words = "90% confidence band (simultaneous); excludes the diagonal in 0 to 0.2 (above), 0.5 to 1 (below)"
    assert str(band) == words


@pytest.mark.parametrize(
    ("curve", "size", "n_rows"), [("smooth", None, 1000), ("kernel", 10, 1000), thorough("smooth", 10, 2000)]
)
def test_bootstrap_band_is_that_of_resampled_rows(curve, size, n_rows):
    """Resample rows, or whole clusters, in a loop; fit the curve of each sample; quantiles."""
    rng = np.random.default_rng(2)
    effect = rng.uniform(-0.4, 0.4, n_rows // 10).repeat(10) * (size is not None)
    p = rng.uniform(0.02, 0.98, n_rows)
    y = (rng.random(n_rows) < np.clip(p + effect, 0, 1)).astype(int)
    code = np.arange(n_rows) // (size or 1)
    sample = check_binary(y, p, clusters=None if size is None else code)
    band = reliability_curve(sample, curve, band="bootstrap", confidence=0.9).band
    n, curves, at = code[-1] + 1, [], np.linspace(0.05, 0.95, 19)
    for _ in range(80):
        times = np.bincount(rng.integers(n, size=n), minlength=n)[code]
        drawn = reliability_curve(check_binary(y, p, times), curve, band=None)
        curves.append(np.interp(at, drawn.predicted, drawn.observed))
    for limit, level in ((band.lower, 0.05), (band.upper, 0.95)):
        # whose smoothness is determined anew
        error = np.abs(np.interp(at, band.predicted, limit) - np.quantile(curves, level, axis=0))
        assert error.max() < 0.05
        assert error.mean() < 0.015
    assert band.kind == "bootstrap"
    if size is not None:
        alone = reliability_curve(check_binary(y, p), curve, band="bootstrap", confidence=0.9).band
        assert np.nanmean(band.upper - band.lower) > np.nanmean(alone.upper - alone.lower)


CURVES = pytest.mark.parametrize("curve", ["smooth", "kernel", "binned", "isotonic"])


def consistency(sample, curve, **options):
    return reliability_curve(sample, curve, band="consistency", **options)


@CURVES
def test_consistency_band_is_that_of_redrawn_samples(curve):
    sample = sample_of(250, truth=1.5, digits=2)
    found = consistency(sample, curve, n_resamples=499, n_bins=7, random_state=1)
    band, rng = found.band, np.random.default_rng(9)
    draws, known = [], np.isfinite(band.lower)
    x, p = band.predicted[known], sample.p
    for _ in range(100 if curve == "smooth" else 400):
        y = (rng.random(250) < p).astype(int)
        if curve == "kernel":
            drawn = smooth_ece_result(y, p, bandwidth=found.bandwidth)
            draws.append(np.interp(x, drawn.grid, drawn.curve))
        elif curve == "smooth":
            drawn = reliability_curve(check_binary(y, p), band=None)
            draws.append(np.interp(x, drawn.predicted, drawn.observed))
        elif curve == "binned":
            which = np.minimum((p * 7).astype(int), 6)
            draws.append(np.bincount(which, y, 7) / np.bincount(which, minlength=7))
        else:
            draws.append(IsotonicRegression(y_min=0, y_max=1).fit(p, y).predict(x))
    for limit, level in ((band.lower, 0.025), (band.upper, 0.975)):
        expected = np.quantile(draws, level, axis=0)
        np.testing.assert_allclose(limit[known], expected, atol=0.06)
        assert np.abs(limit[known] - expected).mean() < 0.02


@CURVES
def test_consistency_depends_on_predictions_and_seed_alone(curve):
    sample, order = sample_of(300), np.random.default_rng(0).permutation(300)
    shuffled = check_binary(sample.y[order], sample.p[order])
    given = ((sample, 4), (shuffled, 4), (sample, 5))
    one, two, three = (consistency(s, curve, n_resamples=49, random_state=k).band for s, k in given)
    np.testing.assert_allclose(one.lower, two.lower, atol=1e-12)
    assert not np.allclose(one.lower, three.lower, equal_nan=True)
    if curve in ("binned", "isotonic"):
        # its smoothness depends on the outcomes
        other = consistency(check_binary(1 - sample.y, sample.p), curve, n_resamples=49, random_state=4).band
        np.testing.assert_array_equal((one.lower, one.upper), (other.lower, other.upper))


EVERY = [*product(("smooth", "binned", "isotonic"), ("confidence", "consistency", "simultaneous"))]


@pytest.mark.parametrize(("curve", "band"), [*EVERY, ("smooth", "bootstrap"), ("kernel", "bootstrap")])
def test_whole_weights_are_repetitions(curve, band):
    base, times = sample_of(150, digits=2), np.random.default_rng(0).integers(1, 4, 150)
    weighted = check_binary(base.y, base.p, times)
    repeated = check_binary(np.repeat(base.y, times), np.repeat(base.p, times))
    one, two = (reliability_curve(s, curve, band=band, n_resamples=49).band for s in (weighted, repeated))
    np.testing.assert_allclose(one.predicted, two.predicted, atol=1e-12)
    np.testing.assert_allclose((one.lower, one.upper), (two.lower, two.upper), atol=1e-6)


@CURVES
def test_sampling_weights_are_those_of_single_labels(curve):
    """One row with nearly all the weight: redrawn labels jump as it does."""
    p, w = np.full(40, 0.5) + np.linspace(-0.01, 0.01, 40), np.full(40, 0.01)
    w[20] = 100.5
    sample = check_binary(np.arange(40) % 2, p, w, weights="sampling")
    band = consistency(sample, curve, n_resamples=99, n_bins=1).band
    known = np.isfinite(band.lower)
    assert band.lower[known].min() < 0.02
    assert band.upper[known].max() > 0.98


@pytest.mark.parametrize(("curve", "band"), EVERY)
def test_equal_sampling_weights_do_not_matter_and_whole_ones_are_not_counts(curve, band):
    base, times = sample_of(150, digits=2), np.random.default_rng(0).integers(1, 9, 150)

    def limits(w, weights):
        sample = check_binary(base.y, base.p, w, weights=weights)
        found = reliability_curve(sample, curve, band=band, n_resamples=99).band
        return found.lower, found.upper

    np.testing.assert_array_equal(limits(np.full(150, 7), "sampling"), limits(None, "sampling"))
    counts, weighed = (-np.nanmean(np.subtract(*limits(times, w))) for w in ("frequency", "sampling"))
    # repeated outcomes make the smooth curve less smooth
    ratio = 1.0 if curve == "smooth" else 1.3
    assert weighed > ratio * counts or (curve, band) == ("smooth", "consistency")


def case_control(rng, n, truth=lambda p: p):
    """As many events as non-events, with the inverses of their probabilities as weights."""
    p = rng.beta(0.8, 2.0, 20 * n)
    y = rng.random(20 * n) < truth(p)
    chance = np.where(y, 0.5, 0.5 * y.mean() / (1 - y.mean()))
    rows = np.flatnonzero(rng.random(20 * n) < chance)[:n]
    return y[rows].astype(int), p[rows], 1 / chance[rows]


@pytest.mark.parametrize(("curve", "band"), [("isotonic", "simultaneous"), ("binned", "confidence")])
def test_exact_bands_of_case_control_samples_are_those_of_the_samples_drawn(curve, band):
    y, p, w = case_control(np.random.default_rng(1), 300)
    found = reliability_curve(check_binary(y, p, w, weights="sampling"), curve, band=band)
    plain = reliability_curve(check_binary(y, p), curve, band=band).band
    assert found.weights == "case-control"
    c0, c1 = w[y == 0][0], w[y == 1][0]
    for limit, drawn in ((found.band.lower, plain.lower), (found.band.upper, plain.upper)):
        np.testing.assert_allclose(limit, drawn * c1 / (drawn * c1 + (1 - drawn) * c0), atol=1e-12)


def lognormal(rng, n, truth):
    p = rng.beta(0.8, 2.0, n)
    return (rng.random(n) < truth(p)).astype(int), p, np.exp(0.8 * rng.standard_normal(n))


@pytest.mark.weekly
@pytest.mark.parametrize("design", [lognormal, case_control])
@pytest.mark.parametrize("curve", ["smooth", "binned", "isotonic"])
def test_coverage_of_confidence_bands_of_weighted_samples(design, curve):
    """At fixed predictions; the event probability is that of the population."""
    at, repetitions = np.array([0.1, 0.3, 0.5]), 250
    rng, held = np.random.default_rng(0), np.zeros(3)
    for _ in range(repetitions):
        y, p, w = design(rng, 600, lambda p: p)
        sample = check_binary(y, p, w, weights="sampling")
        found = reliability_curve(sample, curve, band="confidence", n_bins=10)
        if curve == "binned":
            rows = np.argmin(np.abs(found.predicted[:, None] - (at + 0.05)), axis=0)
            lower, upper = found.band.lower[rows], found.band.upper[rows]
            # the mean event probability of the population in the bin, whose predictions are calibrated
            held += (lower <= found.predicted[rows]) & (found.predicted[rows] <= upper)
        else:
            lower, upper = found.band.at(at)
            held += (lower <= at) & (at <= upper)
    # a little short in small samples
    assert (held >= binom.ppf(0.001, repetitions, 0.93)).all()


def test_many_predictions_are_gathered_with_small_error():
    sample = sample_of(20_000)
    fine, p = consistency(sample, "binned", n_bins=10).band, sample.p
    which = np.minimum((p * 10).astype(int), 9)
    size = np.bincount(which, minlength=10)
    mean = np.bincount(which, p, 10) / size
    spread = np.sqrt(np.bincount(which, p * (1 - p), 10)) / size
    np.testing.assert_allclose(fine.lower, mean - 1.96 * spread, atol=0.35 * spread.max())
    np.testing.assert_allclose(fine.upper, mean + 1.96 * spread, atol=0.35 * spread.max())
