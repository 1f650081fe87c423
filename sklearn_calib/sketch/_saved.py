"""Sketches as plain numbers, and as files: exact, versioned, and checked when they are read."""

import json
import os
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

from sklearn_calib import _validation
from sklearn_calib._html import text_html
from sklearn_calib._writing import read_whole, write_whole

# Keys of the dict besides those of the content; the content has changed with the version.
_HEAD, _VERSION = ("format", "version", "checksum"), 4


def check_precision(value: Any) -> int:
    """Return the precision as int if there are bins for it."""
    # with fewer bits the tails have no bins; with more, the edges near 1 would be no floats
    return _validation.check_size(value, "precision", 8, 20)


def _checksum(content: dict[str, Any]) -> str:
    """Return a checksum of a dict of numbers, texts and lists; the same after a passage through JSON."""
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


class Updated:
    """Mixin of objects that are changed in place: after a change that was interrupted, they say so."""

    _interrupted = False

    def _check_whole(self) -> None:
        if self._interrupted:
            raise ValueError(
                f"An update of this {type(self).__name__} was interrupted, so that it may hold a part of a "
                "batch. Load its last save, or begin anew."
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Mark the object until the block has ended."""
        self._check_whole()
        self._interrupted = True
        yield
        self._interrupted = False


class Saved(Updated):
    """Mixin of sketches that are written to dicts and files, under the name of their class."""

    _KIND: ClassVar[str]

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
        content = self._content()
        format_ = {"format": f"sklearn_calib.{self._KIND}", "version": _VERSION}
        return format_ | content | {"checksum": _checksum(content)}

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
        content = {name: value for name, value in data.items() if name not in _HEAD}
        if data.get("checksum") != _checksum(content):
            raise ValueError(f"The saved {kind} is damaged: its checksum does not match. Save it again.")
        try:
            return cls._read(content)
        except (ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
            raise ValueError(f"The saved {kind} is damaged ({error!r:.200}). Save it again.") from None

    def save(self, path: Any) -> None:
        """Write the sketch to a file; nothing is lost.

        Parameters
        ----------
        path : str or path-like
            Name of the file, which ends in ``.json``. A file of this name is replaced when the new one is
            complete.

        Raises
        ------
        ValueError
            If the name ends otherwise, or ``pos_label`` is neither a text nor a number.
        """
        write_whole(_target(path), json.dumps(self.to_dict(), separators=(",", ":")).encode())

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
        try:
            found = json.loads(read_whole(_target(path)))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise ValueError(
                f"{os.fspath(path)!r} is damaged or no saved {cls._KIND} ({type(error).__name__}: {error})."
            ) from None
        return cls.from_dict(found)

    __hash__ = None  # type: ignore[assignment]  # as of every object that changes

    def __str__(self) -> str:
        title, facts = self._facts()
        return "\n".join([title, *(f"  {name:<15}  {value}" for name, value in facts)])

    _repr_html_ = text_html

    @abstractmethod
    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        """Return a title, and names and values."""

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """Return numbers, texts and lists from which ``_read`` makes an equal sketch."""

    @classmethod
    @abstractmethod
    def _read(cls, content: dict[str, Any]) -> Self:
        """Return the sketch with a content."""


def _target(path: Any) -> Path:
    if Path(path).suffix.lower() != ".json":
        raise ValueError(f"path must end in .json, got {os.fspath(path)!r}.")
    return Path(path)
