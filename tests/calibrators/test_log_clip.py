"""How far down the logarithms of tiny probabilities are believed, of two and of several classes."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_calib import calibrators
from tests._tiers import thorough

EPS = 2.0**-53
SEVERAL = {
    "temperature": calibrators.TemperatureCalibrator(),
    "vector": calibrators.VectorScalingCalibrator(penalty=0.01),
    "matrix": calibrators.MatrixScalingCalibrator(penalty=0.01),
    "structured matrix": calibrators.StructuredMatrixScalingCalibrator(penalty=0.01),
    "dirichlet": calibrators.DirichletCalibrator(penalty=0.01),
}


def chosen(proba, codes, weight=None):
    return calibrators.TemperatureCalibrator().fit(proba, codes, weight).min_proba_


def softmax(z):
    return np.exp(z - logsumexp(z, axis=1, keepdims=True))


def draw(proba, rng):
    return (proba.cumsum(axis=1) > rng.random((proba.shape[0], 1))).argmax(axis=1)


def exaggerated(factor, n=1500, seed=0):
    """Rows whose true log-odds are multiplied by a factor, as naive Bayes does with copies of a feature."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)) * 2.0
    return softmax(factor * z), draw(softmax(z), rng), softmax(z)


def forest(trees, n=600, seed=0):
    """Frequencies among so many votes; classes that got none have probability zero, but do occur."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet([0.5, 0.5, 0.5], n)
    return np.array([rng.multinomial(trees, row) for row in truth]) / trees, draw(truth, rng), truth


def loss_of_temperature(proba, codes, weight, floor):
    """Least sum of log losses of temperature scaling, by a search without derivatives."""
    logs, rows = np.log(np.maximum(proba, floor)), np.arange(len(codes))

    def loss(theta):
        z = np.exp(theta) * logs
        return float(weight @ (logsumexp(z, axis=1) - z[rows, codes]))

    found = minimize_scalar(loss, bracket=(-8.0, 0.0), tol=1e-10)
    return min(found.fun, *(loss(theta) for theta in np.linspace(-12, 4, 65)))


def chosen_plainly(proba, codes, weight):
    n, positive = weight.sum(), proba[proba >= 2.0**-1022].min()
    base = lowest = min(positive, EPS)
    floors = {EPS} | {2.0 ** -(53 * 2**j) for j in range(5) if 2.0 ** -(53 * 2**j) > lowest}
    if (proba < 2.0**-1022).any():
        base = min(positive, 0.5 / np.sqrt(n))
        floors |= {positive, 2.0**-26, 1e-4, 0.5 / n, 2 / n, 8 / n}
    floors = [base, *sorted(floor for floor in floors - {base} if floor < 1 / proba.shape[1])]
    return min(floors, key=lambda f: loss_of_temperature(proba, codes, weight, f) + (f != base))


def wildly_wrong():
    proba, codes, _ = exaggerated(30.0, 400)
    wrong = softmax(np.tile([[0.0, -600.0, -650.0]], (5, 1)))
    return np.vstack([proba, wrong]), np.append(codes, [2, 2, 2, 2, 2])


CASES = {
    "exaggerated, 30": (lambda: exaggerated(30.0, 400), True),
    "exaggerated, 200": (lambda: exaggerated(200.0, 400), False),
    "a few wildly wrong": (wildly_wrong, True),
    "forest of ten": (lambda: forest(10, 300), False),
    "votes of one": (lambda: forest(1, 300), True),
    "forest of a thousand": (lambda: forest(1000, 300), True),
}


@pytest.mark.parametrize(
    "name",
    ["exaggerated, 200", "a few wildly wrong", "votes of one"]
    + [thorough(name) for name in ("exaggerated, 30", "forest of ten", "forest of a thousand")],
)
def test_the_floor_is_that_of_a_plain_search(name):
    draw_case, weighted = CASES[name]
    proba, codes, *_ = draw_case()
    weight = np.random.default_rng(1).integers(1, 4, len(codes)).astype(float)
    expected = chosen_plainly(proba, codes, weight if weighted else np.ones(len(codes)))
    assert chosen(proba, codes, weight if weighted else None) == expected


def test_nothing_tiny_nothing_chosen():
    assert chosen(np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 50), np.arange(50) % 3) == EPS


@pytest.mark.parametrize("name", SEVERAL)
def test_exaggeration_is_undone(name):
    """Believing nothing below 2**-53 cannot bring the truth back, as a third of the order is lost."""
    proba, codes, truth = exaggerated(60.0)
    assert np.abs(SEVERAL[name].fit(proba, codes).predict_proba(proba) - truth).mean() < 0.03
    cut = np.maximum(proba, EPS)
    cut /= cut.sum(axis=1, keepdims=True)
    assert np.abs(SEVERAL[name].fit(cut, codes).predict_proba(cut) - truth).mean() > 0.06


@pytest.mark.parametrize("name", SEVERAL)
def test_zero_votes_are_not_impossible(name):
    proba, codes, truth = forest(10)
    calibrator = SEVERAL[name].fit(proba, codes)
    found = calibrator.predict_proba(proba)
    # a tenth is more than 600 samples support
    assert calibrator.min_proba_ == 0.5 / np.sqrt(600)
    assert found[proba == 0.0].min() > 1e-3
    # less than what the fit knows is read as the least that it knows
    expected = calibrator.predict_proba([[0.01, 0.0, 0.99]])
    np.testing.assert_array_equal(calibrator.predict_proba([[0.0, 0.01, 0.99]]), expected)
    assert np.mean(np.square(found - truth)) < np.mean(np.square(proba - truth))


def test_floor_belongs_to_probabilities():
    proba, codes, _ = exaggerated(30.0, n=200)
    calibrator = calibrators.TemperatureCalibrator().fit(proba, codes)
    assert calibrator.min_proba_ < EPS
    assert not hasattr(calibrator.set_params(link="identity").fit(np.log(proba), codes), "min_proba_")


# scores of two classes, weights, and the limit
TWO = {
    "least": ([0.0, 0.1, 0.8, 0.7, 1.0], None, 0.1),
    "least of the complement": ([0.0, 0.4, 0.9375, 0.5, 1.0], None, 0.0625),
    "only 0 and 1": ([0.0, 1.0, 0.0, 1.0], None, 0.25),
    "far from 0 and 1": ([0.5] * 16, None, 0.125),
    "tiny": ([0.0, 1e-300, 0.5, 1.0], None, EPS),
    "counts": ([0.0, 1.0, 0.0, 1.0], [4.0, 4.0, 4.0, 4.0], 0.125),
    "sampling weights": ([0.0, 1.0, 0.0, 1.0], [0.5, 0.5, 1.5, 1.5], 0.5 / np.sqrt(4**2 / 5)),
    "weights of zero": ([0.0, 1.0, 0.0, 1.0, 1e-3], [1.0, 1.0, 1.0, 1.0, 0.0], 0.25),
}
BINARY = {
    **SEVERAL,
    "Platt": calibrators.PlattCalibrator(),
    "modified Platt": calibrators.ModifiedPlattCalibrator(),
    "beta": calibrators.BetaCalibrator(),
}


@pytest.mark.parametrize("name", BINARY)
def test_limit_of_two_classes(name):
    for kind, (p, weight, limit) in TWO.items():
        calibrator = BINARY[name].fit(p, (np.arange(len(p)) // 2 + np.arange(len(p))) % 2, weight)
        assert calibrator.min_proba_ == pytest.approx(limit, rel=1e-15), kind
        # new scores are clipped, too
        ends = calibrator.transform([0.0, limit / 2, limit, 1 - limit, 1 - limit / 2, 1.0])
        np.testing.assert_allclose(ends, ends[[2, 2, 2, 3, 3, 3]], rtol=1e-12, err_msg=kind)


@pytest.mark.parametrize("name", BINARY)
def test_fit_is_that_of_clipped_scores_and_of_repeated_ones(name):
    rng = np.random.default_rng(0)
    p = rng.binomial(10, rng.random(200)) / 10
    y = rng.random(200) < 0.2 + 0.6 * p
    calibrator = BINARY[name].fit(p, y)
    found, floor = calibrator.transform(p), calibrator.min_proba_
    clipped = clone(calibrator).fit(np.clip(p, floor, 1 - floor), y).transform(p)
    # a target of beta calibration is a mean with the score
    np.testing.assert_allclose(clipped, found, atol=1e-3 if name == "beta" else 1e-10)
    counted = clone(calibrator).fit(p, y, np.full(200, 2.0))
    repeated = clone(calibrator).fit(np.tile(p, 2), np.tile(y, 2))
    assert counted.min_proba_ == repeated.min_proba_ < floor
    np.testing.assert_allclose(counted.transform(p), repeated.transform(p), atol=1e-10)
