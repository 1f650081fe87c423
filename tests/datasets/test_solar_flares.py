"""The forecasts of solar flares: complete, and measured as in the literature."""

import csv

import numpy as np

from sklearn_calib.datasets import load_solar_flares
from sklearn_calib.metrics import expected_calibration_error, smooth_ece
from tests._data import outside_data


def test_every_day_of_two_years_once():
    flares = load_solar_flares()
    np.testing.assert_array_equal(flares.date, np.arange("2016-01-01", "2018-01-01", dtype="datetime64[D]"))
    assert (flares.y_true.dtype, set(flares.y_true.tolist())) == (np.int64, {0, 1})
    assert flares.y_true.sum() == 188
    assert flares.y_proba.shape == flares.y_true.shape == (731,)
    assert ((flares.y_proba > 0) & (flares.y_proba <= 1)).all()
    assert (flares.date[0], flares.y_proba[0], flares.y_true[0]) == (np.datetime64("2016-01-01"), 0.778454, 1)
    assert load_solar_flares().y_proba is not flares.y_proba


def test_published_values():
    flares = load_solar_flares()
    # Blasiok and Nakkiran (2024), Figure 2(b), print .075 and .067
    assert round(expected_calibration_error(flares.y_true, flares.y_proba, n_bins=15), 4) == 0.0752
    assert round(smooth_ece(flares.y_true, flares.y_proba), 4) == 0.0674


def test_shipped_columns_are_those_of_the_source():
    source, flares = outside_data("solar_flares", "SF.FC.C1.csv"), load_solar_flares()
    with source.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [str(day) for day in flares.date] == [row["VALID_DATE"] for row in rows]
    assert flares.y_proba.tolist() == [float(row["DAFFS"]) for row in rows]
    assert flares.y_true.tolist() == [int(row["rlz.C1"]) for row in rows]
