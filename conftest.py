"""Examples in docstrings that need a library which is not installed are skipped."""

import importlib.util
import re

import pytest

OPTIONAL = ("dask", "distributed", "matplotlib", "pandas", "pyarrow", "pyspark")
# what draws imports matplotlib by itself
DRAWS = re.compile(r"from sklearn_calib\.plot import .*(Display|Panel)")


def pytest_runtest_setup(item):
    """Skip a doctest that needs a missing optional library."""
    test = getattr(item, "dtest", None)
    for example in () if test is None else test.examples:
        found = re.match(r"(?:import|from) (\w+)", example.source)
        needed = "matplotlib" if DRAWS.match(example.source) else found[1] if found else None
        if needed in OPTIONAL and importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
