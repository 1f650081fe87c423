"""Blasiok and Nakkiran (2024), Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing, ICLR."""

import time
from math import pi, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import logit
from scipy.stats import norm
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, train_test_split

from benchmarks.papers.population import midpoints, population
from benchmarks.papers.real_data import find, read_confidences, read_rain
from benchmarks.papers.study import Study, slope, without_warnings
from sklearn_calib.calibrators import HistogramBinningCalibrator, SmoothedCalibrator
from sklearn_calib.datasets import load_solar_flares, make_forecasts
from sklearn_calib.metrics import (
    expected_calibration_error,
    lower_distance_to_calibration,
    smooth_calibration_error,
    smooth_ece,
    smooth_ece_result,
)
from sklearn_calib.plot import ReliabilityDisplay

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
    with study.figure("smooth_ece_diagrams", 2, len(diagrams), figsize=(4.4 * len(diagrams), 10.5)) as rows:
        for curve, axes in zip(("kernel", "smooth"), rows, strict=True):
            for ax, (title, (y, p)) in zip(axes, diagrams.items(), strict=True):
                ReliabilityDisplay.from_predictions(y, p, curve=curve, ax=ax)
                ax.set_title(f"{title}, curve={curve!r}")
    with study.figure("smooth_ece_theory", 1, 3) as (left, middle, right):
        discontinuity(study, left)
        closed_forms(study, middle)
        rate(study, right)
    definitions(study)
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
    """Draw the 1000 samples of Figure 2(d) with the seed of the authors' notebook.

    E[y | f] = f + .1 sin(4 pi (2 f - 1)). Predictions and outcomes alternate in the stream of random numbers.
    """
    u = np.random.RandomState(0).uniform(size=(1000, 2))
    p = u[:, 0]
    y = (u[:, 1] > 1 - (p + 0.1 * np.sin(4 * pi * (2 * p - 1)))).astype(int)
    study.number("Figure 2(d): synthetic data", 0.045, smooth_ece(y, p), 5e-4)
    bins = GridSearchCV(
        HistogramBinningCalibrator(strategy="uniform"), {"n_bins": range(2, 31)}, scoring="neg_brier_score"
    )
    n_bins = bins.fit(p, y).best_params_["n_bins"]
    study.number("Figure 2(d): number of bins, by cross-validation", 19, n_bins, 0)
    binned = expected_calibration_error(y, p, n_bins=n_bins)
    study.number("Figure 2(d): binned ECE, 19 bins", 0.085, binned, 5e-4)
    return y, p


def discontinuity(study: Study, ax) -> None:
    """Run Figure 3: shift events to the right and others to the left, by at most .05, into separate bins."""
    fractions = np.linspace(0, 1, 11)
    errors = []
    for draw in range(20):
        rng = study.rng("figure 3", draw)
        p = rng.uniform(size=500)
        y = (rng.uniform(size=500) < p).astype(int)
        # two bins of .05 each: the left one for y = 0, the right one for y = 1
        low = np.floor(10 * p) / 10
        end = low + (p - low) / 2 + 0.05 * y
        paths = [p + fraction * (end - p) for fraction in fractions]
        errors.append([(expected_calibration_error(y, q, n_bins=20), smooth_ece(y, q)) for q in paths])
    binned, smooth = np.mean(errors, axis=0).T
    study.holds(
        "Figure 3: binned ECE (20 bins) and smooth ECE, first and last distribution",
        "binned 0.06, 0.31; smooth nearly constant",
        f"binned {binned[0]:.3f}, {binned[-1]:.3f}; smooth {smooth[0]:.3f}, {smooth[-1]:.3f}",
        "binned within .01; smooth changes by less than .01",
        abs(binned[0] - 0.06) < 0.01 and abs(binned[-1] - 0.31) < 0.01 and np.ptp(smooth) < 0.01,
        "means of 20 samples of 500 uniform predictions; the paper does not say how its samples were drawn",
    )
    ax.plot(fractions, binned, label="ECE, 20 bins")
    ax.plot(fractions, smooth, "--", label="smooth ECE")
    ax.set(
        xlabel="fraction of the shift of at most .05",
        ylabel="calibration error",
        ylim=(0, None),
        title="Figure 3: shift into separate bins",
    )
    ax.legend()


def closed_forms(study: Study, ax) -> None:
    # predictions of exactly 0 and 1 count in full
    mean, errors = 0.55, []
    for f in (0.0, 0.3, 1.0):
        point = population([f], [mean])
        found = [smooth_ece(**point, bandwidth=s) for s in BANDWIDTHS] + [smooth_ece(**point)]
        errors.append(np.array(found) - abs(f - mean))
    gap = float(np.abs(errors).max())
    study.holds(
        "one forecast f = 0, .3 or 1",
        "theory: abs(f - mean of y)",
        f"off by {gap:.1e}",
        "below 1e-6, all s",
        gap < 1e-6,
    )

    p, a, k = midpoints(100_000), 0.2, 3
    wave = population(p, p + a * np.cos(pi * k * p))
    measured = np.array([smooth_ece(**wave, bandwidth=s) for s in BANDWIDTHS])
    theory = 2 / pi * a * np.exp(-((pi * k * BANDWIDTHS) ** 2) / 2)
    gap = float(np.abs(measured - theory).max())
    study.holds(
        "residual a cos(pi k f)",
        "theory: (2/pi) a exp(-(pi k s)^2/2)",
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
        "theory: s = (1/2 - eps)(2 Phi(eps/s) - 1)",
        f"off by {gap:.1e}; {', '.join(f'{value:.4f}' for value in found)}",
        "below 1e-4",
        gap < 1e-4,
        f"eps = {', '.join(f'{e:g}' for e in epsilons)}: order sqrt(eps), as the upper bound after Lemma 8",
    )


def _two_points(eps: float) -> float:
    """Return the fixed point for y = 0 at 1/2 - eps and y = 1 at 1/2 + eps, without the reflections."""
    return float(brentq(lambda s: (0.5 - eps) * (2 * norm.cdf(eps / s) - 1) - s, 1e-6, 0.5))


def kernels(t: np.ndarray, p: np.ndarray, s: float, scale: str) -> np.ndarray:
    """Return the kernels at t, on the axis of the scale, of the forecasts p: one column for each."""
    if scale == "logit":
        return norm.pdf(t[:, np.newaxis], logit(p), s)
    # the reflections at 0 and 1
    images = np.concatenate([2 * k + sign * p for k in range(-3, 4) for sign in (1, -1)])
    return norm.pdf(t[:, np.newaxis], images, s).reshape(t.size, -1, p.size).sum(axis=1)


def definitions(study: Study) -> None:
    """Compare smECE and the kernel regression of few forecasts with sums over the kernels."""
    rng = study.rng("definitions")
    for scale, p, grid in (
        ("probability", np.append([0, 1], rng.uniform(size=10)), np.linspace(0, 1, 10_001)),
        ("logit", rng.uniform(0.02, 0.98, 12), np.linspace(-12, 12, 10_001)),
    ):
        y, off = rng.integers(0, 2, 12), 0.0
        solution = smooth_ece(y, p, scale=scale)
        for s in (0.1, 0.3, 1.0, solution):
            smoothed = np.abs(kernels(grid, p, s, scale) @ (y - p)) / 12
            # the trapezoidal rule
            by_hand = float((smoothed[1:] + smoothed[:-1]) @ np.diff(grid)) / 2
            ours = s if s == solution else smooth_ece(y, p, bandwidth=s, scale=scale)
            off = max(off, abs(ours - by_hand))
        study.holds(
            f"{'eq. (2)' if scale == 'probability' else 'App. B.3'}: smECE_s on the {scale} axis",
            "theory: the integral over a fine grid",
            f"off by {off:.1e}; smECE {solution:.4f}",
            "below 1e-5",
            off < 1e-5,
            "12 forecasts; s = .1, .3, 1 and smECE, where smECE_s = s",
        )
        t, s = rng.uniform(0.1, 0.9, 50), 0.2
        weight = kernels(logit(t) if scale == "logit" else t, p, s, scale)
        fitted = SmoothedCalibrator(bandwidth=s, scale=scale).fit(p, y).transform(t)
        off = float(np.abs(fitted - weight @ y / weight.sum(axis=1)).max())
        study.holds(
            f"eq. (1): kernel regression on the {scale} axis, SmoothedCalibrator",
            "theory: weighted mean of the outcomes",
            f"off by {off:.1e}",
            "below 1e-3",
            off < 1e-3,
            "12 forecasts, s = .2; the curve is tabulated",
        )


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
    bound = "O(1/sqrt(n s))"
    note = "under calibration the bound of the theorem is attained"
    study.number(
        "Theorem 9: exponent of n, s = .02", bound, slope(sizes, fixed), 0.03, note, right=-0.5, digits=3
    )
    study.holds(
        "Theorem 9: constant under calibration",
        f"{bound}; theory: .1664/sqrt(n s)",
        f"within {100 * ratio:.1f}% of .1664/sqrt(n s)",
        "5%",
        ratio < 0.05,
        "sqrt(2/pi) (pi/8) / sqrt(2 sqrt(pi))",
    )
    widths, n = np.array([0.005, 0.01, 0.02, 0.04]), 8000
    by_width = np.mean(
        [_errors(study.rng("theorem 9, widths", draw), n, widths.tolist()) for draw in range(repetitions)], 0
    )
    study.number(
        "Theorem 9: exponent of s, n = 8000", bound, slope(widths, by_width), 0.04, note, right=-0.5, digits=3
    )
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
    """Check Lemmas 1, 8 and 10 on samples of six distributions, footnote 2, and Theorem 20."""
    rise, area, fixed, bounds = 0.0, 0.0, 0.0, []
    for number, distribution in enumerate(DISTRIBUTIONS * study.pick(1, 3, 20)):
        data = make_forecasts(400, **distribution, random_state=number)
        y, p = data.y_true, data.y_proba
        errors = np.array([smooth_ece(y, p, bandwidth=s) for s in BANDWIDTHS])
        rise = max(rise, float(np.diff(errors).max()))
        for s, error in zip(BANDWIDTHS[::4], errors[::4], strict=True):
            curve_error = smooth_ece_result(y, p, bandwidth=s).curve_error
            area = max(area, abs(curve_error - error) / s)
        d = lower_distance_to_calibration(y, p)
        fixed = max(fixed, float((errors / ((1 + 1 / BANDWIDTHS) * d)).max()))
        bounds.append((smooth_ece(y, p) / (2 * sqrt(d)), d / 2 / smooth_ece(y, p)))
    samples = f"{len(bounds)} samples of n = 400"
    study.holds(
        "Lemma 1: smECE_s does not increase",
        "proved",
        f"largest rise {rise:.1e}",
        "below 1e-9",
        rise < 1e-9,
        samples,
    )
    note = f"{samples}; d is the lower distance to calibration (Definition 5)"
    study.holds(
        "Lemma 8: smECE_s <= (1 + 1/s) d", "proved", f"ratio <= {fixed:.2f}", "at most 1", fixed <= 1, note
    )
    worst = [max(pair) for pair in zip(*bounds, strict=True)]
    study.holds(
        "after Lemma 8: d/2 <= smECE <= 2 sqrt(d)",
        "stated; the 1/2 without proof",
        f"smECE/(2 sqrt(d)) <= {worst[0]:.2f}, (d/2)/smECE <= {worst[1]:.2f}",
        "at most 1",
        max(worst) <= 1.0,
        f"{note}; Lemma 7, from which the 1/2 follows, is stated up to a constant",
    )
    study.holds(
        "Lemma 10: curve_error, the area between curve and diagonal (eq. 7)",
        "within .8 s of smECE_s",
        f"within {area:.3f} s",
        "at most .8 s",
        area <= 0.8,
        samples,
    )
    constant = smooth_ece_result([0, 1], [0.5, 0.5], bandwidth=0.02).curve_error / 0.02
    note = "forecast 1/2 with even odds: smECE_s = 0, and the area is E abs(N(0, s^2)) = .798 s"
    study.number("footnote 2: area divided by s", 0.79, constant, 0.01, note, digits=3)
    # w(f) = -f attains the supremum of Definition 19
    outcomes, forecasts = [0, 1], [0.4, 0.6]
    weak = smooth_calibration_error(outcomes, forecasts)
    lower = lower_distance_to_calibration(outcomes, forecasts)
    study.differs(
        "Theorem 20 at outcomes (0, 1), forecasts (.4, .6)",
        "dCE <= wCE <= 2 dCE",
        f"wCE {weak:.3f}, dCE {lower:.3f}",
        "wCE = .04, dCE = .08",
        abs(weak - 0.04) < 1e-9 and abs(lower - 0.08) < 1e-9,
        "counterexample; the factor 2 belongs to the other side: dCE <= 2 wCE",
    )


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
        "linear in n (Section 3.4)",
        f"{slope(sizes, times):.2f}; {ratio:.1f} x np.sort at n = {sizes[-1]}",
        "exponent below 1.5",
        slope(sizes, times) < 1.5,
        "measured times; see also benchmarks/speed.py",
    )


def _seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
