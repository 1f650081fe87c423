"""Real data that the repository does not ship."""

import os
from pathlib import Path

import pytest


def outside_data(*parts):
    """Return a file of the data folder, or skip the test where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    source = Path(os.environ.get("SKLEARN_CALIB_DATA", default)).joinpath(*parts)
    if not source.is_file():
        pytest.skip(f"{'/'.join(parts)} is absent; set SKLEARN_CALIB_DATA to the folder that holds it")
    return source
