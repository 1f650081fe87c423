"""Every private or unstable scikit-learn name that the package uses, in this one place.

When a scikit-learn release moves or removes one of them, this is the only file to change.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import sklearn
from sklearn import get_config
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._array_api import get_namespace_and_device
from sklearn.utils._available_if import _AvailableIfDescriptor
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_method_params as _sliced

from sklearn_calib import _validation

#: Words in names of evaluation sets, such as eval_set, sample_weight_eval_set, X_val, validation_data.
_EVALUATION = {"eval", "val", "valid", "validation"}


class _Explained(_AvailableIfDescriptor):
    """A method whose error, where it is not available, is that of the check, which says why."""

    def _check(self, obj: Any, owner: Any) -> None:
        self.check(obj)


def available_if(check: Callable[[Any], bool]) -> Any:
    """Return a decorator of methods that exist if ``check`` does not raise AttributeError."""
    return lambda method: _Explained(method, check, method.__name__)


def routing_enabled() -> bool:
    """Tell whether metadata routing is switched on in scikit-learn's configuration."""
    return bool(get_config().get("enable_metadata_routing", False))


def slice_metadata(X: Any, metadata: Mapping[str, Any], rows: Any) -> dict[str, Any]:
    """Return metadata of some rows of ``X``: values with as many rows are cut, those of evaluation sets not.

    An evaluation set stays whole, even if it has as many rows by coincidence.
    """
    whole = {name: value for name, value in metadata.items() if not _EVALUATION.isdisjoint(name.split("_"))}
    cut = {name: value for name, value in metadata.items() if name not in whole}
    return {**_sliced(X, cut, rows), **whole}


def as_kind_of(X: Any, values: Any) -> Any:
    """Return an array of numbers as the kind of array that features are, if array API dispatch is on."""
    if not get_config().get("array_api_dispatch", False):
        return values
    try:
        xp, dispatched, device = get_namespace_and_device(X)
    except TypeError:
        # tables of some libraries
        return values
    if dispatched and not str(device).lower().startswith("cpu"):
        raise TypeError(f"X is a tensor on the device {str(device)!r}. Move it to the CPU first: X.cpu().")
    return xp.asarray(values, device=device) if dispatched and values.dtype.kind in "biuf" else values


def value_of_failures() -> Any:
    """Return the ``error_score`` of the cross-validation that has called a scorer; "raise" for other callers.

    A scorer of several values must know it, because scikit-learn replaces the dict of a scorer that raises an
    error by a single number.
    """
    frame = sys._getframe(2)
    validates = frame.f_globals.get("__name__") == "sklearn.model_selection._validation"
    return frame.f_locals.get("error_score", "raise") if validates else "raise"


def register_scorers(scorers: Mapping[str, Callable[..., Any]]) -> None:
    """Let the names of scorers be passed as ``scoring`` to scikit-learn; names already taken stay.

    scikit-learn has no public way to do this. Its table of scorers is extended, and the sets of allowed names
    that its functions and classes have made of it when they were imported. What is imported later copies the
    extended table. If a release has changed either, a warning says that names work in this package only.
    """
    try:
        from sklearn.metrics._scorer import _SCORERS as table
        from sklearn.utils._param_validation import StrOptions

        known = set(table)
        for name, scorer in scorers.items():
            table.setdefault(name, scorer)
        stale = [
            one for one in _scoring_constraints() if isinstance(one, StrOptions) and known <= set(one.options)
        ]
        for constraint in stale:
            constraint.options = {*constraint.options, *scorers}
    except Exception:  # whatever the change is, the package must load
        stale = []
    if not stale:
        _validation.warn_user(
            f"scikit-learn {sklearn.__version__} does not accept the names of sklearn_calib's scorers: its "
            "table of scorers has changed. Pass scoring=sklearn_calib.get_scorer(name).",
        )


def registered_sign(function: Any) -> int | None:
    """Return 1 if greater values of a function of scikit-learn are better, -1 if smaller ones are.

    It is that of a registered scorer of the function; None if there is none.
    """
    return next((sign for registered, sign in _registered_functions() if registered is function), None)


@cache
def _registered_functions() -> list[tuple[Any, int]]:
    """Return the functions of scikit-learn's scorers with their signs."""
    scorers = map(get_scorer, get_scorer_names())
    return [(each._score_func, each._sign) for each in scorers if hasattr(each, "_score_func")]


def _scoring_constraints() -> Iterator[Any]:
    """Yield what the functions and classes of scikit-learn imported so far accept as ``scoring``."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("sklearn.")]
    for value in [value for module in modules for value in vars(module).values() if callable(value)]:
        for name in ("_parameter_constraints", "_skl_parameter_constraints"):
            constraints = getattr(value, name, None)
            scoring = constraints.get("scoring") if isinstance(constraints, dict) else None
            yield from scoring if isinstance(scoring, list) else ()
