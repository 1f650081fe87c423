"""Two problems, and one thread for linear algebra: as they are small, more would only wait for each other."""

import pytest
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session")
def binary():
    return make_classification(200, n_features=5, flip_y=0.2, random_state=0)


@pytest.fixture(scope="session")
def three():
    return make_classification(
        240, n_features=5, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.2, random_state=0
    )
