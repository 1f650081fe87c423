"""Tests of calibration and confidence intervals of calibration errors."""

from sklearn_calib.inference._betting._sequential import SequentialTest, SequentialTestResult
from sklearn_calib.inference._comparison import (
    ModelComparison,
    ModelPair,
    ModelSummary,
    compare_models,
)
from sklearn_calib.inference._dominance import DominanceResult, dominance_test
from sklearn_calib.inference._group_differences import GroupDifferences, group_differences_test
from sklearn_calib.inference._intervals import ConfidenceInterval, confidence_interval
from sklearn_calib.inference._mean_label import MeanLabel, mean_label
from sklearn_calib.inference._null_distribution import NullDistribution, expected_under_calibration
from sklearn_calib.inference._planning import required_n_samples
from sklearn_calib.inference._regions import Region, find_regions
from sklearn_calib.inference._segments import (
    MulticalibrationResult,
    Segment,
    SegmentsResult,
    find_segments,
    multicalibration_error,
)
from sklearn_calib.inference._testing._base import CalibrationTest, CalibrationTestResult
from sklearn_calib.inference._testing._binomial import BinomialTest, BinomialValue
from sklearn_calib.inference._testing._classes import TestedPart
from sklearn_calib.inference._testing._combined import CombinedTest, TestComponent
from sklearn_calib.inference._testing._consistency import ConsistencyTest
from sklearn_calib.inference._testing._cox import CoxTest
from sklearn_calib.inference._testing._cutoff import CutoffTest
from sklearn_calib.inference._testing._hosmer_lemeshow import HosmerLemeshowTest
from sklearn_calib.inference._testing._kernel import KernelScale, KernelTest
from sklearn_calib.inference._testing._spiegelhalter import SpiegelhalterTest
from sklearn_calib.inference._testing._splitting import SampleSplittingTest, SplitClass
from sklearn_calib.inference._testing._tcal import TCal, TCalScale

__all__ = [
    "BinomialTest",
    "BinomialValue",
    "CalibrationTest",
    "CalibrationTestResult",
    "CombinedTest",
    "ConfidenceInterval",
    "ConsistencyTest",
    "CoxTest",
    "CutoffTest",
    "DominanceResult",
    "GroupDifferences",
    "HosmerLemeshowTest",
    "KernelScale",
    "KernelTest",
    "MeanLabel",
    "ModelComparison",
    "ModelPair",
    "ModelSummary",
    "MulticalibrationResult",
    "NullDistribution",
    "Region",
    "SampleSplittingTest",
    "Segment",
    "SegmentsResult",
    "SequentialTest",
    "SequentialTestResult",
    "SpiegelhalterTest",
    "SplitClass",
    "TCal",
    "TCalScale",
    "TestComponent",
    "TestedPart",
    "compare_models",
    "confidence_interval",
    "dominance_test",
    "expected_under_calibration",
    "find_regions",
    "find_segments",
    "group_differences_test",
    "mean_label",
    "multicalibration_error",
    "required_n_samples",
]
