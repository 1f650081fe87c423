"""Tables 1 to 3 of Lee et al. (2023): networks before and after six methods of recalibration.

Confidences of the predicted class are recalibrated with the first 2000 rows (10 000 for ImageNet), and judged
on the others: ECE with 15 bins, and a test at the level .05; that is adaptive T-Cal, or, after binning, exact
binomial tests of the values, both by Bonferroni as in the paper.
"""

from typing import Any

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

# Networks by the names of their published outputs, rows to recalibrate with, degree of the polynomial.
TABLES = {
    "Table 1 (CIFAR-10)": (("cifar10_densenet121", "cifar10_resnet50", "cifar10_vgg19_bn"), 2000, 3),
    "Table 2 (CIFAR-100)": (
        ("cifar100_mobilenetv2_x1_4", "cifar100_resnet56", "cifar100_shufflenetv2_x2_0"),
        2000,
        5,
    ),
    "Table 3 (ImageNet)": (
        (
            "imagenet_densenet161",
            "imagenet_densenet161_compact",
            "imagenet_efficientnet_b7",
            "imagenet_efficientnet_b7_compact",
            "imagenet_resnet152",
            "imagenet_resnet152_compact",
        ),
        10_000,
        5,
    ),
}
# Other networks on the same images, whose outputs are more often at hand.
LIKE = {
    "like Table 1": (("vgg16_cifar10", "wideresnet-16-4-cifar-10"), 2000, 3),
    "like Table 2": (("densenet-bc-100-cifar-100",), 2000, 5),
    "like Table 3": (("timm_resnet34", "timm_efficientnet_b1", "tv_densenet161"), 10_000, 5),
}
LEVEL = 0.05


class Polynomial:
    """Least squares of the outcome on powers of the confidence, cut to [0, 1]."""

    def __init__(self, degree: int) -> None:
        self.model = make_pipeline(PolynomialFeatures(degree), LinearRegression())

    def fit(self, scores: np.ndarray, y: np.ndarray) -> "Polynomial":
        self.model.fit(scores[:, np.newaxis], y)
        return self

    def transform(self, scores: np.ndarray) -> np.ndarray:
        return np.clip(self.model.predict(scores[:, np.newaxis]), 0.0, 1.0)


def methods(degree: int) -> dict[str, Any]:
    """Return the methods of the tables; ``None`` leaves the confidences as they are."""
    return {
        "none": None,
        "Platt": PlattCalibrator(),
        "polynomial": Polynomial(degree),
        "isotonic": IsotonicCalibrator(),
        "histogram binning": HistogramBinningCalibrator(n_bins=15, smoothing=None),
        "scaling-binning": ScalingBinningCalibrator(n_bins=15, split=False),
    }


def judge(y: np.ndarray, p: np.ndarray, n_fit: int, degree: int) -> dict[str, tuple[float, bool]]:
    """Return for each method the ECE and whether calibration is rejected; "none" is judged on all rows."""
    found = {}
    for name, calibrator in methods(degree).items():
        outcome, forecast = (y, p) if calibrator is None else (y[n_fit:], None)
        if forecast is None:
            forecast = calibrator.fit(p[:n_fit], y[:n_fit]).transform(p[n_fit:])
        binned = name.endswith("binning")
        test = (
            BinomialTest(correction="bonferroni")
            if binned
            else TCal(method="asymptotic", combine="bonferroni")
        )
        error = expected_calibration_error(outcome, forecast, n_bins=15)
        found[name] = error, bool(test.test(outcome, forecast).pvalue <= LEVEL)
    return found


def run(study: Study) -> None:
    for table, (names, n_fit, degree) in TABLES.items():
        files = network_files(study.data, *names)
        if not files:
            needed = ", ".join(name for name in names if not name.endswith("_compact"))
            study.skip(
                table, "table", f"needs the outputs of {needed} (.npz, .mat or .npy; see real_data.py)"
            )
        for name, path in files:
            _row(
                study,
                f"{table}: {name}",
                judge(*read_network(path), n_fit, degree),
                "in the order of the file",
            )
    for table, (names, n_fit, degree) in LIKE.items():
        files = network_files(study.data, *names)
        if not files:
            study.skip(table, "table", f"needs the outputs of {', '.join(names)}")
        for name, path in files[: study.pick(1, None, None)]:
            y, p = read_network(path)
            order = study.rng(name).permutation(y.size)
            found = judge(y[order], p[order], n_fit, degree)
            _row(study, f"{table}: {name}", found, "another network than those of the paper; rows shuffled")


def _row(study: Study, experiment: str, found: dict[str, tuple[float, bool]], note: str) -> None:
    before = found["none"][0]
    worst = max(error for name, (error, _) in found.items() if name != "none")
    study.holds(
        experiment,
        "table",
        "; ".join(f"{name} {100 * e:.2f} % {'reject' if r else 'accept'}" for name, (e, r) in found.items()),
        "before: rejected; every method has the smaller ECE",
        found["none"][1] and worst < before,
        f"ECE, 15 bins, and verdict at level .05; {note}",
    )
