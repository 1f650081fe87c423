"""One thread for linear algebra: problems are small, and more would only wait for each other."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield
