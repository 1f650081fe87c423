"""What is going to be removed says so in one way: what to write instead, and which release removes it."""

import re
import warnings
from collections.abc import Callable
from typing import Any

from sklearn.utils import deprecated as _sklearn_deprecated

__all__ = ["UNSET", "deprecated", "renamed"]

#: Default of a parameter's old name: nobody has passed it.
UNSET = "deprecated"
_MINOR = re.compile(r"(\d+)\.(\d+)")
_STAYS = 2


def deprecated(instead: str, *, since: str, until: str) -> Callable[[Any], Any]:
    """Return a decorator, scikit-learn's, for a function or class that goes.

    Parameters
    ----------
    instead : str
        What to write in its place, such as "call new_name".
    since, until : str
        Minor releases in which it began to warn and will be gone, such as "1.3" and "1.5".

    Returns
    -------
    callable
        Decorator: whoever calls the function, or makes an object of the class, gets a ``FutureWarning``.

    Raises
    ------
    ValueError
        If the releases are none, or less than two minor releases apart.
    """
    _check(since, until)
    mark: Callable[[Any], Any] = _sklearn_deprecated(f"since {since}, and goes in {until}; {instead}.")
    return mark


def renamed(old: str, given: Any, new: str, current: Any, *, since: str, until: str) -> Any:
    """Return the value of a parameter that has a new name; whoever passes the old one is warned.

    Parameters
    ----------
    old, new : str
        Names of the parameter.
    given : object
        What was passed by the old name, whose default is `UNSET`.
    current : object
        What was passed by the new name.
    since, until : str
        Minor releases in which the old name began to warn and will be gone, such as "1.3" and "1.5".

    Returns
    -------
    object
        `given`, unless it is `UNSET`; then `current`.

    Raises
    ------
    ValueError
        If the releases are none, or less than two minor releases apart.
    """
    _check(since, until)
    if isinstance(given, str) and given == UNSET:
        return current
    text = f"{old} was renamed to {new} in {since} and goes in {until}; pass {new}. {old}={given!r} is used."
    # past this function and the one whose parameter it is
    warnings.warn(text, FutureWarning, stacklevel=3)
    return given


def _check(since: str, until: str) -> None:
    """Hold the promise of docs/stability.md: two minor releases, or until the next major one."""
    first, last = _MINOR.fullmatch(since), _MINOR.fullmatch(until)
    if first is None or last is None:
        raise ValueError(
            f"since and until must be minor releases such as '1.3', got {since!r} and {until!r}."
        )
    major, minor = map(int, first.groups())
    if tuple(map(int, last.groups())) < (major, minor + _STAYS):
        raise ValueError(
            f"until must be at least {_STAYS} minor releases after since={since!r}, got {until!r}; "
            f"take '{major}.{minor + _STAYS}'."
        )
