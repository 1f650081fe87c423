"""Draw the figures of the guide. Every number in them is computed here, by the package.

``python docs/pictures.py`` draws all figures in ``docs/_static/drawn``, which are committed, so that pages
can be read where nothing is built. The figures that the code of a page saves are drawn by this code.
``python docs/pictures.py readme`` draws the figure of the README, and the logo.
"""

import contextlib
import re
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from scipy.special import expit, logit
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn_calib import CalibratedClassifier
from sklearn_calib.datasets import load_solar_flares, make_forecasts
from sklearn_calib.inference import CombinedTest, CoxTest, TCal, expected_under_calibration
from sklearn_calib.metrics import (
    cutoff_calibration_error,
    cutoff_result,
    expected_calibration_error,
    logit_smoothed_ece,
    smooth_ece,
    smooth_ece_result,
)
from sklearn_calib.plot import ReliabilityDisplay

import run_blocks

SAVED = re.compile(r"savefig\(\"([^\"]+)\"\)")
LONG = re.compile(r"\d+\.\d{3,}")
STATIC = Path(__file__).resolve().parent / "_static"
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "0.45"


@cache
def digits():
    """Return outcomes, and probabilities of a forest before and after calibration, as in the README."""
    X, digit = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, digit >= 5, test_size=0.5, random_state=0
    )
    forest = RandomForestClassifier(max_depth=3, random_state=0).fit(X_train, y_train)
    calibrated = CalibratedClassifier(forest).fit(X_train, y_train)
    return y_test, forest.predict_proba(X_test)[:, 1], calibrated.predict_proba(X_test)[:, 1]


def reliability():
    """Draw reliability diagrams before and after calibration."""
    y, before, after = digits()
    figure = Figure(figsize=(10, 6.3), layout="constrained")
    for ax, when, p in zip(
        figure.subplots(1, 2), ("Before", "After"), (before, after), strict=True
    ):
        ReliabilityDisplay.from_predictions(y, p, ax=ax)
        pvalue = CombinedTest(random_state=0).test(y, p).pvalue
        verdict = "miscalibrated" if pvalue < 0.05 else "no evidence of miscalibration"
        ax.set_title(f"{when}: {verdict} (p = {pvalue:.2g})")
    figure.suptitle("A random forest on held-out digits, before and after CalibratedClassifier")
    return figure


def logo():
    """Return the mark as SVG: an S-shaped calibration curve across the diagonal."""
    x = np.linspace(0.0, 1.0, 41)
    curve = " ".join(
        f"{8 + 48 * a:.1f},{56 - 48 * b:.1f}" for a, b in zip(x, expit(9 * (x - 0.5)), strict=True)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" height="64">\n'
        f'<rect width="64" height="64" rx="12" fill="{BLUE}"/>\n'
        '<path d="M8 56 56 8" stroke="#fff" stroke-width="3" stroke-dasharray="2 5"/>\n'
        f'<polyline points="{curve}" fill="none" stroke="#fff" stroke-width="6" stroke-linecap="round"/>\n'
        "</svg>\n"
    )


def card():
    """Draw the preview card of links to the site."""
    y, before, _ = digits()
    figure = Figure(figsize=(12, 6.3))
    figure.text(0.05, 0.72, "sklearn_calib", fontsize=52, weight="bold", color=BLUE)
    lines = (
        "Measure, test, recalibrate and certify\npredicted probabilities.\n\n"
        "Compatible with scikit-learn."
    )
    figure.text(0.05, 0.28, lines, fontsize=25, linespacing=1.4, color="0.2")
    ax = figure.add_axes((0.65, 0.1, 0.32, 0.82))
    ReliabilityDisplay.from_predictions(y, before, ax=ax, show_legend=False)
    return figure


def calibration():
    """Draw three forecasters of the same events: sharp and calibrated, calibrated only, sharp only."""
    rng = np.random.default_rng(0)
    chance = rng.beta(0.6, 0.6, size=4000)
    y = (rng.uniform(size=4000) < chance).astype(int)
    forecasters = {
        "calibrated, sharp": chance,
        "calibrated, less sharp": np.where(
            chance > 0.5, chance[chance > 0.5].mean(), chance[chance <= 0.5].mean()
        ),
        "overconfident": expit(2.5 * logit(np.clip(chance, 1e-9, 1 - 1e-9))),
    }
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, sharey="row", height_ratios=(3, 1))
    for column, (name, p) in zip(axes.T, forecasters.items(), strict=True):
        edges = np.linspace(0, 1, 11)
        bin_of = np.clip(np.digitize(p, edges) - 1, 0, 9)
        shown = [k for k in range(10) if (bin_of == k).sum() >= 20]
        column[0].plot([0, 1], [0, 1], "--", color=GREY, lw=1)
        column[0].plot(
            [p[bin_of == k].mean() for k in shown],
            [y[bin_of == k].mean() for k in shown],
            "o-",
            color=BLUE,
        )
        brier = np.mean((y - p) ** 2)
        column[0].set_title(
            f"{name}\nsmooth ECE {smooth_ece(y, p):.3f}, Brier score {brier:.3f}", fontsize=10
        )
        column[1].hist(p, bins=edges, color=BLUE, alpha=0.6)
        column[1].set_xlabel("predicted probability")
        column[1].set_yticks([])
    axes[0, 0].set_ylabel("observed frequency")
    axes[1, 0].set_ylabel("frequency")
    return figure


def smooth_ece_steps():
    """Draw smoothed residuals at three bandwidths, the fixed point, and smooth ECE with binned ECE."""
    flares = load_solar_flares()
    y, p = flares.y_true, flares.y_proba
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    star = smooth_ece_result(y, p)
    for s, color in ((0.02, ORANGE), (star.bandwidth, BLUE), (0.2, GREEN)):
        result = smooth_ece_result(y, p, bandwidth=float(s))
        gap = np.nan_to_num(result.curve - result.grid) * result.density
        name = f"s = {s:.3f}: area {result.value:.3f}"
        left.plot(result.grid, gap, color=color, lw=1.3, label=name)
        if color == BLUE:
            left.fill_between(result.grid, gap, color=color, alpha=0.2)
    left.axhline(0, color=GREY, lw=0.8)
    left.set(
        xlabel="prediction t", ylabel="smoothed residual at t", title="1. Smooth the residuals"
    )
    left.legend(fontsize=8)
    widths = np.geomspace(0.005, 0.4, 40)
    middle.plot(
        widths,
        [smooth_ece(y, p, bandwidth=float(s)) for s in widths],
        color=BLUE,
        label="smECE$_s$",
    )
    middle.plot(widths, widths, "--", color=GREY, label="s")
    middle.plot(
        star.bandwidth, star.value, "o", color=ORANGE, label=f"smooth ECE = {star.value:.4f}"
    )
    middle.set(
        xlabel="bandwidth s",
        title="2. Find the $s$ that equals the error",
        ylim=(0, 0.2),
        xlim=(0, 0.2),
    )
    middle.legend(fontsize=8)
    bins = np.arange(2, 61)
    right.plot(
        bins,
        [expected_calibration_error(y, p, n_bins=int(k)) for k in bins],
        ".-",
        color=GREY,
        lw=0.8,
        label="ECE by number of bins",
    )
    right.axhline(star.value, color=ORANGE, label="smooth ECE")
    right.set(xlabel="number of bins", title="3. ECE depends on the bins", ylim=(0, None))
    right.legend(fontsize=8, loc="lower right")
    figure.suptitle("Forecasts of solar flares (DAFFS, 2016 and 2017)", fontsize=11)
    return figure


def logit_smoothing():
    """Draw binned ECE on two points, where it jumps, and the bandwidth on a confident model."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    x = np.repeat([-0.5, 0.5], 500)
    y, p = (x > 0).astype(int), expit(1e-3 * x)
    bins = np.arange(1, 31)
    left.plot(
        bins,
        [expected_calibration_error(y, p, n_bins=int(k)) for k in bins],
        "o-",
        ms=3,
        lw=0.8,
        color=GREY,
        label="ECE by number of bins",
    )
    for s, color in ((0.03, GREEN), (0.3, BLUE), (1.0, ORANGE)):
        value = logit_smoothed_ece(y, p, bandwidth=s)
        left.axhline(value, color=color, label=f"logit-smoothed, s = {s:g}: {value:.3f}")
    left.set(xlabel="number of bins", title="Two predictions close to 1/2", ylim=(-0.02, 0.85))
    left.legend(fontsize=8, loc="upper center")
    data = make_forecasts(
        5000, distribution="u_shaped", distortion="slope", strength=0.6, random_state=0
    )
    widths = np.geomspace(0.003, 10, 40)
    right.semilogx(
        widths,
        [logit_smoothed_ece(data.y_true, data.y_proba, bandwidth=float(s)) for s in widths],
        color=BLUE,
        label="logit-smoothed ECE",
    )
    default = len(data.y_true) ** (-1 / 3)
    right.plot(
        default,
        logit_smoothed_ece(data.y_true, data.y_proba),
        "o",
        color=ORANGE,
        label=f"default, s = $n^{{-1/3}}$ = {default:.3f}",
    )
    right.axhline(data.true_ece, ls="--", color=GREY, label=f"true ECE, {data.true_ece:.3f}")
    right.set(
        xlabel="bandwidth s, in log-odds",
        title="An overconfident model, 5000 samples",
        ylim=(0, None),
    )
    right.legend(fontsize=8)
    return figure


def cutoff_walk():
    """Draw the cumulative residuals with the interval that attains the error, and how it falls with n."""
    flares = load_solar_flares()
    result = cutoff_result(flares.y_true, flares.y_proba)
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    fraction = np.cumsum(result.weight) / result.weight.sum()
    left.step(np.append(0, fraction), np.append(0, result.walk), where="post", color=BLUE)
    inside = (result.probabilities >= result.lower) & (result.probabilities <= result.upper)
    ends = fraction[inside][0], fraction[inside][-1]
    left.axvspan(*ends, color=ORANGE, alpha=0.15)
    left.axhline(result.walk.max(), color=ORANGE, lw=0.8, ls=":")
    left.axhline(result.walk.min(), color=ORANGE, lw=0.8, ls=":")
    left.set(
        xlabel="fraction of samples, ordered by prediction",
        ylabel="cumulative residuals / n",
        title=f"Range: {result.value:.3f}, attained for p from {result.lower:.2f} to {result.upper:.2f}",
    )
    sizes = np.array([100, 300, 1000, 3000, 10000, 30000])
    for strength, color, name in ((1.0, GREY, "calibrated"), (0.7, BLUE, "overconfident")):
        means = [
            np.mean(
                [
                    cutoff_calibration_error(data.y_true, data.y_proba)
                    for seed in range(20)
                    for data in [
                        make_forecasts(
                            int(n), distortion="slope", strength=strength, random_state=seed
                        )
                    ]
                ]
            )
            for n in sizes
        ]
        right.loglog(sizes, means, "o-", color=color, label=f"{name}, mean of 20 samples")
    right.loglog(
        sizes, 0.7 / np.sqrt(sizes), "--", color=ORANGE, lw=1, label=r"a line of slope $-1/2$"
    )
    right.set(xlabel="number of samples n", title="Under calibration it decreases as $n^{-1/2}$")
    right.legend(fontsize=8)
    return figure


def tcal_scales():
    """Draw a sine and a slope distortion, and the evidence of T-Cal at each scale."""
    wave = make_forecasts(2000, distortion="sine", periods=8, strength=0.12, random_state=0)
    slope = make_forecasts(2000, distortion="slope", strength=0.7, random_state=0)
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], "--", color=GREY, lw=1)
    for data, color, name in ((wave, ORANGE, "sine"), (slope, BLUE, "slope")):
        order = np.argsort(data.y_proba)
        cox, tcal = (
            CoxTest(method="asymptotic").test(data.y_true, data.y_proba),
            TCal(random_state=0),
        )
        result = tcal.test(data.y_true, data.y_proba)
        left.plot(data.y_proba[order], data.true_proba[order], color=color, label=name)
        scales = result.scales
        right.semilogx(
            [scale.n_bins for scale in scales],
            [scale.statistic / scale.null_std for scale in scales],
            "o-",
            ms=4,
            color=color,
            base=2,
            label=f"{name}: T-Cal p = {result.pvalue:.3f}, Cox p = {cox.pvalue:.2g}",
        )
    left.set(
        xlabel="prediction", ylabel="probability of the event", title="Two kinds of miscalibration"
    )
    left.legend(fontsize=8)
    right.axhline(0, color=GREY, lw=0.8)
    right.set(
        xlabel="number of bins",
        ylabel="T / null standard deviation",
        title="Evidence at each scale, 2000 samples",
    )
    right.legend(fontsize=8)
    return figure


def pitfalls():
    """Draw binning choices, the expected value, and repeated testing."""
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    data = make_forecasts(1000, distortion="slope", strength=0.8, random_state=0)
    bins = np.arange(2, 51)
    for strategy, color in (("uniform", BLUE), ("quantile", ORANGE)):
        values = [
            expected_calibration_error(data.y_true, data.y_proba, n_bins=int(k), strategy=strategy)
            for k in bins
        ]
        left.plot(
            bins,
            values,
            ".-",
            lw=0.8,
            color=color,
            label=f"bins of equal {'width' if color == BLUE else 'mass'}",
        )
    left.axhline(data.true_ece, color=GREY, ls="--", label="true ECE")
    left.set(xlabel="number of bins", title="ECE of one sample", ylim=(0, None))
    left.legend(fontsize=8)
    sizes = np.array([100, 300, 1000, 3000, 10000])
    for metric, color, name in (
        (expected_calibration_error, BLUE, "ECE, 15 bins"),
        (smooth_ece, ORANGE, "smooth ECE"),
    ):
        nulls = [
            expected_under_calibration(
                None,
                make_forecasts(int(n), random_state=0).y_proba,
                metric=metric,
                n_resamples=100,
                random_state=0,
            )
            for n in sizes
        ]
        middle.loglog(sizes, [null.expected for null in nulls], "o-", color=color, label=name)
    middle.set(xlabel="number of samples", title="Expected error of perfect predictions")
    middle.legend(fontsize=8)
    rng = np.random.default_rng(0)
    looks, runs = 20, 100
    rejected = np.zeros((runs, looks), dtype=bool)
    for run in range(runs):
        p = rng.uniform(size=100 * looks)
        y = (rng.uniform(size=p.size) < p).astype(int)
        for look in range(looks):
            seen = slice(0, 100 * (look + 1))
            rejected[run, look] = CoxTest(method="asymptotic").test(y[seen], p[seen]).pvalue < 0.05
    rate = np.maximum.accumulate(rejected, axis=1).mean(axis=0)
    right.plot(
        np.arange(1, looks + 1), rate, "o-", ms=4, color=BLUE, label="rejected at least once"
    )
    right.axhline(0.05, color=GREY, ls="--", label="nominal level")
    right.set(
        xlabel="tests, one per 100 samples", title="Type I error, repeated tests", ylim=(0, None)
    )
    right.legend(fontsize=8)
    return figure


PICTURES = {
    "calibration.svg": calibration,
    "smooth_ece.svg": smooth_ece_steps,
    "logit_smoothed_ece.svg": logit_smoothing,
    "cutoff.svg": cutoff_walk,
    "tcal.svg": tcal_scales,
    "pitfalls.svg": pitfalls,
    "card.png": card,
}


def draw_all(folder: Path = STATIC / "drawn") -> None:
    """Draw all pictures, with the same bytes if nothing has changed."""
    folder.mkdir(parents=True, exist_ok=True)
    plt.switch_backend("agg")
    text = {"svg.fonttype": "none", "svg.hashsalt": "sklearn_calib"}
    with TemporaryDirectory() as place, contextlib.chdir(place), mpl.rc_context(text):
        for name, draw in PICTURES.items():
            draw().savefig(name)
        for page in run_blocks.pages():
            if saved(page.read_text(encoding="utf-8")):
                # the code of the page, in order
                for _ in run_blocks.run(page):
                    pass
                plt.close("all")
        for path in Path().glob("*.svg"):
            (folder / path).write_text(lean(path.read_text(encoding="utf-8")), encoding="utf-8")
        Image.open("card.png").convert("RGB").quantize(64).save(folder / "card.png", optimize=True)


def lean(svg: str) -> str:
    """Return a picture without its date, and with coordinates to a hundredth of a point."""
    svg = re.sub(r" *<metadata>.*?</metadata>\n", "", svg, flags=re.DOTALL)
    return re.sub("<[^>]+>", lambda tag: LONG.sub(_short, tag[0]), svg)


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def saved(text: str) -> list[str]:
    """Return the names of the figures that the code of a page saves."""
    return [name for block in run_blocks.blocks(text) for name in SAVED.findall(block.code)]


if __name__ == "__main__":
    if sys.argv[1:] == ["readme"]:
        reliability().savefig(STATIC / "reliability.png", dpi=100)
        (STATIC / "logo.svg").write_text(logo())
    else:
        draw_all()
