"""Speed of the package, as ratios measured in one run.

    python benchmarks/speed.py [entries] [scale] [sketch] [serving] [import]

entries   every metric, test, calibrator, interval, display and report (default)
scale     ten million samples in memory: time and peak memory of every metric and test, and of the isotonic,
          spline and Platt calibrators, with the growth from 10^5 samples compared with that of np.sort
sketch    a billion simulated samples in batches, with the peak memory; throughput for several types of data
          and batches; the cutoff calibration error from a sketch compared with the exact one
serving   calibrated predictions of one sample and of a million: classifiers, maps from JSON, ONNX Runtime
import    import of each subpackage compared with that of the other packages it imports

Times depend on the machine, so each is divided by that of ``np.sort`` of as many predictions, or of another
call, measured alternately. Shown is processor time of one thread, on which other load has less influence than
on elapsed time: the median, and the median of the ratios with its quartiles.

    --sizes 1e3 1e5 1e6    numbers of predictions of the entries
    --only WORD ...        entries, or families, whose name contains one of the words
    --seconds 1            time for each entry
    --rows 1e9             samples of the stream of a sketch, in batches of a million
    --limit 300            seconds of a call of scale; longer ones, also as predicted, are omitted
    --out FILE             write the table of serving or scale
    --smoke                small sizes, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import ast
import json
import multiprocessing
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _options import parser_of
from _timing import clock, repeats_of, vector_features

from sklearn_calib.metrics import cutoff_calibration_error
from sklearn_calib.sketch import CalibrationSketch

Call = Callable[[], object]
MANY = 1_000_000
MISSING = "- | - | - | -"


def in_turns(calls: Sequence[Call], repeats: int, seconds: float = 0.0) -> np.ndarray:
    """Return processor times of calls that are measured alternately, of shape (calls, repetitions)."""
    often = [repeats_of(clock(call)) for call in calls]
    turns: list[list[float]] = []
    start = time.process_time()
    while len(turns) < repeats or (time.process_time() - start < seconds and len(turns) < 101):
        turns.append([clock(call, number) for call, number in zip(calls, often, strict=True)])
    return np.array(turns).T


def spread(ratios: np.ndarray) -> str:
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return f"{middle:.3g} [{low:.3g}, {high:.3g}]"


def entries(options: argparse.Namespace) -> None:
    """Print the time of every entry."""
    from _entries import data_of, families

    sizes, seconds = ([100], 0.0) if options.smoke else (options.sizes, options.seconds)
    draws = 39 if options.smoke else None
    try:
        import matplotlib as mpl

        mpl.use("Agg")
    except ImportError:
        print("displays cannot be drawn: matplotlib is not installed")
    print(f"| {'':<52} | {'n':>9} | {'ms':>10} | ratio to sort |\n|---|---|---|---|")
    for family, found in families(draws).items():
        chosen = list(found.items())[: 1 if options.smoke else None]
        for name, build in chosen:
            if not any(word in name or word in family for word in options.only):
                continue
            # ten classes need ten times the memory
            for n in (n // 10 for n in sizes) if "ten classes" in family else sizes:
                data = data_of(n)
                own, sort = in_turns(
                    [build(data), partial(np.sort, data.p)], 1 if options.smoke else 3, seconds
                )
                times = f"{np.median(own) * 1e3:10.3f} | {spread(own / sort)}"
                print(f"| {name:<52} | {n:>9,} | {times} |", flush=True)


def scale(options: argparse.Namespace) -> None:
    """Print time and peak memory of ten million samples, each call in a process of its own."""
    lines = [
        "# Ten million samples in memory",
        "",
        f"Written by `python benchmarks/speed.py scale --out benchmarks/results/scale.md`, "
        f"numpy {np.__version__}. The input has 16 bytes per sample. Growth: the time of 10^7 samples "
        f"divided by that of 10^5, relative to np.sort. -: takes more than {options.limit:g} s.",
        "",
        "| call | seconds | ratio to np.sort | growth | peak memory / input |\n|---|---:|---:|---:|---:|",
    ]
    print(lines[-1])
    names, context = list(scaled()), multiprocessing.get_context("spawn")
    for name in names[:: len(names) - 1 if options.smoke else 1]:
        if not any(word in name for word in options.only):
            continue
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=measure_scaled, args=(name, options, send))
        process.start()
        send.close()
        try:
            cells = receive.recv()
        except EOFError:
            # ended by a limit
            cells = MISSING
        process.join()
        lines.append(f"| {name} | {cells} |")
        print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def scaled() -> dict[str, Any]:
    """Return the calls that are measured with ten million samples."""
    from _entries import families

    found = families(None)
    fitted = ("IsotonicCalibrator", "SplineCalibrator", "PlattCalibrator")
    return found["metrics"] | found["tests"] | {name: found["calibrators"][name] for name in fitted}


def measure_scaled(name: str, options: argparse.Namespace, send: Any) -> None:
    """Send seconds, ratio to a sort, its growth and the peak memory of a call, or that they are missing."""
    from _entries import data_of
    from _timing import allow, measure

    warnings.simplefilter("ignore")
    # a call is made about twice, and samples are simulated
    allow(3.0 * options.limit + 60.0, 18e9)
    sizes = (100, 200) if options.smoke else (10**5, 10**7)
    build, ratios, seconds, peak = scaled()[name], [], 0.0, float("nan")
    try:
        for n in sizes:
            if seconds * sizes[1] / sizes[0] > options.limit:
                break
            data = data_of(n)
            task, sort = build(data), partial(np.sort, data.p)
            timed = measure(task, sort, 0.0 if options.smoke else options.seconds)
            seconds, peak = float(np.median(timed["seconds"])), timed["peak"] / (16 * n)
            ratios.append(seconds / float(np.median(timed["sort"])))
    except (ValueError, MemoryError) as error:
        print(f"{name}: {error}".splitlines()[0])
    if len(ratios) < len(sizes) or seconds > options.limit:
        send.send(MISSING)
    else:
        send.send(f"{seconds:.3g} | {ratios[1]:.3g} | {ratios[1] / ratios[0]:.2f} | {peak:.2f}")


def samples(kind: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return outcomes and slightly wrong predictions."""
    rng = np.random.default_rng(0)
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


def error_of_sketch(y: np.ndarray, p: np.ndarray) -> float:
    """Return the cutoff calibration error of the sketch of the samples."""
    y, p, w = CalibrationSketch().update(y, p).weighted_sample()
    return cutoff_calibration_error(y, p, sample_weight=w)


def stream(n: int, size: int) -> None:
    """Add n samples in batches that are simulated one after the other."""
    import resource

    rng = np.random.default_rng(0)
    sketch = CalibrationSketch()
    p, u = np.empty(min(size, n)), np.empty(min(size, n))
    start, batches = time.perf_counter(), []
    for done in range(0, n, size):
        m = min(size, n - done)
        rng.random(out=p[:m])
        rng.random(out=u[:m])
        batches.append(clock(partial(sketch.update, u[:m] < p[:m], p[:m])) / m)
    y, q, w = sketch.weighted_sample()
    value = cutoff_calibration_error(y, q, sample_weight=w)
    elapsed, adding = time.perf_counter() - start, float(np.mean(batches)) * n
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    print(f"{n:,} samples in batches of {size:,}: {elapsed:.1f} s, of which {adding:.1f} s in update")
    print(f"{np.median(batches) * 1e9:.1f} ns per sample; peak memory of the process {peak:.0f} MB")
    print(f"cutoff calibration error {value:.2e}; {sketch.n_bins} bins")


def sketches(options: argparse.Namespace) -> None:
    """Print the tables of the sketch; memory first, because the others allocate arrays."""
    n, repeats = (10**4, 1) if options.smoke else (10**7, 5)
    stream(10**5 if options.smoke else options.rows, 10**4 if options.smoke else MANY)
    print(f"\n| {'samples':<28} | {'batch':>10} |      million/s | ratio to sort |\n|---|---|---|---|")
    cases: list[tuple[str, str, int, dict[str, Any]]] = [
        ("spread over [0, 1]", "uniform", n, {}),
        ("rare events", "rare events", n, {}),
        ("float32", "uniform", n, {"p": np.float32}),
        ("outcomes of one byte", "uniform", n, {"y": np.uint8}),
        ("weights", "uniform", n, {"w": np.float64}),
    ]
    sizes = [size for size in (10**2, 10**3, 10**4, 10**5, 10**6) if size < n]
    cases += [("spread over [0, 1]", "uniform", size, {}) for size in sizes]
    for name, kind, size, types in cases:
        y, p = samples(kind, n)
        w = np.random.default_rng(1).integers(1, 5, n).astype(types["w"]) if "w" in types else None
        y, p = y.astype(types.get("y", y.dtype)), p.astype(types.get("p", p.dtype))
        # a hundred thousand small batches are enough
        many = min(n, 10**5 * size)
        own, sort = in_turns([partial(in_batches, y[:many], p[:many], size, w), partial(np.sort, p)], repeats)
        own *= n / many
        speed, ratio = n / np.median(own) / 1e6, np.median(own / sort)
        print(f"| {name:<28} | {size:>10,} | {speed:14.1f} | {ratio:13.3f} |", flush=True)
    print(f"\n| {'predictions':<28} | {'n':>12} | ratio to sort | exact, to sort | error |")
    print("|---|---|---|---|---|")
    for kind in ("uniform", "rare events"):
        y, p = samples(kind, n)
        calls = [partial(error_of_sketch, y, p), partial(cutoff_calibration_error, y, p), partial(np.sort, p)]
        own, exact, sort = in_turns(calls, repeats)
        error = abs(error_of_sketch(y, p) - cutoff_calibration_error(y, p))
        ratios = f"{np.median(own / sort):13.3f} | {np.median(exact / sort):14.3f}"
        print(f"| {kind:<28} | {n:>12,} | {ratios} | {error:.1e} |", flush=True)


def served() -> Iterator[tuple[str, Callable[[np.ndarray], Any], bool]]:
    """Yield names, functions, and whether their input is scores instead of features."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression

    from sklearn_calib.calibrators import IsotonicCalibrator, SplineCalibrator
    from sklearn_calib.export import from_json, to_json, to_onnx
    from sklearn_calib.meta import CalibratedClassifier

    X, y = make_classification(3000, n_features=10, flip_y=0.2, random_state=0)
    bare = LogisticRegression().fit(X, y)
    scores = bare.predict_proba(X)[:, 1]
    maps = {"isotonic": IsotonicCalibrator(), "spline": SplineCalibrator()}
    yield "LogisticRegression", bare.predict_proba, False
    for ensemble in (False, True):
        members = "5 members" if ensemble else "1 member"
        theirs = CalibratedClassifierCV(bare, method="isotonic", ensemble=ensemble).fit(X, y)
        yield f"CalibratedClassifierCV, isotonic, {members}", theirs.predict_proba, False
        for name, calibrator in maps.items():
            ours = CalibratedClassifier(bare, calibrator, ensemble=ensemble).fit(X, y)
            yield f"CalibratedClassifier, {name}, {members}", ours.predict_proba, False
    for name, calibrator in maps.items():
        calibrator.fit(scores, y)
        yield f"scores: {type(calibrator).__name__}", calibrator.transform, True
        loaded = from_json(to_json(calibrator))
        yield f"scores: {name} loaded from JSON ({loaded.n_knots_} knots)", loaded.transform, True
        if find_spec("skl2onnx") and find_spec("onnxruntime"):
            import onnxruntime

            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = 1
            model = to_onnx(loaded, dtype="float64").SerializeToString()
            session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
            yield (
                f"scores: {name} in ONNX Runtime",
                lambda x, session=session: session.run(["probabilities"], {"scores": x[:, np.newaxis]}),
                True,
            )


def serving(options: argparse.Namespace) -> None:
    """Print the time of predictions for one sample, and for a million."""
    many = 1000 if options.smoke else MANY
    rng = np.random.default_rng(0)
    features, scores = rng.standard_normal((many, 10)), rng.random(many)
    lines = ["| prediction | one sample (microseconds) | a million samples (seconds) |", "|---|---|---|"]
    print("\n".join(lines))
    for name, function, of_scores in served():
        values = scores if of_scores else features
        calls = [partial(function, values[:1].copy()), partial(function, values)]
        one, all_of_them = np.median(in_turns(calls, 1 if options.smoke else 9), axis=1)
        one *= 1e6
        lines.append(f"| {name} | {one:.{1 if one < 10 else 0}f} | {all_of_them * MANY / many:.2f} |")
        print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


#: Optional packages are hidden, as scikit-learn imports some of them, which would reduce the ratio.
HIDDEN = ("matplotlib", "pandas", "polars", "dask", "distributed", "pyarrow", "pyspark", "torch", "tqdm")
IMPORT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
from time import process_time
start = process_time()
{code}
took = process_time() - start
import json
files = [m.__file__ for name, m in sys.modules.items() if name.partition(".")[0] == "sklearn_calib"]
print(json.dumps([took, files]))
"""


def imported(code: str) -> tuple[float, list[str]]:
    """Return the processor time of imports in a new process, and the files of our modules."""
    command = [sys.executable, "-c", IMPORT.format(code=code, hidden=HIDDEN)]
    # compiled files are used, as after an installation
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=known)
    seconds, files = json.loads(done.stdout)
    return seconds, files


def imports_of_others(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the import statements of other packages that run when a module is imported."""
    ours_or_standard = {"sklearn_calib", *sys.stdlib_module_names}
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            if any(name.partition(".")[0] not in ours_or_standard for name in names):
                yield ast.unparse(node)


def imports(options: argparse.Namespace) -> None:
    """Print the time to import the package and each subpackage."""
    import sklearn_calib

    folder = Path(sklearn_calib.__path__[0])
    names = [f"sklearn_calib.{path.parent.name}" for path in sorted(folder.glob("[!_]*/__init__.py"))]
    pairs = 1 if options.smoke else 15
    print(f"{'import of':<26} {'ms':>8} {'ms of others':>13}  ratio")
    for name in ["sklearn_calib", *([] if options.smoke else names)]:
        code = f"import {name}"
        files = [Path(path) for path in imported(code)[1]]
        found = {line for path in files for line in imports_of_others(ast.parse(path.read_text()).body)}
        others = "\n".join(sorted(found))
        times = np.array([[imported(code)[0], imported(others)[0]] for _ in range(pairs)]) * 1e3
        own, theirs = np.median(times, axis=0)
        print(f"{name:<26} {own:8.0f} {theirs:13.0f}  {spread(times[:, 0] / times[:, 1])}", flush=True)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "entries": entries,
    "scale": scale,
    "sketch": sketches,
    "serving": serving,
    "import": imports,
}


def main() -> None:
    parser = parser_of(__doc__, seconds=1.0)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--sizes", nargs="+", type=lambda text: int(float(text)), default=[10**3, 10**5, 10**6]
    )
    parser.add_argument("--only", nargs="+", metavar="WORD", default=[""])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10**9)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {unknown.pop()!r}; there are {', '.join(PARTS)}")
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, one thread")
    print(f"vector instructions of numpy: {', '.join(vector_features()) or 'none beyond its baseline'}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in options.parts or (PARTS if options.smoke else ["entries"]):
            print()
            PARTS[part](options)


if __name__ == "__main__":
    main()
