"""Shared parts of speed benchmarks: processor time, peak memory, and processes with limits for each call."""

import ctypes
import json
import os
import queue
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

Task = Callable[[], object]

THREADS = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)
#: Seconds; shorter calls are repeated for at least this time.
SHORTEST = 2e-3
#: Maximum elapsed time, as a multiple of the limit of processor time, on a shared machine.
PATIENCE = 60
#: Allowance in seconds of processor time for imports and data.
PREPARATION = 60


@dataclass
class Measured:
    """Seconds of processor time of each repetition and of np.sort, and peak memory in bytes.

    ``status`` is "ok", "limit" if a call exceeded the time limit, "memory" if it exceeded the memory limit,
    or "failed", and ``message`` has the reason.
    """

    seconds: list[float] = field(default_factory=list)
    sort: list[float] = field(default_factory=list)
    peak: int | None = None
    status: str = "ok"
    message: str = ""


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
    """Peak memory that a block adds, in bytes; None where Linux's accounting is not available."""

    def __enter__(self) -> Self:
        self.bytes: int | None = None
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
            self.bytes = max(_status("VmHWM") - self._before, 0)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields[name].split()[0]) * 1024


def measure(task: Task, sort: Task, budget: float, say: Callable[[dict[str, Any]], None]) -> None:
    """Time a task alternately with a sort, and report results by ``say`` as soon as they are known.

    The first call warms up, and is only counted if it takes longer than the budget.
    """
    say({"ready": True})
    with PeakMemory() as memory:
        first = clock(task)
    say({"peak": memory.bytes})
    first_sort = clock(sort)
    if first > budget:
        say({"seconds": first, "sort": first_sort})
        if first > 4 * budget:
            return
    repeats, sort_repeats, spent, rounds = repeats_of(first), repeats_of(first_sort), 0.0, 0
    least = 3 if first < budget else 1
    while rounds < least or (spent < budget and rounds < 51):
        seconds = clock(task, repeats)
        sorted_in = clock(sort, sort_repeats)
        say({"seconds": seconds, "sort": sorted_in})
        spent += seconds * repeats + sorted_in * sort_repeats
        rounds += 1


def allow_memory(more: int) -> None:
    """Limit the memory of this process to ``more`` bytes above the current amount."""
    with suppress(OSError, KeyError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + more, resource.RLIM_INFINITY))


def serve(answer: Callable[[dict[str, Any], Callable[[dict[str, Any]], None]], None]) -> None:
    """Answer requests, one line of JSON each, until the input ends; output of the tasks is discarded."""
    out = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=out, flush=True)

    for line in sys.stdin:
        try:
            answer(json.loads(line), say)
            say({"status": "ok"})
        except MemoryError as error:
            say({"status": "memory", "message": str(error)})
        except Exception as error:
            # torch reports a lack of memory in the text of another exception
            lack = "alloc" in str(error).lower() and "memory" in str(error).lower()
            message = f"{type(error).__name__}: {error}".splitlines()[0]
            say({"status": "memory" if lack else "failed", "message": message})


class Worker:
    """A process that measures, and is restarted if a call takes too long."""

    def __init__(self, command: list[str], environment: dict[str, str], limit: float) -> None:
        self._command, self._environment, self._limit = command, environment, limit
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any]) -> Measured:
        """Return the measurement of the process."""
        found = Measured()
        for message in self._messages(request):
            if "seconds" in message:
                found.seconds.append(message["seconds"])
                found.sort.append(message["sort"])
            elif "peak" in message:
                found.peak = message["peak"]
            else:
                found.status, found.message = message["status"], message.get("message", "")
        return found

    def ask_once(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return one answer that is not a measurement."""
        found: dict[str, Any] = {}
        for message in self._messages(request):
            found |= message
        if found["status"] != "ok":
            raise RuntimeError(found["message"])
        return found

    def _messages(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        ready = False
        while True:
            line = self._next_line(self._limit if ready else PREPARATION)
            if not line:
                code = self._stop()
                slow = code is None
                why = f"more than {self._limit:g} s" if slow else f"the process ended with code {code}"
                yield {"status": "limit" if slow else "failed", "message": why}
                return
            message = json.loads(line)
            if "ready" in message:
                ready = True
                continue
            yield message
            if "status" in message:
                if message["status"] != "ok":
                    # a failed call may not have freed its memory
                    self._stop()
                return

    def _next_line(self, limit: float) -> str:
        """Return the next line of the process; empty if it has ended or exceeds the limit."""
        assert self._process is not None
        pid, start = self._process.pid, time.monotonic()
        used = _processor_seconds(pid)
        while True:
            with suppress(queue.Empty):
                return self._lines.get(timeout=0.1)
            now = _processor_seconds(pid)
            late = time.monotonic() - start > PATIENCE * (limit + 1)
            if late or (used is not None and now is not None and now - used > limit):
                return ""

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | THREADS | self._environment,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=_read, args=(self._process.stdout, self._lines), daemon=True)
        self._reader.start()

    def _stop(self) -> int | None:
        """End the process and return its exit code, None if it was still running."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        code = self._process.poll()
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self._process = None
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._stop()


def _read(stream: Any, lines: "queue.Queue[str]") -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _processor_seconds(pid: int) -> float | None:
    """Return the processor time that a process has used; None where Linux's accounting is not available.

    A timer within the process would reduce the resolution of its own clock.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return None


class Clock:
    """A process that answers each line with a time in seconds."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment
        )

    def ask(self, line: str) -> float:
        """Return the measured time in seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that measures {line!r} ended; see its message above")
        return float(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
