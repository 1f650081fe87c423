"""A calibrator of scores and features: a curve of the score, corrected in segments and by boosted trees."""

from __future__ import annotations

from functools import partial
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_calib import _validation
from sklearn_calib._atomic import AtomicFit
from sklearn_calib._compat import check_feature_names_in
from sklearn_calib._core._columns import Column, Scale
from sklearn_calib._core._links import logit
from sklearn_calib._core._newton import fit_logistic
from sklearn_calib._docs import shared_docs
from sklearn_calib._persistence import VersionStamped
from sklearn_calib._typing import Array
from sklearn_calib.calibrators._base import both_classes, inside
from sklearn_calib.calibrators._log_average import default_calibrator
from sklearn_calib.calibrators._multiclass import (
    check_calibrator,
    event_probability,
    fit_clone,
    scores_wanted,
)
from sklearn_calib.calibrators._segment_search import Segments, grow_segments

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

# Segments; trees of a round, which are fitted to a Newton step of the log-odds, and rounds.
_SEGMENTS, _TREES, _ROUNDS = 4, 25, 12
_LEAVES, _LEARNING_RATE, _LEAF, _PENALTY = 4, 0.1, 50, 30.0
# Folds; of more samples than the second number only the first fold is held out.
_FOLDS, _MOST_FOLDED = 5, 200_000
# A round must reduce the held-out log loss by this, and the trees must have a larger z^2 than the second; the
# largest weight of the trees, which stop early.
_LEAST_GAIN, _LEAST_EVIDENCE, _MOST_WEIGHT = 1e-5, 2.0, 1.5
# Probabilities of the calibrator are clipped here for the trees, and variances p (1 - p) are no smaller.
_CLIP = 1e-6
# Largest numbers of categories and of bins of a feature; two codes more are those of other and missing ones.
_CATEGORIES, _BINS = 253, 64


@shared_docs
class SegmentCalibrator(AtomicFit, VersionStamped, ClassifierMixin, TransformerMixin, BaseEstimator):
    r"""Calibration given the score and features: a calibrator of the score, corrected by segments and trees.

    A model that is calibrated overall can be miscalibrated for some samples, such as young customers of one
    region. Here the segments need not be named: with the log-odds :math:`f(s)` of a calibrator of the score
    s, the log-odds of an event are

    .. math:: f(s) + \lambda\, g(x, f(s)), \qquad 0 \le \lambda \le 1.5,

    where :math:`g`, the shifts of segments and boosted trees, depends on the features x. The weight
    :math:`\lambda` is estimated from held-out samples, and is 0, so that only the calibrator of the score
    remains, without evidence that g improves it.

    ``X`` has the score in the first column, and features in the others; they need not be those of the model.
    Features are numbers, dates or durations, or categories, as in ``find_segments`` (docs/inputs.md), and of
    the same kind in later calls. They may be missing (NaN, None).
    :class:`~sklearn_calib.meta.CrossFitScorer` makes such columns of any classifier::

        make_pipeline(CrossFitScorer(classifier, passthrough=True), SegmentCalibrator())

    Parameters
    ----------
    calibrator : calibrator, classifier or None, default=None
        Calibrator of the score, which determines the scores that are allowed. None means
        :class:`SplineCalibrator`, of probabilities; use ``SplineCalibrator(link="identity")`` for margins.
    random_state : int, Generator, RandomState or None, default=0
        Source of the folds.

    Attributes
    ----------
    calibrator_ : object
        The fitted calibrator of the score, with labels 0 and 1.
    trees_ : list of HistGradientBoostingRegressor
        The trees, by round; g is their sum and the shifts of the segments. Empty if ``weight_`` is 0.
    weight_ : float
        The weight :math:`\lambda` of g.
    %(binary_fit)s

    See Also
    --------
    GroupCalibrator : An intercept and a slope for each group of a given partition.

    Notes
    -----
    In the first round up to four segments S are found, one after the other; if held-out samples prefer it, it
    has trees instead, as the other rounds do. With :math:`p_i` the current probability,
    :math:`h_i = p_i (1 - p_i)`, :math:`G = \sum_{i \in S} w_i (y_i - p_i)` and
    :math:`H = \sum_{i \in S} w_i h_i`, the shift of the log-odds in S is the penalized Newton step
    :math:`G / (H + 5)`, and the score of S is

    .. math:: \frac{G^2}{H + 5} - 10 \max(m - 1, 0) .

    S is a conjunction of conditions: a number, or f(s), is in an interval, or a category, in the order of the
    shifts of the categories, is in one; m is the number of ends of all intervals. The search starts at the
    best pair of half-lines and categories, without the cost, and changes one condition at a time, the one
    that increases the score most, until none does.

    A round of trees fits 25 to the Newton steps :math:`(y_i - p_i) / h_i` with weights :math:`h_i`, by
    gradient boosting with learning rate 0.1, an L2 penalty of 30 and at least 50 samples in a leaf. A tree
    has at most four leaves, the best splits first; more leaves mostly fit noise. There are 12 rounds, or
    fewer if the log loss decreases by less than :math:`10^{-5}`. The number of segments, and of trees of a
    round, minimizes the log loss of held-out samples in 5 folds; with more than 200,000 samples, in a fifth
    of them.

    The held-out values of g give :math:`\hat\beta`, its coefficient in a logistic regression with offset f,
    and its squared z statistic :math:`z^2 = \hat\beta^2 I`, where :math:`I = \sum_i w_i h_i g_i^2`. Then

    .. math:: \lambda = \min(\max(\hat\beta, 0), 1.5) \, \max(0, 1 - 2 / z^2) .

    It may exceed 1, since trees that stop early correct less than the whole error.

    Multicalibration was introduced in [1]_. The trees, an offset and early stopping are used for it in [2]_,
    without the curve, the segments and the weight.

    Numbers are divided into 64 bins of about equal numbers of samples, or into their values if there are no
    more. Of a feature with more than 253 categories, the rare ones, and those that
    did not occur in the fit, form one category. Missing values are a bin or category of their own. With fewer
    than five samples of a class, or less than 100 samples, g is 0. Integer weights are equivalent
    to repetitions of samples, except in folds, which would divide the repetitions of a sample (pass weights
    instead), and the least number of samples in a leaf.

    References
    ----------
    .. [1] Hebert-Johnson, Kim, Reingold, Rothblum (2018). Multicalibration: calibration for the
       (computationally-identifiable) masses. ICML. arXiv:1711.08513
    .. [2] Tax et al. (2025). MCGrad: multicalibration at web scale. arXiv:2509.19884

    Examples
    --------
    In one region events are half as frequent for the young as the score says:

    >>> import numpy as np
    >>> from sklearn_calib.calibrators import SegmentCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p, age, region = rng.uniform(0.2, 0.8, 20_000), rng.uniform(18, 80, 20_000), rng.choice(3, 20_000)
    >>> y = rng.random(20_000) < np.where((age < 40) & (region == 1), p / 2, p)
    >>> calibrator = SegmentCalibrator().fit(np.column_stack([p, age, region]), y)
    >>> calibrator.predict_proba([[0.6, 30, 1], [0.6, 30, 2]])[:, 1].round(1)
    array([0.3, 0.6])
    """

    classes_: NDArray[Any]
    n_features_in_: int
    calibrator_: Any
    trees_: list[HistGradientBoostingRegressor]
    weight_: float

    def __init__(self, calibrator: Any = None, *, random_state: Any = 0) -> None:
        self.calibrator = calibrator
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the calibrator of the score, the segments and the trees.

        Parameters
        ----------
        X : data frame or array-like of shape (n, 1 + n_features)
            The score, and features.
        y : array-like of shape (n,)
            Labels of two classes.
        sample_weight : array-like of shape (n,) or None, default=None
            Non-negative weights. Samples of weight zero are ignored.

        Returns
        -------
        self
            The fitted calibrator.

        Raises
        ------
        ValueError
            If there is no feature; if ``y`` has one class, or more than two; if the score is missing or not
            in [0, 1], unless ``calibrator`` allows it; or if arguments have different lengths.
        TypeError
            If ``X`` is sparse, or a parameter is of the wrong type.
        """
        calibrator = default_calibrator("logit", False) if self.calibrator is None else self.calibrator
        check_calibrator(calibrator)
        _validation.check_randomness(self.random_state)
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None. Pass labels.")
        score, features = self._columns(X, scores_wanted(calibrator), y, reset=True)
        self.classes_, codes = _validation.check_classes(y)
        _validation.check_length("y", codes.shape[0], "X", score.shape[0])
        if self.classes_.shape[0] > 2:
            raise ValueError(
                f"Only binary classification is supported by SegmentCalibrator, but y has "
                f"{self.classes_.shape[0]} classes. Calibrate each class against the rest."
            )
        weight = (
            np.ones_like(score)
            if sample_weight is None
            else _validation.check_weights(sample_weight, score.shape[0])
        )
        kept = weight > 0
        score, codes, weight = score[kept], codes[kept], weight[kept]
        self.calibrator_ = fit_clone(calibrator, score, codes, None if sample_weight is None else weight)
        f = self._log_odds(score)
        columns = [*(column.take(kept) for column in features), _validation.read_column(f, "the log-odds")]
        self._scales = [Scale.of(column, _BINS, _CATEGORIES) for column in columns]
        Z = self._coded(columns)
        self._fit_parts(Z, f, codes.astype(np.float64), weight)
        return self

    def transform(self, X: Any) -> Array:
        """Return the calibrated score: the probability of ``classes_[1]``, without the features.

        Parameters
        ----------
        %(score_and_features)s

        Returns
        -------
        ndarray of shape (n, 1)
            Probabilities.
        """
        return self.predict_proba(X)[:, 1:]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the name of the score.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of columns without names; others are checked against those seen in ``fit``.

        Returns
        -------
        ndarray of shape (1,)
            The name, dtype object.
        """
        check_is_fitted(self)
        names: NDArray[Any] = check_feature_names_in(self, input_features)[:1]
        return names

    def predict_proba(self, X: Any) -> Array:
        """Return the calibrated probabilities of both classes.

        Parameters
        ----------
        %(score_and_features)s

        Returns
        -------
        ndarray of shape (n, 2)
            Probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        score, features = self._columns(X, scores_wanted(self.calibrator_), reset=False)
        if not self.weight_:
            return both_classes(event_probability(self.calibrator_, score))
        f = self._log_odds(score)
        Z = self._coded([*features, _validation.read_column(f, "the log-odds")])
        g = sum(part.predict(Z) for part in [*self._segments, *self.trees_])
        return both_classes(inside(expit(f + self.weight_ * g)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return ``classes_[1]`` if its probability exceeds 1/2, else ``classes_[0]``.

        Parameters
        ----------
        %(score_and_features)s

        Returns
        -------
        ndarray of shape (n,)
            Labels among ``classes_``.
        """
        proba = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[proba.argmax(axis=1)]
        return labels

    def __sklearn_tags__(self) -> Tags:
        """Declare that features may be categories, and that targets are binary."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.classifier_tags.multi_class = False
        return tags

    def _columns(
        self, X: Any, kind: str, y: Any = "no_validation", *, reset: bool
    ) -> tuple[Array, list[Column]]:
        """Return the checked score, and the features, of the kinds of the fit."""
        columns = list(_validation.table_columns(X, "X").values())
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        if len(columns) < 2:
            raise ValueError(
                f"X has {len(columns)} feature(s) (shape={_validation.shape_of(X, 'X')}) while a minimum of "
                "2 is required: the score and a feature. CrossFitScorer(..., passthrough=True) returns both."
            )
        score = _validation.check_scores(*columns[0], kind=kind)
        known = [] if reset else [(scale.kind, scale.labels) for scale in self._scales[:-1]]
        pairs = zip_longest(columns[1:], known, fillvalue=())
        return score, [_validation.read_column(*column, *fitted) for column, fitted in pairs]

    def _coded(self, columns: list[Column]) -> NDArray[np.intp]:
        """Return the bins and categories of features and log-odds."""
        parts = [scale.codes(column) for column, scale in zip(columns, self._scales, strict=True)]
        return np.array(parts).T

    def _log_odds(self, score: Array) -> Array:
        return logit(event_probability(self.calibrator_, score), _CLIP)

    def _grow(
        self, Z: NDArray[np.intp], f: Array, y: Array, w: Array, n_trees: int
    ) -> HistGradientBoostingRegressor:
        """Return trees of the Newton step from log-odds f."""
        # importing it takes longer than the package
        from sklearn.ensemble import HistGradientBoostingRegressor

        p = expit(f)
        h = np.maximum(p * (1.0 - p), _CLIP)
        trees = HistGradientBoostingRegressor(
            learning_rate=_LEARNING_RATE,
            max_iter=n_trees,
            max_leaf_nodes=_LEAVES,
            min_samples_leaf=_LEAF,
            l2_regularization=_PENALTY,
            categorical_features=[scale.kind == "categories" for scale in self._scales],
            early_stopping=False,
            random_state=self._seed,
        )
        return trees.fit(Z, (y - p) / h, sample_weight=w * h)

    def _fit_parts(self, Z: NDArray[np.intp], f: Array, y: Array, w: Array) -> None:
        self.trees_, self.weight_ = [], 0.0
        self._segments: list[Segments] = []
        self._seed = int(_validation.check_generator(self.random_state).integers(2**31))
        n = y.shape[0]
        if min(y.sum(), n - y.sum()) < _FOLDS or n < 2 * _LEAF:
            return
        splits = StratifiedKFold(_FOLDS, shuffle=True, random_state=self._seed).split(Z, y)
        folds = list(islice(splits, 1 if n > _MOST_FOLDED else None))
        # log-odds of all samples from the parts of each fold, and from those of all samples
        of_folds, of_all = [f.copy() for _ in folds], f.copy()
        mass = sum(float(w[test].sum()) for _, test in folds)
        kinds: list[Any] = [(self._grow, _TREES, self.trees_)]
        kinds.append((partial(grow_segments, self._scales), _SEGMENTS, self._segments))
        for _ in range(_ROUNDS):
            # the first round has trees or segments, whichever reduce the held-out log loss more
            tried = [
                (*_held_out(grow, most, Z, y, w, folds, of_folds), grow, parts) for grow, most, parts in kinds
            ]
            gain, best, found, grow, parts = max(tried, key=lambda each: each[0])
            if gain <= _LEAST_GAIN * mass:
                break
            for part, g in zip(found, of_folds, strict=True):
                g += next(islice(part.staged_predict(Z), best - 1, None))
            parts.append(grow(Z, of_all, y, w, best))
            of_all += parts[-1].predict(Z)
            del kinds[1:]
        if not (self._segments or self.trees_):
            return
        held = np.concatenate([test for _, test in folds])
        step = np.concatenate([g[test] for (_, test), g in zip(folds, of_folds, strict=True)]) - f[held]
        self.weight_ = _weight(step, f[held], y[held], w[held])
        if not self.weight_:
            self._segments, self.trees_ = [], []


def _held_out(
    grow: Any, most: int, Z: NDArray[np.intp], y: Array, w: Array, folds: list[Any], of_folds: list[Array]
) -> tuple[float, int, list[Any]]:
    """Return by how much the held-out log loss is reduced, by how many stages, and the parts of each fold."""
    found, loss = [], np.zeros(most + 1)
    for (train, test), g in zip(folds, of_folds, strict=True):
        found.append(grow(Z[train], g[train], y[train], w[train], most))
        stages = [np.zeros(1), *found[-1].staged_predict(Z[test])]
        for k, step in enumerate(stages):
            loss[k] += w[test] @ (np.logaddexp(0.0, g[test] + step) - y[test] * (g[test] + step))
    best = int(loss.argmin())
    return float(loss[0] - loss[best]), best, found


def _weight(step: Array, f: Array, y: Array, w: Array) -> float:
    """Return min(max(b, 0), 1.5) max(0, 1 - 2 / z^2), with b the coefficient of ``step`` given offset f."""
    fit = fit_logistic(step[np.newaxis], w, w * y, start=np.ones(1), offset=f)
    b = float(fit.coef[0])
    # z^2 = b^2 I, I = sum of w p (1 - p) step^2
    evidence = b**2 * float(fit.information[0, 0])
    return min(max(b, 0.0), _MOST_WEIGHT) * max(0.0, 1.0 - _LEAST_EVIDENCE / max(evidence, _LEAST_EVIDENCE))
