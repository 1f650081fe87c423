"""Forecasts to try things on: simulators whose truth is known, and real ones."""

from sklearn_calib.datasets._simulators import (
    Forecasts,
    MulticlassForecasts,
    make_discrete_forecasts,
    make_forecasts,
    make_multiclass_forecasts,
)
from sklearn_calib.datasets._solar_flares import SolarFlares, load_solar_flares

__all__ = [
    "Forecasts",
    "MulticlassForecasts",
    "SolarFlares",
    "load_solar_flares",
    "make_discrete_forecasts",
    "make_forecasts",
    "make_multiclass_forecasts",
]
