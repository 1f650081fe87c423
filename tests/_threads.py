"""Functions that run in threads at the same time."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

__all__ = ["switch_often", "together"]


@pytest.fixture(autouse=True)
def switch_often():
    """Let threads take turns more often than usual, so that they meet; active in a file that imports it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(calls):
    """Start functions at the same time, each in a thread of its own; return their results in order."""
    start = threading.Barrier(len(calls))

    def run(call):
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(run, call) for call in calls]]
