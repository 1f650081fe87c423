"""Log loss of calibrators that use logarithms of probabilities, after models that predict exactly 0 and 1.

    python benchmarks/clipped_scores.py [--write FOLDER]

Forests, trees and nearest neighbors are trained on the tables of scikit-learn; other samples are used for
calibration, and the rest for evaluation. "fixed" is the same calibrator with probabilities clipped at 2**-53,
"fitted" with its own limit; "sigmoid" is that of scikit-learn 1.9, of each class against the rest. Log losses
are means over tables and splits; naive Bayes and logistic regression, which return few zeros or none, show
what the limit costs. "worst excess" is the largest mean of "fitted" minus "fixed" on a table.

    --repetitions 2      random splits
    --rows 100           numbers of calibration samples
    --write FOLDER       write the table
    --smoke              two small tables, one split, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _forecasts import CLASSIFIERS, Split, table_splits
from _options import parser_of
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib import calibrators as ours

TWO, SEVERAL = ["breast cancer", "odd digits", "diabetes"], ["digits", "wine", "diabetes, thirds"]
MODELS = {
    "random forest": RandomForestClassifier(100),
    "tree": DecisionTreeClassifier(),
    "tree, leaves of 5": DecisionTreeClassifier(min_samples_leaf=5),
    "5 neighbors": KNeighborsClassifier(5),
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
    parser = parser_of(__doc__, repetitions=2, rows=[100])
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    repetitions, rows = (1, [50]) if options.smoke else (options.repetitions, options.rows)
    shown = {}
    for title, tables in (("two", TWO), ("several", SEVERAL)):
        found = {}
        for split in table_splits(
            tables[1:2] if options.smoke else tables, rows, range(repetitions), print, MODELS
        ):
            found[split.classifier, split.source, split.rows, split.repetition] = losses(split)
        cells = pd.DataFrame(found).T.groupby(level=[0, 1], sort=False).mean()
        table = cells.groupby(level=0, sort=False).mean()
        for name in {name for name, limit in table if limit == "fitted"}:
            excess = cells[name, "fitted"] - cells[name, "fixed"]
            table[name, "worst excess"] = excess.groupby(level=0).max()
        for column in sorted(table, key=lambda column: column[0]):
            label = ", ".join([f"{title} classes", *filter(None, column)])
            shown[label] = [f"{value:.3f}" for value in table[column]]
    lines = [
        ["log loss", *MODELS],
        ["---"] * (1 + len(MODELS)),
        *([name, *row] for name, row in shown.items()),
    ]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    print(text)
    if options.write:
        (options.write / "clipped_scores.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
