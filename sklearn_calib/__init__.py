"""Measure, test, improve and certify the calibration of predicted probabilities."""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

try:
    from sklearn_calib._persistence import SavedVersionWarning
    from sklearn_calib._version import __version__
    from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer, SelectiveClassifier
    from sklearn_calib.scorers import get_scorer, get_scorer_names
except KeyboardInterrupt:
    # the command line has not begun to catch it
    if Path(sys.argv[0]).stem in ("-m", "sklearn-calib"):
        sys.exit(130)
    raise

__all__ = [
    "CalibratedClassifier",
    "CrossFitScorer",
    "SavedVersionWarning",
    "SelectiveClassifier",
    "__version__",
    "get_scorer",
    "get_scorer_names",
]

# Subpackages that nothing above needs load when they are first used, so that the package is quick to import.
_LATER = ("datasets", "export", "inference", "monitor", "plot", "report", "sketch")
_SUBPACKAGES = ("calibrators", "meta", "metrics", "scorers", *_LATER)

if TYPE_CHECKING:
    from sklearn_calib import datasets as datasets
    from sklearn_calib import export as export
    from sklearn_calib import inference as inference
    from sklearn_calib import monitor as monitor
    from sklearn_calib import plot as plot
    from sklearn_calib import report as report
    from sklearn_calib import sketch as sketch
else:

    def __getattr__(name: str) -> object:
        if name in _LATER:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *_SUBPACKAGES})
