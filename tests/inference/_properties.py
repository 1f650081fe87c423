"""What every test of calibration must satisfy, checked on a small sample."""

import pickle

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tests._samples import simulated


def sample(n=60, seed=0, power=1.0):
    """Return outcomes and predictions; calibrated if ``power`` is 1."""
    return simulated(n, "uniform", 0.05, 0.95, seed=seed, truth=power)


def same(first, second):
    assert first.pvalue == pytest.approx(second.pvalue, rel=1e-8)
    assert first.statistic == pytest.approx(second.statistic, rel=1e-8, abs=1e-12)
    assert first.estimate == pytest.approx(second.estimate, rel=1e-8, abs=1e-12)
    assert first.n_samples == second.n_samples


def check_rows_and_weights(test, ordered=False):
    """Order of rows (if not ``ordered``), repetition, zero weights, label names do not matter."""
    y, p = sample()
    p, times = np.round(p, 1), np.random.default_rng(2).integers(0, 4, 60)
    rows = np.repeat(np.arange(60), times)
    rows = rows if ordered else np.random.default_rng(1).permutation(rows)
    repeated = test.test(np.where(y == 1, "yes", "no")[rows], p[rows], pos_label="yes")
    same(test.test(y, p, sample_weight=times, weights="frequency"), repeated)


def check_estimator(test):
    """A test can be cloned, pickled, fitted in a pipeline, and asked for the p-value of other data.

    Its result is that of the same data again, and it changes neither the data nor itself.
    """
    y, p = sample()
    y.flags.writeable = p.flags.writeable = False
    expected = test.test(y, p)
    assert not hasattr(test, "result_")
    assert repr(clone(test)) == repr(test)
    fitted = pickle.loads(pickle.dumps(clone(test).fit(p, y)))
    assert fitted.result_ == expected
    np.testing.assert_array_equal(fitted.result_.null_distribution, expected.null_distribution)
    assert (fitted.pvalue_, fitted.statistic_) == (expected.pvalue, expected.statistic)
    assert fitted.score(p, y) == expected.pvalue
    pipeline = make_pipeline(FunctionTransformer(), clone(test)).fit(p.reshape(-1, 1), y)
    assert pipeline.score(p.reshape(-1, 1), y) == expected.pvalue
    assert f"p-value    {expected.pvalue:.4g}" in str(expected)


def check_bad_data(test):
    for y, p, w, named in [
        ([0, 1], [0.2, 1.2], None, "y_proba"),
        ([0, 1], [0.2, np.nan], None, "y_proba"),
        ([0, 1, 2], [0.2, 0.3, 0.4], None, "y_true"),
        ([0, 1, 1], [0.2, 0.3], None, "y_true"),
        ([0, 1], [0.2, 0.3], [0.5, 1.0], "sample_weight"),
        ([0, 1], [0.2, 0.3], [-1, 1], "sample_weight"),
    ]:
        with pytest.raises(ValueError, match=named):
            test.test(y, p, sample_weight=w, weights="frequency")


def check_impossible(test):
    """What the predictions call impossible refutes them; what they call certain, and is, does not."""
    for y, p, named in [
        ([1, 0, 1], [0.0, 0.5, 0.5], "1 of 1 predictions of exactly 0 or 1 was contradicted"),
        ([0, 0, 1], [1.0, 0.5, 0.5], "1 of 1 predictions of exactly 0 or 1 was contradicted"),
        ([1, 0], [0.0, 1.0], "2 of 2 predictions of exactly 0 or 1 were contradicted"),
    ]:
        result = test.test(y, p)
        assert (result.pvalue, result.reason) == (0.0, named)
        assert named in str(result)
    certain = test.test([0, 0, 1, 1], [0.0, 0.0, 1.0, 1.0])
    assert certain.pvalue == 1.0
    # a p-value as statistic is 1
    assert certain.statistic == (1.0 if certain.tail == "lower" else 0.0)
    assert certain.estimate == 0.0


def check_extremes(test):
    """Contradicted predictions of 0 and 1 are counted, and judged apart from all others."""
    y, p = sample(200)
    y, p = np.r_[y, 1, 0, 0, 1, 1], np.r_[p, 0.0, 0.0, 1.0, 1.0, 1.0]
    weight = np.ones(205, dtype=int)
    # dropped, and a contradiction that was seen three times
    weight[[7, 200]] = 0, 3
    strict = test.test(y, p, sample_weight=weight, weights="frequency")
    assert strict.contradicted.tolist() == [200, 202]
    assert (strict.n_contradicted, strict.n_extreme) == (4, 7)
    n, others = weight.sum(), np.setdiff1d(np.arange(205), [7, 200, 202])
    rest = test.test(y[others], p[others], sample_weight=weight[others], weights="frequency")
    assert strict.pvalue == 0 < strict.pvalue_others == rest.pvalue
    assert (strict.n_samples, strict.others) == (n, rest)
    words = "4 of 7 predictions of exactly 0 or 1 were contradicted"
    assert words in str(strict)
    assert words in strict._repr_html_()
    # all printed numbers are those of the other samples
    assert [line for line in str(strict).splitlines() if words not in line] == str(rest).splitlines()
    agreeing = test.test(y[others], p[others])
    assert agreeing.pvalue == agreeing.pvalue_others
    assert (agreeing.n_contradicted, agreeing.contradicted.shape) == (0, (0,))


def check_level(pvalues, alpha=0.1, least=0.0):
    """The share of p-values up to alpha is at most alpha, and at least ``least``, within binomial error."""
    n, hits = len(pvalues), int(np.sum(np.asarray(pvalues) <= alpha))
    assert binom.sf(hits - 1, n, alpha) > 1e-3, f"{hits} of {n} reject"
    assert binom.cdf(hits, n, least) > 1e-3, f"only {hits} of {n} reject"
