"""Numbers of files, functions and calls, and the call depth, of four common calls.

``python benchmarks/call_paths.py`` prints a table; only code of the package is counted.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from _options import options_of
from sklearn.linear_model import LogisticRegression

import sklearn_calib
from sklearn_calib import CalibratedClassifier
from sklearn_calib.inference import TCal
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.report import calibration_report

PACKAGE = str(Path(sklearn_calib.__file__).parent)


class CallPaths:
    """Counter of the functions of the package that run inside the ``with`` block."""

    def __enter__(self) -> "CallPaths":
        self.functions: set[tuple[str, int]] = set()
        self.calls = self.depth = self._level = 0
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if event == "return":
            self._level = max(self._level - 1, 0)
            return
        code = frame.f_code
        self.functions.add((code.co_filename, code.co_firstlineno))
        self.calls += 1
        self._level += 1
        self.depth = max(self.depth, self._level)

    def row(self, name: str) -> str:
        """Return the line of a table."""
        files = {path for path, _ in self.functions}
        return f"{name:<40} {len(files):>6} {len(self.functions):>10} {self.calls:>9,} {self.depth:>6}"


def calls(n: int) -> dict[str, Callable[[], Any]]:
    """Return the calls to analyze."""
    rng = np.random.default_rng(0)
    p = rng.random(n)
    y = (rng.random(n) < p**1.2).astype(int)
    X = rng.standard_normal((n, 4))
    target = (X[:, 0] + rng.standard_normal(n) > 0).astype(int)
    return {
        "smooth_ece": lambda: smooth_ece(y, p),
        "TCal.test": lambda: TCal(random_state=0).test(y, p),
        "CalibratedClassifier.fit": lambda: CalibratedClassifier(LogisticRegression()).fit(X, target),
        "calibration_report": lambda: calibration_report(y, p, random_state=0),
    }


def main() -> None:
    options = options_of(__doc__, n=500)
    print(f"{'call, n = ' + str(options.n):<40} {'files':>6} {'functions':>10} {'calls':>9} {'depth':>6}")
    for name, call in calls(options.n).items():
        if options.smoke and name == "calibration_report":
            continue
        call()  # imports and caches of the first call are not counted
        with CallPaths() as paths:
            call()
        print(paths.row(name))


if __name__ == "__main__":
    main()
