"""CalibratedClassifier: any classifier, calibrated by any calibrator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._atomic import AtomicFit
from sklearn_calib._compat import UNUSED, routing_enabled, slice_metadata
from sklearn_calib._docs import shared_docs
from sklearn_calib._persistence import VersionStamped
from sklearn_calib._typing import Array, CountingWeights
from sklearn_calib._validation import check_option
from sklearn_calib.calibrators import CutoffCertificate
from sklearn_calib.calibrators._base import inside, may_be_certain
from sklearn_calib.calibrators._log_average import default_calibrator, log_average
from sklearn_calib.calibrators._multiclass import check_calibrator, needs_every_class
from sklearn_calib.meta._folds import HeldScores, cross_fit, fit_whole, has_weight, in_parallel, plan_folds
from sklearn_calib.meta._pairs import (
    CalibratedPair,
    fit_fold_pair,
    fit_pair,
    is_passthrough,
    response_order,
)
from sklearn_calib.meta._responses import (
    RESPONSE_METHODS,
    Target,
    check_classifier,
    check_data,
    class_scores,
    record_features,
    resolve_response,
    with_tags_of,
)
from sklearn_calib.meta._routing import Routed, route, route_prediction


def _have_intervals(model: CalibratedClassifier) -> bool:
    fitted = "calibrated_classifiers_" in vars(model)
    if fitted and len(model.classes_) > 2:
        raise AttributeError(f"predict_interval is for binary problems, not {len(model.classes_)} classes.")
    calibrator = model.calibrators_[0] if fitted else model.calibrator
    if not hasattr(calibrator, "predict_interval"):
        raise AttributeError(
            f"{calibrator!r} has no predict_interval. Use a calibrator that has it: VennAbersCalibrator()."
        )
    return True


@shared_docs
class CalibratedClassifier(AtomicFit, VersionStamped, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Calibrate the probabilities of any classifier with any calibrator.

    The calibrator is fitted to out-of-fold scores, because a classifier is overconfident on its own training
    samples.

    Parameters
    ----------
    estimator : estimator, default=None
        A classifier with ``predict_proba`` or ``decision_function``; None means
        ``LinearSVC(random_state=0)``. A fitted classifier in a :class:`~sklearn.frozen.FrozenEstimator` is
        not refitted, and the calibrator is fitted to all samples passed to ``fit``, which must not be its
        training samples.
    calibrator : calibrator, classifier, "passthrough" or None, default=None
        A calibrator of :mod:`sklearn_calib.calibrators`, or any classifier with ``predict_proba``, such as a
        pipeline of splines and a logistic regression or a grid search over calibrators; it is fitted to the
        scores as features, shape (n, 1) for binary problems (the score of ``classes_[1]``), else (n,
        n_classes). A binary calibrator is fitted to each class against the rest and the probabilities are
        renormalised. None means :class:`~sklearn_calib.calibrators.SplineCalibrator` for binary and
        :class:`~sklearn_calib.calibrators.LogAverageCalibrator` for multiclass problems, which ranked first
        in ``benchmarks/compare_calibrators.py``. "passthrough" does not calibrate the probabilities.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        Method of the classifier whose output is calibrated. "auto" depends on the calibrator: for
        calibrators of probabilities (with ``link="logit"``, or without support for other scores),
        "passthrough" and None it is ``predict_proba`` if the classifier has it; for other calibrators it is
        ``decision_function`` if the classifier has it, else ``predict_proba``, as in
        :class:`~sklearn.calibration.CalibratedClassifierCV`.
    cv : int, splitter, iterable of splits or None, default=5
        Cross-validation splitting strategy; an integer (None means 5) gives stratified folds without
        shuffling. Not used for a frozen estimator unless ``ensemble=True``.
    ensemble : bool or "auto", default="auto"
        True: one classifier and one calibrator per fold, the latter fitted to the held-out samples of the
        fold; the probabilities are averaged. False: one calibrator, fitted to the held-out samples of all
        folds together, and one classifier, fitted to all samples; the model is smaller, and preferable if a
        class is rare. The folds then need not be a partition: a sample that is held out in k folds enters the
        fit of the calibrator k times. "auto": False for a frozen estimator and for an estimator with a
        precomputed kernel matrix, else True.
    average : {"probability", "log"}, default="probability"
        How the probabilities of several pairs are averaged: arithmetic mean, as in scikit-learn, or
        normalised geometric mean; for binary problems the latter averages log-odds. "log" with
        ``VennAbersCalibrator()`` is the cross Venn-Abers predictor for the log loss, "probability" with
        ``VennAbersCalibrator(loss="brier")`` that for the Brier score.
    n_jobs : int or None, default=None
        Number of folds fitted in parallel; None means 1 unless in a ``joblib.parallel_config`` context.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels.
    calibrated_classifiers_ : list of CalibratedPair
        The pairs whose probabilities are averaged; each has ``estimator``, ``calibrator``,
        ``response_method``, ``scores(X)`` and ``predict_proba(X)``.
    estimators_ : list
        The fitted classifiers of the pairs.
    calibrators_ : list
        The fitted calibrators of the pairs.
    response_method_ : {"predict_proba", "decision_function"}
        The method of the classifier whose output is calibrated.
    %(features_in)s
    coef_, feature_importances_ : ndarray
        Mean over the classifiers of the pairs, if all of them have the attribute with the same shape. It
        describes the scores before calibration.

    See Also
    --------
    CrossFitScorer : A classifier as a pipeline step, to be followed by a calibrator.

    Notes
    -----
    With ``IsotonicCalibrator()`` or ``PlattCalibrator(link="identity")`` the probabilities are those of
    ``CalibratedClassifierCV`` of scikit-learn 1.9; for later ones see docs/migration/scikit_learn.md.

    *Metadata.* Without metadata routing, ``sample_weight`` is passed to the estimator and the calibrator
    (with a warning if the ``fit`` of one of them does not accept it), ``groups`` to the splitter,
    ``clusters`` to a calibrator that accepts them, and all other arguments of ``fit`` to the estimator. With
    ``sklearn.set_config(enable_metadata_routing=True)`` metadata are passed as requested. The groups of a
    :class:`~sklearn_calib.calibrators.GroupCalibrator` need routing: call its methods
    ``set_fit_request(groups=True)`` and ``set_predict_proba_request(groups=True)``, and pass ``groups`` to
    ``fit``, ``predict_proba`` and ``predict``.

    *Multilabel targets.* Calibrate each label: ``MultiOutputClassifier(CalibratedClassifier(...))``, or
    ``OneVsRestClassifier`` or ``ClassifierChain`` in its place.

    *Rare classes.* Each class must occur in every training set, and with ``ensemble=True`` also in every
    held-out set, to which a calibrator is fitted.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.calibrators import IsotonicCalibrator
    >>> from sklearn_calib.meta import CalibratedClassifier
    >>> X, y = make_classification(n_samples=400, random_state=0)
    >>> model = CalibratedClassifier(GaussianNB(), IsotonicCalibrator()).fit(X, y)
    >>> model.predict_proba(X).shape
    (400, 2)
    >>> len(model.calibrators_), model.response_method_
    (5, 'predict_proba')
    """

    # sample_weight is for the parts: the router itself requests nothing
    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}

    def __init__(
        self,
        estimator: Any = None,
        calibrator: Any = None,
        *,
        response_method: str = "auto",
        cv: Any = 5,
        ensemble: bool | str = "auto",
        average: str = "probability",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.response_method = response_method
        self.cv = cv
        self.ensemble = ensemble
        self.average = average
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Fit classifiers, and calibrators to their scores of held-out samples.

        Parameters
        ----------
        %(weighted)s

        Returns
        -------
        CalibratedClassifier
            The fitted classifier itself.

        Raises
        ------
        TypeError
            If ``estimator`` or ``calibrator`` is not an estimator of the required kind.
        ValueError
            If ``y`` has one class only or is not a vector of labels, if a class is absent from a part of a
            fold where it is needed, if the classifier lacks ``response_method``, or if the calibrator
            rejects the scores (a calibrator of probabilities rejects decision scores).
        """
        estimator = self._base_estimator()
        check_classifier(estimator)
        if not (self.calibrator is None or is_passthrough(self.calibrator)):
            check_calibrator(self.calibrator)
        check_option(self.response_method, "response_method", RESPONSE_METHODS)
        check_option(self.average, "average", ("probability", "log"))
        if is_passthrough(self.calibrator) and self.response_method == "decision_function":
            raise ValueError(
                "calibrator='passthrough' returns uncalibrated probabilities, so response_method cannot be "
                "'decision_function'. Use response_method='auto', or a calibrator."
            )
        ensemble = self._resolve_ensemble(estimator)
        X, target = check_data(self, estimator, X, y)
        n_samples = target.codes.shape[0]
        routed = route(self, "fit", estimator, self._routed_calibrator(), n_samples, sample_weight, params)
        pairs = self._fit_ensemble(X, target, routed) if ensemble else [self._fit_single(X, target, routed)]
        self.classes_ = target.classes
        self.calibrated_classifiers_ = pairs
        self.response_method_ = pairs[0].response_method
        record_features(self, pairs[0].estimator)
        return self

    def _fit_ensemble(self, X: Any, target: Target, routed: Routed) -> list[CalibratedPair]:
        """Fit a pair per fold."""
        estimator, order = self._base_estimator(), response_order(self.response_method, self.calibrator)
        n_samples, frozen = target.codes.shape[0], isinstance(estimator, FrozenEstimator)
        folds = plan_folds(
            X,
            target,
            self.cv,
            routed.splitter,
            None if frozen else has_weight(routed.estimator, n_samples),
            has_weight(routed.calibrator, n_samples) if self._needs_every_class(target) else None,
        )
        calls = [
            delayed(fit_fold_pair)(clone(estimator), self.calibrator, X, target, fold, order, routed)
            for fold in folds
        ]
        return in_parallel(calls, self.n_jobs)

    def _needs_every_class(self, target: Target) -> bool:
        """Tell whether a calibrator is fitted that needs samples of every class."""
        if is_passthrough(self.calibrator):
            return False
        # the default omits those that do
        return target.classes.shape[0] == 2 or (
            self.calibrator is not None and needs_every_class(self.calibrator)
        )

    def _fit_single(self, X: Any, target: Target, routed: Routed) -> CalibratedPair:
        """Fit one calibrator to the scores of all samples, out-of-fold unless the estimator is frozen."""
        estimator, order = self._base_estimator(), response_order(self.response_method, self.calibrator)
        classes, labels, metadata = target.classes, target.labels, routed.calibrator
        if isinstance(estimator, FrozenEstimator):
            method = resolve_response(estimator, order)
            held = HeldScores(estimator, method, class_scores(estimator, X, method, classes))
            return fit_pair(held, self.calibrator, target.codes, classes, metadata)
        if is_passthrough(self.calibrator):
            fitted, method = fit_whole(clone(estimator), X, labels, routed.estimator, order)
            return CalibratedPair(fitted, self.calibrator, method, classes)
        trained = has_weight(routed.estimator, labels.shape[0])
        folds = plan_folds(X, target, self.cv, routed.splitter, trained, None)
        held, indices = cross_fit(estimator, X, target, folds, routed.estimator, order, self.n_jobs)
        metadata = slice_metadata(X, metadata, indices)
        return fit_pair(held, self.calibrator, target.codes[indices], classes, metadata)

    def predict_proba(self, X: Any, **params: Any) -> Array:
        """Return calibrated probabilities.

        Parameters
        ----------
        %(features)s
        **params : dict
            Metadata for ``predict_proba`` of the calibrator, such as ``groups``; see the Notes of the class.

        Returns
        -------
        ndarray of shape (n, n_classes)
            The average of the probabilities of the pairs; columns follow ``classes_``.
        """
        check_is_fitted(self)
        return self._calibrated(X, "predict_proba", params)

    def predict(self, X: Any, **params: Any) -> NDArray[Any]:
        """Return the class with the highest calibrated probability; of tied classes the first.

        Parameters
        ----------
        %(features)s
        **params : dict
            Metadata for ``predict_proba`` of the calibrator; see :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n,)
            Class labels.
        """
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[np.argmax(self._calibrated(X, "predict", params), axis=1)]
        return labels

    @available_if(_have_intervals)
    def predict_interval(self, X: Any) -> tuple[Array, Array]:
        """Return the means of the lower and of the upper probabilities of the pairs, p_0 and p_1.

        For binary problems and calibrators that have it, as
        :class:`~sklearn_calib.calibrators.VennAbersCalibrator`. With ``average="log"`` the means are
        geometric, of 1 - p_0 and of p_1, as in the cross Venn-Abers predictor [1]_; if the pairs differ much,
        they are in reverse order and exchanged. Otherwise they are arithmetic. The probability of
        :meth:`predict_proba` is between both. The interval shows the uncertainty of the calibrators, not the
        differences between the pairs.

        Parameters
        ----------
        X : array-like or sparse matrix with n rows
            Features, as the estimator takes them.

        Returns
        -------
        tuple of two ndarrays of shape (n,)
            Lower and upper probabilities of ``classes_[1]``.

        Raises
        ------
        AttributeError
            If the calibrator has no intervals, or there are three or more classes.

        References
        ----------
        .. [1] Vovk, Petej, Fedorova (2015). Large-scale probabilistic predictors with and without guarantees
           of validity. NeurIPS. arXiv:1511.00213, Section 4.
        """
        check_is_fitted(self)
        pairs = self.calibrated_classifiers_
        lower, upper = np.swapaxes([pair.calibrator.predict_interval(pair.scores(X)) for pair in pairs], 0, 1)
        if self.average == "probability":
            return lower.mean(axis=0), upper.mean(axis=0)
        ends = 1.0 - np.exp(np.log1p(-lower).mean(axis=0)), np.exp(np.log(upper).mean(axis=0))
        return np.minimum(*ends), np.maximum(*ends)

    def _calibrated(self, X: Any, method: str, params: dict[str, Any]) -> Array:
        """Return the average of the probabilities of the pairs for ``method``, passed ``params``."""
        metadata = route_prediction(self, method, params)
        pairs = self.calibrated_classifiers_
        tables = (pair.predict_proba(X, **metadata) for pair in pairs)
        if self.average == "log" and len(pairs) > 1:
            return log_average(tables, [1.0 / len(pairs)] * len(pairs))
        total: Array = sum(tables, start=np.zeros(()))
        mean = total / len(pairs)
        # the mean of probabilities just below 1 may be rounded to 1
        return mean if any(may_be_certain(pair.calibrator) for pair in pairs) else inside(mean)

    @property
    def estimators_(self) -> list[Any]:
        """The fitted classifiers of the pairs."""
        return [pair.estimator for pair in self.calibrated_classifiers_]

    @property
    def calibrators_(self) -> list[Any]:
        """The fitted calibrators of the pairs."""
        return [pair.calibrator for pair in self.calibrated_classifiers_]

    @property
    def coef_(self) -> Array:
        """Mean of ``coef_`` of the classifiers."""
        return self._mean_of_members("coef_")

    @property
    def feature_importances_(self) -> Array:
        """Mean of ``feature_importances_`` of the classifiers."""
        return self._mean_of_members("feature_importances_")

    def _mean_of_members(self, name: str) -> Array:
        """Return the mean of an attribute of all classifiers; raise AttributeError if one has none."""
        if "calibrated_classifiers_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {name} before fit.")
        found = [np.asarray(getattr(member, name)) for member in self.estimators_]
        if len({values.shape for values in found}) > 1 or found[0].dtype.kind not in "fiu":
            raise AttributeError(f"{name} of the classifiers are not numeric arrays of the same shape.")
        return np.asarray(np.mean(found, axis=0))

    def cutoff_certificate(
        self,
        confidence: float = 0.95,
        method: str = "fitted",
        *,
        n_resamples: int = 999,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        weights: CountingWeights = None,
    ) -> CutoffCertificate:
        """Return an upper confidence bound of the cutoff calibration error of the calibrated classifier.

        It is the certificate of the calibrator. There must be a single calibrator, fitted to samples on which
        the estimator was not trained, as with a frozen estimator.

        With ``ensemble=False``, unless the estimator is frozen, the scores come from models of the folds: the
        bound holds for the classifier to the extent that the scores of the model fitted to all samples have
        the same distribution, as ``note`` states.

        Parameters
        ----------
        confidence, method, n_resamples, random_state, weights
            As :meth:`sklearn_calib.calibrators.IsotonicCalibrator.cutoff_certificate`.

        Returns
        -------
        CutoffCertificate
            The bound.
        """
        check_is_fitted(self)
        calibrators = self.calibrators_
        if len(calibrators) > 1:
            raise ValueError(
                f"A certificate needs a single calibrator, but {len(calibrators)} are averaged. Fit with "
                "ensemble=False, or calibrate FrozenEstimator(fitted_classifier) on samples that it was not "
                "trained on."
            )
        certify = getattr(calibrators[0], "cutoff_certificate", None)
        if certify is None:
            name = "'passthrough'" if is_passthrough(calibrators[0]) else type(calibrators[0]).__name__
            raise ValueError(
                f"calibrator={name} has no certificate. Use a monotone binary calibrator, such as "
                "IsotonicCalibrator() or PlattCalibrator()."
            )
        bound: CutoffCertificate = certify(
            confidence, method, n_resamples=n_resamples, random_state=random_state, weights=weights
        )
        estimator = self._base_estimator()
        if self._resolve_ensemble(estimator) or isinstance(estimator, FrozenEstimator):
            return bound
        note = "approximate for the model fitted to all samples, because the scores are those of the folds"
        return replace(bound, note="; ".join(filter(None, (note, bound.note))))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what the parts request: ``fit`` of all of them, and ``predict_proba`` of the calibrator."""
        router = MetadataRouter(owner=type(self).__name__)
        router.add(
            estimator=self._base_estimator(),
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )
        router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        calibrator = self._routed_calibrator()
        if calibrator is None:
            return router
        mapping = MethodMapping().add(caller="fit", callee="fit")
        mapping.add(caller="predict_proba", callee="predict_proba")
        return router.add(
            calibrator=calibrator, method_mapping=mapping.add(caller="predict", callee="predict_proba")
        )

    def __sklearn_tags__(self) -> Any:
        return with_tags_of(self._base_estimator(), super().__sklearn_tags__())

    def _base_estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        # imported here because it imports all linear models and is rarely needed
        from sklearn.svm import LinearSVC

        default = LinearSVC(random_state=0)
        return default.set_fit_request(sample_weight=True) if routing_enabled() else default

    def _routed_calibrator(self) -> Any:
        """Return the calibrator that requests metadata, None for "passthrough"."""
        if is_passthrough(self.calibrator):
            return None
        if self.calibrator is not None:
            return self.calibrator
        default = default_calibrator("identity", several=False)
        return default.set_fit_request(sample_weight=True) if routing_enabled() else default

    def _resolve_ensemble(self, estimator: Any) -> bool:
        """Return whether each fold keeps a model."""
        pairwise = get_tags(estimator).input_tags.pairwise
        if isinstance(self.ensemble, str):
            check_option(self.ensemble, "ensemble", ("auto",), "True or False")
            return not (pairwise or isinstance(estimator, FrozenEstimator))
        if not isinstance(self.ensemble, bool | np.bool_):
            raise TypeError(f"ensemble must be True, False or 'auto', got {self.ensemble!r}.")
        if self.ensemble and pairwise:
            raise ValueError(
                "ensemble=True cannot be combined with a precomputed kernel matrix, because the model of a "
                "fold uses only some of its columns. Use ensemble=False."
            )
        return bool(self.ensemble)
