"""Conversion of containers of other libraries to numpy arrays, without importing these libraries.

Data are not copied if numpy can read them in place.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

# device type of the CPU in the DLPack protocol
_DLPACK_CPU = 1


def as_samples(*values: Any) -> tuple[Any, ...]:
    """Return single values as arrays of one sample, and anything else as it is."""
    single = all(np.isscalar(value) or getattr(value, "ndim", 1) == 0 for value in values)
    return tuple(np.atleast_1d(as_array(value, "the value")) for value in values) if single else values


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return ``values`` as a plain numpy array, without a copy if possible.

    Numpy arrays, including memory-mapped arrays, lists, columns and tables of pandas, polars and pyarrow,
    tensors in CPU memory (gradients are dropped, floats that numpy lacks are converted), and objects with
    ``__array__``, ``__dlpack__`` or ``to_numpy`` are accepted; masked values, and memory of another device,
    are not.
    """
    if type(values) is np.ndarray and values.dtype.kind != "V":
        return values
    if hasattr(values, "weighted_sample"):
        raise TypeError(
            f"{name} is a {type(values).__name__}. Pass its arrays: y, p, w = sketch.weighted_sample(), with "
            "sample_weight=w."
        )
    if type(values) is dict:
        raise TypeError(
            f"{name} must be an array, a list or a column of a table, got dict. Pass the predictions of one "
            "model; compare_models, ComparisonDisplay, reliability_grid and decision curves take a dict."
        )
    if isinstance(values, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(values)
        if masked.any():
            row = int(np.argwhere(masked)[0, 0])
            raise ValueError(f"{name} is masked at index {row}. Remove or impute masked values first.")
    elif hasattr(values, "detach") and hasattr(values, "dtype"):
        device = getattr(values, "device", None)
        if getattr(device, "type", "cpu") != "cpu":
            raise TypeError(
                f"{name} is a tensor on the device {str(device)!r}. Move it to the CPU first: {name}.cpu()."
            )
        values = values.detach()
        if str(values.dtype).startswith(("torch.bfloat16", "torch.float8")):
            values = values.float()
    elif not hasattr(values, "__array__"):
        if hasattr(values, "__dlpack__"):
            device, _ = values.__dlpack_device__()
            if int(device) != _DLPACK_CPU:
                raise TypeError(
                    f"{name} is on a device that is not the CPU (DLPack type {int(device)}). "
                    "Move it to the CPU first."
                )
            values = np.from_dlpack(values)
        elif hasattr(values, "to_numpy"):
            values = values.to_numpy()
    if issparse(values):
        raise TypeError(f"{name} is a sparse matrix, but must be dense. Pass {name}.toarray().")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} cannot be read as an array: {error} Pass rows of equal length.") from None
    except (TypeError, RuntimeError, BufferError) as error:
        raise TypeError(
            f"{name} is a {type(values).__name__} that numpy cannot read: {str(error).rstrip('.')}. Pass "
            "a numpy array, or values in the memory of the CPU."
        ) from None
    if array.ndim == 0 and array.dtype.kind == "O":
        raise TypeError(
            f"{name} must be an array, a list or a column of a table, got {type(values).__name__}. Collect a "
            "lazy table first, and pass list(...) of an iterator or a set."
        )
    if array.dtype.kind == "V" and np.can_cast(array.dtype, np.float64):
        # bfloat16 and float8 of an extension of numpy
        return array.astype(np.float64)
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if array.dtype.kind == "O" and kind in "biuf" and array.ndim == 1:
        # nullable columns of older pandas, which have a numeric type but return objects
        missing = missing_values(array)
        if not missing.any():
            array = array.astype({"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}[kind])
        elif kind != "b":
            array = np.where(missing, np.nan, array).astype(np.float64)
    return array


def shape_of(values: Any, name: str) -> tuple[int, ...]:
    """Return the shape of :func:`as_array`, without a conversion if it is known."""
    shape = getattr(values, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else as_array(values, name).shape


def missing_values(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where an array of one dimension contains None, NaN, or a missing value of pandas."""
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype.kind in "mM":
        return np.isnat(array)
    if array.dtype.kind != "O":
        return np.zeros(array.shape[0], dtype=bool)
    return np.fromiter((_is_missing(value) for value in array.tolist()), dtype=bool, count=array.shape[0])


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ArithmeticError):
        # the missing value of pandas is neither equal to itself nor different; a signaling NaN of Decimal
        return True
    except ValueError:
        # an array as an element
        return False
