"""Level of comparisons of two equally calibrated models.

    python benchmarks/comparison_level.py

For each pair of models and each metric, samples are simulated repeatedly and tested at level 5%. In all pairs
but the last the metric of both models is equal in the population, and the rejection rate should not exceed
0.05 (its binomial standard error is in the header of the table). `compare_models` is compared with the usual
bootstrap of pairs, which rejects if its percentile interval excludes 0. The last column is the coverage of
the interval of `compare_models` for the true difference.

    --sizes 200 1000 --repetitions 400 --resamples 199
    --metrics ECE,cutoff   only these
    --clusters             instead: few or unequal clusters, and eight models
    --smoke                a few repetitions, as a quick check
"""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from _options import parser_of
from _population import population_value
from scipy.optimize import brentq
from scipy.special import expit, logit

from sklearn_calib.inference import compare_models
from sklearn_calib.metrics import cutoff_calibration_error, expected_calibration_error, smooth_ece


def brier(y_true, y_proba, *, sample_weight=None):
    """Return the Brier score; scikit-learn's function takes most of its time for validation."""
    return float(np.average((y_true - y_proba) ** 2, weights=sample_weight))


METRICS = {
    "cutoff": cutoff_calibration_error,
    "ECE": expected_calibration_error,
    "l2 ECE": partial(expected_calibration_error, norm="l2"),
    "debiased l2 ECE": partial(expected_calibration_error, norm="l2", debias=True),
    "smooth ECE": smooth_ece,
    "Brier": brier,
}
# all of them are errors; intervals of single models are not needed
ERRORS = {"greater_is_better": False, "intervals": False}
# takes about a hundred times as long as the others
SLOW = {"smooth ECE"}
GRID = (np.arange(20_000) + 0.5) / 20_000

Sample = tuple[np.ndarray, np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, int], Sample]


def population(metric, predicted):
    """Return the metric for uniform true probabilities and predictions that are a function of them."""
    return population_value(metric, predicted(GRID), GRID)


def tempered(slope, shift=0.0):
    return lambda truth: expit(slope * logit(truth) + shift)


def of_truth(first, second) -> Draw:
    """Return a sampler of two models that are functions of a uniform true probability."""

    def draw(rng, n):
        truth = rng.random(n)
        return (rng.random(n) < truth).astype(int), first(truth), second(truth)

    return draw


def sharper(rng, n):
    """Return two calibrated models, the first with more information."""
    coarse = 0.2 + 0.6 * rng.random(n)
    sharp = coarse + 0.95 * np.minimum(coarse, 1 - coarse) * rng.choice([-1, 1], n)
    return (rng.random(n) < sharp).astype(int), sharp, coarse


def twins(rng, n):
    """Return exchangeable, slightly overconfident models with independent errors."""
    shared, *own = rng.standard_normal((3, n))
    y = (rng.random(n) < expit(1.3 * shared)).astype(int)
    return y, expit(1.5 * shared + 0.5 * own[0]), expit(1.5 * shared + 0.5 * own[1])


def pairs(metric) -> dict[str, tuple[Draw, float]]:
    """Return samplers and true differences."""
    found: dict[str, tuple[Draw, float]] = {"exchangeable": (twins, 0.0)}
    over = tempered(1.6)
    value = population(metric, over)

    def solve(model, low, high):
        return model(brentq(lambda x: population(metric, model(x)) - value, low, high, xtol=1e-5))

    shifted = solve(lambda shift: tempered(1.0, shift), 0.0, 3.0)
    under = solve(lambda slope: tempered(slope), 0.3, 1.0)
    if metric is not brier:
        found["calibrated, sharper"] = (sharper, 0.0)
        found["calibrated, constant"] = (of_truth(lambda t: t, lambda t: np.full_like(t, 0.5)), 0.0)
    found["over-confident, shifted"] = (of_truth(over, shifted), 0.0)
    found["over-, under-confident"] = (of_truth(over, under), 0.0)
    difference = population(metric, lambda t: t) - population(metric, tempered(2.0))
    found["DIFFERENT: slopes 1 and 2"] = (of_truth(lambda t: t, tempered(2.0)), difference)
    return found


def bootstrap_rejects(metric, y, a, b, n_resamples, rng):
    """Return whether the percentile interval of the difference excludes zero."""
    draws = np.empty(n_resamples)
    for k in range(n_resamples):
        rows = rng.integers(0, y.shape[0], y.shape[0])
        draws[k] = metric(y[rows], a[rows]) - metric(y[rows], b[rows])
    low, high = np.quantile(draws, [0.025, 0.975], method="weibull")
    return low > 0 or high < 0


def measure(metric, draw, difference, n, repetitions, n_resamples):
    """Return rates of rejection of the comparison and the bootstrap, and the coverage of the first."""
    hits = np.zeros(3)
    for r in range(repetitions):
        rng = np.random.default_rng([n, r])
        y, a, b = draw(rng, n)
        options = {"metric": metric, "n_resamples": n_resamples, "random_state": rng} | ERRORS
        (pair,) = compare_models(y, {"a": a, "b": b}, **options).pairs
        hits += [
            pair.pvalue <= 0.05,
            bootstrap_rejects(metric, y, a, b, n_resamples, rng),
            pair.lower <= difference <= pair.upper,
        ]
    return hits / repetitions


def sizes_of_clusters(kind, rng):
    """Return 10 clusters of 30 samples, or 25 of Pareto sizes, from 10 to 400."""
    if kind == "10 x 30":
        return np.full(10, 30)
    return np.minimum(np.rint(10 + 10 * rng.pareto(1.2, 25)).astype(int), 400)


def dependent_twins(kind, rng):
    """Return exchangeable models and outcomes, each with a random intercept for every cluster."""
    size = sizes_of_clusters(kind, rng)
    clusters = np.repeat(np.arange(size.size), size)
    effects = rng.standard_normal((3, size.size))[:, clusters]
    shared, *own = rng.standard_normal((3, clusters.size))
    y = (rng.random(clusters.size) < expit(1.3 * shared + effects[0])).astype(int)
    a, b = (expit(1.3 * shared + 0.5 * (o + e)) for o, e in zip(own, effects[1:], strict=True))
    return y, a, b, clusters


def shifted_both_ways(kind, rng):
    """Return models whose log-odds are too high and too low by the same amount."""
    size = sizes_of_clusters(kind, rng)
    clusters = np.repeat(np.arange(size.size), size)
    truth = 0.02 + 0.96 * rng.random(clusters.size)
    y = (rng.random(clusters.size) < truth).astype(int)
    return y, expit(logit(truth) + 0.4), expit(logit(truth) - 0.4), clusters


def eight(rng, shift):
    """Return eight exchangeable models of 200 samples, one of them shifted."""
    truth = rng.standard_normal(200)
    logits = truth + 0.3 * rng.standard_normal((8, 200))
    logits[0] += shift
    return (rng.random(200) < expit(truth)).astype(int), dict(enumerate(expit(logits)))


def clusters_and_families(metrics, repetitions, n_resamples):
    """Print rates of rejection with clusters, and of any of 28 pairs of eight models."""
    # warnings about few clusters are expected
    warnings.filterwarnings("ignore", category=UserWarning)
    for name in metrics:
        common = {"metric": METRICS[name], "n_resamples": n_resamples} | ERRORS
        for draw in (dependent_twins, shifted_both_ways):
            for kind in ("10 x 30", "Pareto"):
                hits = 0
                for r in range(repetitions):
                    rng = np.random.default_rng([3, r])
                    y, a, b, clusters = draw(kind, rng)
                    options = common | {"random_state": rng, "clusters": clusters}
                    hits += compare_models(y, {"a": a, "b": b}, **options).pairs[0].pvalue <= 0.05
                print(f"{name:<18}{draw.__name__:<20}{kind:<10}{hits / repetitions:9.3f}", flush=True)
        for shift in (0.0, 0.5):
            out = worst = 0
            for r in range(repetitions):
                rng = np.random.default_rng([4, r])
                y, models = eight(rng, shift)
                best = compare_models(y, models, **common, random_state=rng).best_set
                worst += 0 not in best
                out += len(best) < 8 if shift == 0 else any(k not in best for k in range(1, 8))
            print(
                f"{name:<18}eight models, one shifted by {shift}: an equal one left out "
                f"{out / repetitions:.3f}, the shifted one {worst / repetitions:.3f}",
                flush=True,
            )


def main():
    parser = parser_of(__doc__, repetitions=400, resamples=199, sizes=[200, 1000])
    parser.add_argument("--metrics", default=",".join(name for name in METRICS if name not in SLOW))
    parser.add_argument("--clusters", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.sizes, args.repetitions, args.resamples, args.metrics = [60], 2, 39, "cutoff,Brier"
    error = np.sqrt(0.05 * 0.95 / args.repetitions)
    print(f"level 0.05, {args.repetitions} samples (s.e. {error:.3f}), {args.resamples} resamples")
    if args.clusters:
        clusters_and_families(args.metrics.split(","), args.repetitions, args.resamples)
        return
    print(f"{'metric':<18}{'models':<28}{'n':>6}{'rejected':>10}{'bootstrap':>11}{'coverage':>10}")
    for name in args.metrics.split(","):
        metric = METRICS[name]
        for label, (draw, difference) in pairs(metric).items():
            for n in args.sizes:
                rates = measure(metric, draw, difference, n, args.repetitions, args.resamples)
                print(
                    f"{name:<18}{label:<28}{n:6d}{rates[0]:10.3f}{rates[1]:11.3f}{rates[2]:10.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
