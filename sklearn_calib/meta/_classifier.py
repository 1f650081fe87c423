"""CalibratedClassifier: any classifier, calibrated by any calibrator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._atomic import AtomicFit
from sklearn_calib._compat import UNUSED, as_kind_of, available_if, routing_enabled, slice_metadata
from sklearn_calib._docs import shared_docs
from sklearn_calib._persistence import VersionStamped
from sklearn_calib._typing import Array, CountingWeights
from sklearn_calib.calibrators import CutoffCertificate, OneVsRestCalibrator
from sklearn_calib.calibrators._base import inside, may_be_certain
from sklearn_calib.calibrators._log_average import default_calibrator, log_average
from sklearn_calib.calibrators._multiclass import check_calibrator, needs_every_class
from sklearn_calib.meta import _responses
from sklearn_calib.meta._folds import (
    Fold,
    HeldScores,
    check_folds,
    cross_fit,
    fit_whole,
    has_weight,
    have_every_class,
    in_parallel,
    split,
)
from sklearn_calib.meta._joint import (
    FEWEST_PARTS,
    PARTS,
    are_complements,
    is_partition,
    joint_scores,
    members_of,
    overlapping_folds,
    suits,
)
from sklearn_calib.meta._pairs import (
    CalibratedPair,
    fit_fold_pair,
    fit_pair,
    is_passthrough,
    response_order,
)
from sklearn_calib.meta._routing import Routed, route, route_prediction


def _have_intervals(model: CalibratedClassifier) -> bool:
    calibrator = model.calibrators_[0] if "calibrated_classifiers_" in vars(model) else model.calibrator
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
        renormalized. None means :class:`~sklearn_calib.calibrators.SplineCalibrator` for binary and
        :class:`~sklearn_calib.calibrators.LogAverageCalibrator` for multiclass problems, which ranked first
        in ``benchmarks/compare_calibrators.py``. "passthrough" does not calibrate the probabilities.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        Method of the classifier whose output is calibrated. "auto" depends on the calibrator: for
        calibrators of probabilities (with ``link="logit"``, or without support for other scores),
        "passthrough" and None it is ``predict_proba`` if the classifier has it; for other calibrators it is
        ``decision_function`` if the classifier has it, else ``predict_proba``, as in
        :class:`~sklearn.calibration.CalibratedClassifierCV`.
    cv : int, splitter, iterable of splits or None, default=None
        Cross-validation splitting strategy; an integer gives stratified folds without shuffling, None six for
        "joint", else five, and fewer if no class has as many samples. Not used for a frozen estimator unless
        ``ensemble=True``.
    ensemble : {"joint", True, False, "auto"}, default="auto"
        "joint": several classifiers, each fitted to about half of the samples, and one calibrator of their
        mean score. For each sample it is fitted to the mean of the scores of the classifiers that have not
        seen the sample. The folds of ``cv`` are the parts that are left out: every two of four or five, and
        three of six in ten ways; more than six are merged into six. Other splits, which are no partition, are
        those of a classifier each.
        True: one classifier and one calibrator per fold, the latter fitted to the held-out samples of the
        fold; the probabilities are averaged, as in scikit-learn. The mean is less extreme than its parts.
        False: one calibrator, fitted to the held-out samples of all folds together, and one classifier,
        fitted to all samples; the model is smaller, and preferable if a class is rare. The folds then need
        not be a partition: each of r scores of a sample that is held out in r folds has the weight 1 / r.
        "auto": the choice is ``ensemble_``. It is "joint" where that is possible and ranks first in
        ``benchmarks/compare_ensembles.py``: folds that are a partition into at least four and train on all
        other samples, four samples of positive weight of every class, ``average="probability"``, and a
        calibrator whose probabilities are never 0 or 1 and that has neither intervals nor guarantees.
        Otherwise it is True, and False for a
        frozen estimator, a precomputed kernel matrix, folds in order of time, and if a class is absent from
        a held-out part where a calibrator would be fitted.
    average : {"probability", "log"}, default="probability"
        How the probabilities of several pairs (``ensemble=True``) are averaged: arithmetic mean, as in
        scikit-learn, or normalized geometric mean; for binary problems the latter averages log-odds. "log"
        with ``VennAbersCalibrator()`` is the cross Venn-Abers predictor for the log loss, "probability" with
        ``VennAbersCalibrator(loss="brier")`` that for the Brier score.
    n_jobs : int or None, default=None
        Number of folds fitted in parallel; None means 1 unless in a ``joblib.parallel_config`` context.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels.
    ensemble_ : {"joint", True, False}
        What has been fitted.
    calibrated_classifiers_ : list of CalibratedPair
        The pairs whose probabilities are averaged, one for "joint" and False; each has ``estimator``,
        ``calibrator``, ``response_method``, ``scores(X)`` and ``predict_proba(X)``.
    estimators_ : list
        The fitted classifiers of the pairs; of "joint" all whose scores are averaged.
    calibrators_ : list
        The fitted calibrators of the pairs.
    response_method_ : {"predict_proba", "decision_function"}
        The method of the classifier whose output is calibrated.
    %(features_in)s
    coef_, feature_importances_ : ndarray
        Mean over ``estimators_``, if all of them have the attribute with the same shape. It
        describes the scores before calibration.

    See Also
    --------
    CrossFitScorer : A classifier as a pipeline step, to be followed by a calibrator.

    Notes
    -----
    With ``IsotonicCalibrator()`` or ``PlattCalibrator(link="identity")`` and ``ensemble=True`` (or False) the
    probabilities are those of ``CalibratedClassifierCV`` of scikit-learn 1.9; for later ones see
    docs/migration/scikit_learn.md.

    *Metadata.* Without metadata routing, ``sample_weight`` is passed to the estimator and the calibrator
    (with a warning if the ``fit`` of one of them does not accept it), ``groups`` to the splitter,
    ``clusters`` to a calibrator that accepts them, for its certificate only (for folds of whole clusters pass
    them as ``groups``, with a splitter such as ``GroupKFold``), and all other arguments of ``fit`` to the
    estimator: with one value for each sample cut to the training part, evaluation sets such as ``eval_set``,
    ``X_val`` and ``y_val`` whole, see docs/early_stopping.md. With
    ``sklearn.set_config(enable_metadata_routing=True)`` metadata are passed as requested. The groups of a
    :class:`~sklearn_calib.calibrators.GroupCalibrator` need routing: call its methods
    ``set_fit_request(groups=True)`` and ``set_predict_proba_request(groups=True)``, and pass ``groups`` to
    ``fit``, ``predict_proba`` and ``predict``.

    *Multilabel targets.* Calibrate each label: ``MultiOutputClassifier(CalibratedClassifier(...))``, or
    ``OneVsRestClassifier`` or ``ClassifierChain`` in its place.

    *Rare classes.* Each class must occur in every training set, and with ``ensemble=True`` also in every
    held-out set, to which a calibrator is fitted.

    *Number of samples.* With "joint" each classifier is fitted to half of the samples, which settings such as
    the size of leaves, the number of neighbors and early stopping refer to.

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
    >>> model.ensemble_, len(model.calibrators_), model.response_method_
    (True, 5, 'predict_proba')
    >>> smooth = CalibratedClassifier(GaussianNB()).fit(X, y)
    >>> smooth.ensemble_, len(smooth.calibrators_), len(smooth.estimators_)
    ('joint', 1, 10)
    """

    # sample_weight is for the parts: the router itself requests nothing
    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}

    def __init__(
        self,
        estimator: Any = None,
        calibrator: Any = None,
        *,
        response_method: str = "auto",
        cv: Any = None,
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
        _responses.check_classifier(estimator)
        if not (self.calibrator is None or is_passthrough(self.calibrator)):
            check_calibrator(self.calibrator)
        _validation.check_option(self.response_method, "response_method", _responses.RESPONSE_METHODS)
        _validation.check_option(self.average, "average", ("probability", "log"))
        if is_passthrough(self.calibrator) and self.response_method == "decision_function":
            raise ValueError(
                "calibrator='passthrough' returns uncalibrated probabilities, so response_method cannot be "
                "'decision_function'. Use response_method='auto', or a calibrator."
            )
        ensemble = self._resolve_ensemble(estimator)
        X, target = _responses.check_data(self, estimator, X, y)
        n_samples = target.codes.shape[0]
        routed = route(self, "fit", estimator, self._routed_calibrator(), n_samples, sample_weight, params)
        mode: bool | str = False
        folds: list[Fold] = []
        if ensemble or not (isinstance(estimator, FrozenEstimator) or is_passthrough(self.calibrator)):
            mode, folds = self._plan(ensemble, X, target, routed)
        if mode is True:
            pairs = self._fit_ensemble(X, target, routed, folds)
        else:
            pairs = [self._fit_single(X, target, routed, folds, joint=mode == "joint")]
        self.classes_ = target.classes
        self.calibrated_classifiers_ = pairs
        self.ensemble_ = mode
        self.response_method_ = pairs[0].response_method
        _responses.record_features(self, self.estimators_[0])
        return self

    def _plan(
        self, ensemble: bool | str, X: Any, target: _responses.Target, routed: Routed
    ) -> tuple[bool | str, list[Fold]]:
        """Return what is fitted, and the folds for it."""
        n_samples = target.codes.shape[0]
        frozen = isinstance(self.estimator, FrozenEstimator)
        trained = None if frozen else has_weight(routed.estimator, n_samples)
        calibrated = has_weight(routed.calibrator, n_samples)
        counted = target.codes[calibrated if trained is None else calibrated & trained]
        least = int(np.bincount(counted, minlength=target.classes.shape[0]).min())
        possible = ensemble == "auto" and least >= FEWEST_PARTS
        possible = possible and self.average == "probability" and suits(self.calibrator)
        if ensemble == "joint" or possible:
            parts = max(min(PARTS, least), 2) if self.cv is None else self.cv
            folds = split(X, target, parts, routed.splitter)
            few = len(folds) < FEWEST_PARTS and is_partition(folds, n_samples)
            if ensemble == "joint":
                if few:
                    raise ValueError(
                        f"ensemble='joint' needs at least {FEWEST_PARTS} folds, and a sample of every class "
                        f"in each, but there are {len(folds)}. Pass a larger cv, or ensemble=False."
                    )
                halves = overlapping_folds(folds, n_samples)
                check_folds(halves, target, trained, None)
                return "joint", halves
            if not few and is_partition(folds, n_samples) and are_complements(folds, n_samples):
                halves = overlapping_folds(folds, n_samples)
                if have_every_class([fold.train for fold in halves], target, trained):
                    return "joint", halves
        if not possible or self.cv is None:
            # no class may have five samples
            most = int(np.bincount(target.codes).max())
            folds = split(X, target, max(2, min(5, most)) if self.cv is None else self.cv, routed.splitter)
        required = calibrated if self._needs_every_class(target) else None
        later = all(fold.train.max(initial=-1) < fold.test.min(initial=n_samples) for fold in folds)
        if ensemble == "auto":
            ensemble = not later and have_every_class([fold.test for fold in folds], target, required)
        elif ensemble and later and not frozen:
            _validation.warn_user(
                "The folds are in order of time, and ensemble=True averages models that were fitted to the "
                "first samples only. Use ensemble=False, with one model of all samples."
            )
        check_folds(folds, target, trained, required if ensemble else None)
        return ensemble, folds

    def _fit_ensemble(
        self, X: Any, target: _responses.Target, routed: Routed, folds: list[Fold]
    ) -> list[CalibratedPair]:
        """Fit a pair per fold."""
        estimator, order = self._base_estimator(), response_order(self.response_method, self.calibrator)
        calls = [
            delayed(fit_fold_pair)(clone(estimator), self.calibrator, X, target, fold, order, routed)
            for fold in folds
        ]
        return in_parallel(calls, self.n_jobs)

    def _needs_every_class(self, target: _responses.Target) -> bool:
        """Tell whether a calibrator is fitted that needs samples of every class."""
        if is_passthrough(self.calibrator):
            return False
        # the default omits those that do; one-vs-rest can do without, but one fit of all folds is better
        return target.classes.shape[0] == 2 or (
            self.calibrator is not None
            and (isinstance(self.calibrator, OneVsRestCalibrator) or needs_every_class(self.calibrator))
        )

    def _fit_single(
        self, X: Any, target: _responses.Target, routed: Routed, folds: list[Fold], *, joint: bool
    ) -> CalibratedPair:
        """Fit one calibrator to the scores of all samples, out-of-fold unless the estimator is frozen."""
        estimator, order = self._base_estimator(), response_order(self.response_method, self.calibrator)
        classes, labels, metadata = target.classes, target.labels, routed.calibrator
        if isinstance(estimator, FrozenEstimator):
            method = _responses.resolve_response(estimator, order)
            held = HeldScores(estimator, method, _responses.class_scores(estimator, X, method, classes))
            return fit_pair(held, self.calibrator, target.codes, classes, metadata)
        if is_passthrough(self.calibrator) and not joint:
            fitted, method = fit_whole(clone(estimator), X, labels, routed.estimator, order)
            return CalibratedPair(fitted, self.calibrator, method, classes)
        scores = joint_scores if joint else cross_fit
        held, indices = scores(estimator, X, target, folds, routed.estimator, order, self.n_jobs)
        metadata = slice_metadata(X, metadata, indices)
        return fit_pair(held, self.calibrator, target.codes[indices], classes, metadata)

    def predict_proba(self, X: Any, **params: Any) -> Any:
        """Return calibrated probabilities.

        Parameters
        ----------
        %(features)s
        **params : dict
            Metadata for ``predict_proba`` of the calibrator, such as ``groups``; see the Notes of the class.

        Returns
        -------
        ndarray of shape (n, n_classes)
            The average of the probabilities of the pairs; columns follow ``classes_``. With array API
            dispatch, an array of the kind of ``X``.
        """
        check_is_fitted(self)
        return as_kind_of(X, self._calibrated(X, "predict_proba", params))

    def predict(self, X: Any, **params: Any) -> Any:
        """Return the class with the highest calibrated probability; of tied classes the first.

        Parameters
        ----------
        %(features)s
        **params : dict
            Metadata for ``predict_proba`` of the calibrator; see :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n,)
            Class labels; with array API dispatch, numbers are an array of the kind of ``X``.
        """
        check_is_fitted(self)
        return as_kind_of(X, self.classes_[np.argmax(self._calibrated(X, "predict", params), axis=1)])

    @available_if(_have_intervals)
    def predict_interval(self, X: Any) -> tuple[Array, Array]:
        """Return the means of the lower and of the upper probabilities of the pairs, p_0 and p_1.

        For calibrators that have it, as :class:`~sklearn_calib.calibrators.VennAbersCalibrator`. With
        ``average="log"`` the means are geometric, of 1 - p_0 and of p_1, as in the cross Venn-Abers predictor
        [1]_; if the pairs differ much, they are in reverse order and exchanged. Otherwise they are
        arithmetic. For two classes the probability of :meth:`predict_proba` is between both. For three or
        more, the intervals are those of each class against the rest, whose probabilities are normalized
        afterward. The interval shows the uncertainty of the calibrators, not the differences between the
        pairs.

        Parameters
        ----------
        X : array-like or sparse matrix with n rows
            Features, as the estimator takes them.

        Returns
        -------
        tuple of two ndarrays of shape (n,) or (n, n_classes)
            Lower and upper probabilities: of ``classes_[1]`` for two classes, else of each class.

        Raises
        ------
        AttributeError
            If the calibrator has no intervals.

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
        """The fitted classifiers."""
        return [member for pair in self.calibrated_classifiers_ for member in members_of(pair.estimator)]

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

        It is the certificate of the calibrator. There must be a single one, of a single classifier, fitted to
        samples on which the classifier was not trained, as with a frozen estimator.

        With ``ensemble=False``, unless the estimator is frozen, the scores come from models of the folds: the
        bound holds for the classifier to the extent that the scores of the model fitted to all samples have
        the same distribution, as ``note`` states. The mean scores of "joint" are those of fewer classifiers
        than in predictions, so that it has no valid certificate.

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
        calibrator, *others = self.calibrators_
        certify: Any = getattr(calibrator, "cutoff_certificate", None)
        missing = []
        if others or self.ensemble_ == "joint":
            missing.append(
                "a single classifier (ensemble=False, or FrozenEstimator(fitted_classifier) with samples "
                f"that it was not trained on), but ensemble_ is {self.ensemble_!r}"
            )
        if certify is None:
            name = "'passthrough'" if is_passthrough(calibrator) else type(calibrator).__name__
            missing.append(
                "a monotone binary calibrator, such as IsotonicCalibrator(), PlattCalibrator() or "
                f"SplineCalibrator(monotone=True), but that of the fit is {name}"
            )
        if missing:
            raise ValueError(f"A certificate needs {'; and '.join(missing)}.")
        bound: CutoffCertificate = certify(
            confidence, method, n_resamples=n_resamples, random_state=random_state, weights=weights
        )
        estimator = self._base_estimator()
        if self.ensemble_ or isinstance(estimator, FrozenEstimator):
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
        return _responses.with_tags_of(self._base_estimator(), super().__sklearn_tags__())

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

    def _resolve_ensemble(self, estimator: Any) -> bool | str:
        """Return the checked ``ensemble``, False in place of "auto" if there can be one model only."""
        pairwise = get_tags(estimator).input_tags.pairwise
        mode: bool | str
        if isinstance(self.ensemble, str):
            mode = _validation.check_option(self.ensemble, "ensemble", ("auto", "joint"), "True or False")
        elif isinstance(self.ensemble, bool | np.bool_):
            mode = bool(self.ensemble)
        else:
            raise TypeError(f"ensemble must be True, False, 'joint' or 'auto', got {self.ensemble!r}.")
        frozen = isinstance(estimator, FrozenEstimator)
        if mode == "auto":
            return False if pairwise or frozen else "auto"
        if mode and pairwise:
            raise ValueError(
                f"ensemble={mode!r} cannot be combined with a precomputed kernel matrix, because the model "
                "of a fold uses only some of its columns. Use ensemble=False."
            )
        if mode == "joint" and frozen:
            raise ValueError(
                "ensemble='joint' fits several classifiers, but a frozen estimator is not fitted. Use "
                "ensemble=False."
            )
        if mode == "joint" and self.average != "probability":
            raise ValueError(
                f"average={self.average!r} is for several calibrators, and ensemble='joint' has one. Use "
                "ensemble=True."
            )
        return mode
