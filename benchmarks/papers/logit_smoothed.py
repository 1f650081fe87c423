"""Chidambaram, Lee, McSwiggen, Rezchikov (2024), How Flawed Is ECE? An Analysis via Logit Smoothing, ICML."""

from itertools import pairwise, product
from math import pi, sqrt

import numpy as np
from scipy.special import expit, logit
from scipy.stats import binom, norm

from benchmarks.papers.population import midpoints, population
from benchmarks.papers.real_data import confidences, network_files, read_network
from benchmarks.papers.study import Study, slope
from sklearn_calib.metrics import expected_calibration_error, logit_smoothed_ece, smooth_ece

PAPER = "Logit-smoothed ECE (Chidambaram et al. 2024)"
BINS = np.array([1, *range(10, 101, 10)])
CIFAR = ("vgg16_cifar10", "wideresnet-16-4-cifar-10", "densenet-bc-100-cifar-100")
# what the figures of the paper show for other networks
NOTES = {
    "Figure 3": "another network; in the figure the two curves of each network agree within .003. 3b, "
    "labeled CIFAR-100, shows the CIFAR-10 networks of 3(a): the authors' notebook loads them twice",
    "Figures 4, 5": "another network; in the figures the curves agree. Uniform noise of full width sigma, as "
    "in App. A; the authors' code draws it so, but smooths with width 2 sigma",
}
# Bins so narrow that forecasts which differ by _STEP or more have one of their own.
_NARROW, _STEP = 100_000, 1e-3


def run(study: Study) -> None:
    with study.figure("logit_smoothed", 2, 2) as axes:
        two_points(study, axes[0, 0])
        continuity(study, axes[0, 1])
        rate(study, axes[1, 0])
        consistency(study, axes[1, 1])
    estimator(study)
    heavy_tails(study)
    discontinuities(study)
    networks(study)


def two_points(study: Study, ax) -> None:
    """Run Section 6.1: x = -1/2 or 1/2, y = 1{x > 0}, forecast sigmoid(x / 1000)."""
    y, p = [0, 1], expit([-5e-4, 5e-4])
    bins = np.arange(1, 101)
    binned = np.array([expected_calibration_error(y, p, n_bins=int(m)) for m in bins])
    smoothed = np.array([logit_smoothed_ece(y, p, bandwidth=1.0 / m) for m in bins])
    study.holds(
        "Figure 2: binned ECE, 1 to 100 bins",
        "curve",
        f"odd <= {binned[::2].max():.1e}, even >= {binned[1::2].min():.4f}",
        "odd < .001, even > .499",
        binned[::2].max() < 1e-3 and binned[1::2].min() > 0.499,
    )
    # both points at 0: E |1/2 - sigmoid(s N)| <= s / 4 E |N|; then they move apart
    bound = sqrt(2 / pi) / 4 / bins + _continuity_bound(np.full(1, 5e-4), 1.0 / bins)
    study.holds(
        "Figure 2: LS-ECE, 1/sigma = 1 to 100",
        "curve, near 0; theory: at most .2 sigma + 4 Phi(.00025/sigma) - 2",
        f"{smoothed[4:].min():.3f} to {smoothed[4:].max():.3f} for 1/sigma >= 5; at 1: {smoothed[0]:.3f}",
        "below the bound",
        bool((smoothed <= bound).all()),
        f"0 near 1/sigma = {bins[smoothed.argmin()]}, where the smoothed forecast happens to be calibrated",
    )
    ax.plot(bins, binned, ".", label="binned ECE")
    ax.plot(bins, smoothed, label="LS-ECE")
    ax.set(xlabel="number of bins, or 1/sigma", ylabel="calibration error", title="Figure 2: two points")
    ax.legend()


def _continuity_bound(moves: np.ndarray, s) -> np.ndarray:
    """Bound the change of LS-ECE when log-odds move: the total variation between the noise distributions."""
    moves = np.abs(moves)[:, np.newaxis]
    return np.mean(2 * (2 * norm.cdf(moves / (2 * np.asarray(s))) - 1), axis=0)


def continuity(study: Study, ax) -> None:
    """Perturb log-odds at random, and let two points approach each other."""
    worst = 0.0
    for draw in range(study.pick(10, 40, 200)):
        rng = study.rng("theorem 4.5", draw)
        h = rng.normal(0, 2, 300)
        y = (rng.uniform(size=300) < expit(h)).astype(int)
        for s, size in product((0.05, 0.3, 1.0), (1e-3, 1e-2, 0.1)):
            moves = rng.normal(0, size, 300)
            change = [logit_smoothed_ece(y, expit(z), bandwidth=s) for z in (h, h + moves)]
            worst = max(worst, abs(change[1] - change[0]) / float(_continuity_bound(moves, [s])[0]))
    study.holds(
        "Theorem 4.5: LS-ECE is continuous",
        "proved; theory: change at most the mean of 2 (2 Phi(move / (2 sigma)) - 1)",
        f"change / bound at most {worst:.2f}",
        "at most 1",
        worst <= 1.0,
        "the bound is the total variation between the noise distributions",
    )
    half = np.geomspace(1e-6, 1.0, 60)
    pairs = [expit([-d, d]) for d in half]
    ax.semilogx(half, [expected_calibration_error([0, 1], p, n_bins=2) for p in pairs], label="ECE, 2 bins")
    for s in (0.03, 0.1, 0.3):
        curve = [logit_smoothed_ece([0, 1], p, bandwidth=s) for p in pairs]
        ax.semilogx(half, curve, label=f"LS-ECE, sigma = {s:g}")
    ax.set(xlabel="d, for log-odds -d and d", ylabel="calibration error", title="Theorem 4.5: continuity")
    ax.legend()


def rate(study: Study, ax) -> None:
    """Measure the error of LS-ECE of samples as an estimate, for calibrated normal log-odds."""
    grid = norm.ppf(midpoints(20_000)) * 1.5
    calibrated = population(expit(grid), expit(grid))
    sizes = np.array(
        study.pick((1000, 4000, 16_000), (1000, 4000, 16_000, 64_000), (1000, 4000, 16_000, 64_000, 256_000))
    )
    # for narrow noise the population value, of order sigma^2, is far below the sampling error
    widths, s, n = np.array([0.0125, 0.025, 0.05, 0.1]), 0.025, 1000
    truth = {width: logit_smoothed_ece(**calibrated, bandwidth=width) for width in widths}
    draws = study.pick(40, 200, 1000)
    by_size = np.array([_distance(study, int(m), [s], truth, draws)[0] for m in sizes])
    by_width = np.array(_distance(study, n, widths, truth, draws))
    # as for smooth ECE: the root of the density times p (1 - p), integrated over log-odds
    t = np.linspace(-15, 15, 20_001)
    area = np.sum(np.sqrt(norm.pdf(t, scale=1.5) * expit(t) * expit(-t))) * (t[1] - t[0])
    constant = sqrt(2 / pi) * area / sqrt(2 * sqrt(pi))
    bound, note = "O(1/sqrt(n sigma))", "under calibration the bound of the theorem is attained"
    for variable, found, tolerance in (
        ("n, sigma = .025", slope(sizes, by_size), 0.04),
        ("sigma, n = 1000", slope(widths, by_width), 0.05),
    ):
        experiment = f"Theorem 5.3: exponent of {variable}"
        study.number(experiment, bound, found, tolerance, note, right=-0.5, digits=3)
    ax.loglog(sizes, constant / np.sqrt(s * sizes), label=f"{constant:.2f}/sqrt(n sigma)")
    ax.loglog(sizes, by_size, "o", mfc="none", label="sigma = .025")
    ax.set(xlabel="n", ylabel="mean error of the estimate", title="Theorem 5.3")
    ax.legend()


def _distance(study: Study, n: int, widths, truth: dict[float, float], draws: int) -> list[float]:
    distances = np.zeros((draws, len(widths)))
    for draw in range(draws):
        rng = study.rng("theorem 5.3", n, draw)
        h = rng.normal(0, 1.5, n)
        y = (rng.uniform(size=n) < expit(h)).astype(int)
        for column, s in enumerate(widths):
            distances[draw, column] = abs(logit_smoothed_ece(y, expit(h), bandwidth=s) - truth[s])
    return distances.mean(axis=0).tolist()


def consistency(study: Study, ax) -> None:
    """Let sigma = n^(-1/3): LS-ECE tends to ECE, here of overconfident forecasts."""
    grid = midpoints(200_000)
    ece = float(np.abs(expit(0.5 * logit(grid)) - grid).mean())
    sizes = np.array(study.pick((1000, 10_000), (1000, 10_000, 100_000), (1000, 10_000, 100_000, 1_000_000)))
    errors = []
    for n in sizes:
        found = []
        for draw in range(study.pick(20, 50, 100)):
            rng = study.rng("theorem 5.4", int(n), draw)
            p = rng.uniform(size=n)
            y = (rng.uniform(size=n) < expit(0.5 * logit(p))).astype(int)
            found.append(abs(logit_smoothed_ece(y, p, bandwidth=n ** (-1 / 3)) - ece))
        errors.append(float(np.mean(found)))
    study.holds(
        "Theorem 5.4: sigma = n^(-1/3) is consistent",
        "proved",
        f"ECE {ece:.4f}; mean difference {', '.join(f'{e:.4f}' for e in errors)}",
        "each at most half of the one before",
        all(later < earlier / 2 for earlier, later in pairwise(errors)),
        f"n = {', '.join(str(n) for n in sizes)}; forecasts uniform, g(p) = sigmoid(logit(p) / 2)",
    )
    ax.loglog(sizes, errors, "-o", mfc="none")
    ax.set(xlabel="n", ylabel="mean difference from ECE", title="Theorem 5.4")


def estimator(study: Study) -> None:
    """Compare LS-ECE of few forecasts with eq. (4.1), and the densities of eqs. (5.5) and (5.6)."""
    rng = study.rng("estimator")
    h, y = rng.normal(0, 2, 12), rng.integers(0, 2, 12)
    t, step = np.linspace(-30, 30, 200_001, retstep=True)
    for noise, shape in (
        ("gaussian", norm.pdf),
        ("uniform", lambda z: (np.abs(z) < 0.5).astype(float)),
    ):
        shown, off = [], 0.0
        for s in (0.3, 1.0, 3.0):
            density = shape((t - h[:, np.newaxis]) / s) / s / 12
            both, events = density.sum(axis=0), y @ density
            expected = np.divide(events, both, out=np.zeros_like(t), where=both > 0)
            by_hand = float(both @ np.abs(expected - expit(t))) * step
            shown.append(logit_smoothed_ece(y, expit(h), bandwidth=s, noise=noise))
            off = max(off, abs(shown[-1] - by_hand))
        study.holds(
            f"eq. (4.1), (5.5), (5.6): LS-ECE, {noise.replace('gaussian', 'Gaussian')} noise",
            "theory: the integral over a fine grid",
            f"off by {off:.1e}; {', '.join(f'{value:.4f}' for value in shown)}",
            "below 1e-4",
            off < 1e-4,
            "12 forecasts; sigma = .3, 1, 3, for uniform noise its full width",
        )


def heavy_tails(study: Study) -> None:
    """Compute the error of Lemma 5.2 for positive logits, P(h > x) = x^-a, and uniform noise of width 1.

    The estimated density at t is the number of logits within 1/2 of t, over n. De Moivre's formula gives the
    mean absolute deviation of this binomial number.
    """
    a, sizes = 0.3, 10.0 ** np.arange(4, 9)
    edges = np.append(0.0, np.geomspace(0.5, 1e40, 20_000))
    t = (edges[1:] + edges[:-1]) / 2
    tail = [np.maximum(t + side, 1.0) ** -a for side in (-0.5, 0.5)]
    # far out the difference of the tails is less than their rounding
    chance = np.where(t > 1e7, a * t ** (-a - 1), tail[0] - tail[1])
    errors = []
    for n in sizes:
        k = np.floor(n * chance) + 1
        deviation = 2 * k * (1 - chance) * binom.pmf(k, n, chance) / n
        errors.append(float(deviation @ np.diff(edges)))
    exponent, right = slope(sizes, errors), -a / (1 + a)
    study.differs(
        "Lemma 5.2 with heavy tails, P(h > x) = x^-.3: exponent of n",
        "O(1/sqrt(n sigma)): -0.5",
        f"{exponent:.3f}; mean error {_several(errors)}",
        f"{right:.3f} +- .005",
        abs(exponent - right) < 0.005,
        f"n = {_several(sizes)}; the change of variables of the proof leaves out a factor",
    )


def _several(values) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def discontinuities(study: Study) -> None:
    """Compare the discontinuities of ECE with Theorem 3.10: residuals of one forecast differ in sign."""
    p, g, truth = np.array([0.5, 0.25, 0.25]), np.array([0.8, 0.2, 0.2]), np.array([0.3, 0.4, 0.7])
    jump = _largest_jump(p, g, truth)
    study.differs(
        "Theorem 3.2 at p = (.5, .25, .25), g = (.8, .2, .2), g* = (.3, .4, .7)",
        "ECE jumps",
        f"ECE(g) = {_ece(p, g, truth):.4f}; largest change {jump:.1e} when forecasts move by {_STEP:g}",
        "change at most .001",
        abs(jump) <= _STEP * (1 + 1e-9),
        "counterexample: two points share a forecast, and both event probabilities are larger",
    )
    split_squares(study)
    wrong, cases, jumps = 0, study.pick(50, 300, 2000), 0
    rng = study.rng("theorem 3.10")
    for _ in range(cases):
        masses = rng.dirichlet(np.ones(4))
        forecasts = rng.choice([0.2, 0.5, 0.8], 4)
        truth = rng.uniform(size=4)
        residual = masses * (truth - forecasts)
        expected = sum(
            np.abs(residual[forecasts == v]).sum() - abs(residual[forecasts == v].sum())
            for v in np.unique(forecasts)
        )
        found = _largest_jump(masses, forecasts, truth)
        wrong += abs(found - expected) > 2 * _STEP
        jumps += expected > 2 * _STEP
    study.holds(
        "Theorems 3.8, 3.10: ECE jumps up where residuals of one forecast differ in sign",
        "proved",
        f"{wrong} of {cases} random distributions on 4 points violate it ({jumps} jump)",
        "none; size of the jump within .002",
        wrong == 0,
    )


def split_squares(study: Study) -> None:
    """Run Proposition 3.5: perturb the calibrated forecast x1 by delta so that it reveals x2, and so y.

    x1 ~ U(0, 1), and y = 1{x2 >= 1/2} has probability x1. In each interval of length delta of x1 the forecast
    becomes the right end less delta^2/4 if y = 0 and the left end plus delta^2/4 if y = 1.
    """
    deltas = np.array([0.1, 0.05, 0.02, 0.01])
    split = []
    for delta in deltas:
        left = np.arange(round(1 / delta)) * delta
        forecasts = np.concatenate([left + delta - delta**2 / 4, left + delta**2 / 4])
        middle = left + delta / 2
        outcome = np.repeat([0, 1], left.size)
        split.append(_ece(delta * np.concatenate([1 - middle, middle]), forecasts, outcome))
    p = midpoints(_NARROW)
    calibrated = expected_calibration_error(**population(p, p), n_bins=_NARROW)
    study.holds(
        "Proposition 3.5: ECE jumps although no two forecasts are equal",
        "0; at least 1/3 - 2 delta after a change by delta",
        f"{calibrated:.0e}; {', '.join(f'{error:.4f}' for error in split)}",
        "below 1e-9; at least 1/3 - 2 delta",
        calibrated < 1e-9 and bool((split >= 1 / 3 - 2 * deltas).all()),
        f"delta = {', '.join(f'{delta:g}' for delta in deltas)}",
    )


def _ece(masses, forecasts, truth) -> float:
    return expected_calibration_error(**population(forecasts, truth, masses), n_bins=_NARROW)


def _largest_jump(masses, forecasts, truth) -> float:
    """Return the change of ECE of the largest size when each forecast moves by at most a step."""
    here = _ece(masses, forecasts, truth)
    moves = product(np.linspace(0, _STEP, len(forecasts)), repeat=len(forecasts))
    distinct = [move for move in moves if len(set(move)) == len(forecasts)]
    # the limit does not depend on the directions in which points of one forecast separate
    return max((_ece(masses, forecasts + np.array(move), truth) - here for move in distinct[:2]), key=abs)


def networks(study: Study) -> None:
    """Compare binned, logit-smoothed and smooth ECE of networks, for 1 to 100 bins and sigma = 1/bins."""
    cifar = [(name, read_network(path)) for name, path in network_files(study.data, *CIFAR)]
    samples = {"Figure 3": cifar, "Figures 4, 5": list(confidences(study.data))}
    samples = {figure: found[: study.pick(1, None, None)] for figure, found in samples.items()}
    needed = {"Figure 3": ", ".join(CIFAR), "Figures 4, 5": "imagenet_confidences/*.npz (conf, correct)"}
    for figure, found in samples.items():
        if not found:
            study.skip(f"{figure}: networks", "curve", f"needs {needed[figure]}")
    n_columns = max(len(found) for found in samples.values())
    if n_columns:
        with study.figure("logit_smoothed_networks", 2, n_columns, squeeze=False) as axes:
            for row, (figure, found) in zip(axes, samples.items(), strict=True):
                row[0].set_ylabel("calibration error")
                for ax in row[len(found) :]:
                    ax.axis("off")
                for ax, (name, (y, p)) in zip(row, found, strict=False):
                    _network(study, ax, figure, name, y, p)


def _network(study: Study, ax, figure: str, name: str, y: np.ndarray, p: np.ndarray) -> None:
    binned = np.array([expected_calibration_error(y, p, n_bins=int(m)) for m in BINS])
    curves = {
        noise: np.array([logit_smoothed_ece(y, p, bandwidth=1.0 / m, noise=noise) for m in BINS])
        for noise in ("gaussian", "uniform")
    }
    smooth = smooth_ece(y, p)
    differences = [np.abs(curve - binned).mean() for curve in (*curves.values(), smooth)]
    study.stand_in(
        f"as in {figure}: {name}",
        f"binned {binned.mean():.4f}; mean difference: LS-ECE {differences[0]:.4f}, "
        f"uniform noise {differences[1]:.4f}, smooth {differences[2]:.4f}",
        NOTES[figure],
    )
    ax.plot(BINS, binned, label="binned ECE")
    for noise, curve in curves.items():
        ax.plot(BINS, curve, "--", label=f"LS-ECE, {noise.replace('gaussian', 'Gaussian')} noise")
    ax.axhline(smooth, color="0.3", ls=":", label="smooth ECE")
    ax.set(xlabel="number of bins, or 1/sigma", title=f"as in {figure}: {name}", ylim=(0, 1.3 * binned.max()))
    ax.legend(loc="lower left")
