"""Vector, matrix, structured matrix and Dirichlet calibration against their plain definitions.

Long because the four share the definitions, the plain cross-validation and every property.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from sklearn_calib import calibrators as cal
from sklearn_calib.calibrators import _affine, _softmax

EPS = 2.0**-53

#: Those whose penalty "auto" is chosen by cross-validation.
CHOSEN = [cal.VectorScalingCalibrator, cal.MatrixScalingCalibrator, cal.DirichletCalibrator]
ALL = [*CHOSEN, cal.StructuredMatrixScalingCalibrator]


def distorted(n, k, rng, spread=0.5):
    """Probabilities, and labels drawn after a linear map of their logarithms with an offset."""
    z = 1.5 * rng.normal(size=(n, k))
    slopes = 0.7 * np.eye(k) + spread * rng.normal(size=(k, k)) / k
    true = softmax(z @ slopes + rng.normal(size=k) / 2, axis=1)
    y = (true.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    y[:k] = np.arange(k)
    return softmax(z, axis=1), y


@pytest.fixture
def data():
    rng = np.random.default_rng(2)
    p, y = distorted(120, 3, rng)
    return p, y, rng.integers(1, 4, 120).astype(float)


def plain_loss(w_matrix, b, x, y, w):
    return -w @ log_softmax(x @ w_matrix.T + b, axis=1)[np.arange(len(y)), y]


def centered_logs(p):
    z = np.log(np.maximum(p, EPS))
    return z - z.mean(axis=1, keepdims=True)


def definition(name, p, y, w):
    """Objective of (V, b), the map of V, b to probabilities, and which parameters there are."""
    k, n = p.shape[1], w.sum()
    beta = 1 / cal.TemperatureCalibrator().fit(p, y, w).temperature_
    eye, x = np.eye(k), beta * centered_logs(p)
    off, anchor = 1 - eye, eye
    # the factors of the squares of the diagonal, of the other elements and of the intercepts
    factors = {
        "vector": (0.3 * k / 2, 0.0, 0.3 * k / 2),
        "matrix": (0.3 * k / 2, 5 * 0.3 * k / 2, 0.3 * k / 2),
        "structured": (0.3 * k, 0.3 * k * (k - 1), 0.3 * k),
        "odir": (0.0, n * 0.3 / (k * (k - 1)), n * 0.3 / k),
        "odir_diagonal": (k + n * 0.6 / (k**3 * (k - 1)), n * 0.3 / (k * (k - 1)), n * 0.3 / k),
    }[name]
    free = eye if name == "vector" else eye + off
    if name == "structured":
        x = centered_logs(n / (n + 1) * softmax(x, axis=1) + 1 / ((n + 1) * k))
    elif name.startswith("odir"):
        anchor, x = (beta if name == "odir_diagonal" else 0) * eye, np.log(p)

    def unpack(theta):
        v = np.zeros((k, k))
        v[free > 0] = theta[:-k]
        return v, theta[-k:]

    def objective(theta):
        v, b = unpack(theta)
        squares = (v**2 * eye).sum(), (v**2 * off).sum(), b @ b
        return plain_loss(anchor + v, b, x, y, w) + np.dot(factors, squares)

    def proba(theta):
        v, b = unpack(theta)
        return softmax(x @ (anchor + v).T + b, axis=1)

    return objective, proba, int(free.sum()) + k


MAKERS = {
    "vector": lambda: cal.VectorScalingCalibrator(penalty=0.3),
    "matrix": lambda: cal.MatrixScalingCalibrator(penalty=0.3, off_diagonal_ratio=5.0),
    "structured": lambda: cal.StructuredMatrixScalingCalibrator(penalty=0.3),
    "odir": lambda: cal.DirichletCalibrator(penalty=0.3, diagonal_penalty=0.0),
    "odir_diagonal": lambda: cal.DirichletCalibrator(penalty=0.3, diagonal_penalty=2.0),
}


@pytest.mark.parametrize("name", MAKERS)
def test_is_the_minimum_of_the_plain_definition(name, data):
    p, y, w = (array[:40] for array in data)
    objective, proba, size = definition(name, p, y, w)
    best = minimize(objective, np.zeros(size), method="BFGS", options={"gtol": 1e-4})
    calibrator = MAKERS[name]().fit(p, y, w)
    np.testing.assert_allclose(calibrator.predict_proba(p), proba(best.x), rtol=0, atol=2e-5)
    assert calibrator.n_iter_ < 15


@pytest.mark.parametrize("make", ALL)
def test_logits_are_log_probabilities_up_to_a_shift(make, data):
    p, y, w = data
    shifted = np.log(p) + np.random.default_rng(0).normal(size=(120, 1))
    found = make(link="identity").fit(shifted, y, w).predict_proba(shifted)
    np.testing.assert_allclose(found, make().fit(p, y, w).predict_proba(p), atol=1e-8)


def plain_cross_validation(make, path, p, y, w):
    """Log losses of rows left out, in folds dealt out by the sorted values of the distinct rows."""
    keys = [(*(-np.sort(-z)).round(8), z[k].round(8)) for z, k in zip(centered_logs(p), y, strict=True)]
    rank = {key: i for i, key in enumerate(sorted(set(keys)))}
    total = {key: sum(v for other, v in zip(keys, w, strict=True) if other == key) for key in rank}
    columns, counts = [], []
    for f in range(3):
        share = np.array([1 / 3 if total[key] >= 3 else float(rank[key] % 3 == f) for key in keys])
        rest, out = share < 1, share > 0
        counts.append((w * share)[out])
        column = []
        for penalty in path:
            q = make(penalty=penalty).fit(p[rest], y[rest], (w * (1 - share))[rest]).predict_proba(p[out])
            column.append(-np.log(q[np.arange(out.sum()), y[out]]))
        columns.append(column)
    return np.concatenate(columns, axis=1), np.concatenate(counts)


def least_penalty(make, k, n):
    return 2500 * k**2 * (k - 1) / n**2 if make is cal.DirichletCalibrator else 500 / n


@pytest.mark.parametrize("make", [CHOSEN[0], pytest.param(CHOSEN[1], marks=pytest.mark.thorough), CHOSEN[2]])
def test_the_penalty_is_chosen_by_cross_validation(make, monkeypatch):
    rng = np.random.default_rng(0)
    p, y = distorted(200, 3, rng, spread=1.5)
    w = rng.integers(1, 4, 200).astype(float)
    n = w.sum()
    path = [least_penalty(make, 3, n) * 10.0**power for power in (5, 4, 3, 2, 1, 0)]
    chosen = make(penalty="auto").fit(p, y, w)
    final = chosen.predict_proba(p)
    expected = make(penalty=chosen.penalty_).fit(p, y, w).predict_proba(p)
    np.testing.assert_allclose(final, expected, rtol=0, atol=1e-14)
    beta = 1 / cal.TemperatureCalibrator().fit(p, y, w).temperature_
    # the folds share the temperature of all rows
    monkeypatch.setattr(_affine, "fit_inverse_temperature", lambda *_: beta)
    losses, counts = plain_cross_validation(make, path, p, y, w)
    near = path[(losses @ counts).argmin()]
    path = sorted({*path, *(v for v in (near * 10**0.5, near / 10**0.5) if v > path[-1])}, reverse=True)
    losses, w = plain_cross_validation(make, path, p, y, w)
    means = losses @ w / n
    best, found = means.argmin(), path.index(pytest.approx(chosen.penalty_))
    assert means[best] < 0.995 * means[0]
    assert 0 < found <= best

    def error(i):
        return math.sqrt((w * (losses[i] - losses[best] - means[i] + means[best]) ** 2).sum()) / n

    # the greatest that is within half a standard error; the choice rests on solutions that are not polished
    assert means[found] - means[best] <= 0.5 * error(found) + 1e-6
    assert means[found - 1] - means[best] > 0.5 * error(found - 1) - 1e-6


@pytest.mark.parametrize("make", CHOSEN)
@pytest.mark.parametrize(("k", "n"), [(5, 30), pytest.param(40, 200, marks=pytest.mark.thorough)])
@pytest.mark.filterwarnings("ignore:y has no sample of class")
def test_few_rows_leave_about_temperature_scaling(make, k, n):
    """Forecasts that lack a temperature and nothing else: what is fitted to noise must stay small."""
    rng = np.random.default_rng(k)
    z = 2.0 * rng.normal(size=(n + 4000, k))
    y = (softmax(z / 2, axis=1).cumsum(axis=1) > rng.random((n + 4000, 1))).argmax(axis=1)
    y[:k] = np.arange(k)
    p, fit, rest = softmax(z, axis=1), slice(None, n), slice(n, None)
    # two classes are known by name alone
    w = np.where(y[fit] < 2, 0.0, 1.0)

    def loss(calibrator):
        q = calibrator.fit(p[fit], y[fit], w).predict_proba(p[rest])
        np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-12)
        return -np.log(q[np.arange(4000), y[rest]]).mean()

    assert loss(make(penalty="auto")) < loss(cal.TemperatureCalibrator()) + 0.02
    assert loss(make(penalty=least_penalty(make, k, n) / 1000)) > loss(cal.TemperatureCalibrator()) + 0.1


@pytest.mark.parametrize("make", CHOSEN)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_the_training_loss_is_never_above_that_of_temperature_scaling(make, seed):
    p, y = distorted(40 if seed else 400, 4, np.random.default_rng(seed), spread=1.0)
    temperature = log_loss(y, cal.TemperatureCalibrator().fit(p, y).predict_proba(p))
    assert log_loss(y, make().fit(p, y).predict_proba(p)) <= temperature + 1e-12
    assert temperature <= log_loss(y, p) + 1e-12


def test_more_classes_than_blocks_take_the_diagonal(monkeypatch, data):
    p, y, w = data
    expected = cal.MatrixScalingCalibrator().fit(p, y, w).predict_proba(p)
    monkeypatch.setattr(_softmax, "_MAX_BLOCKS", 2)
    found = cal.MatrixScalingCalibrator().fit(p, y, w).predict_proba(p)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_says_when_it_did_not_converge(monkeypatch, data):
    monkeypatch.setattr(_softmax, "_MAX_NEWTON", 1)
    with pytest.warns(ConvergenceWarning, match="MatrixScalingCalibrator did not converge in 1 Newton steps"):
        cal.MatrixScalingCalibrator().fit(*data)


@pytest.mark.parametrize(
    ("calibrator", "factor", "link"),
    [(cal.VectorScalingCalibrator, 0.3, "identity"), (cal.VectorScalingCalibrator, 3.0, "logit"),
     (cal.MatrixScalingCalibrator, 3.0, "identity"), (cal.MatrixScalingCalibrator, 0.3, "logit"),
     (cal.StructuredMatrixScalingCalibrator, 1.0, "logit"),
     (cal.StructuredMatrixScalingCalibrator, 1.0, "identity"),
     # the posterior has two modes
     (cal.VectorScalingCalibrator, 0.005, "logit")],
)  # fmt: skip
def test_shrunk_temperature_is_that_of_the_posterior(calibrator, factor, link):
    rng = np.random.default_rng(1)
    z = rng.normal(size=(25, 3)) * 2
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    y[:3] = range(3)
    z *= factor
    w = rng.integers(1, 3, 25).astype(float)
    square = sum(w[i] * np.mean((z[i] - z[i, y[i]]) ** 2) for i in range(25)) / w.sum()
    center = 1.0 if link == "logit" else 2 / np.sqrt(square)

    def loss(theta):
        return plain_loss(center * np.exp(theta) * np.eye(3), np.zeros(3), z, y, w)

    modes = [minimize(lambda t: loss(t[0]) + t[0] ** 2 / 2, [start], tol=1e-12) for start in (0.0, 5.0)]
    mode = min(modes, key=lambda one: one.fun).x[0]
    step = 1e-3
    bend = (loss(mode + step) - 2 * loss(mode) + loss(mode - step)) / step**2
    evidence = -loss(mode) - mode**2 / 2 - np.log(1 + bend) / 2
    share = 2 * np.exp(evidence) / (2 * np.exp(evidence) + np.exp(-loss(0.0)))
    expected = share * np.exp(mode) + 1 - share if link == "logit" else center * np.exp(mode)
    found = calibrator(link=link, shrink_temperature=True)
    found.fit(z if link == "identity" else softmax(z, axis=1), y, w)
    assert 1 / found.temperature_ == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_shrunk_temperature_of_logits_in_any_unit(size):
    rng = np.random.default_rng(1)
    z = rng.normal(size=(200, 3))
    y = (3 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    found = cal.VectorScalingCalibrator(link="identity", penalty=1.0, shrink_temperature=True)
    one = clone(found).fit(z, y).predict_proba(z)
    np.testing.assert_allclose(found.fit(size * z, y).predict_proba(size * z), one, rtol=0, atol=1e-9)


@pytest.mark.parametrize("calibrator", ALL)
def test_one_kind_of_row_leaves_nothing_to_choose_by(calibrator):
    # with a prediction of 1/2 both outcomes are the same row to the folds, and none of it can be left out
    np.testing.assert_allclose(calibrator().fit([0.5, 0.5], [0, 1]).transform([0.5]), 0.5, atol=1e-6)


#: Prior standard deviations of the diagonal, the other elements (times the root of K - 1) and the intercepts.
PRIORS = [(0.05, 0.0, 1.0), (0.25, 0.0, 0.25), (0.5, 0.0, 1.0)]
PRIORS += [(0.5, 0.5, 1.0), (0.25, 0.25, 0.25), (0.5, 1.0, 1.0), (1.0, 2.0, 1.0)]


def maximum_and_log_evidence(prior, x, y, w, evidence=True):
    """Return [W, b] with a normal prior around [I, 0], and Laplace's approximation of its log evidence."""
    n, k = x.shape
    diagonal, off_diagonal, intercept = prior
    deviation = np.column_stack([np.full((k, k), off_diagonal / math.sqrt(k - 1)), np.full(k, intercept)])
    np.fill_diagonal(deviation, diagonal)
    free, start = deviation > 0, np.eye(k, k + 1)
    precision, one = deviation[free] ** -2, np.column_stack([x, np.ones(n)])

    def objective(moved):
        theta = start.copy()
        theta[free] += moved
        proba = softmax(one @ theta.T, axis=1)
        residual = w[:, np.newaxis] * (proba - np.eye(k)[y])
        value = -w @ np.log(proba[np.arange(n), y]) + precision @ moved**2 / 2
        return value, (residual.T @ one)[free] + precision * moved

    options = {"gtol": 1e-7, "ftol": 0}
    found = minimize(objective, np.zeros(free.sum()), jac=True, method="L-BFGS-B", options=options)
    theta = start.copy()
    theta[free] += found.x
    if not evidence:
        return theta
    bend = np.diag(precision)
    for i in range(n):
        proba = softmax(theta @ one[i])
        second = np.kron(np.diag(proba) - np.outer(proba, proba), np.outer(one[i], one[i]))
        bend += w[i] * second[np.ix_(free.ravel(), free.ravel())]
    return theta, -found.fun - np.log(np.linalg.det(bend / precision)) / 2


@pytest.mark.filterwarnings("ignore:y has no sample of class")
@pytest.mark.parametrize("swapped", [*(pytest.param(n, marks=pytest.mark.thorough) for n in (0, 150)), 12])
def test_maps_are_averaged_by_evidence(swapped):
    rng = np.random.default_rng(3)
    z = 2 * rng.standard_normal((150, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    y[:swapped][y[:swapped] == 0] = 1
    p, w = softmax(z, axis=1), rng.integers(1, 3, 150).astype(float)
    found = cal.StructuredMatrixScalingCalibrator(penalty="auto").fit(p, y, w, classes=[0, 1, 2])
    doubt = 0.1 / (w.sum() + 0.1)
    assert found.smoothing_ == pytest.approx(doubt)
    beta = 1 / cal.TemperatureCalibrator().fit(p, y, w, classes=[0, 1, 2]).temperature_
    x = centered_logs((1 - doubt) * softmax(beta * centered_logs(p), axis=1) + doubt / 3)
    maps, log_evidence = zip(*(maximum_and_log_evidence(prior, x, y, w) for prior in PRIORS), strict=True)
    plain = w @ np.log(softmax(x, axis=1)[np.arange(150), y])
    odds = np.append(1.0, 2 / 7 * np.exp(np.array(log_evidence) - plain))
    odds /= odds.sum()
    expected = odds[0] * np.eye(3, 4) + sum(one * part for one, part in zip(odds[1:], maps, strict=True))
    np.testing.assert_allclose(np.column_stack([found.coef_, found.intercept_]), expected, atol=1e-4)
    share = found.posterior_probability_
    assert share == pytest.approx(1 - odds[0], abs=1e-5)
    # without structure little is left of the matrix, with much of it all
    assert (share < 0.3) if swapped == 0 else (0.3 < share < 0.999) if swapped == 12 else (share > 0.999)
    assert np.isnan(found.penalty_)
    assert cal.StructuredMatrixScalingCalibrator().fit(p, y, w, classes=[0, 1, 2]).posterior_probability_ == 1


def test_maps_of_many_classes_are_averaged_by_held_out_samples():
    rng, k, n = np.random.default_rng(0), 31, 186
    y, z = np.arange(n) % k, 2 * rng.standard_normal((n, k))
    z[np.arange(n), y] += 4
    p, one = softmax(z + 0.8 * rng.standard_normal(k), axis=1), np.ones(n)
    found = cal.StructuredMatrixScalingCalibrator(penalty="auto").fit(p, y)
    doubt, beta = 0.1 / (n + 0.1), 1 / cal.TemperatureCalibrator().fit(p, y).temperature_
    x = centered_logs((1 - doubt) * softmax(beta * centered_logs(p), axis=1) + doubt / k)
    out = np.argsort(x.max(axis=1))[::3]
    rest = np.setdiff1d(np.arange(n), out)
    log_odds, maps = [0.0], [np.eye(k, k + 1)]
    plain = plain_loss(np.eye(k), np.zeros(k), x[out], y[out], one[out])
    for prior in [*PRIORS[:3], (0.5, 0.45, 1.0)]:
        part = maximum_and_log_evidence(prior, x[rest], y[rest], one[rest], evidence=False)
        loss = plain_loss(part[:, :-1], part[:, -1], x[out], y[out], one[out])
        log_odds.append(np.log(2 / 4) + plain - loss)
        maps.append(maximum_and_log_evidence(prior, x, y, one, evidence=False))
    weight = softmax(log_odds)
    assert found.posterior_probability_ == pytest.approx(1 - weight[0], abs=1e-3)
    expected = np.tensordot(weight, maps, 1)
    np.testing.assert_allclose(np.column_stack([found.coef_, found.intercept_]), expected, atol=2e-3)
