"""Parameters of the second and third tier."""

import pytest


def thorough(*values):
    return pytest.param(*values, marks=pytest.mark.thorough)


def weekly(*values):
    return pytest.param(*values, marks=pytest.mark.weekly)
