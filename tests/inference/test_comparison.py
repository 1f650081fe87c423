"""Paired tests: enumeration of all swaps, closed cases, level, weights, symmetry; the table of models."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, ttest_rel
from sklearn.metrics import log_loss

from sklearn_calib.inference import compare_models, confidence_interval, expected_under_calibration
from sklearn_calib.inference._paired_samples import HalfSamples, _errors, check_models
from sklearn_calib.metrics import cutoff_calibration_error, decision_risk_gap, expected_calibration_error
from tests._references import holm

ece = partial(expected_calibration_error, n_bins=5)


def brier(y_true, y_proba):
    """The Brier score without the checks of scikit-learn's, which take most of its time."""
    return float(np.mean((y_true - y_proba) ** 2))


METRICS = [cutoff_calibration_error, ece, brier]
IDS = ["cutoff", "ece", "brier"]


def sample(n=60, seed=0):
    """Two noisy versions of the true probability."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n)
    y = (rng.random(n) < truth).astype(int)
    a, b = np.clip(truth + rng.normal(0, 0.15, (2, n)), 0.01, 0.99)
    return y, a, b


def every_swap(metric, y, a, b):
    """Return the difference after each of all 2^n swaps, from the definition."""
    found = []
    for swap in itertools.product([0, 1], repeat=len(y)):
        p = [b[i] if s else a[i] for i, s in enumerate(swap)]
        q = [a[i] if s else b[i] for i, s in enumerate(swap)]
        found.append(metric(y, np.array(p)) - metric(y, np.array(q)))
    return np.array(found)


def paired(y, a, b, **options):
    return compare_models(y, {"a": a, "b": b}, **options).pairs[0]


@pytest.mark.parametrize("metric", METRICS, ids=IDS)
def test_swap_is_enumeration(metric):
    y, a, b = sample(7, seed=3)
    everything = every_swap(metric, y, a, b)
    observed = metric(y, a) - metric(y, b)
    share = np.mean(np.abs(everything) >= abs(observed) - 1e-12)
    options = {"method": "swap", "random_state": 0}
    exact = paired(y, a, b, metric=metric, n_resamples=127, **options)
    assert exact.pvalue == pytest.approx(share, abs=1e-12)
    np.testing.assert_allclose(np.sort(exact.null_distribution), np.sort(everything), atol=1e-12)
    random = paired(y, a, b, metric=metric, n_resamples=126, **options)
    assert random.pvalue == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 126) + 0.01)
    assert random.null_distribution.shape == (126,)


def test_swap_by_hand():
    # losses .04, .16 and .25 of a, 0 of b: only one of 8 sign patterns reaches the sum, and its mirror image
    result = paired([1, 0, 1], [0.8, 0.4, 0.5], [1, 0, 1], metric=brier, method="swap")
    assert result.difference == pytest.approx(0.15)
    assert result.pvalue == 2 / 8
    assert np.isnan([result.lower, result.upper, result.corrected]).all()


def test_average_is_the_paired_t_test():
    y, a, b = sample(800)
    loss_a, loss_b = (y - a) ** 2, (y - b) ** 2
    reference = ttest_rel(loss_a, loss_b)
    ends = reference.confidence_interval()
    result = paired(y, a, b, metric=brier, n_resamples=1999, random_state=0)
    assert result.corrected == pytest.approx(result.difference, abs=1e-12)
    assert result.difference == pytest.approx(np.mean(loss_a - loss_b))
    width = ends.high - ends.low
    assert (result.lower, result.upper) == pytest.approx(tuple(ends), abs=0.06 * width)
    assert result.pvalue == pytest.approx(reference.pvalue, abs=0.05)
    swap = paired(y, a, b, metric=brier, method="swap", n_resamples=1999, random_state=0)
    assert swap.pvalue == pytest.approx(reference.pvalue, abs=0.05)


def test_parts_of_half_samples_from_the_definition():
    y, a, b = sample(31)
    rows = check_models(y, {"a": a, "b": b}, None, None)
    halves = HalfSamples.draw(ece, rows, 5, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    for k in range(5):
        order = rng.permutation(31)
        first, second = order[:15], order[15:]
        for model, p in enumerate((a, b)):
            t1, t2 = ece(y[first], p[first]) ** 2, ece(y[second], p[second]) ** 2
            assert halves.linear[k, model] == pytest.approx((t1 - t2) / 2)
            assert halves.curved[k, model] == pytest.approx((15 * t1 + 16 * t2) / 31 - ece(y, p) ** 2)
    assert not halves.is_average


def test_half_samples_of_an_average():
    y, a, b = sample(31)
    halves = HalfSamples.draw(
        brier, check_models(y, {"a": a, "b": b}, None, None), 4, np.random.default_rng(1)
    )
    assert halves.is_average
    rng = np.random.default_rng(1)
    for k in range(4):
        order = rng.permutation(31)
        for model, p in enumerate((a, b)):
            first, second = (brier(y[rows], p[rows]) for rows in (order[:15], order[15:]))
            assert halves.linear[k, model] == pytest.approx((first - second) / 2)
    assert not halves.curved.any()


def test_interval_from_draws_by_hand():
    draws = np.random.default_rng(0).permutation(np.arange(-9, 10) / 100)[:, np.newaxis]
    halves = HalfSamples(np.array([0.5]), draws, np.zeros((19, 1)), True)
    # of 19 draws one is passed in 1 of 20 cases, five in 5 of 20
    assert halves.interval(0, 0.9) == pytest.approx((0.41, 0.59))
    assert halves.interval(0, 0.5) == pytest.approx((0.45, 0.55))
    # of the square of a metric, that of the metric; never below 0
    halves = HalfSamples(np.array([0.0225]), draws / 2, np.zeros((19, 1)), False)
    assert halves.interval(0, 0.9) == pytest.approx((0.0, np.sqrt(0.0225 + 0.045)))


def test_errors_of_two_parts_by_hand():
    # the noise of the curved part, of variance 1, is in the slope of the linear one too, of variance 4
    linear, curved = np.array([2.0, -2.0, 2.0, -2.0]), np.array([6.0, 6.0, 4.0, 4.0])
    np.testing.assert_allclose(_errors(linear, curved), curved - 5 + np.sqrt(3 / 4) * linear)
    assert _errors(linear, curved).var() == pytest.approx(4)
    # all of a linear part that is smaller than that is noise
    np.testing.assert_allclose(_errors(linear / 8, curved), curved - 5)
    np.testing.assert_allclose(_errors(np.zeros(4), curved), curved - 5)


def test_correction_is_unbiased_for_the_square():
    # a norm of one cell: the square of the mean residual, .1 off or none, and its noise p (1 - p) / n
    rng = np.random.default_rng(0)
    p = np.full(100, 0.5)
    cell = partial(expected_calibration_error, n_bins=1, norm="l2")
    for truth in (0.5, 0.6):
        found = []
        for _ in range(200):
            rows = check_models((rng.random(100) < truth).astype(int), {"a": p, "b": p}, None, 1)
            halves = HalfSamples.draw(cell, rows, 20, rng)
            square = halves.corrected[0]
            if halves.is_average:
                # no half crosses zero: the metric itself was kept, and its noise is that of the halves
                square = square**2 - np.mean(halves.linear**2)
            found.append(square)
        error = np.std(found) / np.sqrt(200)
        assert np.mean(found) == pytest.approx((truth - 0.5) ** 2, abs=4 * error)
        assert 4 * error < 0.004


@pytest.mark.parametrize("method", ["half-sampling", "swap"])
def test_level_of_calibrated_models_of_equal_sharpness(method):
    rejected = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((3, 100))
        y = rng.random(100) < 1 / (1 + np.exp(-1.5 * z[0]))
        a, b = (1 / (1 + np.exp(-1.5 * z[0] - 0.5 * own)) for own in z[1:])
        result = paired(y, a, b, metric=ece, method=method, n_resamples=59, random_state=seed)
        rejected.append(result.pvalue <= 0.1)
    # P(Binomial(80, .1) > 16) < .003
    assert np.sum(rejected) <= 16


def test_level_where_floors_differ():
    # both calibrated; the floor of one is far above that of the other, and swaps take this for a difference
    half, swapped = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.random(200)
        y = rng.random(200) < p
        constant = np.full(200, 0.5)
        options = {"n_resamples": 59, "random_state": seed}
        half.append(paired(y, p, constant, metric=ece, **options).pvalue <= 0.1)
        swapped.append(paired(y, p, constant, metric=ece, method="swap", **options).pvalue <= 0.1)
    # P(Binomial(60, .1) > 13) < .003
    assert np.sum(half) <= 13
    assert np.sum(swapped) > 16


def test_power_and_words():
    rng = np.random.default_rng(0)
    p = rng.random(1500)
    y = rng.random(1500) < p
    metric = cutoff_calibration_error
    result = compare_models(y, {"a": p, "b": p**2}, metric=metric)
    (pair,), model = result.pairs, result.models[0]
    assert pair.pvalue <= 0.01
    assert pair.lower < -1 / 6 < pair.upper < 0
    assert model.null_mean == pytest.approx(expected_under_calibration(None, p, metric=metric).mean, rel=0.2)
    assert "half-sampling, n = 1500" in str(result)


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


@pytest.mark.parametrize("method", ["half-sampling", "swap"])
@pytest.mark.parametrize("metric", METRICS, ids=IDS)
def test_antisymmetry(metric, method):
    y, a, b = sample(50)
    options = {"method": method, "n_resamples": 59, "random_state": 5}
    forward = paired(y, a, b, metric=metric, **options)
    back = paired(y, b, a, metric=metric, **options)
    assert back.pvalue == pytest.approx(forward.pvalue)
    assert back.difference == -forward.difference
    if method == "half-sampling":
        assert (back.lower, back.upper) == pytest.approx((-forward.upper, -forward.lower))


@pytest.mark.parametrize("method", ["half-sampling", "swap"])
@pytest.mark.parametrize("metric", METRICS, ids=IDS)
def test_same_model_twice(metric, method):
    y, a, _ = sample(50)
    result = paired(y, a, a.copy(), metric=metric, method=method, n_resamples=59)
    assert (result.difference, result.pvalue) == (0, 1)
    if method == "half-sampling":
        assert result.corrected == 0
        rounded = paired(y, a, a * (1 + 1e-15), metric=metric, n_resamples=59, random_state=0)
        assert rounded.pvalue == 1 or metric is not brier


@pytest.mark.parametrize("method", ["half-sampling", "swap"])
def test_weights_are_repetition(method):
    y, a, b = sample(40)
    times = np.random.default_rng(0).integers(0, 4, 40)
    options = {"method": method, "n_resamples": 59, "random_state": 0}
    weighted = compare_models(y, {"a": a, "b": b}, metric=ece, sample_weight=times, **options)
    y, a, b = (np.repeat(x, times) for x in (y, a, b))
    repeated = compare_models(y, {"a": a, "b": b}, metric=ece, **options)
    assert str(weighted) == str(repeated)
    assert weighted.n_samples == times.sum()
    draws = [each.pairs[0].null_distribution for each in (weighted, repeated)]
    np.testing.assert_array_equal(*draws)


def test_labels_columns_and_seed():
    y, a, b = sample(50)
    expected = paired(y, a, b, metric=ece, n_resamples=59, random_state=1)
    names = np.where(y == 1, "event", "none")
    columns = [np.column_stack([1 - p, p]) for p in (a, b)]
    found = paired(names, *columns, metric=ece, pos_label="event", n_resamples=59, random_state=1)
    assert found == expected
    assert expected != paired(y, a, b, metric=ece, n_resamples=59, random_state=2)


@pytest.mark.parametrize("method", ["half-sampling", "swap"])
def test_several_classes(method):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 400)
    y = (rng.random((400, 1)) >= p.cumsum(axis=1)).sum(axis=1)
    flat = 0.5 * p + 0.5 / 3

    def metric(y_true, y_proba):
        return -np.mean(np.log(y_proba[np.arange(len(y_true)), y_true]))

    options = {"method": method, "n_resamples": 59, "random_state": 0}
    compared = compare_models(y, {"a": p, "b": flat}, metric=metric, **options)
    model, (result,) = compared.models[1], compared.pairs
    assert model.estimate == pytest.approx(log_loss(y, flat))
    assert result.difference == pytest.approx(metric(y, p) - metric(y, flat))
    assert result.pvalue <= 0.05
    # a calibrated model promises its entropy
    entropy = -np.mean((flat * np.log(flat)).sum(axis=1))
    assert model.null_mean == pytest.approx(entropy, rel=0.02)
    letters = paired(np.array(["a", "b", "c"])[y], p, flat, metric=metric, **options)
    assert letters.pvalue == result.pvalue
    few = y < 2
    partly = compare_models(y[few], {"a": p[few], "b": flat[few]}, metric=metric, **options).models[0]
    assert partly.estimate == pytest.approx(metric(y[few], p[few]))


def models(n=400, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    return y, {"true": p, "noisy": np.clip(p + rng.normal(0, 0.03, n), 0, 1), "squared": p**2, "half": p / 2}


@pytest.mark.parametrize("method", ["half-sampling", "swap"])
@pytest.mark.parametrize("metric", METRICS, ids=IDS)
def test_compare_models_keeps_the_good_ones(metric, method):
    y, predictions = models()
    result = compare_models(y, predictions, metric=metric, method=method, n_resamples=399, random_state=0)
    assert result.best_set == ("true", "noisy")
    assert len(result.pairs) == 6
    raw = np.array([pair.pvalue for pair in result.pairs])
    adjusted = [pair.adjusted_pvalue for pair in result.pairs]
    assert adjusted == pytest.approx(holm(raw))
    for row in result.models:
        assert row.estimate == metric(y, predictions[row.name])
        assert row.null_mean >= 0
        assert row.in_best_set == (row.name in result.best_set)
        if method == "half-sampling":
            assert 0 <= row.lower <= row.upper
    assert result.pairs_to_records()[0]["name_b"] == "noisy"


def test_reference_and_table():
    y, predictions = models()
    result = compare_models(
        y,
        predictions,
        metric=ece,
        reference="squared",
        correction="bonferroni",
        n_resamples=199,
        random_state=0,
    )
    assert [(pair.name_a, pair.name_b) for pair in result.pairs] == [
        (name, "squared") for name in ("true", "noisy", "half")
    ]
    assert "squared" not in result.best_set
    assert [row["name"] for row in result.to_records()] == list(predictions)
    rows = result.pairs_to_records()
    assert rows[0]["adjusted_pvalue"] == pytest.approx(min(1, 3 * rows[0]["pvalue"]))
    assert "p (bonferroni)" in str(result)
    plain = compare_models(y, predictions, metric=ece, correction=None, n_resamples=99)
    assert all(pair.adjusted_pvalue == pair.pvalue for pair in plain.pairs)
    assert "p-value" in str(plain)


def test_interval_of_one_model():
    y, predictions = models(200, 0)
    arguments = {"n_resamples": 59, "confidence": 0.9, "random_state": 0}
    row = compare_models(y, predictions, metric=cutoff_calibration_error, **arguments).models[2]
    # that of the function, but for its seed
    expected = confidence_interval(
        y, predictions[row.name], metric=cutoff_calibration_error, confidence=0.9, random_state=1
    )
    assert (row.lower, row.upper) == pytest.approx((expected.lower, expected.upper), abs=0.015)
    # a score that is an average: the usual interval of a mean
    row = compare_models(y, predictions, metric=brier, **arguments | {"n_resamples": 999}).models[2]
    losses = (y - predictions[row.name]) ** 2
    assert (row.lower + row.upper) / 2 == pytest.approx(losses.mean(), abs=0.004)
    assert row.upper - row.lower == pytest.approx(2 * 1.645 * losses.std() / np.sqrt(200), rel=0.15)


@pytest.mark.thorough
def test_interval_by_half_samples_covers():
    # a metric without weights
    def cutoff(y_true, y_proba):
        return cutoff_calibration_error(y_true, y_proba)

    hits = 0
    for seed in range(30):
        y, predictions = models(200, 100 + seed)
        result = compare_models(
            y, predictions, metric=cutoff, n_resamples=59, confidence=0.9, random_state=seed
        )
        squared = result.models[2]
        hits += squared.lower <= 1 / 6 <= squared.upper
    assert binom.cdf(hits, 30, 0.9) > 1e-3


A, B = [0.1, 0.2, 0.3, 0.4], [0.5] * 4
GOOD = {"metric": ece, "y_true": [0, 1, 0, 1], "predictions": {"a": A, "b": B}}


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"metric": 7}, TypeError, "metric must be the name"),
        ({"metric": "ece"}, ValueError, "metric=.ece. is not the name of a metric"),
        ({"metric": lambda y, p: np.nan}, ValueError, "metric returned nan"),
        ({"metric": lambda y, p: -(np.median(p) ** 2) - y[0]}, ValueError, "needs values >= 0"),
        ({"predictions": {"a": [0.1, 0.2, 0.3, 1.4], "b": B}}, ValueError, r"predictions\['a'\]"),
        ({"predictions": {"a": A, "b": [0.5] * 3}}, ValueError, r"predictions\['b'\] has shape"),
        ({"y_true": [0, 1]}, ValueError, "y_true has 2 samples"),
        ({"y_true": [0, 1, 2, 1]}, ValueError, "y_true"),
        ({"method": "bootstrap"}, ValueError, "method"),
        ({"predictions": [A, B]}, TypeError, "predictions"),
        ({"predictions": {"a": A}}, ValueError, "at least two"),
        ({"reference": "c"}, ValueError, "reference"),
        ({"correction": "fdr"}, ValueError, "correction"),
        ({"n_resamples": 38}, ValueError, "n_resamples >= 39"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"sample_weight": [0.5, 1, 1, 1]}, ValueError, "sample_weight"),
        ({"sample_weight": [1, 1, 1, 0]}, ValueError, "at least 4 samples"),
        ({"random_state": "x"}, TypeError, "random_state"),
        ({"metric": log_loss, "y_true": [0, 0, 0, 1]}, ValueError, "labels"),
    ],
)
def test_bad_arguments(arguments, error, named):
    good = GOOD | {"method": "half-sampling", "n_resamples": 39}
    assert compare_models(**good).n_samples == 4
    with pytest.raises(error, match=named):
        compare_models(**(good | arguments))


def test_bad_arguments_of_several_classes():
    p = np.full((5, 3), 1 / 3)
    with pytest.raises(ValueError, match="pos_label"):
        paired([0, 1, 2, 0, 1], p, p, metric=log_loss, pos_label=1)
    with pytest.raises(ValueError, match="3 columns"):
        paired([0, 5, 0, 5, 0], p, p, metric=log_loss)
    with pytest.raises(ValueError, match="3 columns"):
        paired([-1, 0, 0, -1, 0], p, p, metric=log_loss)
    with pytest.raises(ValueError, match="sums to"):
        paired([0, 1, 2, 0, 1], p, 2 * p / 3, metric=log_loss)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_ties_count_whatever_the_unit_of_the_metric(seed):
    # the metric takes few values: differences of half-samples equal the estimate but for rounding
    rng = np.random.default_rng(seed)
    p = rng.random(60)
    y = (rng.random(60) < p).astype(int)
    q = np.clip(p + rng.normal(0, 0.1, 60), 0.01, 0.99)

    def pvalue(unit, *models):
        def metric(y_true, y_proba):
            return unit * decision_risk_gap(y_true, y_proba)

        return paired(y, *models, metric=metric, n_resamples=39, random_state=0).pvalue

    assert pvalue(1.0, p, q) == pvalue(0.3, p, q) == pvalue(7.0, p, q)
    assert pvalue(1.0, p, q) == pvalue(1.0, q, p)


def test_pooled_half_samples_of_many_predictions_agree_with_a_plain_loop():
    rng = np.random.default_rng(0)
    p = rng.random(9000)
    y = (rng.random(9000) < p).astype(int)

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
