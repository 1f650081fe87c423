"""Fixtures that several folders use."""

import pytest

from sklearn_calib.report._numbers import ERRORS


@pytest.fixture
def only_pairs(monkeypatch):
    """Leave out intervals and null means of single models, which take most of the time of a comparison."""
    monkeypatch.setattr("sklearn_calib.inference._comparison._one", lambda *_: (0.0, 0.0, 1.0))
    monkeypatch.setattr("sklearn_calib.inference._paired_samples.PairedSamples.null_mean", lambda *_: 0.0)


@pytest.fixture
def one_measure(monkeypatch):
    """Leave out the intervals that a test does not look at: they take most of the time."""
    monkeypatch.setattr("sklearn_calib.report._numbers.ERRORS", ERRORS[:1])
