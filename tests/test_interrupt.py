"""The helper that breaks calls off."""

import pytest

from tests._interrupt import count_calls, interrupt, spread


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_breaks_off_at_each_call(at):
    done = []

    def work():
        done.append(abs(-1))
        done.append(2)

    # work itself, abs, append, append
    assert count_calls(work) == 4
    assert done == [1, 2]
    done.clear()
    assert interrupt(work, at)
    assert done == [1][: max(at - 3, 0)]
    done.clear()
    assert not interrupt(work, 6)
    assert done == [1, 2]


def test_numbers_to_try():
    assert spread(3) == [1, 2, 3]
    assert spread(100, n_between=1, n_ends=2) == [1, 2, 50, 99, 100]
