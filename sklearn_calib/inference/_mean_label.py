"""The mean label of many samples, of which few are labeled and all have a score."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtri, stdtrit

from sklearn_calib import _validation
from sklearn_calib._core._links import logit
from sklearn_calib._core._newton import fit_logistic
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import number_text, text_html
from sklearn_calib._typing import Array, Codes
from sklearn_calib.metrics._summary import IntervalEstimate

_FOLDS, _FEWEST_LABELS = 10, 10
# The penalty of the slope, as a fraction of the variance of the labels: it is finite if scores separate them.
_RIDGE = 0.01
# So many events count as if the score did not explain them. Of few labels, none may contradict a judge that
# is rarely wrong, such as one that accepts 4% of the bad answers; the interval must contain that.
_UNEXPLAINED = 1.0


@dataclass(frozen=True)
class MeanLabel(IntervalEstimate):
    """The mean label of all samples, from scores and the labels of a part.

    Attributes
    ----------
    estimate : float
        The mean label.
    lower, upper : float
        Ends of its interval, in [0, 1].
    method : str
        "prediction-powered".
    confidence : float
        Confidence level.
    labels_alone : IntervalEstimate
        The mean of the known labels with Wilson's interval.
    mean_score : float
        The mean of all scores, which is biased unless the scores are calibrated probabilities.
    power : float
        The weight of the scores in the estimate, from 0 (they are ignored) to 1.
    n_labeled, n_samples : int
        Number of labels and of samples.
    """

    confidence: float = field(kw_only=True)
    labels_alone: IntervalEstimate = field(kw_only=True)
    mean_score: float = field(kw_only=True)
    power: float = field(kw_only=True)
    n_labeled: int = field(kw_only=True)
    n_samples: int = field(kw_only=True)

    def __str__(self) -> str:
        return (
            f"mean label {super().__str__()} ({self.confidence:.0%} confidence); {self.n_labeled:,} labels "
            f"of {self.n_samples:,} samples; labels alone {self.labels_alone}; mean score "
            f"{number_text(self.mean_score)}"
        )

    _repr_html_ = text_html


@shared_docs
def mean_label(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    confidence: float = 0.95,
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> MeanLabel:
    r"""Estimate the mean label of all samples from their scores and the labels of a random part.

    The scores, for example of a judge that is a language model, need not be calibrated: only their order
    counts. The estimate is unbiased whatever their quality, and its interval is shorter than that of the
    labels alone if they are informative.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of two classes, or outcomes between 0 and 1; None or NaN where the label is unknown. At least
        10 must be known.
    y_score : array-like of shape (n,), (n, 1) or (n, 2)
        Scores, which tend to be higher for the positive class: probabilities, logits or grades; of the
        probabilities of both classes the last is used.
    confidence : float, default=0.95
        Confidence level in (0, 1).
    %(clusters)s
    %(pos_label_or_labels)s

    Returns
    -------
    MeanLabel
        Estimate and interval, and those of the labels alone.

    %(raised)s

    See Also
    --------
    sklearn_calib.metrics.expected_performance : Rates without any label, from calibrated probabilities.

    Notes
    -----
    *Assumption.* The labeled samples are a random part of all samples; with clusters, a random part of the
    clusters, or of the samples. If, for example, labels are bought where the score is high, the estimate is
    wrong. The interval is for the population from which all samples were drawn.

    *Estimate.* Logistic regression on the log-odds of the rank of the score is fitted to nine tenths of the
    labels, which gives the prediction f of each sample in the other tenth, and by the mean of the ten fits
    that of each sample without label. With n labels and N samples,

    .. math:: \hat\theta = \frac1n \sum_{\text{labeled}} y_i
              + \lambda \Bigl(\frac1N \sum_{\text{all}} f_i - \frac1n \sum_{\text{labeled}} f_i\Bigr),

    prediction-powered inference [1]_ with cross-fitted predictions and the power :math:`\lambda \in [0, 1]`
    of the smallest estimated variance [2]_. The folds depend on the scores only, or are those of clusters.

    *Interval.* Wilson's, at the estimate, for the number of labels that have the same variance without
    scores. The variance is that of the sum of the terms of each sample, or of each cluster, then with the
    quantile of Student's t distribution with as many degrees of freedom as clusters with labels, less 1. One
    event counts as if the score did not explain it: the part r of the variance that remains becomes
    :math:`r + (1 - r) / (1 + n \bar y (1 - \bar y))`, since few labels may not contradict a judge that is
    rarely wrong. docs/paths/language_models.md has an example.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, C. Fannjiang, M. I. Jordan and T. Zrnic (2023). Prediction-powered
       inference. Science 382. arXiv:2301.09633
    .. [2] A. N. Angelopoulos, J. C. Duchi and T. Zrnic (2023). PPI++: efficient prediction-powered inference.
       arXiv:2311.01453

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import mean_label
    >>> rng = np.random.default_rng(0)
    >>> good = rng.random(5000) < 0.7
    >>> score = 2.0 * good + rng.normal(size=5000)
    >>> human = np.where(np.arange(5000) < 200, good, np.nan)
    >>> found = mean_label(human, score)
    >>> found.lower < 0.7 < found.upper
    True
    >>> found.upper - found.lower < 0.8 * (found.labels_alone.upper - found.labels_alone.lower)
    True
    """
    _validation.check_fraction(confidence, "confidence")
    score = _validation.check_scores(y_score, "y_score", kind="score")
    column = _validation.as_array(y_true, "y_true")
    if score.ndim > 1 or column.shape not in ((column.size,), (column.size, 1)):
        raise ValueError(
            f"y_true must have shape (n,) and y_score (n,), one label or NaN and one score per sample, got "
            f"{column.shape} and {score.shape}."
        )
    _validation.check_length("y_true", column.size, "y_score", score.size)
    known = np.flatnonzero(~_validation.missing_values(column.ravel()))
    if known.size < _FEWEST_LABELS:
        raise ValueError(
            f"y_true has {known.size} known labels, that is neither None nor NaN. Pass at least "
            f"{_FEWEST_LABELS}, better 100 and more."
        )
    given = column.ravel()[known]
    # a column with missing values holds objects
    if given.dtype.kind == "O" and all(isinstance(value, Real | np.bool_) for value in given):
        # integers that are too large are refused as labels
        with suppress(OverflowError):
            given = given.astype(np.float64)
    if labels is not None:
        pos_label = _validation.positive_label(given, labels, pos_label)
    ordered = _validation.shape_of(y_score, "y_score")[1:] == (2,)
    y = _validation.check_labels(given, pos_label, ordered=ordered, fractions=True).astype(np.float64)
    code = np.arange(score.size)
    if clusters is not None:
        code = _validation.check_groups(clusters, score.size, "clusters", "y_true")[1]
    dependent = clusters is not None and _validation.check_clusters(code[known], known.size) is not None

    f = _predictions(score, y, known, np.unique(code[known], return_inverse=True)[1])
    mean, gain = float(y.mean()), float(f.mean() - f[known].mean())
    terms = (f - f.mean()) / f.size
    terms[known] -= (f[known] - f[known].mean()) / known.size
    of_scores = np.bincount(code, terms)
    of_labels = np.bincount(code[known], (y - mean) / known.size, of_scores.size)
    variance, of_all = float(of_labels @ of_labels), float(of_scores @ of_scores)
    power = float(np.clip(-(of_scores @ of_labels) / of_all, 0.0, 1.0)) if of_all > 0.0 else 0.0

    n_units = np.unique(code[known]).size
    q = stdtrit(n_units - 1, 0.5 + 0.5 * confidence) if dependent else ndtri(0.5 + 0.5 * confidence)
    size, ratio = float(n_units), 1.0
    if variance > 0.0:
        size = mean * (1.0 - mean) / variance * ((n_units - 1.0) / n_units if dependent else 1.0)
        rest = of_labels + power * of_scores
        ratio = float(rest @ rest) / variance
        ratio += (1.0 - ratio) * _UNEXPLAINED / (known.size * mean * (1.0 - mean) + _UNEXPLAINED)
    estimate = min(max(mean + power * gain, 0.0), 1.0)
    return MeanLabel(
        estimate,
        *_wilson(estimate, size / ratio, q),
        method="prediction-powered",
        confidence=float(confidence),
        labels_alone=IntervalEstimate(mean, *_wilson(mean, size, q), "Wilson"),
        mean_score=float(score.mean()),
        power=power,
        n_labeled=known.size,
        n_samples=score.size,
    )


def _predictions(score: Array, y: Array, known: Codes, unit: Codes) -> Array:
    """Return the cross-fitted probability of each sample; ``unit`` are the clusters of labeled samples."""
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    x = logit((np.cumsum(count) - 0.5 * count) / score.size)[place]
    design = np.stack((np.ones_like(x), x))
    # units are dealt out in the order of their scores
    order = np.argsort(np.bincount(unit, x[known]) / np.bincount(unit), kind="stable")
    fold = np.argsort(order)[unit] % _FOLDS
    n_folds = int(fold.max()) + 1
    f, left_out = np.zeros(score.size), np.empty(known.size)
    for k in range(n_folds):
        kept = fold != k
        rate, weight = float(y[kept].mean()), np.full(np.count_nonzero(kept), 1.0 / np.count_nonzero(kept))
        p = np.full(x.size, rate)
        if 0.0 < rate < 1.0:
            start, penalty = logit(np.array([rate, 0.5])), np.array([0.0, _RIDGE * rate * (1.0 - rate)])
            columns = design[:, known[kept]]
            p = expit(
                fit_logistic(columns, weight, weight * y[kept], start=start, penalty=penalty).coef @ design
            )
        f += p / n_folds
        left_out[~kept] = p[known[~kept]]
    f[known] = left_out
    return f


def _wilson(rate: float, size: float, q: float) -> tuple[float, float]:
    """Return Wilson's interval of a rate from ``size`` independent outcomes."""
    square = q * q / size
    middle = rate + 0.5 * square
    half = q * np.sqrt(rate * (1.0 - rate) / size + 0.25 * square / size)
    low, high = (middle - half) / (1.0 + square), (middle + half) / (1.0 + square)
    return max(0.0, float(low)), min(1.0, float(high))
