"""Export of fitted calibrators: JSON, SQL and ONNX, without pickle."""

from sklearn_calib.export._document import ExportedCalibrator, from_json, to_json
from sklearn_calib.export._onnx import register_onnx_converters, to_onnx
from sklearn_calib.export._sql import to_sql

__all__ = ["ExportedCalibrator", "from_json", "register_onnx_converters", "to_json", "to_onnx", "to_sql"]
