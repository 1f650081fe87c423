"""``python -m sklearn_calib``: calibration reports from the shell."""

import sys

from sklearn_calib.report._command import main

if __name__ == "__main__":
    sys.exit(main())
