"""A lock of its own for each object."""

from threading import RLock
from typing import Any


class Locked:
    """Mixin of objects that change: their methods hold ``_lock``, which copies and pickles do not share.

    What an object holds is replaced by one assignment, so that an exception of any kind, such as Ctrl-C or a
    lack of memory, finds it as it was before a change or as it is after it.
    """

    # beside the attributes, of which pickles and comparisons are made
    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = RLock()
