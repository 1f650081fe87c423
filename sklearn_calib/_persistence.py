"""Saved estimators know the version that saved them, and say so when another one loads them."""

import re
import warnings
from typing import Any

from sklearn_calib._version import __version__

__all__ = ["SavedVersionWarning", "VersionStamped"]

_STAMP = "_sklearn_calib_version"
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class SavedVersionWarning(UserWarning):
    """An estimator was saved by a version of the package whose state this version does not promise to read.

    Saved estimators are exchanged between the releases of one minor version, such as 1.2.0 and 1.2.7. Any
    other pair warns, and so does any pair with a pre-release in it, unless both are the same. The estimator
    is loaded all the same, and may work; but its numbers may differ from those before it was saved, or its
    methods may fail.

    Parameters
    ----------
    estimator_name : str
        Class of the estimator.
    saved_version : str
        Version that saved it, or "unknown" where the state carries none.

    Attributes
    ----------
    estimator_name, saved_version : str
        As given.
    installed_version : str
        Version that has loaded it.

    Examples
    --------
    To refuse such estimators:

    >>> import warnings
    >>> from sklearn_calib import SavedVersionWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", SavedVersionWarning)  # pickle.load(...) now raises
    """

    def __init__(self, estimator_name: str, saved_version: str) -> None:
        super().__init__(estimator_name, saved_version)
        self.estimator_name = estimator_name
        self.saved_version = saved_version
        self.installed_version = __version__

    def __str__(self) -> str:
        return (
            f"{self.estimator_name} was saved by sklearn_calib {self.saved_version} and is loaded by "
            f"{self.installed_version}, which does not promise to read it: its numbers may be wrong. Fit it "
            f"again with this version, or install the one that saved it."
        )


def versions_agree(saved: str, installed: str) -> bool:
    """Tell whether one version promises to read what the other saved."""
    if saved == installed:
        return True
    first, second = _RELEASE.fullmatch(saved), _RELEASE.fullmatch(installed)
    return bool(first and second) and first.group(1, 2) == second.group(1, 2)  # type: ignore[union-attr]


class VersionStamped:
    """Mixin, before ``BaseEstimator``: the pickled state carries the version, and loading compares it."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, _STAMP: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes = dict(state)
        saved = attributes.pop(_STAMP, "unknown")
        if not isinstance(saved, str) or not versions_agree(saved, __version__):
            warnings.warn(SavedVersionWarning(type(self).__name__, str(saved)), stacklevel=2)
        parent: Any = super()
        parent.__setstate__(attributes)
