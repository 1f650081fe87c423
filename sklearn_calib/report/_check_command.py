"""The command ``check``: ``python -m sklearn_calib check predictions.csv --requirements FILE``."""

import argparse
from collections.abc import Callable
from typing import Any

from sklearn_calib._writing import write_whole
from sklearn_calib.report._requirements import CalibrationRequirements, RequirementsResult

_EXAMPLES = """requirements.toml, for example:
  slope = [0.9, 1.1]
  intercept = [-0.1, 0.1]
  certificate = 0.02
  smooth_ece = 0.03
  segment_difference = { limit = 0.05, min_samples = 500 }
  alpha = 0.05

examples:
  python -m sklearn_calib check predictions.csv --requirements requirements.toml --y outcome --p probability
  python -m sklearn_calib check scores.parquet --requirements requirements.toml --y died --p risk \\
      --group hospital --junit calibration.xml --markdown calibration.md

exit status: 0 if all requirements are shown, 1 if any is refuted, 3 if none is refuted but some are
undecided, 2 for invalid input. With --undecided skipped, undecided requirements do not change the status.
"""


def add_check(new_command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    check = new_command(
        "check",
        "check whether predictions in files meet requirements on calibration",
        "Check by equivalence tests whether predicted probabilities in files meet requirements "
        "on calibration: each is shown, refuted, or undecided.",
        _EXAMPLES,
        simulates=True,
    )
    check.add_argument("--requirements", required=True, metavar="FILE", help="the requirements, in TOML")
    check.add_argument("--group", metavar="COLUMN", help="column of segments, for segment_difference")
    check.add_argument("--junit", metavar="FILE", help="write the outcomes as JUnit XML")
    check.add_argument("--markdown", metavar="FILE", help="write the outcomes as a table in Markdown")
    check.add_argument(
        "--undecided",
        choices=("failure", "skipped"),
        default="failure",
        help="how an undecided requirement counts in JUnit XML and for the exit status (default: failure)",
    )
    check.add_argument(
        "--n-resamples", type=int, default=200, metavar="N", help="number of simulations (default: 200)"
    )
    check.set_defaults(sketch="auto")


def check_requirements(
    options: argparse.Namespace, requirements: CalibrationRequirements, *data: Any, **given: Any
) -> RequirementsResult:
    """Check the requirements, and write the requested files."""
    result = requirements.check(*data, n_resamples=options.n_resamples, random_state=options.seed, **given)
    if options.junit is not None:
        write_whole(options.junit, result.to_junit(undecided=options.undecided).encode())
    if options.markdown is not None:
        write_whole(options.markdown, result.to_markdown().encode())
    return result


def exit_status(result: RequirementsResult, undecided: str) -> int:
    """Return the exit status: 2 is that of invalid input."""
    return {"shown": 0, "refuted": 1, "undecided": 3 if undecided == "failure" else 0}[result.outcome]
