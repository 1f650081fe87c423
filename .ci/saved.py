"""Write all kinds of estimators to a folder with one version of the package, read them with another.

``python .ci/saved.py write FOLDER`` fits and saves; ``python .ci/saved.py read FOLDER`` loads, and compares
what they predict with what they predicted. The tests beside it say what there is; the package itself is the
one that is installed, or that stands in PYTHONPATH.
"""

import argparse
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))


def write(folder: Path) -> int:
    """Save each fitted calibrator with its scores and probabilities."""
    from tests import _every

    folder.mkdir(parents=True, exist_ok=True)
    for name in _every.CALIBRATOR_NAMES:
        calibrator, scores = _every.fitted_calibrator(name)
        with (folder / f"{name}.pickle").open("wb") as file:
            pickle.dump((calibrator, scores, calibrator.predict_proba(scores)), file)
    print(f"{len(_every.CALIBRATOR_NAMES)} saved")
    return 0


def read(folder: Path) -> int:
    """Load what was saved; return 1 if anything warns, fails or predicts other probabilities."""
    faults = []
    paths = sorted(folder.glob("*.pickle"))
    for path in paths:
        try:
            with warnings.catch_warnings(), path.open("rb") as file:
                warnings.simplefilter("error")
                calibrator, scores, expected = pickle.load(file)
                np.testing.assert_allclose(calibrator.predict_proba(scores), expected, rtol=1e-12, atol=1e-14)
        except Exception as error:  # whatever it is, the others are tried too
            faults.append(f"{path.stem}: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
    print("\n".join([*faults, f"{len(paths) - len(faults)} of {len(paths)} are read as they were saved"]))
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["write", "read"])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    sys.exit(write(options.folder) if options.what == "write" else read(options.folder))
