"""Planned numbers of samples: by definition, by hand, and by simulation."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import beta, binom, chi2, ncx2, norm, uniform

from sklearn_calib.inference import CoxTest, TCal, confidence_interval, required_n_samples
from sklearn_calib.metrics import calibration_summary, cutoff_result
from tests._tiers import thorough, weekly

DECILES = np.arange(10) / 10 + 0.05


def test_equal_predictions_by_hand():
    # the test of one proportion, p = .5 against q
    q, n = expit(0.3), required_n_samples([0.5, 0.5], shift=0.3, power=0.9)

    def power(n):
        far = np.sqrt(n) * (q - 0.5)
        z, spread = norm.isf(0.025) * 0.5, np.sqrt(q * (1 - q))
        return norm.sf((z - far) / spread) + norm.cdf((-z - far) / spread)

    assert power(n - 1) < 0.9 <= power(n)
    # Riley et al. (2021): 905, with a standard error that is rounded to .2456
    n = required_n_samples([0.018], width={"observed_over_expected": 1.0})
    assert n == 906

    def width(n):
        margin = norm.isf(0.025) * np.sqrt((1 - 0.018) / (0.018 * n))
        return np.exp(margin) - np.exp(-margin)

    assert width(n) <= 1 < width(n - 1)
    assert np.ceil(0.982 / (0.018 * 0.2456**2)) == 905


def test_small_alternatives_by_the_noncentral_distribution():
    p = beta(2, 3).ppf((np.arange(3000) + 0.5) / 3000)
    x, v = np.stack((np.ones(3000), logit(p))), p * (1 - p)
    q = expit(0.02 + 1.01 * logit(p))
    u = x @ (q - p)
    gain = u @ np.linalg.solve((x * v) @ x.T, u)
    n = required_n_samples(p, slope=1.01, shift=0.02)
    assert ncx2.sf(chi2.isf(0.05, 2), 2, n / 3000 * gain) == pytest.approx(0.8, abs=0.003)


def test_a_bound_by_simulated_walks():
    rng = np.random.default_rng(0)
    for given, p in ((uniform(), (np.arange(1000) + 0.5) / 1000), (np.repeat(DECILES, 3), DECILES)):
        n = required_n_samples(given, bound=0.05, alpha=0.1, power=0.7)
        copies = n / p.size
        steps = rng.standard_normal((2000, p.size)) * np.sqrt(copies * p * (1 - p))
        walk = np.cumsum(steps, axis=1)
        ranges = (np.maximum(walk.max(axis=1), 0) - np.minimum(walk.min(axis=1), 0)) / n
        assert np.quantile(ranges, 0.9) + np.quantile(ranges, 0.7) + 1 / n == pytest.approx(0.05, rel=0.05)


def test_widths():
    p, density = expit(2.5 * norm.ppf((np.arange(20_000) + 0.5) / 20_000) - 5), norm(-5, 2.5).pdf
    a, b, c = (quad(lambda x, k=k: x**k * expit(x) * expit(-x) * density(x), -40, 40)[0] for k in range(3))
    scale = (2 * norm.isf(0.025) / 0.2) ** 2
    # the criterion and the example of Riley et al. (2021)
    n = required_n_samples(p, width={"slope": 0.2})
    assert n == int(np.ceil(scale * a / (a * c - b * b))) == 4554
    assert required_n_samples(p, width={"intercept": 0.2}) == pytest.approx(scale / a, rel=1e-3)
    # samples with predictions of 0 and 1 count, but do not inform
    diluted = required_n_samples(np.r_[p, np.tile([0, 1], 10_000)], width={"slope": 0.2})
    assert diluted == pytest.approx(2 * n, abs=2)
    widths = {"slope": 0.8, "intercept": 0.8, "observed_over_expected": 0.4, "smooth_ece": 0.1}
    names = list(widths)[:3]
    each = [required_n_samples(DECILES, width={name: widths[name]}, alpha=0.1) for name in names]
    assert required_n_samples(DECILES, width={name: widths[name] for name in names}, alpha=0.1) == max(each)
    assert required_n_samples(DECILES, width=widths, alpha=0.1) > max(each) > min(each)


@pytest.mark.weekly
def test_the_width_of_the_smooth_ece_is_the_one_without_a_name():
    found = required_n_samples(DECILES, width={"slope": 0.8, "smooth_ece": 0.1}, alpha=0.1)
    assert found == required_n_samples(DECILES, width=0.1, alpha=0.1)


@pytest.mark.parametrize("predictions", [uniform(), beta(0.3, 0.3)], ids=["uniform", "U-shaped"])
def test_a_wave_is_detected_at_the_planned_size(predictions):
    n = required_n_samples(predictions, wave=(0.2, 2), n_resamples=99)
    rng, found = np.random.default_rng(0), 0
    for seed in range(24):
        p = predictions.rvs(n, random_state=rng)
        y = rng.random(n) < np.clip(p + 0.2 * np.sin(4 * np.pi * p), 0, 1)
        found += TCal(n_resamples=99, random_state=seed).test(y, p).pvalue <= 0.05
    assert binom.ppf(0.002, 24, 0.8) <= found <= 23


def test_columns_order_and_extremes():
    p = np.random.default_rng(0).random(50)
    expected = required_n_samples(p, slope=0.8)
    assert required_n_samples(np.column_stack([1 - p, p]), slope=0.8) == expected
    assert required_n_samples(p[::-1].astype(np.float32), slope=0.8) == pytest.approx(expected, abs=1)
    assert required_n_samples([0.0, 0.5, 1.0], slope=0.5) >= 1
    assert required_n_samples([1e-6, 2e-6], shift=10.0) >= 1
    assert required_n_samples([0.2, 0.4, 0.7], slope=50.0) < 100
    assert required_n_samples([0.3], shift=0.5) == required_n_samples([0.3] * 4, shift=0.5)
    # a small wave of large predictions, found between neighboring numbers
    assert required_n_samples([0.25, 0.75], wave=(0.5, 1), n_resamples=39) < 64


def test_malformed_arguments():
    for given, message in [
        ({}, "pass one goal: slope or shift, .*; got none"),
        ({"bound": 0.1, "slope": 0.8}, "got slope or shift and bound"),
        ({"slope": 1.0}, "is perfect calibration"),
        ({"slope": 0.0}, "slope must be positive"),
        ({"shift": np.inf}, "shift must be finite"),
        ({"shift": "1"}, "shift must be a number"),
        ({"wave": 0.1}, "wave must be .amplitude, n_periods."),
        ({"wave": (0.1, -1)}, "wave: n_periods must be positive"),
        ({"bound": 1.5}, "bound must lie strictly between 0 and 1"),
        ({"width": 0}, "width must lie strictly between 0 and 1"),
        ({"width": {}}, "width must name one measure or more"),
        ({"width": {"brier": 0.1}}, "a measure of width must be one of 'smooth_ece', 'slope'"),
        ({"width": {"slope": -1}}, "width of slope must be positive"),
        ({"width": {"slope": "1"}}, "width of slope must be a number"),
        ({"width": 1e-6}, "needs more than 1000000 samples"),
        ({"bound": 0.1, "power": 0.01}, "power must be greater than alpha=0.05"),
        ({"wave": (0.1, 2), "n_resamples": 5}, "n_resamples=5 is too few for alpha=0.05"),
        ({"bound": 1e-15}, "bound must be at least 1e-12"),
        ({"slope": 0.5, "alpha": 1e-15}, "alpha must be at least 1e-12"),
        ({"y_proba": [0.5] * 3, "wave": (0.1, 2)}, "is perfect calibration"),
        ({"y_proba": [0.5] * 3, "slope": 0.5}, "is perfect calibration"),
        ({"y_proba": [0.0, 0.5, 0.5], "width": {"slope": 0.5}}, "does not determine a slope"),
        ({"y_proba": [0, 1, 1], "slope": 0.5}, "only 0 and 1"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            required_n_samples(**{"y_proba": [0.2, 0.4, 0.7]} | given)


def reached(quantiles, goal, n, repetitions):
    """Return how often a goal is reached on samples of size n, or the mean width of an interval."""
    rng, found = np.random.default_rng(2), []
    for seed in range(repetitions):
        p = quantiles(rng.random(n))
        if "wave" in goal:
            q = np.clip(p + goal["wave"][0] * np.sin(2 * np.pi * goal["wave"][1] * p), 0, 1)
        else:
            q = expit(goal.get("shift", 0) + goal.get("slope", 1) * logit(p))
        y = rng.random(n) < q
        if "width" in goal:
            if isinstance(goal["width"], dict):
                interval = getattr(calibration_summary(y, p), *goal["width"])
            else:
                interval = confidence_interval(y, p, metric="smooth_ece", n_resamples=100, random_state=seed)
            found.append(interval.upper - interval.lower)
        elif "bound" in goal:
            result = cutoff_result(y, p)
            margin = result.margin(0.95, "bootstrap", n_resamples=399, random_state=seed)
            found.append(result.value + margin <= goal["bound"])
        else:
            wave = TCal(n_resamples=399, random_state=seed)
            found.append((wave if "wave" in goal else CoxTest(method="asymptotic")).test(y, p).rejects())
    return np.mean(found), np.std(found) / np.sqrt(repetitions)


QUANTILES = {
    "uniform": lambda u: u,
    "logit-normal": lambda u: expit(1.5 * norm.ppf(u) - 1),
    "deciles": lambda u: np.floor(10 * u) / 10 + 0.05,
}
GOALS = [{"slope": 0.8}, {"slope": 1.3}, {"shift": 0.3}, {"wave": (0.15, 2)}, {"bound": 0.05}, {"width": 0.1}]
GOALS += [{"width": {name: 0.3}} for name in ("slope", "intercept", "observed_over_expected")]


@pytest.mark.parametrize(
    ("goal", "name", "repetitions"),
    [
        *(
            thorough(goal, list(QUANTILES)[k % 3], 20 if k >= 5 else 60)
            for k, goal in enumerate(GOALS)
            if "bound" not in goal and goal != {"width": 0.1}
        ),
        *(weekly(goal, name, 60 if "width" in goal else 400) for goal in GOALS for name in QUANTILES),
    ],
)
def test_simulations_need_within_ten_percent_of_the_planned_size(goal, name, repetitions):
    quantiles = QUANTILES[name]
    n = required_n_samples(quantiles((np.arange(2000) + 0.5) / 2000), **goal)
    below, error_below = reached(quantiles, goal, int(0.9 * n), repetitions)
    above, error_above = reached(quantiles, goal, int(np.ceil(1.1 * n)), repetitions)
    if "width" in goal:
        width = goal["width"] if isinstance(goal["width"], float) else max(goal["width"].values())
        assert above - 2 * error_above <= width <= below + 2 * error_below
    else:
        assert below - 2 * error_below <= 0.8 <= above + 2 * error_above
