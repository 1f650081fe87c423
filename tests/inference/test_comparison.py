"""Paired tests: enumeration of all swaps, closed cases, level, weights, symmetry; the table of models."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.metrics import accuracy_score, average_precision_score, log_loss, roc_auc_score, zero_one_loss

from sklearn_calib.inference import compare_models, confidence_interval, expected_under_calibration
from sklearn_calib.inference._paired_samples import PairedSamples, Splits, check_models
from sklearn_calib.metrics import (
    MetricKernel,
    cutoff_calibration_error,
    decision_risk_gap,
    expected_calibration_error,
    net_benefit,
)
from tests._references import brier
from tests._samples import simulated, simulated_classes
from tests._tiers import thorough, weekly

compare_pairs = partial(compare_models, intervals=False)
ece = partial(expected_calibration_error, n_bins=5)
METRICS = [cutoff_calibration_error, ece, brier]
IDS = ["cutoff", "ece", "brier"]


def sample(n=60, seed=0):
    """Two noisy versions of the true probability."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n)
    y = (rng.random(n) < truth).astype(int)
    a, b = np.clip(truth + rng.normal(0, 0.15, (2, n)), 0.01, 0.99)
    return y, a, b


def paired(y, a, b, **options):
    return compare_pairs(y, {"a": a, "b": b}, **options).pairs[0]


@pytest.mark.parametrize("metric", ["cutoff_calibration_error", "brier_score"])
def test_intervals_of_single_models_are_optional(metric):
    y, a, b = sample(40)
    given = {"metric": metric, "n_resamples": 59}
    pairs, whole = compare_pairs(y, {"a": a, "b": b}, **given), compare_models(y, {"a": a, "b": b}, **given)
    assert (str(pairs.pairs), pairs.best_set) == (str(whole.pairs), whole.best_set)
    for row, other in zip(pairs.models, whole.models, strict=True):
        assert row.estimate == other.estimate
        assert np.isnan([row.expected, row.corrected, row.lower, row.upper]).all()
        assert np.isfinite([other.expected, other.corrected, other.lower, other.upper]).all()
    assert (pairs.has_intervals, whole.has_intervals) == (False, True)
    first = str(pairs).split("\n\n")[1]
    assert "interval" not in first
    assert "nan" not in str(pairs) + pairs._repr_html_()


@pytest.mark.parametrize("weighted", [False, True])
def test_average_is_the_test_of_all_swaps(weighted):
    y, a, b = sample(9, seed=3)
    w = np.array([1, 10, 1, 2, 1, 0.5, 3, 1, 10]) if weighted else np.ones(9)
    d = w * ((y - a) ** 2 - (y - b) ** 2) / w.sum()
    everything = np.array([np.dot(signs, d) for signs in itertools.product([1, -1], repeat=9)])
    share = np.mean(np.abs(everything) >= abs(d.sum()) - 1e-12)
    options = {"sample_weight": w, "n_resamples": 1999, "random_state": 0}
    found = compare_pairs(y, {"a": a, "b": b}, metric="brier_score", **options)
    (pair,) = found.pairs
    assert pair.difference == pytest.approx(d.sum())
    assert pair.pvalue == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 2000))
    assert np.abs(pair.null_distribution[:, np.newaxis] - everything).min(axis=1).max() < 1e-12
    assert pair.null_distribution.shape == (2 * 1999,)
    assert found.n_samples == 9
    if weighted:
        assert found.n_effective == pytest.approx(w.sum() ** 2 / (w @ w))
        assert "sampling weights, effective number of samples 4" in str(found)


def test_sampling_weights_of_metrics_with_and_without_a_kernel():
    y, a, b = sample(40)
    w = np.exp(np.random.default_rng(0).normal(size=40))

    def cutoff(y_true, y_proba, sample_weight=None):
        return cutoff_calibration_error(y_true, y_proba, sample_weight=sample_weight)

    options = {"n_resamples": 59, "sample_weight": w, "random_state": 0}
    alone = MetricKernel(calibration_error=True)(cutoff)
    batched, single = (paired(y, a, b, metric=m, **options) for m in (cutoff_calibration_error, alone))
    np.testing.assert_allclose(batched.null_distribution, single.null_distribution, atol=1e-9)
    again = paired(y, a, b, metric=cutoff_calibration_error, **options | {"sample_weight": 7 * w})
    assert again.pvalue == batched.pvalue
    with pytest.raises(TypeError, match="metric has no parameter sample_weight"):
        paired(y, a, b, metric=brier, **options)
    p, q = np.random.default_rng(1).dirichlet(np.ones(3), (2, 40))
    compared = compare_pairs(y, {"p": p, "q": q}, **options, labels=range(3), metric="log_loss")
    assert compared.weights == "sampling"


def test_interval_of_an_average_holds_the_means_of_subsets():
    # Hartigan: a value is rejected if few splits have it between the means of both parts
    y, a, b = sample(9, seed=1)
    loss, ends = (y - a) ** 2 - (y - b) ** 2, []
    for chosen in itertools.product([False, True], repeat=9):
        part = np.array(chosen)
        ends.append((loss[part].mean(), loss[~part].mean()) if 0 < part.sum() < 9 else (-np.inf, np.inf))
    low, high = np.sort(ends, axis=1).T
    result = paired(y, a, b, metric=brier, n_resamples=1999, confidence=0.8)
    expected = np.quantile(low, 0.2), np.quantile(high, 0.8)
    assert (result.lower, result.upper) == pytest.approx(expected, abs=0.05 * (expected[1] - expected[0]))


def test_parts_from_the_definition():
    y, a, b = sample(31)
    rows = PairedSamples.of(check_models(y, {"a": a, "b": b}))
    splits = Splits.draw(ece, rows, 5, np.random.default_rng(1))
    member = np.random.default_rng(1).random((5, 31)) < 0.5
    for k, first in enumerate(member):
        f, corrected = first.mean(), splits.whole - splits.curved.mean(axis=0)
        assert splits.fraction[k] == f
        for model, p in enumerate((a, b)):
            t1, t2, t = (ece(y[part], p[part]) ** 2 for part in (first, ~first, slice(None)))
            assert splits.parts[:, k, model] == pytest.approx([t1, t2])
            assert splits.curved[k, model] == pytest.approx(f * t1 + (1 - f) * t2 - t)
            assert corrected[model] == splits.corrected[model]


def test_draws_and_ends_of_squares_by_hand():
    # splits of equal parts: the linear part has variance 4, of which the curved part takes 1
    curved, linear = np.array([6.0, 6.0, 4.0, 4.0]), np.array([2.0, -2.0, 2.0, -2.0])
    whole = np.array([10.0])
    parts = np.stack([whole + curved + linear, whole + curved - linear])[:, :, np.newaxis]
    splits = Splits(whole, parts, np.full((4, 1), 0.5), True, 0, 0.0)
    contrast, up = splits.of_one(0), curved - 5 + np.sqrt(3 / 4) * linear
    down = curved - 5 - np.sqrt(3 / 4) * linear
    assert contrast.estimate == 5
    np.testing.assert_allclose(contrast.draws, np.concatenate((up, down)))
    np.testing.assert_allclose(contrast.ends, 5 - np.concatenate((up, down)))
    # all of a linear part that is smaller than the curved one is noise
    small = np.stack([whole + curved + linear / 8, whole + curved - linear / 8])[:, :, np.newaxis]
    draws = Splits(whole, small, np.full((4, 1), 0.5), True, 0, 0.0).of_one(0).draws
    np.testing.assert_allclose(draws, np.tile(curved - 5, 2))


def calibrated(seed):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((3, 100))
    y = rng.random(100) < 1 / (1 + np.exp(-1.5 * z[0]))
    return y, *(1 / (1 + np.exp(-1.5 * z[0] - 0.5 * own)) for own in z[1:])


def unequal_expected_values(seed):
    """Both calibrated; the expected error of one is far above that of the other."""
    return *simulated(200, seed=seed), np.full(200, 0.5)


@pytest.mark.parametrize("draw", [calibrated, unequal_expected_values])
def test_level_of_calibrated_models(draw):
    given = {"metric": ece, "n_resamples": 59}
    rejected = [paired(*draw(k), **given, random_state=k).pvalue <= 0.1 for k in range(24)]
    assert np.sum(rejected) <= binom.ppf(0.998, 24, 0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("metric", METRICS, ids=IDS)
@pytest.mark.parametrize("n_resamples", [59, 100])
def test_pvalue_is_the_inversion_of_the_interval(metric, n_resamples):
    for seed in range(6):
        y, a, b = sample(60, seed)
        options = {"n_resamples": n_resamples, "confidence": 0.8, "random_state": seed}
        result = paired(y, a, b**1.5, metric=metric, **options)
        assert (result.pvalue <= 0.2 + 1e-12) == (not result.lower <= 0 <= result.upper)
        assert result.lower <= result.upper


@pytest.mark.parametrize("metric", [ece, brier], ids=["ece", "brier"])
def test_same_model_twice(metric):
    y, a, b = sample(50)
    result = paired(y, a, a.copy(), metric=metric, n_resamples=59)
    assert (result.difference, result.corrected, result.pvalue) == (0, 0, 1)
    if metric is brier:
        # nor is it the pair that decides about others
        models = {"a": a, "rounded": a * (1 + 1e-15), "inverse": 1 - b}
        found = compare_pairs(y, models, metric=metric, n_resamples=59).pairs
        assert [pair.adjusted_pvalue for pair in found] == [1, 1 / 60, 1 / 60]


def test_weights_are_repetition():
    y, a, b = sample(40)
    times = np.random.default_rng(0).integers(0, 4, 40)
    options = {"n_resamples": 59, "random_state": 0}
    given = {"sample_weight": times, "weights": "frequency"}
    weighted = compare_models(y, {"a": a, "b": b}, metric=ece, **given, **options)
    y, a, b = (np.repeat(x, times) for x in (y, a, b))
    repeated = compare_models(y, {"a": a, "b": b}, metric=ece, **options)
    assert (str(weighted), weighted.n_samples) == (f"{repeated}; frequencies", times.sum())
    draws = [each.pairs[0].null_distribution for each in (weighted, repeated)]
    np.testing.assert_array_equal(*draws)


def test_several_classes():
    y, p = simulated_classes(400, [1, 1, 1])
    flat = 0.5 * p + 0.5 / 3

    @MetricKernel()
    def metric(y_true, y_proba):
        return -np.mean(np.log(y_proba[np.arange(len(y_true)), y_true]))

    options = {"n_resamples": 59, "random_state": 0}
    compared = compare_models(y, {"a": p, "b": flat}, metric=metric, **options)
    model, (result,) = compared.models[1], compared.pairs
    assert model.estimate == pytest.approx(log_loss(y, flat))
    assert result.difference == pytest.approx(metric(y, p) - metric(y, flat))
    assert result.pvalue <= 0.05
    # a calibrated model promises its entropy
    entropy = -np.mean((flat * np.log(flat)).sum(axis=1))
    assert model.expected == pytest.approx(entropy, rel=0.02)
    few = y < 2
    with pytest.warns(UserWarning, match="The rarer class has only"):
        partly = compare_models(y[few], {"a": p[few], "b": flat[few]}, metric=metric, **options).models[0]
    assert partly.estimate == pytest.approx(metric(y[few], p[few]))


def few_events(n_events, seed, n=200):
    """Two equally noisy versions of a score, in random order."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) < n_events
    score = rng.normal(size=n) + y
    a, b = expit(score + 0.7 * rng.normal(size=(2, n)) - 2)
    return y, a, b


@pytest.mark.parametrize("n_events", [3, 8])
def test_level_of_the_auc_with_few_events(n_events):
    """Splits with all events in one part have no AUC there, and do not reject."""
    given = {"metric": "roc_auc", "n_resamples": 99}
    pvalues = [paired(*few_events(n_events, k), **given, random_state=k).pvalue for k in range(24)]
    assert np.count_nonzero(np.array(pvalues) <= 0.05) <= binom.ppf(0.999, 24, 0.05)
    if n_events == 3:
        # a quarter of the splits, less 4 standard errors
        assert min(pvalues) > 0.25 - 4 * np.sqrt(0.25 * 0.75 / 99)


@pytest.mark.filterwarnings("ignore:Only")
def test_clusters_with_events_in_few_of_them():
    y, a, b = few_events(9, seed=0)
    clusters = np.r_[np.zeros(3), np.ones(3), np.full(3, 2), np.arange(191) % 40 + 3]
    found = paired(y, a, b, metric=auc_or_nan, clusters=clusters, n_resamples=99)
    assert found.pvalue > 0.1
    assert (found.lower, found.upper) == (-np.inf, np.inf)
    with pytest.raises(ValueError, match="metric is NaN in a part of the samples for every random split"):
        paired(y, a, b, metric="roc_auc", clusters=np.maximum(np.arange(200) - 8, 0), n_resamples=99)


@MetricKernel(greater_is_better=True)
def auc_or_nan(y_true, y_proba):
    events, others = y_proba[y_true == 1], y_proba[y_true == 0]
    return np.mean(events[:, np.newaxis] > others) if events.size and others.size else np.nan


def models(n=400, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    return y, {"true": p, "noisy": np.clip(p + rng.normal(0, 0.03, n), 0, 1), "squared": p**2, "half": p / 2}


def step_down(pairs):
    """Return max-|t| p-values from their definition, from both simulated values of every pair and split."""
    spread = [np.sqrt(np.mean(pair.null_distribution**2)) for pair in pairs]
    statistic = np.array([abs(pair.corrected) / s for pair, s in zip(pairs, spread, strict=True)])
    signed = [np.sign(q.corrected) * q.null_distribution / s for q, s in zip(pairs, spread, strict=True)]
    null, found = np.array([each.reshape(2, -1).max(axis=0) for each in signed]), []
    for own in statistic:
        # of the p-values of this and all greater statistics the largest
        steps = []
        for k in np.flatnonzero(statistic >= own):
            reached = null[statistic <= statistic[k]].max(axis=0) >= statistic[k] - 1e-9
            steps.append(max((1 + reached.sum()) / (1 + null.shape[1]), pairs[k].pvalue))
        found.append(min(1, max(steps)))
    return found


@pytest.mark.parametrize("metric", METRICS, ids=IDS)
def test_compare_models_keeps_the_good_ones(metric):
    y, predictions = models()
    result = compare_models(y, predictions, metric=metric, n_resamples=99, random_state=0)
    assert result.best_set == ("true", "noisy")
    assert [pair.adjusted_pvalue for pair in result.pairs] == pytest.approx(step_down(result.pairs))
    for row in result.models:
        assert row.estimate == metric(y, predictions[row.name])
        assert row.in_best_set == (row.name in result.best_set)
    assert result.pairs_to_records()[0]["name_b"] == "noisy"


def test_reference_and_table():
    y, predictions = models()
    result = compare_pairs(y, predictions, metric=ece, reference="squared", n_resamples=199, random_state=0)
    pairs = [(pair.name_a, pair.name_b) for pair in result.pairs]
    assert pairs == [("true", "squared"), ("noisy", "squared"), ("half", "squared")]
    assert "squared" not in result.best_set
    assert list(result.to_frame()["name"]) == list(predictions)
    assert all(row["adjusted_pvalue"] >= row["pvalue"] for row in result.pairs_to_records())
    assert "p (max-t)" in str(result)
    plain = compare_pairs(y, predictions, metric=ece, correction=None, n_resamples=99)
    assert all(pair.adjusted_pvalue == pair.pvalue for pair in plain.pairs)
    assert "p-value" in str(plain)
    y, predictions = models(800)
    metric = cutoff_calibration_error
    result = compare_models(y, predictions, metric=metric, n_resamples=99)
    for row in result.models:
        null = expected_under_calibration(None, predictions[row.name], metric=metric)
        assert row.expected == pytest.approx(null.expected, rel=0.2)
    assert "n = 800" in str(result)


def test_a_metric_declares_whether_greater_values_are_better():
    def gain(y_true, y_proba, factor=1.0):
        return -factor * brier(y_true, y_proba)

    y, predictions = models(500)
    pair = {"true": predictions["true"], "never": np.zeros(500)}
    for greater, best in ((True, "true"), (False, "never")):
        compared = compare_pairs(y, pair, metric=gain, greater_is_better=greater, n_resamples=59)
        assert compared.best_set == (best,)
        assert f"gain: {'greater' if greater else 'smaller'} is better" in str(compared)
    MetricKernel(greater_is_better=True)(gain)
    for metric in (gain, partial(gain, factor=2.0)):
        assert compare_pairs(y, pair, metric=metric, n_resamples=59).best_set == ("true",)


@pytest.mark.parametrize(
    "metric",
    [
        *(thorough(roc_auc_score), thorough(average_precision_score), partial(log_loss, labels=[0, 1])),
        *("roc_auc", "net_benefit", partial(net_benefit, threshold=0.4)),
    ],
)
def test_metrics_of_the_package_and_of_scikit_learn_have_a_direction(metric):
    y, predictions = models(300)
    p = np.clip(predictions["true"], 0.01, 0.99)
    given = {"true": p, "noise": np.random.default_rng(1).permutation(p)}
    compared = compare_pairs(y, given, metric=metric, n_resamples=39)
    assert compared.best_set == ("true",)
    assert compared.greater_is_better == (getattr(metric, "func", None) is not log_loss)
    turned = {"greater_is_better": not compared.greater_is_better}
    assert compare_pairs(y, given, metric=metric, n_resamples=39, **turned).best_set == ("noise",)


@pytest.mark.parametrize("n_runs", [thorough(6), weekly(16)])
def test_interval_by_half_samples_covers(n_runs):
    # a metric without weights
    @MetricKernel(calibration_error=True)
    def cutoff(y_true, y_proba):
        return cutoff_calibration_error(y_true, y_proba)

    hits = 0
    for seed in range(n_runs):
        y, predictions = models(200, 100 + seed)
        options = {"n_resamples": 59, "confidence": 0.9, "random_state": seed}
        squared = compare_models(y, predictions, metric=cutoff, **options).models[2]
        hits += squared.lower <= 1 / 6 <= squared.upper
    assert binom.cdf(hits, n_runs, 0.9) > 1e-3


A, B = [0.1, 0.2, 0.3, 0.4], [0.5] * 4
P = np.full((4, 3), 1 / 3)
THREE = {"metric": "log_loss", "y_true": [0, 1, 2, 0], "predictions": {"a": P, "b": P}}
GOOD = {"metric": ece, "y_true": [0, 1, 0, 1], "predictions": {"a": A, "b": B}}


def test_bad_arguments():
    for arguments, error, named in [
        ({"metric": 7}, TypeError, "metric must be the name"),
        ({"metric": "ece"}, ValueError, "metric=.ece. is not the name of a metric"),
        ({"metric": lambda y, p: np.nan, "greater_is_better": True}, ValueError, "metric returned nan"),
        ({"metric": lambda y, p: 0.0}, ValueError, "Pass greater_is_better=True or greater_is_better=False"),
        ({"greater_is_better": "no"}, TypeError, "greater_is_better must be True or False, got 'no'"),
        ({"metric": accuracy_score, "greater_is_better": True}, ValueError, r"targets\. A subset of the"),
        ({"metric": partial(zero_one_loss)}, ValueError, "does not declare whether greater values are bet"),
        ({"predictions": {"a": [0.1, 0.2, 0.3, 1.4], "b": B}}, ValueError, r"predictions\['a'\]"),
        ({"predictions": {"a": A, "b": [0.5] * 3}}, ValueError, r"4 samples but predictions\['b'\] has 3"),
        ({"y_true": [0, 1]}, ValueError, "y_true has 2 samples"),
        ({"y_true": [0, 1, 2, 1]}, ValueError, "y_true"),
        ({"predictions": [A, B]}, TypeError, "predictions"),
        ({"predictions": {"a": A}}, ValueError, "at least two"),
        ({"reduction": "mean"}, ValueError, "reduction must be"),
        ({"labels": [0, 1, 2]}, ValueError, "both labels of a binary problem"),
        ({"reference": "c"}, ValueError, "reference"),
        ({"correction": "fdr"}, ValueError, "correction"),
        ({"n_resamples": 18}, ValueError, "n_resamples >= 19"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"sample_weight": [0.5, 1, 1, 1], "weights": "frequency"}, ValueError, "sample_weight"),
        ({"weights": "counts"}, ValueError, "weights"),
        ({"random_state": "x"}, TypeError, "random_state"),
        ({"metric": log_loss, "y_true": [0, 0, 0, 1]}, ValueError, "labels"),
        (THREE | {"pos_label": 1}, ValueError, "pos_label"),
        (THREE | {"y_true": [0, 5, 0, 5]}, ValueError, "3 columns"),
        (THREE | {"y_true": [-1, 0, 0, -1]}, ValueError, "3 columns"),
        ({"predictions": {"a": P, "b": 2 * P / 3}, "y_true": [0, 1, 2, 0]}, ValueError, "sums to"),
    ]:
        with pytest.raises(error, match=named):
            compare_models(**(GOOD | {"n_resamples": 39} | arguments))


@pytest.mark.parametrize("seed", [5, 6])
def test_ties_count_whatever_the_unit_of_the_metric(seed):
    # the metric takes few values: differences of parts equal the estimate but for rounding
    rng = np.random.default_rng(seed)
    p = rng.random(40)
    y, q = (rng.random(40) < p).astype(int), np.clip(p + rng.normal(0, 0.1, 40), 0.01, 0.99)

    def pvalue(unit, *models):
        @MetricKernel(calibration_error=True)
        def metric(y_true, y_proba):
            return unit * decision_risk_gap(y_true, y_proba)

        return paired(y, *models, metric=metric, n_resamples=39, random_state=0).pvalue

    assert pvalue(1.0, p, q) == pvalue(0.3, p, q) == pvalue(7.0, q, p)


def test_pooled_splits_of_many_predictions_agree_with_a_plain_loop():
    y, p = simulated(9000)

    @MetricKernel(calibration_error=True)
    def loop(y_true, y_proba):
        return cutoff_calibration_error(y_true, y_proba)

    options = {"n_resamples": 99, "random_state": 0}
    fast = paired(y, p, p**1.1, metric=cutoff_calibration_error, **options)
    slow = paired(y, p, p**1.1, metric=loop, **options)
    # predictions are pooled: far less than the width of the interval
    width = slow.upper - slow.lower
    assert fast.difference == slow.difference
    for name in ("corrected", "lower", "upper"):
        assert getattr(fast, name) == pytest.approx(getattr(slow, name), abs=0.03 * width)


def eight(seed, worst=None):
    """Eight noisy versions of the true log-odds, one of them shifted."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(200)
    y = (rng.random(200) < 1 / (1 + np.exp(-truth))).astype(int)
    logits = truth + 0.3 * rng.standard_normal((8, 200))
    if worst is not None:
        logits[worst] += 1.0
    return y, {f"m{k}": 1 / (1 + np.exp(-row)) for k, row in enumerate(logits)}


def test_eight_models_with_the_default_number_of_resamples():
    compared = compare_pairs(*eight(0, worst=3), metric=brier)
    assert len(compared.pairs) == 28
    assert compared.best_set == tuple(f"m{k}" for k in range(8) if k != 3)
    worse = [pair for pair in compared.pairs if "m3" in (pair.name_a, pair.name_b)]
    assert all(pair.adjusted_pvalue <= 0.05 for pair in worse)


@pytest.mark.parametrize(("metric", "n_runs"), [thorough(ece, 50), weekly(brier, 150), weekly(ece, 150)])
def test_family_wise_error_rate_of_eight_equal_models(metric, n_runs):
    hits = 0
    for seed in range(n_runs):
        compared = compare_pairs(*eight(seed), metric=metric, n_resamples=199, random_state=seed)
        hits += len(compared.best_set) < 8
    assert hits <= binom.ppf(0.999, n_runs, 0.05)


def test_text_names_the_metric_and_what_is_compared():
    y, p = simulated(400)
    models, noise = {"bad": p**3, "true": p, "worst": p**6}, np.random.default_rng(1).random(400)
    auc = compare_models(y, {"noise": noise, "true": p}, metric="roc_auc", n_resamples=39)
    assert str(auc).startswith("roc_auc: greater is better")
    assert "corrected" not in str(auc)
    assert "expected" not in str(auc)
    options = {"metric": "expected_calibration_error", "n_resamples": 59, "reference": "bad"}
    text = str(compare_models(y, models, **options))
    lines = {line.split()[0]: line for line in text.split("\n\n")[1].splitlines()}
    assert lines["bad"].endswith("reference")
    assert lines["true"].endswith(" not worse than bad")
    assert lines["worst"].endswith("  worse than bad")
    assert text.endswith("intervals are not")
    assert "best set" not in text
    assert text.split("\n\n")[1].startswith("model  estimate")
    assert "raw" not in str(auc)
    models = {"base": np.full(400, 0.5), "low": np.full(400, 0.1), "true": p}
    errors = compare_pairs(y, models, n_resamples=59)
    assert errors.constant == ("base", "low")
    assert errors.best_set == ("base", "true")
    assert str(errors).endswith("\nbase predicts a constant, which does not separate samples")
    assert "constant" not in str(compare_pairs(y, models, metric="brier_score", n_resamples=59))


def classes(n=120, n_classes=4):
    y, p = simulated_classes(n, np.full(n_classes, 0.3))
    return y, p, np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("reduction", ["classwise", "confidence", "top-label"])
def test_reductions_are_those_of_the_function(reduction):
    """Splits by the kernels of binary problems, and by a call of the metric for each part."""
    y, p, flat = classes()

    @MetricKernel(calibration_error=True)
    def function(y_true, y_proba, sample_weight=None, labels=None):
        given = {"sample_weight": sample_weight, "reduction": reduction}
        return cutoff_calibration_error(y_true, y_proba, labels=np.arange(4), **given)

    w = np.exp(np.random.default_rng(1).normal(size=120))
    options, models = {"n_resamples": 39, "sample_weight": w}, {"true": p, "flat": flat}
    found = compare_pairs(y, models, metric=cutoff_calibration_error, reduction=reduction, **options)
    loop = compare_pairs(y, models, metric=function, **options).pairs[0]
    np.testing.assert_allclose(found.pairs[0].null_distribution, loop.null_distribution, atol=1e-9)
    assert found.pairs[0].difference == pytest.approx(loop.difference)
    letters, none = np.array(["a", "b", "c", "d", "e"])[y], np.column_stack((p, np.zeros(120)))
    given = {"metric": cutoff_calibration_error, "n_resamples": 39, "labels": list("abcde")}
    assert compare_pairs(letters, {"a": none, "b": none}, **given).pairs[0].pvalue == 1


@pytest.mark.parametrize("reduction", ["classwise", "confidence", "top-label"])
def test_intervals_of_reductions(reduction):
    y, p, flat = classes()
    w = np.exp(np.random.default_rng(1).normal(size=120))
    given = {"metric": cutoff_calibration_error, "reduction": reduction, "sample_weight": w}
    row = compare_models(y, {"true": p, "flat": flat}, n_resamples=39, **given).models[0]
    expected = confidence_interval(y, p, random_state=1, **given)
    assert row.estimate == pytest.approx(expected.estimate)
    near = pytest.approx((expected.lower, expected.upper, expected.corrected), abs=0.02)
    assert (row.lower, row.upper, row.corrected) == near


def test_multilabel_targets():
    y, p, flat = classes(200)
    y, flat = (y[:, np.newaxis] == np.arange(4)).astype(int), np.minimum(1.2 * flat, 1.0)
    given = {"metric": cutoff_calibration_error, "n_resamples": 39}
    found = compare_pairs(y, {"true": p, "flat": flat}, **given)
    errors = [np.mean([cutoff_calibration_error(y[:, k], q[:, k]) for k in range(4)]) for q in (p, flat)]
    assert found.pairs[0].difference == pytest.approx(errors[0] - errors[1])
    assert found.best_set == ("true",)
    each = {name: [np.column_stack([1 - a, a]) for a in q.T] for name, q in (("true", p), ("flat", flat))}
    assert compare_pairs(y, each, **given) == found
    with pytest.raises(ValueError, match="needs mutually exclusive classes"):
        compare_pairs(y, {"true": p, "flat": flat}, **given, reduction="confidence")
