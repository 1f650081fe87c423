"""Blasiok and Nakkiran (2024), Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing, ICLR."""

import time
from math import pi, sqrt

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split

from benchmarks.papers.population import midpoints, population
from benchmarks.papers.real_data import find, read_confidences, read_rain
from benchmarks.papers.study import Study, slope, without_warnings
from sklearn_calib.datasets import load_solar_flares, make_forecasts
from sklearn_calib.metrics import (
    distance_from_calibration,
    expected_calibration_error,
    smooth_ece,
    smooth_ece_result,
)

PAPER = "Smooth ECE (Blasiok and Nakkiran 2024)"
DISTRIBUTIONS = (
    {"distortion": "none"},
    {"distortion": "slope", "strength": 0.5},
    {"distortion": "shift", "strength": 0.5},
    {"distortion": "sine", "periods": 3},
    {"distortion": "sine", "periods": 8, "distribution": "u_shaped"},
    {"distortion": "slope", "strength": 0.3, "distribution": "saturated"},
)
BANDWIDTHS = np.geomspace(0.005, 1.0, 25)

# a sample as outcomes and forecasts
Pair = tuple[np.ndarray, np.ndarray]


def run(study: Study) -> None:
    diagrams = {"Figure 1": logistic_regression(study), **real_forecasts(study)}
    diagrams["Figure 2(d)"] = synthetic(study)
    with study.figure("smooth_ece_diagrams", 1, len(diagrams), figsize=(4.4 * len(diagrams), 5.0)) as axes:
        for ax, (title, (y, p)) in zip(axes, diagrams.items(), strict=True):
            result = smooth_ece_result(y, p)
            ax.plot([0, 1], [0, 1], color="0.45", linestyle=":")
            ax.scatter(result.grid, result.curve, s=20 * result.density, label=f"smECE = {result.value:.3f}")
            ax.set(title=title, xlabel="Predicted probability", ylabel="Observed frequency")
            ax.legend(loc="lower right", fontsize="small")
    with study.figure("smooth_ece_theory", 1, 3) as (left, middle, right):
        discontinuity(study, left)
        closed_forms(study, middle)
        rate(study, right)
    lemmas(study)
    cost(study)


def logistic_regression(study: Study) -> Pair:
    X, y = make_classification(n_samples=700, random_state=0)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=400, random_state=0)
    with without_warnings(FutureWarning):
        model = LogisticRegressionCV().fit(X_train, y_train)
    p = model.predict_proba(X_test)[:, 1]
    study.number("Figure 1: logistic regression", 0.134, smooth_ece(y_test, p), 5e-4)
    return y_test, p


def real_forecasts(study: Study) -> dict[str, Pair]:
    found: dict[str, Pair] = {}
    path = find(study.data, "timm_resnet34.npz", "resnet34.csv")
    if path is None:
        study.skip("Figure 2(a): ResNet34 on ImageNet", "0.078", "needs timm_resnet34.npz or resnet34.csv")
    else:
        y, p = found["Figure 2(a)"] = read_confidences(path)
        note = 'the text says "ResNet32"; the authors\' notebook reads resnet34'
        study.number("Figure 2(a): ResNet34 on ImageNet", 0.078, smooth_ece(y, p), 5e-4, note)
        study.number("Figure 2(a): binned ECE", 0.078, expected_calibration_error(y, p), 5e-4)
    flares = load_solar_flares()
    y, p = found["Figure 2(b)"] = flares.y_true, flares.y_proba
    study.number("Figure 2(b): solar flares (DAFFS)", 0.067, smooth_ece(y, p), 5e-4)
    study.number("Figure 2(b): binned ECE", 0.075, expected_calibration_error(y, p), 5e-4)
    rain = read_rain(study.data)
    if rain is None:
        note = (
            "needs POP_3cat_2003.txt; by the definition .1338, since the authors' code counts forecasts of "
            "exactly 0 and 1 by half"
        )
        study.skip("Figure 2(c): rain in Tampere", "0.132", note)
    else:
        note = "the authors' code counts forecasts of exactly 0 and 1 by half; eq. (2) counts them in full"
        study.number("Figure 2(c): rain in Tampere", 0.132, smooth_ece(*rain), 5e-4, note, right=0.1338)
        found["Figure 2(c)"] = rain
    return found


def synthetic(study: Study) -> Pair:
    """Run E[y | f] = f + .1 sin(4 pi (2 f - 1)): the population value, and many samples of 1000 forecasts."""

    def curve(f: np.ndarray) -> np.ndarray:
        return f + 0.1 * np.sin(4 * pi * (2 * f - 1))

    f = midpoints(200_000)
    study.number(
        "Figure 2(d): population value", None, smooth_ece(**population(f, curve(f))), 5e-5, right=0.0408
    )
    errors = []
    for draw in range(study.pick(50, 300, 1000)):
        rng = study.rng("synthetic", draw)
        p = rng.uniform(size=1000)
        y = (rng.uniform(size=1000) < curve(p)).astype(int)
        errors.append(smooth_ece(y, p))
    low, high = np.quantile(errors, [0.025, 0.975])
    study.holds(
        "Figure 2(d): samples of n = 1000",
        "0.045 (one sample)",
        f"mean {np.mean(errors):.4f}, 95% in [{low:.4f}, {high:.4f}]",
        "0.045 in the range",
        bool(low <= 0.045 <= high),
        "the population value is .0408; the estimate is biased upwards",
    )
    return y, p


def discontinuity(study: Study, ax) -> None:
    """Shift two points that are 2e-4 apart across an edge of 15 bins."""
    shifts = np.linspace(-1e-3, 1e-3, 401)
    edge = 8 / 15
    binned, smooth = np.array(
        [
            [error([0, 1], [edge + t - 1e-4, edge + t + 1e-4]) for t in shifts]
            for error in (expected_calibration_error, smooth_ece)
        ]
    )
    jumps = [float(np.abs(np.diff(values)).max()) for values in (binned, smooth)]
    study.holds(
        "App. E: shifts of 5e-6 across a bin edge",
        "curve",
        f"largest change: binned {jumps[0]:.3f}, smooth {jumps[1]:.1e}",
        "binned > .4, smooth < 1e-4",
        jumps[0] > 0.4 and jumps[1] < 1e-4,
    )
    ax.plot(1e3 * shifts, binned, label="ECE, 15 bins")
    ax.plot(1e3 * shifts, smooth, "--", label="smooth ECE")
    ax.set(
        xlabel="shift of both forecasts (thousandths)",
        ylabel="calibration error",
        title="App. E: shift across a bin edge",
    )
    ax.legend()


def closed_forms(study: Study, ax) -> None:
    f, mean = 0.3, 0.55
    point = population([f], [mean])
    errors = [smooth_ece(**point, bandwidth=s) for s in BANDWIDTHS] + [smooth_ece(**point)]
    gap = float(np.abs(np.array(errors) - abs(f - mean)).max())
    study.holds("one forecast f", "abs(f - mean of y)", f"off by {gap:.1e}", "below 1e-6, all s", gap < 1e-6)

    p, a, k = midpoints(100_000), 0.2, 3
    wave = population(p, p + a * np.cos(pi * k * p))
    measured = np.array([smooth_ece(**wave, bandwidth=s) for s in BANDWIDTHS])
    theory = 2 / pi * a * np.exp(-((pi * k * BANDWIDTHS) ** 2) / 2)
    gap = float(np.abs(measured - theory).max())
    study.holds(
        "residual a cos(pi k f)",
        "(2/pi) a exp(-(pi k s)^2/2)",
        f"off by {gap:.1e}",
        "below 1e-5, all s",
        gap < 1e-5,
    )
    ax.loglog(BANDWIDTHS, np.maximum(theory, 1e-6), label="closed form")
    ax.loglog(BANDWIDTHS, np.maximum(measured, 1e-6), "o", mfc="none", label="smooth ECE at s")
    ax.loglog(BANDWIDTHS, BANDWIDTHS, ":", color="0.5", label="s")
    ax.set(
        xlabel="bandwidth s",
        ylabel="smoothed calibration error",
        title="Residual 0.2 cos(3 pi f)",
        ylim=(1e-5, 1),
    )
    ax.legend()

    epsilons = np.array([1e-3, 3e-3, 1e-2, 3e-2])
    found = np.array([smooth_ece([0, 1], [0.5 - e, 0.5 + e]) for e in epsilons])
    right = np.array([_two_points(e) for e in epsilons])
    gap = float(np.abs(found - right).max())
    study.holds(
        "two forecasts 1/2 -+ eps, outcomes 0 and 1",
        "s = (1/2 - eps)(2 Phi(eps/s) - 1)",
        f"off by {gap:.1e}; {', '.join(f'{value:.4f}' for value in found)}",
        "below 1e-4",
        gap < 1e-4,
        f"eps = {', '.join(f'{e:g}' for e in epsilons)}: of order sqrt(eps), the upper end of Theorem 6",
    )


def _two_points(eps: float) -> float:
    """Return the fixed point for y = 0 at 1/2 - eps and y = 1 at 1/2 + eps, without the reflections."""
    return float(brentq(lambda s: (0.5 - eps) * (2 * norm.cdf(eps / s) - 1) - s, 1e-6, 0.5))


def rate(study: Study, ax) -> None:
    """Measure smECE_s of calibrated samples, population value 0: Theorem 9 bounds it by 1/sqrt(n s)."""
    sizes = np.array(
        study.pick((500, 2000, 8000), (500, 2000, 8000, 32_000), (500, 2000, 8000, 32_000, 128_000))
    )
    repetitions, s = study.pick(40, 200, 1000), 0.02
    fixed, chosen = np.array(
        [
            np.mean(
                [_errors(study.rng("theorem 9", n, draw), n, (s, "auto")) for draw in range(repetitions)], 0
            )
            for n in sizes
        ]
    ).T
    # E |N(0, v)| = sqrt(2 v / pi) with v(t) = t (1 - t) / (2 sqrt(pi) s n), whose root integrates over t
    theory = sqrt(2 / pi) * pi / 8 / np.sqrt(2 * sqrt(pi) * s * sizes)
    ratio = float(np.abs(fixed / theory - 1).max())
    study.number("Theorem 9: exponent of n, s = .02", -0.5, slope(sizes, fixed), 0.03, digits=3)
    study.holds(
        "Theorem 9: constant under calibration",
        "order 1/sqrt(n s)",
        f"within {100 * ratio:.1f}% of .1664/sqrt(n s)",
        "5%",
        ratio < 0.05,
        "constant derived here: sqrt(2/pi) (pi/8) / sqrt(2 sqrt(pi))",
    )
    widths, n = np.array([0.005, 0.01, 0.02, 0.04]), 8000
    by_width = np.mean(
        [_errors(study.rng("theorem 9, widths", draw), n, widths.tolist()) for draw in range(repetitions)], 0
    )
    study.number("Theorem 9: exponent of s, n = 8000", -0.5, slope(widths, by_width), 0.04, digits=3)
    note = "the fixed point of s = c/sqrt(n s)"
    study.number(
        "smooth ECE under calibration: exponent of n",
        None,
        slope(sizes, chosen),
        0.04,
        note,
        right=-1 / 3,
        digits=3,
    )
    ax.loglog(sizes, theory, label=".1664/sqrt(n s)")
    ax.loglog(sizes, fixed, "o", mfc="none", label="s = .02")
    ax.loglog(sizes, chosen, "-s", mfc="none", label="smooth ECE")
    ax.set(xlabel="n", ylabel="mean calibration error", title="Theorem 9: calibrated forecasts")
    ax.legend()


def _errors(rng: np.random.Generator, n: int, bandwidths) -> list[float]:
    p = rng.uniform(size=n)
    y = (rng.uniform(size=n) < p).astype(int)
    return [smooth_ece(y, p, bandwidth=s) for s in bandwidths]


def lemmas(study: Study) -> None:
    """Check Lemma 1, Lemma 10 with its footnote, and Theorem 6 on samples of six distributions."""
    rise, area, bounds, count = 0.0, 0.0, [], 0
    for number, distribution in enumerate(DISTRIBUTIONS * study.pick(1, 3, 20)):
        data = make_forecasts(400, **distribution, random_state=number)
        y, p = data.y_true, data.y_proba
        errors = np.array([smooth_ece(y, p, bandwidth=s) for s in BANDWIDTHS])
        rise = max(rise, float(np.diff(errors).max()))
        for s, error in zip(BANDWIDTHS[::4], errors[::4], strict=True):
            area = max(area, abs(_area(y, p, s) - error) / s)
        distance = distance_from_calibration(y, p)
        # the distance d lies within [lower, upper], so these follow from d/2 <= smECE <= 2 sqrt(d)
        bounds.append((smooth_ece(y, p) / (2 * sqrt(distance.upper)), distance.lower / 2 / smooth_ece(y, p)))
        count += 1
    study.holds(
        "Lemma 1: smECE_s does not increase", "proved", f"largest rise {rise:.1e}", "below 1e-9", rise < 1e-9
    )
    study.holds(
        "Lemma 10: area between curve and diagonal",
        "within .8 s of smECE_s",
        f"within {area:.3f} s ({count} samples)",
        "at most .8 s",
        area <= 0.8,
    )
    constant = _area([0, 1], [0.5, 0.5], 0.02) / 0.02
    note = "attained by the forecast 1/2 with even odds: smECE_s = 0, area E abs(N(0, s^2))"
    study.number("footnote 2: the constant of Lemma 10", 0.798, constant, 5e-4, note)
    worst = [max(pair) for pair in zip(*bounds, strict=True)]
    study.holds(
        "Theorem 6: d/2 <= smECE <= 2 sqrt(d)",
        "proved",
        f"smECE/(2 sqrt(d)) <= {worst[0]:.2f}, (d/2)/smECE <= {worst[1]:.2f}",
        "at most 1",
        max(worst) <= 1.0,
        "d depends on the features, so its lower and upper bounds are used",
    )


def _area(y, p, s: float) -> float:
    """Return the integral of abs(curve - t) density(t); refined, for it has kinks."""
    result = smooth_ece_result(y, p, bandwidth=s)
    signed = np.where(np.isnan(result.curve), 0.0, result.curve - result.grid) * result.density
    t = np.linspace(0.0, 1.0, 16 * result.grid.size)
    return float(np.abs(CubicSpline(result.grid, signed)(t)).mean())


def cost(study: Study) -> None:
    """Time the measure for growing n; a quadratic method would have the exponent 2."""
    sizes = study.pick(
        (2**15, 2**17, 2**19), (2**15, 2**17, 2**19, 2**21), (2**15, 2**17, 2**19, 2**21, 2**23)
    )
    times, ratio = [], 0.0
    for n in sizes:
        data = make_forecasts(n, distortion="slope", random_state=0)
        times.append(min(_seconds(lambda d=data: smooth_ece(d.y_true, d.y_proba)) for _ in range(3)))
        ratio = times[-1] / min(_seconds(lambda d=data: np.sort(d.y_proba)) for _ in range(3))
    study.holds(
        "cost: exponent of n",
        "O(n) to O(n log n)",
        f"{slope(sizes, times):.2f}; {ratio:.1f} x np.sort at n = {sizes[-1]}",
        "exponent below 1.5",
        slope(sizes, times) < 1.5,
        "measured times; see also benchmarks/speed.py",
    )


def _seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
