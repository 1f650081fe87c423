"""What all calibrators share: the border to the user, shapes, labels, weights, scikit-learn's conventions."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_calib._atomic import AtomicFit
from sklearn_calib._core._grouping import GroupedOutcomes, group_scores
from sklearn_calib._core._links import EPS, clip_probability
from sklearn_calib._persistence import VersionStamped
from sklearn_calib._validation import (
    Outcomes,
    check_classes,
    check_option,
    check_scores,
    check_weights,
    fit_rows,
    place_labels,
    shape_of,
)

__all__ = [
    "LINKS",
    "BaseCalibrator",
    "BinaryCalibrator",
    "as_columns",
    "both_classes",
    "check_link",
    "inside",
    "may_be_certain",
]

Array = NDArray[np.float64]

#: What the scores of a calibrator with a link are: probabilities, read on the logit scale, or scores as they
#: are.
LINKS = ("logit", "identity")

# Scores of several classes that are mapped at a time.
_CHUNK = 1 << 16

_CAN_DO_WITHOUT = (
    "TemperatureCalibrator",
    "VectorScalingCalibrator",
    "MatrixScalingCalibrator",
    "StructuredMatrixScalingCalibrator",
    "DirichletCalibrator",
    "TopLabelCalibrator",
)


class BaseCalibrator(
    AtomicFit, VersionStamped, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC
):
    """Base class of calibrators: estimators that map scores or probabilities to calibrated probabilities.

    A calibrator is a classifier and a transformer at once. ``X`` holds scores: one column, shape (n,) or (n,
    1), is the score of ``classes_[1]``; two columns are the probabilities of both classes, of which the last
    is used; K columns are the scores of the K classes. Values are converted to float64 first, and never
    changed in place.

    A calibrator of one's own defines ``_score_kind``, ``_fit_scores`` and ``_map_scores`` (all it sees are
    checked arrays), or, for a binary one, derives from the binary base class and defines ``_fit_grouped``.

    What ``_map_scores`` returns is moved inwards to at least 2**-53 from 0 and 1, so that no single outcome
    makes the log loss infinite; the calibrators that return event frequencies of blocks or bins, which are 0
    or 1 where all outcomes agree, define ``_may_be_certain`` to prevent it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels, those of rows with zero weight included.
    n_features_in_ : int
        Number of columns of ``X`` (1 for shape (n,)).
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of ``X``, where it has string names.

    Examples
    --------
    >>> from sklearn_calib.calibrators import BaseCalibrator, PlattCalibrator
    >>> issubclass(PlattCalibrator, BaseCalibrator)
    True
    """

    classes_: NDArray[Any]
    n_features_in_: int

    def fit(
        self,
        X: Outcomes,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Fit the map from scores to probabilities.

        All fitted attributes are set in one step at the end: a fit that is refused or interrupted leaves the
        calibrator as it was.

        Parameters
        ----------
        X : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes), or CalibrationSketch
            Scores; see the class. A sketch holds probabilities of two classes, 0 and 1.
        y : array-like of shape (n,), default=None
            Class labels. Left out with a sketch.
        sample_weight : array-like of shape (n,) or None, default=None
            Non-negative weights; a weight of k counts as the row repeated k times. Rows of weight zero are
            left out, except that their labels count for ``classes_``.
        classes : array-like of shape (n_classes,) or None, default=None
            The labels of the columns, which stand in sorted order; needed if ``y`` lacks some of them.
            Temperature, vector, matrix, structured matrix and Dirichlet calibration and
            :class:`TopLabelCalibrator` can be fitted to three or more classes without a sample of each, as
            can averages and choices made of them. None: the labels that occur in ``y``.

        Returns
        -------
        self
            The fitted calibrator.

        Raises
        ------
        ValueError
            If an argument has the wrong shape, NaN or infinite values, values outside [0, 1] where
            probabilities are declared, negative weights, or if fewer than two classes have a sample of
            positive weight, or not all of them although the calibrator needs samples of each.
        TypeError
            If ``X`` is sparse, or a parameter is of the wrong type.
        """
        self._check_parameters()
        X, y, sample_weight = fit_rows(X, y, sample_weight)
        scores = self._check_scores(X, y, reset=True)
        found, codes = check_classes(y)
        known = found
        if classes is not None:
            known, place = place_labels(found, classes)
            codes = place[codes]
        n = scores.shape[0]
        if codes.shape[0] != n:
            raise ValueError(f"y has {codes.shape[0]} rows but X has {n}. Pass arrays of the same length.")
        self._check_classes(known, scores)
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, n)
            keep = weight > 0
            if not keep.all():
                scores, codes, weight = scores[keep], codes[keep], weight[keep]
            if (codes == codes[0]).all():
                raise ValueError(
                    f"sample_weight is zero for all rows but those of class {known[codes[0]]!r}. "
                    "A calibrator needs rows of at least two classes."
                )
        absent = np.flatnonzero(np.bincount(codes, minlength=known.shape[0]) == 0)
        if absent.size and self._needs_every_class():
            label = known[absent].tolist()[0]
            reason = "sample_weight is zero for all rows" if label in found else "y has no sample"
            raise ValueError(
                f"{reason} of class {label!r}, but {type(self).__name__} needs samples of every class, here "
                f"or in a part. Add some, or use {', '.join(_CAN_DO_WITHOUT)}, which can do without."
            )
        self.classes_ = known
        self._fit_scores(scores, codes, weight)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return calibrated probabilities in the shape of the input.

        Parameters
        ----------
        X : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes)
            Scores, with as many columns as those of the fit.

        Returns
        -------
        ndarray of the shape of ``X``
            One column: the probability of ``classes_[1]``; otherwise one column per class.

        Raises
        ------
        ValueError
            If ``X`` does not suit; see :meth:`fit`.
        """
        check_is_fitted(self)
        proba = self._mapped(self._check_scores(X, reset=False))
        if self.n_features_in_ == 1:
            return proba if len(shape_of(X, "X")) == 1 else proba[:, np.newaxis]
        return both_classes(proba)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the calibrated probabilities of all classes.

        Parameters
        ----------
        X : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes)
            Scores, with as many columns as those of the fit.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``.

        Raises
        ------
        ValueError
            If ``X`` does not suit; see :meth:`fit`.
        """
        check_is_fitted(self)
        return both_classes(self._mapped(self._check_scores(X, reset=False)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable label: for two classes ``classes_[1]`` where its probability exceeds 1/2.

        Parameters
        ----------
        X : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes)
            Scores, with as many columns as those of the fit.

        Returns
        -------
        ndarray of shape (n,)
            Labels among ``classes_``.
        """
        proba = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[proba.argmax(axis=1)]
        return labels

    def __sklearn_tags__(self) -> Tags:
        """Declare that scores may be one-dimensional."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        return tags

    def _check_parameters(self) -> None:
        """Raise if a parameter given at construction is unusable; called first by ``fit``."""

    @abstractmethod
    def _score_kind(self) -> str:
        """Return what the scores are, one of the kinds of :func:`check_scores`."""

    @abstractmethod
    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        """Fit checked scores, shape (n,) or (n, K); ``codes`` are indices into ``classes_``."""

    @abstractmethod
    def _map_scores(self, scores: Array) -> Array:
        """Return the probability of ``classes_[1]``, shape (n,), or of all classes, shape (n, K)."""

    def _predict_array(self, scores: Array) -> Array:
        """Return ``predict_proba`` of an array that has the columns of the fit."""
        return both_classes(self._mapped(check_scores(scores, kind=self._score_kind())))

    def _mapped(self, scores: Array) -> Array:
        """Return the probabilities of checked scores; of several classes some at a time, within cache."""
        if scores.ndim == 1:
            return self._probabilities(scores)
        proba = np.empty(scores.shape)
        n_rows = max(1, _CHUNK // scores.shape[1])
        for start in range(0, scores.shape[0], n_rows):
            part = slice(start, start + n_rows)
            # class by class in memory: sums over a few neighbours are slow
            proba[part] = self._probabilities(np.asfortranarray(scores[part]))
        return proba

    def _needs_every_class(self) -> bool:
        """Tell whether three or more classes can only be calibrated with samples of each."""
        return True

    def _may_be_certain(self) -> bool:
        """Tell whether the fitted map may return exactly 0 and 1."""
        return False

    def _probabilities(self, scores: Array) -> Array:
        """Return the map of checked scores, inside (0, 1) unless it may be certain."""
        proba = self._map_scores(scores)
        return proba if self._may_be_certain() else inside(proba)

    def _check_scores(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Array:
        """Check the scores and, against the fit, their columns; return (n,) or (n, K) with K >= 3."""
        validate_data(self, X, y, reset=reset, skip_check_array=True, ensure_2d=False)
        scores = check_scores(X, kind=self._score_kind())
        shape = shape_of(X, "X")
        columns = shape[1] if len(shape) == 2 else 1
        if reset:
            self.n_features_in_ = columns
        elif columns != self.n_features_in_:
            raise ValueError(
                f"X has {columns} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input: as many columns as X had in fit."
            )
        return scores

    def _check_classes(self, classes: NDArray[Any], scores: Array) -> None:
        """Raise if the number of classes does not fit the columns of the scores."""
        columns, n_classes = (2 if scores.ndim == 1 else scores.shape[1]), classes.shape[0]
        if columns != n_classes:
            found = f"{columns} columns" if scores.ndim == 2 else "scores of a binary problem"
            raise ValueError(
                f"X has {found} but y has {n_classes} classes. Pass one column per class (for two classes "
                "the score of the second is enough), and classes=, their labels, if y lacks some of them."
            )


class BinaryCalibrator(BaseCalibrator):
    """Base of calibrators for two classes, fitted on outcomes grouped by distinct score.

    Grouping makes the order of rows, ties and integer weights immaterial by construction. For more classes
    wrap the calibrator in :class:`OneVsRestCalibrator`.
    """

    def __sklearn_tags__(self) -> Tags:
        """Declare that only two classes are supported."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @abstractmethod
    def _fit_grouped(self, grouped: GroupedOutcomes) -> None:
        """Fit outcomes grouped by distinct score."""

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        self._fit_grouped(group_scores(codes, scores, weight))

    def _check_classes(self, classes: NDArray[Any], scores: Array) -> None:
        if classes.shape[0] > 2 or scores.ndim == 2:
            raise ValueError(
                f"Only binary classification is supported by {type(self).__name__}, but y has "
                f"{classes.shape[0]} classes and X has {1 if scores.ndim == 1 else scores.shape[1]} columns. "
                "Wrap it: OneVsRestCalibrator(calibrator)."
            )


def check_link(link: Any) -> str:
    """Return the kind of scores that a link declares, for ``_score_kind``."""
    return "probability" if check_option(link, "link", LINKS) == "logit" else "score"


def inside(proba: Array) -> Array:
    """Return probabilities of which neither they nor their complements are 0 or 1."""
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
    """Return scores as columns: one for two classes."""
    return scores[:, np.newaxis] if scores.ndim == 1 else scores
