"""Comparison of numbers computed by this package and by other packages from the same data.

    python benchmarks/peer_equality.py [--smoke]

Each row has a function or class of another package, its equivalent here, and the largest difference over
three data sets of each size, in units of the compared quantity, mostly probabilities. Rows marked "=" must be
equal within the printed tolerance; the script fails if one is not. Rows marked "~" answer the same question
in another way, and state why the numbers differ. Packages that are not installed are reported and omitted;
``pip install -r benchmarks/peers.txt`` installs all of them but nannyml. The pages under docs/migration are
based on this table.

    --smoke     few samples and one data set
"""

import argparse
import contextlib
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import CalibratedClassifier, calibrators, metrics
from sklearn_calib.datasets import make_forecasts, make_multiclass_forecasts
from sklearn_calib.inference import SpiegelhalterTest
from sklearn_calib.plot import ReliabilityDisplay

ece = metrics.expected_calibration_error
_TARGETS = "Platt's targets here, plain labels there"
_BETA = "two pseudo-observations here"


@dataclass(frozen=True)
class Sample:
    """Samples to fit a calibrator, and new ones, binary and multiclass."""

    p: np.ndarray
    y: np.ndarray
    new: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    new_rows: np.ndarray
    seed: int

    @property
    def saturated(self) -> tuple[np.ndarray, np.ndarray]:
        """Forecasts, many of which are exactly 0 or 1, and their outcomes."""
        data = make_forecasts(
            len(self.p), distribution="saturated", distortion="slope", random_state=self.seed
        )
        wrong = np.random.default_rng(self.seed).uniform(size=len(self.p)) < 0.1
        return data.y_proba, np.where(wrong, 1 - data.y_true, data.y_true)


@dataclass(frozen=True)
class Row:
    """One comparison: a function that returns both results, and the tolerance, or why they differ."""

    theirs: str
    ours: str
    both: Callable[[Sample], tuple[object, object]]
    tolerance: float | None = None
    why: str = ""


def draw(n: int, seed: int) -> Sample:
    old, new = (
        make_forecasts(n, distortion="slope", strength=0.6, random_state=np.random.default_rng([seed, j]))
        for j in (0, 1)
    )
    several = make_multiclass_forecasts(n, 4, temperature=1.7, random_state=seed)
    others = make_multiclass_forecasts(n, 4, temperature=1.7, random_state=seed + 10**6)
    return Sample(old.y_proba, old.y_true, new.y_proba, several.y_proba, several.y_true, others.y_proba, seed)


def fitted(calibrator: BaseEstimator, sample: Sample, several: bool = False) -> np.ndarray:
    if several:
        return clone(calibrator).fit(sample.rows, sample.labels).predict_proba(sample.new_rows)
    return clone(calibrator).fit(sample.p, sample.y).transform(sample.new)


def both_columns(p: np.ndarray) -> np.ndarray:
    return np.column_stack([1 - p, p])


def scikit_learn() -> Iterator[Row]:
    def models(
        theirs: BaseEstimator, ours: BaseEstimator, n_classes: int = 2, weighted: bool = False
    ) -> Callable:
        def predict(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
            X, y = make_classification(
                2 * len(sample.p), n_informative=5, n_classes=n_classes, random_state=sample.seed
            )
            half = len(sample.p)
            weights = (
                np.random.default_rng(sample.seed).uniform(0.5, 2.0, 2 * half)
                if weighted
                else np.ones(2 * half)
            )
            found = []
            for model in (theirs, ours):
                model = clone(model)
                inner = model.estimator
                if isinstance(inner, FrozenEstimator):
                    model.estimator = FrozenEstimator(
                        clone(inner.estimator).fit(X[: half // 2], y[: half // 2])
                    )
                rest = slice(half // 2, half)
                found.append(model.fit(X[rest], y[rest], sample_weight=weights[rest]).predict_proba(X[half:]))
            return found[0], found[1]

        return predict

    bayes = GaussianNB()
    for method, calibrator, name, tolerance in (
        ("sigmoid", calibrators.PlattCalibrator(link="identity"), 'PlattCalibrator(link="identity")', 1e-6),
        ("isotonic", calibrators.IsotonicCalibrator(), "IsotonicCalibrator()", 1e-12),
    ):
        for ensemble in (True, False):
            yield Row(
                f'CalibratedClassifierCV(method="{method}", ensemble={ensemble})',
                f"CalibratedClassifier(calibrator={name}, ensemble={ensemble})",
                models(
                    CalibratedClassifierCV(bayes, method=method, ensemble=ensemble),
                    CalibratedClassifier(bayes, calibrator, ensemble=ensemble),
                ),
                tolerance,
            )
        yield Row(
            f'CalibratedClassifierCV(FrozenEstimator(model), method="{method}")',
            f"CalibratedClassifier(FrozenEstimator(model), {name})",
            models(
                CalibratedClassifierCV(FrozenEstimator(bayes), method=method),
                CalibratedClassifier(FrozenEstimator(bayes), calibrator),
            ),
            tolerance,
        )
        yield Row(
            f'CalibratedClassifierCV(method="{method}").fit(X, y, sample_weight)',
            f"CalibratedClassifier(calibrator={name}).fit(X, y, sample_weight)",
            models(
                CalibratedClassifierCV(bayes, method=method),
                CalibratedClassifier(bayes, calibrator),
                weighted=True,
            ),
            tolerance,
        )
        yield Row(
            f'CalibratedClassifierCV(method="{method}"), three classes',
            f"CalibratedClassifier(calibrator={name})",
            models(
                CalibratedClassifierCV(bayes, method=method),
                CalibratedClassifier(bayes, calibrator),
                3,
            ),
            tolerance,
        )
    yield Row(
        'CalibratedClassifierCV(method="sigmoid"), of probabilities',
        "CalibratedClassifier(calibrator=PlattCalibrator())",
        models(
            CalibratedClassifierCV(bayes, method="sigmoid"),
            CalibratedClassifier(bayes, calibrators.PlattCalibrator()),
        ),
        why="the sigmoid is put on the log-odds, not on the probability",
    )
    yield Row(
        "calibration_curve(n_bins=10)",
        'ReliabilityDisplay.from_predictions(curve="binned", n_bins=10).curve',
        lambda s: (np.array(calibration_curve(s.y, s.p, n_bins=10)), _binned_curve(s.y, s.p)),
        1e-12,
    )
    yield Row(
        "calibration_curve(n_bins=10), mean gap by rows",
        "expected_calibration_error(n_bins=10)",
        lambda s: (_curve_error(s.y, s.p), ece(s.y, s.p, n_bins=10)),
        1e-12,
    )
    yield Row(
        "the same, of predictions on the edges of bins",
        "expected_calibration_error(n_bins=10)",
        lambda s: (_curve_error(s.y, _twentieths(s.p)), ece(s.y, _twentieths(s.p), n_bins=10)),
        why="an edge belongs to the bin below there, to the bin above here",
    )
    temperature = CalibratedClassifierCV(LogisticRegression(), method="temperature", ensemble=False)
    with contextlib.suppress(Exception):
        temperature.fit(*make_classification(100, random_state=0))
        for n_classes, name in ((2, ""), (3, ", three classes")):
            yield Row(
                f'CalibratedClassifierCV(method="temperature", ensemble=False){name}',
                'CalibratedClassifier(calibrator=TemperatureCalibrator(link="identity"), ensemble=False)',
                models(
                    temperature,
                    CalibratedClassifier(
                        LogisticRegression(),
                        calibrators.TemperatureCalibrator(link="identity"),
                        ensemble=False,
                        response_method="decision_function",
                    ),
                    n_classes,
                ),
                1e-5,
            )


def relplot() -> Iterator[Row]:
    import relplot

    yield Row(
        "smECE(f, y)",
        "smooth_ece(y, f)",
        lambda s: (relplot.smECE(s.p, s.y), metrics.smooth_ece(s.y, s.p)),
        1e-3,
    )
    yield Row(
        "smECE_sigma(f, y, 0.05)",
        "smooth_ece(y, f, bandwidth=0.05)",
        lambda s: (relplot.smECE_sigma(s.p, s.y, 0.05), metrics.smooth_ece(s.y, s.p, bandwidth=0.05)),
        1e-3,
    )
    yield Row(
        "smECE, where many predictions are exactly 0 or 1",
        "smooth_ece",
        lambda s: (relplot.smECE(*s.saturated), metrics.smooth_ece(*s.saturated[::-1])),
        why="0 and 1 and their mirror images count as two here, by the definition, and as one there",
    )
    yield Row(
        "smECE of multiclass_logits_to_confidences",
        'smooth_ece(reduction="confidence")',
        lambda s: (
            relplot.smECE(*relplot.multiclass_logits_to_confidences(s.rows, s.labels, probs=True)),
            metrics.smooth_ece(s.labels, s.rows, reduction="confidence"),
        ),
        1e-3,
    )
    yield Row(
        "metrics.binnedECE(f, y, nbins=10)",
        "expected_calibration_error(n_bins=10)",
        lambda s: (relplot.metrics.binnedECE(s.p, s.y, 10), ece(s.y, s.p, n_bins=10)),
        1e-12,
    )

    def logit(s: Sample) -> tuple[float, float]:
        relplot.config.use_logit_scaling = True
        try:
            return relplot.smECE(s.p, s.y), metrics.smooth_ece(s.y, s.p, scale="logit")
        finally:
            relplot.config.use_logit_scaling = False

    yield Row(
        "smECE with config.use_logit_scaling",
        'smooth_ece(scale="logit")',
        logit,
        why="there clipped to [0.001, 0.999], and the bandwidth in other units",
    )


def netcal() -> Iterator[Row]:
    from netcal import binning, scaling
    from netcal.metrics import ECE, MCE

    yield Row(
        "ECE(15).measure(p, y)",
        "expected_calibration_error(n_bins=15)",
        lambda s: (ECE(15).measure(s.p, s.y), ece(s.y, s.p)),
        1e-12,
    )
    yield Row(
        "ECE(15).measure(rows, y), four classes",
        'expected_calibration_error(reduction="confidence")',
        lambda s: (ECE(15).measure(s.rows, s.labels), ece(s.labels, s.rows, reduction="confidence")),
        1e-12,
    )
    yield Row(
        "MCE(15).measure(p, y)",
        'expected_calibration_error(norm="max")',
        lambda s: (MCE(15).measure(s.p, s.y), ece(s.y, s.p, norm="max")),
        1e-12,
    )

    def method(theirs: BaseEstimator, ours: BaseEstimator, several: bool = False) -> Callable:
        def calibrate(s: Sample) -> tuple[np.ndarray, np.ndarray]:
            scores, labels, new = (s.rows, s.labels, s.new_rows) if several else (s.p, s.y, s.new)
            theirs.fit(scores.copy(), labels.copy())
            return np.asarray(theirs.transform(new.copy())), fitted(ours, s, several)

        return calibrate

    yield Row(
        "TemperatureScaling()",
        "TemperatureCalibrator()",
        method(scaling.TemperatureScaling(), calibrators.TemperatureCalibrator()),
        1e-4,
    )
    yield Row(
        "TemperatureScaling(), four classes",
        "TemperatureCalibrator()",
        method(scaling.TemperatureScaling(), calibrators.TemperatureCalibrator(), True),
        1e-4,
    )
    yield Row(
        "LogisticCalibration()",
        "PlattCalibrator()",
        method(scaling.LogisticCalibration(), calibrators.PlattCalibrator()),
        why=_TARGETS,
    )
    yield Row(
        "BetaCalibration()",
        "BetaCalibrator()",
        method(scaling.BetaCalibration(), calibrators.BetaCalibrator()),
        why=_BETA,
    )
    yield Row(
        "IsotonicRegression()",
        "IsotonicCalibrator()",
        method(binning.IsotonicRegression(), calibrators.IsotonicCalibrator()),
        1e-12,
    )
    yield Row(
        "HistogramBinning(15)",
        'HistogramBinningCalibrator(15, strategy="uniform", smoothing=None)',
        method(
            binning.HistogramBinning(15),
            calibrators.HistogramBinningCalibrator(n_bins=15, strategy="uniform", smoothing=None),
        ),
        1e-12,
    )


def betacal() -> Iterator[Row]:
    from betacal import BetaCalibration

    for parameters in ("abm", "ab", "am"):
        yield Row(
            f'BetaCalibration("{parameters}")',
            f'BetaCalibrator("{parameters}")',
            lambda s, parameters=parameters: (
                BetaCalibration(parameters).fit(s.p[:, None], s.y).predict(s.new),
                fitted(calibrators.BetaCalibrator(parameters=parameters), s),
            ),
            why=_BETA,
        )


def venn_abers() -> Iterator[Row]:
    from venn_abers import VennAbers

    def predict(s: Sample) -> tuple[np.ndarray, np.ndarray]:
        return VennAbers().fit(both_columns(s.p), s.y).predict_proba(both_columns(s.new))

    yield Row(
        "VennAbers(), p0 and p1",
        "VennAbersCalibrator().predict_interval",
        lambda s: (
            np.asarray(predict(s)[1]),
            np.column_stack(calibrators.VennAbersCalibrator().fit(s.p, s.y).predict_interval(s.new)),
        ),
        1e-10,
    )
    yield Row(
        "VennAbers(), one probability",
        "VennAbersCalibrator()",
        lambda s: (np.asarray(predict(s)[0])[:, 1], fitted(calibrators.VennAbersCalibrator(), s)),
        1e-10,
    )

    from sklearn.model_selection import StratifiedKFold
    from venn_abers import VennAbersCalibrator

    def cross(s: Sample, loss: str = "log", average: str = "log") -> tuple[np.ndarray, np.ndarray]:
        X, y = make_classification(2 * len(s.p), n_informative=5, random_state=s.seed)
        half = len(s.p)
        theirs = VennAbersCalibrator(
            GaussianNB(), inductive=False, n_splits=5, shuffle=True, random_state=0
        ).fit(X[:half], y[:half])
        ours = CalibratedClassifier(
            GaussianNB(),
            calibrators.VennAbersCalibrator(loss=loss),
            cv=StratifiedKFold(5, shuffle=True, random_state=0),
            average=average,
        ).fit(X[:half], y[:half])
        return np.asarray(theirs.predict_proba(X[half:], loss=loss)), ours.predict_proba(X[half:])

    yield Row(
        "VennAbersCalibrator(model, inductive=False, n_splits=5)",
        'CalibratedClassifier(model, VennAbersCalibrator(), cv=5, average="log")',
        cross,
        1e-10,
    )
    yield Row(
        'the same with predict_proba(X, loss="brier")',
        'CalibratedClassifier(model, VennAbersCalibrator(loss="brier"), cv=5)',
        lambda s: cross(s, "brier", "probability"),
        1e-10,
    )


def uncertainty_calibration() -> Iterator[Row]:
    import calibration

    yield Row(
        "get_ece(p, y)",
        "expected_calibration_error(n_bins=15)",
        lambda s: (calibration.get_ece(s.p, s.y), ece(s.y, s.p)),
        1e-12,
    )
    yield Row(
        "get_ece_em(p, y)",
        'expected_calibration_error(strategy="quantile")',
        lambda s: (calibration.utils.get_ece_em(s.p, s.y), ece(s.y, s.p, strategy="quantile")),
        1e-12,
    )
    yield Row(
        "lower_bound_scaling_ce(p, y)",
        'expected_calibration_error(norm="l2", debias=True, strategy="quantile")',
        lambda s: (
            calibration.lower_bound_scaling_ce(s.p, s.y),
            ece(s.y, s.p, norm="l2", debias=True, strategy="quantile"),
        ),
        1e-12,
    )

    def method(name: str, ours: BaseEstimator) -> Callable:
        def calibrate(s: Sample) -> tuple[np.ndarray, np.ndarray]:
            theirs = getattr(calibration, name)(len(s.y), 10)
            theirs.train_calibration(s.p, s.y)
            return np.asarray(theirs.calibrate(s.new)), fitted(ours, s)

        return calibrate

    yield Row(
        "PlattCalibrator",
        "PlattCalibrator()",
        method("PlattCalibrator", calibrators.PlattCalibrator()),
        why=_TARGETS,
    )
    yield Row(
        "HistogramCalibrator(n, 10)",
        "HistogramBinningCalibrator(10, smoothing=None)",
        method("HistogramCalibrator", calibrators.HistogramBinningCalibrator(n_bins=10, smoothing=None)),
        1e-12,
    )
    yield Row(
        "PlattBinnerCalibrator(n, 10)",
        "ScalingBinningCalibrator(n_bins=10, split=False)",
        method("PlattBinnerCalibrator", calibrators.ScalingBinningCalibrator(n_bins=10, split=False)),
        why=_TARGETS,
    )


def probcal() -> Iterator[Row]:
    import probcal
    from probcal import metrics as theirs

    yield Row(
        'metrics.ece(y, p, strategy="width")',
        "expected_calibration_error()",
        lambda s: (theirs.ece(s.y, s.p, strategy="width"), ece(s.y, s.p)),
        1e-12,
    )
    yield Row(
        "metrics.smooth_ece(y, p)",
        'smooth_ece(y, p, scale="logit")',
        lambda s: (theirs.smooth_ece(s.y, s.p), metrics.smooth_ece(s.y, s.p, scale="logit")),
        1e-3,
    )
    yield Row(
        "metrics.ece_sweep(y, p)",
        "sweep_calibration_error(y, p)",
        lambda s: (theirs.ece_sweep(s.y, s.p), metrics.sweep_calibration_error(s.y, s.p)),
        why="the remainder after filling bins of equal mass is distributed differently",
    )
    yield Row(
        "metrics.calibration_slope(y, p)",
        "calibration_summary(y, p).slope",
        lambda s: (theirs.calibration_slope(s.y, s.p), metrics.calibration_summary(s.y, s.p).slope.estimate),
        1e-6,
    )
    yield Row(
        "metrics.calibration_intercept(y, p)",
        "calibration_summary(y, p).intercept",
        lambda s: (
            theirs.calibration_intercept(s.y, s.p),
            metrics.calibration_summary(s.y, s.p).intercept.estimate,
        ),
        1e-6,
    )
    yield Row(
        "metrics.spiegelhalter_z(y, p)",
        "SpiegelhalterTest()",
        lambda s: (
            abs(theirs.spiegelhalter_z(s.y, s.p).z),
            abs(SpiegelhalterTest(method="asymptotic").test(s.y, s.p).statistic),
        ),
        1e-9,
    )
    for name, ours, tolerance, why in (
        ("IsotonicCalibrator", calibrators.IsotonicCalibrator(interpolation="step"), 1e-12, ""),
        ("PlattCalibrator", calibrators.PlattCalibrator(), 1e-6, ""),
        ("TemperatureCalibrator", calibrators.TemperatureCalibrator(), 1e-6, ""),
        ("VennAbersCalibrator", calibrators.VennAbersCalibrator(), 1e-10, ""),
        ("BetaCalibrator", calibrators.BetaCalibrator(), None, _BETA),
    ):
        yield Row(
            f"{name}()",
            repr(ours),
            lambda s, name=name, ours=ours: (
                getattr(probcal, name)().fit(s.p, s.y).predict_proba(s.new),
                fitted(ours, s),
            ),
            tolerance,
            why,
        )


# Packages, their import names, and their rows.
def nannyml() -> Iterator[Row]:
    """Yield confidence-based performance estimation, which does not change calibrated predictions."""
    import nannyml
    import pandas as pd

    names = ["roc_auc", "f1", "precision", "recall", "accuracy"]

    def estimated(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(sample.seed)
        p, new = rng.beta(1.5, 3.0, 3000), rng.beta(2.0, 2.0, sample.new.shape[0])
        known, unknown = (
            pd.DataFrame(
                {"p": q, "decision": (q >= 0.4).astype(int), "y": (rng.random(q.size) < q).astype(int)}
            )
            for q in (p, new)
        )
        estimator = nannyml.CBPE(
            metrics=names,
            y_pred_proba="p",
            y_pred="decision",
            y_true="y",
            problem_type="classification_binary",
            chunk_number=1,
        ).fit(known)
        estimator.needs_calibration = False
        table = estimator.estimate(unknown).filter(period="analysis").to_df()
        ours = metrics.expected_performance(new, threshold=0.4)
        return (
            np.array([table[name, "value"].iloc[0] for name in names]),
            np.array([getattr(ours, name).estimate for name in names]),
        )

    yield Row("CBPE", "metrics.expected_performance", estimated, 1e-6)


PEERS = {
    "scikit-learn": ("sklearn", scikit_learn),
    "relplot": ("relplot", relplot),
    "netcal": ("netcal", netcal),
    "betacal": ("betacal", betacal),
    "venn-abers": ("venn_abers", venn_abers),
    "uncertainty-calibration": ("calibration", uncertainty_calibration),
    "probcal": ("probcal", probcal),
    "nannyml": ("nannyml", nannyml),
}


def _curve_error(y: np.ndarray, p: np.ndarray) -> float:
    observed, predicted = calibration_curve(y, p, n_bins=10)
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, 11)[1:-1], p), minlength=10)
    return float(np.abs(observed - predicted) @ counts[counts > 0] / len(p))


def _binned_curve(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    curve = ReliabilityDisplay.from_predictions(y, p, curve="binned", n_bins=10, band=None, ax=ax).curve
    return np.array([curve.observed, curve.predicted])


def _twentieths(p: np.ndarray) -> np.ndarray:
    return np.round(20 * p) / 20


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    sizes, seeds = ([300], [0]) if smoke else ([600, 6000], [0, 1, 2])
    samples = {n: [draw(n, seed) for seed in seeds] for n in sizes}
    broken = 0
    for package, (module, rows) in PEERS.items():
        try:
            with _silence():
                importlib.import_module(module)
                listed = list(rows())
        except ImportError as error:
            print(f"\n{package} is omitted: {error}")
            continue
        heads = "".join(f"{f'{n} rows':<12}" for n in sizes)
        print(f"\n{package}: largest difference\n    {heads}theirs -> ours")
        for row in listed:
            with _silence():
                gaps = [max(_gap(*row.both(sample)) for sample in samples[n]) for n in sizes]
            mark = "~" if row.tolerance is None else "=" if max(gaps) <= row.tolerance else "!"
            broken += mark == "!"
            shown = "".join(f"{gap:<12.2g}" for gap in gaps)
            note = row.why or f"within {row.tolerance:g}"
            print(f"  {mark} {shown}{row.theirs} -> {row.ours} ({note})", flush=True)
    if broken:
        print(f"\n{broken} rows marked ! are not equal within their tolerance.")
    return int(broken > 0)


def _gap(theirs: object, ours: object) -> float:
    a, b = np.asarray(theirs, dtype=float), np.asarray(ours, dtype=float)
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape} differ")
    return float(np.abs(a - b).max())


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    out = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        warnings.simplefilter("ignore")
        yield


if __name__ == "__main__":
    sys.exit(main())
