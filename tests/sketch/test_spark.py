"""The ten lines for Spark that stand in the guide, run as they stand there."""

import importlib.util
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch

ROOT = Path(__file__).resolve().parents[2]

SESSION = """
import pickle, sys
from pyspark.sql import SparkSession

code, saved, other = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name in ("spark.driver.host", "spark.driver.bindAddress"):
    builder = builder.config(name, "127.0.0.1")
spark = builder.getOrCreate()
table = spark.range(0, 20000, numPartitions=5).selectExpr(
    "id * 31 % 7 = 0 as died", "id * 7919 % 1000 / 1000D as risk", "id as unused"
)
names = {"__name__": "__main__", "table": table}
exec(compile(code, "guide", "exec"), names)
names["sketch"].save(saved)
sum(pickle.loads(row.sketch) for row in names["parts"].toLocalIterator()).save(other)
spark.stop()
"""


def lines():
    """Return the code of the guide."""
    text = (ROOT / "docs" / "scale_out.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```py\n(import pickle\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return block


def table():
    """Return the rows of the table above."""
    number = np.arange(20000)
    return number * 31 % 7 == 0, number * 7919 % 1000 / 1000


def test_the_function_of_a_partition():
    pyarrow, names = pytest.importorskip("pyarrow"), {"__name__": "guide"}
    exec(compile(lines().split("parts = ")[0], "guide", "exec"), names)
    died, risk = table()
    for batches in (pyarrow.table({"died": died, "risk": risk}).to_batches(max_chunksize=3000), []):
        (made,) = names["to_sketch"](iter(batches))
        assert (made.schema.names, made.schema.field("sketch").type) == (["sketch"], pyarrow.binary())
        (sketch,) = (pickle.loads(cell) for cell in made.column(0).to_pylist())
        assert sketch == (CalibrationSketch().update(died, risk) if batches else CalibrationSketch())


def test_spark_gives_the_sketch_of_all_rows(tmp_path):
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("Spark needs pyspark and Java")
    saved, other = tmp_path / "tree.json", tmp_path / "driver.json"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SESSION, lines(), str(saved), str(other)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    expected = CalibrationSketch().update(*table())
    assert CalibrationSketch.load(saved) == CalibrationSketch.load(other) == expected
