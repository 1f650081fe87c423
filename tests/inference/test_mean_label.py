"""The mean label from scores and few labels, against its definition and by simulation."""

import re

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import norm, rankdata, t

from sklearn_calib.inference import mean_label
from tests._tiers import thorough, weekly


def sample(n_samples=300, n_labels=60, *, mean=0.6, signal=1.0, size=1, seed=0):
    """Labels of the first samples, NaN for the others, scores, and clusters of ``size`` neighbors."""
    rng, clusters = np.random.default_rng(seed), np.arange(n_samples) // size
    shared = 0.4 if size > 1 else 0.0
    latent = np.sqrt(shared) * rng.normal(size=n_samples)[clusters]
    latent += np.sqrt(1.0 - shared) * rng.normal(size=n_samples)
    y = (latent < norm.ppf(mean)).astype(float)
    score = signal * (2.0 * y - 1.0) + rng.normal(size=n_samples)
    return np.where(np.arange(n_samples) < n_labels, y, np.nan), score, clusters


def wilson(rate, size, q):
    """The rates from which that of a sample is q standard errors away: roots of a quadratic."""
    z2 = q * q / size
    return np.sort(np.roots([1.0 + z2, -2.0 * rate - z2, rate * rate]).real)


def defined(y, score, clusters=None):
    """The estimate, its interval and the power, with one term for each sample and a numerical fit."""
    known = np.flatnonzero(~np.isnan(y))
    n, total, y = known.size, len(y), y[known]
    unit = np.arange(total) if clusters is None else np.asarray(clusters)
    x = logit((rankdata(score) - 0.5) / total)
    units = sorted(set(unit[known]), key=lambda u: x[known][unit[known] == u].mean())
    fold, fits = np.array([units.index(u) % 10 for u in unit[known]]), []
    for k in range(10):
        part, label = x[known][fold != k], y[fold != k]

        def loss(b, part=part, label=label):
            z, rate = b[0] + b[1] * part, label.mean()
            return np.mean(np.logaddexp(0, z) - label * z) + 0.5 * 0.01 * rate * (1 - rate) * b[1] ** 2

        b = minimize(loss, np.zeros(2), tol=1e-12).x
        fits.append(expit(b[0] + b[1] * x))
    f = np.mean(fits, axis=0)
    f[known] = [fits[k][row] for k, row in zip(fold, known, strict=True)]
    of_labels, of_scores = {}, {}
    for row in range(total):
        of_scores[unit[row]] = of_scores.get(unit[row], 0.0) + (f[row] - f.mean()) / total
    for row, label in zip(known, y, strict=True):
        of_labels[unit[row]] = of_labels.get(unit[row], 0.0) + (label - y.mean()) / n
        of_scores[unit[row]] -= (f[row] - f[known].mean()) / n

    def variance(power):
        return sum((of_labels.get(u, 0.0) + power * value) ** 2 for u, value in of_scores.items())

    curve = np.array([variance(power) for power in (0.0, 0.5, 1.0)])
    bend, slope = 2.0 * (curve[0] - 2.0 * curve[1] + curve[2]), -3.0 * curve[0] + 4.0 * curve[1] - curve[2]
    power = min(max(-0.5 * slope / bend, 0.0), 1.0)
    estimate = y.mean() + power * (f.mean() - f[known].mean())
    ratio, spread = variance(power) / variance(0.0), y.mean() * (1.0 - y.mean())
    ratio = 1.0 - (1.0 - ratio) * n * spread / (n * spread + 1.0)
    size, q = spread / variance(0.0), norm.ppf(0.975)
    if clusters is not None:
        size, q = size * (len(units) - 1) / len(units), t.ppf(0.975, len(units) - 1)
    return estimate, *wilson(estimate, size / ratio, q), power


@pytest.mark.parametrize("size", [1, 3])
def test_estimate_and_interval_are_as_defined(size):
    y, score, clusters = sample(size=size, signal=0.7)
    clusters = None if size == 1 else clusters
    found, expected = mean_label(y, score, clusters=clusters), defined(y, score, clusters)
    assert (found.estimate, found.lower, found.upper, found.power) == pytest.approx(expected, abs=1e-5)
    assert (found.n_labeled, found.n_samples, found.mean_score) == (60, 300, pytest.approx(score.mean()))
    assert str(found).startswith(f"mean label {found.estimate:.4f} [")


@pytest.mark.parametrize(
    ("y", "score"),
    [([1] * 5 + [0] * 15 + [None] * 40, np.ones(60)), ([1] * 5 + [0] * 15, np.arange(20)),
     ([0] * 20 + [None] * 40, np.arange(60))],
    ids=["constant scores", "all labels are known", "no event"],
)  # fmt: skip
def test_scores_that_tell_nothing_leave_the_interval_of_the_labels(y, score):
    found, events = mean_label(y, score), y.count(1)
    assert (found.estimate, found.power) == (pytest.approx(events / 20), 0.0)
    expected = wilson(events / 20, 20, norm.ppf(0.975))
    assert (found.lower, found.upper) == pytest.approx(expected, abs=1e-9)
    assert (found.labels_alone.lower, found.labels_alone.upper) == (found.lower, found.upper)


def test_only_the_order_of_scores_counts():
    y, score, _ = sample()
    found = mean_label(y, score)
    numbers = found.lower, found.estimate, found.upper
    words = [None if np.isnan(v) else ["right", "wrong"][int(v)] for v in y]
    order = np.random.default_rng(0).permutation(len(y))
    for again in (
        mean_label(y, expit(3.0 * score + 2.0)),
        mean_label(y[order], score[order]),
        mean_label(words, score, pos_label="wrong"),
        mean_label(y[:, np.newaxis], np.column_stack([1.0 - expit(score), expit(score)])),
        mean_label(y, score, clusters=np.arange(len(y))),
    ):
        assert (again.lower, again.estimate, again.upper) == pytest.approx(numbers, abs=1e-12)
    other = mean_label(np.where(np.isnan(y), None, y == 1), -score, pos_label=False)
    assert (1.0 - other.upper, 1.0 - other.lower) == pytest.approx((found.lower, found.upper), abs=0.01)


def test_outcomes_between_0_and_1_and_a_perfect_score():
    y, score, _ = sample()
    perfect = mean_label(y, np.where(np.isnan(y), score > 0, y))
    assert perfect.power == 1.0
    alone = perfect.labels_alone
    assert 0.02 < perfect.upper - perfect.lower < 0.6 * (alone.upper - alone.lower)
    mild = mean_label(0.4 + 0.2 * y, score)
    assert mild.upper - mild.lower < 0.3 * (mean_label(y, score).upper - mean_label(y, score).lower)


def test_errors():
    for given, message in [
        ({"y_true": [1] * 9 + [np.nan] * 11}, "y_true has 9 known labels, that is neither None nor NaN"),
        ({"y_true": np.zeros((20, 2))}, "y_true must have shape (n,) and y_score (n,)"),
        ({"y_score": np.zeros((20, 3))}, "y_true must have shape (n,) and y_score (n,)"),
        ({"y_score": np.zeros(19)}, "y_true has 20 samples but y_score has 19"),
        ({"y_score": np.full(20, np.nan)}, "y_score contains NaN at index 0"),
        ({"y_true": [0, 1, 2, 3] * 5}, "y_true has 4 distinct values"),
        ({"y_true": ["right", "wrong"] * 10}, "Pass pos_label='right' or pos_label='wrong'"),
        ({"clusters": np.arange(20) // 10}, "clusters has 2 distinct labels"),
        ({"confidence": 1.0}, "confidence must lie"),
    ]:
        good = {"y_true": [0, 1] * 10, "y_score": np.arange(20.0)}
        with pytest.raises(ValueError, match=re.escape(message)):
            mean_label(**good | given)


@pytest.mark.parametrize(
    ("n_labels", "size", "mean", "signal", "n_runs"),
    [
        thorough(50, 1, 0.2, 1.0, 100),
        *(weekly(n, size, mean, 1.0, 400) for n in (50, 200) for size in (1, 5) for mean in (0.05, 0.5)),
        *(weekly(100, size, 0.8, signal, 400) for size in (1, 5) for signal in (0.0, 4.0)),
    ],
)
@pytest.mark.filterwarnings("ignore:clusters has")
def test_coverage(n_labels, size, mean, signal, n_runs):
    """Between .93 and .97, but for four standard errors; and on average no wider than without scores."""
    runs = []
    for seed in range(n_runs):
        y, score, clusters = sample(2000, n_labels, mean=mean, signal=signal, size=size, seed=seed)
        runs.append(mean_label(y, score, clusters=None if size == 1 else clusters))
    covered = np.mean([run.lower <= mean <= run.upper for run in runs])
    assert 0.93 - 4.0 * np.sqrt(0.05 * 0.95 / n_runs) < covered
    assert covered < 0.99 or n_runs < 400
    widths = [(run.upper - run.lower, run.labels_alone.upper - run.labels_alone.lower) for run in runs]
    width, alone = np.mean(widths, axis=0)
    assert width < 1.02 * alone
