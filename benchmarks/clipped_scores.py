"""Log loss of calibrators that use logarithms of probabilities, after models that predict exactly 0 and 1.

    python benchmarks/clipped_scores.py [--write FOLDER]

Forests, trees and nearest neighbours are trained on the tables of scikit-learn; other samples are used for
calibration, and the rest for evaluation. "fixed" is the same calibrator with probabilities clipped at 2**-53,
"fitted" with its own limit; "sigmoid" is that of scikit-learn 1.9, of each class against the rest. Log losses
are means over tables and splits; naive Bayes and logistic regression, which return few zeros or none, show
what the limit costs. "worst" is the largest mean excess of "fitted" over "fixed" on a table.

    --repetitions 3      random splits
    --rows 50 200        numbers of calibration samples
    --write FOLDER       write the tables
    --smoke              two tables, one split, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _forecasts import CLASSIFIERS, Split, table_splits
from _options import parser_of
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib import calibrators as ours

TWO, SEVERAL = ["breast cancer", "odd digits", "diabetes"], ["digits", "wine", "diabetes, thirds"]
MODELS = {
    "random forest": RandomForestClassifier(100),
    "tree": DecisionTreeClassifier(),
    "tree, leaves of 5": DecisionTreeClassifier(min_samples_leaf=5),
    "5 neighbours": KNeighborsClassifier(5),
    **{name: CLASSIFIERS[name] for name in ("naive Bayes", "logistic regression")},
}
BINARY = {
    "Platt": ours.PlattCalibrator,
    "temperature": ours.TemperatureCalibrator,
    "beta": ours.BetaCalibrator,
}
JOINT = {
    "temperature": ours.TemperatureCalibrator,
    "vector": ours.VectorScalingCalibrator,
    "matrix": ours.MatrixScalingCalibrator,
    "structured matrix": ours.StructuredMatrixScalingCalibrator,
    "Dirichlet": ours.DirichletCalibrator,
}
FIXED = 2.0**-53


def fixed(kind: type) -> Any:
    """Return a calibrator of a kind whose limit is not fitted."""

    class Fixed(kind):
        def _fit_clip(self, scores, codes, weight):
            self.min_proba_ = FIXED

    return Fixed()


def losses(split: Split) -> dict[tuple[str, str], float]:
    """Return the log loss of each calibrator on one split."""
    kinds = BINARY if split.proba.shape[1] == 2 else JOINT
    sigmoid = ours.OneVsRestCalibrator(ours.PlattCalibrator(link="identity"))
    if split.proba.shape[1] == 2:
        sigmoid = sigmoid.calibrator
    chosen = {("", "sigmoid"): sigmoid}
    for name, kind in kinds.items():
        chosen |= {(name, "fixed"): fixed(kind), (name, "fitted"): kind()}
    found = {}
    for name, calibrator in chosen.items():
        p = calibrator.fit(split.fit_proba, split.fit_label).predict_proba(split.proba)
        of_label = p[np.arange(p.shape[0]), split.label]
        found[name] = -float(np.log(np.maximum(of_label, FIXED)).mean())
    return found


def main() -> None:
    parser = parser_of(__doc__, repetitions=3, rows=[50, 200])
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    repetitions, rows = (1, [50]) if options.smoke else (options.repetitions, options.rows)
    for name, tables in (("two", TWO), ("several", SEVERAL)):
        tables = tables[:1] if options.smoke else tables
        found = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for split in table_splits(tables, rows, range(repetitions), print, MODELS):
                found[split.classifier, split.source, split.rows, split.repetition] = losses(split)
        table = pd.DataFrame(found).T
        cells = table.groupby(level=[0, 1], sort=False).mean()
        shown = cells.groupby(level=0, sort=False).mean()
        for calibrator in table.columns.levels[0][1:]:
            excess = cells[calibrator, "fitted"] - cells[calibrator, "fixed"]
            shown[calibrator, "worst"] = excess.groupby(level=0).max()
        shown = shown.sort_index(axis=1, level=0, sort_remaining=False)
        shown.columns = [" ".join(pair).strip() for pair in shown.columns]
        print(f"\n{name} classes, {len(table)} splits\n{shown.T.to_string(float_format='{:.3f}'.format)}")
        print(cells.iloc[:, :3].to_string(float_format="{:.3f}".format), flush=True)
        if options.write:
            shown.T.round(3).to_csv(options.write / f"clipped_scores_{name}.csv", index_label="calibrator")


if __name__ == "__main__":
    main()
