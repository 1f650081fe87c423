"""Limits of scores and weights, and weights of many orders of magnitude."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_calib import CalibratedClassifier
from sklearn_calib import calibrators as cal


def test_what_exceeds_the_limits_is_an_error():
    for scores, weight, message in [
        ([0.2, 1e200], None, r"X contains 1e\+200 at index 1, but scores must lie between -1e\+100 and"),
        ([0.2, 0.7], [1.0, 1e300], r"sample_weight sums to 1e\+300, but must sum to a number from 1e-100 to"),
        ([0.2, 0.7], [1e-300, 1e-300], r"sample_weight sums to 2e-300, but must sum"),
    ]:
        with pytest.raises(ValueError, match=message):
            cal.PlattCalibrator(link="identity").fit(scores, [0, 1], weight)


@pytest.mark.parametrize(
    "model", [cal.PlattCalibrator(), CalibratedClassifier(LogisticRegression(), cal.PlattCalibrator())]
)
def test_weights_that_sum_to_one_cause_a_warning(model):
    """The penalty would outweigh 400 samples; multiplied as advised, their sum is the effective number."""
    rng = np.random.default_rng(0)
    scores, weight = rng.random(400), rng.uniform(0.5, 1.5, 400)
    y, weight = (rng.random(400) < scores).astype(int), weight / weight.sum()
    size, X = 1.0 / (weight @ weight), scores[:, np.newaxis]
    with pytest.warns(UserWarning, match=f"sums to 1, but .* is {size:.0f}.* by {size:.3g}"):
        model.fit(X, y, weight)
    # no warning for the same weights as counts, nor for exponential decay
    for good in (size * weight, 0.99 ** np.arange(400)[::-1]):
        model.fit(X, y, good)
    cal.IsotonicCalibrator().fit(scores, y, weight)
    cal.HistogramBinningCalibrator(smoothing=None).fit(scores, y, weight)
    # the range of the estimated base rate depends on the number of samples
    for labels in (y, None):
        with pytest.warns(UserWarning, match="sums to 1, but"):
            cal.PriorShiftCalibrator(training_prior=0.5, target_prior="em").fit(scores, labels, weight)


@pytest.mark.parametrize(("factor", "influence"), [(1e-3, "much"), (1e3, "little")])
def test_weights_that_are_not_on_the_scale_of_counts(factor, influence):
    rng = np.random.default_rng(0)
    p, weights = rng.random(200), rng.uniform(0.5, 2.0, 200)
    y, size = rng.random(200) < p, weights.sum() ** 2 / (weights**2).sum()
    with pytest.warns(UserWarning, match=f"too {influence} influence. Multiply the weights by") as caught:
        cal.SplineCalibrator().fit(p, y, factor * weights)
    advised = float(str(caught[0].message).rsplit(" ", 1)[1].rstrip("."))
    assert advised == pytest.approx(size / (factor * weights.sum()), rel=5e-3)
    cal.SplineCalibrator().fit(p, y, weights)
    cal.SplineCalibrator().fit(p, y, np.full(200, 1000))


def test_weights_of_few_strata_are_sampling_weights_even_if_they_are_whole_numbers():
    rng = np.random.default_rng(0)
    p = rng.random(1500)
    y, weights = (rng.random(1500) < p).astype(int), rng.choice([12, 50], 1500)
    factor = weights.sum() / (weights**2).sum()
    words = f"Multiply the weights by {factor:.3g}; if a weight of k counts k equal samples, repeat them"
    with pytest.warns(UserWarning, match=words):
        cal.SplineCalibrator().fit(p, y, weights)
    cal.SplineCalibrator().fit(np.repeat(p, weights), np.repeat(y, weights))
    # counts of a table: many different ones, or some of 1
    cal.SplineCalibrator().fit(p, y, rng.integers(2, 1000, 1500))
    cal.SplineCalibrator().fit(p, y, np.where(weights == 12, 1, 50))
