"""Shipped tables and answers: complete, decoded as documented, and with their licenses."""

import csv
import gzip

import numpy as np
import pytest

from sklearn_calib.datasets import load_bank_marketing, load_german_credit, load_mmlu_answers
from tests._data import outside_data


def test_german_credit():
    credit = load_german_credit()
    assert (credit.X.shape, credit.y.sum(), credit.y.dtype) == ((1000, 20), 300, np.int64)
    assert credit.is_categorical.sum() == 13
    assert credit.date is None
    assert credit.column("credit_amount")[:2].tolist() == [1169, 5951]
    assert credit.column("status")[:2].tolist() == ["A11", "A12"]
    assert np.isfinite(credit.X).all()


def test_german_credit_is_that_of_the_source():
    with gzip.open(outside_data("tabular", "german.csv.gz"), "rt", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    credit = load_german_credit()
    assert credit.y.tolist() == [int(row["credit"] == "2") for row in rows]
    for name in credit.feature_names:
        values = [row[name] for row in rows]
        if name not in credit.categories:
            values = [float(value) for value in values]
        assert credit.column(name).tolist() == values


def test_bank_marketing():
    bank = load_bank_marketing()
    assert (bank.X.shape, bank.y.sum()) == ((7536, 6), 881)
    assert (np.diff(bank.date) >= np.timedelta64(0, "D")).all()
    assert (str(bank.date[0]), str(bank.date[-1])) == ("2008-05-05", "2010-11-17")
    assert bank.categories["contact"] == ("cellular", "telephone", "unknown")
    assert bank.column("age")[:2].tolist() == [54, 36]
    assert bank.column("job")[:2].tolist() == ["admin.", "blue-collar"]
    with pytest.raises(ValueError, match="name must be one of age"):
        bank.column("duration")


def test_mmlu_answers():
    answers = load_mmlu_answers()
    assert answers.y_true.shape == answers.y_proba.shape == answers.larger_correct.shape == (6000,)
    assert (answers.y_true.sum(), answers.larger_correct.sum()) == (3876, 4857)
    assert ((answers.y_proba > 0.25) & (answers.y_proba < 1)).all()
    assert answers.y_proba.mean() == pytest.approx(0.87540758, abs=1e-6)
