"""Risk of decisions over all thresholds: bands of one model, and dominance between two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sklearn_calib import _validation
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._grouping import weight_words, weighting
from sklearn_calib._core._null import MAX_ELEMENTS, TIE, monte_carlo_pvalue, rejects, tail_rank
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, printable_lines, result_html
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference._paired_samples import Sample, check_models, problems_of
from sklearn_calib.metrics._decision import check_thresholds
from sklearn_calib.metrics._reductions import REDUCTIONS, Reduction

#: ``loss(y, act, thresholds)``: the value of each sample at each threshold, of shape (n, thresholds).
Loss = Callable[[NDArray[np.int64], NDArray[np.bool_], Array], Array]


class Decisions(NamedTuple):
    """Outcomes and predictions of n samples in each binary problem of a reduction, (n, problems).

    ``weighting`` are the fields with which results describe the weights.
    """

    y: NDArray[np.int64]
    p: Array
    w: Array | None
    clusters: NDArray[np.int64] | None
    n_samples: float
    weighting: dict[str, Any]


def decisions_of(sample: Sample, reduction: str) -> Decisions:
    """Return the binary decisions of a reduction, whose mean loss is that of the reduction."""
    # the mean over all samples is that of the predicted classes, weighted by their frequency
    problems = problems_of(sample, "classwise" if reduction == "classwise" else "confidence")
    y, p = (np.column_stack([getattr(each, key) for each in problems]) for key in ("outcome", "probability"))
    n_samples = float(y.shape[0]) if sample.sampling else sample.total
    return Decisions(y, p, sample.w, sample.clusters, n_samples, weighting(sample))


def decision_risk(y: NDArray[np.int64], act: NDArray[np.bool_], thresholds: Array) -> Array:
    """Return the cost t of a false positive, and 1 - t of a false negative."""
    return np.where(y[:, np.newaxis] == 1, (1.0 - thresholds) * ~act, thresholds * act)


class _Units(NamedTuple):
    """Independent units: number of each kind, weight, loss times weight, and a standard deviation of it."""

    number: NDArray[np.int64]
    weight: Array
    value: Array
    spread: Array


def _units(models: tuple[Decisions, ...], thresholds: Array, loss: Loss) -> Iterator[_Units]:
    """Yield the units in parts, with their losses at each threshold; of two models, the difference.

    Without clusters, samples with the same outcomes, decisions and sampling weight are of one kind, so that
    results do not depend on the order of samples; frequencies are numbers of samples. The standard deviation
    is that of the difference of calibrated predictions where the decisions differ.
    """
    (n, n_problems), w, clusters = models[0].y.shape, models[0].w, models[0].clusters
    # a sample is acted on at thresholds number 0, ..., code - 1
    codes = [np.searchsorted(thresholds, model.p, side="right") for model in models]
    m = thresholds.shape[0]
    number, weight = np.ones(n, dtype=np.int64), np.ones(n) if w is None else w
    if clusters is not None:
        rows = np.argsort(clusters, kind="stable")
        starts = np.flatnonzero(np.diff(clusters[rows], prepend=-1))
    else:
        counted = models[0].weighting.get("weights") == "frequency"
        kind = np.unique(np.ones(n) if counted else weight, return_inverse=True)[1]
        columns = np.hstack([d.y * (m + 1) + code for d, code in zip(models, codes, strict=True)])
        for column in columns.T[::-1]:
            kind = np.unique(column * n + kind, return_inverse=True)[1]
        _, rows = np.unique(kind, return_index=True)
        number = np.rint(np.bincount(kind, weight if counted else None)).astype(np.int64)
        weight, starts = np.ones(n) if counted else weight, np.arange(rows.shape[0])
    size, ends = starts.shape[0], np.append(starts[1:], rows.shape[0])
    for some in blocks(size, MAX_ELEMENTS * size, m * rows.shape[0]):
        part = rows[starts[some.start] : ends[some.stop - 1]]
        value, spread = np.zeros((2, part.shape[0], m))
        for k in range(n_problems):
            acts = [np.arange(m) < code[part, k, np.newaxis] for code in codes]
            losses = [loss(d.y[part, k], act, thresholds) for d, act in zip(models, acts, strict=True)]
            value += losses[0] - losses[1] if len(losses) > 1 else losses[0]
            spread += (acts[0] != acts[-1]) * np.sqrt(thresholds * (1.0 - thresholds))
        given = weight[part, np.newaxis]
        parts = given, value * given / n_problems, spread * given / n_problems
        begin = starts[some] - starts[some.start]
        mass, value, spread = (np.add.reduceat(each, begin, axis=0) for each in parts)
        yield _Units(number[some], mass[:, 0], value, spread)


class _Flipped(NamedTuple):
    """Mean with its errors about itself and about 0, and standardized means after random changes of sign.

    ``flips`` are about 0, for a test, and ``deviations`` about the mean, for a band.
    """

    mean: Array
    error: Array
    error_about_0: Array
    flips: Array
    deviations: Array


def _flipped(
    models: tuple[Decisions, ...],
    thresholds: Array,
    loss: Loss,
    n_resamples: int,
    generator: np.random.Generator,
) -> _Flipped:
    """Return the mean loss and its distribution if the sign of each unit is random."""
    m = thresholds.shape[0]
    total, square, cross, least = np.zeros((4, m))
    flips, signs = np.zeros((n_resamples, m)), np.zeros(n_resamples)
    mass = squared_mass = 0.0
    for number, weight, value, spread in _units(models, thresholds, loss):
        total += number @ value
        square += number @ value**2
        cross += (number * weight) @ value
        least += number @ spread**2
        mass += float(number @ weight)
        squared_mass += float(number @ weight**2)
        shape = (n_resamples, number.shape[0])
        # a single sample has a random bit, which is ten times faster
        single = bool(number.max() == 1)
        kept = (
            generator.integers(2, size=shape, dtype=np.int8)
            if single
            else generator.binomial(number, 0.5, shape)
        )
        sign = 2.0 * kept - number
        flips += sign @ value
        signs += sign @ weight
    mean = total / mass
    variance = square - 2.0 * mean * cross + mean**2 * squared_mass
    variance = np.maximum(variance, 0.0)
    return _Flipped(
        mean=mean,
        error=np.sqrt(np.maximum(variance, least)) / mass,
        error_about_0=np.sqrt(np.maximum(square, least)) / mass,
        flips=_standardized(flips, np.sqrt(square)),
        deviations=_standardized(flips - signs[:, np.newaxis] * mean, np.sqrt(variance)),
    )


def _standardized(values: Array, error: Array) -> Array:
    """Return values divided by their error; 0 where there is no variation."""
    return np.divide(values, error, out=np.zeros_like(values), where=error > 0)


def _critical(found: _Flipped, confidence: float) -> float:
    draws = np.sort(np.abs(found.deviations).max(axis=1))
    return float(draws[max(draws.shape[0] - tail_rank(draws.shape[0], 1.0 - confidence), 0)])


def threshold_curve(
    decisions: Decisions,
    thresholds: Array,
    loss: Loss,
    confidence: float,
    simultaneous: bool,
    n_resamples: int,
    generator: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """Return the mean loss at each of the sorted thresholds, and the limits of its band."""
    found = _flipped((decisions,), thresholds, loss, n_resamples if simultaneous else 0, generator)
    width = _critical(found, confidence) if simultaneous else float(ndtri(0.5 + confidence / 2.0))
    return found.mean, found.mean - width * found.error, found.mean + width * found.error


def _no_higher(one: str, other: str) -> str:
    return f"{one} has no higher risk than {other} at any threshold"


@shared_docs
@dataclass(frozen=True, eq=False)
class DominanceResult(FrameMixin):
    """Comparison of the decision risk of two models at all thresholds.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Decision thresholds, increasing.
    difference : ndarray of shape (m,)
        Risk of model a minus risk of model b.
    lower, upper : ndarray of shape (m,)
        Simultaneous confidence band of the difference.
    pvalue : float
        p-value of the hypothesis that both risks are equal at all thresholds.
    pvalue_a_dominates : float
        p-value of the hypothesis that a has no higher risk than b at any threshold. If it is small, b is
        better for some decision makers.
    pvalue_b_dominates : float
        The same for b. Model a dominates b if this hypothesis is rejected and the other one is true.
    confidence : float
        Confidence level of the band.
    n_samples : float
        Number of samples; frequencies count.
    n_resamples : int
        Number of random swaps.
    name_a, name_b : str
        The models.
    %(weighting)s
    """

    _columns_in = ("thresholds", "difference", "lower", "upper")

    thresholds: Array = field(repr=False)
    difference: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    pvalue: float
    pvalue_a_dominates: float
    pvalue_b_dominates: float
    confidence: float
    n_samples: float
    n_resamples: int
    name_a: str = "a"
    name_b: str = "b"
    weights: str | None = None
    n_effective: float | None = None
    weight_spread: float | None = None

    def _rows(self) -> list[tuple[str, str]]:
        low, high = int(self.difference.argmin()), int(self.difference.argmax())
        tau = self.thresholds
        return [
            (
                f"risk of {self.name_a} - risk of {self.name_b}",
                f"{number_text(self.difference[low])} (threshold {tau[low]:.3g}) to "
                f"{number_text(self.difference[high])} (threshold {tau[high]:.3g})",
            ),
            (_no_higher(self.name_a, self.name_b), self._verdict(self.pvalue_a_dominates)),
            (_no_higher(self.name_b, self.name_a), self._verdict(self.pvalue_b_dominates)),
            ("equal risk at all thresholds", self._verdict(self.pvalue)),
        ]

    def _verdict(self, pvalue: float) -> str:
        verdict = "rejected" if rejects(pvalue, 1.0 - self.confidence) else "not rejected"
        return f"{verdict} (p = {pvalue:.3g})"

    def __str__(self) -> str:
        lines = [f"{label}: {text}" for label, text in self._rows()]
        weights = f"; {weight_words(self, corrected=False)}" if self.weights else ""
        return printable_lines([*lines, f"n = {self.n_samples:g}, {self.n_resamples} random swaps{weights}"])

    def _repr_html_(self) -> str:
        more = [("n", f"{self.n_samples:g}"), ("random swaps", str(self.n_resamples))]
        return result_html(
            "dominance", [*self._rows(), *more, ("weights", weight_words(self, corrected=False))]
        )


def compare_decisions(
    a: Decisions,
    b: Decisions,
    thresholds: Array,
    confidence: float,
    n_resamples: int,
    generator: np.random.Generator,
    name_a: str = "a",
    name_b: str = "b",
) -> DominanceResult:
    """Return the comparison of two models on the same samples, at sorted thresholds."""
    found = _flipped((a, b), thresholds, decision_risk, n_resamples, generator)
    width = _critical(found, confidence) * found.error

    observed = _standardized(found.mean, found.error_about_0)

    def pvalue(values: Array, flips: Array) -> float:
        return monte_carlo_pvalue(float(values.max()), flips.max(axis=1), TIE)

    return DominanceResult(
        thresholds=thresholds,
        difference=found.mean,
        lower=found.mean - width,
        upper=found.mean + width,
        pvalue=pvalue(np.abs(observed), np.abs(found.flips)),
        pvalue_a_dominates=pvalue(observed, found.flips),
        pvalue_b_dominates=pvalue(-observed, -found.flips),
        confidence=confidence,
        n_samples=a.n_samples,
        n_resamples=n_resamples,
        name_a=name_a,
        name_b=name_b,
        **a.weighting,
    )


@shared_docs
def dominance_test(
    y_true: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    *,
    thresholds: ArrayLike | None = None,
    confidence: float = 0.95,
    n_resamples: int = 999,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> DominanceResult:
    r"""Test whether one model is better than another for every decision maker.

    A decision maker acts if the prediction is at least a threshold. A model dominates another one if its risk
    is not higher at any threshold; its mean score is then not higher for any proper score.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, n_labels)
        Labels of two or more classes; or an indicator matrix of zeros and ones for multilabel targets.
    predictions : mapping of str to array-like of shape (n,), (n, 1), (n, n_classes) or (n, n_labels)
        Names of two models, a and b, and their predicted probabilities for the same samples.
    thresholds : array-like of shape (m,), default=None
        Thresholds, at least 0 and less than 1. By default 0.01, 0.02, ..., 0.99.
    confidence : float, default=0.95
        Confidence level of the band, and of the verdicts.
    n_resamples : int, default=999
        Number of random swaps; at least 1 / (1 - ``confidence``) - 1.
    %(random_state)s
    %(inference_weight)s
    %(clusters)s
    %(pos_label)s
    %(reduction)s

    Returns
    -------
    DominanceResult
        Difference of risks with its band, and p-values.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    sklearn_calib.plot.MurphyDisplay : The risks over thresholds.
    sklearn_calib.plot.DecisionCurveDisplay : The same as net benefit.
    compare_models : Comparison by one metric.

    Notes
    -----
    Let :math:`d_i(t)` be the difference of the losses of sample i at threshold t, with the loss t of a false
    positive and 1 - t of a false negative (the elementary score [1]_), and m(t) the number of samples on
    which the decisions differ. The statistics are the maxima over thresholds of

    .. math:: T(t) = \frac{\sum_i d_i(t)}
              {\max\bigl(\sum_i d_i(t)^2,\; t (1 - t)\, m(t)\bigr)^{1/2}} ,

    of -T for the dominance of b, and of its absolute value for equality. In each resample the predictions of
    each sample change places with probability 1/2, which changes the sign of :math:`d_i` at all thresholds;
    its statistic is divided by the root of the first sum alone. The p-value is the fraction of resamples, the
    observed one included, with a statistic at least as large. It is valid for every n if such swaps do not
    change the distribution of the data, and asymptotically if the risks are equal at all thresholds. For the
    dominance hypotheses this is the least favorable case: the tests are conservative where the dominating
    model is better.

    The second term in the denominator keeps few samples at a threshold close to 0 or 1 from being significant
    as long as the rare outcome is missing. The band uses the quantile of the largest standardized deviation
    over thresholds, from random signs. docs/intervals.md has the details, also for weights and clusters.

    For more than two classes the loss of a sample is the mean over the classes (each against the rest), or
    that of the predicted class; of a multilabel target, the mean over the labels. "top-label" is the same
    as "confidence", because losses are averages.

    References
    ----------
    .. [1] W. Ehm, T. Gneiting, A. Jordan and F. Krüger (2016). Of quantiles and expectiles: consistent
       scoring functions, Choquet representations and forecast rankings. Journal of the Royal Statistical
       Society B 78.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import dominance_test
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> result = dominance_test(y, {"true": p, "squared": p**2})
    >>> result.pvalue_a_dominates > 0.5, result.pvalue_b_dominates < 0.01
    (True, True)
    """
    confidence = _validation.check_fraction(confidence, "confidence")
    n_resamples = _validation.check_resamples(n_resamples, confidence)
    generator = _validation.check_generator(random_state)
    _validation.check_option(reduction, "reduction", REDUCTIONS)
    tau = np.unique(check_thresholds(thresholds))
    samples = check_models(y_true, predictions, sample_weight, weights, clusters, pos_label, labels)
    if len(samples) > 2:
        raise ValueError(f"predictions must contain two models, got {len(samples)}. Pass two names.")
    a, b = (decisions_of(sample, reduction) for sample in samples)
    name_a, name_b = predictions
    return compare_decisions(a, b, tau, confidence, n_resamples, generator, name_a, name_b)
