"""The weighted sample of a sketch stands for its samples, in every metric that accepts ``sample_weight``."""

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch
from tests._registry import METRICS


@pytest.fixture(scope="module", params=["exact", "rounded"])
def sample(request):
    """Return samples, those of their sketch, and a tolerance: multiples of 1/256 are kept exactly."""
    rng = np.random.default_rng(0)
    p = np.concatenate((rng.random(180), rng.choice([0.1, 0.5, 0.75], 20)))
    p = p if request.param == "rounded" else np.ceil(255 * p) / 256
    y = (rng.random(200) < 0.1 + 0.8 * p).astype(np.int64)
    # roots near 0 move more than predictions, which move by 2**-17 at most
    tolerance = 3e-4 if request.param == "rounded" else 1e-9
    return y, p, CalibrationSketch().update(y, p).weighted_sample(), tolerance


def test_metrics(sample):
    y, p, (outcome, mean, weight), tolerance = sample
    for case in METRICS:
        found = case.call(outcome, mean, sample_weight=weight)
        assert found == pytest.approx(case.call(y, p), abs=tolerance), case.name
