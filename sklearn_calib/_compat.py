"""Every private or unstable scikit-learn name that the package uses, in this one place.

When a scikit-learn release moves or removes one of them, this is the only file to change.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sklearn import get_config
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_method_params as slice_metadata

__all__ = [
    "UNUSED",
    "BaseSearchCV",
    "check_feature_names_in",
    "register_scorers",
    "routing_enabled",
    "safe_indexing",
    "safe_split",
    "slice_metadata",
]


def routing_enabled() -> bool:
    """Tell whether metadata routing is switched on in scikit-learn's configuration."""
    return bool(get_config().get("enable_metadata_routing", False))


def register_scorers(scorers: Mapping[str, Callable[..., Any]]) -> None:
    """Add scorers to the names that ``sklearn.metrics.get_scorer`` knows; names already taken stay.

    scikit-learn has no public way to do this. If its table has moved, nothing happens: the names then
    work in this package only, which is documented.
    """
    try:
        from sklearn.metrics._scorer import _SCORERS as table
    except ImportError:
        return
    if isinstance(table, dict):
        for name, scorer in scorers.items():
            table.setdefault(name, scorer)
