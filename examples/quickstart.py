"""Calibrate an underconfident classifier and evaluate it, with a guarantee.

A random forest of shallow trees predicts whether a handwritten digit is five or more. It is accurate but
underconfident. The script chooses a calibrator by grid search, measures the calibration error before and
after calibration on held-out samples, tests for remaining miscalibration, computes a certificate, and saves
reliability diagrams in the folder of this file.
"""

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split

from sklearn_calib import CalibratedClassifier, metrics
from sklearn_calib.calibrators import (
    IsotonicCalibrator,
    ModifiedPlattCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
)
from sklearn_calib.inference import TCal, confidence_interval
from sklearn_calib.plot import ReliabilityDisplay
from sklearn_calib.scorers import BestCalibrated, MultiScorer

PICTURE = Path(__file__).with_name("quickstart.png")

CALIBRATORS = {
    "none": "passthrough",
    "isotonic": IsotonicCalibrator(),
    "Platt": PlattCalibrator(link="logit"),
    "modified Platt": ModifiedPlattCalibrator(link="logit"),
    "temperature": TemperatureCalibrator(link="logit"),
}

MEASURES = {
    "smooth ECE": metrics.smooth_ece,
    "logit-smoothed ECE": partial(metrics.logit_smoothed_ece, bandwidth=0.1),
    "cutoff calibration error": metrics.cutoff_calibration_error,
    "smooth calibration error": metrics.smooth_calibration_error,
    "ECE, 15 bins": metrics.expected_calibration_error,
    "decision risk gap at 20%": partial(metrics.decision_risk_gap, threshold=0.2),
}
PROPER_SCORES = {"Brier score": "brier_score", "log loss": "log_loss"}


def choose_calibrator(classifier, X, y):
    """Choose a calibrator by cross-validation on held-out samples."""
    search = GridSearchCV(
        CalibratedClassifier(FrozenEstimator(classifier)),
        {"calibrator": list(CALIBRATORS.values())},
        scoring=MultiScorer(["neg_log_loss", "neg_smooth_ece"]),
        # the best calibration among the calibrators whose log loss is close to the best
        refit=BestCalibrated(calibration="neg_smooth_ece", proper="neg_log_loss"),
        cv=5,
    ).fit(X, y)
    print(f"\nCalibrators, 5-fold cross-validation, {len(y)} samples log loss   smooth ECE")
    for j, name in enumerate(CALIBRATORS):
        losses = (
            -search.cv_results_[f"mean_test_{score}"][j] for score in ("neg_log_loss", "neg_smooth_ece")
        )
        chosen = "   <- chosen" if j == search.best_index_ else ""
        print(f"  {name:<44}" + "".join(f"{loss:12.3f}" for loss in losses) + chosen)
    return search.best_estimator_


def report(y, forecasts):
    """Print every metric of every forecast with its 95% confidence interval.

    Estimates of calibration errors are biased upward by sampling noise; corrected values and intervals
    allow for it. Compare an estimate with the value that is expected under perfect calibration.
    """
    print(f"\n{len(y)} held-out samples" + " " * 12 + "".join(f"{when:>44}" for when in forecasts))
    print(" " * 33 + 2 * "  estimate expected corrected [95% interval]")
    for name, measure in (MEASURES | PROPER_SCORES).items():
        cells = ""
        for p in forecasts.values():
            interval = confidence_interval(y, p, metric=measure, random_state=0)
            cells += f"{interval.estimate:10.3f}{interval.expected:9.3f}{interval.corrected:10.3f}"
            cells += f" [{interval.lower:.3f}, {interval.upper:.3f}]"
        print(f"  {name:<31}{cells}".rstrip())
    print("  expected: mean of the estimate under perfect calibration, for the same predictions;")
    print("  corrected: without the bias of calibration errors that sampling noise causes.")


def draw(y, forecasts, verdicts):
    """Save both reliability diagrams, each annotated at one point."""
    figure = Figure(figsize=(10, 5.9), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, (when, p) in zip(axes, forecasts.items(), strict=True):
        curve = ReliabilityDisplay.from_predictions(y, p, ax=ax).curve
        actual = np.interp(0.3, curve.predicted, curve.observed)
        ax.annotate(
            f"predicted 30%,\nobserved {100 * actual:.0f}%",
            xy=(0.3, actual),
            xytext=(0.06, 0.55),
            arrowprops={"arrowstyle": "->", "color": "0.2"},
        )
        pvalue = verdicts[when].pvalue
        verdict = "miscalibrated" if pvalue < 0.05 else "no evidence of miscalibration"
        ax.set_title(f"{when.capitalize()}: {verdict} (T-Cal p = {pvalue:.3f})")
    figure.suptitle("Random forest on held-out digits, before and after calibration")
    figure.savefig(PICTURE, dpi=150)


def main():
    X, digit = load_digits(return_X_y=True)
    y = (digit >= 5).astype(int)
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=0.3, stratify=digit, random_state=0)
    X_cal, X_test, y_cal, y_test = train_test_split(X_rest, y_rest, train_size=0.5, random_state=0)

    classifier = RandomForestClassifier(n_estimators=50, max_depth=3, random_state=0).fit(X_train, y_train)
    print(f"Target: is a handwritten digit five or more? Random forest, {len(y_train)} training samples.")
    calibrated = choose_calibrator(classifier, X_cal, y_cal)

    models = {"before": classifier, "after": calibrated}
    forecasts = {when: model.predict_proba(X_test)[:, 1] for when, model in models.items()}
    report(y_test, forecasts)

    print("\nT-Cal test of calibration")
    verdicts = {when: TCal(random_state=0).test(y_test, p) for when, p in forecasts.items()}
    for when, verdict in verdicts.items():
        answer = "miscalibrated" if verdict.pvalue < 0.05 else "no evidence of miscalibration"
        print(f"  {when:<7} p = {verdict.pvalue:.3f}: {answer}")

    certificate = calibrated.calibrators_[0].cutoff_certificate(confidence=0.95, random_state=0)
    print("\nCertificate for new samples from the same distribution, computed from the calibration samples")
    print(
        f"  cutoff calibration error at most {certificate.upper:.3f} with 95% confidence: at every decision"
    )
    print("  threshold, the best monotone recalibration would reduce the mean loss by at most this amount")
    draw(y_test, forecasts, verdicts)
    print(f"\nPicture: {PICTURE}")


if __name__ == "__main__":
    main()
