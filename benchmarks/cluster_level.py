"""Rejection rates of tests for calibrated predictions of dependent samples, with and without ``clusters``.

    python benchmarks/cluster_level.py
    python benchmarks/cluster_level.py --picture docs/_static/cluster_level.png

Outcomes have a random intercept for each cluster on the scale of log-odds, whose distribution differs from
that of the simulations of the tests, or a random slope for each cluster; for every prediction p, P(Y = 1) =
p. Grid: 15, 30, 100 and 1000 clusters of equal sizes, or one with a third of the samples, others of
exponentially distributed sizes; intra-cluster correlation 0, .05, .2 and .5; predictions that vary within
clusters or not; common events, or 2%. Rows with a ``shift`` of the log-odds have correlation 0, and their
rates are powers. "unaware" is the asymptotic score test of intercept and slope for independent samples.

Rounds of all settings are added to results/cluster_level.csv, which --picture summarizes. A rate r has the
standard error sqrt(r (1 - r) / runs).

    --rounds 40                rounds, of 5 runs of each setting
    --seed 0                   seed of the first round
    --picture FILE             instead: plot the saved results, and print a summary
    --smoke                    one run of few settings, not saved
"""

import csv
import itertools
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _options import parser_of
from scipy.special import expit, logit, ndtri

from sklearn_calib.inference import CombinedTest, CoxTest

RESULTS = Path(__file__).parent / "results" / "cluster_level.csv"
SIZES = {15: 40, 30: 20, 100: 10, 1000: 3}
TESTS = ("tcal", "cutoff", "intercept", "slope", "spiegelhalter", "combined", "unaware")
KEYS = ("clusters", "sizes", "dependence", "correlation", "predictions", "events", "shift")
RUNS = 5


def settings() -> list[tuple]:
    """Return all settings of the grid."""
    kinds = [("intercept", rho) for rho in (0.0, 0.05, 0.2, 0.5)] + [("slope", 0.2)]
    grid = itertools.product(SIZES, ("equal", "unequal"), kinds, ("varying", "constant"), ("common", "rare"))
    out = [
        (clusters, sizes, kind, rho, predictions, events, 0.0)
        for clusters, sizes, (kind, rho), predictions, events in grid
        if not (kind == "slope" and (predictions == "constant" or events == "rare"))
    ]
    # the power is about one half
    shifts = {15: 0.21, 30: 0.21, 100: 0.17, 1000: 0.1}
    return out + [
        (clusters, sizes, "intercept", 0.0, "varying", "common", shift)
        for clusters, shift in shifts.items()
        for sizes in ("equal", "unequal")
    ]


def clusters_of(n_clusters: int, sizes: str, rng: np.random.Generator) -> np.ndarray:
    """Return the clusters of the samples, of equal sizes or one with a third of the samples."""
    size = np.full(n_clusters, SIZES[n_clusters])
    if sizes == "unequal":
        parts = np.append(rng.dirichlet(np.ones(n_clusters - 1)) * 2 / 3, 1 / 3)
        size = np.maximum(np.rint(parts * size.sum()).astype(int), 1)
    return np.repeat(np.arange(n_clusters), size)


def simulate(setting: tuple, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return outcomes, predictions and clusters."""
    n_clusters, sizes, kind, rho, predictions, events, shift = setting
    clusters = clusters_of(n_clusters, sizes, rng)
    center, spread = (-4.15, 0.7) if events == "rare" else (0.0, 1.2)
    own = (
        rng.normal(size=n_clusters)[clusters] if predictions == "constant" else rng.normal(size=clusters.size)
    )
    p = expit(center + spread * own)
    truth = expit(logit(p) + shift)
    effect = rng.normal(size=n_clusters)[clusters]
    if kind == "slope":
        tilt = np.sqrt(rho) * own
        return (
            (ndtri(truth) * np.sqrt(1 + tilt**2) + tilt * effect > rng.normal(size=p.size)).astype(int),
            p,
            clusters,
        )
    if rho == 0:
        return (rng.random(p.size) < truth).astype(int), p, clusters
    deviation = np.sqrt(rho / (1 - rho) * np.pi**2 / 3)
    return (
        (rng.random(p.size) < expit(conditional_logit(truth, deviation) + deviation * effect)).astype(int),
        p,
        clusters,
    )


def conditional_logit(p: np.ndarray, deviation: float) -> np.ndarray:
    """Return a with E expit(a + deviation z) = p for standard normal z, from a table."""
    node, weight = np.polynomial.hermite_e.hermegauss(41)
    weight = weight / weight.sum()
    table = np.linspace(-14, 14, 281) * (1 + deviation)
    mean = expit(table[:, np.newaxis] + deviation * node) @ weight
    return np.interp(p, mean, table)


def pvalues(setting: tuple, seed: Sequence[int]) -> list[float]:
    """Return the p-values of all tests for one sample."""
    y, p, clusters = simulate(setting, np.random.default_rng(seed))
    combined = CombinedTest(
        components=TESTS[:5], weights=(4, 4, 1e-9, 3, 1e-9), n_resamples=99, random_state=seed[-1]
    ).test(y, p, clusters=clusters)
    unaware = CoxTest(method="asymptotic").test(y, p)
    return [*(part.pvalue for part in combined.scales), combined.pvalue, unaware.pvalue]


def collected() -> dict[tuple, np.ndarray]:
    """Return runs and numbers of rejections of each setting, of all rounds in the file."""
    total: dict[tuple, np.ndarray] = defaultdict(lambda: np.zeros(1 + len(TESTS), dtype=int))
    if RESULTS.exists():
        with RESULTS.open() as file:
            for row in csv.DictReader(file):
                total[tuple(row[key] for key in KEYS)] += [int(row["runs"]), *(int(row[t]) for t in TESTS)]
    return total


def save(total: dict[tuple, np.ndarray]) -> None:
    """Write runs and numbers of rejections."""
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEYS, "runs", *TESTS])
        writer.writerows([*key, *counts] for key, counts in total.items())


def summary(total: dict[tuple, np.ndarray]) -> None:
    """Print rates by number of clusters, sizes and correlation, and the settings that exceed the level."""
    rows: dict[tuple, np.ndarray] = defaultdict(lambda: np.zeros(1 + len(TESTS), dtype=int))
    for (clusters, sizes, kind, rho, _, _, shift), counts in total.items():
        rows[clusters, sizes, kind, rho, shift] += counts
        if kind == "intercept" and float(shift) == 0:
            rows["all", "", kind, rho, shift] += counts
            rows["all", "", kind, "all", shift] += counts
    print("clusters sizes   effect    rho  shift  runs  " + "  ".join(f"{test[:9]:>9}" for test in TESTS))
    for (clusters, sizes, kind, rho, shift), (runs, *counts) in rows.items():
        rates = "  ".join(f"{count / runs:9.3f}" for count in counts)
        print(f"{clusters:>8} {sizes:<7} {kind:<9} {rho:>4} {shift:>5} {runs:>5}  {rates}")
    tested = exceeded = 0
    for key, (runs, *counts) in total.items():
        for test, count in zip(TESTS[:-1], counts, strict=False):
            if float(key[-1]) == 0:
                tested += 1
                if count > 0.05 * runs + 3 * np.sqrt(0.05 * 0.95 * runs):
                    exceeded += 1
                    print(
                        "exceeds .05 by more than three standard errors:", *key, test, f"{count / runs:.3f}"
                    )
    print(f"{exceeded} of {tested} rates exceed .05 by more than three standard errors")


def picture(total: dict[tuple, np.ndarray], path: str) -> None:
    """Plot the distribution of levels over settings, for each number of clusters."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.0), sharey=True, layout="constrained")
    names = {
        "tcal": "T-Cal",
        "cutoff": "cutoff",
        "combined": "combined",
        "slope": "slope",
        "unaware": "Cox without clusters",
    }
    for axis, sizes in zip(axes, ("equal", "unequal"), strict=True):
        for k, (test, name) in enumerate(names.items()):
            means = []
            for clusters in SIZES:
                chosen = [
                    counts
                    for key, counts in total.items()
                    if key[:3] == (str(clusters), sizes, "intercept") and float(key[-1]) == 0
                ]
                rates = np.array([counts[1 + TESTS.index(test)] / counts[0] for counts in chosen])
                at = np.log10(clusters) + (k - 2) * 0.05
                axis.plot(np.full(rates.size, at), rates, "o", color=f"C{k}", alpha=0.35, ms=4, mew=0)
                means.append((at, rates.mean()))
            axis.plot(*np.transpose(means), "-", color=f"C{k}", label=name)
        axis.axhline(0.05, color="k", lw=0.8, ls=":")
        axis.set_xticks(np.log10(list(SIZES)), [str(c) for c in SIZES])
        axis.set_xlabel("Number of clusters")
        axis.set_title(
            "Equal sizes" if sizes == "equal" else "One cluster with a third of the samples", fontsize=10
        )
    axes[0].set_ylabel("Rejections of calibrated predictions")
    axes[0].set_yscale("function", functions=(np.sqrt, np.square))
    axes[0].set_ylim(0, 1)
    axes[0].set_yticks([0, 0.05, 0.2, 0.5, 1])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__, rounds=40, seed=0)
    parser.add_argument("--picture", default="")
    options = parser.parse_args(arguments)
    # warnings about few events in few clusters are expected
    warnings.filterwarnings("ignore", category=UserWarning)
    if options.smoke:
        print([round(value, 2) for setting in settings()[:2] for value in pvalues(setting, (0, 0))])
        return
    if options.picture:
        picture(collected(), options.picture)
        summary(collected())
        return
    for number in range(options.seed, options.seed + options.rounds):
        found = {}
        for index, setting in enumerate(settings()):
            values = np.array([pvalues(setting, (number, index, run)) for run in range(RUNS)])
            found[setting] = (values <= 0.05).sum(axis=0)
        total = collected()
        for setting, counts in found.items():
            total[tuple(map(str, setting))] += [RUNS, *counts]
        save(total)
        print(f"round {number}", flush=True)
    summary(collected())


if __name__ == "__main__":
    main()
