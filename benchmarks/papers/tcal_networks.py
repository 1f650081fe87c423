"""Tables 1 to 3 of Lee et al. (2023): networks before and after five methods of recalibration.

The confidence of the predicted class is recalibrated with the first 2000 samples (10 000 for ImageNet), and
tested on the others at level .05: by adaptive T-Cal or, after binning, by exact binomial tests of the
distinct predictions, both with Bonferroni's correction as in the paper.

Predictions are clipped to [1e-9, 1 - 1e-9] before the test. Under the null hypothesis a prediction of exactly
1 with outcome 0 has probability zero, so a single one gives the p-value 0. Isotonic regression yields a few
of them in 8000 samples, and the published test accepts some of these.
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

# Networks by the names of their published outputs, with the published verdicts on no recalibration, Platt
# scaling, polynomial, isotonic, histogram binning and scaling-binning: r for reject, a for accept. Then the
# samples to recalibrate with, and the degree of the polynomial.
TABLES = {
    "Table 1 (CIFAR-10)": (
        {"cifar10_densenet121": "rrrrrr", "cifar10_resnet50": "rrrrrr", "cifar10_vgg19_bn": "rraarr"},
        2000,
        3,
    ),
    "Table 2 (CIFAR-100)": (
        {
            "cifar100_mobilenetv2_x1_4": "rararr",
            "cifar100_resnet56": "rarrrr",
            "cifar100_shufflenetv2_x2_0": "raaara",
        },
        2000,
        5,
    ),
    "Table 3 (ImageNet)": (
        {
            f"imagenet_{network}{form}": "rrarrr"
            for network in ("densenet161", "resnet152", "efficientnet_b7")
            for form in ("", "_compact")
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
LEVEL = 0.05
CLIP = 1e-9
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


def judge(
    y: np.ndarray, p: np.ndarray, n_fit: int, degree: int, n_resamples: int = N_RESAMPLES
) -> dict[str, tuple[float, bool]]:
    """Return ECE and rejection of each method; all samples are tested without recalibration."""
    found = {}
    for name, calibrator in methods(degree).items():
        outcome, forecast = y, p
        if calibrator is not None:
            outcome, forecast = y[n_fit:], calibrator.fit(p[:n_fit], y[:n_fit]).transform(p[n_fit:])
        if name.endswith("binning"):
            test = BinomialTest(correction="bonferroni")
        else:
            test = TCal(combine="bonferroni", n_resamples=n_resamples, random_state=0)
        error = expected_calibration_error(outcome, forecast, n_bins=15)
        pvalue = test.test(outcome, np.clip(forecast, CLIP, 1.0 - CLIP)).pvalue
        found[name] = error, bool(pvalue <= LEVEL)
    return found


def run(study: Study) -> None:
    n_resamples = study.pick(999, N_RESAMPLES, N_RESAMPLES)
    for table, (published, n_fit, degree) in TABLES.items():
        files = network_files(study.data, *published)
        if not files:
            needed = ", ".join(name for name in published if not name.endswith("_compact"))
            study.skip(
                table, "verdicts", f"needs the outputs of {needed} (.npz, .mat or .npy; see real_data.py)"
            )
        for name, path in files:
            found = judge(*read_network(path), n_fit, degree, n_resamples)
            _compare(study, f"{table}: {name}", published[name], found)
    for table, (names, n_fit, degree) in STAND_INS.items():
        for name, path in network_files(study.data, *names)[: study.pick(1, None, None)]:
            y, p = read_network(path)
            order = study.rng(name).permutation(y.size)
            study.stand_in(
                f"{table}: {name}",
                _shown(judge(y[order], p[order], n_fit, degree, n_resamples)),
                "ECE (15 bins) and verdict of a network that is not in the paper; samples shuffled",
            )


def _shown(found: dict[str, tuple[float, bool]]) -> str:
    return ", ".join(f"{name} {100 * e:.2f}% {'reject' if r else 'accept'}" for name, (e, r) in found.items())


def _compare(study: Study, experiment: str, published: str, found: dict[str, tuple[float, bool]]) -> None:
    """Add the verdicts with the published ones."""
    verdicts = {"r": "reject", "a": "accept"}
    ours = "".join("r" if rejected else "a" for _, rejected in found.values())
    study.compared(
        experiment,
        ", ".join(f"{name} {verdicts[v]}" for name, v in zip(found, published, strict=True)),
        _shown(found),
        "equal verdicts",
        ours == published,
        "level .05, predictions clipped to [1e-9, 1 - 1e-9]; ECE with 15 bins, where the published one puts "
        "predictions of exactly 1 into a bin of their own",
    )
