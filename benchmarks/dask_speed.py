"""Time of a sketch on two Dask workers, compared with one worker; each is a process of one thread.

The samples are simulated inside the partitions, so that only sketches are transferred. Both clusters are
measured alternately, so that other load affects both; the number of busy processors before each measurement
is printed, because two workers need two idle ones. The last column is the ratio of processor time of the
single worker to that of the busier of the two, the speed-up on an idle machine without waiting.
"""

import argparse
import os
import time
from contextlib import ExitStack
from statistics import median

import dask
import numpy as np
from distributed import Client, LocalCluster

from sklearn_calib.sketch import CalibrationSketch, sketch_batches, sketch_dask

WORKERS = (1, 2)


def rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples of a partition."""
    rng = np.random.default_rng(seed)
    p = rng.random(n, dtype=np.float32)
    return rng.random(n, dtype=np.float32) < p, p


def timed(client: Client, n_parts: int, n: int) -> tuple[float, float, CalibrationSketch]:
    """Return the seconds of one sketch on a cluster, those of the busiest processor, and the sketch."""
    part = dask.delayed(rows, pure=False)
    later = sketch_dask([part(seed, n) for seed in range(n_parts)], compute=False)
    used = client.run(time.process_time)
    start = time.perf_counter()
    sketch = client.compute(later).result()
    took = time.perf_counter() - start
    busiest = max(after - used[worker] for worker, after in client.run(time.process_time).items())
    return took, busiest, sketch


def load() -> float:
    """Return the number of processors used by other processes during half a second."""
    if not os.path.exists("/proc/stat"):
        return float("nan")
    before = _busy()
    time.sleep(0.5)
    after = _busy()
    return (after[0] - before[0]) / max(after[1] - before[1], 1e-9) * (os.cpu_count() or 1)


def _busy() -> tuple[float, float]:
    with open("/proc/stat", encoding="ascii") as file:
        times = [float(word) for word in file.readline().split()[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=64, help="partitions (default: 64)")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of each (default: 2 million)")
    parser.add_argument("--repeats", type=int, default=5, help="turns (default: 5)")
    parser.add_argument("--smoke", action="store_true", help="a quick check of a few seconds")
    options = parser.parse_args()
    if options.smoke:
        options.parts, options.rows, options.repeats = 4, 10_000, 1
    seconds: dict[int, list[float]] = {n: [] for n in WORKERS}
    busiest: dict[int, list[float]] = {n: [] for n in WORKERS}
    with ExitStack() as stack:
        clients = {}
        for n in WORKERS:
            cluster = stack.enter_context(
                LocalCluster(n_workers=n, threads_per_worker=1, processes=True, dashboard_address=":0")
            )
            clients[n] = stack.enter_context(Client(cluster, set_as_default=False))
            # workers import the package with their first partition
            clients[n].wait_for_workers(n)
            clients[n].run(sketch_batches, [rows(0, 10)])
        expected = sketch_batches(rows(seed, options.rows) for seed in range(options.parts))
        print(f"{options.parts} partitions of {options.rows} samples, {os.cpu_count()} processors")
        print("turn  busy before  seconds on 1  on 2  ratio  ratio of processor time")
        for turn in range(options.repeats):
            busy = load()
            for n in WORKERS:
                took, used, sketch = timed(clients[n], options.parts, options.rows)
                assert sketch == expected, "the sketches differ"
                seconds[n].append(took)
                busiest[n].append(used)
            one, two = (seconds[n][-1] for n in WORKERS)
            by_processor = busiest[1][-1] / busiest[2][-1]
            print(
                f"{turn + 1:4d}  {busy:11.1f}  {one:12.2f}  {two:4.2f}  {one / two:5.2f}  {by_processor:.2f}",
                flush=True,
            )
    millions = options.parts * options.rows / 1e6
    for n in WORKERS:
        best = min(seconds[n])
        print(f"workers: {n}, best {best:.2f} s, {millions / best:.1f} million samples per second")
    ratios = [[a / b for a, b in zip(times[1], times[2], strict=True)] for times in (seconds, busiest)]
    best = min(seconds[1]) / min(seconds[2])
    print(f"ratio of seconds: of the best {best:.2f}, median {median(ratios[0]):.2f}")
    print(f"ratio of processor time: median {median(ratios[1]):.2f}")


if __name__ == "__main__":
    main()
