"""The certificate of the fitted map: against plain loops, and how often it holds."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.certificate_coverage import FITTED, SHAPES, TRUTHS, certified, fitted_study
from sklearn_calib import calibrators as cal
from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib._core._null import draw_outcomes
from sklearn_calib.calibrators._certificate import pooled_outcomes
from sklearn_calib.metrics._cutoff import cutoff_of_groups
from tests._samples import simulated
from tests.calibrators._registry import calibrators_with


def sample(n=240, seed=0):
    y, p = simulated(n, seed=seed, truth=lambda p: 0.1 + 0.6 * p, digits=2)
    return p, y


def smoothed_rates(count, events):
    """Return (N e / k + 1/2) / (N + 1), N the size of the isotonic block, and the number of blocks."""
    blocks = []
    for j in range(len(count)):
        blocks.append([events[j], count[j], 1])
        # neighbors that decrease, or are equal, are pooled one by one
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    size = [n for _, n, groups in blocks for _ in range(groups)]
    return [(n * e / k + 0.5) / (n + 1) for n, e, k in zip(size, events, count, strict=True)], len(blocks)


def largest_interval(steps):
    return max(abs(sum(steps[i : j + 1])) for i in range(len(steps)) for j in range(i, len(steps)))


def bound_by_loops(value, y, weight, draws, seed, *, any_order=False, confidence=0.95):
    """Return the bound from its definition; only the random numbers are the package's."""
    levels = sorted(set(value.tolist()))
    count = [sum(w for v, w in zip(value, weight, strict=True) if v == u) for u in levels]
    events = [sum(w for v, o, w in zip(value, y, weight, strict=True) if v == u and o) for u in levels]
    n = sum(count)
    if any_order:
        rates, blocks = [(e + 0.5) / (k + 1) for e, k in zip(events, count, strict=True)], len(levels)
    else:
        rates, blocks = smoothed_rates(count, events)
    grouped = GroupedOutcomes(np.array(levels), np.array(count, float), np.array(events, float))
    scale = math.sqrt(n / (n - blocks)) * math.sqrt(max(1, 8 / min(sum(events), n - sum(events))))
    ranges = []
    for drawn, positives in draw_outcomes(grouped, draws, np.random.default_rng(seed), truth=np.array(rates)):
        for k_star, e_star in zip(drawn.T.tolist(), positives.T.tolist(), strict=True):
            steps = []
            for u, k, e, p, k_new, e_new in zip(levels, count, events, rates, k_star, e_star, strict=True):
                noise = e_new - k_new * u - k * (p - u)
                steps.append(e - k * u + scale * noise)
            if any_order:
                ranges.append(max(sum(max(s, 0) for s in steps), sum(max(-s, 0) for s in steps)))
            else:
                ranges.append(largest_interval(steps))
    # of N draws the j-th is passed with probability j / (N + 1)
    place = confidence * (draws + 1)
    low, high = sorted(ranges)[int(place) - 1], sorted([*ranges, 0.0])[min(int(place) + 1, draws)]
    quantile = low + (place - int(place)) * (high - low)
    return min(1.0, (quantile + 1.0) / n)


@calibrators_with("monotone")
def test_against_loops(case):
    p, y = sample()
    assert_bound_of_loops(case.make(), np.round(p, 1), y)


def test_against_loops_with_few_events():
    p, y = sample()
    assert_bound_of_loops(cal.IsotonicCalibrator(), np.round(p, 1), np.where(np.cumsum(y) <= 3, y, 0))


def assert_bound_of_loops(calibrator, p, y):
    calibrator.fit(p, y)
    certificate = calibrator.cutoff_certificate(n_resamples=19, random_state=5)
    value, outcome = calibrator.transform(np.sort(p)), y[np.argsort(p, kind="stable")]
    assert certificate.method == "fitted"
    assert certificate.upper == pytest.approx(bound_by_loops(value, outcome, np.ones(240), 19, 5), abs=1e-12)


def test_bins_in_any_order_against_loops():
    p, y = sample()
    # a value twice is no tie that an interval of scores must respect, but makes one level here
    calibrator = cal.HistogramBinningCalibrator(n_bins=6).fit(p, y)
    assert np.unique(calibrator.bin_values_).shape[0] == 6
    expected = bound_by_loops(calibrator.transform(p), y, np.ones(240), 39, 1, any_order=True)
    found = calibrator.cutoff_certificate(n_resamples=39, random_state=1)
    assert found.upper == pytest.approx(expected, abs=1e-12)
    mapped = calibrator.transform(p)
    walk = [np.sum((y - mapped)[mapped <= v]) / 240 for v in calibrator.bin_values_]
    assert calibrator.training_cutoff_error_ == pytest.approx(np.ptp([0.0, *walk]), abs=1e-12)


@calibrators_with("monotone")
def test_weights_are_copies(case):
    p, y = sample(150)
    w = np.random.default_rng(1).integers(0, 4, 150)
    weighted = case.make().fit(p, y, w)
    message = r"count samples: sampling weights .* not supported.* only if a weight of k"
    with pytest.raises(ValueError, match=message):
        weighted.cutoff_certificate()
    one = weighted.cutoff_certificate(n_resamples=39, random_state=0, weights="frequency")
    two = case.make().fit(np.repeat(p, w), np.repeat(y, w)).cutoff_certificate(n_resamples=39, random_state=0)
    assert one.n_samples == two.n_samples == w.sum()
    assert one.upper == pytest.approx(two.upper, abs=1e-6)


def test_bad_input():
    p, y = sample()
    isotonic, binned = cal.IsotonicCalibrator().fit(p, y), cal.HistogramBinningCalibrator().fit(p, y)
    halves = cal.IsotonicCalibrator().fit(p, y, np.full(240, 0.5))
    for call, message in (
        (lambda: isotonic.cutoff_certificate(method="sharp"), "method must be one of 'fitted', 'asymptotic'"),
        (lambda: isotonic.cutoff_certificate(n_resamples=18), "n_resamples >= 19"),
        (lambda: isotonic.cutoff_certificate(weights="counts"), "weights must be one of 'frequency' or None"),
        (lambda: isotonic.cutoff_certificate(1.5), "confidence must lie strictly between 0 and 1"),
        (lambda: binned.cutoff_certificate(method="dkw"), "need not be monotone, .* Use method='fitted'"),
        (lambda: halves.cutoff_certificate(weights="frequency"), "non-integer weights"),
        (lambda: cal.CertifiedCalibrator(confidence=0.9999).fit(p, y), "n_resamples=999 is too few"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(AttributeError, match=r"has no certificate\. Use a calibrator with one"):
        cal.OneVsRestCalibrator(cal.SmoothedCalibrator()).fit(p, y).cutoff_certificate()


def test_one_against_the_rest_holds_for_all_classes_at_once():
    rng = np.random.default_rng(3)
    scores = rng.dirichlet(np.ones(3), 600)
    y = (rng.random((600, 1)) < np.cumsum(scores, axis=1)[:, :2]).sum(axis=1)
    calibrator = cal.OneVsRestCalibrator(cal.IsotonicCalibrator()).fit(scores, y)
    certificate = calibrator.cutoff_certificate(0.9, n_resamples=99, random_state=0)
    given = {"n_resamples": 99, "random_state": np.random.default_rng(0)}
    each = [one.cutoff_certificate(1 - 0.1 / 3, **given).upper for one in calibrator.calibrators_]
    assert certificate.upper == max(each) > min(each)
    assert (certificate.confidence, certificate.method) == (0.9, "fitted")
    assert certificate.note == "of each class against the rest, before division by the sum"
    two = cal.OneVsRestCalibrator(cal.IsotonicCalibrator()).fit(scores[:, 0], y == 0)
    single = cal.IsotonicCalibrator().fit(scores[:, 0], y == 0)
    assert two.cutoff_certificate(random_state=1) == single.cutoff_certificate(random_state=1)
    assert not two.cutoff_certificate(random_state=1).note


def test_certified_calibrator_bounds_the_map_in_use():
    p, y = sample(300)
    p = np.round(p, 1)
    kept = cal.CertifiedCalibrator("passthrough").fit(p, y)
    found = kept.cutoff_certificate(n_resamples=39, random_state=2)
    # half of the risk for the map, half for the constant
    each = {"confidence": 0.975}
    wanted = bound_by_loops(np.sort(p), y[np.argsort(p, kind="stable")], np.ones(300), 39, 2, **each)
    assert found.upper == pytest.approx(wanted)
    with pytest.raises(ValueError, match="n_resamples"):
        kept.cutoff_certificate(n_resamples=38)
    assert kept.margin_ == pytest.approx(kept.certificate_ - kept.cutoff_error_)
    assert kept.accepted_
    with pytest.warns(UserWarning, match="so that the constant event rate is used"):
        constant = cal.CertifiedCalibrator("passthrough", target=0.08).fit(p, y)
    assert not constant.accepted_
    expected = bound_by_loops(np.full(300, y.mean()), y, np.ones(300), 39, 2, **each)
    assert constant.cutoff_certificate(n_resamples=39, random_state=2).upper == pytest.approx(expected)


def test_pooling_changes_the_error_by_less_than_a_bin_can():
    rng = np.random.default_rng(0)
    for n, most in ((501, 2), (3000, 2), (3000, 20)):
        truth, mapped = rng.random(n), np.sort(rng.random(n))
        weight = rng.integers(1, most, n).astype(float)
        every = GroupedOutcomes(mapped, weight, weight * truth)
        pooled = pooled_outcomes(every)
        assert pooled.prob.shape[0] <= 500
        place = np.floor((np.cumsum(weight) - weight / 2) * 500 / weight.sum()).astype(int)
        expected = np.bincount(place, weight)
        np.testing.assert_array_equal(pooled.weight, expected[expected > 0])
        assert (pooled.total, pooled.positives.sum()) == pytest.approx((every.total, every.positives.sum()))
        change = cutoff_of_groups(every) - cutoff_of_groups(pooled)
        assert 0 <= change <= pooled.weight.max() / every.total * np.abs(truth - mapped).max()


def test_holds_as_often_as_it_says():
    """At 80%: neither too seldom nor, for isotonic regression, much too often."""
    rng = np.random.default_rng(11)
    truth, one = SHAPES["linear"], cal.IsotonicCalibrator()
    rows = [certified(truth, one, *truth.draw(200, rng), 0.8, 99, False) for _ in range(60)]
    errors, bounds = (np.array([row[key] for row in rows]) for key in ("error", "fitted"))
    assert binom.ppf(1e-4, 60, 0.8) <= np.sum(bounds >= errors) <= binom.ppf(1 - 1e-4, 60, 0.8)


@pytest.mark.weekly
def test_holds_as_often_as_it_says_for_all():
    """A proportion below what chance explains would refute the claim; at 90%, over all truths."""
    results = list(fitted_study([300], 40, 0.9, 39, seed=4))
    found = {(row["truth"], row["calibrator"]) for row in results}
    assert len(found) == (len(TRUTHS) + len(SHAPES)) * len(FITTED)
    for row in results:
        assert row["holds"] * row["repetitions"] >= binom.ppf(1e-5, row["repetitions"], 0.9), row
