"""Segments of the samples, described by features, in which predictions are too high or too low."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import block_diag, csc_array, csr_array, kron

from sklearn_calib._core._clusters import Clusters, cluster_words, clusters_of_classes, dependence
from sklearn_calib._core._grouping import GroupedOutcomes, as_sampled, support_of, weight_words
from sklearn_calib._core._links import logit
from sklearn_calib._core._null import draw_positives, monte_carlo_pvalue, sample_labels, tail_rank
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import pvalue_text, pvalue_words, result_html
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    BinarySample,
    ClassSample,
    as_array,
    check_fraction,
    check_generator,
    check_length,
    check_option,
    check_resamples,
    column_names,
    missing_values,
)
from sklearn_calib.inference._comparison import aligned
from sklearn_calib.inference._testing._classes import repeated
from sklearn_calib.metrics._reductions import REDUCTIONS, Reduction, check_problem, split_classes, two_columns

if TYPE_CHECKING:
    import pandas as pd

# Bins of a numerical feature, and largest number of categories that are segments.
_BINS, _MOST_CATEGORIES = 5, 100
# Smallest number of samples in a segment, and of information, sum p (1 - p).
_LEAST_SAMPLES, _LEAST_INFORMATION = 50.0, 10.0
# Largest number of segments that a search reports.
_MOST_FOUND = 20
# Samples whose sums are computed at a time; simulations at a time, and their largest number of outcomes.
_BLOCK, _AT_ONCE, _MOST_ELEMENTS = 2048, 64, 1 << 24
# Standardized differences that differ by less are ties: sums of simulations are in single precision.
_TIE = 1e-4


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
        return self.segment if self.label is None else f"class {self.label}: {self.segment}"


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
    weights: str | None = field(default=None, compare=False)

    def to_frame(self) -> pd.DataFrame:
        """Return the segments as a data frame of pandas."""
        import pandas as pd

        return pd.DataFrame(
            [asdict(row) for row in self.segments], columns=list(Segment.__dataclass_fields__)
        )

    def _finding(self) -> str:
        tested = f"{self.n_tested:,} segments tested, smallest adjusted {pvalue_words(self.pvalue)}"
        if not self.searched:
            return tested
        number = len(self.segments)
        found = (
            f"{number} segment{'s'[: number != 1]} miscalibrated"
            if number
            else "no evidence of miscalibration"
        )
        return f"{found} ({tested})"

    def _facts(self) -> list[tuple[str, str]]:
        size = f"{self.n_samples:,.0f}, {self.n_resamples} simulations"
        left_out = "; ".join(f"{name} ({reason})" for name, reason in self.left_out.items())
        pairs = [("n", size), ("weights", weight_words(self)), ("clusters", cluster_words(self))]
        return [(name, text) for name, text in [*pairs, ("columns left out", left_out)] if text]

    def __str__(self) -> str:
        lines = [self._finding()]
        if self.segments:
            interval = f"{100 * self.confidence:g}% interval"
            table = [["segment", "n", "observed", "predicted", "difference", interval, "adjusted p"]]
            for row in self.segments:
                numbers = f"{row.observed:.4f}", f"{row.predicted:.4f}", f"{row.difference:+.4f}"
                ends = f"[{row.lower:+.4f}, {row.upper:+.4f}]"
                table.append(
                    [
                        str(row),
                        f"{row.n_samples:,.0f}",
                        *numbers,
                        ends,
                        pvalue_text(row.adjusted_pvalue),
                    ]
                )
            lines += ["", aligned(table), ""]
            lines.append(
                "Intervals hold for all tested segments together; the largest differences are overestimated."
            )
        return "\n".join([*lines, *(f"{name}: {text}" for name, text in self._facts())])

    def _repr_html_(self) -> str:
        facts = [("finding", self._finding()), *self._facts()]
        return result_html("segments", facts, [("segments", self.segments)], unfolded=True)


class _Column(NamedTuple):
    """A feature: the bin of each sample, and its segments: sets of bins, (segments, bins), and words."""

    codes: NDArray[np.int64]
    masks: NDArray[np.bool_]
    words: list[str]


def _column(name: str, values: NDArray[Any], halves: bool) -> _Column | str:
    """Return the bins of a feature, or why it has none; with half-lines if ``halves``."""
    missing = missing_values(values)
    known = values[~missing]
    if known.shape[0] == 0:
        return "all values are missing"
    if known.dtype.kind == "O" and all(type(v) in (int, float) for v in known.tolist()):
        known = known.astype(np.float64)
    numerical = known.dtype.kind in "iufmM"
    codes, masks, words = _numerical(name, known, halves) if numerical else _categories(name, known)
    if not words:
        return f"{codes.max() + 1:,} categories, none with {_LEAST_SAMPLES:g} samples"
    if masks.shape[1] == 1 and not missing.any():
        return "constant"
    found = np.full(values.shape[0], masks.shape[1])
    found[~missing] = codes
    if missing.any():
        masks = np.pad(masks, ((0, 1), (0, 1)))
        masks[-1, -1] = True
        words = [*words, f"{name} missing"]
    return _Column(found, masks, words)


def _numerical(name: str, values: NDArray[Any], halves: bool) -> _Column:
    """Return quantile bins, or the values if they are few, and half-lines."""
    ordered = np.sort(values)
    distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    single = distinct.shape[0] <= _BINS
    # the smallest value with at least k / 5 of the samples at or below it
    last = -(-np.arange(1, _BINS) * ordered.shape[0] // _BINS) - 1
    edges = distinct[:-1] if single else np.unique(ordered[last])
    edges = edges[edges < distinct[-1]]
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


def _categories(name: str, values: NDArray[Any]) -> _Column:
    """Return the categories of enough samples, the most frequent ones if there are too many."""
    index: dict[Any, int] = {}
    codes = np.array([index.setdefault(value, len(index)) for value in values.tolist()])
    number, labels = np.bincount(codes), list(index)
    kept = np.argsort(-number, kind="stable")[:_MOST_CATEGORIES]
    kept = kept[number[kept] >= _LEAST_SAMPLES]
    place = np.full(number.shape[0], kept.shape[0])
    place[kept] = np.arange(kept.shape[0])
    if kept.shape[0]:
        codes = place[codes]
    masks = np.eye(kept.shape[0], kept.shape[0] + (kept.shape[0] < number.shape[0]), dtype=bool)
    return _Column(codes, masks, [f"{name} = {labels[k]}" for k in kept])


def _text(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="auto"))
    return f"{value:.15g}" if isinstance(value, float) else str(value)


class _Target(NamedTuple):
    """A binary problem: its class, outcomes and predictions."""

    label: Any
    y: Array
    p: Array


class _Scan:
    """Sums over all segments: single sets of bins, and pairs of sets of two features.

    The bins of a feature, or of two, are the cells of a table; a segment is a set of cells of one table.
    """

    def __init__(self, columns: list[_Column], pairs: bool, n_samples: int) -> None:
        d = len(columns)
        every = _Column(np.zeros(n_samples, dtype=np.int64), np.ones((1, 1), dtype=bool), ["all samples"])
        self.columns = [*columns, every]
        self.codes = np.column_stack([column.codes for column in self.columns]).astype(np.int32)
        self.tables = [(d, d), *((j, d) for j in range(d)), *(combinations(range(d), 2) if pairs else ())]
        self.left, self.right = np.array(self.tables).T
        masks = [csr_array(column.masks.astype(np.float64)) for column in self.columns]
        self.width = np.array([mask.shape[1] for mask in masks], dtype=np.int32)
        n_cells = np.cumsum(self.width[self.left] * self.width[self.right], dtype=np.int32)
        self.offset = np.append(np.int32(0), n_cells[:-1])
        self.first = np.append(0, np.cumsum([masks[i].shape[0] * masks[j].shape[0] for i, j in self.tables]))
        self.sets = csr_array(block_diag([kron(masks[i], masks[j]) for i, j in self.tables], format="csr"))
        # kron stores zeros of dense blocks
        self.sets.eliminate_zeros()

    def _cells(self, rows: slice, tables: slice) -> NDArray[np.int32]:
        """Return the cell of some samples in each of some tables."""
        codes, right = self.codes[rows], self.right[tables]
        return codes[:, self.left[tables]] * self.width[right] + codes[:, right] + self.offset[tables]

    def sums(self, values: NDArray[Any]) -> Array:
        """Return the sum of ``values``, (n, r), over each segment, (segments, r)."""
        total = np.zeros((self.sets.shape[1], values.shape[1]))
        for start in range(0, values.shape[0], _BLOCK):
            part = values[start : start + _BLOCK]
            cells = self._cells(slice(start, start + _BLOCK), slice(None))
            ends = np.arange(0, cells.size + 1, cells.shape[1])
            ones = np.ones(cells.size, dtype=values.dtype)
            total += csc_array((ones, cells.ravel(), ends), (total.shape[0], part.shape[0])) @ part
        out: Array = self.sets @ total
        return out

    def _table(self, k: int) -> int:
        return int(np.searchsorted(self.first, k, side="right")) - 1

    def members(self, k: int) -> NDArray[np.bool_]:
        """Return which samples are in segment k."""
        inside = np.zeros(self.sets.shape[1], dtype=bool)
        inside[self.sets[[k]].indices] = True
        table = self._table(k)
        return inside[self._cells(slice(None), slice(table, table + 1))[:, 0]]

    def words(self, k: int) -> str:
        """Return segment k in words."""
        table = self._table(k)
        i, j = self.tables[table]
        a, b = divmod(k - int(self.first[table]), len(self.columns[j].words))
        found = [self.columns[i].words[a]]
        return " and ".join(found if j == len(self.columns) - 1 else [*found, self.columns[j].words[b]])


class _Problem:
    """A binary problem: weighted sums of residuals over segments, and their variance under calibration.

    The variance is sum w^2 v, v = p (1 - p), and infinite for segments that are not tested. With sampling
    weights w it is that of predictions which are calibrated in the weighted population: v is replaced by
    v + (1 - 2 p) (r - v x' beta), see ``Spread``.
    """

    def __init__(self, scan: _Scan, label: Any, y: NDArray[Any], p: Array, weight: Array | None) -> None:
        self.scan, self.label, self.p, self.weight = scan, label, p, weight
        self.v, self.w = p * (1.0 - p), np.ones_like(p) if weight is None else weight
        self.residuals = (y - p)[:, np.newaxis]
        columns = np.ones_like(p), self.w, self.w * p, self.w * self.v, self.w**2 * self.v
        self.number, mass, predicted, weighted, variance = scan.sums(np.column_stack(columns)).T
        self.information = weighted**2 / np.maximum(variance, 1e-300)
        tested = (self.number >= _LEAST_SAMPLES) & (self.information >= _LEAST_INFORMATION)
        # of sets of all samples the first alone
        tested[1:] &= self.number[1:] < self.number[0]
        self.variance = np.where(tested, variance, np.inf)
        self.mass = np.maximum(mass, 1e-300)
        self.predicted = predicted / self.mass
        self.x = np.stack((np.ones_like(p), logit(p)))
        self.step = np.linalg.pinv((self.w * self.v * self.x) @ self.x.T, hermitian=True) @ (self.w * self.x)
        self.sums, self.deviation = (found[:, 0] for found in self.of(self.residuals))
        self.z = self.sums / self.deviation

    def of(self, residuals: NDArray[Any]) -> tuple[Array, Array]:
        """Return the sum over each segment and its standard deviation, (segments, r), of residuals (n, r)."""
        variance = self.variance[:, np.newaxis]
        if self.weight is None:
            return self.scan.sums(residuals), np.sqrt(variance)
        removed = residuals - (self.v * self.x).T @ (self.step @ residuals)
        change = self.scan.sums((self.w**2 * (1.0 - 2.0 * self.p))[:, np.newaxis] * removed)
        variance = np.maximum(variance + change, variance / 4.0)
        return self.scan.sums(self.w[:, np.newaxis] * residuals), np.sqrt(variance)

    def largest(self, outcomes: NDArray[Any]) -> Array:
        """Return the largest abs(z) for simulated outcomes, (n, r)."""
        kind = np.float32 if self.weight is None else np.float64
        sums, deviation = self.of(outcomes - self.p[:, np.newaxis].astype(kind))
        out: Array = np.abs(sums / deviation).max(axis=0)
        return out


def _simulated(
    sample: BinarySample | ClassSample,
    problems: list[_Problem],
    n_resamples: int,
    generator: np.random.Generator,
    clusters: Clusters | None,
) -> Iterator[Array]:
    """Yield the largest abs(z) over all segments and problems in simulations Y* ~ p, some at a time."""
    if isinstance(sample, ClassSample):
        for labels in sample_labels(sample.p, n_resamples, generator, clusters):
            yield np.max([each.largest(np.equal(labels.T, k)) for k, each in enumerate(problems)], axis=0)
        return
    ones = np.ones_like(sample.p)
    grouped, at_once = GroupedOutcomes(sample.p, ones, sample.y, clusters), _AT_ONCE * ones.shape[0]
    for outcomes in draw_positives(grouped, n_resamples, generator, min(at_once, _MOST_ELEMENTS)):
        yield problems[0].largest(outcomes)


def _named_columns(X: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of features by name; those of arrays are x0, x1, ..."""
    if isinstance(X, Mapping):
        return {str(name): as_array(values, f"X[{name!r}]") for name, values in X.items()}
    names = column_names(X)
    if names:
        keys = getattr(X, "column_names", getattr(X, "columns", ()))
        return {name: as_array(X[key], f"X[{name!r}]") for name, key in zip(names, keys, strict=True)}
    array = as_array(X, "X")
    if array.ndim == 1:
        return {str(getattr(X, "name", None) or "x0"): array}
    if array.ndim != 2:
        raise ValueError(f"X must have shape (n,) or (n, n_features), got shape {array.shape}.")
    return {f"x{j}": array[:, j] for j in range(array.shape[1])}


def _chosen(columns: dict[str, NDArray[Any]], segments: Any) -> dict[str, NDArray[Any]]:
    """Return the columns that ``segments`` names, or all."""
    if segments is None:
        return columns
    names, found = list(columns), {}
    for key in [segments] if isinstance(segments, str | int) else segments:
        name = names[key] if isinstance(key, int | np.integer) and 0 <= key < len(names) else key
        if name not in columns:
            raise ValueError(
                f"segments contains {key!r}, which is not a column of X. The columns are {names}."
            )
        found[name] = columns[name]
    return found


def _distinct(problems: list[_Problem], critical: float) -> list[tuple[int, int]]:
    """Return problems and segments that are significant, also without the miscalibration of those before.

    The largest abs(z) comes first. Then the residuals of its samples are reduced by v sum(w r) / sum(w v),
    so that their sum is 0, and the z of all segments are computed again. A segment which overlaps with one
    that was found is thus found only if it has miscalibration of its own, in the same direction.
    """
    found: list[tuple[int, int]] = []
    z = np.array([each.z for each in problems])
    left, residuals = z.copy(), [each.residuals.copy() for each in problems]
    while len(found) < _MOST_FOUND:
        # of segments with the same samples the first, which is described by fewer features
        own = np.round(np.where(np.abs(z) > critical, left * np.sign(z), 0.0), 6)
        t, k = map(int, np.unravel_index(own.argmax(), own.shape))
        if own[t, k] <= critical:
            break
        found.append((t, k))
        each, inside = problems[t], problems[t].scan.members(k)
        v, w, r = each.v[inside, np.newaxis], each.w[inside], residuals[t]
        r[inside] -= v * (w @ r[inside]) / (w @ v)
        left[t] = each.scan.sums(each.w[:, np.newaxis] * r)[:, 0] / each.deviation
    return found


def _reduced(problem: BinarySample | ClassSample, reduction: str) -> BinarySample | ClassSample:
    """Return the problem itself, or that of the confidence."""
    if reduction == "classwise":
        return problem
    proba = problem.p if isinstance(problem, ClassSample) else two_columns(problem.p)
    (part,) = split_classes(problem.y, proba, "confidence")
    return BinarySample(
        part.outcome, part.probability, problem.w, clusters=problem.clusters, sampling=problem.sampling
    )


def _clusters(sample: BinarySample | ClassSample) -> Clusters | None:
    """Return the clusters of a sample; each sample is a cell."""
    code = sample.clusters
    if code is None or isinstance(sample, ClassSample):
        return None if code is None else clusters_of_classes(sample.y, sample.p, code)
    one, y = np.ones_like(sample.p), sample.y.astype(np.float64)
    return Clusters(
        np.arange(code.shape[0]), code, one, y, int(code.max()) + 1, dependence(code, sample.p, one, y)
    )


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
    weights: str = "sampling",
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
        Also if no segment has enough samples.

    See Also
    --------
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

    Cost: each simulation computes the sums of all pairs of features, O(n d^2) for d features.

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
    confidence = check_fraction(confidence, "confidence")
    n_resamples = check_resamples(n_resamples, confidence)
    generator = check_generator(random_state)
    check_option(reduction, "reduction", REDUCTIONS)
    given = check_problem(y_true, y_proba, sample_weight, pos_label, labels, clusters, weights=weights)
    if isinstance(given, list):
        raise ValueError("y_true has one column per label (multilabel). Pass one label at a time.")
    kept = np.ones(given.y.shape[0], dtype=bool)
    if sample_weight is not None:
        kept = as_array(sample_weight, "sample_weight") > 0
    columns = _chosen(_named_columns(X), segments)
    for name, values in columns.items():
        check_length(f"X[{name!r}]", values.shape[0], "y_true", kept.shape[0])
    # frequencies are repeated samples
    index, _ = repeated(given)
    columns = {name: values[kept][index] for name, values in columns.items()}
    whole = as_sampled(given if given.sampling or given.w is None else replace(given.take(index), w=None))
    sample = _reduced(whole, reduction)
    if reduction == "top-label":
        several = isinstance(whole, ClassSample)
        names = whole.classes if several else np.array(["negative", "positive"])
        top = (whole.p if several else two_columns(whole.p)).argmax(axis=1)
        columns["predicted class"] = names[top].astype(str)

    found = {name: _column(name, values, segments is None) for name, values in columns.items()}
    left_out = {name: reason for name, reason in found.items() if isinstance(reason, str)}
    bins = [column for column in found.values() if isinstance(column, _Column)]
    scan = _Scan(bins, segments is None, sample.y.shape[0])
    weight = sample.w if sample.sampling else None
    if isinstance(sample, ClassSample):
        parts = zip(sample.classes.tolist(), split_classes(sample.y, sample.p, "classwise"), strict=True)
        problems = [_Problem(scan, k, part.outcome, part.probability, weight) for k, part in parts]
    else:
        problems = [_Problem(scan, None, sample.y, sample.p, weight)]
    tested = np.isfinite([each.deviation for each in problems])
    if not tested.any():
        raise ValueError(
            f"No segment has {_LEAST_SAMPLES:g} samples and sum p (1 - p) = {_LEAST_INFORMATION:g}. All "
            f"{kept.sum()} samples together have {problems[0].information[0]:.3g}. Pass more samples."
        )
    dependent = _clusters(sample)
    draws = np.concatenate([*_simulated(sample, problems, n_resamples, generator, dependent)])
    critical = float(np.sort(draws)[n_resamples - tail_rank(n_resamples, 1.0 - confidence)]) + _TIE
    chosen = _distinct(problems, critical) if segments is None else np.argwhere(tested).tolist()
    rows = [_segment(problems[t], k, critical, draws) for t, k in chosen]
    return SegmentsResult(
        segments=tuple(sorted(rows, key=lambda row: -abs(row.z))),
        pvalue=monte_carlo_pvalue(max(float(np.abs(each.z).max()) for each in problems), draws, _TIE),
        n_tested=int(tested.sum()),
        searched=segments is None,
        left_out=left_out,
        confidence=confidence,
        n_samples=float(sample.y.shape[0]),
        n_resamples=n_resamples,
        **support_of(given, dependent, sample.p),
    )


def _segment(problem: _Problem, k: int, critical: float, draws: Array) -> Segment:
    """Return segment k, with Wilson's interval of its difference.

    With prediction m, observed frequency o and variance V of o - m under calibration, the limits m + d solve
    (o - q)^2 = g q (1 - q), q = m + d, with g = c^2 V / (m (1 - m)): d = 0 lies inside if abs(z) <= c.
    """
    m, difference = float(problem.predicted[k]), float(problem.sums[k] / problem.mass[k])
    o = m + difference
    g = float((critical * problem.deviation[k] / problem.mass[k]) ** 2 / (m * (1.0 - m)))
    half = np.sqrt(max(g * o * (1.0 - o) + g**2 / 4.0, 0.0))
    lower, upper = (float((o + g / 2.0 + sign * half) / (1.0 + g) - m) for sign in (-1.0, 1.0))
    pvalue = monte_carlo_pvalue(float(abs(problem.z[k])), draws, _TIE)
    numbers = difference, lower, upper, float(problem.z[k]), pvalue
    return Segment(problem.scan.words(k), problem.label, float(problem.number[k]), o, m, *numbers)
