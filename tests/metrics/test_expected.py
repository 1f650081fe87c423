"""Expected performance without labels, against definitions, linear programs and random feasible truths."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn import metrics as sk

from sklearn_calib.calibrators import CutoffCertificate
from sklearn_calib.metrics import IntervalEstimate, expected_performance
from tests._tiers import thorough

RATES = ["event_rate", "recall", "false_positive_rate", "precision", "negative_predictive_value", "f1"]
SCORES = ["accuracy", "cost", "roc_auc", "log_loss", "brier_score"]


def defined(truth, p, weight, t, cost_fp=1.0, cost_fn=1.0):
    """Metrics of a population with event probabilities ``truth``, each from its definition."""
    y = np.r_[np.ones(len(p)), np.zeros(len(p))]
    w, score = np.r_[weight * truth, weight * (1 - truth)], np.r_[p, p]
    act = score >= t
    tp, fp = w[act & (y == 1)].sum(), w[act & (y == 0)].sum()
    fn, tn = w[~act & (y == 1)].sum(), w[~act & (y == 0)].sum()
    total = w.sum()
    return {
        "event_rate": (tp + fn) / total,
        "recall": tp / (tp + fn),
        "false_positive_rate": fp / (fp + tn),
        "precision": tp / (tp + fp),
        "negative_predictive_value": tn / (tn + fn),
        "f1": 2 * tp / (2 * tp + fp + fn),
        "accuracy": (tp + tn) / total,
        "cost": (cost_fp * fp + cost_fn * fn) / total,
        "roc_auc": sk.roc_auc_score(y, score, sample_weight=w),
        "log_loss": sk.log_loss(y, score, sample_weight=w),
        "brier_score": sk.brier_score_loss(y, score, sample_weight=w),
    }


def intervals(n):
    """All sums over intervals of n sorted predictions, as rows of a matrix."""
    return np.array([[i <= k <= j for k in range(n)] for i in range(n) for j in range(i, n)], dtype=float)


def extreme(slope, sums, p, c):
    """Return the truth within c of p over all intervals whose product with the slope is the least."""
    return linprog(slope, np.r_[sums, -sums], np.r_[c + sums @ p, c - sums @ p], bounds=(0, 1)).x


@pytest.mark.parametrize("weighted", [False, True])
def test_estimates_are_the_metrics_of_a_calibrated_population(weighted):
    rng = np.random.default_rng(0)
    p = np.round(rng.uniform(0.02, 0.98, 60), 1 + weighted)
    weight = rng.integers(1, 5, 60).astype(float) if weighted else np.ones(60)
    sample_weight = weight if weighted else None
    found = expected_performance(p, threshold=0.4, cost_false_negative=5.0, sample_weight=sample_weight)
    for name, value in defined(p, p, weight, 0.4, cost_fn=5.0).items():
        assert getattr(found, name).estimate == pytest.approx(value, abs=1e-12), name
    assert found.flagged == pytest.approx(weight[p >= 0.4].sum() / weight.sum())


@pytest.mark.parametrize("c", [*(pytest.param(c, marks=pytest.mark.thorough) for c in (0.003, 0.1)), 0.02])
def test_intervals_hold_for_every_truth_that_the_certificate_allows(c):
    rng = np.random.default_rng(1)
    p, weight = np.sort(rng.uniform(0.03, 0.97, 9)), rng.uniform(0.5, 1.5, 9)
    weight /= weight.sum()
    found = expected_performance(p, threshold=0.5, certificate=c, sample_weight=weight)
    sums = intervals(9) * weight
    for _ in range(20):
        # a vertex of the set of truths that the certificate allows, or a point between two
        truths = [extreme(rng.normal(size=9), sums, p, c) for _ in range(2)]
        truth = truths[0] + rng.choice([0.0, 0.5]) * (truths[1] - truths[0])
        for name, value in defined(truth, p, weight, 0.5).items():
            interval = getattr(found, name)
            assert interval.lower - 1e-9 <= value <= interval.upper + 1e-9, name


def test_linear_intervals_are_attained():
    """Where no probability reaches 0 or 1, the extremes are those of a linear program."""
    p, weight, c = np.linspace(0.2, 0.8, 7), np.full(7, 1 / 7), 0.01
    found, sums = expected_performance(p, threshold=0.5, certificate=c), intervals(7) * weight
    act = p >= 0.5
    for name, slope in {
        "event_rate": weight,
        "accuracy": weight * np.where(act, 1, -1),
        "precision": weight * act / (weight * act).sum(),
        "brier_score": weight * (1 - 2 * p),
        "log_loss": -weight * np.log(p / (1 - p)),
    }.items():
        for sign, end in ((1, "lower"), (-1, "upper")):
            truth, interval = extreme(sign * slope, sums, p, c), getattr(found, name)
            expected = slope @ (truth - p)
            assert getattr(interval, end) - interval.estimate == pytest.approx(expected, abs=1e-9)


def test_auc_interval_against_a_search():
    """The greatest area over event rates and deviations, on a fine grid."""
    p, c = np.random.default_rng(2).beta(2, 5, 40), 0.015
    found, event_rate = expected_performance(p, certificate=c).roc_auc, p.mean()
    integral = np.mean([(p * ((p > u) + 0.5 * (p == u))).mean() for u in p])
    rate = np.linspace(event_rate - c, event_rate + c, 20001)
    change = rate - event_rate

    def area(deviation):
        return (integral + deviation - rate**2 / 2) / (rate * (1 - rate))

    assert found.upper == pytest.approx(area(c + np.minimum(0, change)).max(), abs=1e-9)
    assert found.lower == pytest.approx(area(-c + np.maximum(0, change)).min(), abs=1e-9)


@pytest.mark.parametrize("unimodal", [True, thorough(False)])
def test_intervals_hold_under_a_changed_distribution(unimodal):
    """For truths at the vertices of the set that the certificate allows for the old distribution."""
    rng = np.random.default_rng(3)
    p, c, old = np.linspace(0.1, 0.9, 8), 0.01, np.full(8, 1 / 8)
    sums, worst = intervals(8) * old, 0.0
    for _ in range(5):
        new = rng.dirichlet(np.full(8, 2.0))
        if unimodal:
            new = np.concatenate((np.sort(new[:5]), -np.sort(-new[5:])))
            new[4] = new.max()
            new /= new.sum()
        ratio = new / old
        bound = (ratio[0] + ratio[-1] + np.abs(np.diff(ratio)).sum()) / 2
        assert bound == pytest.approx(ratio.max()) if unimodal else bound > ratio.max()
        found = expected_performance(p, certificate=c, sample_weight=new, max_density_ratio=bound)
        for _ in range(4):
            truth = extreme(rng.normal(size=8), sums, p, c)
            for name, value in defined(truth, p, new, 0.5).items():
                interval = getattr(found, name)
                assert interval.lower - 1e-9 <= value <= interval.upper + 1e-9, name
            error = np.abs(intervals(8) @ (new * (truth - p))).max()
            assert error <= c * bound + 1e-12
            worst = max(worst, error)
    # without the factor they would not hold
    assert worst > 1.5 * c


def test_all_predictions_move_to_where_the_error_is():
    """Errors of .2 above .95 only: a certificate of .01, and a density ratio of 20 where all new ones are."""
    p = (np.arange(1000) + 0.5) / 1000
    new = p[p > 0.95]
    found = expected_performance(new, certificate=0.2 * 0.05, max_density_ratio=20)
    truth = new.mean() - 0.2
    assert found.event_rate.lower == pytest.approx(truth, abs=1e-12)
    assert found.precision.lower == pytest.approx(truth, abs=1e-12)
    assert "unimodal and at most 20" in str(found)
    unchanged = expected_performance(new, certificate=0.2 * 0.05)
    assert unchanged.event_rate.lower > truth
    assert "neither P(event | prediction) nor the distribution" in str(unchanged)


@pytest.mark.parametrize("n", [7, 10, 49])
def test_one_class_only_leaves_rates_undefined(n):
    found = expected_performance(np.ones(n), certificate=0.01)
    for name in ("roc_auc", "false_positive_rate", "negative_predictive_value"):
        assert np.isnan(getattr(found, name).estimate), name
    assert found.recall.estimate == found.precision.estimate == 1.0
    none = expected_performance(np.zeros(n), sample_weight=np.full(n, 0.1))
    for name in ("roc_auc", "recall", "precision", "f1"):
        assert np.isnan(getattr(none, name).estimate), name
    assert none.negative_predictive_value.estimate == 1.0
    assert expected_performance(np.repeat([0.0, 1.0], n)).roc_auc.estimate == pytest.approx(1.0)


def test_by_hand():
    found = expected_performance([0.1, 0.2, 0.6, 0.9], certificate=0.05)
    assert found.recall.estimate == pytest.approx(1.5 / 1.8)
    assert (found.recall.lower, found.recall.upper) == pytest.approx((0.325 / 0.45, 0.425 / 0.45))
    assert (found.precision.lower, found.precision.upper) == pytest.approx((0.65, 0.85))
    assert (found.accuracy.lower, found.accuracy.upper) == pytest.approx((0.7, 0.9))
    assert found.flagged == 0.5
    assert "has changed since the certificate of 0.05" in str(found)
    assert "recall                    0.8333 [0.7222, 0.9444]" in str(found)


def test_without_certificate_there_are_no_intervals():
    found = expected_performance([0.1, 0.2, 0.6, 0.9])
    for name in RATES + SCORES:
        interval = getattr(found, name)
        assert isinstance(interval, IntervalEstimate)
        assert np.isnan(interval.lower)
        assert np.isnan(interval.upper)
    assert "recall                    0.8333\n" in str(found)
    assert "calibrated on these samples" in str(found)


def test_rates_without_denominator():
    found = expected_performance([0.1, 0.2], certificate=0.05)
    assert np.isnan(found.precision.estimate)
    assert "precision                 not determined" in str(found)
    assert found.recall.estimate == 0.0
    flagged = expected_performance([0.8, 0.9], certificate=0.3)
    assert np.isnan(flagged.negative_predictive_value.estimate)
    assert (flagged.false_positive_rate.lower, flagged.false_positive_rate.upper) == (1.0, 1.0)


def test_zeros_and_ones():
    found = expected_performance([0.0, 0.0, 1.0, 0.5], certificate=0.01)
    assert (found.log_loss.estimate, found.log_loss.upper) == (pytest.approx(np.log(2) / 4), np.inf)
    exact = expected_performance([0.0, 0.0, 1.0, 0.5], certificate=0.0)
    assert exact.log_loss.upper == exact.log_loss.estimate
    assert np.isnan(expected_performance([0.0, 0.0], certificate=0.01).roc_auc.estimate)
    # at .3 and .31 the greatest event rate is 1 up to rounding
    for p, c in (([0.3], 0.5), ([0.7] * 3, 0.3), ([0.57], 0.43), ([0.69], 0.31)):
        one = expected_performance(p, certificate=c)
        assert (one.roc_auc.lower, one.roc_auc.upper) == (0.0, 1.0)


def test_weights_are_repetitions():
    rng = np.random.default_rng(5)
    p, k = rng.uniform(size=200), rng.integers(0, 4, 200)
    once = expected_performance(p, certificate=0.02, sample_weight=k)
    repeated = expected_performance(np.repeat(p, k), certificate=0.02)
    for name in RATES + SCORES:
        for end in ("estimate", "lower", "upper"):
            assert getattr(getattr(once, name), end) == pytest.approx(getattr(getattr(repeated, name), end))


def test_the_object_of_a_certificate_is_not_its_bound():
    certificate = CutoffCertificate(upper=0.05, confidence=0.95, method="fitted", n_samples=100.0)
    with pytest.raises(TypeError, match=r"certificate must be a number. Pass certificate\.upper"):
        expected_performance([0.1, 0.8], certificate=certificate)
