"""No call needs more memory than a stated multiple of its input, and nothing is held for all draws at once.

Entries are found in what the subpackages export, by ``benchmarks/_entries.py``: a new metric, test or
calibrator is held to the multiple of its family, which is read from the table of docs/scale_out.md.
"""

import gc
import re
import tracemalloc
import warnings

import pytest

from tests._scripts import ROOT, script
from tests._tiers import thorough, weekly

TEXT = (ROOT / "docs" / "scale_out.md").read_text(encoding="utf-8").split("## Memory")[1].split("\n## ")[0]
TABLE = re.findall(r"^\| ([a-z ]+) \| (\d+) \| (.*) \|$", TEXT, flags=re.MULTILINE)
#: Bytes allocated at the peak of a call, as a multiple of those of its input, at most.
LIMITS = {family: int(limit) for family, limit, _ in TABLE}
#: What needs more than its family, or far less.
EXCEPTIONS = {family: dict(re.findall(r"`(.+?)` (\d+)", cell)) for family, _, cell in TABLE}
N_ROWS = {family: 2 * 10**4 if family.endswith("ten classes") else 10**6 for family in LIMITS}
#: What takes longer than a second has fewer rows, but enough to outweigh what is of a fixed size.
FEWER_ROWS = {
    "AutoCalibrator": 10**5,
    "AutoCalibrator, ten classes": 5 * 10**3,
    "DirichletCalibrator": 10**5,
    "LogAverageCalibrator": 10**5,
    "MatrixScalingCalibrator": 10**5,
    "SampleSplittingTest": 2 * 10**5,
    "SequentialTest": 2 * 10**5,
    "StructuredMatrixScalingCalibrator": 10**5,
    "VectorScalingCalibrator": 10**5,
    "calibration_report": 2 * 10**5,
}
DRAWS = 39


ENTRIES = script("benchmarks/_entries.py")
FAMILIES = ENTRIES.families(DRAWS)


def peak(build, n):
    """Return the bytes that a call allocates at its peak; imports and caches are filled before."""
    with warnings.catch_warnings(action="ignore"):
        build(ENTRIES.data_of(300))()
        task = build(ENTRIES.data_of(n))
        # data are made when they are first asked for
        gc.collect()
        tracemalloc.start()
        try:
            task()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def quick(names):
    return next((name for name in names if name not in FEWER_ROWS), next(iter(names)))


@pytest.mark.parametrize(
    ("family", "name"),
    [
        # one of each family before a change lands, all of them once a week
        (thorough if name == quick(found) else weekly)(family, name)
        for family, found in FAMILIES.items()
        for name in found
    ],
)
def test_peak_is_within_the_multiple(family, name):
    if family == "displays":
        pytest.importorskip("matplotlib").use("agg")
    n = FEWER_ROWS.get(name, N_ROWS[family])
    width = 8 + 8 * ENTRIES.N_CLASSES if "classes" in family else 16
    assert peak(FAMILIES[family][name], n) <= int(EXCEPTIONS[family].get(name, LIMITS[family])) * width * n


def test_the_table_names_what_there_is():
    assert set(LIMITS) == set(FAMILIES)
    assert sum(map(len, EXCEPTIONS.values())) > 10
    for family, found in EXCEPTIONS.items():
        assert set(found) <= set(FAMILIES[family])
