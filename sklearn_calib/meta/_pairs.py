"""A classifier and its calibrator: input of the calibrator, fit, and prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from sklearn_calib import _validation
from sklearn_calib._compat import slice_metadata
from sklearn_calib._core._grouping import group_scores
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators import BaseCalibrator, OneVsRestCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify
from sklearn_calib.calibrators._log_average import default_calibrator
from sklearn_calib.calibrators._multiclass import fit_clone, is_mapped
from sklearn_calib.meta import _responses
from sklearn_calib.meta._folds import Flags, Fold, HeldScores, score_fold
from sklearn_calib.meta._joint import members_of
from sklearn_calib.meta._routing import Routed, accepts_weight


@dataclass(frozen=True, eq=False)
class CalibratedPair:
    """A fitted classifier and a calibrator fitted to its scores of held-out samples.

    Attributes
    ----------
    estimator : estimator
        The fitted classifier, or the mean of several with the list ``estimators``.
    calibrator : calibrator or "passthrough"
        The fitted calibrator.
    response_method : {"predict_proba", "decision_function"}
        The method of the classifier whose output is calibrated.
    classes : ndarray of shape (n_classes,)
        The sorted class labels.
    """

    estimator: Any
    calibrator: Any
    response_method: str
    classes: NDArray[Any]

    def scores(self, X: Any) -> Array:
        """Return the scores to calibrate: shape (n, 1), the score of ``classes[1]``, or (n, n_classes)."""
        return _responses.class_scores(self.estimator, X, self.response_method, self.classes)

    def predict_proba(self, X: Any, **metadata: Any) -> Array:
        """Return calibrated probabilities of shape (n, n_classes); ``metadata`` goes to the calibrator."""
        scores = self.scores(X)
        if is_passthrough(self.calibrator):
            return np.hstack([1.0 - scores, scores]) if scores.shape[1] == 1 else scores
        if not metadata and is_mapped(self.calibrator):
            return self.calibrator._predict_array(scores)
        return np.asarray(self.calibrator.predict_proba(scores, **metadata), dtype=np.float64)


def is_passthrough(calibrator: Any) -> bool:
    """Tell whether the probabilities are not to be calibrated."""
    return isinstance(calibrator, str) and calibrator == "passthrough"


def response_order(response_method: str, calibrator: Any) -> tuple[str, ...]:
    """Return the methods of a classifier to try, the preferred one first."""
    if response_method != "auto":
        return (response_method,)
    if is_passthrough(calibrator):
        return ("predict_proba",)
    if calibrator is None:
        return _responses.PROBABILITY_FIRST
    return (
        _responses.PROBABILITY_FIRST if score_kind(calibrator) == "probability" else _responses.DECISION_FIRST
    )


def score_kind(calibrator: Any) -> str:
    """Return the input of a calibrator, possibly wrapped: "probability", "logit", or "score" (any)."""
    while not isinstance(calibrator, BaseCalibrator) or isinstance(calibrator, OneVsRestCalibrator):
        steps = getattr(calibrator, "steps", None)
        inner = steps[0][1] if steps else getattr(calibrator, "estimator", None)
        calibrator = getattr(calibrator, "calibrator", inner)
        if calibrator is None:
            return "score"
    return calibrator._score_kind()


def fit_pair(
    held: HeldScores, calibrator: Any, codes: Codes, classes: NDArray[Any], metadata: dict[str, Any]
) -> CalibratedPair:
    """Fit a clone of the calibrator to held-out scores, and return it with the fitted estimator."""
    estimator, method, scores = held.estimator, held.response_method, held.scores
    if is_passthrough(calibrator):
        return CalibratedPair(estimator, calibrator, method, classes)
    member = members_of(estimator)[0]
    if calibrator is None:
        link = "logit" if method == "predict_proba" else "identity"
        calibrator = default_calibrator(link, several=classes.shape[0] > 2)
    _check_scale(member, calibrator, method, scores)
    if classes.shape[0] > 2 and not get_tags(calibrator).classifier_tags.multi_class:
        _check_no_metadata(calibrator, metadata)
        calibrator = OneVsRestCalibrator(calibrator)
    if isinstance(calibrator, BaseCalibrator):
        scores = _validation.check_scores(scores, "X", kind=calibrator._score_kind())
    else:
        count = np.bincount(codes, minlength=classes.shape[0])
        if not count.all():
            raise ValueError(
                f"y has no sample of class {classes.tolist()[count.argmin()]!r}, which "
                f"{type(member).__name__} predicts, but {type(calibrator).__name__} needs samples of "
                "every class. Add some, or use a calibrator without this need, such as TemperatureCalibrator."
            )
    others = dict(metadata)
    weight = others.pop("sample_weight", None)
    if weight is not None:
        weight = _validation.check_weights(weight, codes.shape[0])
    if held.first is None:
        fitted = fit_clone(calibrator, scores, codes, weight, classes, **others)
    else:
        fitted = _fit_repeated(calibrator, scores, codes, weight, classes, others, held.first)
    if isinstance(fitted, BaseCalibrator):
        fitted._warn_of_absent()
    return CalibratedPair(estimator, fitted, method, classes)


def _fit_repeated(
    calibrator: Any,
    scores: Array,
    codes: Codes,
    weight: Array | None,
    classes: NDArray[Any],
    others: dict[str, Any],
    first: Flags,
) -> Any:
    """Fit a clone of the calibrator to samples of which some have several scores.

    Each of r scores of a sample has the weight 1 / r. Certificates and ``training_size_`` count samples: they
    are for the first score of each, to which a calibrator without weights, or with a part for its
    certificate, is fitted.
    """
    counted = isinstance(calibrator, CutoffCertificateMixin)
    weighted = accepts_weight(calibrator) and "clusters" not in others
    once = first if weight is None else first & (weight > 0.0)
    own = None if weight is None else weight[once]
    if not weighted or (hasattr(calibrator, "cutoff_certificate") and not (counted and calibrator._monotone)):
        others = slice_metadata(scores, others, np.flatnonzero(once))
        return fit_clone(calibrator, scores[once], codes[once], own, classes, **others)
    times = np.diff(np.flatnonzero(first), append=first.shape[0])
    share = np.repeat(1.0 / times, times)
    fitted = fit_clone(
        calibrator, scores, codes, share if weight is None else share * weight, classes, **others
    )
    if counted and classes.shape[0] == 2:
        certify(fitted, group_scores(codes[once], scores[once], own), own)
    return fitted


def _check_scale(estimator: Any, calibrator: Any, method: str, scores: Array) -> None:
    """Raise if the scores of the classifier are not of the type that the calibrator needs."""
    kind, name, base = score_kind(calibrator), type(calibrator).__name__, type(estimator).__name__
    if kind == "logit" and method == "predict_proba":
        raise ValueError(
            f"{name} needs logits, but predict_proba of {base} returns probabilities. Use link='logit', or "
            "response_method='decision_function' if the classifier has it."
        )
    outside = scores[(scores < 0) | (scores > 1)]
    if kind == "probability" and method == "decision_function" and outside.size:
        linked = "link" in getattr(calibrator, "get_params", dict)()
        instead = f"{name}(link='identity')" if linked else "IsotonicCalibrator()"
        other = ", or response_method='predict_proba'" if hasattr(estimator, "predict_proba") else ""
        raise ValueError(
            f"{name} needs probabilities, but decision_function of {base} returned {outside[0]:.6g}, outside "
            f"[0, 1]. Use {instead}, which supports any scores{other}."
        )


def _check_no_metadata(calibrator: Any, metadata: dict[str, Any]) -> None:
    """Raise if a binary calibrator that is fitted to each class receives metadata other than weights."""
    further = sorted(set(metadata) - {"sample_weight"})
    if further:
        name = type(calibrator).__name__
        raise ValueError(
            f"{name} is for binary problems and would be fitted to each class against the rest, which does "
            f"not support {', '.join(further)}. Use a multiclass calibrator, such as "
            f"{name}(OneVsRestCalibrator(PlattCalibrator()))."
        )


def fit_fold_pair(
    estimator: Any,
    calibrator: Any,
    X: Any,
    target: _responses.Target,
    fold: Fold,
    order: Sequence[str],
    routed: Routed,
) -> CalibratedPair:
    """Fit the estimator to the training part of a fold and the calibrator to its held-out part."""
    held = score_fold(estimator, X, target, fold, routed.estimator, order)
    metadata = slice_metadata(X, routed.calibrator, fold.test)
    return fit_pair(held, calibrator, target.codes[fold.test], target.classes, metadata)
