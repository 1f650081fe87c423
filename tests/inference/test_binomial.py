"""The exact test of discrete predictions: against scipy, by enumeration, and what it says of values."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from sklearn_calib.inference import BinomialTest, BinomialValue
from tests.inference import _properties


def single(k, n, p, **parameters):
    """Return the p-value of k positives among n predictions p."""
    return BinomialTest(max_values=1, **parameters).test(np.arange(n) < k, np.full(n, p), pos_label=1).pvalue


def exact_pvalues(n, p):
    """Return the p-value of each number of positives, in exact fractions, from the definition."""
    p = Fraction(p)
    mass = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    return [sum(m for m in mass if m <= mass[k]) for k in range(n + 1)]


def test_by_hand():
    # of 3 with p = 1/2: none or all has probability 1/4; of 2 with p = 1/4: both 1/16, one or both 7/16
    result = BinomialTest(max_values=2).test([0, 0, 0, 1, 1], [0.5, 0.5, 0.5, 0.25, 0.25])
    first, second = result.scales
    assert first == BinomialValue(0.25, 2, 2, 1.0, pytest.approx(1 / 16), pytest.approx(1 / 8))
    assert second == BinomialValue(0.5, 3, 0, 0.0, pytest.approx(1 / 4), pytest.approx(1 / 4))
    assert (result.pvalue, result.statistic) == (pytest.approx(1 / 8), pytest.approx(np.log10(16)))
    assert (result.estimate, result.n_samples) == (pytest.approx((2 * 0.75 + 3 * 0.5) / 5), 5)
    assert result.reason == "least likely at 0.25, where the prediction is too low: 2 of 2 positive"
    assert (first.rejects(0.2), second.rejects(0.2)) == (True, False)
    assert str(first).startswith("predicted 0.25: ")
    with pytest.raises(ValueError, match="alpha"):
        first.rejects(2)
    y, p = [0, 0, 1, 1, 1, 1, 1], [0.0, 0.0, 1.0, 1.0, 0.5, 0.5, 0.5]
    result = BinomialTest().test(y, p)
    assert result.pvalue == pytest.approx(0.25)
    assert [value.adjusted_pvalue for value in result.scales] == pytest.approx([1, 0.25, 1])
    assert "1 value" in result.method
    wrong = BinomialTest().test([1, 0, 0, 1], [0.0, 0.0, 0.5, 0.5])
    assert (wrong.pvalue, wrong.statistic) == (0.0, np.inf)
    assert [value.adjusted_pvalue for value in wrong.scales] == [0.0, 1.0]
    # an impossible outcome needs no repeated predictions
    assert BinomialTest().test([0, 1, 0, 1], [1.0, 0.5, 0.3, 0.4]).pvalue == 0.0
    with pytest.raises(ValueError, match="y_proba has 4 distinct values"):
        BinomialTest().test([1, 1, 0, 1], [1.0, 0.5, 0.3, 0.4])
    certain = BinomialTest().test([0, 0, 1, 1], [0, 0, 1, 1])
    assert certain.reason == "no information: every prediction is 0 or 1"
    assert "no value stands out" in BinomialTest().test([0, 1], [0.5, 0.5]).reason


@pytest.mark.parametrize("p", [0.5, 0.25, 0.125, 0.3, 0.9, 1e-3])
def test_single_value_is_exact(p):
    for n in (1, 2, 3, 8, 13):
        found = [single(k, n, p) for k in range(n + 1)]
        expected = exact_pvalues(n, p)
        np.testing.assert_allclose(found, [float(x) for x in expected], rtol=1e-12)


def test_large_counts_and_far_tails():
    n, p = np.array([10**6, 3, 10**9, 101, 1000]), np.array([1e-5, 0.5, 0.25, 0.999, 0.3])
    k = np.array([25, 0, 250_050_000, 99, 290])
    y, proba = np.tile([1, 0], 5), np.repeat(p, 2)
    weight = np.column_stack([k, n - k]).ravel()
    result = BinomialTest().test(y, proba, sample_weight=weight, weights="frequency")
    for value in result.scales:
        expected = binomtest(value.n_positives, value.n_samples, value.value).pvalue
        assert value.pvalue == pytest.approx(expected, rel=1e-6)
    assert single(30, 30, 1e-9) == pytest.approx((1e-9) ** 30, rel=1e-9)
    assert single(0, 400, 0.5) == pytest.approx(2.0**-399)
    # beyond the range of floats, but possible
    assert 0 < single(2000, 2000, 0.5) < 1e-300
    assert single(1, 1, 1e-300) > 0


@pytest.mark.parametrize("design", [{0.2: 4, 0.5: 5}, {0.1: 3, 0.3: 2, 0.75: 4}, {0.0: 2, 0.4: 6, 1.0: 1}])
def test_level_by_enumeration(design):
    """P(p-value <= alpha) <= alpha for every alpha, and so for the values that are blamed."""
    test = BinomialTest(max_values=len(design))
    prob = np.repeat(list(design), list(design.values()))
    mass, pvalue = [], []
    for counts in itertools.product(*(range(n + 1) for n in design.values())):
        chance = np.prod([binom.pmf(k, n, p) for k, (p, n) in zip(counts, design.items(), strict=True)])
        if chance == 0:
            continue
        y = np.concatenate([np.arange(n) < k for k, n in zip(counts, design.values(), strict=True)])
        result = test.test(y, prob, pos_label=1)
        mass.append(chance)
        pvalue.append(result.pvalue)
        assert result.pvalue == min(value.adjusted_pvalue for value in result.scales)
    mass, pvalue = np.array(mass), np.array(pvalue)
    assert mass.sum() == pytest.approx(1)
    attained = np.unique(pvalue)
    level = np.array([mass[pvalue <= alpha].sum() for alpha in attained])
    assert (level <= attained + 1e-12).all()
    # and no less than the correction for several values costs
    m = sum(0 < p < 1 for p in design)
    assert level[attained < 1].max() > (0.2 if m == 1 else 0.1)


def test_continuous_predictions_are_an_error():
    y, p = _properties.sample()
    rounded = np.round(p, 1)
    for test, given, message in (
        (BinomialTest(), (y, p), r"y_proba has 60 distinct values among 60 .*use TCal"),
        (BinomialTest(max_values=3), (y, rounded), "max_values=3"),
    ):
        with pytest.raises(ValueError, match=message):
            test.test(*given)
    assert len(BinomialTest().test(y, rounded).scales) == np.unique(rounded).size
    assert BinomialTest(max_values=60).test(y, p).n_samples == 60
    # weights are observations, and one observation is one value
    assert BinomialTest().test([0, 1], [0.2, 0.7], sample_weight=[3, 1], weights="frequency").n_samples == 4
    assert BinomialTest().test([1], [0.2]).pvalue == pytest.approx(0.2)
