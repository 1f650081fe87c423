"""The calibrator that is recommended where none is named."""

from typing import Any

from sklearn_calib.calibrators._log_average import LogAverageCalibrator
from sklearn_calib.calibrators._matrix import MatrixScalingCalibrator, StructuredMatrixScalingCalibrator
from sklearn_calib.calibrators._multiclass import OneVsRestCalibrator
from sklearn_calib.calibrators._spline import SplineCalibrator

__all__ = ["default_calibrator"]


def default_calibrator(link: str, several: bool, every_class: bool = True) -> Any:
    """Return the one that did best in ``benchmarks/compare_calibrators.py``, for two or several classes.

    If not every class has samples, those that look at one class at a time are left out of the average.
    """
    spline = SplineCalibrator(link=link)
    if not several:
        return spline
    maps = [MatrixScalingCalibrator(link=link), StructuredMatrixScalingCalibrator(link=link)]
    if not every_class:
        return LogAverageCalibrator(maps)
    if link == "logit":
        return LogAverageCalibrator()
    return LogAverageCalibrator([OneVsRestCalibrator(spline), *maps], weights=[2.0, 3.0, 3.0])
