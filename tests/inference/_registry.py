"""Every test of calibration with fixed parameters, for the generated tests.

A new test is one row here.
"""

from dataclasses import dataclass

from sklearn_calib.inference import (
    BinomialTest,
    CalibrationTest,
    CombinedTest,
    ConsistencyTest,
    CoxTest,
    CutoffTest,
    HosmerLemeshowTest,
    KernelTest,
    SampleSplittingTest,
    SequentialTest,
    SpiegelhalterTest,
    TCal,
)


@dataclass(frozen=True)
class TestCase:
    """A test of calibration, reproducible, and what theory promises of it.

    ``flip``: (1 - y, 1 - p) gives the same estimate. ``draws``: p-values come from redrawn samples.
    ``ordered``: the order of rows matters, as it does for streams. ``clusters``: it takes dependent samples.
    """

    __test__ = False

    name: str
    test: CalibrationTest
    flip: bool = True
    draws: bool = False
    ordered: bool = False
    clusters: bool = True


DRAWN = {"n_resamples": 39, "random_state": 0}
TESTS = [
    TestCase("tcal", TCal(**DRAWN), draws=True),
    TestCase("tcal_bonferroni", TCal(n_resamples=399, combine="bonferroni", random_state=0), draws=True),
    TestCase("tcal_fixed", TCal(smoothness=1.0, **DRAWN), draws=True),
    TestCase("tcal_asymptotic", TCal(method="asymptotic"), clusters=False),
    TestCase("tcal_asymptotic_fixed", TCal(smoothness=0.5, method="asymptotic"), clusters=False),
    TestCase("tcal_theory", TCal(method="theory"), clusters=False),
    TestCase("tcal_tolerance", TCal(tolerance=0.05, **DRAWN), draws=True, clusters=False),
    TestCase("combined", CombinedTest(**DRAWN), draws=True),
    TestCase("combined_asymptotic", CombinedTest(method="asymptotic"), clusters=False),
    TestCase("splitting", SampleSplittingTest(**DRAWN), flip=False, draws=True, clusters=False),
    TestCase("kernel", KernelTest(**DRAWN), draws=True),
    TestCase("kernel_adaptive", KernelTest(bandwidth="adaptive", **DRAWN), draws=True),
    TestCase("kernel_asymptotic", KernelTest(method="asymptotic"), clusters=False),
    # the samples of the generated tests are continuous
    TestCase("binomial", BinomialTest(max_values=10_000, n_resamples=39)),
    TestCase("sequential", SequentialTest(), ordered=True, clusters=False),
    TestCase("consistency", ConsistencyTest("smooth_ece", n_resamples=19), flip=False, draws=True),
    TestCase("cox", CoxTest(n_resamples=39), draws=True),
    TestCase("cox_slope", CoxTest(parameter="slope", n_resamples=39), draws=True),
    TestCase("cutoff_test", CutoffTest(n_resamples=39), draws=True),
    TestCase("hosmer_lemeshow", HosmerLemeshowTest(n_resamples=39), flip=False, draws=True),
    TestCase("spiegelhalter", SpiegelhalterTest(n_resamples=39), draws=True),
]
