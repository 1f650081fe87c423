"""Planned numbers of samples, compared with those that simulations need.

For each distribution of the predictions and each goal the script prints ``required_n_samples``, the number of
samples that reaches the goal in simulations of the test, the bound or the interval, and their ratio.
The simulated number is interpolated between five sizes around the planned one: by a probit regression of the
rate of success, or a regression of the mean width, on log n. The table in benchmarks/results was written by

    python benchmarks/planning.py --write benchmarks/results

in about ten minutes.
"""

from pathlib import Path

import numpy as np
from _options import parser_of
from scipy.special import expit, logit, ndtri
from scipy.stats import beta

from sklearn_calib.inference import CoxTest, TCal, confidence_interval, required_n_samples
from sklearn_calib.metrics import calibration_summary, cutoff_result

# Quantile functions of the predictions.
PREDICTIONS = {
    "uniform": lambda u: u,
    "logit-normal": lambda u: expit(1.5 * ndtri(u) - 1.0),
    "deciles": lambda u: np.floor(10 * u) / 10 + 0.05,
    "5% events": lambda u: beta.ppf(u, 2, 38),
}
GOALS = [
    {"slope": 0.8},
    {"slope": 1.3},
    {"shift": 0.2},
    {"shift": -0.4, "power": 0.9},
    {"wave": (0.1, 2)},
    {"wave": (0.15, 4)},
    {"bound": 0.05, "alpha": 0.1},
    {"width": 0.1},
    {"width": {"slope": 0.3}},
    {"width": {"intercept": 0.3}},
    {"width": {"observed_over_expected": 0.3}},
]
FACTORS = (0.8, 0.9, 1.0, 1.1, 1.25)


def truth(p, goal):
    """Return the event probabilities of the alternative."""
    if "wave" in goal:
        amplitude, periods = goal["wave"]
        return np.clip(p + amplitude * np.sin(2 * np.pi * periods * p), 0, 1)
    return expit(goal.get("shift", 0.0) + goal.get("slope", 1.0) * logit(p))


def outcome(y, p, goal, seed):
    """Return whether the goal is reached on a sample; for an interval its width."""
    alpha = goal.get("alpha", 0.05)
    if "width" in goal:
        if isinstance(goal["width"], dict):
            found = getattr(calibration_summary(y, p, confidence=1 - alpha), *goal["width"])
        else:
            found = confidence_interval(
                y, p, metric="smooth_ece", confidence=1 - alpha, n_resamples=100, random_state=seed
            )
        return found.upper - found.lower
    if "bound" in goal:
        found = cutoff_result(y, p)
        margin = found.margin(1 - alpha, "bootstrap", n_resamples=399, random_state=seed)
        return found.value + margin <= goal["bound"]
    if "wave" in goal:
        return TCal(n_resamples=199, random_state=seed).test(y, p).pvalue <= alpha
    return CoxTest(method="asymptotic").test(y, p).pvalue <= alpha


def simulated_size(quantiles, goal, planned, repetitions):
    """Return the number of samples that reaches the goal, and the result at the planned number."""
    rng = np.random.default_rng(1)
    sizes, results = [], []
    for factor in FACTORS:
        n = max(20, round(factor * planned))
        found = []
        for seed in range(repetitions):
            p = quantiles(rng.random(n))
            found.append(outcome(rng.random(n) < truth(p, goal), p, goal, seed))
        sizes.append(np.log(n))
        results.append(np.mean(found))
    target = goal.get("width", goal.get("power", 0.8))
    if "width" in goal:
        target = max(target.values()) if isinstance(target, dict) else target
        values, aim = np.log(results), np.log(target)
    else:
        # rates of 0 and 1 have no finite quantile
        half = 0.5 / repetitions
        values, aim = ndtri(np.clip(results, half, 1 - half)), ndtri(target)
    slope, level = np.polyfit(sizes, values, 1)
    return float(np.exp((aim - level) / slope)), results[FACTORS.index(1.0)]


def main():
    parser = parser_of(__doc__)
    parser.add_argument(
        "--repetitions", type=int, default=200, help="samples of each size; intervals: a fifth"
    )
    parser.add_argument("--write", metavar="FOLDER", help="write planning.md into this folder")
    options = parser.parse_args()
    predictions, goals, repetitions = PREDICTIONS, GOALS, options.repetitions
    if options.smoke:
        predictions, goals, repetitions = {"uniform": PREDICTIONS["uniform"]}, [GOALS[1], GOALS[5]], 20
    lines = [
        "| predictions | goal | planned n | simulated n | ratio | at the planned n |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for name, quantiles in predictions.items():
        pilot = quantiles((np.arange(2000) + 0.5) / 2000)
        for goal in goals:
            planned = required_n_samples(pilot, **goal)
            times = max(repetitions // 5, 10) if "width" in goal else repetitions
            needed, reached = simulated_size(quantiles, goal, planned, times)
            words = ", ".join(f"{key} {value}" for key, value in goal.items())
            words = words.translate(str.maketrans("", "", "{}':"))
            kind = f"width {reached:.3f}" if "width" in goal else f"power {reached:.2f}"
            lines.append(f"| {name} | {words} | {planned} | {needed:.0f} | {planned / needed:.2f} | {kind} |")
            print(lines[-1], flush=True)
    if options.write:
        (Path(options.write) / "planning.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
