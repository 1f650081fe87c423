"""Libraries that the package can do without: where one is missing, the test that uses it skips.

``from tests._optional import pandas as pd`` stands for ``import pandas as pd`` in files most of whose tests
need no pandas.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NoReturn

import pytest

__all__ = [
    "dask", "dask_array", "distributed", "duckdb", "feather", "jsonschema", "onnxruntime", "pandas",
    "parquet", "polars", "pyarrow", "pyplot", "skl2onnx",
]  # fmt: skip


class Missing:
    """What stands for a library that is not installed, and for all in it: a test that calls it skips."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cache  # noqa: B019  there are few of them, and each must be identical to itself
    def __getattr__(self, name: str) -> "Missing":
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        pytest.skip(f"{self._name.split('.')[0]} is not installed")


class Later(ModuleType):
    """A library that is imported when a test first asks it for something."""

    def __getattr__(self, name: str) -> Any:
        # pytest asks what it collects for its own marks
        if name.startswith(("_", "pytest")):
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)


def optional(name: str) -> ModuleType | Missing:
    return Missing(name) if find_spec(name.partition(".")[0]) is None else Later(name)


pandas, polars, pyplot = optional("pandas"), optional("polars"), optional("matplotlib.pyplot")
duckdb, jsonschema = optional("duckdb"), optional("jsonschema")
onnxruntime, skl2onnx = optional("onnxruntime"), optional("skl2onnx")
dask, dask_array, distributed = optional("dask"), optional("dask.array"), optional("distributed")
pyarrow, feather, parquet = optional("pyarrow"), optional("pyarrow.feather"), optional("pyarrow.parquet")
