"""Processor time and peak memory of calls, with limits of both."""

import ctypes
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

Task = Callable[[], object]

#: Seconds; shorter calls are repeated for at least this time.
SHORTEST = 2e-3


def vector_features() -> list[str]:
    """Return the processor features beyond its baseline that numpy supports and detects."""
    core = np._core if hasattr(np, "_core") else np.core
    found = core._multiarray_umath.__cpu_features__
    return [name for name in core._multiarray_umath.__cpu_dispatch__ if found.get(name)]


def clock(task: Task, repeats: int = 1) -> float:
    """Return the processor time of one call, of all threads together."""
    start = time.process_time()
    for _ in range(repeats):
        task()
    return (time.process_time() - start) / repeats


def repeats_of(seconds: float) -> int:
    """Return the number of calls needed for an accurate measurement."""
    return max(1, round(SHORTEST / max(seconds, 1e-6)))


class PeakMemory:
    """Peak memory that a block adds, in bytes; NaN where Linux's accounting is not available."""

    def __enter__(self) -> Self:
        self.bytes = float("nan")
        with suppress(OSError, AttributeError):
            # memory freed before must not be reused, as it would not be counted
            ctypes.CDLL(None).malloc_trim(0)
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._before = _status("VmRSS")
        except (OSError, KeyError):
            self._before = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self.bytes = float(max(_status("VmHWM") - self._before, 0))


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields[name].split()[0]) * 1024


def measure(task: Task, sort: Task, budget: float) -> dict[str, Any]:
    """Time a task alternately with a sort; return times of both, and the peak memory.

    The first call warms up, and is only counted if it takes longer than four times the budget.
    """
    with PeakMemory() as memory:
        first = clock(task)
    if not budget:
        return {"seconds": [first], "sort": [max(clock(sort), 1e-9)], "peak": memory.bytes}
    repeats, sort_repeats = repeats_of(first), repeats_of(clock(sort))
    first_sort = clock(sort, sort_repeats)
    if first > 4 * budget:
        return {"seconds": [first], "sort": [first_sort], "peak": memory.bytes}
    times: list[tuple[float, float]] = []
    least, spent = 1 if first > budget else 3, 0.0
    while len(times) < least or (spent < budget and len(times) < 51):
        times.append((clock(task, repeats), clock(sort, sort_repeats)))
        spent += times[-1][0] * repeats + times[-1][1] * sort_repeats
    seconds, sorted_in = zip(*times, strict=True)
    return {"seconds": seconds, "sort": sorted_in, "peak": memory.bytes}


def allow(seconds: float, memory: float) -> None:
    """Limit this process to so many more seconds, and to so many more bytes of memory.

    The system ends a process that exceeds the first limit by a signal; the second raises MemoryError. The
    first is elapsed time: under a limit of processor time Linux counts that in ticks of milliseconds.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with suppress(OSError, KeyError, ValueError):
        most = _status("VmSize") + int(memory)
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
