"""Sketches of distributed data: each partition is summed on its worker, and only sketches are moved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from operator import add
from typing import Any

import numpy as np

from sklearn_calib._core._blocks import blocks
from sklearn_calib._docs import shared_docs
from sklearn_calib.sketch._batches import add_batch
from sklearn_calib.sketch._saved import check_precision
from sklearn_calib.sketch._sketch import CalibrationSketch

# Number of sketches merged at a time.
_MERGED = 8


@shared_docs
def sketch_dask(
    y_true: Any,
    y_proba: Any = None,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    precision: int = 17,
    compute: bool = True,
) -> Any:
    """Return the sketch of Dask arrays, series or delayed batches, computed where the data lie.

    Each partition becomes a sketch on the worker that holds it; sketches are merged there, some at a time,
    and one is returned.

    Parameters
    ----------
    y_true : dask array or series of shape (n,), or sequence of Delayed
        Outcomes. Or delayed batches, without ``y_proba``: each one a tuple ``(y_true, y_proba)`` or
        ``(y_true, y_proba, sample_weight)``, or a sketch.
    y_proba : dask array, series or dataframe of shape (n,), (n, 1) or (n, 2), default=None
        Predicted probabilities of the positive class in [0, 1]; of two columns the last is used.
    sample_weight : dask array or series of shape (n,), default=None
        Non-negative weights.
    %(sketched)s
    compute : bool, default=True
        Whether to compute immediately, on the current client if there is one; otherwise return a Delayed.

    Returns
    -------
    CalibrationSketch or Delayed
        The sketch of all samples.

    Raises
    ------
    ValueError
        If arguments are malformed or have different partitions, or, during the computation, if the data are
        malformed; the message names the partition, counted from 0.
    TypeError
        If an argument is not a Dask collection.
    ImportError
        If Dask is not installed.

    See Also
    --------
    sketch_batches : The sketch of an iterable of batches.
    sketch_file : The sketch of files; for many files on a cluster use ``dask.delayed(sketch_file)(...)``.

    Notes
    -----
    Partition i of all arguments must contain the same samples. Columns of one dataframe always do. Arrays
    with known chunks are checked, and ``y_proba.rechunk({0: y_true.chunks[0]})`` aligns them. Arrays with
    unknown chunks, such as those of series, need the same number of partitions, and each partition is checked
    when it is computed.

    Sketches are merged in a tree, eight at a time. Without weights, or with
    integer weights, the sketch does not depend on partitions, on their order, or on workers
    that are lost and whose parts are computed again, bit for bit.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn_calib.sketch import sketch_dask
    >>> p = da.linspace(0.125, 0.875, 4000, chunks=1000)
    >>> y = (da.arange(4000, chunks=1000) * 7919) % 4000 < 4000 * p**2
    >>> sketch = sketch_dask(y, p)
    >>> print(f"observed {sketch.event_rate:.2f}, expected {sketch.mean_prediction:.2f}")
    observed 0.30, expected 0.50
    """
    check_precision(precision)
    delayed = _dask("delayed").delayed
    if y_proba is None:
        parts = _of_batches(y_true, sample_weight, pos_label, precision)
    else:
        parts = _of_collections(y_true, y_proba, sample_weight, pos_label, precision)
    merge = delayed(_merge_sketches)
    while len(parts) > 1:
        parts = [merge(parts[some]) for some in blocks(len(parts), _MERGED)]
    return parts[0].compute() if compute else parts[0]


def _dask(module: str) -> Any:
    """Import a module of Dask."""
    try:
        return import_module(f"dask.{module}")
    except ImportError as error:
        raise ImportError(
            "sketch_dask works on data of Dask, which is not installed or lacks a part "
            f'({error}). Install it with python -m pip install "sklearn-calib[dask]".'
        ) from None


def _of_batches(batches: Any, sample_weight: Any, pos_label: Any, precision: int) -> list[Any]:
    """Return the delayed sketches of delayed batches."""
    module = _dask("delayed")
    if sample_weight is not None:
        raise ValueError(
            "sample_weight needs y_proba; pass weights of delayed batches as their third element."
        )
    if not isinstance(batches, Sequence) or not all(isinstance(batch, module.Delayed) for batch in batches):
        raise TypeError(
            "y_true without y_proba must be a sequence of Delayed batches, got "
            f"{type(batches).__name__}. Pass y_true and y_proba as Dask arrays or series; for data in memory "
            "use CalibrationSketch.update."
        )
    if not batches:
        raise ValueError("y_true is an empty sequence of batches. Pass at least one.")
    sketch_batch = module.delayed(_sketch_batch)
    return [sketch_batch(batch, number, pos_label, precision) for number, batch in enumerate(batches)]


def _of_collections(y: Any, p: Any, w: Any, pos_label: Any, precision: int) -> list[Any]:
    """Return the delayed sketches of the partitions of arrays, of series, or of both."""
    given = {"y_true": y, "y_proba": p} | ({} if w is None else {"sample_weight": w})
    frames = {name: _is_frame(name, value) for name, value in given.items()}
    if all(frames.values()):
        _check_partitions({name: value.npartitions for name, value in given.items()})
        made = y.map_partitions(
            _sketch_frames, p, w, pos_label, precision,
            meta=(None, object), enforce_metadata=False, align_dataframes=False,
        )  # fmt: skip
        parts: list[Any] = made.to_delayed()
        return parts
    arrays = {name: value.values if frames[name] else value for name, value in given.items()}
    _check_chunks(arrays)
    array = _dask("array")
    n_parts = arrays["y_true"].numblocks[0]
    indexed = [pair for value in arrays.values() for pair in (value, "ij"[: value.ndim])]
    made = array.blockwise(
        _sketch_chunks, "i", array.arange(n_parts, chunks=1), "i", *indexed,
        pos_label=pos_label, precision=precision,
        dtype=object, meta=np.empty(0, dtype=object), adjust_chunks={"i": 1},
        concatenate=True, align_arrays=False,
    )  # fmt: skip
    return [chunk[0] for chunk in made.to_delayed().ravel()]


def _is_frame(name: str, value: Any) -> bool:
    """Tell a dataframe or series from an array; raise if it is neither."""
    if isinstance(value, _dask("array").Array):
        if value.ndim != 1 and not (value.ndim == 2 and name == "y_proba"):
            raise ValueError(f"{name} must have shape (n,), got shape {value.shape}.")
        return False
    if _dask("base").is_dask_collection(value) and hasattr(value, "divisions"):
        return True
    raise TypeError(
        f"{name} must be a Dask array or series, got {type(value).__name__}. For data in memory "
        "use CalibrationSketch.update."
    )


def _check_chunks(arrays: dict[str, Any]) -> None:
    """Raise if partitions of arrays cannot hold the same samples; sizes may be unknown."""
    _check_partitions({name: value.numblocks[0] for name, value in arrays.items()})
    first = arrays["y_true"].chunks[0]
    for name, value in arrays.items():
        sizes = value.chunks[0]
        for number, (mine, theirs) in enumerate(zip(first, sizes, strict=True)):
            # unknown sizes are NaN
            if mine < theirs or mine > theirs:
                raise ValueError(
                    f"y_true and {name} have different chunks: partition {number} has {mine} and {theirs} "
                    f"samples. Pass {name}.rechunk({{0: y_true.chunks[0]}})."
                )


def _check_partitions(numbers: dict[str, int]) -> None:
    if len(set(numbers.values())) > 1:
        shown = ", ".join(f"{name} {number}" for name, number in numbers.items())
        raise ValueError(
            f"the arguments have different numbers of partitions: {shown}. Pass columns of one dataframe, or "
            "rechunk arrays alike."
        )


def _sketch_batch(batch: Any, number: int, pos_label: Any, precision: int) -> CalibrationSketch:
    """Return the sketch of one partition; it runs on a worker."""
    sketch = CalibrationSketch(precision=precision, pos_label=pos_label)
    add_batch(sketch, batch, f"partition {number}")
    # sums over all bins are given up: the worker may keep many sketches
    sketch._finish()
    return sketch


def _sketch_frames(
    y: Any, p: Any, w: Any, pos_label: Any, precision: int, partition_info: Any = None
) -> CalibrationSketch:
    number = -1 if partition_info is None else partition_info["number"]
    return _sketch_batch((y, p, w), number, pos_label, precision)


def _sketch_chunks(number: Any, *arrays: Any, pos_label: Any, precision: int) -> Any:
    out = np.empty(1, dtype=object)
    out[0] = _sketch_batch(arrays, int(number[0]), pos_label, precision)
    return out


def _merge_sketches(sketches: list[CalibrationSketch]) -> CalibrationSketch:
    """Return the sum of sketches, which stay as they are: if a worker is lost they are needed again."""
    return reduce(add, sketches)._finish()
