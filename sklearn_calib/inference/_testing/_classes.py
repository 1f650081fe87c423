"""Multiclass and multilabel targets in a test of binary problems: one p-value, by the smallest of them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_calib import _validation
from sklearn_calib._core._clusters import clusters_of_classes
from sklearn_calib._core._grouping import EventLabels
from sklearn_calib._core._multiple import adjust_pvalues
from sklearn_calib._core._null import SharedLabels
from sklearn_calib._core._weights import written_out
from sklearn_calib._html import printable
from sklearn_calib._typing import Array
from sklearn_calib.metrics._reductions import multilabel_words, split_classes

#: Reductions of three or more classes.
REDUCTIONS = ("joint", "classwise", "confidence", "top-label")

# Labels of more samples are not simulated together.
_MOST_SIMULATED = 100_000
# Standardized statistics that differ by less are ties: more than the accuracy of any metric.
_TIE = 1e-4
# Smaller differences between values of the combined statistic are rounding errors.
_ROUNDING = 1e-9
# Statistics that are infinite count as this.
_LARGEST = 1e100
# Text shows more parts than this without all classes: only so many.
_MOST_PARTS, _FEWEST_CLASSES = 6, 3

_NULL = {
    "joint": "P(Y = k | p) = p_k for every class k",
    "classwise": "P(Y = k | p_k) = p_k for every class k",
    "confidence": "P(predicted class is right | confidence) = confidence",
    "top-label": "P(predicted class is right | it, confidence) = confidence",
    "multilabel": "P(Y_l = 1 | p_l) = p_l for every label l",
}


@dataclass(frozen=True)
class TestedPart:
    """One of the binary problems of a multiclass or multilabel target.

    Attributes
    ----------
    name : str
        "class a", "predicted class a", "label a", "mean over classes" or "confidence".
    label : object
        The class or label; None for the mean and for the confidence.
    statistic : float
        Its statistic; for the mean over classes that of standardized statistics.
    estimate : float
        Its calibration error; for the mean over classes the mean.
    pvalue : float
        Its p-value, if it were the only one.
    adjusted_pvalue : float
        The same, adjusted for all parts: the smallest one is the p-value of the test.
    """

    # the name would make pytest collect it
    __test__ = False

    name: str
    label: Any
    statistic: float
    estimate: float
    pvalue: float
    adjusted_pvalue: float

    def __str__(self) -> str:
        return printable(
            f"{self.name}: estimate {self.estimate:.4g}, p-value {self.pvalue:.4g}, "
            f"adjusted {self.adjusted_pvalue:.4g}"
        )


@dataclass(frozen=True, eq=False)
class _NamedProblem:
    """A binary problem: its name and label, its weight in means, and its samples."""

    name: str
    label: Any
    weight: float
    sample: _validation.BinarySample
    # indices of its samples, None for all
    members: NDArray[np.intp] | None = None


def part_lines(scales: tuple[Any, ...]) -> list[str]:
    """Return the parts of a result as lines of text, the worst first; none for a test of one problem."""
    parts = [part for part in scales if isinstance(part, TestedPart)]
    classes = [part for part in parts if part.label is not None]
    hidden = classes[_FEWEST_CLASSES:] if len(parts) > _MOST_PARTS else []
    lines = [str(part) for part in parts if part not in hidden]
    return lines + ([f"and {len(hidden)} others"] if hidden else [])


def test_parts(test: Any, sample: _validation.ClassSample) -> Any:
    """Return the result of a test of binary problems for multiclass targets, or labels if ``y`` has columns.

    Labels of classes are simulated once, so that the statistics of all parts have their joint distribution;
    labels of a multilabel problem are simulated independently.
    """
    multilabel = sample.y.ndim == 2
    if not multilabel:
        sample = sample.ordered()
    reduction = getattr(test, "reduction", "joint")
    if multilabel and reduction in ("confidence", "top-label"):
        raise ValueError(multilabel_words(reduction, "joint"))
    null_hypothesis = _NULL["multilabel" if multilabel else reduction]
    together = test._simulates_labels and (sample.clusters is not None or sample.total <= _MOST_SIMULATED)
    shares = together and not multilabel and reduction != "confidence"
    if shares and sample.w is not None and not sample.sampling:
        sample = replace(sample.take(repeated(sample)[0]), w=None)
    parts = list(_parts(sample, reduction))
    if shares:
        parts = _sharing_labels(parts, sample)
    if len(parts) == 1:
        return replace(test._test_sample(parts[0].sample), null_hypothesis=null_hypothesis)
    results = []
    seeds = np.zeros(len(parts), dtype=np.int64)
    if hasattr(test, "random_state"):
        generator = _validation.check_generator(test.random_state)
        seeds[:] = generator.integers(1 << 31, size=len(parts) if multilabel else 1)
    for part, seed in zip(parts, seeds.tolist(), strict=True):
        run = copy(test)
        run.random_state = seed
        if together and getattr(test, "method", "") == "auto":
            run.method = "monte_carlo"
        if hasattr(test, "n_resamples") and not test._simulates_labels:
            # the smallest p-value times their number is that of one part
            run.n_resamples = len(parts) * (test.n_resamples + 1) - 1
        results.append(run._test_sample(part.sample))
    with_mean = reduction in ("joint", "canonical") and not multilabel
    return _combined(parts, results, sample, null_hypothesis, together, with_mean)


def repeated(sample: _validation.BinarySample | _validation.ClassSample) -> tuple[NDArray[np.intp], Array]:
    """Return the index of each sample, as often as its frequency says, and sampling weights or ones."""
    if sample.w is None or sample.sampling:
        return np.arange(sample.y.shape[0]), sample.weights
    rows = written_out(sample.w)
    return rows, np.ones(rows.shape[0])


def _parts(sample: _validation.ClassSample, reduction: str) -> Iterator[_NamedProblem]:
    """Yield the binary problems of the classes or labels, and then that of the confidence."""
    labels = sample.classes.tolist()
    if sample.y.ndim == 2:
        for k, label in enumerate(labels):
            column = _validation.BinarySample(
                sample.y[:, k], sample.p[:, k], sample.w, clusters=sample.clusters, sampling=sample.sampling
            )
            yield _NamedProblem(f"label {label}", label, 1.0 / len(labels), column)
        return
    for kind in ("classwise", "confidence") if reduction == "joint" else (reduction,):
        problems = split_classes(sample.y, sample.p, kind, sample.w)
        for k, (weight, outcome, probability, members) in enumerate(problems):
            found, label, name = sample, labels[k], f"class {labels[k]}"
            if members is not None:
                found = sample.take(members)
                label = labels[int(found.p[0].argmax())]
                name = f"predicted class {label}"
            elif kind == "confidence":
                name, label = kind, None
            w = found.w / found.w.mean() if found.w is not None and found.sampling else found.w
            part = _validation.BinarySample(
                outcome, probability, w, clusters=found.clusters, sampling=found.sampling
            )
            yield _NamedProblem(name, label, weight, part, members)


def _sharing_labels(parts: list[_NamedProblem], sample: _validation.ClassSample) -> list[_NamedProblem]:
    """Return parts whose simulated events are those of the same labels."""
    clusters = None
    if sample.clusters is not None:
        clusters = clusters_of_classes(sample.y, sample.p, sample.clusters)
    labels, top = SharedLabels(sample.p, clusters), sample.p.argmax(axis=1)
    found = []
    for k, part in enumerate(parts):
        rows = np.arange(sample.y.shape[0]) if part.members is None else part.members
        event = np.full(rows.shape[0], k) if part.name.startswith("class ") else top[rows]
        events = EventLabels(labels, rows, event, np.arange(rows.shape[0]))
        found.append(replace(part, sample=replace(part.sample, events=events)))
    return found


def _combined(
    parts: list[_NamedProblem],
    results: list[Any],
    sample: _validation.ClassSample,
    null_hypothesis: str,
    together: bool,
    with_mean: bool,
) -> Any:
    """Return the smallest p-value of the parts as one test, exact if they are simulated ``together``."""
    n_parts, base = len(parts), results[0]
    estimate = sum(p.weight * r.estimate for p, r in zip(parts, results, strict=True) if p.label is not None)
    rows: list[tuple[Any, ...]] = [
        (part.name, part.label, r.statistic, r.estimate) for part, r in zip(parts, results, strict=True)
    ]
    known = [k for k, r in enumerate(results) if r.pvalue < 1.0 or r.null_distribution is not None]
    drawn = [results[k].null_distribution for k in known]
    null, sizes = None, np.array([float(_evidence(r, r.statistic)) for r in results])
    if together and known and all(v is not None and v.shape == drawn[0].shape for v in drawn):
        values = np.column_stack(
            [_evidence(r, np.append(r.statistic, r.null_distribution)) for r in (results[k] for k in known)]
        )
        # the statistic of a contradicted prediction is infinite
        values = np.minimum(values, _LARGEST)
        # of all rows, which are exchangeable; without the first one its z would be too large
        deviation = values.std(axis=0)
        deviation[deviation == 0.0] = np.inf
        z = (values - values.mean(axis=0)) / deviation
        classes = np.array([parts[k].label is not None for k in known])
        groups = [np.flatnonzero(classes), *np.flatnonzero(~classes)[:, np.newaxis]]
        if with_mean and classes.any():
            average = z[:, classes].mean(axis=1, keepdims=True)
            groups.append(np.array([z.shape[1]]))
            known.append(n_parts)
            z = np.hstack((z, average / (average.std() or np.inf)))
            rows.append(("mean over classes", None, float(average[0, 0]), estimate))
        pvalues, adjusted, sizes = np.ones(len(rows)), np.ones(len(rows)), np.full(len(rows), -np.inf)
        sizes[known] = z[0]
        pvalues[known], adjusted[known], null, statistic = _smallest(z, [g for g in groups if g.size])
        words = f"{null.shape[0]} simulations, smallest of {len(known)} p-values"
    else:
        pvalues = np.array([r.pvalue for r in results])
        adjusted, statistic = adjust_pvalues(pvalues), float(pvalues.min())
        words = f"{base.method}, Holm's correction for {n_parts} p-values"
    # among ties, that of the largest statistic
    order = np.lexsort((-sizes, pvalues, adjusted)).tolist()
    worst = order[0]
    reason = f"smallest p-value: {rows[worst][0]}" if known else "no information"
    if worst < n_parts and known and results[worst].reason:
        reason += f" ({results[worst].reason})"
    missing = [str(k) for k in sample.classes.tolist() if k not in {part.label for part in parts}]
    if missing:
        reason += f"; no sample has the predicted class {', '.join(missing)}"
    if base.n_clusters is not None and sample.clusters is not None:
        # the parts of predicted classes have some of the clusters
        n_clusters = int(sample.clusters.max()) + 1
        base = replace(base, n_clusters=n_clusters, n_effective=sample.total / base.design_effect)
    return replace(
        base,
        null_hypothesis=null_hypothesis,
        statistic=statistic,
        pvalue=float(adjusted[worst]),
        estimate=float(estimate),
        method=words,
        n_samples=round(sample.total),
        scales=tuple(TestedPart(*(*rows[k], float(pvalues[k]), float(adjusted[k]))) for k in order),
        null_distribution=null,
        reason=reason,
        tail="lower",
        asymptotic_null="",
    )


def _evidence(result: Any, values: Any) -> Any:
    """Return statistics of a test so that large ones are evidence against the null hypothesis."""
    if result.tail == "lower":
        return -values
    return np.abs(values) if result.tail == "two-sided" else values


def _smallest(z: Array, groups: list[NDArray[np.intp]]) -> tuple[Array, Array, Array, float]:
    """Return p-values of the columns of ``z``, adjusted ones, and the smallest one: null values, observed.

    The sample is the first row. The p-value of a row is its rank among all rows; that of a group of columns
    is the rank of their smallest p-value, and the same again for all groups, where ties go by z (min-p,
    Westfall and Young 1993). Rows are exchangeable under the null hypothesis, so that the level is exact.
    """
    n_rows, adjusted = z.shape[0], np.empty(z.shape[1])
    pvalues = np.column_stack([ranks(column, column, _TIE) for column in z.T])
    # a whole number, which decreases with the p-value, and a fraction below 1/2, which increases with z
    evidence = 0.4 * z / (1.0 + np.abs(z)) - np.rint(n_rows * pvalues)

    def ranked(largest: Array, values: Array) -> Array:
        """Return evidence whose p-value is the rank of ``values`` among the ``largest`` ones of a group."""
        out: Array = values - np.rint(values) - np.rint(n_rows * ranks(largest, values, _ROUNDING))
        return out

    largest = [evidence[:, group].max(axis=1) for group in groups]
    overall = np.max([ranked(values, values) for values in largest], axis=0)
    for group, values in zip(groups, largest, strict=True):
        # what the group, and then the test, had returned if the column were the smallest
        adjusted[group] = ranks(overall, ranked(values, evidence[0, group]), _ROUNDING)
    # where p-values are tied, z must not make a value less than that of the test, or than its own p-value
    adjusted = np.maximum(np.maximum(adjusted, ranks(overall, overall[0], _ROUNDING)), pvalues[0])
    least = -np.rint(overall) / n_rows
    return pvalues[0], adjusted, least[1:], float(least[0])


def ranks(values: Array, observed: Array, slack: float) -> Array:
    """Return the fraction of ``values`` that reach each of ``observed``; up to ``slack`` are ties."""
    found = values.shape[0] - np.searchsorted(np.sort(values), observed - slack)
    out: Array = found / values.shape[0]
    return out
