"""Tables 1 to 6 and Figure 6 of Lee et al. (2023): networks before and after five methods of recalibration.

The confidence of the predicted class is recalibrated with the first 2000 samples (10 000 for ImageNet), and
tested on the others at level .05: by adaptive T-Cal or, after binning, by exact binomial tests of the
distinct predictions, both with Bonferroni's correction as in the paper.

Predictions are clipped to [1e-9, 1 - 1e-9] before the test. Under the null hypothesis a prediction of exactly
1 with outcome 0 has probability zero, so a single one gives the p-value 0. Isotonic regression yields a few
of them in 8000 samples, and the published test accepts some of these.

Polynomial scaling is least squares on powers of the confidence, clipped to [0, 1]. It is not a calibrator of
the package: its curve need not be monotone, can be exactly 0 or 1, and depends on the degree.
``SplineCalibrator`` serves the same purpose.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from benchmarks.papers.real_data import network_files, read_network
from benchmarks.papers.study import Study
from sklearn_calib.calibrators import (
    HistogramBinningCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    ScalingBinningCalibrator,
)
from sklearn_calib.inference import BinomialTest, TCal
from sklearn_calib.metrics import expected_calibration_error

__all__ = ["run"]


class Published(NamedTuple):
    """Results of no recalibration, Platt scaling, polynomial, isotonic, histogram and scaling-binning.

    ``errors`` are the ECEs in percent, ``verdicts`` r for reject and a for accept, and ``squares`` the
    debiased squared errors of the two methods of binning, in percent.
    """

    errors: tuple[float, ...]
    verdicts: str
    squares: tuple[float, float]


# Networks by the names of their published outputs; then the samples to recalibrate with, and the degree of
# the polynomial. The debiased errors are in Tables 4, 5 and 6.
TABLES: dict[str, tuple[dict[str, Published], int, int]] = {
    "Table 1 (CIFAR-10)": (
        {
            "cifar10_densenet121": Published((2.02, 2.32, 1.71, 1.16, 0.97, 1.94), "rrrrrr", (0.02, 0.11)),
            "cifar10_resnet50": Published((2.23, 1.78, 1.29, 0.62, 1.12, 1.21), "rrrrrr", (0.02, 0.10)),
            "cifar10_vgg19_bn": Published((2.13, 1.71, 0.90, 1.13, 1.28, 1.67), "rraarr", (0.05, 0.20)),
        },
        2000,
        3,
    ),
    "Table 2 (CIFAR-100)": (
        {
            "cifar100_mobilenetv2_x1_4": Published(
                (11.87, 1.40, 1.69, 1.76, 1.66, 1.85), "rararr", (0.04, 0.04)
            ),
            "cifar100_resnet56": Published((15.2, 1.84, 1.91, 2.33, 2.44, 1.57), "rarrrr", (0.09, 0.03)),
            "cifar100_shufflenetv2_x2_0": Published(
                (9.08, 1.34, 1.81, 1.38, 2.77, 1.65), "raaara", (0.15, 0.02)
            ),
        },
        2000,
        5,
    ),
    "Table 3 (ImageNet)": (
        {
            "imagenet_densenet161": Published((5.67, 1.58, 0.62, 0.63, 0.46, 1.55), "rrarrr", (0.01, 0.05)),
            "imagenet_resnet152": Published((4.99, 1.41, 0.64, 0.80, 1.26, 1.40), "rrarrr", (0.03, 0.03)),
            "imagenet_efficientnet_b7": Published(
                (2.82, 1.90, 0.71, 1.06, 0.88, 1.97), "rrarrr", (0.02, 0.06)
            ),
        },
        10_000,
        5,
    ),
}
# Other networks on the same images, whose outputs are easier to obtain.
STAND_INS = {
    "as in Table 1": (("vgg16_cifar10", "wideresnet-16-4-cifar-10"), 2000, 3),
    "as in Table 2": (("densenet-bc-100-cifar-100",), 2000, 5),
    "as in Table 3": (("timm_resnet34", "timm_efficientnet_b1", "tv_densenet161"), 10_000, 5),
}
FIGURE_6 = ("Figure 6: VGG-19, mean gap of the bins", "cifar10_vgg19_bn", "Platt visually worse")
LEVEL = 0.05
CLIP = 1e-9
# p-values within a factor of 2 of the level are simulated with so many other seeds
SEEDS = 20
# far more than the number of scales divided by the level, which is below 600 for 50 000 samples
N_RESAMPLES = 4999


class Polynomial:
    """Least squares of the outcome on powers of the confidence, clipped to [0, 1]."""

    def __init__(self, degree: int) -> None:
        self.model = make_pipeline(PolynomialFeatures(degree), LinearRegression())

    def fit(self, scores: np.ndarray, y: np.ndarray) -> "Polynomial":
        self.model.fit(scores[:, np.newaxis], y)
        return self

    def transform(self, scores: np.ndarray) -> np.ndarray:
        return np.clip(self.model.predict(scores[:, np.newaxis]), 0.0, 1.0)


def methods(degree: int) -> dict[str, Any]:
    """Return the methods of the tables; ``None`` leaves the confidences unchanged."""
    return {
        "none": None,
        "Platt": PlattCalibrator(),
        "polynomial": Polynomial(degree),
        "isotonic": IsotonicCalibrator(),
        "histogram binning": HistogramBinningCalibrator(n_bins=15, smoothing=None),
        "scaling-binning": ScalingBinningCalibrator(n_bins=15, split=False),
    }


class Judgment(NamedTuple):
    """Test samples of a method, their ECE and verdict, and the debiased squared error after binning.

    Without binning also the verdict of ``TCal()``, and for a p-value near the level the number of seeds with
    which the published rule rejects.
    """

    y: np.ndarray
    p: np.ndarray
    error: float
    rejected: bool
    square: float | None
    default: bool | None = None
    seeds: int | None = None


def judge(
    y: np.ndarray, p: np.ndarray, n_fit: int, degree: int, n_resamples: int = N_RESAMPLES, n_seeds: int = 0
) -> dict[str, Judgment]:
    """Judge each method; all samples are tested without recalibration."""
    found = {}
    for name, calibrator in methods(degree).items():
        outcome, forecast = y, p
        if calibrator is not None:
            outcome, forecast = y[n_fit:], calibrator.fit(p[:n_fit], y[:n_fit]).transform(p[n_fit:])
        tested, square, default, seeds = np.clip(forecast, CLIP, 1.0 - CLIP), None, None, None
        if name.endswith("binning"):
            pvalue = BinomialTest().test(outcome, tested).pvalue
            # at most one distinct prediction in each bin
            options: dict[str, Any] = {"strategy": "quantile", "n_bins": forecast.size}
            square = expected_calibration_error(outcome, forecast, norm="l2", debias=True, **options) ** 2
        else:
            test = TCal(combine="bonferroni", n_resamples=n_resamples)
            pvalue = test.test(outcome, tested).pvalue
            default = bool(TCal().test(outcome, tested).pvalue <= LEVEL)
            if n_seeds and LEVEL / 2 < pvalue < 2 * LEVEL:
                tests = (test.set_params(random_state=seed) for seed in range(n_seeds))
                seeds = sum(each.test(outcome, tested).pvalue <= LEVEL for each in tests)
        error = _published_ece(outcome, forecast)
        found[name] = Judgment(outcome, forecast, error, bool(pvalue <= LEVEL), square, default, seeds)
    return found


def _published_ece(y: np.ndarray, p: np.ndarray) -> float:
    """Return the ECE with 15 bins and one more for predictions of exactly 1, as in the authors' code."""
    inner = p < 1.0
    return float(
        inner.mean() * expected_calibration_error(y[inner], p[inner], n_bins=15) + np.mean(~inner & (y == 0))
    )


def run(study: Study) -> None:
    n_resamples, n_seeds = study.pick((999, 0), (N_RESAMPLES, SEEDS), (N_RESAMPLES, SEEDS))
    for number, (table, (published, n_fit, degree)) in enumerate(TABLES.items(), start=1):
        files = dict(network_files(study.data, *published))
        for name, reported in published.items():
            rows = [f"{table}: {name}", f"Table {number + 3}: {name}"]
            if name in files:
                found = judge(*read_network(files[name]), n_fit, degree, n_resamples, n_seeds)
                _compare(study, *rows, reported, found, n_seeds)
                if name == FIGURE_6[1]:
                    _reliability(study, found)
                continue
            shown = [*_reported(reported)]
            if name == FIGURE_6[1]:
                rows.append(FIGURE_6[0])
                shown.append(FIGURE_6[2])
            for row, results in zip(rows, shown, strict=True):
                study.skip(row, results, f"needs {name}.npz, .mat or .npy (see real_data.py)")
    for table, (names, n_fit, degree) in STAND_INS.items():
        for name, path in network_files(study.data, *names)[: study.pick(1, None, None)]:
            y, p = read_network(path)
            order = study.rng(name).permutation(y.size)
            found = judge(y[order], p[order], n_fit, degree, n_resamples, n_seeds)
            study.stand_in(
                f"{table}: {name}",
                _shown(
                    [100 * each.error for each in found.values()], [each.rejected for each in found.values()]
                ),
                "ECE (15 bins) and verdict of a network that is not in the paper; samples shuffled. "
                + _other_verdicts(found, n_seeds),
            )


def _other_verdicts(found: dict[str, Judgment], n_seeds: int) -> str:
    """Say which verdicts depend on the seed, and where the default test has another one."""
    words = [
        f"{name} is rejected with {each.seeds} of {n_seeds} seeds"
        for name, each in found.items()
        if each.seeds is not None
    ]
    for verdict, verb in ((True, "also rejects"), (False, "accepts")):
        names = [
            name for name, each in found.items() if each.default is verdict and each.rejected is not verdict
        ]
        if names:
            words.append(f"the default TCal() {verb} {' and '.join(names)}")
    text = "; ".join(words) or "the default TCal() has the same verdicts"
    return text[0].upper() + text[1:]


def _shown(errors: Iterable[float], rejected: Iterable[bool]) -> str:
    parts = zip(methods(1), errors, rejected, strict=True)
    return ", ".join(f"{name} {e:.2f}% {'reject' if r else 'accept'}" for name, e, r in parts)


def _squares(values: Iterable[float]) -> str:
    return ", ".join(
        f"{name} {x:.2f}%" for name, x in zip(("histogram binning", "scaling-binning"), values, strict=True)
    )


def _reported(published: Published) -> tuple[str, str]:
    return _shown(published.errors, [v == "r" for v in published.verdicts]), _squares(published.squares)


def _compare(
    study: Study, first: str, second: str, published: Published, found: dict[str, Judgment], n_seeds: int
) -> None:
    """Add verdicts and errors beside the published ones, and the debiased errors."""
    reported, reported_squares = _reported(published)
    rejected = [each.rejected for each in found.values()]
    errors = np.array([100 * each.error for each in found.values()])
    off = np.abs(errors - published.errors)
    # no parameters that the paper leaves open: none, polynomial and isotonic
    exact = off[[0, 2, 3]].max() <= 0.0051
    # few simulations reject less often: only a rejection that is not published then contradicts
    few = study.effort == "smoke"
    equal = all(r == (v == "r") or (few and not r) for r, v in zip(rejected, published.verdicts, strict=True))
    study.compared(
        first,
        reported,
        _shown(errors, rejected),
        f"{'no other rejection' if few else 'equal verdicts'}; none, polynomial, isotonic equal; "
        "others within 0.3 points",
        equal and exact and off.max() <= 0.3,
        "level .05, predictions clipped to [1e-9, 1 - 1e-9]. Platt has smoothed targets here; bins of equal "
        "mass differ by single samples. ECE with 15 bins and one more for predictions of exactly 1. "
        + _other_verdicts(found, n_seeds),
    )
    squares = [100 * each.square for each in found.values() if each.square is not None]
    study.compared(
        second,
        reported_squares,
        _squares(squares),
        "within 0.03 points",
        bool(np.abs(np.subtract(squares, published.squares)).max() <= 0.03),
        "debiased squared l2 calibration error of the distinct predictions; verdicts: Tables 1 to 3",
    )


def _reliability(study: Study, found: dict[str, Judgment]) -> None:
    """Draw Figure 6: confidence and accuracy of VGG-19 in bins of at least 10 samples."""
    gaps = {}
    names = ("Platt", "polynomial", "histogram binning")
    with study.figure("tcal_networks", 1, 3, sharey=True) as axes:
        for ax, name in zip(axes, names, strict=True):
            y, p = found[name].y, found[name].p
            place = np.minimum((15 * p).astype(int), 14)
            count = np.bincount(place, minlength=15)
            shown = np.flatnonzero(count >= 10)
            confidence, accuracy = (np.bincount(place, x, 15)[shown] / count[shown] for x in (p, y))
            gaps[name] = float(np.abs(confidence - accuracy).mean())
            ax.bar((shown + 0.5) / 15, confidence, 1 / 15, alpha=0.5, label="confidence", edgecolor="k")
            ax.bar((shown + 0.5) / 15, accuracy, 1 / 15, alpha=0.5, label="accuracy", edgecolor="k")
            ax.plot([0, 1], [0, 1], "k--", lw=1)
            ax.set(xlabel="predicted confidence", title=f"Figure 6: VGG-19, {name}")
        axes[0].set_ylabel("accuracy")
        axes[0].legend()
    study.holds(
        FIGURE_6[0],
        FIGURE_6[2],
        ", ".join(f"{name} {gap:.3f}" for name, gap in gaps.items()),
        "Platt largest",
        max(gaps, key=gaps.__getitem__) == "Platt",
        "15 bins of equal width, those with less than 10 samples left out",
    )
