"""Rerun the experiments of the four papers on which this package is based.

    python -m benchmarks.papers

Writes the table "experiment, reported, ours, tolerance, verdict" to benchmarks/results/papers.md and .csv,
and the figures to docs/_static/papers. "reported" is what the paper, its figures or its authors' files state;
"theory: ..." is a value derived here. Verdicts: "agrees" within the tolerance of the reported result; "holds"
for a stated property, or within the tolerance of theory; "differs" where the paper or its code is wrong, with
the reason in the note; "stand-in" for other data than those of the paper, with nothing to compare; "skipped"
without the data.
"FAILS" is an error: the exit status is then 1.

    --data FOLDER      external data (default: environment variable SKLEARN_CALIB_DATA)
    --only PAPER       smooth_ece, logit_smoothed, cutoff or tcal; the results of the others are kept
    --output FOLDER    folder of tables and figures instead
    --full             as many repetitions as in the papers
    --smoke            few repetitions, as a check of every row; writes only to a given folder
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers import cutoff, logit_smoothed, smooth_ece, tcal
from benchmarks.papers.study import Row, Study, markdown, read_rows, write_rows

ROOT = Path(__file__).resolve().parents[2]
PAPERS = {"smooth_ece": smooth_ece, "logit_smoothed": logit_smoothed, "cutoff": cutoff, "tcal": tcal}


def _folders(options: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """Return the folders of the table and of the figures."""
    if options.output is not None:
        return options.output, options.output
    if options.smoke:
        return None, None
    return ROOT / "benchmarks" / "results", ROOT / "docs" / "_static" / "papers"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SKLEARN_CALIB_DATA"))
    parser.add_argument("--only", choices=tuple(PAPERS))
    parser.add_argument("--output", type=Path)
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--full", action="store_true")
    effort.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    data = None if options.data is None else Path(options.data)
    if data is not None and not data.is_dir():
        parser.error(f"--data {data}: there is no such folder")
    tables, figures = _folders(options)
    kept: dict[str, list[Row]] = {}
    if options.only and tables is not None and (tables / "papers.csv").is_file():
        for row in read_rows(tables / "papers.csv"):
            kept.setdefault(row.paper, []).append(row)
    rows: list[Row] = []
    for name, module in PAPERS.items():
        if options.only not in (None, name):
            rows += kept.get(module.PAPER, [])
            continue
        start = time.perf_counter()
        print(module.PAPER)
        study = Study(
            module.PAPER,
            effort="smoke" if options.smoke else "full" if options.full else "default",
            data=data,
            figures=figures,
        )
        module.run(study)
        rows += study.rows
        print(f"  {time.perf_counter() - start:.0f} s\n")
    if tables is not None:
        write_rows(tables / "papers.csv", rows)
        (tables / "papers.md").write_text(markdown(rows), encoding="utf-8")
    failed = [row for row in rows if row.verdict == "FAILS"]
    counts = {
        verdict: sum(row.verdict == verdict for row in rows) for verdict in sorted({r.verdict for r in rows})
    }
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    for row in failed:
        expected = f"expected {row.reported} ({row.tolerance})"
        print(f"FAILS: {row.paper}: {row.experiment}: ours {row.ours}, {expected}")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
