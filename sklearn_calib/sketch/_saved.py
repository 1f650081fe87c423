"""Shared parts of all sketches: copies, texts, dicts and files."""

from abc import abstractmethod
from copy import copy
from typing import Any, ClassVar, Self

from sklearn_calib._html import result_html
from sklearn_calib.sketch._files import DAMAGED, check_head, read_file, write_file
from sklearn_calib.sketch._lock import Locked


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
