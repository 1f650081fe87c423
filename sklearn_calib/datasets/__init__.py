"""Data sets: simulators with known true probabilities, real forecasts, and tables."""

from sklearn_calib.datasets._simulators import (
    Forecasts,
    make_discrete_forecasts,
    make_forecasts,
    make_multiclass_forecasts,
)
from sklearn_calib.datasets._tables import (
    LabeledTable,
    ModelAnswers,
    SolarFlares,
    load_bank_marketing,
    load_german_credit,
    load_mmlu_answers,
    load_solar_flares,
)

__all__ = [
    "Forecasts",
    "LabeledTable",
    "ModelAnswers",
    "SolarFlares",
    "load_bank_marketing",
    "load_german_credit",
    "load_mmlu_answers",
    "load_solar_flares",
    "make_discrete_forecasts",
    "make_forecasts",
    "make_multiclass_forecasts",
]
