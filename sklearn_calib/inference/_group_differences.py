"""Test that groups of samples have the same calibration intercept and slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from scipy.stats import chi2

from sklearn_calib import _validation
from sklearn_calib._core._clusters import dependence_of
from sklearn_calib._core._grouping import as_sampled, group_sample
from sklearn_calib._core._links import logit
from sklearn_calib._core._recalibration import LogitOutcomes
from sklearn_calib._docs import shared_docs
from sklearn_calib._typing import Array, Weights


@dataclass(frozen=True)
class GroupDifferences:
    """Result of :func:`group_differences_test`.

    Attributes
    ----------
    statistic : float
        The score statistic; NaN if there is a single group, or the slope is not determined.
    degrees_of_freedom : int
        Those of its asymptotic chi-squared distribution.
    pvalue : float
        p-value of the hypothesis that all groups have the same calibration intercept and slope; or NaN.
    n_groups : int
        Number of groups.
    """

    statistic: float
    degrees_of_freedom: int
    pvalue: float
    n_groups: int

    def __str__(self) -> str:
        return (
            f"differences between {self.n_groups} groups: p-value {self.pvalue:.4g} (chi-squared "
            f"{self.statistic:.4g} with {self.degrees_of_freedom} df)"
        )


@shared_docs
def group_differences_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    groups: ArrayLike,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
) -> GroupDifferences:
    r"""Test whether groups of samples have the same calibration intercept and slope.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of two classes.
    y_proba : array-like of shape (n,), (n, 1) or (n, 2)
        Predicted probability of the positive class; of two columns the last.
    groups : array-like of shape (n,)
        Group of each sample.
    %(inference_weight)s
    %(clusters)s
    %(pos_label_or_labels)s

    Returns
    -------
    GroupDifferences
        The statistic and its p-value.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    CoxTest : Test of intercept and slope of all samples.
    sklearn_calib.calibrators.GroupCalibrator : Calibration by group.

    Notes
    -----
    With x = (1, logit p), the residuals r and variances v after logistic recalibration of all samples, score
    :math:`u_g = \sum x r` and information :math:`V_g = \sum v x x'` of group g, and their sums u and V, the
    statistic is :math:`(\sum_g u_g' V_g^{-1} u_g - u' V^{-1} u) / \max(1, d)` with the design effect d. It
    has a chi-squared distribution with the rank of all V_g minus that of V. With sampling weights and the
    variances :math:`S_g = \sum w^2 v x x'`, d is multiplied by
    :math:`(\sum_g \mathrm{tr} V_g^{-1} S_g - \mathrm{tr} V^{-1} S)` / rank [1]_. Predictions of exactly 0
    and 1 are left out. Cost: one sort, and O(n).

    References
    ----------
    .. [1] J. N. K. Rao and A. J. Scott (1981). The analysis of categorical data from complex sample surveys.
       Journal of the American Statistical Association 76.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import group_differences_test
    >>> rng = np.random.default_rng(0)
    >>> p, group = rng.uniform(size=1000), np.arange(1000) % 2
    >>> y = rng.uniform(size=1000) < np.where(group == 1, p**2, p)
    >>> print(group_differences_test(y, p, groups=group).degrees_of_freedom)
    2
    >>> bool(group_differences_test(y, p, groups=group).pvalue < 0.01)
    True
    """
    sample = _validation.check_binary(
        y_true, y_proba, sample_weight, pos_label, clusters, weights=weights, labels=labels
    )
    samples = [part for _, part in _validation.samples_of_groups(sample, groups, sample_weight)]
    grouped = group_sample(sample)
    uncertain, parameters = grouped.uncertain(), np.full(2, np.nan)
    if uncertain.prob.size and not (data := LogitOutcomes(uncertain)).constant:
        fitted = data.fit_both()
        parameters = np.array([fitted.intercept, fitted.slope])
    effect = dependence_of(grouped.clusters, grouped.sampled_probability).get("design_effect")
    return differences_of(samples, parameters, effect)


def differences_of(
    samples: Sequence[_validation.BinarySample], parameters: Array, design_effect: float | None
) -> GroupDifferences:
    """Return the test of groups after recalibration with the intercept and slope ``parameters`` of all."""
    if len(samples) < 2 or not np.isfinite(parameters).all():
        return GroupDifferences(np.nan, 0, np.nan, len(samples))
    parts = []
    for sample in samples:
        # predictions of exactly 0 and 1 have no finite log-odds
        sample = sample.take((sample.p > 0.0) & (sample.p < 1.0))
        x = np.column_stack((np.ones_like(sample.p), logit(sample.p)))
        sample = as_sampled(replace(sample, p=expit(x @ parameters)))
        w, v = sample.weights, sample.p * (1.0 - sample.p)
        squares = w * w if sample.sampling else w
        parts.append((x.T @ (w * (sample.y - sample.p)), (x.T * (w * v)) @ x, (x.T * (squares * v)) @ x))
    within = sum(_score_statistic(*part) for part in parts)
    statistic, effect, rank = within - _score_statistic(*(sum(each) for each in zip(*parts, strict=True)))
    if not rank:
        return GroupDifferences(np.nan, 0, np.nan, len(samples))
    statistic /= effect / rank * max(1.0, design_effect or 1.0)
    return GroupDifferences(float(statistic), int(rank), float(chi2.sf(statistic, rank)), len(samples))


def _score_statistic(score: Array, information: Array, variance: Array) -> Array:
    """Return u' V^- u, tr V^- S and the rank of V."""
    values, vectors = np.linalg.eigh(information)
    kept = values > 1e-10 * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    squares = (vectors.T @ score) ** 2, ((vectors.T @ variance) * vectors.T).sum(axis=1)
    return np.array([*(np.sum(each / values) for each in squares), kept.sum()])
