"""A monitor of calibration: alerts with a guarantee, errors on a moving window, and a history."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._html import result_html
from sklearn_calib._validation import (
    Outcomes,
    check_flag,
    check_fraction,
    check_frequency_weights,
    check_integer,
    check_option,
    check_size,
    is_summary,
)
from sklearn_calib.metrics._expected import ExpectedPerformance, expected_performance
from sklearn_calib.metrics._names import as_metric
from sklearn_calib.monitor._alert import (
    CalibrationAlert,
    find_tendency,
    shown_errors,
    shown_evidence,
    shown_time,
)
from sklearn_calib.monitor._evidence import Evidence
from sklearn_calib.monitor._history import COLUMNS, History
from sklearn_calib.sketch import CalibrationSketch, WindowedSketch
from sklearn_calib.sketch._batch import check_batch
from sklearn_calib.sketch._lock import Locked
from sklearn_calib.sketch._windowed import WindowStep

Metric = Callable[..., Any]

# Integers up to this one are exact floats.
_LONGEST_RUN = 2**53
_MODES = ("anytime", "run-length")


@dataclass(frozen=True, eq=False)
class _State:
    """The state of a monitor, immutable except for the window, which changes in a separate step."""

    window: WindowedSketch
    evidence: Evidence
    history: History
    alerts: tuple[CalibrationAlert, ...] = ()
    n_samples: int = 0
    alarmed: bool = False
    # the newest slot of the window at the last computation of the metrics
    measured: int | None = None


class CalibrationMonitor(Locked):
    r"""Monitor a stream of outcomes and predictions, and alert when the predictions are not calibrated.

    Pass each batch to :meth:`update`, which returns the alerts that it raises. The evidence is an e-process
    or e-detector, so repeated monitoring does not inflate the rate of false alarms. In addition, metrics are
    computed on a moving window.

    Parameters
    ----------
    mode : {"anytime", "run-length"}, default="anytime"
        The guarantee. "anytime": as long as the predictions are calibrated, the probability that there is
        *ever* an alert is at most ``alpha``. "run-length": the average run length, the expected number of
        samples between false alarms, is at least ``run_length``; the detection delay does not grow with the
        time of the change.
    alpha : float, default=0.05
        Probability of a false alarm with ``mode="anytime"``; in (0, 1).
    run_length : int, default=1_000_000
        Minimum average run length with ``mode="run-length"``; at least 2.
    restart : bool, default=False
        Whether the test restarts automatically after an alert. Otherwise there is no further alert until
        :meth:`restart` is called.
    dependent_batches : bool, default=False
        Whether the outcomes of a batch may depend on each other: if each batch is a cluster, such as a day or
        a hospital. The guarantee then holds whatever this dependence; miscalibration is detected later.
    window : int, float or timedelta, default=10_000
        Length of the window on which errors are measured, as for :class:`WindowedSketch`: a number of
        samples, or of the unit of numbers passed as ``time``, or a duration if dates are passed.
    n_slots : int, default=10
        Number of slots of the window, which moves by one slot at a time.
    late : {"raise", "drop"}, default="raise"
        How to handle samples that are older than the window: raise an error, or omit them from the window;
        the test then uses them nevertheless.
    metrics : str, callable, or sequence of them, default="smooth_ece"
        Metrics: names of functions of ``sklearn_calib.metrics`` that return a number, or functions
        ``metric(y_true, y_proba, sample_weight=...)``, such as ``sklearn.metrics.log_loss``. The first is
        shown in plots.
    reference : CalibrationSketch, default=None
        Outcomes and predictions of a reference period, whose errors are reported for comparison, and with
        whose predictions :meth:`expected_performance` compares new ones. The test does not use them.
    pos_label : label, default=None
        The positive class. Required for labels other than 0 and 1, -1 and 1, or booleans, because a batch may
        contain only one of the two labels.
    precision : int, default=17
        Precision of the sketches.
    max_history : int, default=100_000
        Number of batches kept for :meth:`history`.

    Attributes
    ----------
    evidence_, log_evidence_ : float
        The current evidence since the start or the last restart, and its logarithm: an e-value with
        ``mode="anytime"``.
    pvalue_ : float or None
        Anytime-valid p-value, 1 / the largest evidence since the start or the last restart; None with
        ``mode="run-length"``.
    threshold_ : float
        The evidence that raises an alert: 1 / ``alpha``, or ``run_length``.
    alarmed_ : bool
        Whether there has been an alert since the start or the last restart.
    alerts_ : tuple of CalibrationAlert
        All alerts so far.
    n_samples_seen_ : int
        Number of samples seen.
    errors_ : dict of str to float
        The metrics on the current window; empty if it has no samples.
    reference_errors_ : dict of str to float
        The metrics on the reference; empty without one.
    window_ : WindowedSketch
        The window, with outcomes 1 for the positive class.

    See Also
    --------
    StreamingCalibrator : Recalibration of a stream.
    SequentialTest : The test alone, for streams in which the order of all samples is known.
    WindowedSketch : The window alone.

    Notes
    -----
    *Null hypothesis.* Given the past and the predictions of a batch, its outcomes are independent Bernoulli
    variables with the predicted probabilities. Batches may have any size, including one sample, and the order
    of the samples within a batch does not matter, because all bets are placed before the first of its
    outcomes is used. The order of the batches must not depend on future outcomes: if events are reported
    sooner than their absence, score a prediction once its outcome window has closed.

    With ``dependent_batches`` they may depend on each other: the wealth of a strategy with probabilities q is
    multiplied by the mean of q(y) / p(y) over the batch instead of by the product, which has expectation 1
    whatever the dependence, as any mean of e-values [4]_. The tree is then not used.

    *Evidence.* The bets are those of :class:`SequentialTest`, recalibrations of the log-odds and a tree
    over the values of the predictions, except that the learned bets do not change within a batch, and that
    there are five trees with equal weights: one that remembers all batches, and four that are replaced by new
    ones after 16, 64, 256 and 1024 starts, so that errors in an interval of predictions are also detected
    after a long calibrated period. Strategies start before the first batch, and before each batch preceded by
    at least 32 samples since the last start. Let :math:`W_k(t)` be the wealth of strategy :math:`k`, with
    weight :math:`c_k` and initial wealth 1, after batch :math:`t`, and :math:`s_0 < s_1 < \dots` the batches
    before the starts.

    *Mode "anytime".* The evidence is

    .. math:: E_t = \sum_{j: s_j < t} v_j \sum_k c_k \frac{W_k(t)}{W_k(s_j)} + \sum_{j: s_j \ge t} v_j,
        \qquad v_j = \frac 1 {(j + 1) (j + 2)},

    a martingale with :math:`E_0 = 1`, so that :math:`P(\sup_t E_t \ge 1/\alpha) \le \alpha` by Ville's
    inequality [2]_: :math:`E_t` is a test martingale. After each restart, whatever happened before, the
    probability of another false alarm is again at most :math:`\alpha`; on a stream that is always calibrated
    the expected total number of alerts is therefore at most :math:`\alpha / (1 - \alpha)`.

    *Mode "run-length".* Every start adds new wealth :math:`v_j`, the number of samples since the last start
    (1 at first):

    .. math:: M_t = \sum_{j: s_j < t} v_j \sum_k c_k \frac{W_k(t)}{W_k(s_j)},

    which is a Shiryaev-Roberts e-detector [1]_ of a mixture: it is updated in constant time. As :math:`M_t -
    \sum_{j: s_j < t} v_j` is a martingale that starts at 0, and the added wealth does not exceed the number
    of samples seen, the expected number of samples before a false alarm is at least ``run_length``. The same
    holds after an alarm and a restart. The expected number of false alarms among the first :math:`n` samples
    is at most :math:`n` / ``run_length``, for every :math:`n`. A calibrated stream can eventually raise a
    false alarm; in return, the evidence needed to detect a change does not grow with the time of the change.

    *Impossible outcomes.* A prediction of exactly 0 or 1 with the opposite outcome makes the evidence
    infinite. One with the predicted outcome does not change it.

    *Windows.* Metrics are computed when a batch opens a new slot of the window, and at alerts, so not with
    every batch if batches are smaller than a slot. They are estimates with the usual upward bias and not part
    of any guarantee. A metric that fails on a window is NaN, with a warning.

    *Threads and interruptions.* A monitor may be used by several threads: each update and restart is atomic,
    in the order in which the calls acquire the lock. A call that raises an exception of any kind, from a
    metric, by Ctrl-C or for lack of memory, either has no effect or is completed.

    The time of a batch is proportional to its samples, with about a hundred exponentials for each. Apart from
    history and alerts, the state has constant size.

    References
    ----------
    .. [1] J. Shin, A. Ramdas and A. Rinaldo (2023). E-detectors: a nonparametric framework for sequential
       change detection. New England Journal of Statistics in Data Science 2. arXiv:2203.03532
    .. [2] J. Ville (1939). Étude critique de la notion de collectif. Gauthier-Villars.
    .. [3] S. Arnold, A. Henzi and J. F. Ziegel (2023). Sequentially valid tests for forecast calibration.
       Annals of Applied Statistics 17.
    .. [4] V. Vovk and R. Wang (2021). E-values: calibration, combination and applications. Annals of
       Statistics 49.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.monitor import CalibrationMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = CalibrationMonitor(alpha=0.01, window=np.timedelta64(5, "D"), n_slots=5)
    >>> for day in np.arange("2024-03-01", "2024-03-31", dtype="datetime64[D]"):
    ...     p = rng.uniform(size=200)
    ...     truth = p if day < np.datetime64("2024-03-16") else p**2
    ...     for alert in monitor.update(rng.uniform(size=200) < truth, p, time=day):
    ...         print(alert.time.astype("datetime64[D]"), alert.direction)
    2024-03-16 fewer events
    """

    def __init__(
        self,
        *,
        mode: str = "anytime",
        alpha: float = 0.05,
        run_length: int = 1_000_000,
        restart: bool = False,
        dependent_batches: bool = False,
        window: Any = 10_000,
        n_slots: int = 10,
        late: str = "raise",
        metrics: str | Metric | Sequence[str | Metric] = "smooth_ece",
        reference: CalibrationSketch | None = None,
        pos_label: Any = None,
        precision: int = 17,
        max_history: int = 100_000,
    ) -> None:
        super().__init__()
        self._mode = check_option(mode, "mode", _MODES)
        alpha, run_length = (
            check_fraction(alpha, "alpha"),
            check_size(run_length, "run_length", 2, _LONGEST_RUN),
        )
        self.threshold_ = 1.0 / alpha if mode == "anytime" else float(run_length)
        self._restarts = check_flag(restart, "restart")
        self._dependent = check_flag(dependent_batches, "dependent_batches")
        self._metrics = _check_metrics(metrics)
        self._pos_label = pos_label
        self._empty_window = WindowedSketch(window, n_slots=n_slots, late=late, precision=precision)
        history = History(list(self._metrics), check_integer(max_history, "max_history"))
        if reference is not None and not is_summary(reference):
            raise TypeError(
                f"reference must be a CalibrationSketch, got {type(reference).__name__}. Pass "
                "CalibrationSketch().update(y_true, y_proba)."
            )
        self._reference = reference
        self.reference_errors_ = {} if reference is None else self._measure(reference)
        self._state = _State(self._empty_window.copy(), self._new_evidence(), history)
        # an update in progress: the step of the window, and the state after it
        self._next: tuple[WindowStep, _State] | None = None

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        time: Any = None,
    ) -> list[CalibrationAlert]:
        """Add the next batch, of any size. The order within a batch does not matter.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Outcomes; one label only, or no sample at all, is allowed.
        y_proba : array-like of shape (n,), (n, 1) or (n, 2)
            Probabilities of the positive class, predicted before the outcomes were known.
        sample_weight : array-like of shape (n,), default=None
            Integer frequency weights.
        time : number, date, or array-like of shape (n,), default=None
            Times for the window: one for the batch, or one for each sample. None counts samples. All calls
            must use the same type.

        Returns
        -------
        list of CalibrationAlert
            The alert, if this batch raises one; else empty.

        Raises
        ------
        ValueError
            If an argument is malformed (the message names it), or, with ``late="raise"``, if a sample is
            older than the window. The monitor is then unchanged.
        TypeError
            If ``time`` holds neither numbers nor dates.
        """
        batch = check_batch(y_true, y_proba, sample_weight, self._pos_label)
        y, p = batch.y.astype(np.int64), batch.p.astype(np.float64) + 0.0
        times = None
        if batch.w is not None:
            keep = batch.w > 0
            y, p = y[keep], p[keep]
            times = check_frequency_weights(batch.w[keep].astype(np.float64))
        with self._lock:
            state = self._now()
            step = state.window._plan(batch, time)
            if step is None:
                return []
            n_samples = state.n_samples + (p.shape[0] if times is None else int(times.sum()))
            now = n_samples if time is None else step.state.clock.show(step.state.newest)
            evidence, slot = deepcopy(state.evidence), step.state.newest_slot
            log_evidence = evidence.play(y, p, times, (now, slot))
            alert = not state.alarmed and log_evidence >= math.log(self.threshold_)
            measured = None
            if alert or slot != state.measured:
                sketch = self._sketch(step)
                measured = self._measure(sketch) | _rates(sketch)
            found = [self._alert(now, evidence, step, sketch, measured)] if alert and measured else []
            again = bool(found) and self._restarts
            self._make(
                step,
                replace(
                    state,
                    evidence=self._new_evidence() if again else evidence,
                    history=state.history.add(now, n_samples, log_evidence, alert, measured),
                    alerts=(*state.alerts, *found),
                    n_samples=n_samples,
                    alarmed=(state.alarmed or alert) and not again,
                    measured=slot,
                ),
            )
        return found

    def expected_performance(
        self, y_proba: Outcomes, *, certificate: float | None = None, **options: Any
    ) -> ExpectedPerformance:
        """Estimate the performance on samples whose outcomes are not known yet.

        If the distribution of the predictions differs from that of ``reference``, the intervals are wider.
        The monitor does not change.

        Parameters
        ----------
        y_proba : array-like of shape (n,), (n, 1) or (n, 2), or CalibrationSketch
            Probabilities of the positive class.
        certificate : float, default=None
            Upper bound on the cutoff calibration error of the predictions in the reference period.
        **options
            Other parameters of :func:`sklearn_calib.metrics.expected_performance`, such as ``threshold``.

        Returns
        -------
        ExpectedPerformance
            Estimates with intervals, and the assumption under which they hold.

        Raises
        ------
        ValueError
            If an argument is malformed (the message names it), or the monitor has no reference.
        """
        if self._reference is None:
            raise ValueError(
                "The monitor has no reference to compare y_proba with. Pass reference= to "
                "CalibrationMonitor, or call sklearn_calib.metrics.expected_performance."
            )
        return expected_performance(y_proba, certificate=certificate, reference=self._reference, **options)

    def restart(self, *, empty_window: bool = True) -> None:
        """Restart the test, for instance after the model has been recalibrated.

        Parameters
        ----------
        empty_window : bool, default=True
            Whether to empty the window, which contains samples of the previous model. History and alerts are
            kept.

        Raises
        ------
        TypeError
            If ``empty_window`` is neither True nor False.
        """
        check_flag(empty_window, "empty_window")
        with self._lock:
            state = replace(self._now(), evidence=self._new_evidence(), alarmed=False)
            if empty_window:
                state = replace(state, window=self._empty_window.copy(), measured=None)
            self._state = state

    def history(self) -> dict[str, NDArray[Any]]:
        """Return the history as a table.

        Returns
        -------
        dict of str to ndarray
            One row for each batch, at most the last ``max_history``: "time", "n_samples" (seen so far),
            "log_evidence", "alert" (whether it raised one), and "event_rate", "mean_prediction" and one
            column for each metric, measured on the window, or NaN if not measured.
        """
        return self._now().history.columns()

    @property
    def mode(self) -> str:
        """The guarantee."""
        return self._mode

    @property
    def window_(self) -> WindowedSketch:
        """The window."""
        return self._now().window

    @property
    def alerts_(self) -> tuple[CalibrationAlert, ...]:
        """All alerts so far."""
        return self._now().alerts

    @property
    def n_samples_seen_(self) -> int:
        """Number of samples seen."""
        return self._now().n_samples

    @property
    def alarmed_(self) -> bool:
        """Whether there has been an alert since the start or the last restart."""
        return self._now().alarmed

    @property
    def log_evidence_(self) -> float:
        """Logarithm of the current evidence."""
        return self._now().evidence.log_value

    @property
    def evidence_(self) -> float:
        """The current evidence; infinite above 1.8e308."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_evidence_))

    @property
    def pvalue_(self) -> float | None:
        """Anytime-valid p-value since the start or the last restart; None with ``mode="run-length"``."""
        return self._pvalue(self._now().evidence)

    @property
    def errors_(self) -> dict[str, float]:
        """The metrics on the current window; empty if it has no samples."""
        sketch = self.window_.current()
        return self._measure(sketch) if sketch.n_samples else {}

    def __repr__(self) -> str:
        state = self._now()
        return (
            f"<CalibrationMonitor(mode={self._mode!r}) of {state.n_samples} samples, "
            f"{len(state.alerts)} alerts>"
        )

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = self._now()
            own = replace(state, window=state.window.copy(), history=state.history.copy())
            return super().__getstate__() | {"_state": own}

    def __str__(self) -> str:
        lines = [f"  {name:<15}  {value}" for name, value in self._facts(copy(self)._state) if value]
        return "\n".join(["calibration monitor", *lines])

    def _repr_html_(self) -> str:
        state = copy(self)._state
        alerts = [
            {
                "time": shown_time(alert.time),
                "evidence": shown_evidence(alert.log_evidence),
                "direction": alert.direction,
                **alert.errors,
            }
            for alert in state.alerts
        ]
        caption = f"alerts ({len(alerts)})"
        return result_html("calibration monitor", self._facts(state), [(caption, alerts)])

    def _facts(self, state: _State) -> list[tuple[str, str]]:
        if self._mode == "anytime":
            guarantee = f"probability of any false alarm at most {1.0 / self.threshold_:g}"
        else:
            guarantee = f"average run length at least {self.threshold_:g} samples"
        sketch = state.window.current()
        evidence = f"{shown_evidence(state.evidence.log_value)}, alert at {self.threshold_:g}"
        last = f", the last at {shown_time(state.alerts[-1].time)}" if state.alerts else ""
        facts = [
            ("guarantee", guarantee),
            ("samples", f"{state.n_samples} seen, {sketch.n_samples} in the window"),
            ("evidence", f"{evidence}, over {state.evidence.n_samples} samples"),
            ("alerts", f"{len(state.alerts)}{last}"),
            ("too late", f"{state.window.n_late}" if state.window.n_late else ""),
        ]
        if sketch.n_samples:
            rates = f"rate {sketch.event_rate:.4g}, mean prediction {sketch.mean_prediction:.4g}"
            facts.append(("events", rates))
            facts += shown_errors(self._measure(sketch), self.reference_errors_)
        return facts

    def _now(self) -> _State:
        """Return the state; an interrupted update is either completed or discarded."""
        if self._next is not None:
            with self._lock:
                if self._next is not None:
                    step, state = self._next
                    if state.window._now() is step.state:
                        self._state = state
                    self._next = None
        return self._state

    def _make(self, step: WindowStep, state: _State) -> None:
        """Make an update; if interrupted, it is completed or discarded at the next access."""
        self._next = step, state
        state.window._make(step)
        self._state = state
        self._next = None

    def _new_evidence(self) -> Evidence:
        return Evidence(detector=self._mode == "run-length", dependent=self._dependent)

    def _measure(self, sketch: CalibrationSketch) -> dict[str, float]:
        """Return all metrics of a sketch; one that fails is NaN, so that the monitor continues."""
        rows, errors = sketch.as_weighted_sample(), {}
        for name, metric in self._metrics.items():
            try:
                errors[name] = float(metric(rows.y, rows.p, sample_weight=rows.w))
            except (ValueError, ArithmeticError) as error:
                warnings.warn(
                    f"{name} failed on {sketch.n_samples} samples: {error}", RuntimeWarning, stacklevel=3
                )
                errors[name] = math.nan
        return errors

    def _pvalue(self, evidence: Evidence) -> float | None:
        return evidence.pvalue if self._mode == "anytime" else None

    def _sketch(self, step: WindowStep, n_slots: int | None = None) -> CalibrationSketch:
        """Return the newest slots of the window as they are after a step."""
        length = step.state.clock.n_slots if n_slots is None else n_slots
        return step.sketch(length, self._empty_window.current())

    def _alert(
        self,
        now: Any,
        evidence: Evidence,
        step: WindowStep,
        sketch: CalibrationSketch,
        measured: dict[str, float],
    ) -> CalibrationAlert:
        since, slot = (None, None) if evidence.since is None else evidence.since
        tendency = find_tendency(self._newer(step, sketch, slot))
        return CalibrationAlert(
            time=now,
            n_samples=evidence.n_samples,
            mode=self._mode,
            log_evidence=evidence.log_value,
            threshold=self.threshold_,
            pvalue=self._pvalue(evidence),
            since=since,
            direction=tendency.direction,
            intercept=tendency.intercept,
            slope=tendency.slope,
            event_rate=sketch.event_rate,
            mean_prediction=sketch.mean_prediction,
            n_samples_window=sketch.n_samples,
            errors={name: measured[name] for name in self._metrics},
            reference_errors=dict(self.reference_errors_),
            impossible=evidence.impossible,
        )

    def _newer(self, step: WindowStep, sketch: CalibrationSketch, slot: int | None) -> CalibrationSketch:
        """Return the samples since a slot; its own are excluded if there are more later ones."""
        newest = step.state.newest_slot
        if slot is None or newest is None:
            return sketch
        later = self._sketch(step, newest - slot) if newest > slot else None
        both = self._sketch(step, newest - slot + 1)
        return later if later is not None and 2 * later.n_samples > both.n_samples else both


def _check_call(name: str, metric: Metric) -> None:
    """Raise if the signature of a metric does not allow the required arguments."""
    try:
        known = signature(metric)
    except (TypeError, ValueError):
        return
    try:
        known.bind(None, None, sample_weight=None)
    except TypeError as error:
        raise TypeError(
            f"metrics cannot be called as {name}(y_true, y_proba, sample_weight=...): {error}. Pass "
            "functions with these arguments; the samples of a window have weights."
        ) from None


def _rates(sketch: CalibrationSketch) -> dict[str, float]:
    return {"event_rate": sketch.event_rate, "mean_prediction": sketch.mean_prediction}


def _check_metrics(metrics: Any) -> dict[str, Metric]:
    """Return the metrics by name, in order."""
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    if not isinstance(metrics, Iterable):
        raise TypeError(f"metrics must be names or functions, got {metrics!r}.")
    listed = list(metrics)
    if not listed:
        raise ValueError("metrics is empty. Pass at least one metric.")
    found: dict[str, Metric] = {}
    for metric in listed:
        function = as_metric(metric, "metrics")
        name = getattr(function, "__name__", type(function).__name__)
        _check_call(name, function)
        if name in found or name in COLUMNS:
            raise ValueError(f"metrics has the name {name!r} twice, or it is that of another column.")
        found[name] = function
    return found
