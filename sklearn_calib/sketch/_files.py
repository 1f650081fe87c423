"""A sketch as plain numbers, and as a file: exact, versioned, and checked when it is read."""

import io
import json
import os
import zipfile
import zlib
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_calib._validation import check_integer
from sklearn_calib._writing import write_whole
from sklearn_calib.sketch._cells import POSITIONS, cell_grid
from sklearn_calib.sketch._contents import Contents

__all__ = [
    "check_precision",
    "contents_from_dict",
    "contents_to_dict",
    "read_file",
    "write_file",
    "write_json",
]

_FORMAT, _VERSION = "sklearn_calib.CalibrationSketch", 1
# what numbers and texts that nobody checked can raise
_DAMAGED = (KeyError, TypeError, ValueError, OverflowError, MemoryError, SyntaxError)
_ARRAYS = ("cell", "negatives", "positives", "offset")
# With fewer bits the tails have no cells; with more, the edges near 1 would be no floats.
LEAST_PRECISION, MOST_PRECISION = 8, 20


def check_precision(value: Any) -> int:
    """Return the precision as int if there are cells for it."""
    precision = check_integer(value, "precision", LEAST_PRECISION)
    if precision > MOST_PRECISION:
        raise ValueError(
            f"precision must be at most {MOST_PRECISION}, got {precision}: finer cells save nothing."
        )
    return precision


def contents_to_dict(contents: Contents, precision: int, n_rows: int, pos_label: Any) -> dict[str, Any]:
    """Return a sketch as a dict of numbers and lists; whole numbers as int, which loses nothing."""
    if isinstance(pos_label, np.generic):
        pos_label = pos_label.item()
    if pos_label is not None and not isinstance(pos_label, str | Real):
        raise ValueError(f"pos_label={pos_label!r} cannot be written to a file. Use a text or a number.")
    found: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "precision": precision,
        "pos_label": pos_label,
        "n_rows": n_rows,
    }
    for name in _ARRAYS:
        values = getattr(contents, name).tolist()
        found[name] = [int(value) if value == int(value) else value for value in values]
    return found


def contents_from_dict(found: Any) -> tuple[Contents, int, int, Any]:
    """Return contents, precision, number of rows and positive label; raise if they are no sketch."""
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError("This is not a saved CalibrationSketch. Pass what to_dict or save has written.")
    version = found.get("version")
    if not isinstance(version, int) or version > _VERSION:
        raise ValueError(
            f"This sketch has version {version!r} of the format, and this release knows {_VERSION}. "
            "Read it with a newer release of sklearn_calib."
        )
    try:
        precision = check_precision(found["precision"])
        n_rows = check_integer(found["n_rows"], "n_rows", 0)
        cell = _numbers(found["cell"], "iu").astype(np.int64)
        # of whole numbers beyond 64 bits numpy makes objects
        sums = [_numbers(found[name], "iufO").astype(np.float64) for name in _ARRAYS[1:]]
        pos_label = found["pos_label"]
    except _DAMAGED as error:
        raise ValueError(f"The saved sketch is damaged: {type(error).__name__}: {error}.") from None
    if pos_label is not None and not isinstance(pos_label, str | Real):
        raise ValueError(f"The saved sketch is damaged: its pos_label is {str(pos_label)[:40]}.")
    contents = Contents(cell, *sums)
    _check_contents(contents, cell_grid(precision).n_cells)
    return contents, precision, n_rows, pos_label


def _numbers(values: Any, kinds: str) -> Any:
    """Return an array of numbers of these kinds; texts, or floats that are cut off, would become others."""
    array = np.asarray(values)
    mixed = array.dtype.kind == "O" and any(type(value) not in (int, float) for value in array.ravel())
    if array.size and (mixed or array.dtype.kind not in kinds):
        raise TypeError(f"{array.dtype} in place of numbers")
    return array


def _check_contents(contents: Contents, n_cells: int) -> None:
    with np.errstate(over="ignore"):
        cell, weight = contents.cell, contents.weight if _same_shape(contents) else np.zeros(1)
        total = weight.sum()
    sound = (
        _same_shape(contents)
        and bool((np.diff(cell) > 0).all())
        and (cell.size == 0 or (cell[0] >= 0 and cell[-1] < n_cells))
        and all(np.isfinite(values).all() and (values >= 0).all() for values in _sums(contents))
        and bool((weight > 0).all())
        and bool(np.isfinite(total))
        # real weights add with rounding
        and bool((contents.offset <= weight * (POSITIONS - 1) * (1 + 1e-9)).all())
    )
    if not sound:
        raise ValueError("The saved sketch is damaged: its cells contradict each other. Save it again.")


def _sums(contents: Contents) -> list[Any]:
    return [contents.negatives, contents.positives, contents.offset]


def _same_shape(contents: Contents) -> bool:
    return contents.cell.ndim == 1 and all(values.shape == contents.cell.shape for values in _sums(contents))


def write_json(target: Path, found: dict[str, Any]) -> None:
    """Write numbers, texts and lists; the file appears when it is complete."""
    write_whole(target, json.dumps(found, separators=(",", ":")).encode())


def write_file(path: Any, found: dict[str, Any]) -> None:
    """Write what :func:`contents_to_dict` returns; the file appears when it is complete."""
    target, kind = _target(path)
    if kind == ".json":
        write_json(target, found)
        return
    arrays: dict[str, Any] = {
        key: np.asarray(found[key], dtype=np.int64 if key == "cell" else np.float64) for key in _ARRAYS
    }
    head = {key: value for key, value in found.items() if key not in _ARRAYS}
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    write_whole(target, stream.getvalue())


def read_file(path: Any) -> dict[str, Any]:
    """Return what was written, unchecked; raise if the file cannot be read as its name says."""
    target, kind = _target(path)
    try:
        if kind == ".json":
            found = json.loads(target.read_text(encoding="utf-8"))
        else:
            with target.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                found = json.loads(arrays["head"].tobytes())
                found.update({name: arrays[name] for name in _ARRAYS})
    except OSError:
        raise
    except (*_DAMAGED, RuntimeError, AttributeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(
            f"{os.fspath(path)!r} is damaged or no saved CalibrationSketch ({type(error).__name__}: {error})."
        ) from None
    return found if isinstance(found, dict) else {}


def _target(path: Any) -> tuple[Path, str]:
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".npz", ".json"):
        raise ValueError(f"path must end in .npz or .json, got {os.fspath(path)!r}.")
    return target, kind
