"""The three tiers of tests, and doctests of optional libraries."""

import gc
import importlib.util
import os
import re
import sys

import pytest

# Workers side by side have one processor each: threads of numerical libraries would wait for each other. Set
# before numpy is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")

# figures are drawn without windows
os.environ.setdefault("MPLBACKEND", "agg")

if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    # the same examples in every run, without a deadline: machines may be busy
    settings.register_profile(
        "quick",
        derandomize=True,
        deadline=None,
        database=None,
        max_examples=3,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("thorough", settings.get_profile("quick"), max_examples=50)
    settings.register_profile("search", settings.get_profile("quick"), max_examples=1000)
    settings.load_profile("quick")

OPTIONAL = ("dask", "distributed", "matplotlib", "pandas", "pyarrow", "pyspark")
# what draws imports matplotlib by itself
DRAWS = re.compile(r"from sklearn_calib\.plot import .*(Display|Panel)")
READS = re.compile(r"from sklearn_calib\.sketch import .*sketch_file")


TIERS = {
    "thorough": "simulations and wide property tests, run before a change lands",
    "weekly": "simulations of levels, power and coverage, run once a week",
}


def pytest_addoption(parser):
    """Add the options of the second and third tier."""
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run the tests marked as thorough too, and property tests with more examples",
    )
    parser.addoption("--weekly", action="store_true", help="run the tests marked as weekly too")


def pytest_configure(config):
    """Register the marks of the tiers; let hypothesis try more examples in the second."""
    for tier, content in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {content}, only with --{tier}")
    chosen = config.getoption("--hypothesis-profile", default=None)
    if config.getoption("--thorough") and chosen is None and importlib.util.find_spec("hypothesis"):
        settings.load_profile("thorough")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Leave the files of the first tier whole: what their tests share is then made by one worker."""
    if config.getoption("dist") == "load" and not any(config.getoption(f"--{tier}") for tier in TIERS):
        from xdist.scheduler import LoadFileScheduling

        return LoadFileScheduling(config, log)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect garbage of the tests alone: there is none among the thousands of tests that are found."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Leave out the second and third tier unless they are asked for."""
    absent = [tier for tier in TIERS if not config.getoption(f"--{tier}")]
    left_out = {item for item in items if any(item.get_closest_marker(tier) for tier in absent)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def _close_figures():
    """Close the figures of a test or doctest: matplotlib warns of more than twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_runtest_setup(item):
    """Skip a doctest that needs a missing optional library."""
    test = getattr(item, "dtest", None)
    for example in () if test is None else test.examples:
        found = re.match(r"(?:import|from) (\w+)", example.source)
        needed = found[1] if found else None
        if DRAWS.match(example.source):
            needed = "matplotlib"
        elif READS.match(example.source):
            needed = "pyarrow"
        if needed in OPTIONAL and importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
