"""How far down the logarithms of tiny probabilities of several classes are believed."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from sklearn_calib.calibrators import (
    DirichletCalibrator,
    MatrixScalingCalibrator,
    StructuredMatrixScalingCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
)

EPS = 2.0**-53
SEVERAL = {
    "temperature": TemperatureCalibrator(),
    "vector": VectorScalingCalibrator(penalty=0.01),
    "matrix": MatrixScalingCalibrator(penalty=0.01),
    "structured matrix": StructuredMatrixScalingCalibrator(penalty=0.01),
    "dirichlet": DirichletCalibrator(penalty=0.01),
}


def chosen(proba, codes, weight=None):
    return TemperatureCalibrator().fit(proba, codes, weight).min_proba_


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
    votes = np.array([rng.multinomial(trees, row) for row in truth])
    return votes / trees, draw(truth, rng), truth


def loss_of_temperature(proba, codes, weight, floor):
    """Least sum of log losses of temperature scaling, by a search without derivatives."""
    logs = np.log(np.maximum(proba, floor))
    rows = np.arange(len(codes))

    def loss(theta):
        z = np.exp(theta) * logs
        return float(weight @ (logsumexp(z, axis=1) - z[rows, codes]))

    found = minimize_scalar(loss, bracket=(-8.0, 0.0), tol=1e-10)
    return min(found.fun, *(loss(theta) for theta in np.linspace(-12, 4, 65)))


def chosen_plainly(proba, codes, weight):
    positive = proba[proba >= 2.0**-1022].min()
    zeros = (proba < 2.0**-1022).any()
    lowest = min(positive, EPS)
    floors = {lowest} | {2.0 ** -(53 * 2**j) for j in range(5) if 2.0 ** -(53 * 2**j) > lowest}
    floors |= {positive} if zeros else set()
    price = {floor: float(floor > lowest) for floor in floors}
    return min(sorted(floors), key=lambda f: loss_of_temperature(proba, codes, weight, f) + price[f])


def wildly_wrong():
    proba, codes, _ = exaggerated(30.0, 400)
    wrong = softmax(np.tile([[0.0, -600.0, -650.0]], (5, 1)))
    return np.vstack([proba, wrong]), np.append(codes, [2, 2, 2, 2, 2])


CASES = {
    "exaggerated, 30": (lambda: exaggerated(30.0, 400), True),
    "exaggerated, 200": (lambda: exaggerated(200.0, 400), False),
    "a few wildly wrong": (wildly_wrong, True),
    "forest of ten": (lambda: forest(10, 300), False),
    "forest of a thousand": (lambda: forest(1000, 300), True),
}


@pytest.mark.parametrize(("draw_case", "weighted"), CASES.values(), ids=CASES)
def test_the_floor_is_that_of_a_plain_search(draw_case, weighted):
    proba, codes, *_ = draw_case()
    weight = np.random.default_rng(1).integers(1, 4, len(codes)).astype(float)
    expected = chosen_plainly(proba, codes, weight if weighted else np.ones(len(codes)))
    assert chosen(proba, codes, weight if weighted else None) == expected


def test_nothing_tiny_nothing_chosen():
    proba = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 50)
    assert chosen(proba, np.arange(50) % 3) == EPS


@pytest.mark.parametrize("name", SEVERAL)
def test_exaggeration_is_undone(name):
    """Believing nothing below 2**-53 cannot bring the truth back, as a third of the order is lost."""
    proba, codes, truth = exaggerated(60.0)
    found = SEVERAL[name].fit(proba, codes).predict_proba(proba)
    assert np.abs(found - truth).mean() < 0.03
    cut = np.maximum(proba, EPS)
    cut /= cut.sum(axis=1, keepdims=True)
    assert np.abs(SEVERAL[name].fit(cut, codes).predict_proba(cut) - truth).mean() > 0.06


@pytest.mark.parametrize("name", SEVERAL)
def test_zero_votes_are_not_impossible(name):
    proba, codes, truth = forest(10)
    calibrator = SEVERAL[name].fit(proba, codes)
    found = calibrator.predict_proba(proba)
    assert calibrator.min_proba_ == 0.1
    assert found[proba == 0.0].min() > 1e-3
    # less than what the fit knows is read as the least that it knows
    np.testing.assert_array_equal(
        calibrator.predict_proba([[0.0, 0.01, 0.99]]), calibrator.predict_proba([[0.01, 0.0, 0.99]])
    )
    assert np.mean(np.square(found - truth)) < np.mean(np.square(proba - truth))


def test_floor_belongs_to_probabilities_of_several_classes():
    proba, codes, _ = exaggerated(30.0, n=200)
    calibrator = TemperatureCalibrator().fit(proba, codes)
    assert calibrator.min_proba_ < EPS
    assert not hasattr(calibrator.fit([0.1, 0.4, 0.6], [0, 1, 1]), "min_proba_")
    assert not hasattr(TemperatureCalibrator(link="identity").fit(np.log(proba), codes), "min_proba_")
