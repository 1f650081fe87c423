"""Daily forecasts of solar flares."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class SolarFlares:
    """Forecasts and outcomes of solar flares.

    Attributes
    ----------
    y_true : ndarray of shape (731,)
        1 on days with a flare of class C1.0 or stronger, else 0; int64.
    y_proba : ndarray of shape (731,)
        Probability issued for such a day.
    date : ndarray of shape (731,)
        The day; datetime64.
    """

    y_true: NDArray[np.int64]
    y_proba: NDArray[np.float64]
    date: NDArray[np.datetime64]

    def __str__(self) -> str:
        return (
            f"{self.y_true.shape[0]} daily forecasts of solar flares, {self.date[0]} to {self.date[-1]}\n"
            f"days with a flare  {self.y_true.mean():.4f}\n"
            f"mean forecast      {self.y_proba.mean():.4f}"
        )


def load_solar_flares() -> SolarFlares:
    """Load two years of daily probability forecasts of solar flares.

    The operational system DAFFS (Discriminant Analysis Flare Forecasting System) gave, for every day of
    2016 and 2017, the probability of at least one flare of class C1.0 or stronger. The sample is small and
    clearly miscalibrated: forecasts between 0.2 and 0.7 overpredict by up to 0.25.

    Returns
    -------
    SolarFlares
        Outcomes, forecasts and days.

    Notes
    -----
    The data are in the public domain (CC0 1.0), doi:10.7910/DVN/HYP74O. Of the systems that Leka et al.
    (2019) compared only this one is shipped. Its reliability diagram is Figure 2(b) of Blasiok and Nakkiran
    (2024).

    References
    ----------
    K. D. Leka, S.-H. Park, K. Kusano, et al. (2019). A Comparison of Flare Forecasting Methods. II.
    Benchmarks, Metrics, and Performance Results for Operational Solar Flare Forecasting Systems. *The
    Astrophysical Journal Supplement Series* 243(2), 36.

    J. Blasiok, P. Nakkiran (2024). Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing. *ICLR*.

    Examples
    --------
    >>> from sklearn_calib.datasets import load_solar_flares
    >>> from sklearn_calib.metrics import smooth_ece
    >>> flares = load_solar_flares()
    >>> print(flares)
    731 daily forecasts of solar flares, 2016-01-01 to 2017-12-31
    days with a flare  0.2572
    mean forecast      0.3071
    >>> round(smooth_ece(flares.y_true, flares.y_proba), 4)
    0.0674
    """
    path = files("sklearn_calib.datasets").joinpath("data", "solar_flares.csv")
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    return SolarFlares(
        np.array([row["rlz.C1"] for row in rows], dtype=np.int64),
        np.array([row["DAFFS"] for row in rows], dtype=np.float64),
        np.array([row["VALID_DATE"] for row in rows], dtype="datetime64[D]"),
    )
