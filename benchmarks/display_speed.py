"""Time of the reliability diagram of many predictions, for each type of curve and band.

    python benchmarks/display_speed.py

A diagram is computed, drawn and rendered to pixels. Shown are seconds, and the ratio to np.sort of the same
predictions, measured alternately; the minimum of a few repetitions.

    --rows 1000000       number of predictions
    --smoke              few predictions, as a quick check
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np

from sklearn_calib.plot import ReliabilityDisplay

DIAGRAMS: dict[str, dict[str, Any]] = {
    "smooth": {},
    "smooth, consistency": {"band": "consistency"},
    "smooth, simultaneous": {"band": "simultaneous"},
    "smooth, logit axes": {"scale": "logit"},
    "binned": {"curve": "binned"},
    "binned, consistency": {"curve": "binned", "band": "consistency"},
    "isotonic": {"curve": "isotonic"},
    "isotonic, consistency": {"curve": "isotonic", "band": "consistency"},
    "isotonic, simultaneous": {"curve": "isotonic", "band": "simultaneous"},
}


def seconds(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def draw(y: np.ndarray, p: np.ndarray, params: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    display = ReliabilityDisplay.from_predictions(y, p, **params)
    display.figure_.canvas.draw()
    plt.close(display.figure_)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    mpl.use("Agg")
    rows, repetitions = (2000, 1) if options.smoke else (options.rows, 3)
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.8, rows)
    y = (rng.random(rows) < p**1.2).astype(int)
    # one-time costs, such as loading fonts, are not counted
    draw(y[:100], p[:100], {})
    print(f"{rows} predictions, best of {repetitions}        seconds   in units of np.sort")
    for name, params in DIAGRAMS.items():
        times, sorts = [], []
        for _ in range(repetitions):
            times.append(seconds(lambda params=params: draw(y, p, params)))
            sorts.append(seconds(lambda: np.sort(p)))
        print(f"  {name:<36} {min(times):9.2f} {min(times) / min(sorts):12.0f}", flush=True)


if __name__ == "__main__":
    main()
