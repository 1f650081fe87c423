"""From a classifier whose probabilities mean little to one that comes with a guarantee.

A random forest of shallow trees tells whether a handwritten digit is five or more. It is usually right, but
hardly dares to say so. We choose a repair by grid search, measure how wrong the probabilities are before and
after it on scans that neither the classifier nor the repair has seen, test whether the rest could be chance,
read a guarantee, and save a picture of it all beside this file.
"""

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss, log_loss
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

REPAIRS = {
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
    "decision risk gap at 20 %": partial(metrics.decision_risk_gap, threshold=0.2),
}
PROPER_SCORES = {"Brier score": brier_score_loss, "log loss": log_loss}


def choose_repair(classifier, X, y):
    """Choose a calibrator by cross-validation on rows that the classifier was not trained on."""
    search = GridSearchCV(
        CalibratedClassifier(FrozenEstimator(classifier)),
        {"calibrator": list(REPAIRS.values())},
        scoring=MultiScorer(["neg_log_loss", "neg_smooth_ece"]),
        # a constant would win on calibration alone: only those as good as the best in log loss compete for it
        refit=BestCalibrated(calibration="neg_smooth_ece", proper="neg_log_loss"),
        cv=5,
    ).fit(X, y)
    print(f"\nRepairs in 5-fold cross-validation, {len(y)} scans     log loss   smooth ECE")
    for j, name in enumerate(REPAIRS):
        losses = (
            -search.cv_results_[f"mean_test_{score}"][j] for score in ("neg_log_loss", "neg_smooth_ece")
        )
        chosen = "   <- chosen" if j == search.best_index_ else ""
        print(f"  {name:<44}" + "".join(f"{loss:12.3f}" for loss in losses) + chosen)
    return search.best_estimator_


def report(y, forecasts):
    """Print every measure of every forecast with its 95 % confidence interval.

    Noise makes every estimate of a calibration error too large; the intervals allow for that, so they lie
    lower.
    """
    print(f"\nOn {len(y)} new scans, with 95 % intervals" + "".join(f"{when:>26}" for when in forecasts))
    for name, measure in (MEASURES | PROPER_SCORES).items():
        method = "percentile" if name in PROPER_SCORES else "inversion"
        cells = ""
        for p in forecasts.values():
            interval = confidence_interval(y, p, metric=measure, method=method, random_state=0)
            cells += f"{interval.estimate:11.3f} [{interval.lower:.3f}, {interval.upper:.3f}]"
        print(f"  {name:<36}{cells}")


def draw(y, forecasts, verdicts):
    """Save the reliability diagrams side by side, each explained at one of its points."""
    figure = Figure(figsize=(11, 5.9), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, (when, p) in zip(axes, forecasts.items(), strict=True):
        curve = ReliabilityDisplay.from_predictions(y, p, ax=ax, error_interval=True).curve
        actual = np.interp(0.3, curve.predicted, curve.observed)
        ax.annotate(
            f"where it says 30 %,\n{100 * actual:.0f} % are",
            xy=(0.3, actual),
            xytext=(0.62, 0.1),
            arrowprops={"arrowstyle": "->", "color": "0.2"},
        )
        pvalue = verdicts[when].pvalue
        verdict = "not calibrated" if pvalue < 0.05 else "nothing against calibration"
        ax.set_title(f"{when.capitalize()}: {verdict} (T-Cal p = {pvalue:.3f})")
    axes[0].text(0.0, -0.1, "how often each\nis predicted", color="0.3", va="center")
    figure.suptitle(
        "Is a handwritten digit five or more? A random forest before and after its repair, on new scans"
    )
    figure.savefig(PICTURE, dpi=150)


def main():
    X, digit = load_digits(return_X_y=True)
    y = (digit >= 5).astype(int)
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=0.3, stratify=digit, random_state=0)
    X_repair, X_test, y_repair, y_test = train_test_split(X_rest, y_rest, train_size=0.5, random_state=0)

    classifier = RandomForestClassifier(n_estimators=50, max_depth=3, random_state=0).fit(X_train, y_train)
    print(f"Is a handwritten digit five or more? A random forest, trained on {len(y_train)} scans.")
    repaired = choose_repair(classifier, X_repair, y_repair)

    models = {"before": classifier, "after": repaired}
    forecasts = {when: model.predict_proba(X_test)[:, 1] for when, model in models.items()}
    report(y_test, forecasts)

    print("\nCould the miscalibration be chance? T-Cal")
    verdicts = {when: TCal(random_state=0).test(y_test, p) for when, p in forecasts.items()}
    for when, verdict in verdicts.items():
        answer = "no" if verdict.pvalue < 0.05 else "yes"
        print(f"  {when:<7} p = {verdict.pvalue:.3f}: {answer}")

    certificate = repaired.calibrators_[0].cutoff_certificate(confidence=0.95, random_state=0)
    print("\nGuarantee for all new scans of this kind, from the scans of the repair alone")
    print(f"  with 95 % confidence the cutoff calibration error is at most {certificate:.3f}:")
    print("  no threshold rule loses more than that against the best one")
    draw(y_test, forecasts, verdicts)
    print(f"\nPicture: {PICTURE}")


if __name__ == "__main__":
    main()
