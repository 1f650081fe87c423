"""Data that several tests of calibrators share."""

import pytest
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB


@pytest.fixture
def calibration_data():
    """Features, labels, and a classifier that is too sure of itself on them."""
    X, y = make_classification(n_samples=400, n_informative=3, n_redundant=12, flip_y=0.2, random_state=0)
    return X, y, GaussianNB()
