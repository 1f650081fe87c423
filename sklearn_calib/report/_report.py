"""Everything about the calibration of one set of predictions, in one call."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._progress import Progress
from sklearn_calib._validation import (
    BinarySample,
    ClassSample,
    Outcomes,
    as_array,
    check_binary,
    check_class_sample,
    check_fraction,
    check_frequency_weights,
    check_generator,
    check_groups,
    check_resamples,
    check_weights,
    equals_label,
    is_summary,
    sample_rows,
    shape_of,
    shown_label,
)
from sklearn_calib._version import __version__
from sklearn_calib.metrics._reductions import split_classes
from sklearn_calib.report._compute import (
    binary_steps,
    classes_test,
    examine,
    part_lines,
    with_adjusted,
)
from sklearn_calib.report._lines import ReportPart
from sklearn_calib.report._measure import Budget
from sklearn_calib.report._result import CalibrationReport

__all__ = ["calibration_report"]

_FEWEST_RESAMPLES = 20


def calibration_report(
    y_true: Outcomes | Mapping[Any, Outcomes],
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    name: str | None = None,
    confidence: float = 0.95,
    n_resamples: int = 200,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    progress: bool | Callable[[int, int, str], Any] | None = None,
) -> CalibrationReport:
    """Say in one call how well predicted probabilities are calibrated, where they are off, and what to do.

    Every measure stands beside its confidence interval and beside its floor: what a perfectly calibrated
    model with the same predictions would show on as many rows. One test decides whether the model is
    miscalibrated; others say in which way. Stretches of predictions that are off are named where the evidence
    is beyond chance.

    Parameters
    ----------
    y_true : array-like of shape (n,), CalibrationSketch or dict of these
        Labels, of rows that the model was not trained on; or a sketch of such rows, or a sketch for each
        group by its name, which stands for ``groups`` too.
    y_proba : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes), default=None
        Predicted probabilities in [0, 1]: of the positive class (of two columns the last is used), or of
        three or more classes in sorted order. Left out with a sketch.
    sample_weight : array-like of shape (n,), default=None
        Frequencies: whole numbers, how often each row was observed.
    pos_label : label, default=None
        The positive class of two. By default 1 for labels in {0, 1} or {-1, 1}, else the greater one.
    labels : array-like of shape (n_classes,), default=None
        Labels of three or more columns, which stand in sorted order. Needed where a label is missing in
        ``y_true``, unless labels are 0, ..., n_classes - 1.
    groups : array-like of shape (n,), default=None
        Group of each row, such as a region or a year; the report then has a line for each group.
    name : str, default=None
        Name of the model, for the title.
    confidence : float, default=0.95
        Level of intervals and ranges; the tests have level 1 - ``confidence``.
    n_resamples : int, default=200
        Resamples behind each floor and each step of an interval; tests redraw 5 times as many less one. At
        least 1 / (1 - ``confidence``) - 1 and at least 20. The time is nearly proportional to it.
    random_state : int, Generator, RandomState or None, default=0
        Seed: equal seeds give equal reports. None draws a fresh one.
    progress : bool, callable or None, default=None
        None shows a bar if stderr is a terminal and tqdm is installed, True always, False never. A function
        is called as ``progress(done, total, what)``.

    Returns
    -------
    CalibrationReport
        The report: ``print`` it, let a notebook show it, or write it with ``to_html``.

    Raises
    ------
    ValueError
        If an argument is malformed (the message names it), or weights are not whole numbers.
    TypeError
        If a parameter is of the wrong type.
    ImportError
        If ``progress=True`` and tqdm is not installed.

    See Also
    --------
    sklearn_calib.inference.compare_models : Several models on the same rows.
    sklearn_calib.inference.CombinedTest : The test that decides.

    Notes
    -----
    Values, scores and tests are those of :mod:`sklearn_calib.metrics` and :mod:`sklearn_calib.inference`,
    intervals and floors those of :func:`~sklearn_calib.inference.confidence_interval` and
    :func:`~sklearn_calib.inference.null_floor`. The ranges of perfectly calibrated predictions for observed -
    expected, intercept, slope and the proper scores are normal, with the variance that the predictions
    imply; intervals of the scores are normal too.

    Of more than 4096 distinct predictions, floors, intervals, slopes and redrawn stretches are those of 2048
    cells of neighbouring predictions, each with its mean (ICI: 128 cells of more than 256, and a quarter of
    the resamples). From 100 000 rows on the tests take the laws of large samples instead of draws.

    Three or more classes are judged twice: all measures are of the confidence, the largest probability as a
    forecast that its class is right; and each class has a line of its own. The p-value that decides is twice
    the smaller of the combined test of the confidence and the test of all classes together (T-Cal, with more
    than 20 classes the kernel test).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.report import calibration_report
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> y = rng.uniform(size=500) < p**2
    >>> report = calibration_report(y, p, name="too high", n_resamples=50)
    >>> report.miscalibrated
    True
    >>> print(report.metric("observed_minus_expected").value < 0)
    True
    >>> len(report.regions)
    1
    """
    check_fraction(confidence, "confidence")
    n_resamples = check_resamples(n_resamples, confidence)
    if n_resamples < _FEWEST_RESAMPLES:
        raise ValueError(f"n_resamples must be at least {_FEWEST_RESAMPLES}, got {n_resamples}.")
    seed = _seed(random_state)
    budget = Budget(confidence, n_resamples, seed)
    sketched = isinstance(y_true, Mapping) or is_summary(y_true)
    if isinstance(y_true, Mapping):
        label = shown_label(next(iter(y_true.values()), ()), pos_label)
        y_true, y_proba, sample_weight, groups = _of_groups(y_true, y_proba, sample_weight, pos_label, groups)
    else:
        label = shown_label(y_true, pos_label)
        y_true, y_proba, sample_weight = sample_rows(y_true, y_proba, sample_weight, pos_label, groups)
    keys = None if groups is None else check_groups(groups, shape_of(y_true, "y_true")[0])
    shape = shape_of(y_proba, "y_proba")
    if sample_weight is not None:
        outcomes = shape_of(y_true, "y_true")
        if not shape or shape[0] == 0 or shape[:1] != outcomes[:1]:
            raise ValueError(
                f"y_proba must have one row for each row of y_true, got shapes {shape} and {outcomes}."
            )
        weight = check_weights(sample_weight, shape[0])
        check_frequency_weights(weight)
        if keys is not None:
            keys = keys[weight > 0]
    several = len(shape) == 2 and shape[1] > 2
    whole: ClassSample | None = None
    names: list[str] = []
    if several:
        if pos_label is not None:
            raise ValueError(
                f"pos_label={pos_label!r} belongs to a binary problem, but y_proba has {shape[1]} columns. "
                "Leave it out, or pass one column."
            )
        whole = check_class_sample(y_true, y_proba, sample_weight, labels)
        names = [str(label) for label in whole.classes.tolist()]
        (problem,) = split_classes(whole.y, whole.p, "confidence", whole.w)
        sample = BinarySample(problem.outcome, problem.probability, whole.w)
    else:
        if labels is not None:
            raise ValueError("labels belongs to three or more columns; with two classes pass pos_label.")
        sample = check_binary(y_true, y_proba, sample_weight, pos_label)
    group_names = [] if keys is None else np.unique(keys).tolist()
    with Progress(progress, binary_steps() + bool(several) + len(names) + len(group_names)) as step:
        found = examine(sample, budget, step)
        tests = found.tests
        classes: tuple[ReportPart, ...] = ()
        if whole is not None:
            step("all classes together")
            joint = ("all classes", "all classes together", classes_test(whole, budget))
            first, *rest = [(line.name, line.question, line.result) for line in tests]
            tests = with_adjusted([first, joint, *rest], 2)
            problems = split_classes(whole.y, whole.p, "classwise", whole.w)
            classes = part_lines(
                [
                    (label, BinarySample(part.outcome, part.probability, whole.w))
                    for label, part in zip(names, problems, strict=True)
                ],
                budget,
                step,
            )
        parts = (
            [] if keys is None else [(str(key), sample.take(equals_label(keys, key))) for key in group_names]
        )
        group_lines = part_lines(parts, budget, step)
    deciding = [line.result.pvalue for line in tests if np.isnan(line.adjusted)]
    grouped = found.grouped
    certain = (grouped.prob <= 0.0) | (grouped.prob >= 1.0)
    impossible = np.where(grouped.prob <= 0.0, grouped.positives, grouped.weight - grouped.positives)
    return CalibrationReport(
        name="" if name is None else str(name),
        kind="confidence" if several else "binary",
        positive="" if several else _positive(y_true, label),
        n_samples=grouped.total,
        n_events=float(grouped.positives.sum()),
        n_distinct=int(grouped.prob.shape[0]),
        n_certain=float(grouped.weight[certain].sum()),
        n_impossible=float(impossible[certain].sum()),
        predicted=float(grouped.weight @ grouped.prob) / grouped.total,
        observed=float(grouped.positives.sum()) / grouped.total,
        metrics=found.metrics,
        tests=tests,
        pvalue=min(1.0, len(deciding) * min(deciding)),
        regions=found.regions,
        residual_pvalue=found.residual_pvalue,
        classes=classes,
        groups=group_lines,
        summary=found.summary,
        brier=found.brier,
        log_loss=found.log_loss,
        confidence=float(confidence),
        n_resamples=n_resamples,
        seed=seed,
        version=__version__,
        sketched=sketched,
        _sample=sample,
    )


def _of_groups(
    sketches: Mapping[Any, Any], y_proba: Any, sample_weight: Any, pos_label: Any, groups: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return outcomes, predictions, weights and groups of the rows that sketches stand for."""
    if not sketches:
        raise ValueError("y_true is an empty dict. Pass a CalibrationSketch for each group.")
    if len({repr(getattr(sketch, "pos_label", None)) for sketch in sketches.values()}) > 1:
        raise ValueError("the sketches in y_true have different positive classes.")
    parts = []
    for name, sketch in sketches.items():
        if not is_summary(sketch):
            raise TypeError(
                f"y_true[{name!r}] is a {type(sketch).__name__}. A dict holds a CalibrationSketch for each "
                "group; pass groups beside arrays."
            )
        try:
            parts.append(sample_rows(sketch, y_proba, sample_weight, pos_label, groups))
        except ValueError as error:
            raise ValueError(f"y_true[{name!r}]: {error}") from None
    y, p, w = (
        np.concatenate([np.asarray(values) for values in column]) for column in zip(*parts, strict=True)
    )
    return y, p, w, np.repeat(np.array(list(sketches)), [np.shape(outcomes)[0] for outcomes, _, _ in parts])


def _seed(random_state: Any) -> int:
    """Return the seed itself, or one drawn from a source of randomness."""
    generator = check_generator(random_state)
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(generator.integers(1 << 32))


def _positive(y_true: ArrayLike, pos_label: Any) -> str:
    """Return the label of the positive class, as the checks of a binary sample find it."""
    if pos_label is not None:
        return str(pos_label)
    known = np.unique(as_array(y_true, "y_true"))
    return str(known[-1]) if known.dtype.kind not in "biuf" or not set(known.tolist()) <= {-1, 0, 1} else "1"
