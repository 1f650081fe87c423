"""Warnings that name the user's line."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from sklearn_calib._html import printable_lines

# Libraries that may lie between the user and the function that warns, as in a cross-validation.
_PASSED = frozenset({"sklearn_calib", "sklearn", "joblib", "importlib"})


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user that has called the package, directly or by scikit-learn."""
    if isinstance(message, str):
        message = printable_lines(message.split("\n"))
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame and (library := frame.f_globals.get("__name__", "").partition(".")[0]) in _PASSED:
        # warnings.warn does not count the frames of an import
        level += library != "importlib"
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)
