"""Coverage and width of the intervals of ``mean_label``.

    python benchmarks/mean_label.py [--repetitions 400]

4000 answers have a score, and 50, 100, 200 or 500 of them a label; the mean label is .05 to .95. A judge is
good (an AUC of .92), near perfect, a verdict that is right in 85% of the answers, overconfident (the good
one, whose stated confidence is rounded to twentieths, most of them 0 or 1), or useless. Biased scores, and
any others in the same order, give the same interval. With ``--prompts``, each prompt has five answers, with a
correlation of .4 in the normal variable whose sign is the label, and prompts are labeled as a whole.

For each mean label: the coverage in percent of 95% intervals, and in brackets their mean width as a
fraction of that of Wilson's interval of the labels alone, whose coverage is in the first row.

    --labels 50 100      numbers of labels
    --prompts            clusters of five answers
    --smoke              a few small ones, as a quick check
"""

import warnings
from collections.abc import Callable

import numpy as np
from _options import parser_of
from scipy.special import expit, ndtri

from sklearn_calib.inference import mean_label

ANSWERS, PER_PROMPT = 4000, 5
MEANS = [0.05, 0.2, 0.5, 0.8, 0.95]
Judge = Callable[[np.ndarray, np.random.Generator], np.ndarray]
JUDGES: dict[str, Judge] = {
    "good": lambda sign, rng: sign + rng.normal(size=sign.size),
    "near perfect": lambda sign, rng: 4.0 * sign + rng.normal(size=sign.size),
    "verdict": lambda sign, rng: np.where(rng.random(sign.size) < 0.85, sign, -sign),
    "overconfident": lambda sign, rng: np.round(20.0 * expit(4.0 * (sign + rng.normal(size=sign.size)))),
    "useless": lambda sign, rng: rng.normal(size=sign.size),
}


def main() -> None:
    parser = parser_of(__doc__, repetitions=400, labels=[50, 100, 200, 500])
    parser.add_argument("--prompts", action="store_true")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.repetitions, arguments.labels = 2, [50]
    print(f"{'labels':>6}  {'judge':<14}" + "".join(f"{mean:>12g}" for mean in MEANS))
    for n in arguments.labels:
        found = {
            name: [measured(n, mean, judge, arguments.prompts, arguments.repetitions) for mean in MEANS]
            for name, judge in JUDGES.items()
        }
        alone = "".join(f"{100 * of_mean[2]:>12.1f}" for of_mean in found["good"])
        print(f"{n:>6}  {'labels alone':<14}{alone}")
        for name, values in found.items():
            row = "".join(f"{100 * inside:>6.1f} ({ratio:.2f})"[:13].rjust(12) for inside, ratio, _ in values)
            print(f"{n:>6}  {name:<14}{row}", flush=True)


def measured(n: int, mean: float, judge: Judge, prompts: bool, repetitions: int) -> tuple[float, ...]:
    """Return the coverage, the ratio of widths, and the coverage of the labels alone."""
    found = np.array(
        [one(np.random.default_rng([n, k]), n, mean, judge, prompts) for k in range(repetitions)]
    )
    inside, width, alone, width_alone = found.mean(axis=0)
    return inside, width / width_alone, alone


def one(
    rng: np.random.Generator, n: int, mean: float, judge: Judge, prompts: bool, answers: int = ANSWERS
) -> tuple[float, ...]:
    """Return whether the interval of one sample contains the mean, its width, and both for labels alone."""
    latent, clusters = rng.normal(size=answers), np.arange(answers) // PER_PROMPT
    if prompts:
        latent = np.sqrt(0.6) * latent + np.sqrt(0.4) * rng.normal(size=answers)[clusters]
    y = latent < ndtri(mean)
    score = judge(2.0 * y - 1.0, rng)
    known = np.arange(answers) < n
    with warnings.catch_warnings():
        # ten prompts are few
        warnings.simplefilter("ignore", UserWarning)
        found = mean_label(np.where(known, y, np.nan), score, clusters=clusters if prompts else None)
    return tuple(
        value
        for interval in (found, found.labels_alone)
        for value in (interval.lower <= mean <= interval.upper, interval.upper - interval.lower)
    )


if __name__ == "__main__":
    main()
