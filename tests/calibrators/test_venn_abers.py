"""Venn-Abers calibration against isotonic regression fitted anew for every test score and label."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from sklearn_calib.calibrators import OneVsRestCalibrator, PlattCalibrator, VennAbersCalibrator


def brute_force(scores, y, w, test):
    """The two fits at each test score, each to the training rows and one more."""
    found = []
    for s in test:
        distinct, place = np.unique(np.append(scores, s), return_inverse=True)
        weight, pair = np.bincount(place, np.append(w, 1.0)), []
        for label in (0, 1):
            events = np.bincount(place, np.append(w * y, label))
            pair.append(isotonic_regression(events / weight, weights=weight).x[distinct == s][0])
        found.append(pair)
    return np.array(found).T


def places(scores):
    """Every training score, a point in every gap, and one beyond either end."""
    distinct = np.unique(scores)
    return np.r_[distinct[0] - 1, distinct, (distinct[1:] + distinct[:-1]) / 2, distinct[-1] + 1]


def sample(name, n, rng):
    s = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * s))).astype(int)
    if name == "ties":
        s = np.round(s * 3)
    elif name == "separated":
        y = (s > 0.3).astype(int)
    elif name == "reversed":
        y = (s < 0.3).astype(int)
    elif name == "noise":
        y = rng.integers(0, 2, n)
    y[:2] = [0, 1]
    return s, y


@pytest.mark.parametrize(
    ("name", "weights"),
    [("plain", "none"), ("plain", "real"), ("ties", "counts"), ("ties", "real"), ("separated", "none"),
     ("reversed", "counts"), ("noise", "real"), ("plain", "of many orders")],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_agrees_with_fitting_anew(name, weights):
    rng = np.random.default_rng(0)
    s, y = sample(name, 200, rng)
    w = {
        "none": np.ones(200),
        "counts": rng.integers(1, 5, 200) * 1.0,
        "real": rng.random(200),
        "of many orders": 10.0 ** rng.uniform(-3, 6, 200),
    }[weights]
    test = places(s)
    found = VennAbersCalibrator().fit(s, y, None if weights == "none" else w).predict_interval(test)
    np.testing.assert_allclose(found, brute_force(s, y, w, test), rtol=0, atol=1e-11)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_merged_probability_has_the_least_regret(loss):
    """The two regrets are equal at the merged value, so that moving it makes one of them worse."""
    s, y = sample("plain", 60, np.random.default_rng(3))
    # between the ends, where a regret may be infinite
    test = np.linspace(-0.5, 0.5, 20)
    calibrator = VennAbersCalibrator(loss=loss).fit(s, y)
    (lower, upper), p = calibrator.predict_interval(test), calibrator.transform(test)

    def regret(q):
        if loss == "log":
            return np.maximum(np.log(upper / q), np.log((1 - lower) / (1 - q)))
        return np.maximum((1 - q) ** 2 - (1 - upper) ** 2, q**2 - lower**2)

    best = np.min([regret(q) for q in np.linspace(1e-4, 1 - 1e-4, 4000)], axis=0)
    assert (regret(p) <= best + 1e-12).all()
    assert (regret(p) >= best - 1e-3).all()
    assert ((lower < p) & (p < upper)).all()


def test_steps_are_kept_once():
    s, y = sample("plain", 20_000, np.random.default_rng(4))
    calibrator = VennAbersCalibrator().fit(s, y)
    for side in ("lower", "upper"):
        thresholds, values = (getattr(calibrator, f"{side}_{what}_") for what in ("thresholds", "values"))
        assert values.shape[0] == thresholds.shape[0] + 1
        assert (np.diff(thresholds) > 0).all()
        assert (np.diff(values) > 0).all()
    with pytest.raises(ValueError, match="X contains NaN"):
        calibrator.predict_interval([np.nan])


def test_pairs_of_each_class_against_the_rest():
    rng = np.random.default_rng(3)
    proba, new = rng.dirichlet(np.ones(3), 40), rng.dirichlet(np.ones(3), 7)
    y, weight = np.arange(40) % 3, rng.integers(1, 4, 40).astype(float)
    calibrator = OneVsRestCalibrator(VennAbersCalibrator()).fit(proba, np.array(["a", "b", "c"])[y], weight)
    lower, upper = calibrator.predict_interval(new)
    assert lower.shape == upper.shape == (7, 3)
    for k in range(3):
        expected = brute_force(proba[:, k], (y == k).astype(float), weight, new[:, k])
        np.testing.assert_allclose([lower[:, k], upper[:, k]], expected, rtol=0, atol=1e-12)
    # the merged probabilities are between them, before they are divided by their sum
    merged = upper / (1.0 - lower + upper)
    found = calibrator.predict_proba(new)
    np.testing.assert_allclose(found, merged / merged.sum(axis=1, keepdims=True), rtol=0, atol=1e-12)
    # of two classes the pair is that of the second
    two = OneVsRestCalibrator(VennAbersCalibrator()).fit(proba[:, 1], y == 1)
    single = VennAbersCalibrator().fit(proba[:, 1], y == 1)
    np.testing.assert_array_equal(two.predict_interval(new[:, 1]), single.predict_interval(new[:, 1]))
    # nothing is known of a class without a sample
    with pytest.warns(UserWarning, match="no sample of class 2"):
        calibrator.fit(proba[y < 2], y[y < 2], classes=[0, 1, 2])
    lower, upper = calibrator.predict_interval(new)
    assert (lower[:, 2] == 0).all()
    assert (upper[:, 2] == 1).all()
    assert not hasattr(OneVsRestCalibrator(PlattCalibrator()), "predict_interval")
