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
from typing import Any, ClassVar, Self

import numpy as np

from sklearn_calib._core._binning import POSITIONS, octave_bins
from sklearn_calib._html import result_html
from sklearn_calib._validation import check_integer
from sklearn_calib._writing import write_whole
from sklearn_calib.sketch._contents import Contents
from sklearn_calib.sketch._lock import Locked

# Of both formats.
_VERSION = 2
#: What numbers and texts that nobody checked can raise.
DAMAGED = (LookupError, TypeError, ValueError, OverflowError, MemoryError, SyntaxError, RecursionError)
#: Names of the arrays of a sketch.
ARRAYS = ("bins", "negatives", "positives", "offset")
# With fewer bits the tails have no bins; with more, the edges near 1 would be no floats.
LEAST_PRECISION, MOST_PRECISION = 8, 20
# Bytes of a head, or of what stands before the numbers of an array.
_MOST_HEAD = 1 << 16


def check_precision(value: Any) -> int:
    """Return the precision as int if there are bins for it."""
    precision = check_integer(value, "precision", LEAST_PRECISION)
    if precision > MOST_PRECISION:
        raise ValueError(
            f"precision must be at most {MOST_PRECISION}, got {precision}: finer bins save nothing."
        )
    return precision


def checksum(head: list[Any], *arrays: Any) -> str:
    """Return a checksum of numbers and texts, and of arrays of numbers."""
    code = zlib.crc32(json.dumps(head).encode())
    for array in arrays:
        code = zlib.crc32(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data, code)
    return f"{code:08x}"


def _checksum(contents: Contents, precision: int, pos_label: Any) -> str:
    return checksum([_VERSION, precision, contents.n_samples, pos_label], contents.bins, *contents.sums)


def head(kind: str) -> dict[str, Any]:
    """Return the header of the dict of a kind of sketch."""
    return {"format": f"sklearn_calib.{kind}", "version": _VERSION}


def check_head(found: Any, kind: str, keys: frozenset[str]) -> None:
    """Raise unless a dict has the format and the version of a kind of sketch, and just these keys."""
    if not isinstance(found, dict) or found.get("format") != f"sklearn_calib.{kind}":
        raise ValueError(f"This is not a saved {kind}. Pass what to_dict or save has written.")
    its = found.get("version")
    if type(its) is not int or its != _VERSION:
        advice = "It is damaged"
        if type(its) is int and its > _VERSION:
            advice = "Read it with a newer release of sklearn_calib"
        elif type(its) is int and its > 0:
            advice = "It was written before the first release of sklearn_calib. Make the sketch again"
        raise ValueError(
            f"This sketch has version {its!r} of the format, but {_VERSION} is supported. {advice}."
        )
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
        **head("CalibrationSketch"),
        "precision": precision,
        "pos_label": pos_label,
        "n_samples": contents.n_samples,
        "checksum": _checksum(contents, precision, pos_label),
    }
    for name in ARRAYS:
        values = getattr(contents, name).tolist()
        found[name] = [int(value) if value == int(value) else value for value in values]
    return found


def contents_from_dict(found: dict[str, Any]) -> tuple[Contents, int, Any]:
    """Return contents, precision and positive label; raise if they are not a sketch."""
    precision = check_precision(found["precision"])
    n_samples = check_integer(found["n_samples"], "n_samples", 0)
    bins = _numbers(found["bins"], "iu").astype(np.int64)
    # of whole numbers beyond 64 bits numpy makes objects
    negatives, positives, offset = (_numbers(found[name], "iufO").astype(np.float64) for name in ARRAYS[1:])
    pos_label = found["pos_label"]
    if pos_label is not None and not isinstance(pos_label, str | Real):
        raise ValueError(f"its pos_label is {str(pos_label)[:40]}")
    contents = Contents(bins, negatives, positives, offset, n_samples)
    if not _is_sound(contents, octave_bins(precision).n_bins):
        raise ValueError("its bins contradict each other")
    if found["checksum"] != _checksum(contents, precision, pos_label):
        raise ValueError("its checksum is that of other numbers")
    return contents, precision, pos_label


def _numbers(values: Any, kinds: str) -> Any:
    """Return an array of numbers of these kinds; texts, or floats that are cut off, would become others."""
    array = np.asarray(values)
    mixed = array.dtype.kind == "O" and any(type(value) not in (int, float) for value in array.ravel())
    if array.size and (mixed or array.dtype.kind not in kinds):
        raise TypeError(f"{array.dtype} in place of numbers")
    return array


def _is_sound(contents: Contents, n_bins: int) -> bool:
    """Tell whether the numbers of a sketch are consistent."""
    with np.errstate(over="ignore"):
        bins, weight = contents.bins, contents.weight if _same_shape(contents) else np.zeros(1)
        total = weight.sum()
    return (
        _same_shape(contents)
        and bool((np.diff(bins) > 0).all())
        and (bins.size == 0 or (bins[0] >= 0 and bins[-1] < n_bins))
        and all(np.isfinite(values).all() and (values >= 0).all() for values in contents.sums)
        and bool((weight > 0).all())
        and bool(np.isfinite(total))
        # real weights add with rounding
        and bool((contents.offset <= weight * (POSITIONS - 1) * (1 + 1e-9)).all())
        and (contents.n_samples >= contents.n_kinds if bins.size else contents.n_samples == 0)
    )


def _same_shape(contents: Contents) -> bool:
    return contents.bins.ndim == 1 and all(values.shape == contents.bins.shape for values in contents.sums)


def write_file(path: Any, found: dict[str, Any], endings: tuple[str, ...]) -> None:
    """Write a sketch as a dict, in one of these formats; the file appears when it is complete."""
    target = _target(path, endings)
    if target.suffix.lower() == ".json":
        write_whole(target, json.dumps(found, separators=(",", ":")).encode())
        return
    arrays: dict[str, Any] = {
        key: np.asarray(found[key], dtype=np.int64 if key == "bins" else np.float64) for key in ARRAYS
    }
    rest = {key: value for key, value in found.items() if key not in ARRAYS}
    arrays["head"] = np.frombuffer(json.dumps(rest).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    write_whole(target, stream.getvalue())


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def read_file(path: Any, kind: str, endings: tuple[str, ...]) -> dict[str, Any]:
    """Return what was written, unchecked; raise if the file cannot be read as its name says."""
    target = _target(path, endings)
    try:
        if target.suffix.lower() == ".npz":
            return _read_npz(target)
        return json.loads(target.read_text(encoding="utf-8"), object_pairs_hook=_without_repeats)
    except OSError:
        raise
    except (*DAMAGED, RuntimeError, AttributeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(
            f"{os.fspath(path)!r} is damaged or no saved {kind} ({type(error).__name__}: {error})."
        ) from None


def _read_npz(target: Path) -> dict[str, Any]:
    """Return the arrays and the head of an archive, nothing of which is larger than those of a sketch."""
    names = {name: f"{name}.npy" for name in ("head", *ARRAYS)}
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


def _target(path: Any, endings: tuple[str, ...]) -> Path:
    target = Path(path)
    if target.suffix.lower() not in endings:
        raise ValueError(f"path must end in {' or '.join(endings)}, got {os.fspath(path)!r}.")
    return target


class Saved(Locked):
    """Mixin of sketches that are written to dicts and files, under the name of their class."""

    # keys of the dict, and endings of the files
    _KIND: ClassVar[str]
    _KEYS: ClassVar[frozenset[str]]
    _ENDINGS: ClassVar[tuple[str, ...]] = (".json",)

    def copy(self) -> Self:
        """Return an independent sketch of the same samples.

        Returns
        -------
        CalibrationSketch or WindowedSketch
            The copy.
        """
        return copy(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the sketch as a dict of numbers, texts and lists, fit for JSON; nothing is lost.

        Returns
        -------
        dict
            Input of :meth:`from_dict`.

        Raises
        ------
        ValueError
            If ``pos_label`` is neither a string nor a number.
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
        check_head(data, cls._KIND, cls._KEYS)
        try:
            return cls._read(data)
        except DAMAGED as error:
            what = f"{type(error).__name__}: {error}".rstrip(".")
            raise ValueError(f"The saved {cls._KIND} is damaged: {what}. Save it again.") from None

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
        OSError
            If the file cannot be written.
        """
        write_file(path, self.to_dict(), self._ENDINGS)

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
        OSError
            If the file cannot be read.
        """
        return cls.from_dict(read_file(path, cls._KIND, cls._ENDINGS))

    __hash__ = None  # type: ignore[assignment]  # as of every object that changes

    def __str__(self) -> str:
        title, facts = self._facts()
        return "\n".join([title, *(f"  {name:<15}  {value}" for name, value in facts)])

    def _repr_html_(self) -> str:
        return result_html(*self._facts())

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
