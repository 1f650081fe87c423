"""SelectiveClassifier: abstention with a guarantee on the risk of the accepted samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, expit, logit
from scipy.stats import binom, nbinom
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import _validation
from sklearn_calib._atomic import AtomicFit
from sklearn_calib._compat import safe_indexing, slice_metadata
from sklearn_calib._docs import shared_docs
from sklearn_calib._persistence import VersionStamped
from sklearn_calib._typing import Array, Codes, CountingWeights
from sklearn_calib.meta import _responses
from sklearn_calib.meta._pairs import CalibratedPair
from sklearn_calib.meta._routing import refuse_ignored, route

_RISKS = ("error", "false_discovery")
# The level is spent at this many numbers of correct samples; more of them change little.
_POINTS = 100
# Probabilities below this are negligible.
_TINY = 1e-16
# Greater risks are tested as this one: the number of errors for one correct sample would be unbounded.
_GREATEST = 1.0 - 1e-3


def loss_limits(n: int, risk: float, alpha: float) -> tuple[Codes, Codes]:
    """Return numbers of correct samples and their greatest numbers of errors at which a threshold passes.

    Errors are a random walk if they have the probability ``risk`` at all confidences. With probability 1 -
    ``alpha`` it exceeds all limits: by the time of ``correct[i]`` correct samples it has used at most a
    fraction of ``alpha`` that is proportional to ``log(correct[i])``.
    """
    # so many samples without errors have a probability of at most alpha
    with np.errstate(over="ignore"):
        first = max(1.0, np.ceil(np.log(alpha) / np.log1p(-risk)))
    if first > n:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    last = max(first, n - int(binom.ppf(alpha, n, risk)))
    correct = np.unique(np.rint(np.geomspace(first, last, _POINTS)).astype(np.int64))
    allowed = alpha * np.log((correct + 1.0) / first) / np.log((last + 1.0) / first)
    limits = np.empty_like(correct)
    steps = np.diff(correct, prepend=0)
    # errors before the next correct samples: negative binomial, from the first to the second number
    ends = nbinom.ppf([[_TINY], [1.0 - _TINY]], steps, 1.0 - risk).astype(np.int64)
    between = {
        step: nbinom.pmf(np.arange(least, most + 1), step, 1.0 - risk)
        for step, least, most in set(zip(steps.tolist(), *ends.tolist(), strict=True))
    }
    # probabilities of low, low + 1, ... errors, of walks that are above the limits so far
    above, low, used = np.ones(1), 0, 0.0
    for i, step in enumerate(steps.tolist()):
        above = np.convolve(above, between[step])
        below = np.cumsum(above)
        passed = int(np.searchsorted(below, allowed[i] - used, side="right"))
        used += below[passed - 1] if passed else 0.0
        low += int(ends[0, i]) + passed
        limits[i] = low - 1
        above = above[passed:]
        above = above[: np.count_nonzero(np.cumsum(above[::-1])[::-1] > _TINY)]
    return correct, limits


def lowest_threshold(count: Array, errors: Array, risk: float, alpha: float) -> tuple[int, float] | None:
    """Return the last threshold that passes, and the bound of its risk; None if none passes.

    ``count`` and ``errors`` are the numbers of accepted samples and of errors among them.
    """
    risk = min(risk, _GREATEST)
    correct, limits = loss_limits(int(count[-1]), risk, alpha)
    place = np.searchsorted(correct, count - errors, side="right") - 1
    passed = np.flatnonzero((place >= 0) & (errors <= np.append(limits, -1)[place]))
    if not passed.shape[0]:
        return None
    k = int(passed[-1])
    c, limit = correct[place[k]], limits[place[k]]
    # the risk with P(at most these errors before c correct samples) = level of the test
    return k, float(1.0 - betaincinv(c, errors[k] + 1.0, nbinom.cdf(limit, c, 1.0 - risk)))


def least_target(count: Array, errors: Array, risk: float, alpha: float) -> tuple[int, float] | None:
    """Return the best threshold, and the least risk with which it passes; None if none does."""
    low, high, found = logit(risk), logit(_GREATEST), None
    for _ in range(12):
        middle = (low + high) / 2.0
        passing = lowest_threshold(count, errors, float(expit(middle)), alpha)
        if passing is None:
            low = middle
        else:
            high, found = middle, (passing[0], float(expit(middle)))
    return found


def accepted_sums(confidence: Array, values: Array, thresholds: Array) -> Array:
    """Return sums of the rows of ``values`` over the samples that each threshold accepts."""
    order = np.argsort(-confidence, kind="stable")
    last = np.searchsorted(-confidence[order], -thresholds, side="right")
    sums: Array = np.cumsum(np.insert(values[:, order], 0, 0, axis=1), axis=1, dtype=np.float64)[:, last]
    return sums


@shared_docs
class SelectiveClassifier(AtomicFit, VersionStamped, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier that abstains; without ``abstain_label`` its ``predict`` returns a class nonetheless.

    A sample is accepted if the confidence reaches a threshold. The threshold is chosen on held-out samples
    such that the risk among accepted samples of the same distribution is at most ``target``, with probability
    ``confidence`` over the held-out samples. :meth:`accepts` returns which samples are accepted. With
    ``abstain_label``, ``score`` counts abstentions as errors.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba``. The guarantee does not depend on its calibration, but calibration
        can improve the order of the confidences and thus the coverage. A fitted classifier in a
        :class:`~sklearn.frozen.FrozenEstimator` is not refitted, and the threshold is chosen on all samples
        passed to ``fit``, on which it must not have been trained or calibrated.
    target : float, default=0.05
        Upper bound of the risk among accepted samples.
    risk : {"error", "false_discovery"} or array-like of shape (n_classes, n_classes), default="error"
        The risk that is bounded. "error": the error rate of the most probable class, whose probability is the
        confidence. "false_discovery": 1 - precision of the class ``pos_label``, whose probability is the
        confidence. A matrix of non-negative costs: the mean cost, with ``risk[i, j]`` the cost of the
        decision ``classes_[j]`` if ``classes_[i]`` is true. The decision minimizes the expected cost, and the
        confidence is 1 - expected cost / highest cost.
    pos_label : label, default=None
        The class of ``risk="false_discovery"``; ``classes_[1]`` by default for two classes.
    confidence : float, default=0.95
        Probability of the guarantee.
    abstain_label : label, default=None
        Value that :meth:`predict` returns for samples that are not accepted, for example -1. None: the
        predicted class; use :meth:`accepts` to find the accepted samples.
    validation_fraction : float, default=0.25
        Fraction of the samples that is held out from ``estimator`` to choose the threshold. Not used for a
        frozen estimator.
    random_state : int, Generator, RandomState or None, default=0
        Source of the random split of the samples, and of the random rounding of costs (see the Notes).
    %(counted_weight)s

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels.
    threshold_ : float
        Samples with at least this confidence are accepted; infinity if no threshold meets the target.
    coverage_ : float
        Fraction of the held-out samples that is accepted.
    risk_ : float
        Risk among these; NaN if none is accepted.
    risk_bound_ : float
        Upper bound of the risk at ``threshold_``, at most ``target``: the bound of Clopper and Pearson at the
        level of the test at this threshold. NaN if none is accepted.
    %(features_in)s

    See Also
    --------
    CalibratedClassifier : Calibrates the probabilities; can be the ``estimator``.
    sklearn_calib.plot.RiskCoverageDisplay : Risk as a function of the accepted fraction.

    Notes
    -----
    *Guarantee.* P(risk of the accepted samples <= ``target``) >= ``confidence``, for every classifier and
    every distribution, if the held-out samples are independent with the same distribution as new samples, and
    the estimator was not trained on them.

    *Method.* All thresholds are tested, and the lowest one that passes is chosen. A threshold passes if the
    accepted samples contain so few errors that, if errors had the probability ``target`` at every confidence,
    any threshold would pass with a probability of at most 1 - ``confidence``. This case is the worst one: if
    the risk exceeds ``target`` at some thresholds, the probability that one of them passes is not greater.
    The probability is computed exactly, for the random walk of errors and correct samples. It is an
    alternative to testing thresholds in a sequence, as learn then test [1]_ does, or for fixed thresholds
    [2]_. Costs other than 0 and the highest one are first rounded to one of them at random, with the same
    expected value, which leaves the guarantee valid. If no threshold passes, ``fit`` warns, ``threshold_`` is
    infinite, and no sample is ever accepted.

    *Weights* are numbers of samples, and also passed to ``fit`` of the estimator.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, E. J. Candes, M. I. Jordan and L. Lei (2021). Learn then test:
       calibrating predictive algorithms to achieve risk control. arXiv:2110.01052
    .. [2] Y. Geifman and R. El-Yaniv (2017). Selective classification for deep neural networks. NeurIPS.
       arXiv:1705.08500

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_calib import SelectiveClassifier
    >>> X, y = make_classification(n_samples=4000, flip_y=0.2, random_state=0)
    >>> model = SelectiveClassifier(LogisticRegression(), target=0.16, abstain_label=-1, random_state=0)
    >>> model.fit(X[:3000], y[:3000]).risk_bound_ <= 0.16
    True
    >>> accepted = model.accepts(X[3000:])
    >>> bool((model.predict(X[3000:])[~accepted] == -1).all())
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        target: float = 0.05,
        risk: Any = "error",
        pos_label: Any = None,
        confidence: float = 0.95,
        abstain_label: Any = None,
        validation_fraction: float = 0.25,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        weights: CountingWeights = None,
    ) -> None:
        self.estimator = estimator
        self.target = target
        self.risk = risk
        self.pos_label = pos_label
        self.confidence = confidence
        self.abstain_label = abstain_label
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.weights = weights

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Fit the classifier unless it is frozen, and choose the threshold on held-out samples.

        Parameters
        ----------
        %(labeled)s
        sample_weight : array-like of shape (n,), default=None
            How often each sample was observed, if ``weights="frequency"``.
        **params : dict
            Further metadata for ``fit`` of the estimator.

        Returns
        -------
        SelectiveClassifier
            The fitted classifier itself.

        Raises
        ------
        TypeError
            If ``estimator`` is not a classifier with ``predict_proba``.
        ValueError
            If a parameter is invalid, weights are not numbers of samples, or a class is absent from the
            samples that remain to fit the estimator.
        """
        _responses.check_classifier(self.estimator)
        if not hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                f"estimator must have predict_proba, which {type(self.estimator).__name__} lacks. Wrap it in "
                "CalibratedClassifier."
            )
        for name in params.keys() & {"groups", "clusters"}:
            raise ValueError(
                f"{name} cannot be used: samples must be independent, and are split at random. Pass one "
                f"sample of each {name[:-1]}."
            )
        alpha = 1.0 - _validation.check_fraction(self.confidence, "confidence")
        validation = _validation.check_fraction(self.validation_fraction, "validation_fraction")
        generator = _validation.check_generator(self.random_state)
        X, target = _responses.check_data(self, self.estimator, X, y)
        n = target.codes.shape[0]
        counts = _validation.check_counts(
            np.ones(n) if sample_weight is None else _validation.check_weights(sample_weight, n), self.weights
        )
        frozen = isinstance(self.estimator, FrozenEstimator)
        if frozen:
            refuse_ignored(params)
        self.classes_ = target.classes
        highest, limit = self._set_decisions()
        train, held_out = generator.multinomial(
            counts, [0.0, 1.0] if frozen else [1 - validation, validation]
        ).T
        self.estimator_ = self.estimator if frozen else self._fitted(X, target, train, sample_weight, params)
        _responses.record_features(self, self.estimator_)
        rows = np.flatnonzero(held_out)
        confidence, loss = np.empty(0), np.empty(0)
        if rows.shape[0]:
            proba = self.predict_proba(safe_indexing(X, rows))
            shown = f"predict_proba of {type(self.estimator_).__name__}"
            _validation.check_scores(proba, shown, kind="probability")
            codes, confidence = self._decide(proba)
            if self._gains is None or self._decisions.shape[0] == 1:
                loss = (target.codes[rows] != codes).astype(np.float64)
            else:
                loss = 1.0 - self._gains[target.codes[rows], codes]
        counts = held_out[rows]
        # costs are rounded to 0 or 1 with the same expected value; then errors are counted
        sums = np.stack([counts, generator.binomial(counts, loss), counts * loss])
        # the threshold 0 accepts all samples
        thresholds = np.append(np.unique(confidence)[::-1], 0.0)
        sums = accepted_sums(confidence, sums, thresholds)
        chosen = lowest_threshold(sums[0], sums[1], limit / highest, alpha)
        if chosen is None:
            self.threshold_, self.coverage_, self.risk_, self.risk_bound_ = np.inf, 0.0, np.nan, np.nan
            least = least_target(sums[0], sums[1], limit / highest, alpha)
            advice = f"The {counts.sum()} held-out samples are too few for any bound"
            if least is not None:
                k, bound = least
                risk = highest * sums[2, k] / sums[0, k]
                advice = (
                    f"The best threshold, {thresholds[k]:.4g}, accepts {sums[0, k]:.0f} of the "
                    f"{counts.sum()} held-out samples; their risk is {risk:.3g}, and its upper bound "
                    f"{highest * bound:.3g}"
                )
            _validation.warn_user(
                f"No threshold has a risk of at most {limit:g} with confidence {self.confidence:g}, so the "
                f"classifier always abstains. {advice}. Use more samples, a higher target or a better "
                "classifier.",
            )
        else:
            k, bound = chosen
            self.threshold_, self.coverage_ = float(thresholds[k]), float(sums[0, k] / counts.sum())
            self.risk_, self.risk_bound_ = (
                float(highest * sums[2, k] / sums[0, k]),
                min(highest * bound, limit),
            )
        return self

    def _fitted(
        self, X: Any, target: _responses.Target, train: Codes, sample_weight: Any, params: dict[str, Any]
    ) -> Any:
        """Return the estimator, fitted to its part of the samples."""
        routed = route(self, "fit", self.estimator, None, train.shape[0], sample_weight, params)
        rows = np.flatnonzero(train)
        absent = np.bincount(target.codes[rows], minlength=target.classes.shape[0]) == 0
        if absent.any():
            raise ValueError(
                f"The class {target.label(int(absent.argmax()))!r} is absent from the samples that remain to "
                f"fit the estimator. Use more samples of it, a smaller validation_fraction than "
                f"{self.validation_fraction:g}, or FrozenEstimator(fitted_classifier)."
            )
        metadata = routed.estimator
        if "sample_weight" in metadata:
            metadata = metadata | {"sample_weight": train}
        metadata = slice_metadata(X, metadata, rows)
        return clone(self.estimator).fit(safe_indexing(X, rows), target.labels[rows], **metadata)

    def _set_decisions(self) -> tuple[float, float]:
        """Store the decisions and their gains, 1 - cost / highest cost; return highest cost and target."""
        classes = self.classes_.tolist()
        n_classes = len(classes)
        label = self.abstain_label
        if label is not None and (np.ndim(label) or np.any(self.classes_ == label)):
            raise ValueError(
                f"abstain_label must be a label other than the classes {classes}, got {label!r}."
            )
        self._gains: Array | None = None
        self._decisions = np.arange(n_classes)
        if isinstance(self.risk, str):
            if _validation.check_option(self.risk, "risk", _RISKS) == "false_discovery":
                label = classes[1] if self.pos_label is None and n_classes == 2 else self.pos_label
                self._decisions = np.flatnonzero(self.classes_ == label)
                if not self._decisions.shape[0]:
                    raise ValueError(
                        f"pos_label must be one of the classes {classes} for risk='false_discovery', got "
                        f"{label!r}."
                    )
                self._gains = np.eye(n_classes)[:, self._decisions]
            return 1.0, _validation.check_fraction(self.target, "target")
        costs = _validation.check_numbers(self.risk, "risk")
        if costs.shape != (n_classes, n_classes) or not np.isfinite(costs).all() or costs.min() < 0:
            raise ValueError(
                "risk must be 'error', 'false_discovery' or a matrix of finite, non-negative costs of shape "
                f"({n_classes}, {n_classes}), with a row for each true class, got {self.risk!r}."
            )
        highest, limit = float(costs.max()), _validation.check_positive(self.target, "target")
        if limit >= highest:
            raise ValueError(f"target must be less than the highest cost, {highest:g}, got {limit:g}.")
        self._gains = 1.0 - costs / highest
        return highest, limit

    def _decide(self, proba: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the decision for each sample, as an index of a column, and the confidence."""
        gain = proba if self._gains is None else proba @ self._gains
        return self._decisions[gain.argmax(axis=1)], gain.max(axis=1)

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classifier, for accepted and other samples.

        Parameters
        ----------
        %(features)s

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities; columns follow ``classes_``.
        """
        check_is_fitted(self)
        return CalibratedPair(self.estimator_, "passthrough", "predict_proba", self.classes_).predict_proba(X)

    def accepts(self, X: Any) -> NDArray[np.bool_]:
        """Return which samples are accepted.

        Parameters
        ----------
        %(features)s

        Returns
        -------
        ndarray of bool of shape (n,)
            True where the confidence is at least ``threshold_``.
        """
        return self._decide(self.predict_proba(X))[1] >= self.threshold_

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the decisions.

        Parameters
        ----------
        %(features)s

        Returns
        -------
        ndarray of shape (n,)
            Class labels, and ``abstain_label`` for samples that are not accepted. If that is None, these have
            a class as well: with ``risk="false_discovery"`` the most probable one of the other classes, so
            that the precision of ``pos_label`` is guaranteed.
        """
        proba = self.predict_proba(X)
        codes, confidence = self._decide(proba)
        accepted = confidence >= self.threshold_
        if self.abstain_label is not None:
            labels, label = self.classes_[codes], np.asarray(self.abstain_label)
            kinds = {labels.dtype.kind, label.dtype.kind}
            same = len(kinds) == 1 or kinds <= set("iuf")
            decided: NDArray[Any] = labels.astype(np.result_type(labels, label) if same else object)
            decided[~accepted] = self.abstain_label
            return decided
        if self._decisions.shape[0] == 1:
            others = proba.copy()
            others[:, self._decisions] = -1.0
            codes = np.where(accepted, codes, others.argmax(axis=1))
        chosen: NDArray[Any] = self.classes_[codes]
        return chosen

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what is requested: ``sample_weight`` of ``fit``, and what the estimator requests."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(
            estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )

    def __sklearn_tags__(self) -> Any:
        return _responses.with_tags_of(self.estimator, super().__sklearn_tags__())
