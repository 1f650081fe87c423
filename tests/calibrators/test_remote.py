"""A few scores of exactly 0 or 1 that are wrong, in parametric fits, and what a plain fit makes of them."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from sklearn_calib._core._grouping import GroupedOutcomes
from sklearn_calib.calibrators import (
    BetaCalibrator,
    DirichletCalibrator,
    MatrixScalingCalibrator,
    ModifiedPlattCalibrator,
    PlattCalibrator,
    SplineCalibrator,
    StructuredMatrixScalingCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
)
from sklearn_calib.calibrators._remote import balanced_intercept, core_reach, discount_remote

EPS = 2.0**-53
INNER = np.array([0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95])
ROBUST = {
    "beta": BetaCalibrator,
    "platt": PlattCalibrator,
    "modified platt": ModifiedPlattCalibrator,
    "temperature": TemperatureCalibrator,
    "spline": SplineCalibrator,
    "monotone spline": lambda: SplineCalibrator(monotone=True),
    "vector": lambda: VectorScalingCalibrator(penalty=0.01),
    "matrix": lambda: MatrixScalingCalibrator(penalty=0.01),
    "structured matrix": lambda: StructuredMatrixScalingCalibrator(penalty=0.01),
    "dirichlet": lambda: DirichletCalibrator(penalty=0.01),
}


def both(p):
    return np.column_stack([1 - p, p])


def rows(slope, seed):
    rng = np.random.default_rng(seed)
    p = rng.random(400)
    return p, (rng.random(400) < expit(slope * logit(p))).astype(int)


def plain(p, y, intercept):
    """Maximum likelihood of slope and intercept on the log-odds, every row in full."""
    z = logit(np.clip(p, EPS, 1 - EPS))

    def loss(t):
        f = t[0] * z + (t[1] if intercept else 0.0)
        return np.sum(np.logaddexp(0, f) - y * f)

    t = minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-8}).x
    return expit(t[0] * logit(INNER) + (t[1] if intercept else 0.0))


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("slope", [0.5, 1.0, 1.6])
@pytest.mark.parametrize("seed", range(3))
def test_four_contradicted_certainties_among_404(name, slope, seed):
    p, y = rows(slope, seed)
    spoilt_p, spoilt_y = np.append(p, [0, 0, 1, 1]), np.append(y, [1, 1, 0, 0])
    clean, spoilt = (ROBUST[name]().fit(*data).transform(INNER) for data in ((p, y), (spoilt_p, spoilt_y)))
    assert np.abs(spoilt - clean).max() < 0.02
    # the case is a hard one: a plain fit of the same form loses a tenth and more at both ends
    intercept = name != "temperature"
    moved = np.abs(plain(spoilt_p, spoilt_y, intercept) - plain(p, y, intercept))
    assert moved.max() > 0.1


@pytest.mark.parametrize("name", ["platt", "temperature"])
def test_remote_rows_that_are_right_are_kept_right(name):
    p, y = rows(1.0, 0)
    model = ROBUST[name]().fit(np.append(p, [0, 0, 1, 1]), np.append(y, [0, 0, 1, 1]))
    clean = ROBUST[name]().fit(p, y)
    np.testing.assert_allclose(model.transform(INNER), clean.transform(INNER), rtol=0, atol=0.02)
    assert model.transform([0.0])[0] < 1e-10
    assert model.transform([1.0])[0] > 1 - 1e-10


def test_the_map_meets_the_mean_of_the_targets():
    """Discounted rows count in full for the intercept."""
    p, y = rows(1.0, 1)
    p, y = np.append(p, [0, 0, 0, 0]), np.append(y, [1, 1, 1, 1])
    positive = y.sum()
    target = np.where(y == 1, (positive + 1) / (positive + 2), 1 / (404 - positive + 2))
    assert PlattCalibrator().fit(p, y).transform(p).mean() == pytest.approx(target.mean(), rel=1e-12)


def test_discount_by_hand():
    """The core is the middle 97 of 100 rows, which reach log-odds 4; those of 24 count (12/24)^3."""
    z = np.array([-24.0, -4.0, 0.0, 4.0, 24.0])
    weight, positives = np.array([1.0, 40.0, 17.0, 40.0, 2.0]), np.array([1.0, 0.0, 9.0, 40.0, 1.0])
    grouped = GroupedOutcomes(z, weight, positives)
    assert core_reach(np.abs(z), weight) == 4.0
    found = discount_remote(z, grouped)
    np.testing.assert_allclose(found.weight, [1 / 8, 40, 17, 40, 2 / 8], rtol=1e-14)
    np.testing.assert_allclose(found.positives, [1 / 8, 0, 9, 40, 1 / 8], rtol=1e-14)
    # nothing is remote if it is within three times the core, or if more than 5 % are as far
    assert discount_remote(z * [0.5, 1, 1, 1, 0.5], grouped) is None
    many = GroupedOutcomes(z, np.array([4.0, 40.0, 17.0, 36.0, 4.0]), positives)
    assert discount_remote(z, many) is None
    # log-odds of a core that is narrower count as log 19
    narrow = z * [1 / 3, 0.1, 1, 0.1, 1 / 3]
    assert discount_remote(narrow, GroupedOutcomes(narrow, weight, positives)) is None


def test_balanced_intercept_by_hand():
    weight = np.array([1.0, 2.0])
    target = weight * expit(np.array([-1.0, 2.0]) + 0.7)
    assert balanced_intercept(np.array([-1.0, 2.0]), weight, target, -30.0) == pytest.approx(0.7, abs=1e-12)


def test_nothing_is_remote_at_just_three_times_the_core():
    z = np.repeat([3.0, 9.0], [95, 5])
    grouped = GroupedOutcomes(np.unique(z), np.array([95.0, 5.0]), np.array([90.0, 5.0]))
    assert discount_remote(np.array([3.0, 9.0]), grouped) is None
    assert discount_remote(np.array([3.0, 9.1]), grouped).weight[1] == pytest.approx(5.0 * (9 / 9.1) ** 3)


def test_a_core_that_ends_by_rounding_reaches_to_the_next_score():
    weight = np.array([95.0 * (1.0 - 1e-10), 4.0 + 95e-10, 1.0])
    assert discount_remote(np.array([3.0, 5.0, 10.0]), GroupedOutcomes(weight, weight, 0.5 * weight)) is None
