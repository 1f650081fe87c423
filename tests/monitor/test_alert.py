"""What an alert says of a window, against likelihoods computed by the plain formula."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from sklearn_calib.metrics import calibration_summary
from sklearn_calib.monitor._alert import find_tendency, shown_evidence, shown_time
from sklearn_calib.sketch import CalibrationSketch


def sketch_of(y, p):
    return CalibrationSketch().update(y, p)


def draw(n, truth, seed=0):
    p = np.random.default_rng(seed).beta(0.8, 1.5, size=n)
    return (np.random.default_rng(seed + 1).random(n) < truth(p)).astype(int), p


def loss(y, z):
    return np.logaddexp(0, z).sum() - (y * z).sum()


TRUTHS = {
    "more": lambda p: expit(logit(p) + 0.3),
    "fewer": lambda p: expit(logit(p) - 0.3),
    "over": lambda p: expit(0.7 * logit(p)),
    "under": lambda p: expit(1.4 * logit(p)),
    "right": lambda p: p,
}


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("n", [60, 2000])
def test_the_likelier_recalibration_decides(name, n):
    y, p = draw(n, TRUTHS[name])
    z = logit(p)
    shift = minimize_scalar(lambda a: loss(y, a + z), bounds=(-5, 5), method="bounded")
    slope = minimize_scalar(lambda b: loss(y, b * z), bounds=(-5, 5), method="bounded")
    gains = np.array([loss(y, z) - shift.fun, loss(y, z) - slope.fun])
    words = [
        "more events" if shift.x > 0 else "fewer events",
        "overconfident" if slope.x < 1 else "underconfident",
    ]
    expected = "unclear" if gains.max() < 1.92 else words[gains.argmax()]
    found = find_tendency(sketch_of(y, p))
    assert found["direction"] == expected
    assert found["intercept"] == pytest.approx(shift.x, abs=1e-3)
    summary = calibration_summary(y, p)
    assert found["slope"] == pytest.approx(summary.slope.estimate, abs=1e-3)


@pytest.mark.parametrize(
    ("y", "p", "direction", "finite"),
    [
        ([1] * 20, [0.5] * 20, "more events", (False, False)),
        ([0] * 20, np.linspace(0.3, 0.9, 20), "fewer events", (False, False)),
        ([0, 1] * 20, [0.2] * 40, "more events", (True, False)),
        ([0, 1] * 20, [0.5] * 40, "unclear", (True, False)),
        ([0] * 10 + [1] * 10, np.linspace(0.2, 0.8, 20), "unclear", (True, False)),
        ([0], [0.4], "unclear", (False, False)),
        ([0, 1, 1], [0.0, 1.0, 0.0], "more events", (True, False)),
        # the log-odds decide, whatever the outcomes of predictions of 0 and 1
        ([0, 0, 0, 1] * 25 + [1] * 100, [0.5] * 100 + [0.0] * 100, "fewer events", (True, False)),
    ],
)
def test_corners(y, p, direction, finite):
    found = find_tendency(sketch_of(y, p))
    assert found["direction"] == direction
    assert (np.isfinite(found["intercept"]), np.isfinite(found["slope"])) == finite


def test_numbers_and_times_in_words():
    assert shown_evidence(np.log(123.456)) == "123.5"
    assert shown_evidence(np.inf) == "inf"
    assert shown_evidence(-np.inf) == "0"
    assert shown_evidence(5000 * np.log(10.0)) == "10^5000"
    assert shown_time(7) == "7"
    assert shown_time(2.5) == "2.5"
    for text in ("2024-03-01", "2024-03-01T12:30", "2024-03-01T12:30:05", "2024-03-01T12:30:05.000000001"):
        assert shown_time(np.datetime64(text, "ns")) == text
