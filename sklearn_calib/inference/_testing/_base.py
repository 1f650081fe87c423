"""Base class of tests of calibration, their result, and the conventions of scikit-learn estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._atomic import AtomicFit
from sklearn_calib._core._clusters import cluster_words, dependence_of, single_clusters
from sklearn_calib._core._grouping import (
    GroupedOutcomes,
    as_sampled,
    contradiction_words,
    weight_words,
    weighting,
)
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import printable_lines, result_html
from sklearn_calib._persistence import VersionStamped
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference._testing._classes import REDUCTIONS, part_lines, test_parts
from sklearn_calib.metrics._reductions import check_problem, two_columns

# Positive predictions below this count as this: powers of their variances would underflow.
_SMALLEST = 1e-60


@shared_docs
@dataclass(frozen=True)
class CalibrationTestResult(FrameMixin):
    """Outcome of a test of calibration.

    An outcome that has probability zero under its prediction (p = 0 but an event, p = 1 but none; with three
    or more classes, a class whose probability is exactly 0) refutes perfect calibration: ``pvalue`` is 0.
    Since this says little about the other predictions, ``others`` is the result for all other samples.

    Attributes
    ----------
    test : str
        Name of the test.
    null_hypothesis : str
        What is tested.
    statistic : float
        Value of the test statistic; large values are evidence against the null hypothesis, unless ``tail``
        says otherwise.
    pvalue : float
        Probability under the null hypothesis of evidence against it that is at least as strong; 0 if an
        outcome contradicts its prediction.
    estimate : float
        The calibration error that is tested, in the units of the predictions.
    method : str
        How the p-value was obtained.
    n_samples : int
        Number of samples; frequencies count.
    scales : tuple
        Details of each scale, for a test that uses several; of multiclass and multilabel targets the binary
        problems, the worst first.
    null_distribution : ndarray or None
        The statistic of each simulated sample, if samples were simulated.
    reason : str
        The reason for the decision, in words.
    tail : {"upper", "lower", "two-sided"}
        Which values of the statistic are evidence against the null hypothesis: large ones, small ones, or
        those far from 0.
    asymptotic_null : str
        Null distribution of the statistic from which the p-value was computed, if it is one of "normal",
        "chi2(k)" with k degrees of freedom, and "brownian range"; else empty.
    contradicted : ndarray of int
        Indices of the samples that contradict a prediction of exactly 0 or 1. Usually empty.
    n_contradicted, n_extreme : int
        Number of those samples, and of all whose prediction contains exactly 0 or 1; frequencies count.
        ``n_extreme`` is counted only if some are contradicted.
    others : CalibrationTestResult or None
        If some samples are contradicted, the result for the others; None if there are no others, or if
        :class:`BinomialTest` finds them all distinct. It says nothing about the contradicted samples: report
        it with their number.
    %(dependence)s
    """

    _rows_in = "_parts"

    test: str
    null_hypothesis: str
    statistic: float
    pvalue: float
    estimate: float
    method: str
    n_samples: int
    scales: tuple[Any, ...] = field(default=(), repr=False)
    null_distribution: Array | None = field(default=None, repr=False, compare=False)
    reason: str = ""
    tail: str = field(default="upper", repr=False)
    asymptotic_null: str = field(default="", repr=False)
    contradicted: NDArray[np.intp] = field(
        default_factory=lambda: np.empty(0, dtype=np.intp), repr=False, compare=False
    )
    n_contradicted: int = field(default=0, repr=False)
    n_extreme: int = field(default=0, repr=False)
    others: CalibrationTestResult | None = field(default=None, repr=False)
    n_clusters: int | None = None
    design_effect: float | None = None
    n_effective: float | None = None
    weight_spread: float | None = None
    weights: str | None = field(default=None, compare=False)

    @property
    def pvalue_others(self) -> float:
        """p-value of the samples that are not contradicted; NaN if ``others`` is None."""
        if not self.n_contradicted:
            return self.pvalue
        return np.nan if self.others is None else self.others.pvalue

    @property
    def extremes(self) -> str:
        """How many predictions of exactly 0 or 1 were contradicted, in words; empty if none were."""
        return contradiction_words(self.n_contradicted, self.n_extreme)

    def rejects(self, alpha: float = 0.05) -> bool:
        """Tell whether the null hypothesis is rejected at level ``alpha``, in (0, 1): ``pvalue <= alpha``."""
        return self.pvalue <= _validation.check_fraction(alpha, "alpha")

    def __str__(self) -> str:
        facts = (f"  {name:<9}  {text}" for name, text in self._facts())
        lines, shown = [f"{self.test}: H0: {self.null_hypothesis}", *facts], self._shown
        reason = [] if shown.reason in ("", self.extremes) else [shown.reason]
        return printable_lines(lines + [f"  {line}" for line in reason + part_lines(shown.scales)])

    def _repr_html_(self) -> str:
        shown = self._shown
        pairs = [("H0", self.null_hypothesis), *self._facts(), ("reason", shown.reason)]
        return result_html(self.test, pairs, [(f"scales ({len(shown.scales)})", shown.scales)])

    @property
    def _shown(self) -> CalibrationTestResult:
        """The result that is printed: without contradicted samples, if there are any others."""
        return self if self.others is None else self.others

    @property
    def _parts(self) -> tuple[Any, ...]:
        """The rows of the table: the scales, or the test itself if it has none."""
        return self._shown.scales or (self._shown,)

    def _facts(self) -> list[tuple[str, str]]:
        """Return names and values, all of the same samples."""
        shown, extremes = self._shown, []
        if self.n_contradicted:
            of = "" if shown is self else "; all other numbers are those of the other samples"
            extremes = [("extremes", f"{self.extremes}: strictly, the p-value is {self.pvalue:.4g}{of}")]
        return [
            ("p-value", f"{shown.pvalue:.4g}  ({shown.method})"),
            *extremes,
            ("statistic", f"{shown.statistic:.4g}"),
            ("estimate", f"{shown.estimate:.4g}"),
            ("n", str(shown.n_samples)),
            *([] if shown.weights is None else [("weights", weight_words(shown))]),
            *([] if shown.n_clusters is None else [("clusters", cluster_words(shown))]),
        ]


@shared_docs
class CalibrationTest(AtomicFit, VersionStamped, ClassifierMixin, TransformerMixin, BaseEstimator, ABC):
    """Base class of tests of calibration.

    ``test`` is pure: it computes a result and stores nothing. As a scikit-learn estimator, ``fit`` stores
    the result, ``transform`` and ``predict_proba`` return the tested probabilities unchanged, and ``score``
    is the p-value on other data. A test can therefore be the last step of a pipeline whose previous steps
    produce probabilities: the pipeline is the classifier that was tested, with its p-value as score, for
    ``cross_val_score``, ``GridSearchCV`` and all scorers of classifiers.

    Most tests are tests of binary problems. For three or more classes they have a parameter ``reduction``:
    "classwise" tests each class against the rest, "top-label" the confidence (the largest probability, as a
    forecast that its class is the right one) in the samples of each predicted class, and "joint" each class,
    the mean over classes, and the confidence. Labels are simulated once from the vectors of probabilities,
    and all statistics are evaluated on the same labels. The statistic is the smallest p-value: first
    of the classes, then of three p-values, those of this minimum, of the mean and of the confidence. The
    p-value of a minimum is its rank among the minima of the simulated labels, so that the level is exact for
    independent samples. The mean is
    that of standardized statistics. Tests without simulated labels, with as many times more simulations as
    there are parts, and all of more than 100,000 samples adjust p-values by Holm's method instead. Columns of
    a multilabel target are simulated independently: if labels depend on each other, the smallest p-value of
    two-sided statistics is conservative (Šidák). The ``scales`` of the result are the parts, the one with the
    smallest adjusted p-value first.

    To write your own test, derive from this class and define ``_test_sample``, which receives validated
    arrays of a binary problem, and ``_test_classes`` if it is not applied to each class.

    Attributes
    ----------
    result_ : CalibrationTestResult
        The result on the data given to ``fit``.
    statistic_ : float
        Its statistic.
    pvalue_ : float
        Its p-value. In a pipeline that is fitted to one data set, it is that of the samples to which the
        previous steps were fitted: a calibrator agrees with these better than with new data, an isotonic
        one perfectly. It is not evidence of calibration; use ``score`` on other data.
    classes_ : ndarray of shape (n_classes,)
        The sorted labels of the columns; in a binary problem the last one is the positive class.
    n_features_in_ : int
        Number of columns of ``X`` (1 for shape (n,)).

    Examples
    --------
    >>> from sklearn_calib.inference import CalibrationTest, TCal
    >>> issubclass(TCal, CalibrationTest)
    True
    """

    result_: CalibrationTestResult
    statistic_: float
    pvalue_: float
    classes_: NDArray[Any]
    n_features_in_: int
    _multilabel: bool = False

    # whether ``_test_sample`` heeds the clusters of its sample, and sampling weights
    _knows_clusters = False
    _knows_sampling = False
    _reductions: tuple[str, ...] = REDUCTIONS

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        shared_docs(cls)

    @property
    def _simulates_labels(self) -> bool:
        """Whether ``null_distribution`` is that of outcomes simulated by ``draw_positives``."""
        return False

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise ValueError or TypeError if a parameter is wrong."""

    @abstractmethod
    def _test_sample(self, sample: _validation.BinarySample) -> CalibrationTestResult:
        """Return the result for checked data.

        Weights, if any, are positive whole numbers, or sampling weights if the class declares that it
        ``_knows_sampling``.
        """

    def _test_classes(self, sample: _validation.ClassSample) -> CalibrationTestResult:
        """Return the result for checked data of three or more classes, or of multilabel targets."""
        return test_parts(self, sample)

    def test(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        weights: Weights = "sampling",
        clusters: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
    ) -> CalibrationTestResult:
        """Test whether the predictions are perfectly calibrated; nothing is stored.

        Parameters
        ----------
        y_true : array-like of shape (n,) or (n, K)
            Outcomes; of multilabel targets, K >= 2 columns of zeros and ones.
        y_proba : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
            Predicted probability of the positive class; of two columns the last. Three or more columns are
            the probabilities of K classes in sorted order; each row is divided by its sum, which may differ
            from 1 by rounding. Of multilabel targets, the probability of each label. Values up to 1e-6
            outside [0, 1] are clipped.
        %(inference_weight)s
        clusters : array-like of shape (n,) or None, default=None
            Label of the cluster (patient, customer, session, day) of each sample. Samples of different
            clusters are independent, those of a cluster need not be; None means that all are independent.
            At least 4 clusters, or samples that are all clusters of their own. A sample with a frequency of k
            stands for k samples of one cluster.
        pos_label : label or None, default=None
            The positive class; None means 1 for labels in {0, 1} or {-1, 1}, else the greater label.
        labels : array-like of shape (K,) or None, default=None
            With three or more columns, their labels; required if ``y_true`` lacks a class, does not contain
            integers from 0 to K - 1, and columns of a data frame are not named by the labels. Of two classes,
            the negative and the positive one.

        Returns
        -------
        CalibrationTestResult
            The result.

        Raises
        ------
        %(invalid)s
        """
        self._check_parameters()
        if clusters is not None and not self._knows_clusters:
            raise ValueError(
                f"{type(self).__name__} assumes independent samples and cannot be given clusters. Use "
                "TCal, CutoffTest, CoxTest or CombinedTest."
            )
        _validation.check_option(getattr(self, "reduction", "joint"), "reduction", self._reductions)
        sample = check_problem(y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights)
        if isinstance(sample, list):
            sample = _side_by_side(sample, y_true)
        if sample.sampling and not self._knows_sampling:
            self._refuse_sampling()
        result = _weighted(self._run(as_sampled(sample)), sample)
        if sample_weight is not None and result.n_contradicted:
            # samples of weight 0 were dropped
            kept = np.flatnonzero(_validation.as_array(sample_weight, "sample_weight") > 0)
            result = replace(result, contradicted=kept[result.contradicted])
        if clusters is not None and result.n_clusters is None:
            # all clusters are single samples, which were tested as independent ones
            result = replace(result, **single_clusters(result.n_samples))
        return result

    def _refuse_sampling(self) -> None:
        raise ValueError(
            f"{type(self).__name__} counts samples and cannot be given sampling weights. If a sample_weight "
            "of k stands for k samples, pass weights='frequency'; else use TCal, CutoffTest, CoxTest or "
            "CombinedTest."
        )

    def _run(self, sample: _validation.BinarySample | _validation.ClassSample) -> CalibrationTestResult:
        """Return the result for a checked sample, whose weights do not depend on the class alone."""
        if sample.p.min() >= _SMALLEST and sample.p.max() < 1.0:
            return self._test_checked(sample)
        tiny = (sample.p > 0.0) & (sample.p < _SMALLEST)
        if tiny.any():
            sample = replace(sample, p=np.where(tiny, _SMALLEST, sample.p))
        if isinstance(sample, _validation.ClassSample) and sample.y.ndim == 1:
            extreme = sample.p.min(axis=1) == 0.0
            if getattr(self, "reduction", "") in ("confidence", "top-label"):
                # whether the predicted class is right; a confidence is never 0
                extreme = sample.p.max(axis=1) == 1.0
            contradicted = extreme & (sample.p[np.arange(sample.y.shape[0]), sample.y] == 0.0)
        else:
            extreme = (sample.p == 0.0) | (sample.p == 1.0)
            contradicted = sample.p == 1 - sample.y
            if sample.y.ndim == 2:
                extreme, contradicted = extreme.any(axis=1), contradicted.any(axis=1)
        result = self._test_checked(sample)
        if not contradicted.any():
            return result
        others = None
        # BinomialTest refuses others that are all distinct
        with suppress(ValueError):
            others = None if contradicted.all() else self._test_checked(sample.take(~contradicted))
        times = np.ones_like(sample.weights) if sample.sampling else sample.weights
        n_contradicted, n_extreme = (int(times[rows].sum()) for rows in (contradicted, extreme))
        return replace(
            result,
            pvalue=0.0,
            reason=contradiction_words(n_contradicted, n_extreme),
            contradicted=np.flatnonzero(contradicted),
            n_contradicted=n_contradicted,
            n_extreme=n_extreme,
            others=others,
        )

    def _test_checked(
        self, sample: _validation.BinarySample | _validation.ClassSample
    ) -> CalibrationTestResult:
        reduction = getattr(self, "reduction", "")
        if isinstance(sample, _validation.BinarySample) and reduction in ("confidence", "top-label"):
            sample = _validation.ClassSample(
                sample.y,
                two_columns(sample.p),
                sample.w,
                clusters=sample.clusters,
                sampling=sample.sampling,
                classes=np.arange(2),
            )
        return (
            self._test_classes(sample)
            if isinstance(sample, _validation.ClassSample)
            else self._test_sample(sample)
        )

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        weights: Weights = "sampling",
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Run the test and store its result.

        Parameters
        ----------
        %(tested_rows)s

        Returns
        -------
        self
            The test, with its result.
        """
        require_outcomes(y)
        shape = _validation.shape_of(X, "X")
        # an estimator stores its classes: one column is that of the last class, also for text labels
        pos_label = _validation.greater_text(y, "y") if shape[1:] in ((), (1,)) else None
        result = self.test(
            y, X, sample_weight=sample_weight, weights=weights, clusters=clusters, pos_label=pos_label
        )
        self.n_features_in_ = 1 if len(shape) == 1 else shape[1]
        labels = _validation.as_array(y, "y")
        self._multilabel = labels.ndim == 2 and labels.shape[1] > 1
        if self._multilabel or self.n_features_in_ > 2:
            self.classes_ = np.unique(labels)
            if not self._multilabel and self.classes_.shape[0] < self.n_features_in_:
                # labels may lack some of those that columns have as names, or of the integers from 0
                named = _validation.named_classes(X, labels)
                self.classes_ = np.arange(self.n_features_in_) if named is None else named
        else:
            self.classes_ = _validation.check_two_labels(labels)
        self.result_, self.statistic_, self.pvalue_ = result, result.statistic, result.pvalue
        return self

    def transform(self, X: ArrayLike) -> ArrayLike:
        """Return the scores unchanged, after checking that they are probabilities.

        Parameters
        ----------
        %(probabilities_of_transform)s

        Returns
        -------
        array-like
            ``X`` itself.
        """
        self._checked(X)
        return X

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probabilities of all classes.

        Parameters
        ----------
        %(probabilities_of_transform)s

        Returns
        -------
        ndarray of shape (n, n_classes)
            The same, with one column for each class, or each label of multilabel targets.
        """
        proba = self._checked(X)
        return np.column_stack([1.0 - proba, proba]) if proba.ndim == 1 else proba

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable label; in binary problems ``classes_[1]`` if its probability exceeds 1/2.

        Parameters
        ----------
        %(probabilities_of_transform)s

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Labels among ``classes_``; of multilabel targets 1 where the probability exceeds 1/2, else 0.
        """
        proba = self.predict_proba(X)
        if self._multilabel:
            return (proba > 0.5).astype(np.int64)
        labels: NDArray[Any] = self.classes_[proba.argmax(axis=1)]
        return labels

    def _checked(self, X: ArrayLike) -> Array:
        """Return probabilities: of the positive class, shape (n,), or of all classes or labels, (n, K)."""
        check_is_fitted(self)
        if self._multilabel:
            columns = _validation.as_array(X, "X").T
            return np.column_stack(
                [_validation.check_scores(column, "X", kind="probability") for column in columns]
            )
        proba = _validation.check_scores(X, "X", kind="probability")
        if (2 if proba.ndim == 1 else proba.shape[1]) != self.classes_.shape[0]:
            raise ValueError(
                f"X has shape {_validation.shape_of(X, 'X')}, but fit had {self.classes_.shape[0]} classes. "
                "Pass one column per class; in binary problems that of the positive class is enough."
            )
        return proba

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        weights: Weights = "sampling",
        clusters: ArrayLike | None = None,
    ) -> float:
        """Return the p-value on other data; the object need not be fitted.

        Parameters
        ----------
        %(tested_rows)s

        Returns
        -------
        float
            The p-value. It measures how well the data agree with perfect calibration, not how good the
            predictions are: it is large for uninformative predictions and for small samples.
        """
        require_outcomes(y)
        classes = getattr(self, "classes_", None)
        pos_label = labels = None
        if classes is not None and classes.shape[0] > 2 and self.n_features_in_ == classes.shape[0]:
            labels = classes
        elif classes is not None and not self._multilabel and classes.shape[0] == 2:
            found = _validation.as_array(y, "y")
            _validation.refuse_missing(found, "y")
            unknown = found[~np.isin(found, classes)]
            if unknown.size:
                label = unknown.tolist()[0]
                raise ValueError(
                    f"y contains the label {label!r}, which was not seen during fit: {classes.tolist()}."
                )
            # in a subset that lacks one class the other keeps its meaning
            pos_label = classes[1]
        return self.test(
            y,
            X,
            sample_weight=sample_weight,
            weights=weights,
            clusters=clusters,
            pos_label=pos_label,
            labels=labels,
        ).pvalue

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.one_d_array = True
        return tags


def _side_by_side(columns: list[_validation.BinarySample], y_true: ArrayLike) -> _validation.ClassSample:
    """Return a multilabel sample, whose ``y`` has a column for each label."""
    names = _validation.column_names(y_true)
    first = columns[0]
    return _validation.ClassSample(
        np.column_stack([column.y for column in columns]),
        np.column_stack([column.p for column in columns]),
        first.w,
        clusters=first.clusters,
        sampling=first.sampling,
        classes=np.asarray(names) if names else np.arange(len(columns)),
    )


def result_of(grouped: GroupedOutcomes, **found: Any) -> CalibrationTestResult:
    """Return what was found for grouped outcomes, by default of a test of perfect calibration."""
    found = {"null_hypothesis": "P(Y = 1 | p) = p", **found, **dependence_of(grouped.clusters, grouped.prob)}
    return CalibrationTestResult(n_samples=round(grouped.samples.total), **found)


def _weighted(
    result: CalibrationTestResult, sample: _validation.BinarySample | _validation.ClassSample
) -> CalibrationTestResult:
    """Return a result with what it tells of weights; its other samples have their own effective number."""
    if sample.w is None:
        return result
    others = result.others
    if others is not None:
        kept = np.ones(sample.y.shape[0], dtype=bool)
        kept[result.contradicted] = False
        others = _weighted(others, sample.take(kept))
    found = weighting(sample, result.design_effect)
    if sample.class_weights is not None:
        # the samples are tested with the weights within the classes
        del found["n_effective"]
        found |= weighting(as_sampled(sample), result.design_effect) | {"weights": "case-control"}
    return replace(result, others=others, **found)


def require_outcomes(y: Any) -> None:
    if y is None:
        # the wording that scikit-learn's checks require
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None. Pass the outcomes."
        )
