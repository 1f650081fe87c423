"""Sketches as plain numbers, and as files: exact, versioned, and checked when they are read."""

import io
import json
import os
import zipfile
import zlib
from abc import abstractmethod
from copy import copy
from numbers import Real
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Self

import numpy as np

from sklearn_calib._core._binning import POSITIONS, OctaveBins, octave_bins
from sklearn_calib._html import result_html
from sklearn_calib._validation import check_integer
from sklearn_calib._writing import write_whole
from sklearn_calib.sketch._contents import Contents

# Of both formats.
_VERSION = 3
# What numbers and texts that nobody checked can raise.
_DAMAGED = (LookupError, TypeError, ValueError, OverflowError, MemoryError, SyntaxError, RecursionError)
_SUMS = ("negatives", "positives", "offset")
#: Names of the arrays of a sketch.
ARRAYS = ("bins", *_SUMS, "values")
# With fewer bits the tails have no bins; with more, the edges near 1 would be no floats.
_LEAST_PRECISION, _MOST_PRECISION = 8, 20


def check_precision(value: Any) -> int:
    """Return the precision as int if there are bins for it."""
    precision = check_integer(value, "precision", _LEAST_PRECISION)
    if precision > _MOST_PRECISION:
        raise ValueError(
            f"precision must be at most {_MOST_PRECISION}, got {precision}: finer bins save nothing."
        )
    return precision


def checksum(head: list[Any], *arrays: Any) -> str:
    """Return a checksum of numbers and texts, and of arrays of numbers."""
    code = zlib.crc32(json.dumps(head).encode())
    for array in arrays:
        code = zlib.crc32(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data, code)
    return f"{code:08x}"


def _checksum(contents: Contents, precision: int, pos_label: Any) -> str:
    found = [_VERSION, precision, contents.n_samples, pos_label]
    return checksum(found, contents.bins, *contents.sums, contents.values)


def head(kind: str) -> dict[str, Any]:
    """Return the header of the dict of a kind of sketch."""
    return {"format": f"sklearn_calib.{kind}", "version": _VERSION}


def contents_to_dict(contents: Contents, precision: int, pos_label: Any) -> dict[str, Any]:
    """Return a sketch as a dict of numbers and lists; whole numbers as int, which loses nothing."""
    if isinstance(pos_label, np.generic):
        pos_label = pos_label.item()
    if pos_label is not None and not isinstance(pos_label, str | Real):
        raise ValueError(f"pos_label={pos_label!r} cannot be written to a file. Use a text or a number.")
    found: dict[str, Any] = {
        **head("CalibrationSketch"),
        "precision": precision,
        "pos_label": pos_label,
        "n_samples": contents.n_samples,
        "checksum": _checksum(contents, precision, pos_label),
        "bins": contents.bins.tolist(),
    }
    for name, values in zip(_SUMS, contents.sums.tolist(), strict=True):
        found[name] = [int(value) if value == int(value) else value for value in values]
    found["values"] = [None if value != value else value for value in contents.values.tolist()]
    return found


def contents_from_dict(found: dict[str, Any]) -> tuple[Contents, int, Any]:
    """Return contents, precision and positive label; raise if they are not a sketch."""
    precision = check_precision(found["precision"])
    n_samples = check_integer(found["n_samples"], "n_samples", 0)
    bins = _numbers(found["bins"], "iu").astype(np.int64)
    # of whole numbers beyond 64 bits numpy makes objects
    sums = np.stack([_numbers(found[name], "iufO").astype(np.float64) for name in _SUMS])
    values = _numbers(found["values"], "iufO").astype(np.float64)
    contents, pos_label = Contents(bins, sums, values, n_samples), found["pos_label"]
    if pos_label is not None and not isinstance(pos_label, str | Real):
        raise ValueError(f"its pos_label is {str(pos_label)[:40]}")
    if not sums.shape[1:] == bins.shape == values.shape or not _is_sound(contents, octave_bins(precision)):
        raise ValueError("its bins contradict each other")
    if found["checksum"] != _checksum(contents, precision, pos_label):
        raise ValueError("its checksum is that of other numbers")
    return contents, precision, pos_label


def _numbers(values: Any, kinds: str) -> Any:
    """Return a row of numbers of these kinds, or None; texts, or floats cut off, would become others."""
    # before numpy makes an array: one of texts has the width of the longest
    if isinstance(values, list) and (others := {type(value) for value in values} - {int, float, NoneType}):
        raise TypeError(f"{min(other.__name__ for other in others)} in place of numbers")
    array = np.asarray(values)
    if array.size and (array.ndim != 1 or array.dtype.kind not in kinds):
        raise TypeError(f"{array.dtype} in place of numbers")
    return array.ravel()


def _is_sound(contents: Contents, grid: OctaveBins) -> bool:
    """Tell whether the numbers of a sketch are consistent."""
    bins, sums, n_samples = contents.bins, contents.sums, contents.n_samples
    if not bins.size:
        return n_samples == 0
    with np.errstate(over="ignore"):
        total = sums.sum()
    low, width = grid.edges(bins)
    return bool(
        (np.diff(bins) > 0).all()
        and bins[0] >= 0
        and bins[-1] < grid.n_bins
        and np.isfinite(total)
        and (sums >= 0).all()
        and (contents.weight > 0).all()
        # real weights add with rounding
        and (sums[2] <= contents.weight * (POSITIONS - 1) * (1 + 1e-9)).all()
        and n_samples >= contents.n_kinds
        # a value of NaN stands for several
        and not ((contents.values < low) | (contents.values > low + width)).any()
    )


class Saved:
    """Mixin of sketches that are written to dicts and files, under the name of their class."""

    # keys of the dict, and endings of the files
    _KIND: ClassVar[str]
    _KEYS: ClassVar[frozenset[str]]
    _ENDINGS: ClassVar[tuple[str, ...]] = (".json",)

    def copy(self) -> Self:
        """Return an independent sketch of the same samples."""
        return copy(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the sketch as a dict of numbers, texts and lists, fit for JSON; nothing is lost.

        Returns
        -------
        dict
            Input of :meth:`from_dict`.
        """
        return self._dict()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the sketch of a dict written by :meth:`to_dict`.

        Parameters
        ----------
        data : dict
            Result of ``to_dict``.

        Returns
        -------
        CalibrationSketch or WindowedSketch
            An equal sketch.

        Raises
        ------
        ValueError
            If the dict is foreign, damaged, or of another version.
        """
        kind = cls._KIND
        if not isinstance(data, dict) or data.get("format") != f"sklearn_calib.{kind}":
            raise ValueError(f"This is not a saved {kind}. Pass what to_dict or save has written.")
        version = data.get("version")
        if type(version) is not int or version != _VERSION:
            raise ValueError(
                f"This sketch has version {version!r} of the format, but {_VERSION} is supported. Read it "
                "with the release of sklearn_calib that wrote it, or make it again."
            )
        if wrong := sorted(cls._KEYS ^ set(data), key=str):
            state = "has no" if wrong[0] in cls._KEYS else "has an unknown"
            raise ValueError(f"The saved {kind} is damaged: it {state} key {str(wrong[0])[:40]!r}.")
        try:
            return cls._read(data)
        except _DAMAGED as error:
            what = f"{type(error).__name__}: {error}".rstrip(".")
            raise ValueError(f"The saved {kind} is damaged: {what}. Save it again.") from None

    def save(self, path: Any) -> None:
        """Write the sketch to a file; nothing is lost.

        Parameters
        ----------
        path : str or path-like
            Name of the file: ``.json``, a text, or, of a :class:`CalibrationSketch`, ``.npz``, compressed. A
            file of this name is replaced when the new one is complete.

        Raises
        ------
        ValueError
            If the name ends otherwise, or ``pos_label`` is neither a text nor a number.
        """
        target, found = self._target(path), self.to_dict()
        if target.suffix.lower() == ".json":
            write_whole(target, json.dumps(found, separators=(",", ":")).encode())
            return
        arrays: dict[str, Any] = {
            key: np.array(found.pop(key), dtype=np.int64 if key == "bins" else np.float64) for key in ARRAYS
        }
        stream = io.BytesIO()
        np.savez_compressed(stream, head=np.array(json.dumps(found)), **arrays)
        write_whole(target, stream.getvalue())

    @classmethod
    def load(cls, path: Any) -> Self:
        """Return the sketch of a file written by :meth:`save`.

        Parameters
        ----------
        path : str or path-like
            Name of the file.

        Returns
        -------
        CalibrationSketch or WindowedSketch
            A sketch equal to the one that was saved.

        Raises
        ------
        ValueError
            If the file is foreign, damaged, or of another version.
        """
        content = cls._target(path).read_bytes()
        try:
            if cls._target(path).suffix.lower() == ".json":
                found = json.loads(content)
            else:
                with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                    found = {**json.loads(str(arrays["head"])), **{key: arrays[key] for key in ARRAYS}}
        except (*_DAMAGED, RuntimeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise ValueError(
                f"{os.fspath(path)!r} is damaged or no saved {cls._KIND} ({type(error).__name__}: {error})."
            ) from None
        return cls.from_dict(found)

    __hash__ = None  # type: ignore[assignment]  # as of every object that changes

    def __str__(self) -> str:
        title, facts = self._facts()
        return "\n".join([title, *(f"  {name:<15}  {value}" for name, value in facts)])

    def _repr_html_(self) -> str:
        return result_html(*self._facts())

    @classmethod
    def _target(cls, path: Any) -> Path:
        target = Path(path)
        if target.suffix.lower() not in cls._ENDINGS:
            raise ValueError(f"path must end in {' or '.join(cls._ENDINGS)}, got {os.fspath(path)!r}.")
        return target

    @abstractmethod
    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        """Return a title, and names and values."""

    @abstractmethod
    def _dict(self) -> dict[str, Any]:
        """Return the dict, with all keys."""

    @classmethod
    @abstractmethod
    def _read(cls, data: dict[str, Any]) -> Self:
        """Return the sketch of a dict that has all keys."""
