"""One thread for linear algebra: the problems are small, and more threads would only wait for each other."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield
