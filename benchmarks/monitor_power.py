"""Monitoring of streams: false alarms, and the detection delay after a drift.

    python benchmarks/monitor_power.py

First table: calibrated streams, monitored batch by batch. The fraction of streams with any alarm, which mode
"anytime" bounds by alpha, and the number of alarms per million samples, which mode "run-length" bounds by a
million divided by its run length. Every monitor restarts after an alarm. For comparison a test of fixed
sample size, Cox's test at level alpha, is repeated on every batch, or on all samples since the start or the
last alarm.

Second table: streams with a drift after a number of calibrated samples. Among those without an alarm before,
the median number of samples from the drift to the alarm, and the fraction that is detected.

    --batch 200                samples in a batch
    --batches 100              batches in a calibrated stream, before the later drift, and after a drift
    --repetitions 50           calibrated streams; a fifth of them for each drift
    --smoke                    few short streams, as a quick check
"""

from collections.abc import Callable

import numpy as np
from _options import options_of
from scipy.special import expit, logit

from sklearn_calib.inference import CoxTest
from sklearn_calib.monitor import CalibrationMonitor

Truth = Callable[[np.ndarray], np.ndarray]

ALPHA = 0.05
RUN_LENGTH = 100_000

PREDICTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "rare": lambda rng, n: rng.beta(0.5, 24.5, size=n),
}

DRIFTS: dict[str, Truth] = {
    "shift by 0.2": lambda p: expit(logit(p) + 0.2),
    "shift by 0.5": lambda p: expit(logit(p) + 0.5),
    "slope 0.7": lambda p: expit(0.7 * logit(p)),
    "oscillating by 0.1": lambda p: np.clip(p + 0.1 * np.sin(8.0 * np.pi * p), 0.0, 1.0),
    "local, 0.2 on [0.4, 0.5]": lambda p: p + 0.2 * ((p > 0.4) & (p < 0.5)),
}


class Repeated:
    """Cox's test after every batch, on the batch or on all samples since the start or the last alarm."""

    def __init__(self, *, cumulative: bool) -> None:
        self.cumulative = cumulative
        self.rows: list[tuple[np.ndarray, np.ndarray]] = []

    def update(self, y: np.ndarray, p: np.ndarray) -> bool:
        """Add the next batch; tell whether there is an alarm."""
        self.rows = [*self.rows, (y, p)] if self.cumulative else [(y, p)]
        y, p = (np.concatenate(parts) for parts in zip(*self.rows, strict=True))
        alarm = CoxTest(method="asymptotic").test(y, p, pos_label=1).pvalue <= ALPHA
        if alarm:
            self.rows = []
        return alarm


def monitor(mode: str) -> CalibrationMonitor:
    # one slot, so that metrics are not computed for every batch
    return CalibrationMonitor(
        mode=mode, alpha=ALPHA, run_length=RUN_LENGTH, restart=True, window=10**9, n_slots=1
    )


WATCHERS: dict[str, Callable[[], CalibrationMonitor | Repeated]] = {
    'monitor, "anytime"': lambda: monitor("anytime"),
    'monitor, "run-length"': lambda: monitor("run-length"),
    "Cox, each batch": lambda: Repeated(cumulative=False),
    "Cox, all samples": lambda: Repeated(cumulative=True),
}


def false_alarms(batch: int, batches: int, repetitions: int) -> None:
    print(f"alarms in {repetitions} calibrated streams of {batches} batches of {batch} samples")
    print(f"{'predictions':13}{'monitor':24}{'any alarm':>10}{'alarms per million':>19}")
    for number, (name, make) in enumerate(PREDICTIONS.items()):
        counts = np.zeros((len(WATCHERS), repetitions))
        for i in range(repetitions):
            rng = np.random.default_rng([number, i])
            watchers = [new() for new in WATCHERS.values()]
            for _ in range(batches):
                p = make(rng, batch)
                y = (rng.random(batch) < p).astype(int)
                counts[:, i] += [bool(watcher.update(y, p)) for watcher in watchers]
        for watcher, found in zip(WATCHERS, counts, strict=True):
            rate = 1e6 * found.mean() / (batch * batches)
            print(f"{name:13}{watcher:24}{(found > 0).mean():10.3f}{rate:19.1f}")
    print(f"guaranteed: {ALPHA} for any alarm, {1e6 / RUN_LENGTH:g} alarms per million")


def delays(batch: int, calms: tuple[int, ...], after: int, repetitions: int) -> None:
    print(f"\nsamples before the drift; from drift to alarm: median of {repetitions} streams")
    print(f"found: fraction of alarms within {after * batch} samples")
    names = [name for name in WATCHERS if name.startswith("monitor")]
    print(f"{'drift':26}{'before':>10}" + "".join(f"{name:>24}{'found':>7}" for name in names))
    for number, (drift, truth) in enumerate(DRIFTS.items()):
        for calm in calms:
            found: dict[str, list[float]] = {name: [] for name in names}
            for i in range(repetitions):
                for name in names:
                    delay = delay_of(
                        WATCHERS[name](), np.random.default_rng([9, number, i]), batch, calm, after, truth
                    )
                    if delay is not None:
                        found[name].append(delay)
            line = f"{drift:26}{calm * batch:10}"
            for name in names:
                values = np.array(found[name])
                median = np.median(values) if values.size else np.inf
                shown = f"{median:.0f}" if np.isfinite(median) else "-"
                line += f"{shown:>24}{np.isfinite(values).mean() if values.size else 0:7.2f}"
            print(line)


def delay_of(
    watcher: CalibrationMonitor | Repeated,
    rng: np.random.Generator,
    batch: int,
    calm: int,
    after: int,
    truth: Truth,
) -> float | None:
    """Return the samples to the alarm, infinity if there is none, None if there was one before the drift."""
    for number in range(calm + after):
        p = rng.uniform(size=batch)
        y = (rng.random(batch) < (p if number < calm else truth(p))).astype(int)
        if watcher.update(y, p):
            return None if number < calm else float((number + 1 - calm) * batch)
    return np.inf


def main() -> None:
    options = options_of(__doc__, batch=200, batches=100, repetitions=50)
    batch, batches, repetitions = (
        (50, 4, 2) if options.smoke else (options.batch, options.batches, options.repetitions)
    )
    false_alarms(batch, batches, repetitions)
    delays(batch, (batches // 10, batches), batches, max(1, repetitions // 5))


if __name__ == "__main__":
    main()
