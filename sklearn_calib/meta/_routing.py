"""Metadata routing to the estimator, the calibrator and the splitter."""

import inspect
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import has_fit_parameter

from sklearn_calib import _validation
from sklearn_calib._compat import BaseSearchCV, routing_enabled


@dataclass(frozen=True)
class Routed:
    """Keyword arguments for ``estimator.fit``, ``calibrator.fit`` and ``splitter.split``."""

    estimator: dict[str, Any] = field(default_factory=dict)
    calibrator: dict[str, Any] = field(default_factory=dict)
    splitter: dict[str, Any] = field(default_factory=dict)


def route(
    owner: Any,
    method: str,
    estimator: Any,
    calibrator: Any | None,
    n_samples: int,
    sample_weight: Any,
    params: dict[str, Any],
) -> Routed:
    """Route the metadata of ``owner.method`` as :class:`CalibratedClassifier` describes."""
    weight = None if sample_weight is None else _validation.check_weights(sample_weight, n_samples)
    if weight is not None and not getattr(calibrator, "_scale_free", True):
        _validation.warn_of_scale(weight)
    if routing_enabled():
        if weight is not None:
            params = {**params, "sample_weight": weight}
        routed = process_routing(owner, method, **params)
        return Routed(
            estimator=dict(routed["estimator"]["fit"]),
            calibrator={} if calibrator is None else dict(routed["calibrator"]["fit"]),
            splitter=dict(routed.get("splitter", {}).get("split", {})),
        )
    fit_params = dict(params)
    if "groups" in fit_params and calibrator is not None and has_fit_parameter(calibrator, "groups"):
        name = type(calibrator).__name__
        raise ValueError(
            f"groups could be those of cv or of {name}, which accepts them in fit and in prediction. Call "
            f"sklearn.set_config(enable_metadata_routing=True), and request them: {name}().set_fit_request("
            "groups=True).set_predict_proba_request(groups=True)."
        )
    split_params = {"groups": fit_params.pop("groups")} if "groups" in fit_params else {}
    own = {}
    if "clusters" in fit_params and calibrator is not None and has_fit_parameter(calibrator, "clusters"):
        own["clusters"] = fit_params.pop("clusters")
    frozen = isinstance(estimator, FrozenEstimator)
    if frozen:
        refuse_ignored(fit_params)
    if weight is None:
        return Routed(fit_params, own, split_params)
    by_step = any(key.endswith("__sample_weight") for key in fit_params)
    to_estimator = accepts_weight(estimator)
    to_calibrator = calibrator is not None and accepts_weight(calibrator)
    used = to_estimator or to_calibrator or by_step
    # a frozen estimator is not fitted and needs no weights
    for role, part, served in (
        ("estimator", estimator, to_estimator or frozen or by_step),
        ("calibrator", calibrator, to_calibrator or calibrator is None),
    ):
        if served:
            continue
        name, advice = type(part).__name__, _advice(part, role == "estimator")
        if not used:
            raise ValueError(
                f"sample_weight cannot be used: fit of the {role} {name} does not accept it. {advice}"
            )
        _validation.warn_user(
            f"sample_weight is not passed to the {role}: fit of {name} does not accept it. {advice}",
        )
    if to_estimator:
        fit_params["sample_weight"] = weight
    return Routed(fit_params, own | ({"sample_weight": weight} if to_calibrator else {}), split_params)


def refuse_ignored(names: Collection[str]) -> None:
    """Raise if there are arguments of ``fit`` for a frozen estimator."""
    if names:
        raise ValueError(
            f"{', '.join(sorted(names))} would be ignored: the estimator is frozen and is not fitted. Leave "
            "them out."
        )


def route_prediction(owner: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata passed to ``owner.method`` for ``predict_proba`` of the calibrator."""
    if not params:
        return {}
    if not routing_enabled():
        raise ValueError(
            f"{method} of {type(owner).__name__} got {', '.join(sorted(params))}, which is passed to the "
            "calibrator only with metadata routing. Call sklearn.set_config(enable_metadata_routing=True), "
            "and request it with calibrator.set_predict_proba_request."
        )
    routed = process_routing(owner, method, **params)
    return dict(routed["calibrator"]["predict_proba"])


def accepts_weight(estimator: Any) -> bool:
    """Tell whether ``fit`` accepts ``sample_weight``; a parameter search does if its estimator does."""
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    parameters = inspect.signature(estimator.fit).parameters.values()
    forwards = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return isinstance(estimator, BaseSearchCV) and forwards and accepts_weight(estimator.estimator)


def _advice(part: Any, by_step: bool) -> str:
    """Return how to pass weights to a part whose ``fit`` does not accept them."""
    if not hasattr(part, "steps"):
        return "Choose one that does, or do not pass sample_weight."
    if by_step:
        return (
            f"Pass {part.steps[-1][0]}__sample_weight too, or enable metadata routing and request it there."
        )
    return "Enable metadata routing and request it at a step."
