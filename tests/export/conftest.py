import pytest

from tests.export.test_sql import OPENED


@pytest.fixture(autouse=True)
def closed_connections():
    yield
    while OPENED:
        OPENED.pop().close()
