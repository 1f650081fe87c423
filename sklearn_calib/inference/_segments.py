"""Segments of the samples, described by features, in which predictions are too high or too low."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, csr_array, kron

from sklearn_calib import _validation
from sklearn_calib._core._clusters import cluster_words, clusters_of_classes
from sklearn_calib._core._columns import frequent_categories, is_numerical, quantile_edges
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
# Simulations at a time, their largest number of outcomes, that of which cumulative sums are computed, and
# segments at a time.
_AT_ONCE, _MOST_ELEMENTS, _CACHED, _SEGMENTS = 256, 1 << 24, 1 << 18, 1024
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


def _column(name: str, values: NDArray[Any], halves: bool) -> _Column | str:
    """Return the bins of a feature, or why it has none; with half-lines if ``halves``."""
    missing = _validation.missing_values(values)
    known = values[~missing]
    if known.shape[0] == 0:
        return "all values are missing"
    numerical = is_numerical(known)
    if numerical and known.dtype.kind == "O":
        try:
            known = known.astype(np.float64)
        except OverflowError:
            raise ValueError(f"X[{name!r}] contains a number beyond 1.8e308. Rescale or remove it.") from None
    column = _numerical(name, known, halves) if numerical else _categories(name, known)
    if isinstance(column, str):
        return column
    codes, masks, words = column
    if masks.shape[1] == 1 and not missing.any():
        return "constant"
    found = np.full(values.shape[0], masks.shape[1], dtype=np.int16)
    found[~missing] = codes
    if missing.any():
        masks = np.pad(masks, ((0, 1), (0, 1)))
        masks[-1, -1] = True
        words = [*words, f"{name} missing"]
    return _Column(found, masks, words)


def _numerical(name: str, values: NDArray[Any], halves: bool) -> _Column:
    """Return quantile bins, or the values if they are few, and half-lines."""
    distinct, edges = np.unique(values), quantile_edges(values, _BINS)
    single = distinct.shape[0] <= _BINS
    if edges.dtype.kind == "f" and not single:
        # short numbers, if they are still distinct
        short = np.unique([float(f"{edge:.4g}") for edge in edges])
        edges = short if short.shape[0] == edges.shape[0] else edges
    k, text = edges.shape[0] + 1, [_text(edge) for edge in edges]
    masks = np.eye(k, dtype=bool)
    if single:
        words = [f"{name} = {_text(value)}" for value in distinct]
    else:
        middle = [f"{low} < {name} <= {high}" for low, high in pairwise(text)]
        words = [f"{name} <= {text[0]}", *middle, f"{name} > {text[-1]}"]
    if halves and k > 2:
        below = np.tri(k, dtype=bool)
        masks = np.vstack((masks, below[1 : k - 1], ~below[: k - 2]))
        words += [f"{name} <= {edge}" for edge in text[1:]] + [f"{name} > {edge}" for edge in text[:-1]]
    return _Column(np.searchsorted(edges, values, side="left"), masks, words)


def _categories(name: str, values: NDArray[Any]) -> _Column | str:
    """Return the categories of enough samples, the most frequent ones if there are too many."""
    labels = values.astype(str).tolist()
    kept = frequent_categories(labels, _MOST_CATEGORIES, _LEAST_SAMPLES)
    if not kept:
        return f"{len(set(labels)):,} categories, none with {_LEAST_SAMPLES:g} samples"
    codes = np.array([kept.get(label, len(kept)) for label in labels])
    return _Column(
        codes, np.eye(len(kept), codes.max() + 1, dtype=bool), [f"{name} = {label}" for label in kept]
    )


def _text(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="auto"))
    if isinstance(value, np.timedelta64):
        return f"{value / np.timedelta64(1, 'D'):.4g} days"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


class _CrossTable(NamedTuple):
    """The cells of two features, codes left * width + right; segments are sets of them, (segments, cells)."""

    left: NDArray[np.integer[Any]]
    right: NDArray[np.integer[Any]]
    width: int
    sets: Any
    words: list[str]

    @property
    def cells(self) -> NDArray[np.int32]:
        """The cell of each sample."""
        return self.left.astype(np.int32) * self.width + self.right


def _tables(columns: list[_Column], pairs: bool, n_samples: int) -> list[_CrossTable]:
    """Return the tables of all samples, of each feature, and of all pairs of features if ``pairs``.

    Segments of too few samples are left out.
    """
    every = _Column(np.zeros(n_samples, dtype=np.int16), np.ones((1, 1), dtype=bool), ["all samples"])
    chosen = [(every, every), *((column, every) for column in columns)]
    tables: list[_CrossTable] = []
    for a, b in [*chosen, *(combinations(columns, 2) if pairs else ())]:
        sets = csr_array(kron(csr_array(a.masks.astype(np.float64)), csr_array(b.masks.astype(np.float64))))
        # kron stores zeros of dense blocks
        sets.eliminate_zeros()
        table = _CrossTable(a.codes, b.codes, b.masks.shape[1], sets, a.words)
        number = sets @ np.bincount(table.cells, minlength=sets.shape[1])
        kept = np.flatnonzero((number >= _LEAST_SAMPLES) | (not tables))
        if kept.size:
            one, other = (words.tolist() for words in np.divmod(kept, len(b.words)))
            pairs_of_words = zip((a.words[k] for k in one), (b.words[k] for k in other), strict=True)
            words = [left if b is every else f"{left} and {right}" for left, right in pairs_of_words]
            tables.append(table._replace(sets=sets[kept], words=words))
    return tables


def _sums(tables: list[_CrossTable], values: NDArray[Any]) -> Array:
    """Return the sum of ``values``, (n, r), over each segment, (segments, r)."""
    n = values.shape[0]
    ends, ones = np.arange(n + 1, dtype=np.int32), np.ones(n, dtype=values.dtype)
    return np.concatenate(
        [t.sets @ (csc_array((ones, t.cells, ends), (t.sets.shape[1], n)) @ values) for t in tables]
    )


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
    weights w it is that of predictions which are calibrated in the weighted population: v is replaced by
    v + (1 - 2 p) (r - v x' beta), see ``VarianceRatio``.
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
        self.sum, self.scale = self.sums(self.y)[:, 0], self.deviation(self.y)[:, 0]

    def residuals(self, outcomes: NDArray[Any]) -> NDArray[Any]:
        """Return outcomes minus predictions, (n, r), in single precision in simulations without weights."""
        single = outcomes.dtype == bool and not self.sampling
        return outcomes - self.p[:, np.newaxis].astype(np.float32 if single else np.float64)

    def deviation(self, outcomes: NDArray[Any]) -> Array:
        """Return the standard deviation of the sum of residuals over each segment, (segments, 1 or r)."""
        variance = self.variance[:, np.newaxis]
        if self.sampling:
            residuals = self.residuals(outcomes)
            removed = residuals - (self.v * self.x).T @ (self.step @ residuals)
            change = _sums(self.tables, (self.w**2 * (1.0 - 2.0 * self.p))[:, np.newaxis] * removed)
            variance = np.maximum(variance + change, variance / 4.0)
        return np.sqrt(variance)

    def sums(self, outcomes: NDArray[Any]) -> Array:
        """Return the weighted sum of residuals over each segment."""
        residuals = self.residuals(outcomes)
        return _sums(self.tables, self.w[:, np.newaxis] * residuals if self.sampling else residuals)

    def parts(self) -> list[_Problem]:
        """Return the problem by some tables at a time, the sums over which stay in the cache."""
        ends = np.cumsum([len(table.words) for table in self.tables])
        found, first = [], 0
        for last in [*np.flatnonzero(np.diff(ends // _SEGMENTS)).tolist(), len(self.tables) - 1]:
            part = copy(self)
            part.tables = self.tables[first : last + 1]
            part.variance = self.variance[ends[first] - len(self.tables[first].words) : ends[last]]
            found.append(part)
            first = last + 1
        return found

    def ranges(self, outcomes: NDArray[Any]) -> Array:
        """Return the range of cumulative weighted residuals in each segment."""
        return _ranges(self.tables, outcomes, self.p, self.w if self.sampling else None)


def feature_columns(X: Any, name: str, n_samples: int) -> dict[str, NDArray[Any]]:
    """Return the columns of features by name; those of arrays are called x0, x1, ..."""
    keys = X if isinstance(X, Mapping) else getattr(X, "column_names", getattr(X, "columns", None))
    if keys is not None:
        columns = {str(key): _validation.as_array(X[key], f"{name}[{key!r}]") for key in keys}
    else:
        array = _validation.as_array(X, name)
        if isinstance(X, list | tuple) and array.dtype.kind == "U":
            # numbers beside texts stay numbers
            array = np.array(X, dtype=object)
        if array.dtype.kind == "V":
            raise TypeError(f"{name} is a structured array. Pass a mapping of names to columns.")
        array = array[:, np.newaxis] if array.ndim == 1 else array
        if array.ndim != 2:
            raise ValueError(f"{name} must have shape (n,) or (n, n_features), got shape {array.shape}.")
        columns = {f"x{j}": column for j, column in enumerate(array.T)}
    for key, column in columns.items():
        place = f"{name}[{key!r}]" if keys is not None else name
        if column.ndim != 1:
            raise ValueError(f"{place} must be one column of a distinct name, got shape {column.shape}.")
        _validation.check_length(place, column.shape[0], "y_true", n_samples)
    return columns


def _chosen(columns: dict[str, NDArray[Any]], segments: Any) -> dict[str, NDArray[Any]]:
    """Return the columns that ``segments`` names, or all."""
    if segments is None:
        return columns
    if not isinstance(segments, Iterable | int):
        raise TypeError(f"segments must be a column or a sequence of columns of X, got {segments!r}.")
    names, chosen = list(columns), {}
    for key in [segments] if isinstance(segments, str | int) else segments:
        name = names[key] if isinstance(key, int | np.integer) and 0 <= key < len(names) else key
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
        values = _chosen(feature_columns(X, "X", kept.shape[0]), segments)
        # frequencies are repeated samples
        index, _ = repeated(given)
        values = {name: column[kept][index] for name, column in values.items()}
        counts = given.w is not None and not given.sampling
        self.sample = as_sampled(replace(given.take(index), w=None) if counts else given)
        if reduction != "classwise":
            several = isinstance(self.sample, _validation.ClassSample)
            whole = self.sample if several else replace(self.sample, p=two_columns(self.sample.p))
            self.sample = class_samples(whole, "confidence")[0]
            if reduction == "top-label":
                names = whole.classes if several else np.array(["negative", "positive"])
                values["predicted class"] = names[whole.p.argmax(axis=1)].astype(str)
        found = {name: _column(name, column, halves) for name, column in values.items()}
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
        self.words = [word for table in self.tables for word in table.words]
        self.tested = np.isfinite([each.variance for each in self.problems])
        code = self.sample.clusters
        self.clusters = None if code is None else clusters_of_classes(self.sample.y, self.sample.p, code)
        self.facts = {
            "n_tested": int(self.tested.sum()),
            "n_samples": float(self.sample.y.shape[0]),
            **weight_fields(given, self.clusters, self.sample.p),
        }

    def largest(
        self, statistic: Callable[[_Problem, NDArray[Any]], Array], n_resamples: int, random_state: Any
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
            pairs = [(one, y) for parts, y in zip(problems, outcomes, strict=True) for one in parts]
            found.append(np.max([statistic(one, y).max(axis=0) for one, y in pairs], axis=0))
        return np.concatenate(found)

    def members(self, k: int) -> NDArray[np.bool_]:
        """Return which samples are in segment k."""
        for table in self.tables:
            if k < len(table.words):
                break
            k -= len(table.words)
        inside = np.zeros(table.sets.shape[1], dtype=bool)
        inside[table.sets[[k]].indices] = True
        return inside[table.cells]


def _distinct(study: _Study, z: Array, critical: float) -> list[tuple[int, int]]:
    """Return problems and segments that are significant, also without the miscalibration of those before.

    The largest abs(z) comes first. Then the residuals of its samples are reduced by v sum(w r) / sum(w v),
    so that their sum is 0, and the z of all segments are computed again. A segment which overlaps with one
    that was found is thus found only if it has miscalibration of its own, in the same direction.
    """
    found: list[tuple[int, int]] = []
    left, residuals = z.copy(), [each.residuals(each.y) for each in study.problems]
    while len(found) < _MOST_FOUND:
        # of segments with the same samples the first, which is described by fewer features
        own = np.round(np.where(np.abs(z) > critical, left * np.sign(z), 0.0), 6)
        t, k = map(int, np.unravel_index(own.argmax(), own.shape))
        if own[t, k] <= critical:
            break
        found.append((t, k))
        each, inside, r = study.problems[t], study.members(k), residuals[t]
        v, w = each.v[inside, np.newaxis], each.w[inside]
        r[inside] -= v * (w @ r[inside]) / (w @ v)
        left[t] = _sums(study.tables, each.w[:, np.newaxis] * r)[:, 0] / each.scale
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
        Features; they need not be those of the model. Numbers and dates are divided into five bins of equal
        numbers of samples, or into their values if there are at most five; other types are categories.
        Missing values are a category of their own. Columns of arrays are called x0, x1, ...
    y_true : array-like of shape (n,)
        Labels of two or more classes.
    y_proba : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes)
        Predicted probabilities of samples that the model was not fitted to: of the positive class (of two
        columns the last is used), or of three or more classes in sorted order.
    segments : column or sequence of columns of ``X``, default=None
        Names or positions of columns whose bins and categories are the segments, all of which are returned.
        Then there is no search, and no pair.
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
    samples with ten features take about half a minute and 220 MB, with ``segments`` a third of the time
    (``benchmarks/segments_power.py --time``).

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
    draws = study.largest(lambda each, y: np.abs(each.sums(y) / each.deviation(y)), n_resamples, random_state)
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
    return Segment(study.words[k], each.label, float(each.number[k]), o, m, *numbers)


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
    found = np.array([each.ranges(each.y)[:, 0] / each.scale for each in study.problems])
    t, k = map(int, np.unravel_index(found.argmax(), found.shape))
    draws = study.largest(lambda each, y: each.ranges(y) / each.deviation(y), n_resamples, random_state)
    unit, statistic = float(study.problems[t].scale[0] / study.problems[t].mass[0]), float(found[t, k])
    return MulticalibrationResult(
        value=unit * statistic,
        expected=unit * float(draws.mean()),
        statistic=statistic,
        pvalue=monte_carlo_pvalue(statistic, draws, _TIE),
        segment=study.words[k],
        label=study.problems[t].label,
        n_resamples=n_resamples,
        **study.facts,
    )
