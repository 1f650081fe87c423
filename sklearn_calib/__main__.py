"""``python -m sklearn_calib``, or ``sklearn-calib``: calibration reports from the shell."""

import sys

from sklearn_calib.report._command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
