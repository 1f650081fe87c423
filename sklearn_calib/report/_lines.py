"""The lines of a report: one measure, one test, one stretch of predictions, one class or group."""

from dataclasses import dataclass

from sklearn_calib.inference import CalibrationTestResult

__all__ = ["ReportMetric", "ReportPart", "ReportRegion", "ReportTest"]


@dataclass(frozen=True)
class ReportMetric:
    """One measure with its interval, beside what a perfectly calibrated model would show.

    Attributes
    ----------
    key : str
        Short name, such as "smooth_ece".
    name : str
        Name for readers.
    value : float
        The measure on the sample.
    lower, upper : float
        Confidence interval of its value in the population; NaN where there is none.
    chance_mean : float
        What predictions that are perfectly calibrated would show on average on so many rows; NaN where that
        says nothing about calibration.
    chance_lower, chance_upper : float
        Range that they leave with probability 1 - confidence. ``chance_lower`` is NaN for errors, of which
        only large values speak against the model.
    """

    key: str
    name: str
    value: float
    lower: float
    upper: float
    chance_mean: float
    chance_lower: float
    chance_upper: float

    @property
    def exceeds(self) -> bool:
        """Whether the value lies outside the range of perfectly calibrated predictions."""
        return self.value > self.chance_upper or self.value < self.chance_lower


@dataclass(frozen=True)
class ReportTest:
    """One test of calibration.

    Attributes
    ----------
    name : str
        Name for readers.
    question : str
        What it looks for.
    result : CalibrationTestResult
        Its result.
    adjusted : float
        Its p-value by Holm's method among the further tests of the report; NaN for the test that decides.
    """

    name: str
    question: str
    result: CalibrationTestResult
    adjusted: float


@dataclass(frozen=True)
class ReportRegion:
    """A stretch of predictions that is off by more than chance explains.

    Attributes
    ----------
    lower, upper : float
        Its smallest and largest prediction.
    predicted, observed : float
        Mean prediction and event frequency.
    n_samples : float
        Number of rows.
    worst_lower, worst_upper : float
        Smallest and largest prediction of that part of the stretch which is farthest off, in the same
        direction, and by itself beyond chance; often all of it.
    worst_predicted, worst_observed : float
        Mean prediction and event frequency there.
    """

    lower: float
    upper: float
    predicted: float
    observed: float
    n_samples: float
    worst_lower: float
    worst_upper: float
    worst_predicted: float
    worst_observed: float

    @property
    def gap(self) -> float:
        """Observed minus predicted: negative where too much is promised."""
        return self.observed - self.predicted


@dataclass(frozen=True)
class ReportPart:
    """One class against the rest, or one group of rows.

    Attributes
    ----------
    name : str
        Label of the class or group.
    n_samples, n_events : float
        Numbers of rows and events.
    predicted, observed : float
        Mean prediction and event frequency.
    error : float
        Smooth ECE.
    chance_mean, chance_upper : float
        Its mean and upper quantile for perfectly calibrated predictions.
    pvalue : float
        p-value of the cutoff test.
    adjusted : float
        The same by Holm's method among all parts.
    region : ReportRegion or None
        The stretch of predictions that is most off, if one is beyond chance.
    """

    name: str
    n_samples: float
    n_events: float
    predicted: float
    observed: float
    error: float
    chance_mean: float
    chance_upper: float
    pvalue: float
    adjusted: float
    region: ReportRegion | None
