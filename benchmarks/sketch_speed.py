"""Speed, memory and error of a sketch, as ratios measured in one run.

    python benchmarks/sketch_speed.py [throughput] [cutoff] [interval] [stream]

throughput  samples per second of one thread: spread over [0, 1], rare events, weighted, and small batches
cutoff      cutoff calibration error from a sketch, compared with the exact one
interval    smooth ECE with an interval of 200 resamples from a sketch, compared with relplot's smECE (without
an
            interval) if it can be imported
stream      --rows 1e9 simulated samples added to a sketch in batches, with the peak memory of the process

All four by default. Ratios are to np.sort of as many predictions, measured alternately, with its vector
instructions and, in a second process, without them. Times are processor time, on which other load has less
influence than on elapsed time; the table shows medians.

    --rows 1e9      samples of the stream, in batches of --batch 1e6
    --size 1e7      samples of the other parts
    --repeat 5      repetitions
    --smoke         small sizes, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
from _timing import Clock, vector_features

from sklearn_calib.inference import confidence_interval
from sklearn_calib.metrics import cutoff_calibration_error, smooth_ece
from sklearn_calib.sketch import CalibrationSketch

FEATURES = "NPY_DISABLE_CPU_FEATURES"
PARTS = ("throughput", "cutoff", "interval", "stream")


def processor_seconds(call: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


class Plain(Clock):
    """np.sort without its vector instructions, in a separate process."""

    def __init__(self) -> None:
        super().__init__([sys.executable, __file__, "--serve"], {FEATURES: " ".join(vector_features())})

    def sort(self, n: int) -> float:
        """Return the processor time of sorting n numbers."""
        return self.ask(str(n))

    @staticmethod
    def serve() -> None:
        """Answer requests from standard input until it ends."""
        for line in sys.stdin:
            values = np.random.default_rng(0).random(int(line))
            print(processor_seconds(lambda values=values: np.sort(values)), flush=True)


def rows(kind: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return outcomes and slightly wrong predictions."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 300.0, n) if kind == "rare events" else rng.random(n)
    return (rng.random(n) < p**1.02).astype(np.int64), p


def in_batches(y: np.ndarray, p: np.ndarray, size: int, w: np.ndarray | None = None) -> CalibrationSketch:
    """Return the sketch of samples that are added in batches."""
    sketch = CalibrationSketch()
    for start in range(0, p.shape[0], size):
        part = slice(start, start + size)
        sketch.update(y[part], p[part], sample_weight=None if w is None else w[part])
    # completes pending sums
    assert sketch.n_bins
    return sketch


def through_sketch(y: np.ndarray, p: np.ndarray) -> float:
    """Return the cutoff calibration error of the sketch of the samples."""
    return cutoff_calibration_error(CalibrationSketch().update(y, p))


def in_turns(calls: list[Callable[[], object]], n: int, repeat: int, plain: Plain) -> np.ndarray:
    """Return processor times of the calls and of the plain sort, shape (calls + 1, repeat)."""
    turns = [[*map(processor_seconds, calls), plain.sort(n)] for _ in range(repeat)]
    return np.array(turns).T


def throughput(n: int, repeat: int, plain: Plain) -> None:
    print(f"| {'samples':<28} | {'batch':>10} |      million/s | ratio to sort | to plain sort |")
    print("|---|---|---|---|---|")
    cases = [
        ("spread over [0, 1]", "uniform", n, {}),
        ("rare events", "rare events", n, {}),
        ("float32", "uniform", n, {"p": np.float32}),
        ("outcomes of one byte", "uniform", n, {"y": np.uint8}),
        ("weights", "uniform", n, {"w": np.float64}),
    ]
    sizes = [size for size in (10**2, 10**3, 10**4, 10**5, 10**6) if size < n]
    cases += [("spread over [0, 1]", "uniform", size, {}) for size in sizes]
    for name, kind, size, types in cases:
        y, p = rows(kind, n)
        w = np.random.default_rng(1).integers(1, 5, n).astype(types["w"]) if "w" in types else None
        y, p = y.astype(types.get("y", y.dtype)), p.astype(types.get("p", p.dtype))
        # a hundred thousand small batches are enough
        many = min(n, 10**5 * size)
        add = partial(in_batches, y[:many], p[:many], size, w)
        own, sort, plain_sort = in_turns([add, partial(np.sort, p)], n, repeat, plain)
        own *= n / many
        print(
            f"| {name:<28} | {size:>10,} | {n / np.median(own) / 1e6:14.1f} | {np.median(own / sort):13.3f} "
            f"| {np.median(own / plain_sort):13.3f} |",
            flush=True,
        )


def cutoff(n: int, repeat: int, plain: Plain) -> None:
    print(f"| {'predictions':<28} | {'n':>12} | ratio to sort | to plain sort | exact, to sort | error |")
    print("|---|---|---|---|---|---|")
    for kind in ("uniform", "rare events"):
        y, p = rows(kind, n)
        calls = [partial(through_sketch, y, p), partial(cutoff_calibration_error, y, p), partial(np.sort, p)]
        own, exact, sort, plain_sort = in_turns(calls, n, repeat, plain)
        error = abs(through_sketch(y, p) - cutoff_calibration_error(y, p))
        print(
            f"| {kind:<28} | {n:>12,} | {np.median(own / sort):13.3f} | {np.median(own / plain_sort):13.3f} "
            f"| {np.median(exact / sort):14.3f} | {error:.1e} |",
            flush=True,
        )


def interval_of(sketch: CalibrationSketch, **options: str) -> object:
    """Return the interval of smooth ECE from the weighted sample of a sketch."""
    y, p, w = sketch.weighted_sample()
    return confidence_interval(y, p, metric=smooth_ece, sample_weight=w, **options)


def interval(n: int, repeat: int, plain: Plain) -> None:
    try:
        import relplot
    except ImportError:
        relplot = None
    y, p = rows("uniform", n)
    sketch = CalibrationSketch().update(y, p)
    assert sketch.n_bins
    calls = {
        "estimate from the sketch": lambda: smooth_ece(sketch),
        "200-fold bootstrap (percentile)": lambda: interval_of(sketch, method="percentile"),
        "200-fold interval by inversion": lambda: interval_of(sketch),
        "both together, with the sketch": lambda: interval_of(
            CalibrationSketch().update(y, p), method="percentile"
        ),
    }
    if relplot is not None:
        calls["relplot.smECE, estimate only"] = lambda: relplot.smECE(p, y)
    *times, sort, plain_sort = in_turns([*calls.values(), partial(np.sort, p)], n, repeat, plain)
    print(f"| {'SmoothECE':<34} | {'n':>12} | ratio to sort | to plain sort | seconds |")
    print("|---|---|---|---|---|")
    for name, own in zip(calls, times, strict=True):
        print(
            f"| {name:<34} | {n:>12,} | {np.median(own / sort):13.2f} "
            f"| {np.median(own / plain_sort):13.2f} | {np.median(own):7.3f} |"
        )
    if relplot is None:
        print("relplot cannot be imported here")
    print(interval_of(sketch, method="percentile"), flush=True)


def stream(n: int, size: int) -> None:
    """Add n samples in batches that are simulated one after the other."""
    import resource

    rng = np.random.default_rng(0)
    sketch = CalibrationSketch()
    p, u = np.empty(min(size, n)), np.empty(min(size, n))
    start, adding, batches = time.perf_counter(), 0.0, []
    for done in range(0, n, size):
        m = min(size, n - done)
        rng.random(out=p[:m])
        rng.random(out=u[:m])
        y = u[:m] < p[:m]
        took = processor_seconds(lambda y=y, m=m: sketch.update(y, p[:m]))
        adding += took
        batches.append(took / m)
    value = cutoff_calibration_error(sketch)
    elapsed = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    print(f"{n:,} samples in batches of {size:,}: {elapsed:.1f} s, of which {adding:.1f} s in update")
    print(f"{median(batches) * 1e9:.1f} ns per sample; peak memory of the process {peak:.0f} MB")
    print(f"cutoff calibration error {value:.2e}; {sketch.n_bins} bins")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10**9)
    parser.add_argument("--batch", type=lambda text: int(float(text)), default=10**6)
    parser.add_argument("--size", type=lambda text: int(float(text)), default=10**7)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        Plain.serve()
        return
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {unknown.pop()!r}; there are {', '.join(PARTS)}")
    if options.smoke:
        options.rows, options.batch, options.size, options.repeat = 10**5, 10**4, 10**4, 1
    chosen = options.parts or PARTS
    print(f"numpy {np.__version__}; its vector code uses: {', '.join(vector_features()) or 'nothing'}")
    # memory first: the other parts allocate arrays
    if "stream" in chosen:
        stream(options.rows, options.batch)
    with Plain() as plain:
        if "throughput" in chosen:
            print()
            throughput(options.size, options.repeat, plain)
        if "cutoff" in chosen:
            print()
            cutoff(options.size, options.repeat, plain)
        if "interval" in chosen:
            print()
            interval(min(options.size, 10**6), options.repeat, plain)


if __name__ == "__main__":
    main()
