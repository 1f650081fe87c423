"""A monitor of calibration: alerts with a guarantee, errors on a moving window, and a history."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._docs import shared_docs
from sklearn_calib._html import printable_lines, result_html
from sklearn_calib._typing import Array, Codes, CountingWeights
from sklearn_calib.inference._betting._rounds import BettingRounds
from sklearn_calib.metrics._names import as_metric
from sklearn_calib.monitor._alert import CalibrationAlert, find_tendency, shown_evidence, shown_time
from sklearn_calib.sketch import CalibrationSketch, WindowedSketch
from sklearn_calib.sketch._batch import check_batch
from sklearn_calib.sketch._saved import Updated


class Evidence(BettingRounds):
    """An e-process, or an e-detector, and the time at which the wealth of the best strategy began to grow."""

    def __init__(self, detector: bool, dependent: bool = False) -> None:
        super().__init__(adds_wealth=detector, dependent=dependent)
        # the smallest wealth of each strategy so far, and when it was that small: None before the first round
        self._lowest = np.zeros(self.log_wealths.shape[0])
        self._lowest_at: list[Any] = [None] * self._lowest.shape[0]
        self.largest = self.log_wealth

    @property
    def pvalue(self) -> float | None:
        """Anytime-valid p-value, None of a detector; 0 only for an impossible outcome, not by underflow."""
        if self._adds_wealth:
            return None
        if self.impossible is not None:
            return 0.0
        return max(math.exp(-max(0.0, self.largest)), np.finfo(np.float64).tiny)

    @property
    def since(self) -> Any:
        """The last time at which the strategy that has grown most since its minimum was at its minimum."""
        return self._lowest_at[int((self.log_wealths - self._lowest).argmax())]

    def play_at(self, now: Any, y: Codes, p: Array, times: Codes | None = None) -> float:
        """Bet on a batch; return the logarithm of the evidence."""
        value = self.play(y, p, times)
        self.largest = max(self.largest, value)
        for k in np.flatnonzero(self.log_wealths <= self._lowest):
            self._lowest_at[k] = now
        np.minimum(self._lowest, self.log_wealths, out=self._lowest)
        return value


Metric = Callable[..., Any]

# Integers up to this one are exact floats.
_LONGEST_RUN = 2**53
# Number of batches in the history.
_KEPT = 100_000
# Columns of the history before those of the metrics.
_COLUMNS = ("time", "n_samples", "log_evidence", "alert", "event_rate", "mean_prediction")


@shared_docs
class CalibrationMonitor(Updated):
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
    %(sketched)s

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
    window_ : WindowedSketch
        The window after the last update, with outcomes 1 for the positive class; later updates do not change
        it.

    See Also
    --------
    StreamingCalibrator : Recalibration of a stream.
    SequentialTest : The test alone, for streams in which the order of all samples is known.
    WindowedSketch : The window alone.

    Notes
    -----
    *Null hypothesis.* Given the past and the predictions of a batch, its outcomes are independent Bernoulli
    variables with the predicted probabilities. With ``dependent_batches`` they may depend on each other: each
    batch is a cluster of :class:`SequentialTest`, with a mean of e-values [4]_ and without the tree.

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
    holds after an alarm and a restart, so that the expected number of false alarms among the first :math:`n`
    samples is at most :math:`n` / ``run_length``, for every :math:`n`.

    A prediction of exactly 0 or 1 with the opposite outcome makes the evidence infinite; one with the
    predicted outcome does not change it. Metrics are computed when a batch opens a new slot of the window,
    and at alerts. A metric that fails on a window is NaN, with a warning.

    Apart from history and alerts, the state has constant size. While one thread updates a monitor, others may
    read its attributes, its history and its text: each access returns the state after a complete update.
    Interrupted updates are described in the user guide.

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

    window_: WindowedSketch
    n_samples_seen_: int
    alerts_: tuple[CalibrationAlert, ...]
    alarmed_: bool
    log_evidence_: float
    pvalue_: float | None
    _n_tested: int

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
        pos_label: Any = None,
        precision: int = 17,
    ) -> None:
        self.mode = _validation.check_option(mode, "mode", ("anytime", "run-length"))
        alpha = _validation.check_fraction(alpha, "alpha")
        run_length = _validation.check_size(run_length, "run_length", 2, _LONGEST_RUN)
        self.threshold_ = 1.0 / alpha if mode == "anytime" else float(run_length)
        self._restarts = _validation.check_flag(restart, "restart")
        self._dependent = _validation.check_flag(dependent_batches, "dependent_batches")
        self._metrics = _check_metrics(metrics)
        self._pos_label = pos_label
        self._window = WindowedSketch(window, n_slots=n_slots, late=late, precision=precision)
        self._empty_window = self._window.copy()
        self._evidence = self._new_evidence()
        # one record for each batch, with the values of the columns of the history
        self._records: list[tuple[Any, ...]] = []
        # the newest slot of the window at the last computation of the metrics
        self._measured_slot: int | None = None
        self._publish(n_samples_seen_=0, alerts_=(), alarmed_=False)

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        weights: CountingWeights = None,
        time: Any = None,
    ) -> list[CalibrationAlert]:
        """Add the next batch, of any size. The order within a batch does not matter.

        Parameters
        ----------
        %(batch)s
        %(counted_weight)s
        time : number, date, or array-like of shape (n,), default=None
            Times for the window: one for the batch, or one for each sample. None counts samples. All calls
            must use the same type.

        Returns
        -------
        list of CalibrationAlert
            The alert, if this batch raises one; else empty.

        Raises
        ------
        %(invalid)s
        """
        batch = check_batch(y_true, y_proba, sample_weight, self._pos_label)
        y, p, times = batch.y.astype(np.int64), batch.p.astype(np.float64) + 0.0, None
        if batch.w is not None:
            keep = batch.w > 0
            y, p = y[keep], p[keep]
            times = _validation.check_counts(batch.w[keep].astype(np.float64), weights)
        self._check_whole()
        # the last check
        self._window._add(batch, time)
        if not p.shape[0]:
            return []
        self._interrupted = True
        n_samples = self.n_samples_seen_ + (p.shape[0] if times is None else int(times.sum()))
        now, slot = n_samples if time is None else self._window.newest, self._window.newest_slot
        log_evidence = self._evidence.play_at((now, slot), y, p, times)
        alert = not self.alarmed_ and log_evidence >= math.log(self.threshold_)
        measured = dict.fromkeys((*_COLUMNS[4:], *self._metrics), math.nan)
        found = []
        if alert or slot != self._measured_slot:
            sketch = self._window.current()
            measured = {"event_rate": sketch.event_rate, "mean_prediction": sketch.mean_prediction}
            measured |= self._measure(sketch)
            found = [self._alert(now, sketch, measured)] if alert else []
            self._measured_slot = slot
        self._records.append((now, n_samples, log_evidence, alert, *measured.values()))
        # old records are deleted in blocks, as each deletion moves the others
        if len(self._records) >= 2 * _KEPT:
            del self._records[:-_KEPT]
        restarts = alert and self._restarts
        if restarts:
            self._evidence = self._new_evidence()
        self._publish(
            n_samples_seen_=n_samples,
            alerts_=self.alerts_ + tuple(found),
            alarmed_=(self.alarmed_ or alert) and not restarts,
            _interrupted=False,
        )
        return found

    def restart(self, *, empty_window: bool = True) -> None:
        """Restart the test, for instance after the model has been recalibrated.

        Parameters
        ----------
        empty_window : bool, default=True
            Whether to empty the window, which contains samples of the previous model. History and alerts are
            kept.
        """
        _validation.check_flag(empty_window, "empty_window")
        self._check_whole()
        self._evidence = self._new_evidence()
        if empty_window:
            self._window, self._measured_slot = self._empty_window.copy(), None
        self._publish(alarmed_=False)

    def history(self) -> dict[str, NDArray[Any]]:
        """Return the history as a table.

        Returns
        -------
        dict of str to ndarray
            One row for each batch, at most the last 100,000: "time", "n_samples" (seen so far),
            "log_evidence", "alert" (whether it raised one), and "event_rate", "mean_prediction" and one
            column for each metric, measured on the window, or NaN if not measured.
        """
        names = (*_COLUMNS, *self._metrics)
        kinds: dict[str, Any] = {"n_samples": np.int64, "alert": np.bool_}
        records = self._records[-_KEPT:]
        columns = zip(*records, strict=True) if records else [[]] * len(names)
        return {
            name: np.array(column, dtype=None if name == "time" else kinds.get(name, np.float64))
            for name, column in zip(names, columns, strict=True)
        }

    @property
    def evidence_(self) -> float:
        """The current evidence; infinite above 1.8e308."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_evidence_))

    @property
    def errors_(self) -> dict[str, float]:
        """The metrics on the current window; empty if it has no samples."""
        sketch = self.window_.current()
        return self._measure(sketch) if sketch.n_samples else {}

    def __repr__(self) -> str:
        seen = copy(self)
        counted = f"{seen.n_samples_seen_} samples, {len(seen.alerts_)} alerts"
        return f"<CalibrationMonitor(mode={self.mode!r}) of {counted}>"

    def __str__(self) -> str:
        return printable_lines(
            ["calibration monitor", *(f"  {name:<15}  {value}" for name, value in self._facts())]
        )

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
        return result_html("calibration monitor", self._facts(), [(f"alerts ({len(alerts)})", alerts)])

    def _facts(self) -> list[tuple[str, str]]:
        guarantee = f"average run length at least {self.threshold_:g} samples"
        if self.mode == "anytime":
            guarantee = f"probability of any false alarm at most {1.0 / self.threshold_:g}"
        # of one update, whatever other threads do
        seen = copy(self)
        sketch, n_late = seen.window_.current(), seen.window_.n_late
        evidence = f"{shown_evidence(seen.log_evidence_)}, alert at {self.threshold_:g}"
        last = f", the last at {shown_time(seen.alerts_[-1].time)}" if seen.alerts_ else ""
        facts = [
            ("guarantee", guarantee),
            ("samples", f"{seen.n_samples_seen_} seen, {sketch.n_samples} in the window"),
            ("evidence", f"{evidence}, over {seen._n_tested} samples"),
            ("alerts", f"{len(seen.alerts_)}{last}"),
        ]
        if n_late:
            facts.append(("too late", f"{n_late}"))
        if sketch.n_samples:
            rates = f"rate {sketch.event_rate:.4g}, mean prediction {sketch.mean_prediction:.4g}"
            facts.append(("events", rates))
            facts += [(name, f"{value:.4g}") for name, value in self._measure(sketch).items()]
        return facts

    def _new_evidence(self) -> Evidence:
        return Evidence(self.mode == "run-length", self._dependent)

    def _publish(self, **changed: Any) -> None:
        """Replace all attributes at once, so that other threads read those of one update."""
        self.__dict__ = {
            **vars(self),
            "window_": self._window.copy(),
            "log_evidence_": self._evidence.log_wealth,
            "pvalue_": self._evidence.pvalue,
            "_n_tested": self._evidence.n_samples,
            **changed,
        }

    def _measure(self, sketch: CalibrationSketch) -> dict[str, float]:
        """Return all metrics of a sketch; one that fails is NaN, so that the monitor continues."""
        (y, p, w), errors = sketch.weighted_sample(), {}
        for name, metric in self._metrics.items():
            try:
                errors[name] = float(metric(y, p, sample_weight=w))
            except (ValueError, ArithmeticError) as error:
                _validation.warn_user(f"{name} failed on {sketch.n_samples} samples: {error}", RuntimeWarning)
                errors[name] = math.nan
        return errors

    def _alert(self, now: Any, sketch: CalibrationSketch, measured: dict[str, float]) -> CalibrationAlert:
        since, slot = (None, None) if self._evidence.since is None else self._evidence.since
        changed, newest = sketch, self._window.newest_slot
        if slot is not None and newest is not None:
            # the slot of the change is excluded if there are more later samples
            changed = self._window.current(newest - slot + 1)
            later = self._window.current(newest - slot) if newest > slot else None
            if later is not None and 2 * later.n_samples > changed.n_samples:
                changed = later
        return CalibrationAlert(
            time=now,
            n_samples=self._evidence.n_samples,
            mode=self.mode,
            log_evidence=self._evidence.log_wealth,
            threshold=self.threshold_,
            pvalue=self._evidence.pvalue,
            since=since,
            **find_tendency(changed),
            event_rate=sketch.event_rate,
            mean_prediction=sketch.mean_prediction,
            n_samples_window=sketch.n_samples,
            errors={name: measured[name] for name in self._metrics},
            impossible=self._evidence.impossible,
        )


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
        try:
            signature(function).bind(None, None, sample_weight=None)
        except TypeError as error:
            raise TypeError(
                f"metrics cannot be called as {name}(y_true, y_proba, sample_weight=...): {error}. Pass "
                "functions with these arguments; the samples of a window have weights."
            ) from None
        if name in found or name in _COLUMNS:
            raise ValueError(f"metrics has the name {name!r} twice, or it is that of another column.")
        found[name] = function
    return found
