"""Simulated forecasts with known true probabilities: E[Y | forecast] of every sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_softmax, logit, softmax

from sklearn_calib import _validation
from sklearn_calib._typing import Array

Seed = int | np.random.Generator | np.random.RandomState | None
Distribution = Literal["uniform", "u_shaped", "peaked", "rare", "grid", "saturated"]
Distortion = Literal["none", "slope", "shift", "sine"]

_BETA = {"uniform": (1.0, 1.0), "u_shaped": (0.5, 0.5), "peaked": (5.0, 5.0), "rare": (0.5, 24.5)}
_DISTRIBUTIONS = (*_BETA, "grid", "saturated")
_STRENGTH = {"none": 0.0, "slope": 0.5, "shift": 0.5, "sine": 0.15}
_SATURATED = 0.3
# Maximum number of probabilities simulated at once: eight gigabytes.
_MOST_NUMBERS = 10**9


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Simulated forecasts of an outcome, with the true probabilities.

    Attributes
    ----------
    y_true : ndarray of shape (n,)
        Outcomes 0 or 1, or class numbers; int64, independent given the forecasts.
    y_proba : ndarray of shape (n,) or (n, n_classes)
        Forecast probability of outcome 1, or probabilities of the classes.
    true_proba : ndarray of shape (n,) or (n, n_classes)
        The same probabilities given the forecast.
    description : str
        How they were made.
    """

    y_true: NDArray[np.int64]
    y_proba: Array
    true_proba: Array
    description: str

    @property
    def true_ece(self) -> float:
        """Expected calibration error given these forecasts, the mean of ``|true_proba - y_proba|``."""
        return float(np.abs(self.true_proba - self.y_proba).mean())

    def __str__(self) -> str:
        if self.y_proba.ndim == 2:
            n, n_classes = self.y_proba.shape
            accuracy = (self.y_proba.argmax(axis=1) == self.y_true).mean()
            return (
                f"{n} forecasts of {n_classes} classes: {self.description}\n"
                f"accuracy         {accuracy:.4f}\n"
                f"mean confidence  {self.y_proba.max(axis=1).mean():.4f}"
            )
        return (
            f"{self.y_true.shape[0]} forecasts: {self.description}\n"
            f"base rate      {self.y_true.mean():.4f}\n"
            f"mean forecast  {self.y_proba.mean():.4f}\n"
            f"true ECE       {self.true_ece:.4f}"
        )


def make_forecasts(
    n_samples: int = 1000,
    *,
    distribution: Distribution = "uniform",
    distortion: Distortion = "none",
    strength: float | None = None,
    periods: int = 1,
    random_state: Seed = None,
) -> Forecasts:
    """Draw forecasts p from a distribution and outcomes with probability g(p), a distortion of p.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of forecasts.
    distribution : str, default="uniform"
        Distribution of the forecasts. "uniform": on [0, 1]. "u_shaped": Beta(1/2, 1/2), high sharpness.
        "peaked": Beta(5, 5), low sharpness. "rare": Beta(1/2, 49/2), an event rate of about 2%. "grid":
        one of 0, 0.1, ..., 1, with many ties. "saturated": exactly 0 and exactly 1 with probability 30% each,
        the rest Beta(1/2, 1/2).
    distortion : {"none", "slope", "shift", "sine"}, default="none"
        How the probability of the event depends on the forecast. "none": it is the forecast. "slope":
        g(p) = sigmoid(strength logit p), an overconfident model for a strength below 1. "shift":
        g(p) = sigmoid(logit p + strength), a model that underpredicts for a positive strength. "sine":
        g(p) = p + strength sin(2 pi periods p), clipped to [0, 1]. "slope" and "shift" do not change 0 and 1.
    strength : float, default=None
        None means 0.5 for "slope" and "shift" and 0.15 for "sine".
    periods : int, default=1
        Oscillations of "sine".
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    Forecasts
        Outcomes, forecasts and g(p).

    Examples
    --------
    >>> from sklearn_calib.datasets import make_forecasts
    >>> data = make_forecasts(2000, distortion="slope", strength=0.3, random_state=0)
    >>> print(data)
    2000 forecasts: uniform, slope 0.3
    base rate      0.4935
    mean forecast  0.4945
    true ECE       0.1548
    """
    n_samples = _validation.check_size(n_samples, "n_samples", maximum=_MOST_NUMBERS)
    _validation.check_option(distribution, "distribution", _DISTRIBUTIONS)
    _validation.check_option(distortion, "distortion", _STRENGTH)
    periods = _validation.check_size(periods, "periods")
    amount = _STRENGTH[distortion] if strength is None else _check_strength(strength, distortion)
    rng = _validation.check_generator(random_state)
    if distribution == "grid":
        p = rng.integers(0, 11, size=n_samples) / 10.0
    else:
        p = rng.beta(*_BETA["u_shaped" if distribution == "saturated" else distribution], size=n_samples)
    if distribution == "saturated":
        kind = rng.uniform(size=n_samples)
        p = np.where(kind < _SATURATED, 0.0, np.where(kind < 2 * _SATURATED, 1.0, p))
    truth = p.copy()
    if distortion == "slope":
        truth = np.asarray(expit(amount * logit(p)))
    elif distortion == "shift":
        truth = np.asarray(expit(logit(p) + amount))
    elif distortion == "sine":
        truth = np.clip(p + amount * np.sin(2 * np.pi * periods * p), 0.0, 1.0)
    how: str = distribution
    if distortion != "none":
        how += f", {distortion} {amount:g}" + (f", {periods} periods" if distortion == "sine" else "")
    return _observe(rng, p, truth, how)


def make_discrete_forecasts(
    n_samples: int,
    forecasts: ArrayLike,
    frequencies: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    random_state: Seed = None,
) -> Forecasts:
    """Draw forecasts from a few values, each with its own probability of the event.

    Parameters
    ----------
    n_samples : int
        Number of forecasts.
    forecasts : array-like of shape (m,)
        Distinct forecasts in [0, 1].
    frequencies : array-like of shape (m,)
        For each of them the probability of the event, in [0, 1].
    weights : array-like of shape (m,), default=None
        Frequency of each forecast, up to a constant; None means equal frequencies.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    Forecasts
        Outcomes, forecasts and their frequencies.

    Notes
    -----
    Two examples from the literature. The binned ECE of the first is nearly 0 for an odd number of bins and
    nearly 1/2 for an even one, for the same forecasts (Chidambaram et al. 2024, Section 6.1)::

        make_discrete_forecasts(n, expit([-5e-4, 5e-4]), [0, 1])

    For the second, Platt scaling on the probability scale remains miscalibrated at any sample size, since no
    sigmoid passes through the four points; the values are those of Figure 4 of Rossellini et al. (2025)::

        make_discrete_forecasts(n, [0, 0.25, 0.5, 1], [1, 0, 0, 1])

    References
    ----------
    M. Chidambaram, H. Lee, C. McSwiggen, S. Rezchikov (2024). How Flawed Is ECE? An Analysis via Logit
    Smoothing. *ICML*.

    R. Rossellini, J. A. Soloff, R. F. Barber, Z. Ren, R. Willett (2025). Can a calibration metric be both
    testable and actionable? *COLT*.

    Examples
    --------
    >>> from scipy.special import expit
    >>> from sklearn_calib.datasets import make_discrete_forecasts
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> data = make_discrete_forecasts(1000, expit([-5e-4, 5e-4]), [0, 1], random_state=0)
    >>> [round(expected_calibration_error(data.y_true, data.y_proba, n_bins=m), 2) for m in (14, 15)]
    [0.5, 0.03]
    """
    n_samples = _validation.check_size(n_samples, "n_samples", maximum=_MOST_NUMBERS)
    values = _validation.check_probabilities(forecasts, "forecasts")
    rates = _validation.check_probabilities(frequencies, "frequencies")
    if np.unique(values).shape[0] < values.shape[0]:
        raise ValueError(f"forecasts {values.tolist()} are not distinct. Give each value once.")
    if rates.shape != values.shape:
        raise ValueError(
            f"frequencies has {rates.shape[0]} values but forecasts has {values.shape[0]}. Give one for each."
        )
    mass = np.ones(values.shape[0])
    if weights is not None:
        mass = _validation.check_weights(weights, values.shape[0], "weights")
    rng = _validation.check_generator(random_state)
    which = rng.choice(values.shape[0], size=n_samples, p=mass / mass.sum())
    return _observe(rng, values[which], rates[which], f"{values.shape[0]} distinct values")


def make_multiclass_forecasts(
    n_samples: int = 1000,
    n_classes: int = 3,
    *,
    concentration: float = 1.0,
    temperature: float = 1.0,
    random_state: Seed = None,
) -> Forecasts:
    """Draw class probabilities q, labels from q, and forecasts that are q at another temperature.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of forecasts.
    n_classes : int, default=3
        Number of classes.
    concentration : float, default=1.0
        q is Dirichlet with this parameter for every class: 1 is uniform on the simplex, less is more certain.
    temperature : float, default=1.0
        The forecasts are softmax(temperature log q). Temperature scaling with this temperature gives q back;
        above 1 the forecasts are overconfident, at 1 they are calibrated.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    Forecasts
        Labels, forecasts and q.

    Examples
    --------
    >>> from sklearn_calib.datasets import make_multiclass_forecasts
    >>> print(make_multiclass_forecasts(2000, temperature=3.0, random_state=0))
    2000 forecasts of 3 classes: temperature 3
    accuracy         0.6045
    mean confidence  0.8155
    """
    n_samples = _validation.check_size(n_samples, "n_samples", maximum=_MOST_NUMBERS)
    n_classes = _validation.check_size(n_classes, "n_classes", 2, max(2, _MOST_NUMBERS // n_samples))
    concentration = _validation.check_positive(concentration, "concentration")
    temperature = _validation.check_positive(temperature, "temperature")
    rng = _validation.check_generator(random_state)
    # on the log scale no probability is lost to rounding: Gamma(a) is distributed as Gamma(a + 1) U^(1/a)
    log_gamma = np.log(rng.gamma(concentration + 1.0, size=(n_samples, n_classes)))
    log_gamma -= rng.exponential(size=log_gamma.shape) / concentration
    log_q = log_softmax(log_gamma, axis=1)
    q = softmax(log_gamma, axis=1)
    uniforms = rng.uniform(size=(n_samples, 1))
    labels = np.minimum((q.cumsum(axis=1) <= uniforms).sum(axis=1), n_classes - 1)
    proba = softmax(temperature * log_q, axis=1)
    return Forecasts(labels.astype(np.int64), proba, q, f"temperature {temperature:g}")


def _check_strength(strength: float, distortion: str) -> float:
    if distortion == "slope":
        return _validation.check_positive(strength, "strength")
    if isinstance(strength, bool) or not isinstance(strength, int | float | np.number):
        raise TypeError(f"strength must be a number, got {strength!r}.")
    if distortion == "none":
        raise ValueError(f"strength={strength!r} needs a distortion. Choose one, or leave strength out.")
    if not np.isfinite(strength):
        raise ValueError(f"strength must be finite, got {strength!r}.")
    return float(strength)


def _observe(rng: np.random.Generator, p: Array, truth: Array, description: str) -> Forecasts:
    # strict: a uniform variate can be 0 but not 1, so outcomes with probability 0 or 1 are certain
    outcomes = (rng.uniform(size=p.shape[0]) < truth).astype(np.int64)
    return Forecasts(outcomes, p, truth, description)
