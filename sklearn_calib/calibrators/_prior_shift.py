"""Correction of probabilities for class frequencies that have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from sklearn.utils import Tags

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_scores
from sklearn_calib._core._maps import TINY, Beta, Node, Softmax
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import BaseCalibrator, both_classes
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify

# Newton's method: largest number of steps, relative curvature without information, decrease that is rounding.
_MAX_STEPS, _RIDGE, _NOISE = 100, 1e-10, 1e-14
# Frequencies that are 0 up to rounding.
_ABSENT = 1e-9
# A frequency drawn uniformly from 0 to 1 has a standard deviation of .29.
_USELESS = 0.3
# The inverse of a confusion matrix with this condition number multiplies errors by as much.
_SINGULAR = 10.0


class PriorShiftCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Correction of probabilities for changed class frequencies (label shift) by Bayes' formula.

    A model that was trained on resampled classes, or on a population with other class frequencies, predicts
    probabilities for the wrong frequencies. If the distribution of the scores within each class is unchanged,
    the probability of each class must be multiplied by the ratio of its frequencies, and the products divided
    by their sum. Other miscalibration is not corrected.

    Frequencies are one number for binary problems, that of ``classes_[1]``; or one positive number for each
    class, in the order of ``classes_`` or as a dict by label, which are divided by their sum.

    Parameters
    ----------
    training_prior : float, array-like of shape (n_classes,), dict or None, default=None
        Frequencies of the classes in the data on which the model was trained, before ``training_weight``.
        Either this or ``training_weight`` is required.
    target_prior : "em", "black_box", float, array-like of shape (n_classes,), dict or None, default=None
        Frequencies in the population where the model is used. None: those among the samples of ``fit``, which
        then needs labels; with ``training_weight`` alone, those of the training data without the weights.
        "em": the maximum likelihood estimate from the scores of the samples of ``fit``. "black_box": the
        estimate from ``confusion`` and the predicted classes of these samples.
    training_weight : "balanced", dict, array-like of shape (n_classes,) or None, default=None
        Positive factors by which the frequencies of the classes were multiplied in training: the
        ``class_weight`` of the classifier, or the fractions of the classes that were kept, ``{0: 0.1}`` if
        that of class 0 is one in ten. Classes that a dict does not name have the factor 1. "balanced": the
        weighted frequencies of all classes were equal; then ``training_prior`` must be None. A sampler that
        balances only in part needs the fractions that were kept: "balanced" is wrong after it.
    confusion : array-like of shape (n_classes, n_classes) or None, default=None
        For "black_box": the number of labeled samples that the model was not trained on, by true class
        (rows) and most probable class (columns), as from :func:`sklearn.metrics.confusion_matrix`.

    Attributes
    ----------
    target_prior_ : float or ndarray of shape (n_classes,)
        The class frequencies of the corrected probabilities, for two classes that of ``classes_[1]``; NaN
        with ``training_weight`` alone, which needs none.
    standard_error_ : float or ndarray of shape (n_classes,)
        Standard errors of ``target_prior_`` if it is estimated, else NaN; infinite if the scores are not
        informative.
    odds_factor_ : float or ndarray of shape (n_classes,)
        Factor by which the odds of each class against ``classes_[0]`` are multiplied, for two classes that of
        ``classes_[1]``.
    %(trained_fit)s

    The three attributes of the training samples exist for two classes and with labels in ``fit``.

    See Also
    --------
    VectorScalingCalibrator : Estimates factors and intercepts of the log-probabilities from the outcomes.

    Notes
    -----
    With training frequencies :math:`\pi`, proportional to ``training_weight`` times ``training_prior``, and
    target frequencies :math:`\pi'` (eq. 2.4 of [2]_, for binary problems Theorem 2 of [1]_), the map is

    .. math:: h_k(p) = \frac{p_k \pi'_k / \pi_k}{\sum_j p_j \pi'_j / \pi_j}.

    With ``training_weight`` :math:`c` alone :math:`\pi'_k / \pi_k` is replaced by :math:`1 / c_k`. For two
    classes the log-odds are shifted by a constant; probabilities of 0 and 1 change by at most 2**-53.

    "em" maximizes the likelihood :math:`\prod_i \sum_k \pi'_k p_{ik}/\pi_k` of the scores, whose maximum is
    the fixed point of the EM iteration of [2]_: the mean of :math:`h(p_i)` is :math:`\pi'`. Its logarithm is
    concave [3]_ and maximized by Newton's method under :math:`\pi' \ge 0`. The standard errors are those of
    the observed Fisher information; for a class whose estimate is 0, the logarithm of the likelihood is 2
    lower at two standard errors. The scores must be calibrated for :math:`\pi`: calibrate them first, on
    labeled samples with these frequencies, by a method with an intercept for each class [3]_. Bias-corrected
    temperature scaling, which [3]_ recommend, is Platt scaling for two classes, and a special case of
    ``VectorScalingCalibrator(penalty=0)``. The standard errors do not include the error of that fit.

    "black_box" solves :math:`\mu_k = \sum_j C_{jk} \pi'_j` [4]_, where :math:`\mu_k` is the frequency of
    predicted class k and :math:`C_{jk}` that among labeled samples of class j; scores need not be
    calibrated. The standard errors are those of the delta method, for independent samples in both sets.

    Estimates below :math:`1/(n + K)` are raised to it, and all then divided by their sum. Weights are
    counts. O(n K^2) for each of about ten Newton steps, otherwise O(n K); O(n log n) for the certificate.

    References
    ----------
    .. [1] Elkan (2001). The foundations of cost-sensitive learning. IJCAI.
    .. [2] Saerens, Latinne, Decaestecker (2002). Adjusting the outputs of a classifier to new a priori
       probabilities: a simple procedure. Neural Computation 14(1).
    .. [3] Alexandari, Kundaje, Shrikumar (2020). Maximum likelihood with bias-corrected calibration is
       hard-to-beat at label shift adaptation. ICML. arXiv:1901.06852.
    .. [4] Lipton, Wang, Smola (2018). Detecting and correcting for label shift with black box predictors.
       ICML. arXiv:1802.03916.

    Examples
    --------
    A model trained on balanced classes, used in a population with 10% events:

    >>> from sklearn_calib.calibrators import PriorShiftCalibrator
    >>> calibrator = PriorShiftCalibrator(training_weight="balanced", target_prior=0.1)
    >>> calibrator.fit([0.2, 0.9]).transform([0.5, 0.9]).round(3)
    array([0.1, 0.5])

    Class frequencies of unlabeled samples, estimated from their scores:

    >>> scores = [[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.6, 0.1, 0.3], [0.2, 0.1, 0.7]]
    >>> shift = PriorShiftCalibrator(training_prior=[0.4, 0.3, 0.3], target_prior="em").fit(scores)
    >>> shift.target_prior_.round(2), shift.standard_error_.round(2)
    (array([0.66, 0.2 , 0.14]), array([0.39, 0.28, 0.34]))
    """

    target_prior_: float | Array
    standard_error_: float | Array
    odds_factor_: float | Array

    def __init__(
        self,
        *,
        training_prior: ArrayLike | Mapping[Any, float] | None = None,
        target_prior: str | ArrayLike | Mapping[Any, float] | None = None,
        training_weight: str | ArrayLike | Mapping[Any, float] | None = None,
        confusion: ArrayLike | None = None,
    ) -> None:
        self.training_prior = training_prior
        self.target_prior = target_prior
        self.training_weight = training_weight
        self.confusion = confusion

    def _check_parameters(self) -> None:
        if isinstance(self.training_weight, str):
            _validation.check_option(
                self.training_weight, "training_weight", ("balanced",), "weights of the classes"
            )
        if isinstance(self.target_prior, str):
            _validation.check_option(self.target_prior, "target_prior", ("em", "black_box"), "frequencies")
        if self._balanced() and self.training_prior is not None:
            raise ValueError(
                "training_prior has no meaning with training_weight='balanced', which makes all classes "
                f"equally frequent; got {self}. Pass one of them."
            )
        alone = self._balanced() or (self.training_weight is not None and self.target_prior is None)
        if self.training_prior is None and not alone:
            raise ValueError(
                "training_prior is required with target_prior or without training_weight: the fraction of "
                "positive samples (or the fraction of each class) in the training data of the classifier, "
                f"before class weights; got {self}. Pass for example training_prior=0.3."
            )
        if self._estimates("black_box") != (self.confusion is not None):
            raise ValueError("confusion and target_prior='black_box' need each other. Pass both or neither.")

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Compute the factors of the odds.

        Parameters
        ----------
        X, sample_weight, clusters
            As for :meth:`PlattCalibrator.fit`.
        y : array-like of shape (n,) or None, default=None
            Class labels: required with ``clusters``, and with ``target_prior=None`` unless only
            ``training_weight`` is passed. Otherwise only the certificate needs them.
        classes : array-like of shape (n_classes,) or None, default=None
            The class labels, in sorted order. None: those that occur in ``y``, and 0, 1, ... without ``y``.

        Returns
        -------
        self
            The fitted calibrator.

        Raises
        ------
        ValueError
            If frequencies do not match the classes, if ``confusion`` is singular, or as for
            :meth:`PlattCalibrator.fit`.
        """
        if y is None and self._needs_labels():
            self._check_parameters()
            # the beginning of the message is what scikit-learn's checks require
            raise ValueError(
                "This estimator requires y to be passed, but the target y is None: target_prior=None means "
                "the class frequencies of y. Pass y, or target_prior."
            )
        if y is not None or clusters is not None:
            return super().fit(X, y, sample_weight, classes=classes, clusters=clusters)
        self._check_parameters()
        scores = self._check_scores(X, reset=True)
        n_classes = 2 if scores.ndim == 1 else scores.shape[1]
        self.classes_ = (
            np.arange(n_classes) if classes is None else _validation.check_sorted(classes, "classes")
        )
        self._check_classes(self.classes_, scores)
        _validation.check_columns(X, None if classes is None else self.classes_, "X")
        self._fit_scores(scores, None, self._read_weight(sample_weight, scores.shape[0]))
        return self

    def __sklearn_tags__(self) -> Tags:
        """Declare whether ``fit`` needs labels."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels()
        return tags

    def _estimates(self, method: str) -> bool:
        return isinstance(self.target_prior, str) and self.target_prior == method

    def _balanced(self) -> bool:
        return isinstance(self.training_weight, str)

    def _needs_labels(self) -> bool:
        return self.target_prior is None and (self.training_prior is not None or self._balanced())

    def _needs_every_class(self) -> bool:
        return self._needs_labels()

    def _keep_absent(self, scores: Array, weight: Array | None, count: Codes) -> tuple[None, None]:
        # given frequencies hold for classes without a sample, too
        return None, None

    @property
    def _scale_free(self) -> bool:
        # the range of an estimate depends on the total weight
        return not isinstance(self.target_prior, str)

    def _fit_scores(self, scores: Array, codes: Codes | None, weight: Array | None) -> None:
        classes, n_classes = self.classes_, self.classes_.shape[0]
        w = np.ones(scores.shape[0]) if weight is None else weight
        source, target, error = np.ones(n_classes), np.full(n_classes, np.nan), np.full(n_classes, np.nan)
        if self.training_prior is not None:
            source = _by_class(self.training_prior, classes, "training_prior")
        if self.training_weight is not None and not self._balanced():
            source = source * _by_class(self.training_weight, classes, "training_weight", 1.0)
        source = source / source.sum()
        if self._estimates("em"):
            target, error = likeliest_prior(both_classes(scores)[w > 0.0], w[w > 0.0], source)
        elif self._estimates("black_box"):
            predicted = np.bincount(both_classes(scores).argmax(axis=1), w, n_classes)
            target, error = black_box_prior(self.confusion, predicted)
        elif self.target_prior is not None:
            target = _by_class(self.target_prior, classes, "target_prior")
            target = target / target.sum()
        elif codes is not None and self._needs_labels():
            target = np.bincount(codes, w, n_classes) / w.sum()
            error = np.sqrt(target * (1.0 - target) / w.sum())
        ratio = (1.0 if np.isnan(target[0]) else target) / source
        factor = ratio / ratio[0]
        if factor.min() == 0.0 or factor.max() == np.inf:
            raise ValueError(f"The frequencies of some classes are too close to 0 for a ratio; got {self}.")
        two = n_classes == 2
        self.target_prior_, self.standard_error_, self.odds_factor_ = (
            float(values[1]) if two else values for values in (target, error, factor)
        )
        if two and codes is not None:
            certify(self, group_scores(codes, scores, weight), weight)
            return
        for name in ("training_cutoff_error_", "training_event_rate_", "training_size_", "_fitted_outcomes"):
            self.__dict__.pop(name, None)

    def _export(self, build: Any) -> Node:
        # probabilities other than 0 and 1 are not clipped, because the formula does not clip
        shift = np.log(self.odds_factor_)
        if self.classes_.shape[0] == 2:
            return Beta(1.0, 1.0, float(shift), TINY)
        return Softmax(TINY, 0.0, 1.0, False, np.ones_like(shift), shift)

    def _map_scores(self, scores: Array) -> Array:
        scaled = self.odds_factor_ * scores
        if scores.ndim == 1:
            return np.asarray(scaled / (scaled + (1.0 - scores)))
        return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))


def _by_class(value: Any, classes: NDArray[Any], name: str, default: float | None = None) -> Array:
    """Return a positive number for each class; ``default`` is for labels that a dict does not contain."""
    labels = classes.tolist()
    if isinstance(value, Mapping):
        found = [value.get(label, default) for label in labels]
        if None in found or set(value) - set(labels):
            raise ValueError(f"{name} has labels {list(value)}, but the classes are {labels}. Pass classes=.")
    elif np.ndim(value) == 0 and default is None and len(labels) == 2:
        found = [1.0 - _validation.check_fraction(value, name), value]
    else:
        found = _validation.check_numbers(value, name).tolist()
        if np.shape(value) != classes.shape:
            raise ValueError(f"{name} must be a number for each of {len(labels)} classes, got {value!r}.")
    return np.array([_validation.check_positive(one, name) for one in found])


def likeliest_prior(proba: Array, weight: Array, source: Array) -> tuple[Array, Array]:
    """Return the likeliest frequencies, given probabilities for the frequencies ``source``; standard errors.

    With f(q) = sum_k q_k - mean_i log(sum_k q_k p_ik / source_k), which has the same minimizer under q >= 0
    alone, each step minimizes the quadratic approximation of f by non-negative least squares.
    """
    ratio, total, n_classes = proba / source, float(weight.sum()), source.shape[0]
    fraction, prior, slope = weight / total, _raised(source, total), -np.inf
    for _ in range(_MAX_STEPS):
        density = ratio @ prior
        scaled = ratio / density[:, np.newaxis]
        mean, curvature = fraction @ scaled, (scaled * fraction[:, np.newaxis]).T @ scaled
        if slope >= -_NOISE:
            break
        # a small multiple of the squared step, for scores that do not distinguish all classes
        ridge = _RIDGE * np.trace(curvature)
        root = np.linalg.cholesky(curvature + ridge * np.eye(n_classes))
        move = nnls(root.T, np.linalg.solve(root, 2.0 * mean - 1.0 + ridge * prior))[0] - prior
        slope = float((1.0 - mean) @ move)
        # f changes by the sum of the step minus the mean logarithm of the ratio of densities
        while (growth := 1.0 + scaled @ move).min() <= _RIDGE or (
            move.sum() - fraction @ np.log(growth) > 0.1 * slope + _NOISE
        ):
            move, slope = move / 2.0, slope / 2.0
        prior = prior + move
    present = np.flatnonzero(prior > _ABSENT)
    variance = np.zeros(n_classes)
    variance[present] = _variances(total * curvature[np.ix_(present, present)])
    absent = np.flatnonzero(prior <= _ABSENT)
    for k in absent:
        both = np.append(present, k)
        information = 1.0 / _variances(total * curvature[np.ix_(both, both)])[-1]
        # at two standard errors the logarithm of the likelihood is 2 lower
        fall = total * max(1.0 - mean[k], 0.0)
        variance[k] = 4.0 / max(fall + np.sqrt(fall**2 + 4.0 * information), TINY) ** 2
    variance[present] += variance[absent].sum()
    return _raised(prior, total), np.sqrt(variance)


def _variances(information: Array) -> Array:
    """Return the variances of frequencies that sum to 1, from the information on each; inf if it is none."""
    size = information.shape[0]
    # all classes but the first, which is 1 minus their sum
    basis = np.vstack([-np.ones(size - 1), np.eye(size - 1)])
    free = basis.T @ information @ basis
    if np.linalg.matrix_rank(free, _RIDGE * np.trace(information)) < size - 1:
        return np.full(size, np.inf)
    return np.asarray(np.diag(basis @ np.linalg.inv(free) @ basis.T))


def black_box_prior(confusion: Any, predicted: NDArray[Any]) -> tuple[Array, Array]:
    """Return the frequencies that explain the numbers of predicted classes, and their standard errors."""
    counts, total, shape = (
        _validation.check_numbers(confusion, "confusion"),
        predicted.sum(),
        predicted.shape * 2,
    )
    if counts.shape != shape or counts.min() < 0.0 or np.linalg.matrix_rank(counts) < shape[0]:
        raise ValueError(
            f"confusion must be a regular matrix of counts of shape {shape}, got {confusion!r}. If the "
            "predictions do not distinguish all classes, use target_prior='em'."
        )
    size = counts.sum(axis=1)
    rates, frequency = counts / size[:, np.newaxis], predicted / total
    inverse = np.linalg.inv(rates.T)
    prior = _raised(inverse @ frequency, total)
    # covariance of frequency - rates.T @ prior, a sum of independent means of indicators; a class that is
    # never predicted is not known to have frequency 0
    rows = np.vstack([_raised(frequency, total), rates])
    factor = np.append(1.0, prior**2) / np.append(total, size)
    noise = np.diag(factor @ rows) - (rows.T * factor) @ rows
    error = np.sqrt(np.diag(inverse @ noise @ inverse.T))
    condition = np.linalg.cond(rates)
    if condition > _SINGULAR and error.max() > _USELESS:
        _validation.warn_user(
            f"The confusion matrix is nearly singular (condition number {condition:.3g}): the "
            f"frequencies of the classes have standard errors of up to {error.max():.2g}. Use "
            "target_prior='em', or pass the frequencies."
        )
    return prior, error


def _raised(prior: Array, total: float) -> Array:
    """Return frequencies without values near 0 or below, divided by their sum."""
    prior = np.clip(prior, 1.0 / (total + prior.shape[0]), 1.0)
    return np.asarray(prior / prior.sum())
