"""``python -m sklearn_calib``, or ``sklearn-calib``: calibration reports from the shell."""

import signal
import sys

__all__ = ["run"]


def run() -> int:
    """Run the command line interface; a signal ends it without a traceback.

    Returns
    -------
    int
        The exit code; 128 plus the signal number if a signal ended the process.
    """
    # partially written files are removed on exit
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        from sklearn_calib.report._command import main

        return main()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(run())
