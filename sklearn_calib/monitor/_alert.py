"""Alerts of a calibration monitor."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._core._recalibration import LogitOutcomes
from sklearn_calib._html import printable_lines, text_html
from sklearn_calib.sketch import CalibrationSketch

# Half the 0.95 quantile of chi-squared(1): critical value of the log-likelihood ratio of one parameter.
_LEAST_GAIN = 1.92

_WORDS = {
    "more events": "events are more frequent than predicted",
    "fewer events": "events are rarer than predicted",
    "overconfident": "overconfident: predictions are too extreme",
    "underconfident": "underconfident: predictions are not extreme enough",
    "unclear": "neither a shift nor a slope of the log-odds",
}


@dataclass(frozen=True)
class CalibrationAlert:
    """Alert of a :class:`CalibrationMonitor`: the predictions are not, or no longer, calibrated.

    Attributes
    ----------
    time : int, float or datetime64
        Time of the alert: the latest time of a sample so far, or the number of samples if they are counted.
    n_samples : int
        Number of samples tested since the start or restart.
    mode : {"anytime", "run-length"}
        Guarantee of the monitor.
    log_evidence : float
        Logarithm of the e-value, or of the e-detector; infinite if the predictions ruled out an outcome.
    threshold : float
        The evidence at which the monitor alerts.
    pvalue : float or None
        Anytime-valid p-value, 1 / evidence; None with ``mode="run-length"``.
    since : int, float, datetime64 or None
        Estimated time of the change: the time of the last batch before the wealth of the most successful
        betting strategy began to grow. None for the first batch since the start or restart.
    direction : {"more events", "fewer events", "overconfident", "underconfident", "unclear"}
        Type of miscalibration since then, see Notes.
    intercept, slope : float
        Calibration intercept (of the log-odds, with slope 1) and calibration slope since then; NaN under
        perfect separation or if all predictions are equal.
    event_rate, mean_prediction : float
        Event rate and mean prediction of the window.
    n_samples_window : int
        Number of samples in the window.
    errors : dict of str to float
        The monitor's metrics on the window.
    impossible : tuple of (int, float) or None
        The first outcome whose predicted probability was 0, and its prediction.

    Notes
    -----
    The direction is that of the recalibration with one parameter, logit(q) = a + logit(p) or logit(q) = b
    logit(p), whose likelihood is greater: more or fewer events by the sign of a, underconfident for b > 1,
    overconfident for b < 1. If neither gains 1.92 in log-likelihood, the 0.95 quantile under calibration, it
    is unclear: the miscalibration has another form. The samples are those of the window slots after the one
    in which the change began, including that slot if it has more samples than the later ones; or those of the
    whole window if the change began earlier, or with the first batch. Predictions of 0 and 1, which have no
    log-odds, are set aside unless there are no others.

    The evidence refers to all samples since the start or restart, the errors to the whole window.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.monitor import CalibrationMonitor
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> [alert] = CalibrationMonitor(alpha=0.01).update(rng.uniform(size=1000) < p**2, p)
    >>> alert.direction, alert.evidence >= 100
    ('fewer events', True)
    """

    time: Any
    n_samples: int
    mode: str
    log_evidence: float
    threshold: float
    pvalue: float | None
    since: Any
    direction: str
    intercept: float
    slope: float
    event_rate: float
    mean_prediction: float
    n_samples_window: int
    errors: dict[str, float]
    impossible: tuple[int, float] | None = None

    @property
    def evidence(self) -> float:
        """The e-value, or the value of the detector; infinite above 1.8e308."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_evidence))

    def __str__(self) -> str:
        lines = [f"  {name:<15}  {value}" for name, value in self._facts() if value]
        return printable_lines([f"calibration alert at {shown_time(self.time)}", *lines])

    _repr_html_ = text_html

    def _facts(self) -> list[tuple[str, str]]:
        evidence = f"{shown_evidence(self.log_evidence)}, alert at {self.threshold:g}"
        if self.pvalue is not None:
            evidence += f"; anytime-valid p-value {self.pvalue:.3g}"
        since = "the first batch" if self.since is None else f"after {shown_time(self.since)}"
        impossible = ""
        if self.impossible is not None:
            impossible = f"y = {self.impossible[0]} where p = {self.impossible[1]:g}"
        return [
            ("evidence", evidence),
            ("impossible", impossible),
            ("since", since),
            ("samples", f"{self.n_samples} tested, {self.n_samples_window} in the window"),
            ("direction", _WORDS[self.direction]),
            ("events", f"rate {self.event_rate:.4g}, mean prediction {self.mean_prediction:.4g}"),
            ("log-odds", f"intercept {self.intercept:.3g}, slope {self.slope:.3g}"),
            *((name, f"{value:.4g}") for name, value in self.errors.items()),
        ]


def shown_time(time: Any) -> str:
    """Return a time as text, dates without unnecessary digits."""
    if not isinstance(time, np.datetime64):
        return f"{time:g}" if isinstance(time, float) else str(time)
    for unit in ("D", "m", "s", "ms", "us"):
        if time.astype(f"datetime64[{unit}]") == time:
            return str(time.astype(f"datetime64[{unit}]"))
    return str(time)


def shown_evidence(log_evidence: float) -> str:
    """Return evidence as a number, or as a power of ten if it exceeds the largest float."""
    if abs(log_evidence) < 600.0 or np.isinf(log_evidence):
        return f"{np.exp(log_evidence):.4g}"
    return f"10^{log_evidence / np.log(10.0):z.0f}"


def find_tendency(sketch: CalibrationSketch) -> dict[str, Any]:
    """Return direction, intercept and slope of the predictions of a sketch."""
    grouped = group_outcomes(*sketch.weighted_sample())
    # predictions of 0 and 1 have no log-odds
    used = inside if (inside := grouped.uncertain()).prob.size else grouped
    outcomes = LogitOutcomes(used)
    none = outcomes.at(0.0, 1.0)
    shift, both = outcomes.fit_intercept(), outcomes.fit_both()
    gains = {"shift": shift.log_likelihood - none.log_likelihood}
    slope = None
    if both.finite and not outcomes.constant:
        slope = outcomes.fit_slope(0.0, 1.0)
        gains["slope"] = slope.log_likelihood - none.log_likelihood
    best = max(gains, key=lambda name: gains[name])
    if not gains[best] >= _LEAST_GAIN:
        direction = "unclear"
    elif slope is not None and best == "slope":
        direction = "underconfident" if slope.slope > 1.0 else "overconfident"
    else:
        direction = "more events" if used.residual.sum() > 0.0 else "fewer events"
    both_slope = np.nan if outcomes.constant else both.slope
    return {"direction": direction, "intercept": shift.intercept, "slope": both_slope}
