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

from sklearn_calib._core._binning import POSITIONS, octave_bins
from sklearn_calib._validation import check_integer
from sklearn_calib._writing import write_whole
from sklearn_calib.sketch._contents import Contents

__all__ = [
    "check_head",
    "check_precision",
    "checksum",
    "contents_from_dict",
    "contents_to_dict",
    "read_file",
    "read_json",
    "write_file",
    "write_json",
]

_FORMAT, _VERSION = "sklearn_calib.CalibrationSketch", 1
# what numbers and texts that nobody checked can raise
_DAMAGED = (KeyError, TypeError, ValueError, OverflowError, MemoryError, SyntaxError, RecursionError)
_ARRAYS = ("cell", "negatives", "positives", "offset")
_KEYS = {"format", "version", "precision", "pos_label", "n_rows", "checksum", *_ARRAYS}
# With fewer bits the tails have no cells; with more, the edges near 1 would be no floats.
LEAST_PRECISION, MOST_PRECISION = 8, 20
# Bytes of a head, or of what stands before the numbers of an array.
_MOST_HEAD = 1 << 16


def check_precision(value: Any) -> int:
    """Return the precision as int if there are cells for it."""
    precision = check_integer(value, "precision", LEAST_PRECISION)
    if precision > MOST_PRECISION:
        raise ValueError(
            f"precision must be at most {MOST_PRECISION}, got {precision}: finer cells save nothing."
        )
    return precision


def checksum(head: list[Any], *arrays: Any) -> str:
    """Return a checksum of numbers and texts, and of arrays of numbers."""
    code = zlib.crc32(json.dumps(head).encode())
    for array in arrays:
        code = zlib.crc32(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data, code)
    return f"{code:08x}"


def _checksum(contents: Contents, precision: int, pos_label: Any) -> str:
    return checksum([_VERSION, precision, contents.n_rows, pos_label], contents.cell, *contents.sums)


def check_head(found: Any, kind: str, version: int, keys: set[str]) -> None:
    """Raise unless a dict has the format and the version of a kind of sketch, and just these keys."""
    if not isinstance(found, dict) or found.get("format") != f"sklearn_calib.{kind}":
        raise ValueError(f"This is not a saved {kind}. Pass what to_dict or save has written.")
    its = found.get("version")
    if type(its) is not int or its != version:
        newer = isinstance(its, int) and its > version
        advice = "Read it with a newer release of sklearn_calib" if newer else "It is damaged"
        raise ValueError(f"This sketch has version {its!r} of the format, and known is {version}. {advice}.")
    if "checksum" not in found:
        raise ValueError(
            f"The saved {kind} has no checksum: it is damaged, or was written by a version of sklearn_calib "
            "before the first release. Save the sketch again."
        )
    wrong = sorted(keys ^ set(found), key=str)
    if wrong:
        state = "has no" if wrong[0] in keys else "has an unknown"
        raise ValueError(f"The saved {kind} is damaged: it {state} key {str(wrong[0])[:40]!r}.")


def contents_to_dict(contents: Contents, precision: int, pos_label: Any) -> dict[str, Any]:
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
        "n_rows": contents.n_rows,
        "checksum": _checksum(contents, precision, pos_label),
    }
    for name in _ARRAYS:
        values = getattr(contents, name).tolist()
        found[name] = [int(value) if value == int(value) else value for value in values]
    return found


def contents_from_dict(found: Any) -> tuple[Contents, int, Any]:
    """Return contents, precision and positive label; raise if they are no sketch."""
    check_head(found, "CalibrationSketch", _VERSION, _KEYS)
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
    negatives, positives, offset = sums
    contents = Contents(cell, negatives, positives, offset, n_rows)
    _check_contents(contents, octave_bins(precision).n_bins)
    if found["checksum"] != _checksum(contents, precision, pos_label):
        raise ValueError("The saved sketch is damaged: its checksum is that of other numbers. Save it again.")
    return contents, precision, pos_label


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
        and all(np.isfinite(values).all() and (values >= 0).all() for values in contents.sums)
        and bool((weight > 0).all())
        and bool(np.isfinite(total))
        # real weights add with rounding
        and bool((contents.offset <= weight * (POSITIONS - 1) * (1 + 1e-9)).all())
        and (contents.n_rows >= contents.n_kinds if cell.size else contents.n_rows == 0)
    )
    if not sound:
        raise ValueError("The saved sketch is damaged: its cells contradict each other. Save it again.")


def _same_shape(contents: Contents) -> bool:
    return contents.cell.ndim == 1 and all(values.shape == contents.cell.shape for values in contents.sums)


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


def read_json(target: Path) -> Any:
    """Return what a file of JSON holds; raise ValueError if it is none, or has a key twice."""
    try:
        return json.loads(target.read_text(encoding="utf-8"), object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("lists within lists without end") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def read_file(path: Any) -> dict[str, Any]:
    """Return what was written, unchecked; raise if the file cannot be read as its name says."""
    target, kind = _target(path)
    try:
        found = read_json(target) if kind == ".json" else _read_npz(target)
    except OSError:
        raise
    except (*_DAMAGED, RuntimeError, AttributeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(
            f"{os.fspath(path)!r} is damaged or no saved CalibrationSketch ({type(error).__name__}: {error})."
        ) from None
    return found if isinstance(found, dict) else {}


def _read_npz(target: Path) -> dict[str, Any]:
    """Return the arrays and the head of an archive, nothing of which is larger than those of a sketch."""
    names = {name: f"{name}.npy" for name in ("head", *_ARRAYS)}
    with zipfile.ZipFile(io.BytesIO(target.read_bytes())) as archive:
        members = archive.infolist()
        if sorted(member.filename for member in members) != sorted(names.values()):
            raise ValueError("its arrays are not those of a sketch")
        most = _MOST_HEAD + 8 * octave_bins(MOST_PRECISION).n_bins
        for member in members:
            # before anything is decompressed
            if member.file_size > (2 * _MOST_HEAD if member.filename == names["head"] else most):
                raise ValueError(f"{member.filename} has {member.file_size} bytes, more than any sketch")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member.filename} is compressed in another way")
        arrays = {name: _read_array(_read_member(archive, member)) for name, member in names.items()}
    found = json.loads(arrays.pop("head").tobytes(), object_pairs_hook=_without_repeats)
    return {**found, **arrays} if isinstance(found, dict) else {}


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as file:
        # a number, so that no more is decompressed than was announced
        return file.read(archive.getinfo(name).file_size + 1)


def _read_array(content: bytes) -> Any:
    """Return an array of numbers of one dimension, of exactly the length that its header says."""
    file = io.BytesIO(content)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    array = np.frombuffer(content, dtype=dtype, offset=file.tell())
    if shape != array.shape:
        raise ValueError(f"an array of shape {array.shape} in place of {shape}")
    return array


def _target(path: Any) -> tuple[Path, str]:
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".npz", ".json"):
        raise ValueError(f"path must end in .npz or .json, got {os.fspath(path)!r}.")
    return target, kind
