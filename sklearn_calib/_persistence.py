"""Saved estimators carry the version of the package, and loading them with another version warns."""

import re
from typing import Any

from sklearn_calib import _validation
from sklearn_calib._version import __version__

_STAMP = "_sklearn_calib_version"
# Increases when an estimator gets other attributes, which development versions of one number differ in.
_FORMAT = 3
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class SavedVersionWarning(UserWarning):
    """An estimator was saved by a version of the package that is not guaranteed to be compatible.

    Saved estimators are compatible between releases of the same minor version, such as 1.2.0 and 1.2.7. All
    other combinations warn, and so do pre-releases unless both versions are equal. The version of a
    development version ends in the number of its format, "+1". The estimator is loaded and may work, but its
    results may differ from those before it was saved, or its methods may fail.

    Parameters
    ----------
    estimator_name : str
        Class of the estimator.
    saved_version : str
        Version that saved it, or "unknown" if the state has none.

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
        self.installed_version = _stamp()

    def __str__(self) -> str:
        return (
            f"{self.estimator_name} was saved by sklearn_calib {self.saved_version} and is loaded by "
            f"{self.installed_version}, which is not guaranteed to be compatible: its results may be wrong. "
            "Fit it again with this version, or install the version that saved it."
        )


def _stamp() -> str:
    """Return the version that is saved: of a development version with the number of the format."""
    return __version__ if _RELEASE.fullmatch(__version__) else f"{__version__}+{_FORMAT}"


def versions_agree(saved: str, installed: str) -> bool:
    """Tell whether estimators can be exchanged between two versions."""
    if saved == installed:
        return True
    first, second = _RELEASE.fullmatch(saved), _RELEASE.fullmatch(installed)
    return bool(first and second) and first.group(1, 2) == second.group(1, 2)  # type: ignore[union-attr]


class VersionStamped:
    """Mixin, before ``BaseEstimator``: the pickled state carries the version, and loading compares it."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, _STAMP: _stamp()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes = dict(state)
        saved = attributes.pop(_STAMP, "unknown")
        if not isinstance(saved, str) or not versions_agree(saved, _stamp()):
            _validation.warn_user(SavedVersionWarning(type(self).__name__, str(saved)))
        parent: Any = super()
        parent.__setstate__(attributes)
