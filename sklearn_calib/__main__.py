"""``python -m sklearn_calib``, or ``sklearn-calib``: calibration reports from the shell."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status; Ctrl-C while it is imported, too, is no error."""
    try:
        from sklearn_calib.report._command import main as run
    except KeyboardInterrupt:
        return 130
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
