"""Data sets: simulators with known true probabilities, real forecasts, and tables."""

from sklearn_calib.datasets._simulators import (
    Forecasts,
    MulticlassForecasts,
    make_discrete_forecasts,
    make_forecasts,
    make_multiclass_forecasts,
)
from sklearn_calib.datasets._solar_flares import SolarFlares, load_solar_flares
from sklearn_calib.datasets._tables import (
    LabelledTable,
    ModelAnswers,
    load_bank_marketing,
    load_german_credit,
    load_mmlu_answers,
)

__all__ = [
    "Forecasts",
    "LabelledTable",
    "ModelAnswers",
    "MulticlassForecasts",
    "SolarFlares",
    "load_bank_marketing",
    "load_german_credit",
    "load_mmlu_answers",
    "load_solar_flares",
    "make_discrete_forecasts",
    "make_forecasts",
    "make_multiclass_forecasts",
]
