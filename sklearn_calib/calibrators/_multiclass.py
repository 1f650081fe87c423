"""One calibrator per class: multiclass calibration by a binary calibrator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._compat import available_if
from sklearn_calib._core._maps import OneVsRest, Step
from sklearn_calib._core._weights import written_out
from sklearn_calib._typing import Array, Codes, CountingWeights
from sklearn_calib.calibrators._base import (
    BaseCalibrator,
    as_columns,
    both_classes,
    check_link,
    may_be_certain,
)
from sklearn_calib.calibrators._certificate import CutoffCertificate

# Map of a class without a sample.
_NONE = Step(np.zeros(0), np.zeros(1))
# Note of certificates of multiclass problems.
_UNDIVIDED = "of each class against the rest, before division by the sum"


def _has_certificate(calibrator: Any) -> bool:
    if not hasattr(calibrator.calibrator, "cutoff_certificate"):
        raise AttributeError(
            f"{calibrator.calibrator!r} has no certificate. Use a calibrator with one, such as "
            "IsotonicCalibrator(), or wrap it in CertifiedCalibrator."
        )
    return True


def _has_intervals(calibrator: Any) -> bool:
    if not hasattr(calibrator.calibrator, "predict_interval"):
        raise AttributeError(
            f"{calibrator.calibrator!r} has no predict_interval. Use a calibrator that has it: "
            "VennAbersCalibrator()."
        )
    return True


class OneVsRestCalibrator(BaseCalibrator):
    """One binary calibrator for each class against the rest, followed by normalization.

    Column k of the scores is calibrated for class k against the rest, and the probabilities of a sample are
    divided by their sum; if all are zero, they are replaced by the uniform distribution. In binary problems
    one calibrator is fitted to the score of ``classes_[1]``, without normalization.

    Parameters
    ----------
    calibrator : calibrator or classifier
        A binary calibrator of this package, or any classifier with ``predict_proba``, which then receives the
        scores as one column. It is cloned for each class.

    Attributes
    ----------
    calibrators_ : list
        The fitted calibrators, in the order of ``classes_``; a single one for two classes. Each was fitted to
        labels 0 and 1. None for a class without a sample.
    %(multiclass_fit)s

    See Also
    --------
    TemperatureCalibrator : One parameter for all classes, which preserves the ranking of classes.

    Notes
    -----
    The cost is that of ``n_classes`` binary fits. The ranking of the classes within a sample may change. The
    certificate is for the probabilities before normalization.

    A class without a sample, of three or more (see ``classes`` of :meth:`fit`), keeps the probability p of
    the model if fewer than three samples were expected from the predictions; else it has p / (1 + e) with
    this number e. The probabilities of the other classes are divided by their sum, and multiplied by the
    rest.

    With ``VennAbersCalibrator()`` it is the usual multiclass Venn-Abers calibration: the merged
    probabilities of each class against the rest, normalized. ``predict_interval`` has the pairs of each
    class.

    References
    ----------
    .. [1] Zadrozny, Elkan (2002). Transforming classifier scores into accurate multiclass probability
       estimates. KDD.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import IsotonicCalibrator, OneVsRestCalibrator
    >>> proba = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])
    >>> calibrator = OneVsRestCalibrator(IsotonicCalibrator()).fit(proba, ["a", "b", "c", "b"])
    >>> calibrator.predict_proba(proba[:1]).round(3)
    array([[0.667, 0.333, 0.   ]])
    """

    calibrators_: list[Any]

    def __init__(self, calibrator: Any) -> None:
        self.calibrator = calibrator

    @available_if(_has_intervals)
    def predict_interval(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return the lower and the upper probabilities of each class against the rest, p_0 and p_1.

        They are those of ``calibrators_``, for calibrators that have them, as
        :class:`VennAbersCalibrator`, and are not normalized: for three or more classes the probability of a
        class may be outside its interval, and validity holds for each class against the rest. A class without
        a sample has the interval [0, 1].

        Parameters
        ----------
        X : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes)
            Scores, as in :meth:`fit`.

        Returns
        -------
        tuple of two ndarrays of shape (n,) or (n, n_classes)
            Lower and upper probabilities: of ``classes_[1]`` for two classes, else of each class.
        """
        check_is_fitted(self)
        scores = as_columns(self._check_scores(X, reset=False))
        nothing = np.zeros(scores.shape[0]), np.ones(scores.shape[0])
        pairs = [
            nothing if one is None else one.predict_interval(scores[:, k])
            for k, one in enumerate(self.calibrators_)
        ]
        if len(pairs) == 1:
            return pairs[0]
        lower, upper = (np.column_stack(side) for side in zip(*pairs, strict=True))
        return lower, upper

    @available_if(_has_certificate)
    def cutoff_certificate(
        self,
        confidence: float = 0.95,
        method: str = "fitted",
        *,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        weights: CountingWeights = None,
    ) -> CutoffCertificate:
        """Return a simultaneous bound of the cutoff calibration errors of all calibrators on new data.

        It is the largest of the certificates of ``calibrators_``, each with confidence 1 - (1 -
        ``confidence``) / K (Bonferroni) for K calibrators. The certificates are for the probabilities of each
        class against the rest before normalization, as ``note`` states; in binary problems there is no
        normalization. A normalized probability depends on the scores of all classes, and has no such bound.
        To certify it, use :class:`CertifiedCalibrator` with "passthrough" on its column, with samples that
        the fit did not use.

        Parameters
        ----------
        confidence, method, n_resamples, random_state, weights
            As for :meth:`IsotonicCalibrator.cutoff_certificate`; ``n_resamples`` at least
            K / (1 - ``confidence``) - 1.

        Returns
        -------
        CutoffCertificate
            The bound, with the method used.
        """
        confidence = _validation.check_fraction(confidence, "confidence")
        check_is_fitted(self)
        generator = _validation.check_generator(random_state)
        if None in self.calibrators_:
            absent = self.classes_.tolist()[self.calibrators_.index(None)]
            raise ValueError(f"There is no certificate, because fit had no sample of class {absent!r}.")
        each = 1.0 - (1.0 - confidence) / len(self.calibrators_)
        found = [
            calibrator.cutoff_certificate(
                each, method, n_resamples=n_resamples, random_state=generator, weights=weights
            )
            for calibrator in self.calibrators_
        ]
        worst = max(found, key=lambda certificate: certificate.upper)
        return replace(worst, confidence=confidence, note=_UNDIVIDED if len(found) > 1 else "")

    def _check_parameters(self) -> None:
        check_calibrator(self.calibrator)

    def _score_kind(self) -> str:
        return scores_wanted(self.calibrator)

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        if scores.ndim == 1:
            self.calibrators_ = [fit_clone(self.calibrator, scores, codes, weight)]
            return
        present = np.bincount(codes, minlength=scores.shape[1]) > 0
        self.calibrators_ = [
            fit_clone(self.calibrator, scores[:, k].copy(), (codes == k).astype(np.int64), weight)
            if present[k]
            else None
            for k in range(scores.shape[1])
        ]

    def _needs_every_class(self) -> bool:
        return False

    def _share_of_absent(self, expected: Array) -> Array:
        # the posterior mean, given none, of a Poisson rate whose prior is exponential around the expected one
        return 1.0 / (1.0 + expected)

    def _may_be_certain(self) -> bool:
        return any(may_be_certain(one) for one in self.calibrators_ if one is not None)

    def _export(self, build: Any) -> Any:
        parts = [_NONE if one is None else build.part(one) for one in self.calibrators_]
        return parts[0] if len(parts) == 1 else OneVsRest(tuple(parts))

    def _map_scores(self, scores: Array) -> Array:
        if scores.ndim == 1:
            return event_probability(self.calibrators_[0], scores)
        proba = np.empty_like(scores)
        for k, calibrator in enumerate(self.calibrators_):
            proba[:, k] = 0.0 if calibrator is None else event_probability(calibrator, scores[:, k])
        total = proba.sum(axis=1, keepdims=True)
        if not total.all():
            proba[total[:, 0] == 0.0] = 1.0
            total[total == 0.0] = proba.shape[1]
        proba /= total
        return proba


class ComposedCalibrator(BaseCalibrator):
    """Base of calibrators that consist of others, which determine the scores and classes they support."""

    #: Link of the default calibrators.
    link: str

    @abstractmethod
    def _members(self) -> Sequence[Any]:
        """Return the unfitted calibrators that were passed; empty for default ones."""

    @property
    def _multiclass(self) -> bool:  # type: ignore[override]
        return not any(isinstance(one, BaseCalibrator) and not one._multiclass for one in self._members())

    def _score_kind(self) -> str:
        if not (members := self._members()):
            return check_link(self.link, "logit")
        kinds = set(map(scores_wanted, members))
        if {"probability", "logit"} <= kinds:
            raise ValueError(
                f"Some calibrators of {type(self).__name__} require probabilities and others logits. Use the "
                "same link for all of them."
            )
        return next((kind for kind in ("probability", "logit") if kind in kinds), "score")

    def _needs_every_class(self) -> bool:
        return any(map(needs_every_class, self._members()))

    def _check_classes(self, classes: NDArray[Any], scores: Array) -> None:
        for one in self._members():
            if isinstance(one, BaseCalibrator):
                one._check_classes(classes, scores)
        super()._check_classes(classes, scores)


def check_calibrator(calibrator: Any) -> None:
    """Raise TypeError unless ``calibrator`` is an object that can be fitted and predicts probabilities."""
    if isinstance(calibrator, type):
        name = calibrator.__name__
        raise TypeError(f"calibrator is the class {name}; pass an instance, {name}().")
    for method in ("fit", "predict_proba"):
        if not hasattr(calibrator, method):
            raise TypeError(
                f"calibrator must have fit and predict_proba, but {calibrator!r} has no {method}. "
                "Pass a calibrator, for example IsotonicCalibrator(), or write a subclass of BaseCalibrator."
            )


def scores_wanted(calibrator: Any) -> str:
    """Return the type of scores that a binary calibrator needs; "score" (any) for other classifiers."""
    return calibrator._score_kind() if isinstance(calibrator, BaseCalibrator) else "score"


def needs_every_class(calibrator: Any) -> bool:
    """Tell whether a calibrator needs samples of every class; other classifiers do."""
    return not isinstance(calibrator, BaseCalibrator) or calibrator._needs_every_class()


def fit_clone(
    calibrator: Any,
    scores: Array,
    codes: Codes,
    weight: Array | None,
    classes: NDArray[Any] | None = None,
    **metadata: Any,
) -> Any:
    """Return a clone fitted to checked scores and indices into ``classes``, None for classes 0 and 1."""
    fitted, classes = clone(calibrator), np.arange(2) if classes is None else classes
    if getattr(type(fitted), "fit", None) is BaseCalibrator.fit and not metadata:
        return fitted._fit_array(scores, codes, weight, classes)
    if weight is not None:
        metadata["sample_weight"] = weight
    if not np.bincount(codes, minlength=classes.shape[0]).all():
        metadata["classes"] = classes
    return fitted.fit(as_columns(scores), classes[codes], **metadata)


def one_by_one(scores: Array, codes: Codes, weight: Array | None, instead: str) -> tuple[Array, Codes]:
    """Return the scores and codes of samples, repeated as often as their weights say."""
    if weight is None:
        return scores, codes
    rows = written_out(_validation.check_frequency_weights(weight), instead)
    return scores[rows], codes[rows]


def event_probability(calibrator: Any, scores: Array) -> Array:
    """Return the probability of the last class of a fitted calibrator for checked scores (n,)."""
    if is_mapped(calibrator):
        return np.asarray(calibrator._probabilities(scores))
    proba: Array = np.asarray(calibrator.predict_proba(scores[:, np.newaxis]), dtype=np.float64)[:, -1]
    return proba


def class_probabilities(calibrator: Any, scores: Array) -> Array:
    """Return the probabilities of all classes of a fitted calibrator for checked scores."""
    if is_mapped(calibrator):
        return both_classes(calibrator._mapped(scores))
    return np.asarray(calibrator.predict_proba(as_columns(scores)), dtype=np.float64)


def is_mapped(calibrator: Any) -> bool:
    """Tell whether ``_map_scores`` can be called directly, without checking the scores again."""
    return getattr(type(calibrator), "predict_proba", None) is BaseCalibrator.predict_proba
