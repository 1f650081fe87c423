"""The containers that users keep numbers in, for the tests of what is accepted.

A new container is one row of ``CONTAINERS``. Values that the tests put into them are multiples of 1/128,
which numbers of 16 bits hold exactly, so that no container may change a result.
"""

import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest


class StandInTensor:
    """What is asked of a tensor of torch, by the same names and with the same refusals."""

    def __init__(self, values, dtype="torch.float32", requires_grad=False, device="cpu"):
        self._values = np.asarray(values)
        self.dtype = dtype
        self.requires_grad = requires_grad
        self.device = SimpleNamespace(type=device)
        self.shape = self._values.shape

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.device.type != "cpu":
            raise TypeError(f"can't convert {self.device.type} device type tensor to numpy.")
        if self.dtype in ("torch.bfloat16", "torch.float8_e5m2"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype}.")
        return self._values if dtype is None else self._values.astype(dtype)

    def detach(self):
        return StandInTensor(self._values, self.dtype, False, self.device.type)

    def float(self):
        return StandInTensor(self._values, "torch.float32", self.requires_grad, self.device.type)


class Exchangeable:
    """An array of the array API standard that can only be exchanged, and knows nothing of numpy."""

    def __init__(self, values, device=1):
        self._values = np.asarray(values)
        self._device = device
        self.shape = self._values.shape

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self._device, 0)


def buffer(values):
    flat = array.array("q" if values.dtype.kind == "i" else "d", values.ravel().tolist())
    return memoryview(flat).cast("b").cast(flat.typecode, values.shape) if values.ndim == 2 else flat


def pandas_column(values, folder, dtype=None):
    import pandas as pd

    whole = values.dtype.kind == "i"
    if dtype == "nullable":
        dtype = "Int64" if whole else "Float64"
    if dtype == "arrow":
        dtype = "int64[pyarrow]" if whole else "double[pyarrow]"
    if values.ndim == 2:
        return pd.DataFrame(values, columns=list("abc")[: values.shape[1]], dtype=dtype)
    return pd.Series(values, index=np.arange(len(values))[::-1] * 2 + 7, dtype=dtype)


def polars_column(values, folder):
    import polars as pl

    if values.ndim == 2:
        return pl.DataFrame(values, schema=list("abc")[: values.shape[1]], orient="row")
    return pl.Series("p", values)


def pyarrow_column(values, folder, chunks=1):
    import pyarrow as pa

    if values.ndim == 2:
        return pa.table({name: values[:, k] for k, name in zip(range(values.shape[1]), "abc", strict=False)})
    return pa.array(values) if chunks == 1 else pa.chunked_array(np.array_split(values, chunks))


def memory_map(values, folder, dtype=None):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, values if dtype is None or values.dtype.kind != "f" else values.astype(dtype))
    return np.load(path, mmap_mode="r")


def tensor(values, folder, dtype="float64", **options):
    import torch

    if values.dtype.kind != "f":
        return torch.tensor(values)
    return torch.tensor(values, dtype=getattr(torch, dtype), **options)


def stand_in(values, folder, dtype="float64"):
    grad = values.dtype.kind == "f"
    return StandInTensor(values, f"torch.{dtype}" if grad else "torch.int64", grad)


def extension(values, folder):
    import ml_dtypes

    return values.astype(ml_dtypes.bfloat16 if values.dtype.kind == "f" else np.int8)


def of_type(dtype):
    return lambda values, folder: values.astype(dtype if values.dtype.kind == "f" else np.int8)


@dataclass(frozen=True)
class Container:
    """A way to hold the values of a numpy array, with a folder for those that need files.

    ``tensor``: only we, and not scikit-learn, can read it, or with less precision.
    """

    name: str
    make: Callable
    needs: tuple = ()
    tensor: bool = False

    @property
    def available(self):
        return all(find_spec(module) for module in self.needs)


CONTAINERS = [
    Container("list", lambda values, folder: values.tolist()),
    Container("buffer", lambda values, folder: buffer(values), tensor=True),
    Container("float16", of_type(np.float16), tensor=True),
    Container("float32", of_type(np.float32), tensor=True),
    Container("big_endian", lambda values, folder: values.astype(values.dtype.newbyteorder(">"))),
    Container("every_other", lambda values, folder: np.repeat(values, 2, axis=0)[::2]),
    Container("memory_map", memory_map),
    Container("memory_map_float32", partial(memory_map, dtype=np.float32), tensor=True),
    Container("pandas", pandas_column, ("pandas",)),
    Container("pandas_nullable", partial(pandas_column, dtype="nullable"), ("pandas",)),
    Container("pandas_arrow", partial(pandas_column, dtype="arrow"), ("pandas", "pyarrow")),
    Container("polars", polars_column, ("polars",)),
    Container("pyarrow", pyarrow_column, ("pyarrow",)),
    Container("pyarrow_chunked", partial(pyarrow_column, chunks=3), ("pyarrow",)),
    Container("exchangeable", lambda values, folder: Exchangeable(values), tensor=True),
    Container("stand_in_tensor", stand_in, tensor=True),
    Container("stand_in_bfloat16", partial(stand_in, dtype="bfloat16"), tensor=True),
    Container("stand_in_float8", partial(stand_in, dtype="float8_e5m2"), tensor=True),
    Container("bfloat16", extension, ("ml_dtypes",), True),
    Container("torch", tensor, ("torch",), True),
    Container("torch_float32", partial(tensor, dtype="float32"), ("torch",), True),
    Container("torch_bfloat16", partial(tensor, dtype="bfloat16"), ("torch",), True),
    Container("torch_gradient", partial(tensor, requires_grad=True), ("torch",), True),
]


def over(containers):
    """Return the mark of a test that takes these containers, and skips those whose library is not there."""

    def row(container):
        needs = f"needs {' and '.join(container.needs)}"
        missing = pytest.mark.skipif(not container.available, reason=needs)
        return pytest.param(container, id=container.name, marks=missing)

    rows = [row(container) for container in containers]
    return pytest.mark.parametrize("container", rows)
