"""Rank of the default calibrators in CalArena, from its files.

    python benchmarks/calarena.py FOLDER

FOLDER is a copy of github.com/probkit/CalArena (arXiv:2605.30188) with the files NAME.h5 of its data in
calibration_benchmarks; h5py must be installed. The default calibrators are fitted and evaluated as there, and
compared with the stored results of other methods, by the Brier score, summed over classes. "win rate" is the
fraction of other methods whose score is larger, "improvement" the post-hoc improvement (PHI), the score of
the base model minus that of the calibrated one, in hundredths; both are means over experiments, as in its
utils.py.

    --smoke              simulated forecasts, as a quick check
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from _calibrator_peers import own_binary, own_multiclass
from _options import parser_of

from sklearn_calib.datasets import make_forecasts

KEYS = ["dataset", "model", "cal_size", "test_size"]
PARTS = ["probas_cal", "labels_cal", "probas_test", "labels_test"]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    arguments = parser.parse_args()
    if arguments.smoke:
        rows, sample = pd.DataFrame([["simulated", "none", 500, 500]], columns=KEYS), make_forecasts(1000)
        p, y = np.sqrt(sample.y_proba), sample.y_true
        base = rows.assign(**{"Base-model_brier": brier_score(p[500:], y[500:])})
        print(compared("smoke-binary", rows, [base], lambda place: [p[:500], y[:500], p[500:], y[500:]]))
        return
    import h5py

    folder = arguments.folder / "calibration_benchmarks"
    for path in sorted(folder.glob("*.h5")):
        rows = pd.read_csv(folder / f"{path.stem}-experiments.csv")
        stored = sorted((arguments.folder / "results" / path.stem).glob("*.csv"))
        with h5py.File(path) as data:
            found = compared(
                path.stem,
                rows,
                [pd.read_csv(file) for file in stored],
                lambda place, data=data: [data[place][part][:] for part in PARTS],
            )
        print(f"\n{path.stem}, {len(rows)} experiments\n{found.round(3)}", flush=True)


def compared(
    name: str, rows: pd.DataFrame, stored: list[pd.DataFrame], read: Callable[[str], list[np.ndarray]]
) -> pd.DataFrame:
    """Evaluate the default on a benchmark; return the win rate and the improvement of each method."""
    method = own_multiclass()["log average"] if name.endswith("multiclass") else own_binary()["spline"]
    scores = []
    for place in rows["dataset"] + "/" + rows["model"]:
        p, y, new, label = read(place)
        scores.append(brier_score(method(p.astype(float), y.astype(int), new.astype(float)), label))
    table = rows[KEYS].assign(sklearn_calib_brier=scores)
    for other in stored:
        table = table.merge(other[[*KEYS, *other.filter(regex="_brier$")]], on=KEYS)
    brier = table.drop(columns=KEYS).rename(columns=lambda column: column.removesuffix("_brier"))
    wins = {m: brier.drop(columns=m).gt(brier[m], axis=0).mean(axis=1).mean() for m in brier}
    gain = 100.0 * (brier["Base-model"].mean() - brier.mean())
    return pd.DataFrame({"win rate": wins, "improvement": gain}).sort_values("win rate", ascending=False)


def brier_score(proba: np.ndarray, label: np.ndarray) -> float:
    """Return the Brier score, summed over classes."""
    proba = np.column_stack((1.0 - proba, proba)) if proba.ndim == 1 else proba
    return float(np.square(proba - np.eye(proba.shape[1])[label]).sum(axis=1).mean())


if __name__ == "__main__":
    main()
