"""Figures printed in the SmoothECE paper, on the real predictions behind them."""

import numpy as np
import pytest

from sklearn_calib.metrics import expected_calibration_error, smooth_ece
from tests._data import outside_data


def test_resnet34_on_imagenet():
    # Figure 2(a): both errors .078
    source = outside_data("imagenet_confidences", "timm_resnet34.npz")
    data = np.load(source)
    correct, confidence = data["correct"], data["conf"]
    assert expected_calibration_error(correct, confidence) == pytest.approx(0.0780, abs=5e-5)
    assert smooth_ece(correct, confidence) == pytest.approx(0.0779, abs=5e-5)
