"""Whether greater or smaller values of a metric are better."""

from typing import Any

from sklearn_calib import _validation
from sklearn_calib._compat import registered_sign
from sklearn_calib.metrics._metric_kernel import declaration, is_metric, without_partial


def declared_direction(metric: Any) -> bool | None:
    """Tell whether greater values of a metric, bare or in a partial, are better; None if it is not known.

    Functions of scikit-learn have the direction of their registered scorers.
    """
    if is_metric(metric):
        return declaration(metric).greater_is_better
    sign = registered_sign(without_partial(metric)[0])
    return None if sign is None else sign > 0


def check_direction(metric: Any, given: bool | None) -> bool:
    """Return whether greater values of a metric are better: as given, or else as it declares."""
    if given is not None:
        return _validation.check_flag(given, "greater_is_better")
    direction = declared_direction(metric)
    if direction is None:
        raise ValueError(
            f"The metric {metric!r} does not declare whether greater values are better. Pass "
            "greater_is_better=True or greater_is_better=False."
        )
    return direction
