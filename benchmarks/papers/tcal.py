"""Lee, Huang, Hassani, Dobriban (2023), T-Cal: An optimal test for the calibration of predictive models."""

from collections.abc import Callable
from math import floor, hypot, sqrt

import numpy as np

from benchmarks.papers import tcal_networks
from benchmarks.papers.population import midpoints
from benchmarks.papers.study import Study, slope
from benchmarks.tcal_power import (
    Alternative,
    perturb,
    read_published,
    simulate,
    standard_error,
)
from sklearn_calib.inference import ConsistencyTest, CutoffTest, SampleSplittingTest, TCal
from sklearn_calib.metrics import expected_calibration_error

PAPER = "T-Cal (Lee et al. 2023)"
LEVEL = 0.05
# Example 3.3
SAMPLES, SMOOTHNESS, SCALE = 10_000, 0.3, 100.0
BINS = floor(SAMPLES ** (2 / (4 * SMOOTHNESS + 1)))
# Factors of the heights of the bumps, against those of perturb() for half as many of them: eq. (9) and the
# authors' code.
EQUATION, CODE = 2.0**-SMOOTHNESS, 1.0

Array = np.ndarray
Rates = dict[tuple[str, Alternative], float]


def run(study: Study) -> None:
    with study.figure("tcal_example", 1, 3) as axes:
        example(study, axes)
    failure(study)
    theory(study)
    splitting(study)
    discrete(study)
    rates = power(study)
    adaptive(study)
    small_errors(study)
    with study.figure("tcal_limits", 1, 3) as (left, middle, right):
        detection(study, left)
        impossibility(study, middle)
        cells(study, right)
    resampling(study)
    with study.figure("tcal_appendix", 1, 3) as (left, middle, right):
        estimation(study, left)
        cross_fitting(study, (middle, right), rates)
    tcal_networks.run(study)


def outward(p: Array, m: int = BINS, factor: float = EQUATION) -> Array:
    """Return the calibration curve P1 of eq. (9): bumps of width 1/m, down below 1/2 and up above."""
    bump = np.abs(perturb(p, SMOOTHNESS, SCALE * factor, m // 2) - p)
    return p + np.where(p > 0.5, 1.0, -1.0) * bump


def moments(curve: Callable[[Array], Array], n: int, m: int) -> dict[str, float]:
    """Return exact means of the statistics, and their null standard deviation, for uniform predictions.

    Given the number k of samples in a bin, the mean of (sum r)^2 / k is v + (k - 1) u^2, where u is the mean
    residual of the bin and v its mean squared residual; the debiased statistic lacks v. k is binomial.
    """
    z = midpoints(64 * m).reshape(m, 64)
    g = curve(z)
    u, v = (g - z).mean(axis=1), (g * (1 - z) ** 2 + (1 - g) * z**2).mean(axis=1)
    k = np.arange(1, n + 1)
    log_pmf = np.cumsum(np.log((n - k + 1) / k)) - k * np.log(m) + (n - k) * np.log1p(-1 / m)
    pmf = np.exp(log_pmf)
    debiased = np.sum(u**2) * np.sum(pmf * (k - 1)) / n
    return {
        "debiased": debiased,
        "biased": debiased + np.sum(v) * pmf.sum() / n,
        "null_std": sqrt(2 * np.sum(v**2) * np.sum(pmf * (k - 1) / k)) / n,
    }


def example(study: Study, axes) -> None:
    """Run Example 3.3 and Figure 2: the biased statistic is larger for the calibrated predictions."""
    curves: dict[str, Callable[[Array], Array]] = {
        "P0": lambda p: p,
        "P1": outward,
        "P1 of the code": lambda p: outward(p, factor=CODE),
    }
    # means of the authors' figure, biased and debiased, with standard errors of 3.5e-5
    figure = {"P0": (0.06487, 0.00002), "P1": (0.06299, 0.00144)}
    draws = study.pick(60, 3000, 10_000)
    test = TCal(smoothness=SMOOTHNESS, method="asymptotic")
    found: dict[str, Array] = {}
    exact = {name: moments(curves[name], SAMPLES, BINS) for name in figure}
    reason = "the height of the bumps is rho m^-s in eq. (9), rho (m/2)^-s in the authors' code"
    for name, curve in curves.items():
        rows = []
        for draw in range(draws):
            rng = study.rng(f"example 3.3 {name}", draw)
            p = rng.uniform(size=SAMPLES)
            y = (rng.uniform(size=SAMPLES) < curve(p)).astype(int)
            scale = test.test(y, p).scales[0]
            biased = expected_calibration_error(y, p, n_bins=BINS, norm="l2") ** 2
            rows.append((biased, scale.statistic, scale.null_std))
        found[name] = np.array(rows)
        for column, kind in enumerate(("biased", "debiased")):
            study.number(
                f"Example 3.3, Figure 2: mean of T {kind}, {name}",
                figure[name[:2]][column],
                found[name][:, column].mean(),
                4 * hypot(3.5e-5, found[name][:, column].std() / sqrt(draws)),
                "" if name == "P0" else reason,
                right=exact[name][kind] if name == "P1" else None,
            )
    study.number(
        "Example 3.3: null sd of T debiased, given the predictions",
        None,
        found["P0"][:, 2].mean(),
        1e-5,
        f"mean of {draws} samples; scalar convention, as in the authors' code",
        right=exact["P0"]["null_std"],
    )
    z = np.linspace(0.499, 0.501, 2001)  # a few of the bumps
    axes[0].plot(z, outward(z), label="P1")
    axes[0].plot(z, z, "k:", lw=1, label="P0: calibrated")
    axes[0].set(xlabel="prediction", ylabel="event probability", title="Example 3.3: curve near 1/2")
    axes[0].locator_params(axis="x", nbins=5)
    axes[0].ticklabel_format(useOffset=False)
    axes[0].legend()
    for ax, column, kind in zip(axes[1:], (0, 1), ("biased", "debiased"), strict=True):
        for name in figure:
            ax.hist(found[name][:, column], bins=20, alpha=0.5, label=name)
            ax.axvline(exact[name][kind], color="0.3", ls="--", lw=1)
        ax.set(xlabel=f"T, {kind}", ylabel="simulations", title=f"Figure 2: {kind} statistic")
        ax.locator_params(axis="x", nbins=5)
        ax.legend()


def failure(study: Study) -> None:
    """Run Proposition 3.4: the bias of T is larger under P0 than the error under P1, for large n."""
    sizes, shown = (1000, 10_000, 100_000), []
    for n in sizes:
        m = 4 * floor(n ** (2 / (4 * SMOOTHNESS + 1)) / 4)
        means = [moments(curve, n, m)["biased"] for curve in (lambda p: p, lambda p, m=m: outward(p, m))]
        shown.append(means[0] - means[1])
    study.holds(
        "Proposition 3.4: mean of T biased, P0 - P1",
        "proved: at least 0 for large n",
        ", ".join(f"{difference:.5f}" for difference in shown),
        "positive",
        min(shown) > 0,
        f"exact means, n = {', '.join(str(n) for n in sizes)}, s = {SMOOTHNESS:g}, rho = {SCALE:g}",
    )


def bins_of(p: Array, m: int) -> Array:
    """Return numbers of the bins of vectors of two or three probabilities (App. 8.2.3)."""
    place = m * np.cumsum(p, axis=1)[:, :-1]
    if place.shape[1] == 1:
        return np.floor(m * p[:, 1]).astype(int)
    whole = np.floor(place).astype(int)
    fraction = place - whole
    return (whole[:, 0] * m + whole[:, 1]) * 2 + (fraction[:, 0] < fraction[:, 1])


def theory(study: Study) -> None:
    """Compare critical values with the printed ones of Theorem 3.1, for two and three classes."""
    n = 60
    for k in (2, 3):
        rng = study.rng("theory", k)
        p = rng.dirichlet(np.ones(k), n)
        residual = np.eye(k)[0] - p
        pvalues = []
        for m in (floor(n ** (2 / (3 + k))), 2):
            bins, statistic = bins_of(p, m), 0.0
            for each in np.unique(bins):
                r = residual[bins == each]
                statistic += (np.sum(r.sum(axis=0) ** 2) - np.sum(r**2)) / len(r) / n
            bound = min(m ** ((k - 1) / 2) / n, m ** (-(k - 1) / 2))
            pvalues.append(2 * k**2 * bound**2 / statistic**2)
        sample = (np.zeros(n, dtype=int), p[:, 1] if k == 2 else p)
        ours = TCal(smoothness=1.0, method="theory").test(*sample).pvalue
        note = f"all outcomes of one class, n = {n}"
        study.number(f"Theorem 3.1: level that rejects, K = {k}, s = 1", pvalues[0], ours, 1e-9, note)
        scales = TCal(method="theory").test(*sample).scales
        study.number(f"Theorem 3.2: level of two bins, K = {k}", pvalues[1], scales[0].pvalue, 1e-9, note)


def splitting(study: Study) -> None:
    """Run Algorithm 3: its level, the two means by hand, and an error that only each of its parts detects."""
    draws, level, n = study.pick(100, 200, 2000), 0.1, 100
    hits = 0
    for draw in range(draws):
        rng = study.rng("algorithm 3", draw)
        p = rng.uniform(size=n)
        test = SampleSplittingTest(smoothness=1.0, n_resamples=59, random_state=rng)
        hits += test.test((rng.uniform(size=n) < p).astype(int), p).pvalue <= level
    limit = 3 * sqrt(level * (1 - level) / draws)
    study.holds(
        "Algorithm 3: level .1",
        "at most .1",
        f"{hits / draws:.3f}",
        f"between {level / 3:.3f} and {level + limit:.3f}",
        level / 3 <= hits / draws <= level + limit,
        f"{draws} samples of n = {n}; each part has a third of the level",
    )
    # residuals of one sign; that cancel in T1; that cancel in T1 and T2
    errors = {
        "T1": lambda p: np.full_like(p, 0.1),
        "T2": lambda p: 0.5 * (p - 0.5),
        "the densities": lambda p: 0.3 * np.cos(8 * np.pi * p),
    }
    n, draws, shown, worst, off = 2000, study.pick(3, 5, 100), [], 1.0, 0.0
    for name, error in errors.items():
        decided = 0
        for draw in range(draws):
            rng = study.rng("parts of algorithm 3", draw)
            p = rng.uniform(0.3, 0.7, n)
            y = (rng.uniform(size=n) < p + error((p - 0.3) / 0.4)).astype(int)
            result = SampleSplittingTest(smoothness=0.5, n_resamples=199, random_state=draw).test(y, p)
            decided += result.pvalue <= LEVEL and f"decided by {name}" in result.reason
            if name != "the densities":
                # weights of y - p in the means of both classes, and their covariance
                weight = np.array([np.ones(n)] if name == "T1" else [p, p - 1])
                mean = weight @ (y - p)
                by_hand = sqrt(mean @ np.linalg.solve((weight * p * (1 - p)) @ weight.T, mean))
                off = max(off, abs(result.statistic / by_hand - 1))
        shown.append(f"{name} {decided}")
        worst = min(worst, decided / draws)
    study.holds(
        "Algorithm 3: the part that rejects, for three errors",
        "theory: T1, T2, the densities",
        f"{', '.join(shown)} of {draws}; T1 and T2 off by {off:.0e}",
        "at least 90%; below 1e-9, relative",
        worst >= 0.9 and off < 1e-9,
        f"n = {n}, p-value at most .05; constant, linear and oscillating residuals",
    )


def discrete(study: Study) -> None:
    """Compare the debiased error of App. 8.3.1 with its formula for three predictions."""
    p, count, events = np.array([0.2, 0.5, 0.9]), np.array([6, 5, 4]), np.array([3, 4, 2])
    rate = events / count
    by_hand = np.sum(count * ((rate - p) ** 2 - rate * (1 - rate) / (count - 1))) / count.sum()
    y = np.concatenate([np.arange(k) < e for k, e in zip(count, events, strict=True)]).astype(int)
    options = {"strategy": "quantile", "n_bins": y.size, "norm": "l2"}
    ours = expected_calibration_error(y, np.repeat(p, count), debias=True, **options) ** 2
    plain = expected_calibration_error(y, np.repeat(p, count), **options) ** 2
    study.number(
        "App. 8.3.1: debiased squared error of three predictions",
        None,
        ours,
        1e-12,
        f"15 samples; {plain:.4f} without the correction",
        right=float(by_hand),
    )


def power(study: Study) -> Rates:
    """Rerun points of Figures 3b, 4 and 7, compare them with the published numbers, and return them."""
    plans = [
        # figure, curve, numbers of bumps, samples at each point
        ("3b", "debiased", study.pick((40, 80), range(40, 200, 10), range(40, 200, 10)), (40, 200, 1000)),
        ("3b", "l1, 15 bins", study.pick((40,), (40, 80, 120), range(40, 200, 20)), (8, 40, 400)),
        ("3b", "logistic score", study.pick((40,), (40, 80, 120, 160), range(40, 200, 10)), (20, 100, 1000)),
        ("4", "biased", study.pick((40,), (40, 50, 70, 90), range(40, 200, 10)), (10, 30, 400)),
        ("4", "l1", study.pick((40,), (40, 50, 70, 90), range(40, 200, 10)), (10, 30, 400)),
        ("7", "debiased", study.pick((40, 80), range(40, 250, 20), range(40, 250, 10)), (30, 100, 1000)),
        ("7", "splitting", study.pick((40,), (40, 60), (40, 60, 90)), (4, 20, 400)),
    ]
    published, samples = read_published(), {curve: study.pick(*draws) for _, curve, _, draws in plans}
    rates: Rates = {}
    for figure, curve, bumps, repetitions in plans:
        wanted = [(a, value) for f, c, a, value in published if (f, c) == (figure, curve) and a.m in bumps]
        draws, off, used, shown = study.pick(*repetitions), [], [], []
        for alternative, value in wanted:
            accepted = simulate(alternative, draws, only=curve).get(curve)
            if accepted is None:
                continue
            ours = rates[curve, alternative] = float(accepted.mean())
            off.append(abs(ours - value) / max(standard_error(value, ours, draws), 0.5 / draws))
            used.append(ours - value)
            shown.append(alternative)
        note = (
            f"{draws} simulations per point; standard error: theirs, ours, and that of their critical value"
        )
        if curve == "splitting":
            note += ". As published: only class 1, and the number of bins for the whole sample"
        study.compared(
            f"Figure {figure}: type II error, {curve}",
            f"{len(shown)} points",
            f"mean difference {np.mean(used):+.3f}, largest {np.abs(used).max():.3f} ({max(off):.1f} s.e.)",
            "each within 4 standard errors",
            max(off) < 4,
            note,
        )
    _order(study, rates, samples)
    return rates


def _order(study: Study, rates: Rates, draws: dict[str, int]) -> None:
    """Compare T-Cal with the others at equal points."""
    shown, worst = [], np.inf
    for curve in ("biased", "l1", "l1, 15 bins", "logistic score", "splitting"):
        both = [(rate, rates["debiased", a]) for (c, a), rate in rates.items() if c == curve]
        gap = float(np.mean([other - ours for other, ours in both]))
        error = 0.5 * sqrt((1 / draws[curve] + 1 / draws["debiased"]) / len(both))
        worst = min(worst, gap / error)
        shown.append(f"{curve} {gap:+.2f}")
    study.holds(
        "Figures 3b, 4, 7: type II error minus that of debiased T-Cal",
        "T-Cal smallest",
        ", ".join(shown),
        "mean excess above -2 standard errors",
        worst > -2,
        "same bins, except for the 15; with simulated critical values the biased statistic is nearly as good",
    )


def adaptive(study: Study) -> None:
    """Run Algorithm 2, which adapts to unknown smoothness, on the same alternatives, n = 10 000."""
    bumps, draws = study.pick((60,), (60, 80, 100), range(60, 200, 20)), study.pick(10, 40, 400)
    found = [simulate(Alternative(10_000, 0.6, 100.0, m), draws, only="adaptive") for m in bumps]
    gaps = np.concatenate(
        [accepted["adaptive"].astype(float) - accepted["adaptive, bonferroni"] for accepted in found]
    )
    ours = ", ".join(f"{accepted['adaptive'].mean():.2f}" for accepted in found)
    theirs = ", ".join(f"{accepted['adaptive, bonferroni'].mean():.2f}" for accepted in found)
    study.holds(
        "Algorithm 2, adaptive: type II error, n = 10000",
        "theory: not above Bonferroni",
        f"weighted {ours}; Bonferroni {theirs}",
        "weighted not above Bonferroni by 2 standard errors",
        gaps.mean() <= 2 * max(gaps.std(), 0.5) / sqrt(gaps.size),
        f"{', '.join(str(m) for m in bumps)} bumps; joint distribution of the scales instead of Bonferroni",
    )


def small_errors(study: Study) -> None:
    """Run Remark 3 at the boundary of its null hypothesis: the printed rule omits the mean of T there."""
    n, s, draws = 20_000, 0.5, study.pick(10, 100, 1000)
    # T of one-hot vectors is twice the scalar one, and its mean at the boundary nearly error^2
    m, error = floor(n ** (2 / (4 * s + 1))), 0.2
    critical = 2 / sqrt(LEVEL) * sqrt(2 * m / n**2 + 5 * error**2 / n)
    test = TCal(smoothness=s, method="asymptotic", tolerance=error / sqrt(2))
    hits = np.empty((draws, 2))
    for draw in range(draws):
        rng = study.rng("remark 3", draw)
        p = rng.uniform(size=n)
        y = (rng.uniform(size=n) < p + 0.2 * np.cos(np.pi * p)).astype(int)
        result = test.test(y, p)
        hits[draw] = 2 * result.scales[0].statistic >= critical, result.pvalue <= LEVEL
    printed, ours = hits.mean(axis=0)
    limit = LEVEL + 3 * sqrt(LEVEL * (1 - LEVEL) / draws)
    study.differs(
        "Remark 3: rejection rate for an error of c0 n^(-2s/(4s+1))",
        "at most 5%",
        f"printed rule {printed:.2f}, TCal(tolerance=) {ours:.2f}",
        f"printed rule always, tolerance at most {limit:.2f} (the level)",
        bool(printed == 1.0 and ours <= limit),
        f"n = {n}, s = {s:g}, c0 = {error * n ** (2 * s / (4 * s + 1)):.1f}: T has mean .04 there, which the "
        f"printed critical value {critical:.3f} omits",
    )


def detection(study: Study, ax) -> None:
    """Run Figure 5: the smallest l2 calibration error that is detected, as a function of n."""
    sizes = np.array(
        (1000, 5000, 20_000) if study.effort == "smoke" else (1000, 2000, 5000, 10_000, 20_000, 50_000)
    )
    searches, draws = study.pick((1, 30), (1, 60), (10, 100))
    for s, rho, color in ((0.3, 25.0, "C0"), (0.5, 50.0, "C1")):
        errors = [
            np.mean([_smallest(study, n, s, rho, draws, search) for search in range(searches)]) for n in sizes
        ]
        theory = -2 * s / (4 * s + 1)
        study.number(
            f"Figure 5: exponent of n, s = {s:g}, rho = {rho:g}",
            theory,
            slope(sizes, np.exp(errors)),
            0.06,
            "-2 s / (4 s + 1); type I and II errors 5%",
            digits=3,
        )
        ax.loglog(sizes, np.exp(errors), "o", mfc="none", color=color, label=f"s = {s:g}")
        ax.loglog(
            sizes, np.exp(np.mean(errors) + theory * (np.log(sizes) - np.mean(np.log(sizes)))), color=color
        )
    ax.set(xlabel="n", ylabel="l2 calibration error", title="Figure 5: smallest error detected")
    ax.legend()


def _smallest(study: Study, n: int, s: float, rho: float, draws: int, search: int) -> float:
    """Return the logarithm of the smallest l2 error that is missed in less than 5% of simulations."""
    test = TCal(smoothness=s, method="asymptotic")

    def missed(m: int) -> float:
        accepted = 0
        for draw in range(draws):
            rng = study.rng("figure 5", n, round(10 * s), m, search, draw)
            p = rng.uniform(size=n)
            y = (rng.uniform(size=n) < perturb(p, s, rho, m)).astype(int)
            accepted += test.test(y, p).pvalue > LEVEL
        return accepted / draws

    grid = midpoints(2000)
    low, high = 1, floor(n ** (2 / (4 * s + 1)))
    while low < high:
        middle = (low + high) // 2
        # few bumps are high, and may leave [0, 1]; such errors would be even larger
        if np.abs(perturb(grid, s, rho, middle) - 0.5).max() > 0.5 or missed(middle) <= LEVEL:
            low = middle + 1
        else:
            high = middle
    return float(np.log(Alternative(n, s, rho, low).error))


def impossibility(study: Study, ax) -> None:
    """Run Proposition 5.1: an error of .14 of growing frequency, until no test has power."""
    n, draws = 2000, study.pick(60, 200, 1000)
    periods = (3, 30, 300, 3000, 300_000, 30_000_000)
    tests = {"T-Cal": TCal(method="asymptotic"), "cutoff": CutoffTest(method="asymptotic")}
    rejected = {name: [] for name in tests}
    for k in periods:
        hits = dict.fromkeys(tests, 0)
        for draw in range(draws):
            rng = study.rng("proposition 5.1", k, draw)
            p = rng.uniform(size=n)
            inside = (p >= 0.25) & (p <= 0.75)
            g = p + 0.2 * inside * np.where(np.floor(2 * k * p) % 2 == 0, 1, -1)
            y = (rng.uniform(size=n) < g).astype(int)
            for name, test in tests.items():
                hits[name] += test.test(y, p).pvalue <= LEVEL
        for name in tests:
            rejected[name].append(hits[name] / draws)
    last = [values[-1] for values in rejected.values()]
    limit = LEVEL + 3 * sqrt(LEVEL * (1 - LEVEL) / draws)
    study.holds(
        "Proposition 5.1: no test without smoothness",
        "proved",
        f"T-Cal rejects {', '.join(f'{r:.2f}' for r in rejected['T-Cal'])}",
        f"1 at the start, at most {limit:.2f} (the level) at the end",
        rejected["T-Cal"][0] > 0.99 and max(last) <= limit,
        f"l2 error .2/sqrt(2) throughout, n = {n}, periods {', '.join(str(k) for k in periods)}",
    )
    for name, values in rejected.items():
        ax.semilogx(periods, values, "-o", mfc="none", label=name)
    ax.axhline(LEVEL, color="0.5", ls=":", label="level")
    ax.set(xlabel="periods of the calibration curve", ylabel="rejection rate", title="Proposition 5.1: power")
    ax.legend()


def cells(study: Study, ax) -> None:
    """Partition the simplex of three probabilities as in App. 8.2.3, m = 4, and count uniform points."""
    m, n = 4, study.pick(40_000, 200_000, 1_000_000)
    rng = study.rng("cells")
    p = rng.dirichlet(np.ones(3), n)
    y = rng.integers(0, 3, n)
    _, index, counts = np.unique(bins_of(p, m), return_inverse=True, return_counts=True)
    # total variation of label frequencies and mean predictions, summed over the bins
    sums = np.column_stack([np.bincount(index, (y == k) - p[:, k]) for k in range(3)])
    by_hand = 0.5 * np.abs(sums).sum() / n
    ours = expected_calibration_error(y, p, n_bins=m, reduction="canonical")
    volume = counts * len(counts) / n
    bound = 5 * sqrt(len(counts) / n)
    study.holds(
        "App. 8.2.3: bins of the simplex, K = 3, m = 4",
        "16 bins of equal volume",
        f"{len(counts)} bins; volumes x 16 in [{volume.min():.3f}, {volume.max():.3f}]; ECE differs by "
        f"{abs(ours - by_hand):.0e}",
        f"16; within {bound:.3f} of 1; 1e-12",
        len(counts) == 16 and np.abs(volume - 1).max() < bound and abs(ours - by_hand) < 1e-12,
        "a bin is given by the integer parts of m times the partial sums and the order of their fractions",
    )
    few = slice(0, 4000)
    ax.scatter(p[few, 1] + p[few, 2] / 2, p[few, 2] * sqrt(3) / 2, c=index[few] * 7 % 20, cmap="tab20", s=4)
    ax.set(title="App. 8.2.3: bins, K = 3, m = 4", aspect="equal")
    ax.axis("off")


def resampling(study: Study) -> None:
    """Run Figure 9: level with critical values from 19 resamples of the outcomes, or of predictions too."""
    n, n_resamples, draws = 1000, 19, study.pick(60, 500, 10_000)
    shown, gaps, worst = [], [], 0.0
    for s in (0.3, 0.6):
        test = TCal(smoothness=s, method="asymptotic")

        def statistic(y: Array, p: Array, test: TCal = test) -> float:
            return test.test(y, p).scales[0].statistic

        hits = np.empty((draws, 2))
        for draw in range(draws):
            rng = study.rng("figure 9", draw)
            p = rng.uniform(size=n)
            y = (rng.uniform(size=n) < p).astype(int)
            pairs = ConsistencyTest(statistic, n_resamples=n_resamples, resample="pairs", random_state=rng)
            outcomes = TCal(smoothness=s, n_resamples=n_resamples, random_state=rng)
            hits[draw] = [each.test(y, p).pvalue <= LEVEL for each in (pairs, outcomes)]
        full, given = hits.mean(axis=0)
        shown.append(f"s = {s:g}: full {full:.3f}, Y-only {given:.3f}")
        gaps.append(hits[:, 0] - hits[:, 1])
        worst = max(worst, abs(given - LEVEL))
    limit = 3 * sqrt(LEVEL * (1 - LEVEL) / draws)
    z = max(abs(gap.mean()) / max(gap.std() / sqrt(draws), 1 / draws) for gap in gaps)
    study.holds(
        "Figure 9: level of full and Y-only bootstrap, N = 19",
        "near .05, no significant difference",
        "; ".join(shown),
        f"Y-only within {limit:.3f} of .05; difference within 3 standard errors",
        worst <= limit and z <= 3,
        f"n = {n}; the paper does not state n and s",
    )


def estimation(study: Study, ax) -> None:
    """Run Figure 8: the error of T as an estimate of the squared error, if Y = 1 always."""
    sizes, draws = (1000, 4000, 16_000, 64_000), study.pick(10, 40, 400)
    for s in (0.4, 0.6, 0.8, 1.0):
        test, errors = TCal(smoothness=s, method="asymptotic"), []
        for n in sizes:
            found = [
                test.test(np.ones(n, dtype=int), study.rng("figure 8", n, draw).uniform(size=n))
                for draw in range(draws)
            ]
            # E[(1 - Z)^2] = 1/3
            errors.append(np.sqrt(np.mean([(result.scales[0].statistic - 1 / 3) ** 2 for result in found])))
        if s < 0.75:
            study.number(
                f"Figure 8: exponent of n of the error of T, s = {s:g}",
                "slower than -0.5",
                slope(sizes, errors),
                0.05,
                "each bin that is not empty loses one sample: bias of order m/n, m = n^(2 / (4 s + 1))",
                right=(1 - 4 * s) / (1 + 4 * s),
                digits=3,
            )
        ax.loglog(sizes, errors, "o-", mfc="none", label=f"s = {s:g}")
    ax.loglog(sizes, 0.5 / np.sqrt(sizes), "k--", lw=1, label="slope -1/2")
    ax.set(xlabel="n", ylabel="root mean squared error", title="Figure 8: T as an estimate", ylim=(2e-4, 0.1))
    ax.legend(loc="lower left")


def cross_fitting(study: Study, axes, rates: Rates) -> None:
    """Run Figure 10: type II errors of the cross-fitted test at the points of Figure 7."""
    draws = study.pick(4, 20, 400)
    wanted = [alternative for curve, alternative in rates if curve == "splitting"]
    crossed = {a: float(simulate(a, draws, only="cross-fitting")["cross-fitting"].mean()) for a in wanted}
    excess = {
        name: float(np.mean([rate[a] - rates["debiased", a] for a in wanted]))
        for name, rate in (
            ("splitting", {a: rates["splitting", a] for a in wanted}),
            ("cross-fitting", crossed),
        )
    }
    study.holds(
        "Figure 10: type II error minus that of debiased T-Cal",
        "cross-fitting no significant improvement",
        ", ".join(f"{name} {value:+.2f}" for name, value in excess.items()),
        "cross-fitting at least half of splitting",
        excess["cross-fitting"] >= excess["splitting"] / 2,
        f"means over {len(wanted)} points of Figure 7, {draws} simulations per point; class 1 only",
    )
    for ax, s in zip(axes, (0.6, 0.8), strict=True):
        points = sorted((a for a in wanted if a.s == s), key=lambda a: a.error)
        for curve in ("debiased", "splitting", "cross-fitting"):
            values = [crossed[a] if curve == "cross-fitting" else rates[curve, a] for a in points]
            label = "T-Cal" if curve == "debiased" else curve
            ax.plot([a.error for a in points], values, "o-", mfc="none", label=label)
        ax.set(xlabel="l2 calibration error", ylabel="type II error", title=f"Figure 10: s = {s:g}")
        ax.set_ylim(-0.03, 1.03)
        ax.legend()
