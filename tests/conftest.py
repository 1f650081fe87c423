"""Fixtures that several folders use."""

import pytest

# what loads libraries is imported by the fixtures, for workers alone


@pytest.fixture
def routing():
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="session")
def binary():
    from sklearn.datasets import make_classification

    return make_classification(200, n_features=5, flip_y=0.2, random_state=0)


@pytest.fixture(scope="session")
def three():
    from sklearn.datasets import make_classification

    classes = {"n_classes": 3, "n_informative": 4, "n_redundant": 0}
    return make_classification(240, n_features=5, **classes, flip_y=0.2, random_state=0)


@pytest.fixture
def one_measure(monkeypatch):
    """Leave out the intervals that a test does not look at: they take most of the time."""
    from sklearn_calib.report._numbers import ERRORS

    monkeypatch.setattr("sklearn_calib.report._numbers.ERRORS", ERRORS[:1])
