"""Figures printed in the SmoothECE paper, on the real predictions behind them."""

import os
from pathlib import Path

import numpy as np
import pytest

from sklearn_calib.metrics import expected_calibration_error, smooth_ece


def test_resnet34_on_imagenet():
    # Figure 2(a): both errors .078
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("SKLEARN_CALIB_DATA", default)) / "imagenet_confidences"
    source = folder / "timm_resnet34.npz"
    if not source.exists():
        pytest.skip("the confidences are absent; set SKLEARN_CALIB_DATA to the folder that holds them")
    data = np.load(source)
    correct, confidence = data["correct"], data["conf"]
    assert expected_calibration_error(correct, confidence) == pytest.approx(0.0780, abs=5e-5)
    assert smooth_ece(correct, confidence) == pytest.approx(0.0779, abs=5e-5)
