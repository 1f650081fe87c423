"""Examples in docstrings that need a library which is not installed are skipped."""

import importlib.util
import re

import pytest

OPTIONAL = ("dask", "distributed", "pyarrow", "pyspark")


def pytest_runtest_setup(item):
    """Skip a doctest that imports a missing optional library."""
    test = getattr(item, "dtest", None)
    for example in () if test is None else test.examples:
        found = re.match(r"(?:import|from) (\w+)", example.source)
        if found and found[1] in OPTIONAL and importlib.util.find_spec(found[1]) is None:
            pytest.skip(f"{found[1]} is not installed")
