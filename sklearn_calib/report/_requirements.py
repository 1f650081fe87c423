"""Requirements on the calibration of a model, and whether a sample shows that they are met."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._grouping import (
    GroupedOutcomes,
    group_sample,
    pooled_if_many,
    weight_words,
    weighting,
)
from sklearn_calib._docs import shared_docs
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import number_text, printable_lines, result_html
from sklearn_calib._typing import Weights
from sklearn_calib._writing import read_whole
from sklearn_calib.inference._intervals import FEWEST_EVENTS, SharedIntervals, confidence_interval
from sklearn_calib.inference._populations import shifted
from sklearn_calib.inference._sample_metric import Metric, UndefinedMetricError, reduced_once
from sklearn_calib.inference._sample_table import SampleTable, check_table
from sklearn_calib.metrics._cutoff import bootstrap_margin, cutoff_of_groups
from sklearn_calib.metrics._metric_kernel import declaration
from sklearn_calib.metrics._names import as_metric, metric_names
from sklearn_calib.metrics._reductions import label_names
from sklearn_calib.metrics._summary import IntervalEstimate, event_rate_limits, recalibration_intervals
from sklearn_calib.report import _numbers
from sklearn_calib.report._words import one_line, sample_words

_RATIO = "observed_over_expected"
_SUMMARY = ("slope", "intercept", _RATIO)
_SEGMENTS = "segment_difference"
_MARGIN = "bootstrap margin"
# Intervals that would have to be so many times narrower are undecided for any number of samples.
_AT_LIMIT = 100.0
# That of a metric that is not defined on the sample.
_UNDEFINED = IntervalEstimate(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class RequirementResult:
    """One requirement, tested on a sample.

    Attributes
    ----------
    name : str
        Its name, such as "slope".
    requirement : str
        The requirement in words, such as "slope in [0.9, 1.1]"; for a segment with the name of its group.
    outcome : {"pass", "fail", "undecided"}
        "pass" if the interval lies within the limits, "fail" if it lies outside, else "undecided".
    estimate : float
        The estimate; NaN if the sample does not determine it.
    lower, upper : float
        Ends of the interval.
    n_samples : float
        Number of samples; for a segment those of its group.
    n_needed : float
        If undecided, the number of samples needed to decide if the estimate remained the same; infinite
        if the estimate is at the limit or not determined, or if an outcome of a score did not occur. NaN if
        the outcome is decided.
    projected_outcome : {"pass", "fail", "undecided"}
        The outcome to be expected of ``n_needed`` samples; ``outcome`` if it is decided.
    corrected : float
        The estimate, corrected for its bias; equal to ``estimate`` if it is not a calibration error.
    method : str or None
        How the interval was computed.
    """

    name: str
    requirement: str
    outcome: str
    estimate: float
    lower: float
    upper: float
    n_samples: float
    n_needed: float
    projected_outcome: str = "undecided"
    corrected: float = float("nan")
    method: str | None = None

    @property
    def detail(self) -> str:
        """Estimate, of a calibration error corrected, with interval and number of samples in words."""
        if np.isnan(self.estimate) or (np.isinf(self.upper) and np.isfinite(self.estimate)):
            return f"not determined by {self.n_samples:,.0f} samples"
        interval = f"[{number_text(self.lower)}, {number_text(self.upper)}]"
        value = f"estimate {number_text(self.estimate)}"
        if self.method in ("inversion", _MARGIN):
            value = f"corrected {number_text(self.corrected)}"
        found = f"{value} {interval}, n = {self.n_samples:,.0f}"
        if self.outcome != "undecided":
            return found
        if self.projected_outcome == "undecided":
            return f"{found}; the estimate is at the limit"
        shown = "passes" if self.projected_outcome == "pass" else "fails"
        needed = "more" if np.isinf(self.n_needed) else f"about {float(f'{self.n_needed:.2g}'):,.0f}"
        return f"{found}; {needed} samples would show that it {shown}"


@shared_docs
@dataclass(frozen=True)
class RequirementsResult(FrameMixin):
    """Whether requirements on calibration are met; result of :meth:`CalibrationRequirements.check`.

    Attributes
    ----------
    results : tuple of RequirementResult
        One for each requirement, and for each segment.
    alpha : float
        Level: the probability that a requirement passes which is not met.
    n_samples : float
        Number of samples.
    %(weighting)s
    """

    _rows_in = "results"

    results: tuple[RequirementResult, ...]
    alpha: float
    n_samples: float
    n_effective: float | None = None
    weight_spread: float | None = None
    weights: str | None = None

    @property
    def outcome(self) -> str:
        """The overall outcome: "fail" if any requirement is, else "undecided" if any is, else "pass"."""
        found = {result.outcome for result in self.results}
        return next((each for each in ("fail", "undecided") if each in found), "pass")

    def _headline(self) -> str:
        outcomes = [result.outcome for result in self.results]
        counts = ", ".join(f"{outcomes.count(each)} {each}" for each in ("pass", "fail", "undecided"))
        found = f"alpha = {self.alpha:g}, n = {self.n_samples:,.0f}"
        found += f"; weights: {weight_words(self)}" if self.weights else ""
        return f"calibration requirements: {counts} ({found})"

    def __str__(self) -> str:
        width = max(len(result.requirement) for result in self.results)
        lines = (f"  {r.outcome:<9}  {r.requirement:<{width}}  {r.detail}" for r in self.results)
        return printable_lines([self._headline(), *lines])

    def _repr_html_(self) -> str:
        rows = [
            {"outcome": r.outcome, "requirement": r.requirement, "value [interval]": r.detail}
            for r in self.results
        ]
        return result_html(self._headline(), [], [("requirements", rows)], unfolded=True)

    def to_markdown(self) -> str:
        """Return a table in Markdown, for a model card."""
        lines = [self._headline(), "", "| requirement | outcome | value [interval] |", "|---|---|---|"]
        for result in self.results:
            cells = (result.requirement, result.outcome, result.detail)
            escaped = (re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", cell) for cell in cells)
            lines.append(f"| {' | '.join(escaped)} |")
        return printable_lines([*lines, ""])

    def to_junit(self, *, undecided: str = "failure") -> str:
        """Return a report in JUnit's XML format, which continuous integration systems display.

        Parameters
        ----------
        undecided : {"failure", "skipped"}, default="failure"
            How an undecided requirement is reported. By default as a failure, since it has not passed.
        """
        _validation.check_option(undecided, "undecided", ("failure", "skipped"))
        kinds = {"fail": "failure", "undecided": undecided}
        found = [kinds.get(result.outcome) for result in self.results]
        counts = {"failures": str(found.count("failure")), "skipped": str(found.count("skipped"))}
        root = ElementTree.Element("testsuites")
        about = {"name": "calibration requirements", "tests": str(len(found)), "errors": "0"}
        suite = ElementTree.SubElement(root, "testsuite", about | counts)
        for result, kind in zip(self.results, found, strict=True):
            case = ElementTree.SubElement(
                suite, "testcase", classname="calibration", name=result.requirement, time="0"
            )
            if kind is not None:
                ElementTree.SubElement(case, kind, message=f"{result.outcome}: {result.detail}")
            else:
                ElementTree.SubElement(case, "system-out").text = result.detail
        ElementTree.indent(root)
        return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


@shared_docs
@dataclass(frozen=True)
class CalibrationRequirements:
    r"""Requirements on the calibration of a model, checked by equivalence tests.

    A test that does not reject perfect calibration does not show that a model is calibrated: the sample may
    be too small. Here the outcome of a requirement is "pass" only if the sample rejects that it is violated,
    "fail" if the sample rejects that it is met, and "undecided" otherwise.

    Parameters
    ----------
    limits : dict
        The requirements by their names:

        - "slope" and "intercept": ``[low, high]``, limits of the calibration slope and intercept;
        - "observed_over_expected": ``[low, high]``, limits of event frequency over mean prediction;
        - "certificate": an upper bound of the cutoff calibration error, whose margin is valid for every
          calibration curve;
        - the name of a calibration error of :mod:`sklearn_calib.metrics`, such as "smooth_ece": its upper
          bound in the population;
        - the name of another metric, such as "brier_score", "roc_auc" or "refinement_loss": ``[low, high]``;
        - of any metric ``{"limit": limit, "threshold": 0.1}``, with the limit or limits and parameters of the
          metric;
        - "segment_difference": a number or ``{"limit": number, "min_samples": count}``, a bound of
          ``|observed - predicted|``, event frequency minus mean prediction, in every group with at least
          ``min_samples`` samples (default: 1).
    alpha : float, default=0.05
        Level, less than 0.5.

    Raises
    ------
    %(invalid)s

    See Also
    --------
    calibration_report : Metrics, tests and figures of the calibration of a model.
    sklearn_calib.inference.required_n_samples : Number of samples to plan for.

    Notes
    -----
    A requirement passes if the two one-sided tests [1]_ of level :math:`\alpha` reject that the value lies
    below and above the limits, that is if the interval with confidence :math:`1 - 2 \alpha` lies within them.
    docs/requirements.md lists the intervals. A score with fewer than ten samples of the rarer outcome is
    undecided, unless its range for any outcomes whose event rate is within its exact limits decides. For an
    undecided requirement, the distances between the corrected value and the ends of the interval are
    extrapolated as :math:`n^{-1/2}`.

    References
    ----------
    .. [1] D. J. Schuirmann (1987). A comparison of the two one-sided tests procedure and the power approach
       for assessing the equivalence of average bioavailability. Journal of Pharmacokinetics and
       Biopharmaceutics 15.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.report import CalibrationRequirements
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> y = rng.uniform(size=4000) < p
    >>> requirements = CalibrationRequirements({"slope": [0.85, 1.15], "certificate": 0.02})
    >>> print(requirements.check(y, p))
    calibration requirements: 1 pass, 0 fail, 1 undecided (alpha = 0.05, n = 4,000)
      pass       slope in [0.85, 1.15]  ...
      undecided  certificate <= 0.02    ...
    """

    limits: Mapping[str, Any]
    alpha: float = field(default=0.05, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Mapping) or not self.limits:
            raise ValueError(f"limits must be a dict with one requirement or more, got {self.limits!r}.")
        if not _validation.check_positive(self.alpha, "alpha") < 0.5:
            raise ValueError(f"alpha must be less than 0.5, got {self.alpha!r}.")
        for name, limit in self.limits.items():
            _validation.check_option(
                name, "a requirement", (*_SUMMARY, "certificate", _SEGMENTS, *metric_names())
            )
            limit = _metric_of(name, limit)[1] if name in metric_names() else limit
            if name in _SUMMARY or _is_score(name):
                pair = isinstance(limit, list | tuple) and len(limit) == 2
                if not pair or not all(map(_is_finite, limit)):
                    raise TypeError(f"{name} must be [low, high], two numbers, got {limit!r}.")
                if not limit[0] < limit[1]:
                    raise ValueError(f"{name} must be [low, high] with low < high, got {limit!r}.")
            elif name == _SEGMENTS:
                _segment_limit(limit)
            else:
                _validation.check_positive(limit, name)

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Return the requirements in a TOML file with the keys of ``limits``, and optionally "alpha".

        Parameters
        ----------
        path : str or Path
            The file.

        Raises
        ------
        ValueError
            If the file or a limit in it is not valid; the message names the file.
        """
        content = read_whole(path)
        try:
            limits = tomllib.loads(content.decode("utf-8-sig"))
            alpha = limits.pop("alpha", 0.05)
            return cls(limits, alpha=alpha)
        except RecursionError:
            raise ValueError(f"{path}: values are nested too deeply. Write the limits as numbers.") from None
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {str(error)[:300]}") from None

    def check(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_resamples: int = 200,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        weights: Weights = "sampling",
        clusters: ArrayLike | None = None,
        pos_label: Any = None,
        reduction: str | None = None,
        labels: ArrayLike | None = None,
    ) -> RequirementsResult:
        """Test every requirement on a sample that the model was not trained on.

        With ``reduction="confidence"`` all requirements can be checked, with the others those on metrics. Of
        multilabel targets, requirements on metrics limit the mean over labels, and the others apply to each.

        Parameters
        ----------
        %(inference_sample)s
        n_resamples : int, default=200
            Number of simulated samples for each step of an interval of a metric, at least 20; "certificate"
            uses ``5 * n_resamples - 1`` bootstrap samples.
        %(random_state)s
        groups : array-like of shape (n,), default=None
            Segment of each sample, for "segment_difference", and only with it: all other requirements apply
            to all samples together.
        %(inference_weight)s
        %(clusters)s
            The intervals allow for this as in :func:`calibration_report`.
        %(pos_label)s
        %(inference_reduction)s

        Returns
        -------
        RequirementsResult
            The outcomes; ``print`` them, or write them with ``to_markdown`` or ``to_junit``.

        Raises
        ------
        %(invalid)s
        """
        least = max(20, int(np.ceil(1.0 / self.alpha)))
        n_resamples = _validation.check_size(n_resamples, "n_resamples", minimum=least)
        budget = _numbers.Budget(1.0 - 2.0 * self.alpha, n_resamples, _validation.seed_of(random_state))
        given = sample_weight, weights, clusters, pos_label
        if groups is None and _SEGMENTS in self.limits:
            raise ValueError("segment_difference needs groups. Pass the segment of each sample as groups.")
        if groups is not None and _SEGMENTS not in self.limits:
            raise ValueError(
                "groups are for segment_difference, which is not required. Add it, or check each group alone."
            )
        sample = check_table(y_true, y_proba, *given, reduction, labels)
        if isinstance(sample, SampleTable):
            return self._of_classes(y_true, y_proba, groups, *given, reduction, labels, budget, sample)
        parts = [] if groups is None else _validation.samples_of_groups(sample, groups, sample_weight)
        grouped = group_sample(sample)
        small = pooled_if_many(grouped)
        shared = SharedIntervals(sample, budget.confidence, n_resamples, budget.seed)
        results = []
        for name, limit in self.limits.items():
            if name == _SEGMENTS:
                results += _segments(parts, *_segment_limit(limit), 2.0 * self.alpha)
                continue
            low, high, text = -np.inf, limit, f"{name} <= {limit}"
            if name in _SUMMARY:
                (low, high), text = limit, f"{name} in [{limit[0]}, {limit[1]}]"
                found = getattr(recalibration_intervals(grouped, budget.confidence), name)
                contradicted, _ = grouped.samples.contradictions()
                if contradicted and name != _RATIO:
                    text += f", without {contradicted:g} contradicted predictions of 0 or 1"
            elif name == "certificate":
                found = _certificate(grouped, small, self.alpha, budget)
            else:
                metric, limit, called = _metric_of(name, limit)
                # samples of the confidence are not to be reduced again
                metric = metric if reduction is None else reduced_once(metric)
                few = _is_score(name) and grouped.rarest < FEWEST_EVENTS
                extremes = -np.inf, np.inf
                try:
                    found = shared.interval(metric)
                    extremes = shared.score(metric).extremes(budget.confidence) if few else extremes
                except UndefinedMetricError:
                    found = _UNDEFINED
                numbers = grouped.samples.total, grouped.rarest
                results.append(_metric_result(name, called, limit, found, reduction, *numbers, extremes))
                continue
            results.append(outcome_of(name, text, found, low, high, grouped.samples.total))
        return RequirementsResult(tuple(results), self.alpha, grouped.samples.total, **weighting(sample))

    def _of_classes(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        groups: ArrayLike | None,
        sample_weight: ArrayLike | None,
        weights: Any,
        clusters: ArrayLike | None,
        pos_label: Any,
        reduction: Any,
        labels: ArrayLike | None,
        budget: _numbers.Budget,
        sample: SampleTable,
    ) -> RequirementsResult:
        """Test requirements on metrics of multiclass or multilabel targets, and others on each label."""
        results = []
        for name, limit in self.limits.items():
            if name not in metric_names():
                if sample.exclusive:
                    raise ValueError(
                        f"{name} needs a binary problem. Pass reduction='confidence' for the probability of "
                        "the predicted class, or one class at a time."
                    )
                alone = CalibrationRequirements({name: limit}, alpha=self.alpha)
                y, p = (
                    _validation.as_array(y_true, "y_true"),
                    _validation.as_array(_validation.label_columns(y_proba), "y_proba"),
                )
                for k, label in enumerate(label_names(y_true, y_proba, y.shape[1])):
                    tested = alone.check(
                        y[:, k],
                        p[:, k],
                        n_resamples=budget.n_resamples,
                        random_state=budget.seed,
                        groups=groups if name == _SEGMENTS else None,
                        sample_weight=sample_weight,
                        weights=weights,
                        pos_label=1,
                    )
                    results += [
                        replace(each, requirement=f"{each.requirement}, label {one_line(label, 80)}")
                        for each in tested.results
                    ]
                continue
            metric, limit, called = _metric_of(name, limit)
            try:
                found: IntervalEstimate = confidence_interval(
                    y_true,
                    y_proba,
                    metric=metric,
                    confidence=budget.confidence,
                    n_resamples=budget.n_resamples,
                    random_state=budget.seed,
                    sample_weight=sample_weight,
                    weights=weights,
                    clusters=clusters,
                    pos_label=pos_label,
                    reduction=reduction,
                    labels=labels,
                )
            except UndefinedMetricError:
                found = _UNDEFINED
            numbers = sample.total, sample.rarest
            results.append(_metric_result(name, called, limit, found, reduction, *numbers))
        return RequirementsResult(tuple(results), self.alpha, sample.total, **weighting(sample))


def _metric_of(name: str, limit: Any) -> tuple[Metric, Any, str]:
    """Return the metric with the parameters in ``limit``, its limit, and its name with the parameters."""
    metric, given = as_metric(name), dict(limit) if isinstance(limit, Mapping) else {"limit": limit}
    known = inspect.signature(metric).parameters
    if "limit" not in given or (others := given.keys() - known.keys() - {"limit"}):
        wrong = f"not {sorted(others)}" if "limit" in given else f"got {limit!r}"
        raise ValueError(f"{name} must have the key 'limit' and may have parameters of the metric, {wrong}.")
    limit = given.pop("limit")
    shown = {"threshold": known["threshold"].default} | given if "threshold" in known else given
    words = ", ".join(f"{key}={one_line(str(value), 40)}" for key, value in shown.items())
    return partial(metric, **given) if given else metric, limit, f"{name}({words})" if words else name


def _metric_result(
    name: str,
    called: str,
    limit: Any,
    found: Any,
    reduction: str | None,
    n_samples: float,
    rarest: float,
    extremes: tuple[float, float] = (-np.inf, np.inf),
) -> RequirementResult:
    """Compare the interval of a metric with its limits.

    That of a score is too short with few samples of the rarer outcome, of which there are ``rarest``: then
    ``extremes``, the range of the score for any outcomes, must decide.
    """
    of = called if reduction is None else f"{called} ({reduction})"
    if not _is_score(name):
        return outcome_of(name, f"{of} <= {limit}", found, -np.inf, limit, n_samples)
    low, high = limit
    text = f"{of} in [{low}, {high}]"
    result = outcome_of(name, text, found, low, high, n_samples)
    if rarest >= FEWEST_EVENTS:
        return result
    ends = min(found.lower, extremes[0]), max(found.upper, extremes[1])
    exact = IntervalEstimate(found.estimate, *ends)
    if outcome_of(name, text, exact, low, high, n_samples).outcome != "undecided":
        return result
    needed = np.ceil(n_samples * FEWEST_EVENTS / rarest) if rarest else np.inf
    return replace(
        result,
        requirement=f"{text}, {sample_words(rarest)} of the rarer outcome",
        outcome="undecided",
        n_needed=float(np.fmax(result.n_needed, needed)),
    )


def _is_score(name: str) -> bool:
    """Tell whether a requirement is on a metric that is not a calibration error."""
    return name in metric_names() and not declaration(as_metric(name)).calibration_error


def _is_finite(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and type(value) is not bool
    # an integer can exceed the greatest float
    return number and bool(abs(value) < 1e300)


def _segment_limit(limit: Any) -> tuple[float, int]:
    """Return the bound of the difference, and the least number of samples of a segment."""
    given = dict(limit) if isinstance(limit, Mapping) else {"limit": limit}
    if "limit" not in given or not given.keys() <= {"limit", "min_samples"}:
        raise ValueError(f"{_SEGMENTS} must have the key 'limit' and may have 'min_samples', got {limit!r}.")
    least = _validation.check_integer(given.get("min_samples", 1), f"{_SEGMENTS}: min_samples")
    return _validation.check_positive(given["limit"], f"{_SEGMENTS}: limit"), least


@dataclass(frozen=True)
class _Corrected(IntervalEstimate):
    """An estimate that is corrected for its bias, with its interval."""

    corrected: float = float("nan")


def _certificate(
    grouped: GroupedOutcomes, small: GroupedOutcomes, alpha: float, budget: _numbers.Budget
) -> _Corrected:
    """Return the cutoff calibration error with a margin on both sides that is valid for every curve.

    The corrected value is 0 if the error is below its asymptotic mean under calibration: the range of
    Brownian motion on [0, 1] has mean (8 / pi)**.5.
    """
    value, (_, observed) = cutoff_of_groups(grouped), grouped.frequencies()
    low, high = event_rate_limits(grouped, 1.0 - 2.0 * alpha)
    margin = bootstrap_margin(small, 1.0 - alpha, budget.n_draws, budget.generator)
    # of few events, bootstrap samples are too much alike
    margin = max(margin, high - observed, observed - low)
    expected = float(np.sqrt(8.0 / np.pi * grouped.variance.sum())) / grouped.total
    ends = max(value - margin, 0.0), min(value + margin, 1.0)
    return _Corrected(value, *ends, _MARGIN, value if value > expected else 0.0)


def _segments(
    parts: list[tuple[str, _validation.BinarySample]], limit: float, least: int, alpha: float
) -> list[RequirementResult]:
    """Test the difference between event frequency and mean prediction in each large segment."""
    grouped = [(key, group_sample(part)) for key, part in parts]
    large = [(key, part) for key, part in grouped if part.samples.total >= least]
    if not large:
        most = max(part.samples.total for _, part in grouped)
        raise ValueError(
            f"segment_difference: no group has min_samples={least} samples; the largest has {most:.0f}."
        )
    results = []
    for key, part in large:
        ends = (part.weight @ (truth - part.prob) for truth in shifted(part, alpha / len(large)))
        value, low, high = (float(each) / part.total for each in (part.residual.sum(), *ends))
        found = IntervalEstimate(value, low, high, "score")
        text = f"|observed - predicted| <= {limit:g} in group {one_line(key, 80)}"
        results.append(outcome_of(_SEGMENTS, text, found, -limit, limit, part.samples.total))
    return results


def outcome_of(
    name: str, text: str, found: IntervalEstimate, low: float, high: float, n_samples: float
) -> RequirementResult:
    """Compare an interval with its limits."""
    value, needed = getattr(found, "corrected", found.estimate), np.nan
    if low <= found.lower and found.upper <= high:
        outcome = projected = "pass"
    elif found.lower > high or found.upper < low:
        outcome = projected = "fail"
    else:
        outcome, projected = "undecided", "fail"
        above, below = found.upper - value, value - found.lower
        with np.errstate(divide="ignore", invalid="ignore"):
            # how much narrower the interval would have to be, on the sides that cross a limit
            if low <= value <= high:
                sides = (found.upper > high, above, high - value), (found.lower < low, below, value - low)
                ratios = (float(np.divide(part, distance)) for crosses, part, distance in sides if crosses)
                ratio = max(ratios, default=np.inf)
                projected = "pass"
            else:
                ratio = np.maximum(np.divide(below, value - high), np.divide(above, low - value))
        # or no estimate, or one at the limit
        if not 0.0 < ratio < _AT_LIMIT:
            ratio, projected = np.inf, "undecided"
        needed = float(np.ceil(n_samples * ratio * ratio))
    ends = found.lower, found.upper
    return RequirementResult(
        name,
        text,
        outcome,
        found.estimate,
        *ends,
        n_samples,
        needed,
        projected,
        corrected=value,
        method=found.method,
    )
