"""Metrics given by name."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from sklearn_calib.metrics._metric_kernel import is_metric, without_partial
from sklearn_calib.metrics._scores import brier_score, log_loss, roc_auc

# Scores by their names in scikit-learn, whose log loss is not defined on a subset that lacks a class.
_SCORES = {
    "brier_score": brier_score,
    "brier_score_loss": brier_score,
    "log_loss": log_loss,
    "roc_auc": roc_auc,
    "roc_auc_score": roc_auc,
}


def known_metrics() -> dict[str, Callable[..., float]]:
    """Return the public metrics by name."""
    from sklearn_calib import metrics

    return {name: getattr(metrics, name) for name in metrics.__all__ if is_metric(getattr(metrics, name))}


def metric_names() -> list[str]:
    """Return all names of metrics, sorted."""
    return sorted({**known_metrics(), **_SCORES})


def _similar(given: str) -> str:
    """Return the metric with these initials, the shortest that contains this, or the most similar one."""
    plain, names = "".join(filter(str.isalnum, given.lower())), sorted(metric_names(), key=len)
    initials = [name for name in names if plain == "".join(word[0] for word in name.split("_"))]
    within = [name for name in names if plain and plain in name.replace("_", "")]
    return next(iter([*initials, *within, *get_close_matches(given, names, 1)]), "")


def as_metric(metric: Any, name: str = "metric") -> Callable[..., float]:
    """Return a metric that is given as a function or by name."""
    if isinstance(metric, str):
        known = {**known_metrics(), **_SCORES}
        if metric not in known:
            like = _similar(metric)
            meant = f" Did you mean {like!r}?" if like else ""
            raise ValueError(
                f"{name}={metric!r} is not the name of a metric.{meant} Use one of {metric_names()}."
            )
        return known[metric]
    if not callable(metric):
        raise TypeError(
            f"{name} must be the name of a metric, such as 'smooth_ece', or a function metric(y_true, "
            f"y_proba) -> float, got an object of type {type(metric).__name__}."
        )
    called: Callable[..., float] = metric
    return called


def name_of(metric: Callable[..., float]) -> str:
    """Return the name of a function; of a partial, that of its function."""
    function = without_partial(metric)[0]
    return str(getattr(function, "__name__", type(function).__name__))
