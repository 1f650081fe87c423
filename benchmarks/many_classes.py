"""Time, memory and log loss of the default calibrator for many classes, compared with single calibrators.

    python benchmarks/many_classes.py [--write FOLDER]

The scores are the outputs of a network on CIFAR-100, if its file is available, half of them for calibration;
and simulated logits, in which classes are confused in groups of ten and have individual slopes and
intercepts. Seconds are processor time for one fit. Memory is the peak of a separate process, minus that
before the fit.

    --sizes 5000x100 10000x1000   samples and classes of the simulated logits
    --all                         every calibrator, not only the default and temperature, for more than 200
    --write FOLDER                write the table
    --smoke                       100 samples of 20 classes, two calibrators, as a quick check
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import multiprocessing
import resource
import time
from pathlib import Path

import numpy as np
from _forecasts import data_folder
from _options import parser_of

from sklearn_calib import calibrators as ours

CIFAR = "CIFAR-100"


def simulated(n: int, n_classes: int) -> tuple[np.ndarray, ...]:
    """Return logits and labels for calibration, and others for evaluation."""
    rng = np.random.default_rng(0)
    slopes, offsets = np.exp(rng.normal(0.0, 0.2, n_classes)), rng.normal(0.0, 0.4, n_classes)
    found = []
    for size in (n, 5000):
        y = rng.integers(n_classes, size=size)
        y[:n_classes] = np.arange(n_classes)[:size]
        z = 1.5 * rng.standard_normal((size, n_classes))
        z += 1.5 * (np.arange(n_classes) // 10 == (y // 10)[:, np.newaxis])
        z[np.arange(size), y] += 5.0 * rng.random(size) + 2.0
        found += [2.0 * z * slopes + offsets, y]
    return tuple(found)


def network() -> tuple[np.ndarray, ...]:
    """Return the probabilities of a network and labels, for calibration and for evaluation."""
    with np.load(data_folder() / "cifar_softmax" / "densenet-bc-100-cifar-100.npz") as stored:
        p, y = stored["probs"].astype(np.float64), stored["label"].astype(np.int64)
    p /= p.sum(axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(y))
    fit, new = order[:5000], order[5000:]
    return p[fit], y[fit], p[new], y[new]


def methods(link: str) -> dict[str, object]:
    """Return the default and single calibrators, those with K x K parameters last."""
    spline = ours.SplineCalibrator(link=link)
    return {
        "default": ours.LogAverageCalibrator(link=link),
        "temperature": ours.TemperatureCalibrator(link=link),
        "vector": ours.VectorScalingCalibrator(link=link),
        "spline, one vs rest": ours.OneVsRestCalibrator(spline),
        "structured matrix": ours.StructuredMatrixScalingCalibrator(link=link),
        "matrix": ours.MatrixScalingCalibrator(link=link),
    }


def measure(source: tuple[int, int] | str, name: str, send) -> None:
    """Send seconds, megabytes and log loss of one calibrator."""
    X, y, new, labels = network() if source == CIFAR else simulated(*source)
    method = methods("logit" if source == CIFAR else "identity")[name]
    before, start = _peak(), time.process_time()
    method.fit(X, y)
    seconds, memory = time.process_time() - start, _peak() - before
    of_label = method.predict_proba(new)[np.arange(len(labels)), labels]
    send.send((seconds, memory, float(-np.log(np.maximum(of_label, 1e-300)).mean())))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def main() -> None:
    arguments = _arguments()
    sizes = ["100x20"] if arguments.smoke else arguments.sizes
    sources = [tuple(int(part) for part in size.split("x")) for size in sizes]
    if not arguments.smoke:
        sources = [CIFAR, *sources]
    lines = ["| scores | calibrator | fit, s | memory, MB | log loss |", "|---|---|---:|---:|---:|"]
    print("\n".join(lines), flush=True)
    for source in sources:
        title = source if source == CIFAR else f"simulated, {source[0]} x {source[1]}"
        few = arguments.smoke or (source != CIFAR and source[1] > 200 and not arguments.all)
        for name in [*methods("logit")][: 2 if few else None]:
            receive, send = multiprocessing.Pipe(duplex=False)
            process = multiprocessing.get_context("spawn").Process(target=measure, args=(source, name, send))
            process.start()
            send.close()
            try:
                seconds, memory, loss = receive.recv()
            except EOFError:
                print(f"{title}, {name} is omitted: see above", flush=True)
                continue
            finally:
                process.join()
            lines.append(f"| {title} | {name} | {seconds:.2f} | {memory:.0f} | {loss:.4f} |")
            print(lines[-1], flush=True)
    if arguments.write:
        (arguments.write / "many_classes.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["5000x100", "10000x1000"])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
