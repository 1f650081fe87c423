"""Segments of the samples, described by features, in which predictions are too high or too low."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, csr_array

from sklearn_calib import _validation
from sklearn_calib._core._clusters import cluster_words, clusters_of_classes
from sklearn_calib._core._columns import Column, Scale, value_text
from sklearn_calib._core._grouping import GroupedOutcomes, as_sampled, weight_fields, weight_words
from sklearn_calib._core._links import logit
from sklearn_calib._core._null import draw_positives, monte_carlo_pvalue, sample_labels, tail_rank
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import (
    number_text,
    printable,
    printable_lines,
    pvalue_text,
    pvalue_words,
    result_html,
    text_html,
)
from sklearn_calib._typing import Array, Weights
from sklearn_calib.inference._comparison import aligned
from sklearn_calib.inference._testing._classes import repeated
from sklearn_calib.metrics._reductions import REDUCTIONS, Reduction, check_problem, class_samples, two_columns

if TYPE_CHECKING:
    import pandas as pd

# Bins of a numerical feature, and largest number of categories that are segments.
_BINS, _MOST_CATEGORIES = 5, 100
# Smallest number of samples in a segment, and of information, sum p (1 - p).
_LEAST_SAMPLES, _LEAST_INFORMATION = 50.0, 10.0
# Largest number of segments that a search reports.
_MOST_FOUND = 20
# Simulations at a time, their largest number of outcomes, that of which cumulative sums are computed,
# segments at a time, and samples of the tables that are added up at once.
_AT_ONCE, _MOST_ELEMENTS, _CACHED, _SEGMENTS, _STACKED = 256, 1 << 24, 1 << 18, 1024, 1 << 14
# Standardized differences that differ by less are ties: sums of simulations are in single precision.
_TIE = 1e-4


def _named(result: Any) -> str:
    return printable(result.segment if result.label is None else f"class {result.label}: {result.segment}")


@dataclass(frozen=True)
class Segment:
    """Predictions and outcomes of some of the samples.

    Attributes
    ----------
    segment : str
        The samples, in words, such as ``"age <= 25 and sex = F"``.
    label : object
        The class, for the reduction "classwise" of a multiclass problem; else None.
    n_samples : float
        Number of samples; frequencies count.
    observed, predicted : float
        Event frequency and mean prediction, weighted if there are sampling weights.
    difference : float
        ``observed`` minus ``predicted``: positive if predictions are too low.
    lower, upper : float
        Simultaneous confidence interval of the difference.
    z : float
        Sum of residuals divided by its standard deviation under perfect calibration.
    adjusted_pvalue : float
        p-value, adjusted for all segments that were tested.
    """

    segment: str
    label: Any
    n_samples: float
    observed: float
    predicted: float
    difference: float
    lower: float
    upper: float
    z: float
    adjusted_pvalue: float

    def __str__(self) -> str:
        return _named(self)


@shared_docs
@dataclass(frozen=True)
class SegmentsResult:
    """Segments in which predictions are too high or too low.

    Attributes
    ----------
    segments : tuple of Segment
        The distinct significant segments of a search, or all bins and categories of the given columns, in
        decreasing order of abs(z).
    pvalue : float
        p-value of the hypothesis that predictions are calibrated in every segment that was tested.
    n_tested : int
        Number of segments that were tested; of a multiclass problem, of segments and classes.
    searched : bool
        Whether segments were searched for, or given.
    left_out : dict
        Columns that have no segment, and the reason.
    confidence : float
        Confidence level of the intervals together.
    n_samples : float
        Number of samples; frequencies count.
    n_resamples : int
        Number of simulations.
    %(dependence)s
    """

    segments: tuple[Segment, ...]
    pvalue: float
    n_tested: int
    searched: bool
    left_out: dict[str, str]
    confidence: float
    n_samples: float
    n_resamples: int
    n_clusters: int | None = None
    design_effect: float | None = None
    n_effective: float | None = None
    weight_spread: float | None = None
    weights: str | None = field(default=None, compare=False)

    def to_frame(self) -> pd.DataFrame:
        """Return the segments as a data frame of pandas."""
        import pandas as pd

        rows = [asdict(row) for row in self.segments]
        return pd.DataFrame(rows, columns=list(Segment.__dataclass_fields__))

    @property
    def _finding(self) -> str:
        """What was found, in words."""
        if not self.n_tested:
            least = f"{_LEAST_SAMPLES:g} samples and sum p (1 - p) of at least {_LEAST_INFORMATION:g}"
            return f"nothing tested: no segment has {least}"
        plural = "s"[: self.n_tested != 1]
        tested = f"{self.n_tested:,} segment{plural} tested, smallest adjusted {pvalue_words(self.pvalue)}"
        number, plural = len(self.segments), "s"[: len(self.segments) != 1]
        found = f"{number} segment{plural} miscalibrated" if number else "no evidence of miscalibration"
        return f"{found} ({tested})" if self.searched else tested

    def _table(self) -> list[list[str]]:
        """Return the names of columns and the segments as texts."""
        rows = [["segment", "n", "observed", "predicted", "difference"]]
        rows[0] += ["adjusted p", f"{100 * self.confidence:g}% interval"]
        for row in self.segments:
            numbers = f"{row.n_samples:,.0f}", f"{row.observed:.4f}", f"{row.predicted:.4f}"
            ends = pvalue_text(row.adjusted_pvalue), f"[{row.lower:+z.4f}, {row.upper:+z.4f}]"
            rows.append([str(row), *numbers, f"{row.difference:+z.4f}", *ends])
        return rows

    def _facts(self) -> list[tuple[str, str]]:
        """Return what else is to be said of the result, as pairs of texts."""
        columns = "; ".join(f"{name} ({reason})" for name, reason in self.left_out.items())
        note = "intervals hold for all tested segments together; the largest differences are overestimated"
        pairs = [("note", note * bool(self.segments)), ("columns left out", columns), *_support(self)]
        return [(name, text) for name, text in pairs if text]

    def __str__(self) -> str:
        lines = ["", *aligned(self._table()), ""] if self.segments else []
        return printable_lines([self._finding, *lines, *(f"{name}: {text}" for name, text in self._facts())])

    def _repr_html_(self) -> str:
        facts = [("finding", self._finding), *self._facts()]
        return result_html("segments", facts, [("segments", self.segments)], unfolded=True)


@shared_docs
@dataclass(frozen=True)
class MulticalibrationResult:
    """Largest calibration error of several segments, in standard deviations.

    Attributes
    ----------
    value : float
        ``statistic`` times the standard deviation of the mean residual of all samples.
    expected : float
        Mean of ``value`` under perfect calibration.
    statistic : float
        Largest cutoff error of a segment, divided by its standard deviation under perfect calibration.
    pvalue : float
        p-value of the hypothesis that predictions are calibrated in every segment that was tested.
    segment : str
        Where it is the largest, in words.
    label : object
        The class, for the reduction "classwise" of a multiclass problem; else None.
    n_tested : int
        Number of segments that were tested; of a multiclass problem, of segments and classes.
    n_samples : float
        Number of samples; frequencies count.
    n_resamples : int
        Number of simulations.
    %(dependence)s
    """

    value: float
    expected: float
    statistic: float
    pvalue: float
    segment: str
    label: Any
    n_tested: int
    n_samples: float
    n_resamples: int
    n_clusters: int | None = None
    design_effect: float | None = None
    n_effective: float | None = None
    weight_spread: float | None = None
    weights: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        pairs = [
            ("error", f"{number_text(self.value)}, {self.statistic:.2f} standard deviations"),
            ("expected", f"{number_text(self.expected)} under perfect calibration"),
            ("p-value", pvalue_text(self.pvalue)),
            ("largest in", f"{_named(self)} ({self.n_tested:,} segments tested)"),
            *_support(self),
        ]
        lines = [f"  {name:<12}{text}" for name, text in pairs if text]
        return printable_lines(["multicalibration error", *lines])

    _repr_html_ = text_html


def _support(result: Any) -> list[tuple[str, str]]:
    """Return the size of a sample, its weights and clusters, in words."""
    size = f"{result.n_samples:,.0f}, {result.n_resamples} simulations"
    return [("n", size), ("weights", weight_words(result)), ("clusters", cluster_words(result))]


class _Column(NamedTuple):
    """A feature: the bin of each sample, and its segments: sets of bins, (segments, bins), and words."""

    codes: NDArray[np.integer[Any]]
    masks: NDArray[np.bool_]
    words: list[str]


def _bins(name: str, column: Column, halves: bool) -> _Column | str:
    """Return the bins of a feature, or why it has none; with half-lines if ``halves``."""
    missing = bool(column.missing.any())
    if column.missing.all():
        return "all values are missing"
    values, scale = np.unique(column.known), Scale.of(column, _BINS, _MOST_CATEGORIES, _LEAST_SAMPLES)
    k, edges = scale.size, scale.edges
    if k == 0:
        return f"{values.shape[0]:,} categories, none with {_LEAST_SAMPLES:g} samples"
    single = k == values.shape[0] and column.kind != "categories"
    if column.kind == "numbers" and not single and (edges != np.round(edges)).any():
        # short numbers, if they are still distinct
        short = np.unique([float(f"{edge:.4g}") for edge in edges])
        scale = replace(scale, edges=short if short.shape[0] == k - 1 else edges)
    found, codes = np.unique(scale.codes(column), return_inverse=True)
    if found.shape[0] == 1:
        return "constant"
    digits = 4 if column.kind == "durations" else 15
    ends = values if single else scale.edges
    text = scale.labels or [value_text(end, column.kind, digits) for end in ends.tolist()]
    if column.kind == "categories" or single:
        words = [f"{name} = {value}" for value in text]
    else:
        middle = [f"{low} < {name} <= {high}" for low, high in pairwise(text)]
        words = [f"{name} <= {text[0]}", *middle, f"{name} > {text[-1]}"]
    masks = np.eye(k, dtype=bool)
    if halves and k > 2 and column.kind != "categories":
        below = np.tri(k, dtype=bool)
        masks = np.vstack((masks, below[1 : k - 1], ~below[: k - 2]))
        words += [f"{name} <= {edge}" for edge in text[1 : k - 1]] + [
            f"{name} > {edge}" for edge in text[: k - 2]
        ]
    if missing:
        words += [f"{name} missing"]
    # bins, others and missing values, of which those without samples are left out
    masks = np.pad(masks, ((0, missing), (0, 2)))
    masks[-1, -1] |= missing
    return _Column(codes.astype(np.int16), masks[:, found], words)


class _CrossTable(NamedTuple):
    """The cells of two features, codes left * width + right; segments are sets of them, (segments, cells).

    ``pairs`` are the segments of the features, left * (number of right ones) + right.
    """

    left: _Column
    right: _Column
    pairs: NDArray[np.intp]
    sets: Any

    @property
    def cells(self) -> NDArray[np.int32]:
        """The cell of each sample."""
        return self.left.codes.astype(np.int32) * self.right.masks.shape[1] + self.right.codes

    def word(self, k: int) -> str:
        """Return segment k in words."""
        one, other = divmod(int(self.pairs[k]), len(self.right.words))
        return " and ".join(filter(None, (self.left.words[one], self.right.words[other])))


def _tables(columns: list[_Column], pairs: bool, n_samples: int) -> list[_CrossTable]:
    """Return the tables of all samples, of each feature, and of all pairs of features if ``pairs``.

    Segments of too few samples are left out.
    """
    one = _Column(np.zeros(n_samples, dtype=np.int16), np.ones((1, 1), dtype=bool), [""])
    chosen = [(one._replace(words=["all samples"]), one), *((column, one) for column in columns)]
    tables: list[_CrossTable] = []
    for a, b in [*chosen, *(combinations(columns, 2) if pairs else ())]:
        table = _CrossTable(a, b, np.arange(0), None)
        shape = a.masks.shape[1], b.masks.shape[1]
        number = np.bincount(table.cells, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
        kept = np.flatnonzero((a.masks @ number @ b.masks.T >= _LEAST_SAMPLES) | (not tables))
        if kept.size:
            left, right = np.divmod(kept, len(b.masks))
            sets = a.masks[left, :, np.newaxis] & b.masks[right, np.newaxis]
            sets = csr_array(sets.reshape(kept.size, -1), dtype=np.float32)
            tables.append(table._replace(pairs=kept, sets=sets))
    return tables


def _by_table(tables: list[_CrossTable], values: Array) -> list[Array]:
    """Return the values of the segments of each table."""
    return np.split(values, np.cumsum([table.pairs.size for table in tables[:-1]]))


def _sums(tables: list[_CrossTable], values: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of ``values``, (n, r), over each segment, (segments, r)."""
    n, found = values.shape[0], []
    step = max(1, _STACKED // n)
    for some in (tables[first : first + step] for first in range(0, len(tables), step)):
        ends = np.cumsum([0, *(table.sets.shape[1] for table in some)])
        cells = np.stack([table.cells for table in some], axis=1) + ends[:-1].astype(np.int32)
        starts, ones = len(some) * np.arange(n + 1, dtype=np.int32), np.ones(cells.size, dtype=values.dtype)
        sums = csc_array((ones, cells.ravel(), starts), (ends[-1], n)) @ values
        found += [t.sets @ sums[first:last] for t, (first, last) in zip(some, pairwise(ends), strict=True)]
    return np.concatenate(found)


def _ranges(tables: list[_CrossTable], outcomes: NDArray[Any], p: Array, weight: Array | None) -> Array:
    """Return the range of cumulative residuals, by increasing p, in each segment, for outcomes (n, r).

    Segments are single cells. The sums are those up to and including all samples of a prediction.
    """
    order, found = np.argsort(p, kind="stable"), []
    events = np.ascontiguousarray((outcomes if weight is None else weight[:, np.newaxis] * outcomes).T)
    kind: Any = np.int32 if weight is None else np.float64
    expected = p if weight is None else weight * p
    for table in tables:
        # 16 bits are sorted fast
        row = order[np.argsort(table.cells[order].astype(np.int16), kind="stable")]
        cells, last = table.cells[row], np.append(np.diff(p[row]) > 0, True)
        last[:-1] |= np.diff(cells) > 0
        starts, total = np.flatnonzero(np.diff(cells[last], prepend=-1)), np.cumsum(expected[row])
        of_cells = np.zeros((table.sets.shape[1], events.shape[0]))
        # some rows at a time stay in the cache
        for rows in np.array_split(np.arange(events.shape[0]), -(-events.size // _CACHED)):
            sums = np.cumsum(events[rows].take(row, axis=1), axis=1, dtype=kind) - total
            sums = sums if last.all() else sums[:, last]
            before = np.pad(sums[:, starts[1:] - 1], ((0, 0), (1, 0)))
            reach = np.maximum(np.maximum.reduceat(sums, starts, axis=1), before)
            reach -= np.minimum(np.minimum.reduceat(sums, starts, axis=1), before)
            of_cells[np.ix_(cells[last][starts], rows)] = reach.T
        found.append(table.sets @ of_cells)
    return np.concatenate(found)


class _Problem:
    """A binary problem: weighted sums of residuals over segments, and their variance under calibration.

    The variance is sum w^2 v, v = p (1 - p), and infinite for segments that are not tested. With sampling
    weights w it is that of predictions which are calibrated in the weighted population: w^2 v is replaced by
    w^2 v + w (w - c) (1 - 2 p) (r - v x' beta), see ``VarianceRatio``. In that population w (1 - 2 p) r has
    the mean 0, so that c can be the mean weight, and weights that are nearly equal have little influence.
    """

    def __init__(self, tables: list[_CrossTable], label: Any, sample: _validation.BinarySample) -> None:
        self.tables, self.label, self.p, p = tables, label, sample.p, sample.p
        self.sampling, self.v, self.w = sample.sampling, p * (1.0 - p), sample.weights
        columns = np.ones_like(p), self.w, self.w * p, self.w * self.v, self.w**2 * self.v
        self.number, mass, predicted, weighted, variance = _sums(tables, np.column_stack(columns)).T
        information = weighted**2 / np.maximum(variance, 1e-300)
        tested = (self.number >= _LEAST_SAMPLES) & (information >= _LEAST_INFORMATION)
        # of sets of all samples the first alone
        tested[1:] &= self.number[1:] < self.number[0]
        tested[0] |= tested.any()
        self.variance = np.where(tested, variance, np.inf)
        self.mass = np.maximum(mass, 1e-300)
        self.predicted = predicted / self.mass
        self.x = np.stack((np.ones_like(p), logit(p)))
        self.step = np.linalg.pinv((self.w * self.v * self.x) @ self.x.T, hermitian=True) @ (self.w * self.x)
        self.y = sample.y[:, np.newaxis]
        residuals = self.residuals(self.y)
        self.sum, self.scale = self.sums(residuals)[:, 0], self.deviation(residuals)[:, 0]

    def residuals(self, outcomes: NDArray[Any]) -> NDArray[Any]:
        """Return outcomes minus predictions, (n, r), in single precision in simulations without weights."""
        single = outcomes.dtype == bool and not self.sampling
        kind = np.float32 if single else np.float64
        # samples one after the other, as sparse products need them
        return np.subtract(outcomes, self.p[:, np.newaxis].astype(kind), order="C")

    def deviation(self, residuals: NDArray[Any]) -> Array:
        """Return the standard deviation of the sum of residuals over each segment, (segments, 1 or r)."""
        variance = self.variance[:, np.newaxis]
        if self.sampling:
            removed = residuals - (self.v * self.x).T @ (self.step @ residuals)
            # w - c
            spread = self.w - (self.w**2 @ self.v) / (self.w @ self.v)
            change = _sums(self.tables, (self.w * spread * (1.0 - 2.0 * self.p))[:, np.newaxis] * removed)
            variance = np.maximum(variance + change, variance / 4.0)
        return np.sqrt(variance)

    def sums(self, residuals: NDArray[Any]) -> Array:
        """Return the weighted sum of residuals over each segment."""
        return _sums(self.tables, self.w[:, np.newaxis] * residuals if self.sampling else residuals)

    def standardized(self, outcomes: NDArray[Any], residuals: NDArray[Any]) -> NDArray[Any]:
        """Return the absolute sums over their standard deviations."""
        found = self.sums(residuals)
        np.divide(found, self.deviation(residuals), out=found, casting="same_kind")
        return np.abs(found, out=found)

    def relative_ranges(self, outcomes: NDArray[Any], residuals: NDArray[Any]) -> Array:
        """Return the ranges of cumulative weighted residuals over the standard deviations of the sums."""
        weight = self.w if self.sampling else None
        return _ranges(self.tables, outcomes, self.p, weight) / self.deviation(residuals)

    def parts(self) -> list[_Problem]:
        """Return the problem by some of the tested segments at a time, so that sums stay in the cache."""
        found: list[_Problem] = []
        size = _SEGMENTS
        for table, variance in zip(self.tables, _by_table(self.tables, self.variance), strict=True):
            rows = np.flatnonzero(np.isfinite(variance) | (table is self.tables[0]))
            if rows.size == 0:
                continue
            if size >= _SEGMENTS:
                found.append(copy(self))
                found[-1].tables, found[-1].variance, size = [], variance[:0], 0
            part, size = found[-1], size + rows.size
            part.tables.append(table if rows.size == variance.size else table._replace(sets=table.sets[rows]))
            part.variance = np.append(part.variance, variance[rows])
        return found


def feature_columns(X: Any, name: str, n_samples: int, segments: Any = None) -> dict[str, Column]:
    """Return the columns of features by name, those that ``segments`` names, or all."""
    table = _chosen(_validation.table_columns(X, name, single=True), segments)
    columns = {key: _validation.read_column(*pair) for key, pair in table.items()}
    for column in columns.values():
        _validation.check_length(column.name, column.missing.shape[0], "y_true", n_samples)
    return columns


def _chosen(columns: dict[str, Any], segments: Any) -> dict[str, Any]:
    """Return the columns that ``segments`` names, or gives the positions of where there is no such name."""
    if segments is None:
        return columns
    if not isinstance(segments, Iterable | int):
        raise TypeError(f"segments must be a column or a sequence of columns of X, got {segments!r}.")
    names, chosen = list(columns), {}
    for key in [segments] if isinstance(segments, str | int) else segments:
        name = str(key)
        if name not in columns and isinstance(key, int | np.integer) and 0 <= key < len(names):
            name = names[key]
        if name not in columns:
            raise ValueError(f"segments contains {key!r}, which X has no column of. Its columns are {names}.")
        chosen[name] = columns[name]
    return chosen


class _Study:
    """Checked samples, their segments, and simulations of the outcomes."""

    def __init__(
        self, X: Any, given: Any, sample_weight: Any, segments: Any, halves: bool, reduction: str
    ) -> None:
        _validation.check_option(reduction, "reduction", REDUCTIONS)
        if isinstance(given, list):
            raise ValueError("y_true has one column per label (multilabel). Pass one label at a time.")
        kept = np.ones(given.y.shape[0], dtype=bool)
        if sample_weight is not None:
            kept = _validation.as_array(sample_weight, "sample_weight") > 0
        columns = feature_columns(X, "X", kept.shape[0], segments)
        # frequencies are repeated samples
        index, _ = repeated(given)
        rows = np.flatnonzero(kept)[index]
        columns = {name: column.take(rows) for name, column in columns.items()}
        counts = given.w is not None and not given.sampling
        self.sample = as_sampled(replace(given.take(index), w=None) if counts else given)
        if reduction != "classwise":
            several = isinstance(self.sample, _validation.ClassSample)
            whole = self.sample if several else replace(self.sample, p=two_columns(self.sample.p))
            self.sample = class_samples(whole, "confidence")[0]
            if reduction == "top-label":
                names = whole.classes if several else np.array(["negative", "positive"])
                if "predicted class" in columns:
                    raise ValueError(
                        "X has a column 'predicted class', as reduction='top-label' has. Rename it."
                    )
                predicted = _validation.read_column(names, "labels", parse=False)
                columns["predicted class"] = _validation.categorical(predicted).take(whole.p.argmax(axis=1))
        found = {name: _bins(name, column, halves) for name, column in columns.items()}
        self.left_out = {name: reason for name, reason in found.items() if isinstance(reason, str)}
        bins = [column for column in found.values() if isinstance(column, _Column)]
        # simulated outcomes do not depend on the order of the rows
        p, w, code = self.sample.p, self.sample.weights, self.sample.clusters
        keys = [self.sample.y, w, w if code is None else code, *(column.codes for column in bins)]
        order = np.lexsort([*keys, *np.atleast_2d(p.T)])
        self.sample = self.sample.take(order)
        bins = [column._replace(codes=column.codes[order]) for column in bins]
        self.tables = _tables(bins, segments is None, self.sample.y.shape[0])
        if isinstance(self.sample, _validation.ClassSample):
            parts = zip(self.sample.classes.tolist(), class_samples(self.sample, "classwise"), strict=True)
            self.problems = [_Problem(self.tables, label, part) for label, part in parts]
        else:
            self.problems = [_Problem(self.tables, None, self.sample)]
        self.tested = np.isfinite([each.variance for each in self.problems])
        code = self.sample.clusters
        self.clusters = None if code is None else clusters_of_classes(self.sample.y, self.sample.p, code)
        self.facts = {
            "n_tested": int(self.tested.sum()),
            "n_samples": float(self.sample.y.shape[0]),
            **weight_fields(given, self.clusters, self.sample.p),
        }

    def largest(
        self,
        statistic: Callable[[_Problem, NDArray[Any], NDArray[Any]], NDArray[Any]],
        n_resamples: int,
        random_state: Any,
    ) -> Array:
        """Return the largest statistic over all segments and problems in simulations Y* ~ p."""
        sample, generator = self.sample, _validation.check_generator(random_state)
        simulated: Iterator[Any]
        if isinstance(sample, _validation.ClassSample):
            labels = sample_labels(sample.p, n_resamples, generator, self.clusters)
            simulated = ([np.equal(found.T, k) for k in range(len(self.problems))] for found in labels)
        else:
            ones = np.ones_like(sample.p)
            grouped = GroupedOutcomes(sample.p, ones, sample.y, self.clusters)
            most = min(_AT_ONCE * ones.shape[0], _MOST_ELEMENTS)
            simulated = ([found] for found in draw_positives(grouped, n_resamples, generator, most))
        found, problems = [], [each.parts() for each in self.problems]
        for outcomes in simulated:
            largest = np.zeros(outcomes[0].shape[1])
            for parts, y in zip(problems, outcomes, strict=True):
                residuals = parts[0].residuals(y)
                for one in parts:
                    np.maximum(largest, statistic(one, y, residuals).max(axis=0), out=largest)
            found.append(largest)
        return np.concatenate(found)

    def place(self, k: int) -> tuple[_CrossTable, int]:
        """Return the table of segment k, and its row there."""
        for table in self.tables:
            if k < table.pairs.size:
                break
            k -= table.pairs.size
        return table, k

    def members(self, k: int) -> NDArray[np.bool_]:
        """Return which samples are in segment k."""
        table, row = self.place(k)
        inside = np.zeros(table.sets.shape[1], dtype=bool)
        inside[table.sets[[row]].indices] = True
        return inside[table.cells]

    def word(self, k: int) -> str:
        """Return segment k in words."""
        table, row = self.place(k)
        return table.word(row)


def _distinct(study: _Study, z: Array, critical: float) -> list[tuple[int, int]]:
    """Return problems and segments that are significant, also without the miscalibration of those before.

    The largest abs(z) comes first. Then the residuals of its samples are reduced by v sum(w r) / sum(w v),
    so that their sum is 0, and the z of all segments are computed again. A segment which overlaps with one
    that was found is thus found only if it has miscalibration of its own, in the same direction.
    """
    found: list[tuple[int, int]] = []
    # only the tables that have a significant segment
    some = [bool((np.abs(each) > critical).any()) for each in _by_table(study.tables, z.T)]
    tables = [table for table, has in zip(study.tables, some, strict=True) if has]
    index = np.flatnonzero(np.repeat(some, [table.pairs.size for table in study.tables]))
    z = z[:, index]
    left, residuals = z.copy(), [each.residuals(each.y) for each in study.problems]
    while tables and len(found) < _MOST_FOUND:
        # of segments with the same samples the first, which is described by fewer features
        own = np.round(np.where(np.abs(z) > critical, left * np.sign(z), 0.0), 6)
        t, k = map(int, np.unravel_index(own.argmax(), own.shape))
        if own[t, k] <= critical:
            break
        found.append((t, int(index[k])))
        each, inside, r = study.problems[t], study.members(found[-1][1]), residuals[t]
        v, w = each.v[inside, np.newaxis], each.w[inside]
        r[inside] -= v * (w @ r[inside]) / (w @ v)
        left[t] = _sums(tables, each.w[:, np.newaxis] * r)[:, 0] / each.scale[index]
    return found


@shared_docs
def find_segments(
    X: Any,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    segments: Sequence[str | int] | str | None = None,
    confidence: float = 0.95,
    n_resamples: int = 999,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> SegmentsResult:
    r"""Find segments of the samples in which predictions are too high or too low, or test given ones.

    Predictions can be calibrated on average and biased for some of the samples, such as young customers of
    one region. All bins, half-lines and categories of each feature, and all pairs of these, are tested
    together, so that a perfectly calibrated model has a segment reported with probability
    1 - ``confidence`` only.

    Parameters
    ----------
    X : data frame, mapping of str to array-like, or array-like of shape (n,) or (n, n_features)
        Features; they need not be those of the model. Numbers, dates and durations, also as text, are divided
        into five bins of equal numbers of samples, or into their values if there are at most five; others,
        and columns of a categorical type, are categories (docs/inputs.md). Missing values are a category of
        their own. Columns of arrays are called x0, x1, ...
    y_true : array-like of shape (n,)
        Labels of two or more classes.
    y_proba : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes)
        Predicted probabilities of samples that the model was not fitted to: of the positive class (of two
        columns the last is used), or of three or more classes in sorted order.
    segments : column or sequence of columns of ``X``, default=None
        Names, or else positions, of columns whose bins and categories are the segments, all of which are
        returned. Then there is no search, and no pair.
    confidence : float, default=0.95
        Confidence level, in (0, 1), of all intervals together. Segments with an adjusted p-value of at most
        1 - ``confidence`` are found.
    n_resamples : int, default=999
        Number of simulations, at least 1 / (1 - ``confidence``) - 1.
    %(random_state)s
    %(inference_weight)s
    %(clusters)s
    %(pos_label)s
    reduction : {"classwise", "confidence", "top-label"}, default="classwise"
        How multiclass predictions are evaluated. "classwise": each class against the rest, all of them
        together; "confidence": the largest probability as a forecast that its class is the right one;
        "top-label": the same, with the predicted class as another feature.
    %(labels)s

    Returns
    -------
    SegmentsResult
        The segments, with simultaneous intervals of the difference and adjusted p-values.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    multicalibration_error : The largest calibration error of all segments.
    sklearn_calib.plot.SegmentsDisplay : The result as a plot.

    Notes
    -----
    With residuals :math:`r_i = y_i - p_i` and variances :math:`v_i = p_i (1 - p_i)`, a segment S has

    .. math:: z_S = \sum_{i \in S} w_i r_i \Bigm/ \sqrt{\sum_{i \in S} w_i^2 v_i} .

    Segments of at least 50 samples and :math:`(\sum w v)^2 / \sum w^2 v \ge 10` are tested, and all samples
    together. Of a feature with more categories, the 100 most frequent ones are. Outcomes are simulated from
    the predictions, and the largest :math:`|z|` over all segments is computed in each simulation. The
    adjusted p-value of a segment is (1 + #{max abs(z*) >= abs(z_S)}) / (1 + ``n_resamples``) (single-step
    max-T [1]_). With sampling weights, the variance is that of predictions that are calibrated in the
    weighted population; weights that depend on the outcome alone are corrected for in the predictions, so
    that frequencies, predictions and differences are those among the samples as they were drawn.

    A miscalibrated segment makes many that overlap with it significant. Distinct ones are returned: after the
    largest :math:`|z|`, residuals of its samples are shifted to a sum of 0, and another segment is added
    only if it is still significant, in the same direction. At most 20 are returned.

    The interval of a difference is Wilson's, with the variance of the test and the quantile of the simulated
    maxima instead of a normal one. It contains 0 if and only if the segment is not significant, and holds
    for all tested segments together, also for those that were chosen because their differences are
    large. The estimated difference of a segment that was found is too large on average.

    Cost: each simulation computes the sums of all pairs of features, O(n d^2) for d features. A million
    samples with ten features take about half a minute and 220 MB, with ``segments`` a third of the time, and
    1500 samples with 200 features half a minute (``benchmarks/segments_power.py --time``).

    References
    ----------
    .. [1] P. H. Westfall and S. S. Young (1993). Resampling-based multiple testing. Wiley.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import find_segments
    >>> rng = np.random.default_rng(0)
    >>> age, region = rng.integers(18, 80, 5000), rng.choice(["north", "south"], 5000)
    >>> p = rng.uniform(0.1, 0.5, 5000)
    >>> y = rng.random(5000) < p + 0.2 * ((age <= 30) & (region == "south"))
    >>> result = find_segments({"age": age, "region": region}, y, p)
    >>> [row.segment for row in result.segments]
    ['age <= 30 and region = south']
    """
    confidence = _validation.check_fraction(confidence, "confidence")
    _validation.check_resamples(n_resamples, confidence)
    given = check_problem(y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights)
    study = _Study(X, given, sample_weight, segments, segments is None, reduction)
    draws = study.largest(_Problem.standardized, n_resamples, random_state)
    critical = float(np.sort(draws)[n_resamples - tail_rank(n_resamples, 1.0 - confidence)]) + _TIE
    z = np.array([each.sum / each.scale for each in study.problems])
    chosen = _distinct(study, z, critical) if segments is None else np.argwhere(study.tested).tolist()
    rows = [_segment(study, t, k, critical, draws) for t, k in chosen]
    return SegmentsResult(
        segments=tuple(sorted(rows, key=lambda row: -abs(row.z))),
        pvalue=monte_carlo_pvalue(float(np.abs(z).max()), draws, _TIE),
        searched=segments is None,
        left_out=study.left_out,
        confidence=confidence,
        n_resamples=n_resamples,
        **study.facts,
    )


def _segment(study: _Study, t: int, k: int, critical: float, draws: Array) -> Segment:
    """Return segment k, with Wilson's interval of its difference.

    With prediction m, observed frequency o and variance V of o - m under calibration, the limits m + d solve
    (o - q)^2 = g q (1 - q), q = m + d, with g = c^2 V / (m (1 - m)): d = 0 lies inside if abs(z) <= c.
    """
    each = study.problems[t]
    m, difference = float(each.predicted[k]), float(each.sum[k] / each.mass[k])
    o, z = m + difference, float(each.sum[k] / each.scale[k])
    g = float((critical * each.scale[k] / each.mass[k]) ** 2 / (m * (1.0 - m)))
    half = np.sqrt(max(g * o * (1.0 - o) + g**2 / 4.0, 0.0))
    lower, upper = (float((o + g / 2.0 + sign * half) / (1.0 + g) - m) for sign in (-1.0, 1.0))
    numbers = difference, lower, upper, z, monte_carlo_pvalue(abs(z), draws, _TIE)
    return Segment(study.word(k), each.label, float(each.number[k]), o, m, *numbers)


@shared_docs
def multicalibration_error(
    X: Any,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    segments: Sequence[str | int] | str | None = None,
    n_resamples: int = 999,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    sample_weight: ArrayLike | None = None,
    weights: Weights = "sampling",
    clusters: ArrayLike | None = None,
    pos_label: Any = None,
    reduction: Reduction = "classwise",
    labels: ArrayLike | None = None,
) -> MulticalibrationResult:
    r"""Compute the largest calibration error of all segments, and its value under perfect calibration.

    A segment is miscalibrated if predictions are too high or too low in some interval of predictions, even if
    they are right on average: :func:`find_segments` compares averages. The error is that of [1]_; p-value and
    expected value account for all segments.

    Parameters
    ----------
    X, y_true, y_proba
        As in :func:`find_segments`.
    segments : column or sequence of columns of ``X``, default=None
        Names or positions of columns whose bins and categories are the segments. By default those of all
        columns, and of all pairs of columns; there are no half-lines.
    n_resamples : int, default=999
        Number of simulations.
    %(random_state)s
    %(inference_weight)s
    %(clusters)s
    %(pos_label)s
    reduction : {"classwise", "confidence", "top-label"}, default="classwise"
        As in :func:`find_segments`; "classwise" is the largest error of all classes.
    %(labels)s

    Returns
    -------
    MulticalibrationResult
        The error, its expected value under perfect calibration, p-value and segment; NaN with a p-value of 1
        if no segment has enough samples.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    sklearn_calib.metrics.cutoff_calibration_error : The error of all samples.

    Notes
    -----
    The statistic is

    .. math::
        T = \max_S \frac{\mathrm{ECCE}_S}{\sigma_S}, \qquad
        \mathrm{ECCE}_S = \frac{1}{W_S} \max_{a \le b} \Bigl|\sum_{i \in S,\, a \le p_i \le b} w_i r_i\Bigr|,
        \qquad \sigma_S^2 = \frac{1}{W_S^2} \sum_{i \in S} w_i^2 p_i (1 - p_i),

    with residuals :math:`r_i = y_i - p_i` and :math:`W_S = \sum_{i \in S} w_i`. The value is
    :math:`T \sigma_0`, with :math:`\sigma_0` of all samples. The segments that are tested, and the variance
    with sampling weights, are those of :func:`find_segments`. T is computed in each simulation: the expected
    value is its mean times :math:`\sigma_0`, and the p-value (1 + #{T* >= T}) / (1 + ``n_resamples``). It is
    adjusted for the number of segments, which that of [1]_ is not.

    Each segment is sorted, which takes about ten times as long as :func:`find_segments`: for a million
    samples with ten features about two minutes with ``segments``.

    References
    ----------
    .. [1] I. Guy et al. (2025). Measuring multi-calibration. arXiv:2506.11251.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import multicalibration_error
    >>> rng = np.random.default_rng(0)
    >>> region, p = rng.choice(["north", "south"], 2000), rng.uniform(0.1, 0.9, 2000)
    >>> y = rng.random(2000) < np.where(region == "south", (p + 0.5) / 2, p)
    >>> print(multicalibration_error({"region": region}, y, p, n_resamples=199))
    multicalibration error
      error       0.0407, 4.12 standard deviations
      expected    0.0189 under perfect calibration
      p-value     0.005
      largest in  region = south (3 segments tested)
      n           2,000, 199 simulations
    """
    _validation.check_size(n_resamples, "n_resamples")
    given = check_problem(y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights)
    study = _Study(X, given, sample_weight, segments, False, reduction)
    found = np.array([each.relative_ranges(each.y, each.residuals(each.y))[:, 0] for each in study.problems])
    t, k = map(int, np.unravel_index(found.argmax(), found.shape))
    draws = study.largest(_Problem.relative_ranges, n_resamples, random_state)
    unit, statistic = float(study.problems[t].scale[0] / study.problems[t].mass[0]), float(found[t, k])
    return MulticalibrationResult(
        value=unit * statistic,
        expected=unit * float(draws.mean()),
        statistic=statistic,
        pvalue=monte_carlo_pvalue(statistic, draws, _TIE),
        segment=study.word(k),
        label=study.problems[t].label,
        n_resamples=n_resamples,
        **study.facts,
    )
