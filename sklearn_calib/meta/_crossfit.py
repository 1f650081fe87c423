"""CrossFitScorer: a classifier as a pipeline step that returns out-of-fold scores while fitting."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._atomic import AtomicFit
from sklearn_calib._compat import UNUSED, check_feature_names_in
from sklearn_calib._docs import shared_docs
from sklearn_calib._persistence import VersionStamped
from sklearn_calib._typing import Array
from sklearn_calib.meta import _responses
from sklearn_calib.meta._folds import cross_fit, fit_whole, has_weight, plan_folds
from sklearn_calib.meta._routing import Routed, route


@shared_docs
class CrossFitScorer(AtomicFit, VersionStamped, TransformerMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier as a pipeline step that transforms features to scores, out-of-fold scores while fitting.

    ``fit_transform``, which a pipeline calls while it is fitted, returns for each sample the score of a
    model that was not trained on this sample; ``transform`` returns the scores of one model fitted to all
    samples. A calibrator that follows in the pipeline is therefore fitted to scores with about the same
    distribution as those of new samples::

        make_pipeline(StandardScaler(), CrossFitScorer(classifier), IsotonicCalibrator())

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba`` or ``decision_function``. A fitted classifier in a
        :class:`~sklearn.frozen.FrozenEstimator` is not refitted, and ``fit_transform`` equals ``transform``.
    cv : int, splitter, iterable of splits or None, default=5
        Cross-validation splitting strategy; an integer (None means 5) gives stratified folds without
        shuffling. Each sample must be held out exactly once.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        Method of the classifier that returns the scores. "auto": ``predict_proba`` if the classifier has it,
        since every calibrator supports probabilities, else ``decision_function``, which needs a calibrator of
        unbounded scores, for example ``PlattCalibrator(link="identity")`` or ``IsotonicCalibrator()``.
    n_jobs : int or None, default=None
        Number of fits in parallel; None means 1 unless in a ``joblib.parallel_config`` context.
    passthrough : bool, default=False
        Whether the features follow the scores, as for :class:`~sklearn_calib.calibrators.SegmentCalibrator`.
        They are those that this step receives, also if the classifier is a pipeline that encodes them; a data
        frame of pandas or polars remains one.

    Attributes
    ----------
    estimator_ : estimator
        The classifier fitted on all samples.
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels.
    response_method_ : {"predict_proba", "decision_function"}
        The method of the classifier that returns the scores.
    %(features_in)s

    See Also
    --------
    CalibratedClassifier : Classifier and calibrator in one estimator.

    Notes
    -----
    ``fit(X, y).transform(X)`` differs from ``fit_transform(X, y)``, as for
    :class:`~sklearn.preprocessing.TargetEncoder`: it returns the optimistic scores of training samples.
    ``fit`` fits one classifier, ``fit_transform`` one more per fold.

    Without metadata routing ``sample_weight`` and other arguments are passed to the classifier and ``groups``
    to the splitter; with routing enabled metadata are passed as requested.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_calib.calibrators import IsotonicCalibrator
    >>> from sklearn_calib.meta import CrossFitScorer
    >>> X, y = make_classification(n_samples=300, random_state=0)
    >>> forest = RandomForestClassifier(20, random_state=0)
    >>> model = make_pipeline(CrossFitScorer(forest), IsotonicCalibrator()).fit(X, y)
    >>> model.predict_proba(X).shape
    (300, 2)
    >>> model[:-1].get_feature_names_out()
    array(['crossfitscorer_1'], dtype=object)
    """

    # sample_weight is for the classifier: the router itself requests nothing
    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = 5,
        response_method: str = "auto",
        n_jobs: int | None = None,
        passthrough: bool = False,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.response_method = response_method
        self.n_jobs = n_jobs
        self.passthrough = passthrough

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Fit the classifier on all samples; ``transform`` of the same samples is optimistic.

        Parameters
        ----------
        %(weighted)s

        Returns
        -------
        CrossFitScorer
            The fitted transformer itself.

        Raises
        ------
        TypeError
            If ``estimator`` is not a classifier.
        ValueError
            If ``y`` has one class only or is not a vector of labels, or if the classifier lacks
            ``response_method``.
        """
        X, target, routed = self._check(X, y, "fit", sample_weight, params)
        fitted, method = fit_whole(clone(self.estimator), X, target.labels, routed.estimator, self._order())
        return self._store(fitted, method, target)

    def fit_transform(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Any:
        """Fit the classifier on all samples and return the held-out score of each sample.

        Parameters
        ----------
        %(weighted)s

        Returns
        -------
        ndarray of shape (n, 1) or (n, n_classes), or data frame
            For binary problems the score of ``classes_[1]``, else one column per class; with ``passthrough``
            the features follow.
        """
        X, target, routed = self._check(X, y, "fit_transform", sample_weight, params)
        if isinstance(self.estimator, FrozenEstimator):
            fitted, method = fit_whole(self.estimator, X, target.labels, {}, self._order())
            return self._store(fitted, method, target)._scores(X)
        trained = has_weight(routed.estimator, target.codes.shape[0])
        folds = plan_folds(X, target, self.cv, routed.splitter, trained)
        times = np.bincount(np.concatenate([fold.test for fold in folds]), minlength=target.codes.shape[0])
        if (times != 1).any():
            row = int((times != 1).argmax())
            raise ValueError(
                f"cv must hold out each sample exactly once; sample {row} is held out {times[row]} times. "
                "Use a splitter that makes a partition (StratifiedKFold, GroupKFold), or "
                "CalibratedClassifier(ensemble=False), which accepts any splits."
            )
        held, _ = cross_fit(self.estimator, X, target, folds, routed.estimator, self._order(), self.n_jobs)
        self._store(held.estimator, held.response_method, target)
        return self._with_features(held.scores, X)

    def transform(self, X: Any) -> Any:
        """Return the scores of the classifier fitted on all samples; new samples, not those of the fit.

        Parameters
        ----------
        %(features)s

        Returns
        -------
        ndarray of shape (n, 1) or (n, n_classes), or data frame
            For binary problems the score of ``classes_[1]``, else one column per class; with ``passthrough``
            the features follow.
        """
        check_is_fitted(self)
        return self._scores(X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the scores, ``crossfitscorer_`` and the class, and of the features passed on.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of features without names; others are checked against those seen in ``fit``.

        Returns
        -------
        ndarray of shape (n_columns,)
            Names, dtype object.
        """
        check_is_fitted(self)
        names = check_feature_names_in(self, input_features, generate_names=self.passthrough)
        return np.asarray([*self._score_names(), *(names if self.passthrough else ())], dtype=object)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what the parts request; both fitting methods call ``fit`` of the classifier."""
        to_fit = MethodMapping().add(caller="fit", callee="fit").add(caller="fit_transform", callee="fit")
        to_split = (
            MethodMapping().add(caller="fit", callee="split").add(caller="fit_transform", callee="split")
        )
        router = MetadataRouter(owner=type(self).__name__)
        router.add(estimator=self.estimator, method_mapping=to_fit)
        return router.add(splitter=self.cv, method_mapping=to_split)

    def __sklearn_tags__(self) -> Any:
        tags = _responses.with_tags_of(self.estimator, super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags

    def _order(self) -> tuple[str, ...]:
        return _responses.PROBABILITY_FIRST if self.response_method == "auto" else (self.response_method,)

    def _score_names(self) -> list[str]:
        scored = self.classes_[1:] if self.classes_.shape[0] == 2 else self.classes_
        return [f"crossfitscorer_{label}" for label in scored]

    def _scores(self, X: Any) -> Any:
        scores = _responses.class_scores(self.estimator_, X, self.response_method_, self.classes_)
        return self._with_features(scores, X)

    def _with_features(self, scores: Array, X: Any) -> Any:
        """Return the scores, followed by the features with ``passthrough``."""
        if not self.passthrough:
            return scores
        if hasattr(X, "columns") and not hasattr(X, "column_names"):
            columns = dict(zip(self._score_names(), scores.T, strict=True))
            passed = {str(name): X[name] for name in X.columns}
            if taken := sorted(columns.keys() & passed.keys()):
                raise ValueError(
                    f"X has the column {taken[0]!r}, the name of a score. Rename it or omit passthrough."
                )
            return type(X)(columns | passed)
        features = _validation.as_array(X, "X")
        kind = np.float64 if features.dtype.kind in "biuf" else object
        return np.column_stack([scores.astype(kind), features.astype(kind)])

    def _check(
        self, X: Any, y: ArrayLike, method: str, sample_weight: ArrayLike | None, params: dict[str, Any]
    ) -> tuple[Any, _responses.Target, Routed]:
        """Check parameters and data."""
        _responses.check_classifier(self.estimator)
        _validation.check_flag(self.passthrough, "passthrough")
        _validation.check_option(self.response_method, "response_method", _responses.RESPONSE_METHODS)
        X, target = _responses.check_data(self, self.estimator, X, y)
        n_samples = target.codes.shape[0]
        return X, target, route(self, method, self.estimator, None, n_samples, sample_weight, params)

    def _store(self, fitted: Any, method: str, target: _responses.Target) -> Self:
        self.estimator_ = fitted
        self.response_method_ = method
        self.classes_ = target.classes
        _responses.record_features(self, fitted)
        return self
