"""The weighted sample of a sketch stands for its samples, in everything that accepts ``sample_weight``.

Predictions that are multiples of 1/256 are kept exactly, so that results are those of the samples.
"""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from sklearn_calib.inference import confidence_interval, expected_under_calibration
from sklearn_calib.metrics import calibration_loss, smooth_ece
from sklearn_calib.sketch import CalibrationSketch
from tests._registry import METRICS
from tests.calibrators._registry import CALIBRATORS
from tests.inference._registry import TESTS


def sample(p, rng):
    y = (rng.random(p.shape[0]) < 0.1 + 0.8 * p).astype(np.int64)
    return y, p, CalibrationSketch().update(y, p).weighted_sample()


@pytest.fixture(scope="module")
def exact():
    rng = np.random.default_rng(0)
    return sample(rng.integers(1, 256, 200) / 256, rng)


@pytest.fixture(scope="module")
def rounded():
    rng = np.random.default_rng(0)
    return sample(np.concatenate((rng.random(180), rng.choice([0.1, 0.5, 0.75], 20))), rng)


def assert_close(found, expected):
    """Compare numbers, arrays and results of them."""
    if is_dataclass(found):
        for item in fields(found):
            assert_close(getattr(found, item.name), getattr(expected, item.name))
    elif isinstance(found, np.ndarray | float):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    elif isinstance(found, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_metrics(case, exact, rounded):
    for (y, p, arrays), tolerance in ((exact, 1e-9), (rounded, 3e-4)):
        found = case.call(arrays[0], arrays[1], sample_weight=arrays[2])
        # roots near 0 move more than predictions, which move by 2**-17 at most
        assert found == pytest.approx(case.call(y, p), abs=tolerance)


@pytest.mark.parametrize(
    "case", [case for case in TESTS if case.flip and not case.ordered], ids=lambda case: case.name
)
def test_tests(case, exact):
    y, p, (y_weighted, p_weighted, w) = exact
    found = case.test.test(y_weighted, p_weighted, sample_weight=w, weights="frequency")
    expected = case.test.test(y, p)
    assert found.n_samples == expected.n_samples == 200
    assert_close((found.statistic, found.pvalue), (expected.statistic, expected.pvalue))


@pytest.mark.parametrize("metric", [smooth_ece, calibration_loss])
def test_intervals_and_null_distributions(metric, exact):
    y, p, (y_weighted, p_weighted, w) = exact
    settings = {"metric": metric, "n_resamples": 20}
    counted = settings | {"sample_weight": w, "weights": "frequency"}
    assert_close(
        confidence_interval(y_weighted, p_weighted, **counted), confidence_interval(y, p, **settings)
    )
    assert_close(
        expected_under_calibration(y_weighted, p_weighted, **counted).values,
        expected_under_calibration(y, p, **settings).values,
    )


# these divide the samples at random
DIVIDE = ("scaling_binning", "certified", "certified_isotonic")
WHOLE = [case for case in CALIBRATORS if not case.log_odds and case.name not in DIVIDE]


@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.name)
def test_calibrators(case, exact):
    y, p, (y_weighted, p_weighted, w) = exact
    grid = np.linspace(0.001, 0.999, 300)
    found = case.make().fit(p_weighted, y_weighted, w)
    np.testing.assert_allclose(found.transform(grid), case.make().fit(p, y).transform(grid), atol=1e-6)


def test_displays(exact):
    plt = pytest.importorskip("matplotlib.pyplot")
    from sklearn_calib.plot import CutoffDisplay, ReliabilityDisplay

    y, p, (y_weighted, p_weighted, w) = exact
    for display in (CutoffDisplay, ReliabilityDisplay):
        pair = (
            display.from_predictions(y, p),
            display.from_predictions(y_weighted, p_weighted, sample_weight=w, weights="frequency"),
        )
        lines = [[line.get_xydata() for ax in made.figure_.axes for line in ax.get_lines()] for made in pair]
        for one, other in zip(*lines, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
        plt.close("all")
