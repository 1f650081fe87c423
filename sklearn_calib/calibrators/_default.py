"""The calibrator that is recommended where none is named."""

from typing import Any

from sklearn_calib.calibrators._log_average import LogAverageCalibrator
from sklearn_calib.calibrators._matrix import MatrixScalingCalibrator, StructuredMatrixScalingCalibrator
from sklearn_calib.calibrators._multiclass import OneVsRestCalibrator
from sklearn_calib.calibrators._spline import SplineCalibrator

__all__ = ["default_calibrator"]


def default_calibrator(link: str, several: bool) -> Any:
    """Return the one that did best in ``benchmarks/compare_calibrators.py``, for two or several classes."""
    spline = SplineCalibrator(link=link)
    if not several:
        return spline
    if link == "logit":
        return LogAverageCalibrator()
    maps = [MatrixScalingCalibrator(link=link), StructuredMatrixScalingCalibrator(link=link)]
    return LogAverageCalibrator([OneVsRestCalibrator(spline), *maps], weights=[2.0, 3.0, 3.0])
