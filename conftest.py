"""Examples that need a library which is not installed are skipped; how long hypothesis searches."""

import importlib.util
import os
import re

import pytest

# Workers side by side have one processor each: threads of numerical libraries would wait for each other. Set
# before numpy is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")

if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    # the same examples in every run; how long one takes says nothing on a busy machine
    settings.register_profile(
        "quick",
        derandomize=True,
        deadline=None,
        database=None,
        max_examples=6,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("thorough", settings.get_profile("quick"), max_examples=1000)
    settings.load_profile("quick")

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
