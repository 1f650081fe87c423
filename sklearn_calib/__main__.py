"""``python -m sklearn_calib``, or ``sklearn-calib``: calibration reports from the shell."""

import signal
import sys

__all__ = ["run"]


def run() -> int:
    """Run the command line as a process, which a signal ends without a trace.

    Returns
    -------
    int
        What the process returns to the shell; 128 and the number of the signal if one ended it.
    """
    # files that are being written are removed on the way out
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        from sklearn_calib.report._command import main

        return main()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(run())
