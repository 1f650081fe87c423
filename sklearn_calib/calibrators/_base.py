"""Base class of calibrators: input validation, shapes, labels, weights, scikit-learn's conventions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_calib import _validation
from sklearn_calib._atomic import AtomicFit
from sklearn_calib._compat import available_if
from sklearn_calib._core._blocks import BLOCK_ROWS, blocks
from sklearn_calib._core._inverse import invert
from sklearn_calib._core._links import EPS, clip_probability
from sklearn_calib._core._maps import NUMPY, Kept, Node
from sklearn_calib._docs import shared_docs
from sklearn_calib._persistence import VersionStamped
from sklearn_calib._typing import Array, Codes

#: Type of the scores for each link: probabilities on the logit scale, or any scores.
LINKS = ("logit", "identity")

# Number of multiclass scores that are mapped at a time.
_CHUNK = 1 << 16

# A class without a sample keeps the model's probability if fewer samples than this were expected.
_FEW = 3.0
# Most classes that a warning names.
_MOST_NAMED = 5

_CAN_DO_WITHOUT = (
    "OneVsRestCalibrator",
    "TemperatureCalibrator",
    "VectorScalingCalibrator",
    "MatrixScalingCalibrator",
    "StructuredMatrixScalingCalibrator",
    "DirichletCalibrator",
)


def _is_monotone(calibrator: Any) -> bool:
    if not calibrator._monotone:
        raise AttributeError(
            f"inverse_transform needs a monotone map, but that of {type(calibrator).__name__} may not be. "
            "Use a monotone calibrator, such as IsotonicCalibrator or SplineCalibrator(monotone=True)."
        )
    return True


@shared_docs
class BaseCalibrator(
    AtomicFit, VersionStamped, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC
):
    """Base class of calibrators: estimators that map scores or probabilities to calibrated probabilities.

    A calibrator is both a classifier and a transformer. ``X`` contains scores: one column, shape (n,) or
    (n, 1), is the score of ``classes_[1]``; two columns are the probabilities of both classes, of which the
    last is used; K columns are the scores of the K classes. Values are converted to float64 first, and never
    changed in place.

    A custom calibrator derives from this class and defines two methods. Their arguments are checked arrays:
    ``scores``, float64 of shape (n,) for binary problems and (n, K) otherwise; ``codes``, the index of each
    label in ``classes_``; and ``weight``, positive numbers or None.

    - ``_fit_scores(scores, codes, weight)`` fits the map and sets the fitted attributes.
    - ``_map_scores(scores)`` returns the probabilities: of ``classes_[1]``, shape (n,), for binary problems,
      and of all classes, shape (n, K), otherwise.

    It may also define

    - ``_score_kind()``, which returns the type of the scores: "probability", the default, "logit", or "score"
      for any numbers;
    - ``_check_parameters()``, called first by ``fit``, which raises an error if a parameter is invalid;
    - ``_multiclass = False``, if it supports binary problems only;
    - ``_fractions = True``, if binary ``codes`` may also be float64 in [0, 1];
    - ``_needs_every_class()``, False if it can be fitted to three or more classes without samples of each;
    - ``_may_be_certain()``. The result of ``_map_scores`` is clipped to [2**-53, 1 - 2**-53], so that no
      single outcome makes the log loss infinite, unless this is True, as for event frequencies of blocks or
      bins, which are 0 or 1 if all outcomes agree.

    Attributes
    ----------
    %(multiclass_fit)s

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import BaseCalibrator
    >>> class ShiftCalibrator(BaseCalibrator):
    ...     _multiclass = False
    ...
    ...     def _fit_scores(self, scores, codes, weight):
    ...         self.shift_ = np.average(codes - scores, weights=weight)
    ...
    ...     def _map_scores(self, scores):
    ...         return np.clip(scores + self.shift_, 0.0, 1.0)
    >>> ShiftCalibrator().fit([0.2, 0.4, 0.6], ["no", "no", "yes"]).predict_proba([0.5]).round(3)
    array([[0.567, 0.433]])
    """

    classes_: NDArray[Any]
    n_features_in_: int
    _multiclass: bool = True
    #: Whether binary outcomes may lie between 0 and 1.
    _fractions: bool = False
    #: Whether the map of two classes is monotone, so that it has an inverse.
    _monotone: bool = False
    #: Probabilities of the model that are kept, those of classes without a sample.
    _kept: Kept | None = None
    # the expected numbers of samples of such classes, until the warning
    _expected: dict[Any, float] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        shared_docs(cls)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Fit the map from scores to probabilities.

        All fitted attributes are set in one step at the end: a fit that fails or is interrupted does not
        change the calibrator.

        Parameters
        ----------
        %(fitted_scores)s
        sample_weight : array-like of shape (n,) or None, default=None
            Non-negative weights; a weight of k is equivalent to k repetitions of the sample, in the same
            cluster. Multiply weights of surveys by the sum of w over the sum of w^2. Samples of weight zero
            are ignored, except that their labels are included in ``classes_``.
        %(fitted_classes)s
        clusters : array-like of shape (n,) or None, default=None
            Label of the cluster (patient, customer, day) of each sample, within which samples need not be
            independent. The map is the same; the certificate of a binary calibrator that has one allows for
            the dependence.

        Returns
        -------
        self
            The fitted calibrator.

        Raises
        ------
        ValueError
            If a parameter is out of range; if an argument has the wrong shape, NaN or infinite values, values
            outside [0, 1] if probabilities are required, or negative weights; if fewer than two classes have
            a sample of positive weight, or not all of them although the calibrator needs samples of each; or
            if there are clusters, but fewer than four or for a calibrator without a certificate.
        TypeError
            If ``X`` is sparse, or a parameter is of the wrong type.
        """
        self._check_parameters()
        scores, codes, weight, known = self._read(X, y, sample_weight, classes)
        if clusters is None:
            self._fit_known(scores, codes, weight, known)
            self._warn_of_absent()
            return self
        if known.shape[0] > 2:
            raise ValueError(
                f"clusters are for certificates of binary problems, but y has {known.shape[0]} classes. "
                "Leave them out."
            )
        if codes.dtype.kind == "f":
            raise ValueError("clusters need outcomes 0 and 1, but those of y lie between. Leave them out.")
        if weight is not None:
            _validation.check_frequency_weights(weight)
        return self._fit_known(
            scores, codes, weight, known, _validation.check_clusters(clusters, scores.shape[0], weight)
        )

    def transform(self, X: ArrayLike) -> Array:
        """Return calibrated probabilities in the shape of the input.

        Parameters
        ----------
        %(scores)s

        %(mapped)s
        """
        check_is_fitted(self)
        return self._shaped(self._mapped(self._check_scores(X, reset=False)), X)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the calibrated probabilities of all classes.

        Parameters
        ----------
        %(scores)s

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return both_classes(self._mapped(self._check_scores(X, reset=False)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable label; in binary problems ``classes_[1]`` if its probability exceeds 1/2.

        Parameters
        ----------
        %(scores)s

        Returns
        -------
        ndarray of shape (n,)
            Labels among ``classes_``.
        """
        proba = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[proba.argmax(axis=1)]
        return labels

    @available_if(_is_monotone)
    def inverse_transform(self, X: ArrayLike, *, side: str = "left") -> Array:
        """Return the scores that are mapped to given probabilities; for monotone binary maps only.

        For an increasing map, ``side="left"`` gives the smallest score whose probability is at least the
        given one, ``side="right"`` the largest score whose probability is at most the given one. All scores
        between them have the same probability. If the map jumps over the probability, they are the
        neighboring numbers on both sides of the jump, in the opposite order. The probabilities are in [a, b]
        for scores from ``inverse_transform(a)`` to ``inverse_transform(b, side="right")``.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, 1)
            Probabilities of ``classes_[1]``.
        side : {"left", "right"}, default="left"
            End of the interval in which the map is constant.

        Returns
        -------
        ndarray of the shape of ``X``
            Scores, in [0, 1] for calibrators of probabilities. NaN if the map is below the probability
            everywhere ("left"), or above it everywhere ("right").
        """
        check_is_fitted(self)
        if self.classes_.shape[0] > 2:
            raise ValueError(
                f"Only maps of two classes have an inverse, but y had {self.classes_.shape[0]} in fit."
            )
        return inverse(self._probabilities, self._score_kind(), X, side)

    def __sklearn_tags__(self) -> Tags:
        """Declare that scores may be one-dimensional, and whether multiclass targets are supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.classifier_tags.multi_class = self._multiclass
        return tags

    def _check_parameters(self) -> None:
        """Raise if a parameter of the constructor is invalid; called first by ``fit``."""

    def _score_kind(self) -> str:
        """Return the type of the scores, one of the kinds of :func:`check_scores`."""
        return "probability"

    @abstractmethod
    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        """Fit checked scores, shape (n,) or (n, K); ``codes`` are indices into ``classes_``."""

    @abstractmethod
    def _map_scores(self, scores: Array) -> Array:
        """Return the probability of ``classes_[1]``, shape (n,), or of all classes, shape (n, K)."""

    def _fit_clusters(self, scores: Array, codes: Codes, weight: Array | None, clusters: Codes) -> None:
        """Fit as ``_fit_scores``, and record which samples are dependent; ``clusters`` are codes."""
        raise ValueError(
            f"clusters are for certificates, which {type(self).__name__} does not have. Leave them out, or "
            "use CertifiedCalibrator."
        )

    def _read(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, classes: ArrayLike | None
    ) -> tuple[Array, Codes, Array | None, NDArray[Any]]:
        """Check the arguments of ``fit``; return scores, codes, weights and classes."""
        if y is None:
            # the wording that scikit-learn's checks require
            raise ValueError("This estimator requires y to be passed, but the target y is None. Pass labels.")
        scores = self._check_scores(X, y, reset=True)
        known, codes = _validation.check_classes(y, fractions=self._fractions)
        if codes.dtype.kind == "f" and np.isin(scores, (0.0, 1.0)).all():
            _validation.refuse_fractions(y, "y", swapped=True)
        if classes is None:
            _validation.check_order(y, X, "y")
            classes = _validation.named_classes(X, y)
        if classes is not None:
            if codes.dtype.kind == "f":
                raise ValueError("classes are 0 and 1 if y has outcomes between them. Omit the argument.")
            known, place = _validation.place_labels(known, classes)
            codes = place[codes]
        n = scores.shape[0]
        if codes.shape[0] != n:
            raise ValueError(f"y has {codes.shape[0]} samples but X has {n}. Pass arrays of the same length.")
        self._check_classes(known, scores)
        _validation.check_columns(X, known, "X")
        return scores, codes, self._read_weight(sample_weight, n), known

    def _read_weight(self, sample_weight: ArrayLike | None, n_samples: int) -> Array | None:
        """Check weights, and warn of small ones that change the map."""
        if sample_weight is None:
            return None
        weight = _validation.check_weights(sample_weight, n_samples)
        if not self._scale_free:
            _validation.warn_of_scale(weight)
        return weight

    def _fit_array(self, scores: Array, codes: Codes, weight: Array | None, classes: NDArray[Any]) -> Self:
        """Fit a new calibrator to arrays that were checked elsewhere."""
        self._check_parameters()
        self._check_classes(classes, scores)
        self.n_features_in_ = 1 if scores.ndim == 1 else scores.shape[1]
        return self._fit_known(scores, codes, weight, classes)

    def _fit_known(
        self,
        scores: Array,
        codes: Codes,
        weight: Array | None,
        classes: NDArray[Any],
        clusters: Codes | None = None,
    ) -> Self:
        """Fit to checked arrays, without samples of weight zero; ``clusters`` has no codes of these."""
        if weight is not None and not weight.all():
            keep = weight > 0
            scores, codes, weight = scores[keep], codes[keep], weight[keep]
        count = _class_counts(codes, classes.shape[0])
        self._check_counts(classes, count)
        self.classes_ = classes
        self._kept, self._expected = self._keep_absent(scores, weight, count)
        if clusters is None:
            self._fit_scores(scores, codes, weight)
        else:
            self._fit_clusters(scores, codes, weight, clusters)
        return self

    def _check_counts(self, classes: NDArray[Any], count: Codes) -> None:
        """Raise if fewer than two classes have a sample of positive weight, or one that is needed."""
        labels = classes.tolist()
        if np.count_nonzero(count) < 2:
            raise ValueError(
                f"y has only samples of class {labels[count.argmax()]!r}. A calibrator needs samples of "
                "positive weight of at least two classes."
            )
        if not count.all() and self._needs_every_class():
            raise ValueError(
                f"y has no sample of class {labels[count.argmin()]!r}, but {type(self).__name__} needs "
                "samples of positive weight of every class, here or in a part. Add some, or use "
                f"{', '.join(_CAN_DO_WITHOUT)}, which can do without."
            )

    def _keep_absent(
        self, scores: Array, weight: Array | None, count: Codes
    ) -> tuple[Kept | None, dict[Any, float] | None]:
        """Return what classes without a sample keep, and how many samples of each were expected."""
        absent = np.flatnonzero(count == 0)
        if scores.ndim == 1 or not absent.size:
            return None, None
        kind, sums = self._score_kind(), scores.sum(axis=1)
        logits = kind != "probability" and (
            kind == "logit"
            or scores.min() < 0.0
            or bool((np.abs(sums - 1.0) > _validation.ROW_SUM_TOLERANCE).any())
        )
        proba = np.exp(NUMPY.log_softmax(scores.T)) if logits else scores.T / sums
        expected = proba[absent] @ (np.ones(sums.shape[0]) if weight is None else weight)
        share = np.zeros(count.shape[0])
        share[absent] = np.where(expected < _FEW, 1.0, self._share_of_absent(expected))
        labels = self.classes_[absent].tolist()
        kept = Kept(logits, share, ()) if share.any() else None
        return kept, dict(zip(labels, expected.tolist(), strict=True))

    def _share_of_absent(self, expected: Array) -> Array:
        """Return the share that classes without a sample, but with several expected, keep beside the map."""
        return np.zeros_like(expected)

    def _warn_of_absent(self) -> None:
        """Warn, once after a fit, of classes without a sample."""
        expected, self._expected = self._expected, None
        if not expected:
            return
        named = [f"{label!r} ({number:.3g} expected)" for label, number in expected.items()][:_MOST_NAMED]
        more = len(expected) - len(named)
        _validation.warn_user(
            f"y has no sample of class {', '.join(named)}{f' and {more} more' if more else ''}. The "
            f"predicted probability of such a class is kept if fewer than {_FEW:.0f} samples of it were "
            "expected from the predictions, and reduced otherwise."
        )

    def _with_kept(self, scores: Array, proba: Array) -> Array:
        """Return the probabilities of all classes, with those of the model that are kept."""
        if self._kept is None:
            return proba
        return np.asarray(self._kept.mix(NUMPY, scores.T, proba.T).T)

    def _kept_node(self, node: Node) -> Node:
        """Return the node of a map with the probabilities that are kept."""
        return node if self._kept is None else replace(self._kept, maps=(node,))

    def _predict_array(self, scores: Array) -> Array:
        """Return ``predict_proba`` of an array that has the columns of the fit."""
        return both_classes(self._mapped(_validation.check_scores(scores, kind=self._score_kind())))

    def _mapped(self, scores: Array) -> Array:
        """Return the probabilities of checked scores, of many in chunks, within cache."""
        if scores.ndim == 1 and scores.shape[0] <= BLOCK_ROWS:
            return self._probabilities(scores)
        proba = np.empty(scores.shape)
        budget, row = (None, 1) if scores.ndim == 1 else (_CHUNK, scores.shape[1])
        for part in blocks(scores.shape[0], budget, row):
            # contiguous classes: sums over a short contiguous axis are slow
            proba[part] = self._probabilities(np.asfortranarray(scores[part]))
        return proba

    def _shaped(self, proba: Array, X: ArrayLike) -> Array:
        """Return probabilities in the shape of the scores."""
        if self.n_features_in_ == 1:
            return proba if len(_validation.shape_of(X, "X")) == 1 else proba[:, np.newaxis]
        return both_classes(proba)

    def _needs_every_class(self) -> bool:
        """Tell whether three or more classes can only be calibrated with samples of each."""
        return True

    def _may_be_certain(self) -> bool:
        """Tell whether the fitted map may return exactly 0 and 1."""
        return False

    def _probabilities(self, scores: Array, mapped: Array | None = None) -> Array:
        """Return the map of checked scores, inside (0, 1) unless it may be certain."""
        proba = self._with_kept(scores, self._map_scores(scores) if mapped is None else mapped)
        return proba if self._may_be_certain() else inside(proba)

    def _check_scores(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Array:
        """Check the scores and, against the fit, their columns; return (n,) or (n, K) with K >= 3."""
        # plain arrays have no names to check
        if type(X) is not np.ndarray or hasattr(self, "feature_names_in_"):
            validate_data(self, X, y, reset=reset, skip_check_array=True, ensure_2d=False)
        try:
            scores = _validation.check_scores(X, kind=self._score_kind())
        except ValueError as error:
            if _validation.CONVERT not in str(error) or not hasattr(self, "link"):
                raise
            own = f"for logits or decision scores use {type(self).__name__}(link='identity')"
            raise ValueError(str(error).replace(_validation.CONVERT, own)) from None
        shape = _validation.shape_of(X, "X")
        columns = shape[1] if len(shape) == 2 else 1
        if reset:
            self.n_features_in_ = columns
        elif columns != self.n_features_in_:
            raise ValueError(
                f"X has {columns} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input: as many columns as X had in fit. Pass the output of the same "
                "method of the classifier as in fit, predict_proba(X) or its column predict_proba(X)[:, 1]."
            )
        else:
            _validation.check_columns(X, self.classes_, "X")
        return scores

    @property
    def _scale_free(self) -> bool:
        """Whether the map does not change if all weights are multiplied; that of a wrapped calibrator."""
        return bool(getattr(getattr(self, "calibrator", None), "_scale_free", False))

    def _check_classes(self, classes: NDArray[Any], scores: Array) -> None:
        """Raise if the number of classes does not fit the columns of the scores."""
        columns, n_classes = (2 if scores.ndim == 1 else scores.shape[1]), classes.shape[0]
        if not self._multiclass and max(columns, n_classes) > 2:
            raise ValueError(
                f"Only binary classification is supported by {type(self).__name__}, but y has {n_classes} "
                f"classes and X has {1 if scores.ndim == 1 else columns} columns. Wrap it: "
                "OneVsRestCalibrator(calibrator)."
            )
        if columns != n_classes:
            found = f"{columns} columns" if scores.ndim == 2 else "scores of a binary problem"
            raise ValueError(
                f"X has {found} but y has {n_classes} classes. Pass one column per class (in binary problems "
                "the score of the second is enough), and classes=, their labels, if y lacks some of them."
            )


def _class_counts(codes: NDArray[Any], n_classes: int) -> Codes:
    """Return the number of samples of each class; those between 0 and 1 are of both."""
    if codes.dtype.kind == "f":
        return np.array([np.count_nonzero(codes < 1), np.count_nonzero(codes > 0)])
    return np.bincount(codes, minlength=n_classes)


def check_link(link: Any, other: str = "score") -> str:
    """Return the kind of scores that a link declares, for ``_score_kind``: ``other`` for "identity"."""
    return "probability" if _validation.check_option(link, "link", LINKS) == "logit" else other


def inverse(function: Callable[[Array], Array], kind: str, X: ArrayLike, side: str) -> Array:
    """Return the inverse of a map of scores of some kind; arguments are those of ``inverse_transform``."""
    _validation.check_option(side, "side", ("left", "right"))
    values = _validation.check_scores(X, kind="probability")
    if values.ndim > 1:
        raise ValueError(f"X must have shape (n,) or (n, 1), got {np.shape(X)}. Pass the last column.")
    low, high = (
        (0.0, 1.0) if kind == "probability" else (-_validation.LARGEST_SCORE, _validation.LARGEST_SCORE)
    )
    found = invert(function, low, high, values, side)
    return found[:, np.newaxis] if np.shape(X)[1:] == (1,) else found


def inside(proba: Array) -> Array:
    """Return probabilities clipped such that neither they nor their complements are 0 or 1."""
    if proba.size and (proba.min() < EPS or proba.max() > 1.0 - EPS):
        return clip_probability(proba)
    return proba


def may_be_certain(calibrator: Any) -> bool:
    """Tell whether a fitted calibrator may return exactly 0 and 1; other classifiers may."""
    return not isinstance(calibrator, BaseCalibrator) or calibrator._may_be_certain()


def both_classes(proba: Array) -> Array:
    """Return one column per class."""
    return np.column_stack([1.0 - proba, proba]) if proba.ndim == 1 else proba


def as_columns(scores: Array) -> Array:
    """Return scores as columns: one for binary problems."""
    return scores[:, np.newaxis] if scores.ndim == 1 else scores
