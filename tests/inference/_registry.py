"""Every test of calibration with fixed parameters, for the generated tests.

A new test is one row here.
"""

from dataclasses import dataclass

from sklearn_calib import inference


@dataclass(frozen=True)
class TestCase:
    """A test of calibration, reproducible, and what theory promises of it.

    ``flip``: (1 - y, 1 - p) gives the same estimate. ``draws``: p-values come from redrawn samples.
    ``ordered``: the order of rows matters, as it does for streams. ``clusters``: it takes dependent samples.
    """

    __test__ = False

    name: str
    test: inference.CalibrationTest
    flip: bool = True
    draws: bool = False
    ordered: bool = False
    clusters: bool = True


DRAWN = {"n_resamples": 39, "random_state": 0}
TESTS = [
    TestCase("tcal", inference.TCal(**DRAWN), draws=True),
    TestCase("tcal_bonferroni", inference.TCal(n_resamples=399, combine="bonferroni"), draws=True),
    TestCase("tcal_fixed", inference.TCal(smoothness=1.0, **DRAWN), draws=True),
    TestCase("tcal_asymptotic", inference.TCal(method="asymptotic"), clusters=False),
    TestCase("tcal_asymptotic_fixed", inference.TCal(smoothness=0.5, method="asymptotic"), clusters=False),
    TestCase("tcal_theory", inference.TCal(method="theory"), clusters=False),
    TestCase("tcal_tolerance", inference.TCal(tolerance=0.05, **DRAWN), draws=True, clusters=False),
    TestCase("combined", inference.CombinedTest(**DRAWN), draws=True),
    TestCase("combined_asymptotic", inference.CombinedTest(method="asymptotic"), clusters=False),
    TestCase("splitting", inference.SampleSplittingTest(**DRAWN), flip=False, draws=True, clusters=False),
    TestCase("kernel", inference.KernelTest(**DRAWN), draws=True),
    TestCase("kernel_adaptive", inference.KernelTest(bandwidth="adaptive", **DRAWN), draws=True),
    TestCase("kernel_asymptotic", inference.KernelTest(method="asymptotic"), clusters=False),
    # the samples of the generated tests are continuous
    TestCase("binomial", inference.BinomialTest(max_values=10_000, n_resamples=39)),
    TestCase("sequential", inference.SequentialTest(), ordered=True, clusters=False),
    TestCase("consistency", inference.ConsistencyTest("smooth_ece", n_resamples=19), flip=False, draws=True),
    TestCase("cox", inference.CoxTest(n_resamples=39), draws=True),
    TestCase("cox_slope", inference.CoxTest(parameter="slope", n_resamples=39), draws=True),
    TestCase("cutoff_test", inference.CutoffTest(n_resamples=39), draws=True),
    TestCase("hosmer_lemeshow", inference.HosmerLemeshowTest(n_resamples=39), flip=False, draws=True),
    TestCase("spiegelhalter", inference.SpiegelhalterTest(n_resamples=39), draws=True),
]
