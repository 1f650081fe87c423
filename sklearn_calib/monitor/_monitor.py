"""A monitor of calibration: alerts with a guarantee, errors of the recent past, and a history."""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import metrics as _metrics
from sklearn_calib._html import result_html
from sklearn_calib._validation import (
    check_flag,
    check_fraction,
    check_frequency_weights,
    check_integer,
    check_option,
    check_size,
    is_summary,
)
from sklearn_calib.metrics._metric_kernel import is_metric
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

__all__ = ["CalibrationMonitor"]

Metric = Callable[..., Any]

# Whole numbers up to here are floats.
_LONGEST_RUN = 2**53
_MODES = ("ever", "run-length")
_KNOWN: dict[str, Metric] = {
    name: getattr(_metrics, name) for name in _metrics.__all__ if is_metric(getattr(_metrics, name))
}


class CalibrationMonitor:
    r"""Watch a stream of outcomes and predictions, and alert when the predictions are not calibrated.

    Each batch of outcomes is given to :meth:`update`, which returns the alerts that it raises. The evidence
    is that of a sequential test, so that looking after every batch does not add up to false alarms. Beside
    it, metrics are measured on the rows of the recent past.

    Parameters
    ----------
    mode : {"ever", "run-length"}, default="ever"
        The guarantee. "ever": as long as the predictions are calibrated, the probability that there is *ever*
        an alert is at most ``alpha``. "run-length": false alarms are rare in the long run, at most one in
        ``run_length`` rows in expectation, and a change is found equally soon whenever it comes.
    alpha : float, default=0.05
        Probability of a false alarm with ``mode="ever"``; in (0, 1).
    run_length : int, default=1_000_000
        Rows for one false alarm with ``mode="run-length"``; at least 2.
    restart : bool, default=False
        Whether the test starts anew by itself after an alert. Otherwise there is no further alert before
        :meth:`restart` is called.
    window : int, float or timedelta, default=10_000
        Length of the recent past on which errors are measured, as for :class:`WindowedSketch`: a number of
        rows, or of the unit of numbers passed as ``time``, or a duration if dates are passed.
    n_slots : int, default=10
        Parts of the window, which moves on by one at a time.
    late : {"raise", "count"}, default="raise"
        What to do with rows that are older than the window: refuse the batch, or leave them out of the
        window; the test then takes them all the same.
    metrics : str, callable, or sequence of them, default="smooth_ece"
        What is measured: names of functions of ``sklearn_calib.metrics`` that return a number, or functions
        ``metric(y_true, y_proba, sample_weight=...)``, such as ``sklearn.metrics.log_loss``. The first is the
        error in plots.
    reference : CalibrationSketch, default=None
        Outcomes and predictions of a time when all was well; their errors are shown beside those of the
        window. The test does not need them.
    pos_label : label, default=None
        The positive class. Needed for other labels than 0 and 1, -1 and 1, or booleans, because a batch may
        hold one of the two labels only.
    precision : int, default=17
        Of the sketches.
    max_history : int, default=100_000
        Number of batches of which :meth:`history` knows.

    Attributes
    ----------
    evidence_, log_evidence_ : float
        The evidence now, since the start or the last restart, and its logarithm: an e-value with
        ``mode="ever"``.
    pvalue_ : float or None
        Anytime-valid p-value, 1 / the largest evidence since the start or the last restart; None with
        ``mode="run-length"``.
    threshold_ : float
        The evidence that raises an alert: 1 / ``alpha``, or ``run_length``.
    alarmed_ : bool
        Whether there has been an alert since the start or the last restart.
    alerts_ : tuple of CalibrationAlert
        All alerts so far.
    n_rows_ : int
        Rows seen.
    errors_ : dict of str to float
        The metrics on the window now; empty if it has no rows.
    reference_errors_ : dict of str to float
        The metrics on the reference; empty without one.
    window_ : WindowedSketch
        The recent past, with outcomes 1 for the positive class.

    See Also
    --------
    StreamingCalibrator : The repair.
    SequentialTest : The test alone, for streams in which the order of all rows is known.
    WindowedSketch : The recent past alone.

    Notes
    -----
    *Null hypothesis.* Given all that happened before a batch, and the predictions of the batch, its outcomes
    are independent, each with the probability that was predicted for it. Batches may be of any size, a single
    row included, and the order of the rows within a batch does not matter, as all bets are made before the
    first of its outcomes is known. Batches must be passed in an order that does not depend on outcomes that
    are yet to come: if events are reported sooner than their absence, wait until both are known.

    *Evidence.* The bets are those of :class:`SequentialTest`, recalibrations of the log-odds and a tree
    over the values of the predictions, except that the learned bets do not change within a batch, and that
    there are five trees with an equal share of the capital: one that remembers all batches, and four that are
    replaced by new ones after 16, 64, 256 and 1024 starts, so that errors in some range of the predictions
    are found after a long calm, too. Bettors start before the first batch, and before each batch that at
    least 32 rows precede since the last start. Let :math:`W_k(t)` be what strategy :math:`k`, with the share
    :math:`c_k` of the capital, has made of one unit up to batch :math:`t`, and :math:`s_0 < s_1 < \dots` the
    batches before the starts.

    *Mode "ever".* The evidence is

    .. math:: E_t = \sum_{j: s_j < t} v_j \sum_k c_k \frac{W_k(t)}{W_k(s_j)} + \sum_{j: s_j \ge t} v_j,
        \qquad v_j = \frac 1 {(j + 1) (j + 2)},

    a martingale with :math:`E_0 = 1`, so that :math:`P(\sup_t E_t \ge 1/\alpha) \le \alpha` by Ville's
    inequality [2]_. From each restart on, whatever happened before, the probability of another false alarm is
    again at most :math:`\alpha`; so from a stream that is always calibrated at most :math:`\alpha / (1 -
    \alpha)` alerts are to be expected in all, however long it is.

    *Mode "run-length".* Every start brings capital of its own, as many units :math:`v_j` as rows have come
    since the last start, 1 at first, and nothing waits:

    .. math:: M_t = \sum_{j: s_j < t} v_j \sum_k c_k \frac{W_k(t)}{W_k(s_j)},

    which is a Shiryaev-Roberts e-detector [1]_ of a mixture: it is updated in constant time. As :math:`M_t -
    \sum_{j: s_j < t} v_j` is a martingale that starts at 0, and the capital does not exceed the rows seen,
    the expected number of rows before a false alarm is at least ``run_length``. After an alarm and a restart
    the same holds again. Counted from the beginning, the expected number of false alarms among the first
    :math:`n` rows is at most :math:`n` / ``run_length``, for every :math:`n`. But nothing
    keeps a stream that is always calibrated from an alert some day. In return, the evidence needed for a
    change does not grow with the time at which it happens.

    *Impossible outcomes.* A forecast of exactly 0 or 1 that fails makes the evidence infinite. One that comes
    true changes nothing.

    *Windows.* Metrics are measured when a batch has opened a new slot of the window, and at alerts; not with
    every batch if batches are smaller than a slot. Their estimates are of the window, biased upwards by noise
    as such estimates are, and not part of any guarantee. A metric that fails on a window is NaN, with a
    warning.

    A batch costs time in proportion to its rows, about a hundred exponentials each. The state does not grow,
    but for the history and the alerts.

    References
    ----------
    .. [1] J. Shin, A. Ramdas and A. Rinaldo (2023). E-detectors: a nonparametric framework for sequential
       change detection. New England Journal of Statistics in Data Science 2. arXiv:2203.03532
    .. [2] J. Ville (1939). Étude critique de la notion de collectif. Gauthier-Villars.
    .. [3] S. Arnold, A. Henzi and J. F. Ziegel (2023). Sequentially valid tests for forecast calibration.
       Annals of Applied Statistics 17.

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
        mode: str = "ever",
        alpha: float = 0.05,
        run_length: int = 1_000_000,
        restart: bool = False,
        window: Any = 10_000,
        n_slots: int = 10,
        late: str = "raise",
        metrics: str | Metric | Sequence[str | Metric] = "smooth_ece",
        reference: CalibrationSketch | None = None,
        pos_label: Any = None,
        precision: int = 17,
        max_history: int = 100_000,
    ) -> None:
        self._mode = check_option(mode, "mode", _MODES)
        alpha, run_length = (
            check_fraction(alpha, "alpha"),
            check_size(run_length, "run_length", 2, _LONGEST_RUN),
        )
        self.threshold_ = 1.0 / alpha if mode == "ever" else float(run_length)
        self._restarts = check_flag(restart, "restart")
        self._metrics = _check_metrics(metrics)
        self._pos_label = pos_label
        self.window_ = WindowedSketch(window, n_slots=n_slots, late=late, precision=precision)
        self._empty_window = self.window_.copy()
        self._history = History(list(self._metrics), check_integer(max_history, "max_history"))
        if reference is not None and not is_summary(reference):
            raise TypeError(
                f"reference must be a CalibrationSketch, got {type(reference).__name__}. Pass "
                "CalibrationSketch().update(y_true, y_proba)."
            )
        self.reference_errors_ = {} if reference is None else self._measure(reference)
        self.alerts_: tuple[CalibrationAlert, ...] = ()
        self.n_rows_ = 0
        self.alarmed_ = False
        self._evidence = self._new_evidence()
        self._measured: int | None = None

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        time: Any = None,
    ) -> list[CalibrationAlert]:
        """Take the next batch, of any size and in any order within.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Outcomes; one label only, or no row at all, is allowed.
        y_proba : array-like of shape (n,), (n, 1) or (n, 2)
            What was predicted for them, before they were known: probabilities of the positive class.
        sample_weight : array-like of shape (n,), default=None
            Frequencies: whole numbers; k stands for the row repeated k times.
        time : number, date, or array-like of shape (n,), default=None
            When, for the window: one time for the batch, or one for each row. None counts rows. All calls
            must agree in this.

        Returns
        -------
        list of CalibrationAlert
            The alert, if this batch raises one; else empty.

        Raises
        ------
        ValueError
            If an argument is malformed (the message names it), or, with ``late="raise"``, if a row is older
            than the window. The monitor is then left as it was.
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
        self.window_.update(batch.y, batch.p, sample_weight=batch.w, time=time)
        if not p.shape[0]:
            return []
        self.n_rows_ += p.shape[0] if times is None else int(times.sum())
        now = self.n_rows_ if time is None else self.window_.newest
        log_evidence = self._evidence.play(y, p, times, (now, self.window_.newest_slot))
        alert = not self.alarmed_ and log_evidence >= math.log(self.threshold_)
        measured = None
        if alert or self.window_.newest_slot != self._measured:
            self._measured = self.window_.newest_slot
            sketch = self.window_.current()
            measured = self._measure(sketch) | _rates(sketch)
        self._history.add(now, self.n_rows_, log_evidence, alert, measured)
        if not alert or measured is None:
            return []
        found = self._alert(now, sketch, measured)
        self.alerts_ = (*self.alerts_, found)
        self.alarmed_ = True
        if self._restarts:
            self.restart(empty_window=False)
        return [found]

    def restart(self, *, empty_window: bool = True) -> None:
        """Start the test anew, for instance when the model has been repaired.

        Parameters
        ----------
        empty_window : bool, default=True
            Whether to empty the window too, as its rows are those of the model before. History and alerts are
            kept.

        Raises
        ------
        TypeError
            If ``empty_window`` is neither True nor False.
        """
        check_flag(empty_window, "empty_window")
        self._evidence = self._new_evidence()
        self.alarmed_ = False
        if empty_window:
            self.window_ = self._empty_window.copy()
            self._measured = None

    def history(self) -> dict[str, NDArray[Any]]:
        """Return what has been seen, as a table.

        Returns
        -------
        dict of str to ndarray
            One row for each batch, at most the last ``max_history``: "time", "n_rows" (seen so far),
            "log_evidence", "alert" (whether it raised one), "event_rate", "mean_prediction" and one column
            for each metric, measured on the window, and NaN where they were not measured.
        """
        return self._history.columns()

    @property
    def mode(self) -> str:
        """The guarantee."""
        return self._mode

    @property
    def log_evidence_(self) -> float:
        """Logarithm of the evidence now."""
        return self._evidence.log_value

    @property
    def evidence_(self) -> float:
        """The evidence now; infinite above 1.8e308."""
        with np.errstate(over="ignore"):
            return float(np.exp(self._evidence.log_value))

    @property
    def pvalue_(self) -> float | None:
        """Anytime-valid p-value since the start or the last restart; None with ``mode="run-length"``."""
        return self._evidence.pvalue if self._mode == "ever" else None

    @property
    def errors_(self) -> dict[str, float]:
        """The metrics on the window now; empty if it has no rows."""
        sketch = self.window_.current()
        return self._measure(sketch) if sketch.n_rows else {}

    def __repr__(self) -> str:
        return f"<CalibrationMonitor(mode={self._mode!r}) of {self.n_rows_} rows, {len(self.alerts_)} alerts>"

    def __str__(self) -> str:
        lines = [f"  {name:<15}  {value}" for name, value in self._facts() if value]
        return "\n".join(["calibration monitor", *lines])

    def _repr_html_(self) -> str:
        alerts = [
            {
                "time": shown_time(alert.time),
                "evidence": shown_evidence(alert.log_evidence),
                "direction": alert.direction,
                **alert.errors,
            }
            for alert in self.alerts_
        ]
        caption = f"alerts ({len(alerts)})"
        return result_html("calibration monitor", self._facts(), [(caption, alerts)])

    def _facts(self) -> list[tuple[str, str]]:
        if self._mode == "ever":
            guarantee = f"any false alarm ever: probability at most {1.0 / self.threshold_:g}"
        else:
            guarantee = f"false alarms: at most one in {self.threshold_:g} rows in expectation"
        sketch = self.window_.current()
        evidence = f"{shown_evidence(self.log_evidence_)}, alert at {self.threshold_:g}"
        last = f", the last at {shown_time(self.alerts_[-1].time)}" if self.alerts_ else ""
        facts = [
            ("guarantee", guarantee),
            ("rows", f"{self.n_rows_} seen, {sketch.n_rows} in the window"),
            ("evidence", f"{evidence}, over {self._evidence.n_rows} rows"),
            ("alerts", f"{len(self.alerts_)}{last}"),
            ("too late", f"{self.window_.n_late}" if self.window_.n_late else ""),
        ]
        if sketch.n_rows:
            rates = f"rate {sketch.event_rate:.4g}, mean prediction {sketch.mean_prediction:.4g}"
            facts.append(("events", rates))
            facts += shown_errors(self._measure(sketch), self.reference_errors_)
        return facts

    def _new_evidence(self) -> Evidence:
        return Evidence(detector=self._mode == "run-length")

    def _measure(self, sketch: CalibrationSketch) -> dict[str, float]:
        """Return all metrics of a sketch; one that fails is NaN, as the monitor must go on."""
        rows, errors = sketch.as_weighted_sample(), {}
        for name, metric in self._metrics.items():
            try:
                errors[name] = float(metric(rows.y, rows.p, sample_weight=rows.w))
            except (ValueError, ArithmeticError) as error:
                warnings.warn(f"{name} failed on {sketch.n_rows} rows: {error}", RuntimeWarning, stacklevel=3)
                errors[name] = math.nan
        return errors

    def _alert(self, now: Any, sketch: CalibrationSketch, measured: dict[str, float]) -> CalibrationAlert:
        evidence = self._evidence
        since, slot = (None, None) if evidence.since is None else evidence.since
        tendency = find_tendency(self._newer(sketch, slot))
        return CalibrationAlert(
            time=now,
            n_rows=evidence.n_rows,
            mode=self._mode,
            log_evidence=evidence.log_value,
            threshold=self.threshold_,
            pvalue=self.pvalue_,
            since=since,
            direction=tendency.direction,
            intercept=tendency.intercept,
            slope=tendency.slope,
            event_rate=sketch.event_rate,
            mean_prediction=sketch.mean_prediction,
            window_rows=sketch.n_rows,
            errors={name: measured[name] for name in self._metrics},
            reference_errors=dict(self.reference_errors_),
            impossible=evidence.impossible,
        )

    def _newer(self, sketch: CalibrationSketch, slot: int | None) -> CalibrationSketch:
        """Return the rows of the window since a slot, without its own where the later ones are more."""
        newest = self.window_.newest_slot
        if slot is None or newest is None:
            return sketch
        later = self.window_.current(newest - slot) if newest > slot else None
        both = self.window_.current(newest - slot + 1)
        return later if later is not None and 2 * later.n_rows > both.n_rows else both


def _check_call(name: str, metric: Metric) -> None:
    """Raise unless a metric takes what it will be given, as far as it tells."""
    try:
        known = signature(metric)
    except (TypeError, ValueError):
        return
    try:
        known.bind(None, None, sample_weight=None)
    except TypeError as error:
        raise TypeError(
            f"metrics cannot be called as {name}(y_true, y_proba, sample_weight=...): {error}. Pass "
            "functions that can; the rows of a window have weights."
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
        if isinstance(metric, str):
            name, function = check_option(metric, "metrics", sorted(_KNOWN)), _KNOWN[metric]
        elif callable(metric):
            name = getattr(metric, "__name__", type(metric).__name__)
            function = metric
            _check_call(name, function)
        else:
            raise TypeError(f"metrics must hold names or functions, got {metric!r}.")
        if name in found or name in COLUMNS:
            raise ValueError(f"metrics has the name {name!r} twice, or it is that of another column.")
        found[name] = function
    return found
