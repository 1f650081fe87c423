"""Tests of calibration by name, wherever an instance is accepted."""

from typing import Any

from sklearn_calib.inference._betting._sequential import SequentialTest
from sklearn_calib.inference._testing._base import CalibrationTest
from sklearn_calib.inference._testing._binomial import BinomialTest
from sklearn_calib.inference._testing._combined import CombinedTest
from sklearn_calib.inference._testing._cox import CoxTest
from sklearn_calib.inference._testing._cutoff import CutoffTest
from sklearn_calib.inference._testing._hosmer_lemeshow import HosmerLemeshowTest
from sklearn_calib.inference._testing._kernel import KernelTest
from sklearn_calib.inference._testing._spiegelhalter import SpiegelhalterTest
from sklearn_calib.inference._testing._splitting import SampleSplittingTest
from sklearn_calib.inference._testing._tcal import TCal

_TESTS: dict[str, type[CalibrationTest]] = {
    "binomial": BinomialTest,
    "combined": CombinedTest,
    "cox": CoxTest,
    "cutoff": CutoffTest,
    "hosmer_lemeshow": HosmerLemeshowTest,
    "kernel": KernelTest,
    "sample_splitting": SampleSplittingTest,
    "sequential": SequentialTest,
    "spiegelhalter": SpiegelhalterTest,
    "tcal": TCal,
}


def as_test(test: Any) -> CalibrationTest:
    """Return a test that is given as an instance or by name, then with its default parameters."""
    if isinstance(test, str):
        if test not in _TESTS:
            raise ValueError(f"test={test!r} is not the name of a test. Use one of {sorted(_TESTS)}.")
        return _TESTS[test]()
    if isinstance(test, type) and issubclass(test, CalibrationTest):
        raise TypeError(f"test is the class {test.__name__}; pass an instance, {test.__name__}().")
    if not isinstance(test, CalibrationTest):
        raise TypeError(
            "test must be a test of calibration of sklearn_calib.inference, such as TCal(), or its name, "
            f"'tcal', got an object of type {type(test).__name__}. For a metric use ConsistencyTest(metric) "
            "or CalibrationScorer(metric)."
        )
    return test
