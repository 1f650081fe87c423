"""Calibrators: estimators that map the scores of a classifier to calibrated probabilities."""

from sklearn_calib.calibrators._auto import AutoCalibrator, CalibratorSelection, Candidate
from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.calibrators._beta import BetaCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificate
from sklearn_calib.calibrators._certified import CertifiedCalibrator
from sklearn_calib.calibrators._dirichlet import DirichletCalibrator
from sklearn_calib.calibrators._group import GroupCalibrator
from sklearn_calib.calibrators._histogram_binning import HistogramBinningCalibrator
from sklearn_calib.calibrators._isotonic import IsotonicCalibrator
from sklearn_calib.calibrators._log_average import LogAverageCalibrator
from sklearn_calib.calibrators._matrix import MatrixScalingCalibrator, StructuredMatrixScalingCalibrator
from sklearn_calib.calibrators._modified_platt import ModifiedPlattCalibrator
from sklearn_calib.calibrators._multiclass import OneVsRestCalibrator
from sklearn_calib.calibrators._platt import PlattCalibrator
from sklearn_calib.calibrators._prior_shift import PriorShiftCalibrator
from sklearn_calib.calibrators._scaling_binning import ScalingBinningCalibrator
from sklearn_calib.calibrators._segment import SegmentCalibrator
from sklearn_calib.calibrators._smoothed import SmoothedCalibrator
from sklearn_calib.calibrators._spline import SplineCalibrator
from sklearn_calib.calibrators._temperature import TemperatureCalibrator
from sklearn_calib.calibrators._vector import VectorScalingCalibrator
from sklearn_calib.calibrators._venn_abers import VennAbersCalibrator

__all__ = [
    "AutoCalibrator",
    "BaseCalibrator",
    "BetaCalibrator",
    "CalibratorSelection",
    "Candidate",
    "CertifiedCalibrator",
    "CutoffCertificate",
    "DirichletCalibrator",
    "GroupCalibrator",
    "HistogramBinningCalibrator",
    "IsotonicCalibrator",
    "LogAverageCalibrator",
    "MatrixScalingCalibrator",
    "ModifiedPlattCalibrator",
    "OneVsRestCalibrator",
    "PlattCalibrator",
    "PriorShiftCalibrator",
    "ScalingBinningCalibrator",
    "SegmentCalibrator",
    "SmoothedCalibrator",
    "SplineCalibrator",
    "StructuredMatrixScalingCalibrator",
    "TemperatureCalibrator",
    "VectorScalingCalibrator",
    "VennAbersCalibrator",
]
