"""The command line as its console script runs it, in this process."""

import signal
import sys
from unittest.mock import patch

from sklearn_calib.__main__ import run

__all__ = ["main"]


def main(arguments):
    """Run the program with these arguments and return its exit code."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with patch.object(sys, "argv", ["sklearn_calib", *map(str, arguments)]):
            return run()
    finally:
        signal.signal(signal.SIGTERM, handler)
