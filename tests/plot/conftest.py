import importlib.util
import sys

import pytest

if importlib.util.find_spec("matplotlib") is not None:
    import matplotlib

    matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
