"""Time of metrics on simulated samples, compared with a loop over the public function.

For each metric: the null mean and the confidence interval with 1000 resamples of 1000 samples, in seconds; as
a ratio to `np.sort` of as many numbers in as many arrays; and the ratio of the time of a loop over the same
resamples (measured on fewer of them). Times are the minimum of three.
"""

import argparse
import time
from functools import partial

import numpy as np
from scipy.special import expit, logit

from sklearn_calib.inference import compare_models, confidence_interval, expected_under_calibration
from sklearn_calib.metrics import (
    MetricKernel,
    cutoff_calibration_error,
    decision_risk_gap,
    expected_calibration_error,
    logit_smoothed_ece,
    smooth_ece,
)


def _mean_bias_kernel(prob, n_samples):
    def evaluate(count, positives):
        return np.abs((positives - prob[:, np.newaxis] * count).sum(axis=0)) / n_samples

    return evaluate


@MetricKernel(_mean_bias_kernel)
def mean_bias(y_true, y_proba, sample_weight=None):
    """Return the absolute difference of event rate and mean prediction: an example of a user's metric."""
    return abs(np.average(np.asarray(y_true) - y_proba, weights=sample_weight))


METRICS = {
    "smooth ECE": smooth_ece,
    "smooth ECE, bandwidth .05": partial(smooth_ece, bandwidth=0.05),
    "cutoff calibration error": cutoff_calibration_error,
    "ECE": expected_calibration_error,
    "ECE, equal mass": partial(expected_calibration_error, strategy="quantile"),
    "debiased l2 ECE": partial(expected_calibration_error, norm="l2", debias=True),
    "logit-smoothed ECE": logit_smoothed_ece,
    "decision risk gap": decision_risk_gap,
    "of a user, with a kernel": mean_bias,
}


def seconds(run, repetitions):
    """Return the minimum time of a call."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def plain_loop(metric, p, draws, rng):
    for _ in range(draws):
        metric((rng.random(p.shape[0]) < p).astype(np.int64), p)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1000, help="rows of a sample")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--smoke", action="store_true", help="a quick check of a few seconds")
    args = parser.parse_args()
    if args.smoke:
        args.size, args.resamples = 100, 40
    n, resamples, repetitions = args.size, args.resamples, 1 if args.smoke else 3
    rng = np.random.default_rng(0)
    p = rng.random(n)
    y = (rng.random(n) < p).astype(np.int64)
    sort = seconds(lambda: [np.sort(p) for _ in range(resamples)], repetitions)
    few = max(10, resamples // 10)
    print(f"n = {n}, {resamples} resamples; np.sort of as many samples: {sort:.4f} s")
    print(f"{'':28}{'null mean':>33}{'interval':>22}")
    print(f"{'metric':28}{'seconds':>11}{'/ sort':>11}{'loop ratio':>11}{'seconds':>11}{'/ sort':>11}")
    for name, metric in METRICS.items():
        null = seconds(
            partial(
                expected_under_calibration, None, p, metric=metric, n_resamples=resamples, random_state=0
            ),
            repetitions,
        )
        loop = seconds(partial(plain_loop, metric, p, few, rng), repetitions) * resamples / few
        whole = seconds(
            partial(confidence_interval, y, p, metric=metric, n_resamples=resamples, random_state=0),
            repetitions,
        )
        print(
            f"{name:28}{null:11.4f}{null / sort:11.1f}{loop / null:11.1f}{whole:11.4f}{whole / sort:11.1f}",
            flush=True,
        )
    compare(*((200, 40) if args.smoke else (10_000, 999)))


def compare(n, resamples):
    """Print the time of a comparison of four models, with and without the kernel of the metric."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.6, 0.9, n)
    y = (rng.random(n) < p).astype(np.int64)
    models = {f"slope {b}": expit(b * logit(p)) for b in (1.0, 0.8, 1.2, 1.4)}

    def without_kernel(y_true, y_proba):
        return smooth_ece(y_true, y_proba)

    both = [
        seconds(partial(compare_models, y, models, metric=metric, n_resamples=resamples, random_state=0), 1)
        for metric in (smooth_ece, without_kernel)
    ]
    print(f"compare_models, smooth ECE, four models, n = {n}: {both[0]:.2f} s, with a loop {both[1]:.2f} s")


if __name__ == "__main__":
    main()
