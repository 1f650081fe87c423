"""Coverage of the intervals of expected performance without labels.

    python benchmarks/expected_performance.py [--repetitions 100]

Isotonic regression is fitted to 1000 or 5000 labeled samples, and certified on them (method "fitted", 95%).
Classification metrics of 20 000 new samples are estimated without their labels; the truth is the metric of
the population, from the known event probabilities. New samples have the scores of the old ones, or more high
scores (covariate shift), with or without the maximum of the density ratio, which increases with the score, or
other event probabilities for the same scores (concept shift). The last two violate the assumptions. The
intervals hold jointly: "all" counts the repetitions in which all of them do.

Also printed: the time for 10 million predictions, compared with np.sort.

    --repetitions 100    labeled samples of each case
    --smoke              a few small ones, as a quick check
"""

import argparse
import time

import numpy as np
from _options import options_of
from scipy.special import beta, expit, logit
from sklearn import metrics as sk

from sklearn_calib.calibrators import IsotonicCalibrator
from sklearn_calib.metrics import expected_performance

METRICS = ["event_rate", "recall", "precision", "f1", "accuracy", "roc_auc", "log_loss", "brier_score"]
THRESHOLD = 0.3
SHIFTS = ["none", "scores", "scores, without ratio", "concept"]


def main() -> None:
    arguments = _arguments()
    sizes, n_new = ([200], 2000) if arguments.smoke else ([1000, 5000], 20_000)
    repetitions = 3 if arguments.smoke else arguments.repetitions
    names = "".join(f"{name:>12}" for name in METRICS)
    print(f"{'n':>5}  {'shift':<26}{'all':>6}{names}   width of recall")
    for n in sizes:
        for shift in SHIFTS:
            found = [_holds(np.random.default_rng([n, k]), n, n_new, shift) for k in range(repetitions)]
            inside = np.array([one for one, _ in found])
            width = np.mean([wide for _, wide in found])
            rates = "".join(f"{rate:>12.3f}" for rate in inside.mean(axis=0))
            print(f"{n:>5}  {shift:<26}{inside.all(axis=1).mean():>6.3f}{rates}   {width:.3f}", flush=True)
    p = np.random.default_rng(0).beta(1.0, 3.0, 10**4 if arguments.smoke else 10**7)
    sort, expected = (
        min(_seconds(function) for _ in range(3))
        for function in (lambda: np.sort(p), lambda: expected_performance(p, certificate=0.01))
    )
    print(f"{p.size:.0e} predictions: {expected:.2f} s, np.sort {sort:.2f} s")


def truth_of(score: np.ndarray, shift: str) -> np.ndarray:
    return expit(0.8 * logit(score) + (0.7 if shift == "concept" else -0.2))


def _holds(rng: np.random.Generator, n: int, n_new: int, shift: str) -> tuple[np.ndarray, float]:
    """Return which intervals contain the true value, and the width of the interval of the recall."""
    score = rng.beta(1.5, 3.0, n)
    calibrator = IsotonicCalibrator().fit(score, rng.random(n) < truth_of(score, "none"))
    certificate = calibrator.cutoff_certificate(random_state=rng)
    new = rng.beta(2.5 if "scores" in shift else 1.5, 3.0, n_new)
    p = calibrator.transform(new)
    ratio = beta(1.5, 3.0) / beta(2.5, 3.0) if shift == "scores" else 1.0
    found = expected_performance(
        p, threshold=THRESHOLD, certificate=certificate.upper, max_density_ratio=ratio
    )
    true = _defined(truth_of(new, shift), p)
    inside = [getattr(found, m).lower <= true[m] <= getattr(found, m).upper for m in METRICS]
    return np.array(inside), found.recall.upper - found.recall.lower


def _defined(truth: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """Return metrics of the population, with both outcomes of each sample in their proportion."""
    y, w, score = np.repeat([1, 0], p.size), np.concatenate((truth, 1.0 - truth)), np.concatenate((p, p))
    act = score >= THRESHOLD
    return {
        "event_rate": truth.mean(),
        "recall": sk.recall_score(y, act, sample_weight=w),
        "precision": sk.precision_score(y, act, sample_weight=w),
        "f1": sk.f1_score(y, act, sample_weight=w),
        "accuracy": sk.accuracy_score(y, act, sample_weight=w),
        "roc_auc": sk.roc_auc_score(y, score, sample_weight=w),
        # not clipped: infinite if an event has probability 0
        "log_loss": float(np.average(_loss(y, score), weights=w)),
        "brier_score": sk.brier_score_loss(y, score, sample_weight=w),
    }


def _loss(y: np.ndarray, score: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return -np.log(np.where(y == 1, score, 1.0 - score))


def _seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _arguments() -> argparse.Namespace:
    return options_of(__doc__, repetitions=100)


if __name__ == "__main__":
    main()
