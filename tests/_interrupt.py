"""Break a call off in the middle, as Ctrl-C or a lack of memory does.

``count_calls(run)`` says how many calls of functions ``run()`` makes in this thread, those of C included;
``interrupt(run, at)`` raises :class:`Interrupt` at call number ``at``, counted from 1. ``events=RETURNS``
means the ends of calls of C instead of the beginnings of all calls. ``spread(total)`` are numbers to try: the
first and the last few, and some evenly between.
"""

import gc
import inspect
import sys

import numpy as np

__all__ = ["CALLS", "RETURNS", "Interrupt", "count_calls", "interrupt", "spread"]

CALLS, RETURNS = ("call", "c_call"), ("c_return",)


class Interrupt(BaseException):
    """What the call is broken off with; no Exception, as KeyboardInterrupt is none."""


def count_calls(run, events=CALLS):
    """Return how many calls ``run()`` makes."""
    counter = _Counter(None, events)
    _profiled(run, counter)
    # the last one takes the profiler off, the first one has put it on
    return counter.calls - 1


def interrupt(run, at, events=CALLS):
    """Call ``run()`` and break it off at call number ``at``; return whether it came that far."""
    try:
        _profiled(run, _Counter(at, events))
    except Interrupt:
        return True
    return False


def spread(total, n_between=2, n_ends=2):
    """Return numbers of calls from 1 to ``total``: some evenly spread, and all near both ends."""
    ends = [*range(1, n_ends + 1), *range(total - n_ends + 1, total + 1)]
    between = np.linspace(1, total, n_between + 2)[1:-1].astype(int).tolist()
    return sorted(at for at in {*ends, *between} if 1 <= at <= total)


class _Counter:
    def __init__(self, at, events):
        self.at, self.events, self.calls = at, events, 0

    def __call__(self, frame, event, arg):
        if event not in self.events:
            return
        self.calls += 1
        # python ignores what is raised while a generator is closed, so the next call elsewhere is broken off
        in_generator = bool(frame.f_code.co_flags & inspect.CO_GENERATOR)
        if self.at is not None and self.calls >= self.at and not in_generator:
            self.at = None
            raise Interrupt(f"at call {self.calls}, of {frame.f_code.co_name}")


def _profiled(run, counter):
    before, collects = sys.getprofile(), gc.isenabled()
    # collections come at any time, and call what waits for the end of an object
    gc.disable()
    sys.setprofile(counter)
    try:
        run()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
