"""Cost of early stopping on the samples to which the calibrator is fitted.

Histogram gradient boosting in CalibratedClassifier is stopped on (a) a validation set of its own, a fifth of
the samples, (b) a fifth of the training part of each fold, (c) the held-out part of the fold, with whose
scores the calibrator is fitted as well, or (d) not at all, after 100 iterations. For each the script prints
the mean log loss on new samples, its difference from (b) and the calibration slope of the single pairs of
classifier and calibrator, which is below 1 if their predictions are too extreme, with standard errors. It
needs scikit-learn 1.7. The table in benchmarks/results was written by

    python benchmarks/early_stopping.py --write benchmarks/results

in about a minute.
"""

from pathlib import Path

import numpy as np
from _options import parser_of
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sklearn_calib import CalibratedClassifier
from sklearn_calib.metrics import calibration_summary

STOPPED = {"early_stopping": True, "max_iter": 1000, "learning_rate": 0.2, "random_state": 0}


class StopOnHeldOut(ClassifierMixin, BaseEstimator):
    """Boosting that stops on the rows of the whole data that are not among its own."""

    def fit(self, X, y, rows, eval_X, eval_y):
        """Fit to the samples ``rows`` of ``eval_X``."""
        rest = np.setdiff1d(np.arange(len(eval_y)), rows)
        model = HistGradientBoostingClassifier(**STOPPED)
        self.model_ = model.fit(X, y, X_val=eval_X[rest], y_val=eval_y[rest])
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        """Return the probabilities of the model."""
        return self.model_.predict_proba(X)


def predictions(X, y, X_new):
    """Yield the predictions for new samples by each way, and those of its pairs."""
    inside = HistGradientBoostingClassifier(**STOPPED, validation_fraction=0.2)
    outside = HistGradientBoostingClassifier(**STOPPED)
    X_fit, X_val, y_fit, y_val = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    ways = {
        "own validation set": (outside, X_fit, y_fit, {"X_val": X_val, "y_val": y_val}),
        "part of the training part": (inside, X, y, {}),
        "held-out part": (StopOnHeldOut(), X, y, {"rows": np.arange(len(y)), "eval_X": X, "eval_y": y}),
        "100 iterations": (
            HistGradientBoostingClassifier(**STOPPED | {"early_stopping": False, "max_iter": 100}),
            X,
            y,
            {},
        ),
    }
    for name, (estimator, features, labels, params) in ways.items():
        model = CalibratedClassifier(estimator, ensemble=True).fit(features, labels, **params)
        pairs = [pair.predict_proba(X_new)[:, 1] for pair in model.calibrated_classifiers_]
        yield name, model.predict_proba(X_new)[:, 1], pairs


def main():
    parser = parser_of(__doc__, samples=[1000], repetitions=12)
    parser.add_argument("--write", metavar="FOLDER", help="write early_stopping.md into this folder")
    options = parser.parse_args()
    sizes, repetitions, n_new = options.samples, options.repetitions, 4000
    if options.smoke:
        sizes, repetitions, n_new = [200], 2, 500
    lines = ["| samples | stopped on | log loss | difference | slope of pairs |", "|---|---|---|---|---|"]
    print("\n".join(lines))
    for n in sizes:
        losses, slopes = {}, {}
        for seed in range(repetitions):
            X, y = make_classification(
                n + n_new, n_informative=8, flip_y=0.2, class_sep=0.7, random_state=seed
            )
            for name, p, pairs in predictions(X[:n], y[:n], X[n:]):
                losses.setdefault(name, []).append(log_loss(y[n:], p))
                single = [calibration_summary(y[n:], each).slope.estimate for each in pairs]
                slopes.setdefault(name, []).append(np.mean(single))
        for name, values in losses.items():
            gap = np.subtract(values, losses["part of the training part"])
            root = np.sqrt(repetitions)
            difference = f"{gap.mean():+.4f} ± {gap.std(ddof=1) / root:.4f}"
            slope = f"{np.mean(slopes[name]):.3f} ± {np.std(slopes[name], ddof=1) / root:.3f}"
            lines.append(f"| {n} | {name} | {np.mean(values):.4f} | {difference} | {slope} |")
            print(lines[-1], flush=True)
    if options.write:
        (Path(options.write) / "early_stopping.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
