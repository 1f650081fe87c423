"""Atomic fit: a fit that raises an error leaves the estimator unchanged."""

import functools
import inspect
from typing import Any

_METHODS = ("fit", "fit_transform", "partial_fit")


class AtomicFit:
    """Mixin, before ``BaseEstimator``: ``fit`` changes the estimator in one step, at its end, or not at all.

    This holds for every subclass, including those of users: ``fit``, and if defined ``fit_transform`` and
    ``partial_fit``, run on a draft, a new object with the attributes of the estimator. When they return, all
    attributes of the draft are assigned to the estimator at once. After an error, Ctrl-C or a lack of memory
    before that, and in calls from other threads, the estimator is unchanged. An attribute that a method
    changes in place, instead of replacing it, is shared by both.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        for name in _METHODS:
            method = vars(cls).get(name)
            if inspect.isfunction(method):
                setattr(cls, name, _on_a_draft(method))
        super().__init_subclass__(**kwargs)


def _on_a_draft(method: Any) -> Any:
    @functools.wraps(method)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        draft = object.__new__(type(self))
        draft.__dict__ = dict(vars(self))
        result = method(draft, *args, **kwargs)
        self.__dict__ = draft.__dict__
        return self if result is draft else result

    return fit
