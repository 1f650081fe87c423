"""Power of T-Cal and other tests on the alternatives of the paper, compared with the published figures.

    python benchmarks/tcal_power.py

Lee, Huang, Hassani and Dobriban (2023), T-Cal: An optimal test for the calibration of predictive models,
JMLR 24, Figures 3(b), 4 and 7: predictions are uniform, and the calibration curve is that of eq. (10), ::

    g(p) = p + (-1)^j rho m^-s zeta(2 m (p - 1/4) - j),   zeta(x) = exp(-1 / (x (1 - x))),

on [1/4, 3/4], where j = floor(2 m (p - 1/4)); elsewhere g(p) = p. Each curve shows how often a test at level
0.05 does not reject, against the l2 calibration error 0.0098 rho m^-s (one-hot vectors, as in the paper).

The published numbers (reference/tcal_power.csv) were digitized from the figures of the paper. There critical
values are simulated once for each curve; here every sample has its own p-value, given its predictions:
"debiased" and the adaptive tests by method="asymptotic", "biased", "l1" and "splitting" by 199 simulations or
permutations, at some of the points. "biased" and "l1" are the plug-in estimates of Sec. 4.1 of the paper, see
``plug_in_pvalue``. The published splitting test uses only the positive class, and the number of bins for the
whole sample: "splitting" is this test, and "cross-fitting" averages its statistics with both roles for each
half (Figure 10 of the paper).

The standard error of a difference includes our samples, the 10000 published ones, and the published critical
value from 1000 samples: an error of its level shifts the whole curve, by the slope of power in the level of a
test of a normal mean.

    --repetitions 400          samples for each point
    --jobs 1                   processes
    --csv, --figure PATH       output files
    --smoke                    few samples and points, as a quick check; writes only to given paths
"""

import argparse
import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm

from sklearn_calib.inference import (
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    HosmerLemeshowTest,
    SampleSplittingTest,
    SpiegelhalterTest,
    TCal,
)
from sklearn_calib.metrics import expected_calibration_error

HERE = Path(__file__).parent
LEVEL = 0.05
NORM_OF_ZETA = 0.0098
# number of samples of each published point, and of the critical value of each published curve
PUBLISHED_SAMPLES, PUBLISHED_NULL_SAMPLES = 10_000, 1000
DRAWS: dict[str, Any] = {"n_resamples": 199}

# points for slow tests, at which power is neither 0 nor 1
SLOW_AT = {2000: (40, 50, 70), 5000: (50, 70, 90), 10_000: (70, 90, 110, 140)}
SPLIT_AT = {0.6: (40, 60, 90), 0.8: (40, 60)}

ADAPTIVE = ("adaptive", "adaptive, bonferroni")
CLASSICAL = ("cutoff", "Hosmer-Lemeshow", "Spiegelhalter")


class Alternative(NamedTuple):
    """n predictions, and a calibration curve with m perturbations of smoothness s and scale rho."""

    n: int
    s: float
    rho: float
    m: int

    @property
    def error(self) -> float:
        """The l2 calibration error."""
        return NORM_OF_ZETA * self.rho * self.m**-self.s


Rates = dict[tuple[Alternative, str], np.ndarray]


def perturb(p: np.ndarray, s: float, rho: float, m: int) -> np.ndarray:
    """Return g(p) of eq. (10)."""
    position = 2.0 * m * (p - 0.25)
    j = np.floor(position)
    x = position - j
    with np.errstate(divide="ignore"):  # zeta is 0 where a bump begins
        bump = np.exp(-1.0 / (x * (1.0 - x)))
    inside = (p >= 0.25) & (p <= 0.75)
    return p + np.where(inside, np.where(j % 2 == 0, 1.0, -1.0) * rho * m**-s * bump, 0.0)


def curves(alternative: Alternative, only: str = "") -> list[str]:
    """Return the names of the tests for an alternative, those that contain a word."""
    n, s, _, m = alternative
    names = ["debiased"]
    if m % (20 if n < 20_000 else 40) == 0:
        names += [*ADAPTIVE, *CLASSICAL] if n < 20_000 else ADAPTIVE
    if n == 10_000:
        names += ["logistic score"] + ["l1, 15 bins"] * (m % 20 == 0)
    if m in SLOW_AT.get(n, ()):
        names += ["biased", "l1"]
    if n == 20_000:
        names += ["splitting", "cross-fitting"] * (m in SPLIT_AT[s])
    return [name for name in names if only in name]


def pvalues(name: str, y: np.ndarray, p: np.ndarray, s: float, rng: np.random.Generator) -> dict[str, float]:
    """Return the p-values of one test object, by the names of their curves."""
    if name in ("splitting", "cross-fitting"):
        # the number of bins for the whole sample; about a quarter of it has label 1 in either half
        n_bins = np.floor(p.size ** (2.0 / (4.0 * s + 1.0)))
        smoothness = (2.0 * np.log(p.size / 4.0) / np.log(n_bins + 0.5) - 1.0) / 4.0
        crossed = name == "cross-fitting"
        test = SampleSplittingTest(smoothness=smoothness, cross_fit=crossed, random_state=rng, **DRAWS)
        return {name: test.test(y, p).scales[1].pvalue}
    if name in ("biased", "l1"):
        return {name: plug_in_pvalue(y, p, int(p.size ** (2.0 / (4.0 * s + 1.0))), name, 199, rng)}
    tests = {
        "debiased": lambda: TCal(smoothness=s, method="asymptotic"),
        "l1, 15 bins": lambda: ConsistencyTest(
            partial(expected_calibration_error, n_bins=15), random_state=rng, **DRAWS
        ),
        "logistic score": lambda: CoxTest(method="asymptotic"),
        "adaptive": lambda: TCal(method="asymptotic"),
        "adaptive, bonferroni": lambda: TCal(method="asymptotic", combine="bonferroni"),
        "cutoff": lambda: CutoffTest(method="asymptotic"),
        "Hosmer-Lemeshow": lambda: HosmerLemeshowTest(method="asymptotic"),
        "Spiegelhalter": lambda: SpiegelhalterTest(method="asymptotic"),
    }
    return {name: tests[name]().test(y, p).pvalue}


def plug_in_pvalue(
    y: np.ndarray, p: np.ndarray, n_bins: int, norm: str, n_resamples: int, rng: np.random.Generator
) -> float:
    """Return the Monte Carlo p-value of a plug-in estimate of the calibration error in equal-width bins.

    "biased" is T = sum over bins of (sum r_i)^2 / (n |I|), the square of the l2 error; "l1" is
    T = sum over bins of |sum r_i| / n, where r_i = y_i - p_i. Outcomes are simulated given the predictions.
    """
    order = np.argsort(p)
    y, p = y[order], p[order]
    place = np.minimum(np.floor(n_bins * p), n_bins - 1)
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    size = np.diff(np.append(starts, p.size))

    def statistic(outcome: np.ndarray) -> float:
        residual = np.add.reduceat(outcome - p, starts)
        return float((np.abs(residual) if norm == "l1" else residual**2 / size).sum() / p.size)

    observed = statistic(y)
    simulated = np.array([statistic(rng.random(p.size) < p) for _ in range(n_resamples)])
    # equal samples differ by rounding
    return float((1 + np.count_nonzero(simulated >= observed * (1.0 - 1e-9))) / (1 + n_resamples))


def simulate(alternative: Alternative, repetitions: int, only: str = "") -> dict[str, np.ndarray]:
    """Return for each curve which of the samples are not rejected."""
    n, s, rho, m = alternative
    accepted: dict[str, list[bool]] = {}
    for repetition in range(repetitions):
        rng = np.random.default_rng((n, round(100 * s), m, repetition))
        p = rng.uniform(size=n)
        y = rng.uniform(size=n) < perturb(p, s, rho, m)
        for name in curves(alternative, only):
            for curve, pvalue in pvalues(name, y, p, s, rng).items():
                accepted.setdefault(curve, []).append(pvalue > LEVEL)
    return {curve: np.array(values) for curve, values in accepted.items()}


def read_published() -> list[tuple[str, str, Alternative, float]]:
    with (HERE / "reference" / "tcal_power.csv").open() as lines:
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        return [
            (
                row["figure"],
                row["curve"],
                Alternative(int(row["n"]), float(row["s"]), float(row["rho"]), int(row["m"])),
                float(row["type_2_error"]),
            )
            for row in rows
        ]


def standard_error(published: float, ours: float, repetitions: int) -> float:
    """Return the standard error of the difference, from all three sources of randomness."""
    total = PUBLISHED_SAMPLES + repetitions
    rate = (PUBLISHED_SAMPLES * published + repetitions * ours) / total
    slope = norm.pdf(norm.ppf(rate)) / norm.pdf(norm.ppf(LEVEL)) if 0.0 < rate < 1.0 else 0.0
    samples = rate * (1.0 - rate) * (1.0 / PUBLISHED_SAMPLES + 1.0 / repetitions)
    return float(np.sqrt(samples + slope**2 * LEVEL * (1.0 - LEVEL) / PUBLISHED_NULL_SAMPLES))


def compare(
    published: Sequence[tuple[str, str, Alternative, float]], rates: Rates, repetitions: int
) -> list[dict[str, Any]]:
    """Return one row for each published point that was simulated, then one for each other."""
    rows: list[dict[str, Any]] = []
    for figure, curve, a, value in published:
        if (a, curve) in rates:
            ours = float(rates[a, curve].mean())
            error = standard_error(value, ours, repetitions)
            rows.append(_row(figure, curve, a, ours) | {"published": value, "standard_error": error})
    shown = {(a, curve) for _, curve, a, _ in published}
    rows += [
        _row("", curve, a, float(x.mean())) for (a, curve), x in rates.items() if (a, curve) not in shown
    ]
    return rows


def _row(figure: str, curve: str, a: Alternative, ours: float) -> dict[str, Any]:
    return {
        "figure": figure,
        "curve": curve,
        **a._asdict(),
        "l2_ece": a.error,
        "published": None,
        "ours": ours,
        "standard_error": None,
    }


def print_tables(rows: Sequence[dict[str, Any]]) -> None:
    head = f"{'figure':<7}{'curve':<26}{'n':>6}{'s':>5}{'m':>5}{'l2-ECE':>8}"
    print(f"{head}{'published':>11}{'ours':>8}{'difference':>12}{'std. error':>12}")
    for row in rows:
        line = f"{row['figure']:<7}{row['curve']:<26}{row['n']:>6}{row['s']:>5g}{row['m']:>5}"
        line += f"{row['l2_ece']:8.4f}"
        if row["published"] is None:
            print(f"{line}{'':>11}{row['ours']:8.3f}")
            continue
        difference = row["ours"] - row["published"]
        print(
            f"{line}{row['published']:11.3f}{row['ours']:8.3f}{difference:12.3f}{row['standard_error']:12.3f}"
        )


def print_summary(rows: Sequence[dict[str, Any]]) -> None:
    print("\ndifferences ours - published by curve, and by how much the largest exceeds its standard error")
    print(f"{'figure':<7}{'curve':<16}{'n':>6}{'s':>5}{'points':>8}{'mean':>8}{'largest':>9}{'exceeds':>9}")
    groups: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for row in rows:
        if row["published"] is not None:
            key = (row["figure"], row["curve"], row["n"], row["s"])
            groups.setdefault(key, []).append((row["ours"] - row["published"], row["standard_error"]))
    groups["all", "", "", ""] = [pair for pairs in groups.values() for pair in pairs]
    for (figure, curve, n, s), pairs in groups.items():
        difference, error = np.array(pairs).T
        size = np.abs(difference)
        print(
            f"{figure:<7}{curve:<16}{n:>6}{s:>5}{size.size:>8}{difference.mean():8.3f}{size.max():9.3f}"
            f"{(size - error).max():9.3f}"
        )


def write_csv(path: Path, rows: Sequence[dict[str, Any]], repetitions: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        file.write(f"# type II errors at level {LEVEL:g}, {repetitions} samples for each point\n")
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {k: f"{v:.4f}" if isinstance(v, float) and k != "s" else v for k, v in row.items()}
            )


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table of :func:`write_csv`."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    texts = ("figure", "curve")
    return [{k: v if k in texts else float(v) if v else None for k, v in row.items()} for row in rows]


def draw(
    path: Path, published: Sequence[tuple[str, str, Alternative, float]], rows: Sequence[dict[str, Any]]
) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    gray = {2000: "0.6", 5000: "0.35", 10_000: "0.0", 20_000: "0.0"}

    def line(ax: Any, figure: str, curve: str, n: int, s: float, style: str) -> None:
        points = [(a.error, x) for f, c, a, x in published if (f, c, a.n, a.s) == (figure, curve, n, s)]
        ax.plot(*np.array(points).T, style, color=gray[n], lw=1)

    def marks(
        ax: Any, curve: str, n: int, s: float, style: str, label: str | None = None, **how: Any
    ) -> None:
        points = {
            (row["l2_ece"], row["ours"])
            for row in rows
            if (row["curve"], row["n"], row["s"]) == (curve, n, s)
        }
        if points:
            style_of: dict[str, Any] = {"color": gray[n], "ms": 4.5, "mfc": "none", "label": label}
            ax.plot(*np.transpose(sorted(points)), style, **style_of | how)

    figure, axes = plt.subplots(2, 3, figsize=(11, 8.6), sharey=True, layout="constrained")
    kinds = {"debiased": ("-", "o"), "biased": (":", "^"), "l1": ("-.", "s")}
    ax = axes[0, 0]
    for n in (2000, 5000, 10_000):
        line(ax, "3b", "debiased", n, 0.6, "-")
        marks(ax, "debiased", n, 0.6, "o", f"n = {n}")
    for curve, style, mark in (("l1, 15 bins", ":", "s"), ("logistic score", "-.", "x")):
        line(ax, "3b", curve, 10_000, 0.6, style)
        marks(ax, curve, 10_000, 0.6, mark, curve)
    ax.set_title("Figure 3(b)")
    ax = axes[0, 1]
    for curve, (style, mark) in kinds.items():
        for n in (2000, 5000, 10_000):
            line(ax, "4", curve, n, 0.6, style)
            marks(ax, curve, n, 0.6, mark, curve if n == 10_000 else None)
    ax.set_title("Figure 4")
    for ax, s in ((axes[0, 2], 0.6), (axes[1, 0], 0.8)):
        line(ax, "7", "debiased", 20_000, s, "-")
        line(ax, "7", "splitting", 20_000, s, "--")
        marks(ax, "debiased", 20_000, s, "o", "T-Cal")
        marks(ax, "splitting", 20_000, s, "s", "splitting")
        ax.set_title(f"Figure 7, s = {s:g}")
    ax = axes[1, 1]
    styles = {"debiased": ":", "adaptive": "-o", "adaptive, bonferroni": "--x"}
    labels = ("known smoothness", "weighted (default)", "Bonferroni")
    for n in (2000, 5000, 10_000):
        for (curve, style), label in zip(styles.items(), labels, strict=True):
            marks(ax, curve, n, 0.6, style, label if n == 10_000 else None, lw=1)
    ax.set_title("adaptive T-Cal")
    ax = axes[1, 2]
    marks(ax, "adaptive", 10_000, 0.6, "-o", "adaptive T-Cal", lw=1)
    for curve, style in zip((*CLASSICAL, "logistic score"), (":s", "-.^", ":+", "--x"), strict=True):
        marks(ax, curve, 10_000, 0.6, style, curve, lw=1)
    ax.set_title("classical tests, n = 10000")
    for ax in axes.flat:
        ax.set(xlabel="l2 calibration error", ylim=(-0.03, 1.03), xticks=[0.04, 0.06, 0.08, 0.1])
        below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17), "frameon": False}
        ax.legend(**below, ncols=2, fontsize=8)
    for ax in axes[:, 0]:
        ax.set_ylabel("type II error")
    figure.suptitle("Lines without marks are published, marks are ours; darker is larger n", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--draw", action="store_true", help="plot an existing table of --csv")
    options = parser.parse_args(arguments)
    published = read_published()
    alternatives = list(dict.fromkeys(a for _, _, a, _ in published))
    repetitions = options.repetitions
    if options.smoke:
        repetitions, alternatives = 1, [a for a in alternatives if a.m == 40]
    else:
        options.csv = options.csv or HERE / "results" / "tcal_power.csv"
        options.figure = options.figure or HERE.parent / "docs" / "_static" / "tcal_power.png"
    if options.draw:
        draw(options.figure, published, read_csv(options.csv))
        return
    results = Parallel(n_jobs=options.jobs, verbose=1)(
        delayed(simulate)(a, repetitions) for a in alternatives
    )
    rates = {(a, curve): x for a, r in zip(alternatives, results, strict=True) for curve, x in r.items()}
    rows = compare(published, rates, repetitions)
    print_tables(rows)
    print_summary(rows)
    if options.csv:
        write_csv(options.csv, rows, repetitions)
    if options.figure:
        draw(options.figure, published, rows)


if __name__ == "__main__":
    main()
