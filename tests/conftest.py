"""Fixtures that several folders use."""

import pytest

from sklearn_calib.report._numbers import ERRORS


@pytest.fixture
def one_measure(monkeypatch):
    """Leave out the intervals that a test does not look at: they take most of the time."""
    monkeypatch.setattr("sklearn_calib.report._numbers.ERRORS", ERRORS[:1])
