"""Simulated forecasts: the promised truth, by formula and by frequency."""

import numpy as np
import pytest
from scipy import stats

from sklearn_calib.datasets import make_discrete_forecasts, make_forecasts, make_multiclass_forecasts

DISTRIBUTIONS = ["uniform", "u_shaped", "peaked", "rare", "grid", "saturated"]
DISTORTIONS = ["none", "slope", "shift", "sine"]


def distorted(p, distortion, strength, periods):
    """The documented g(p) for one p."""
    if distortion == "none":
        return p
    if distortion == "sine":
        return min(max(p + strength * np.sin(2 * np.pi * periods * p), 0.0), 1.0)
    if p in (0.0, 1.0):
        return p
    odds = p / (1 - p)
    odds = odds**strength if distortion == "slope" else odds * np.exp(strength)
    return odds / (1 + odds)


#: Distortions with their default strengths, and with others.
DISTORTED = [("none", 0.0, {}), ("slope", 0.5, {}), ("shift", 0.5, {}), ("sine", 0.15, {})]
DISTORTED += [("slope", 2.0, {"strength": 2.0}), ("shift", -1.5, {"strength": -1.5})]
DISTORTED.append(("sine", 0.4, {"strength": 0.4, "periods": 5}))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(("distortion", "strength", "given"), DISTORTED)
def test_truth_is_the_documented_distortion(distribution, distortion, strength, given):
    data = make_forecasts(300, distribution=distribution, distortion=distortion, random_state=0, **given)
    periods = given.get("periods", 1)
    expected = [distorted(p, distortion, strength, periods) for p in data.y_proba.tolist()]
    assert distortion == "none" or f"{distortion} {strength:g}" in str(data)
    np.testing.assert_allclose(data.true_proba, expected, rtol=1e-12, atol=1e-15)
    assert data.y_proba.shape == data.y_true.shape == (300,)
    assert data.y_true.dtype == np.int64
    assert set(data.y_true.tolist()) <= {0, 1}
    assert ((data.y_proba >= 0) & (data.y_proba <= 1)).all()
    gap = np.mean([abs(a - b) for a, b in zip(expected, data.y_proba, strict=True)])
    assert data.true_ece == pytest.approx(gap)
    assert (data.true_ece == 0) is (distortion == "none")


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("distortion", DISTORTIONS)
def test_outcomes_follow_the_truth(distribution, distortion):
    data = make_forecasts(20_000, distribution=distribution, distortion=distortion, periods=3, random_state=0)
    # within twenty groups of similar truth, and in all: sums of independent Bernoulli variables
    order = np.argsort(data.true_proba, kind="stable")
    for rows in [*np.array_split(order, 20), order]:
        q = data.true_proba[rows]
        assert abs(data.y_true[rows].sum() - q.sum()) <= 4 * np.sqrt((q * (1 - q)).sum()) + 1e-9


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("uniform", stats.uniform()),
        ("u_shaped", stats.beta(0.5, 0.5)),
        ("peaked", stats.beta(5, 5)),
        ("rare", stats.beta(0.5, 24.5)),
    ],
)
def test_forecasts_follow_their_distribution(distribution, expected):
    data = make_forecasts(2000, distribution=distribution, random_state=0)
    assert stats.kstest(data.y_proba, expected.cdf).pvalue > 0.001


def test_tied_and_certain_forecasts():
    grid = make_forecasts(2000, distribution="grid", random_state=0)
    values, counts = np.unique(grid.y_proba, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(11) / 10)
    assert stats.chisquare(counts).pvalue > 0.001
    sure = make_forecasts(5000, distribution="saturated", random_state=0)
    assert stats.binomtest(int((sure.y_proba == 0).sum()), 5000, 0.3).pvalue > 0.001
    assert stats.binomtest(int((sure.y_proba == 1).sum()), 5000, 0.3).pvalue > 0.001
    # nothing impossible happens
    assert not sure.y_true[sure.true_proba == 0].any()
    assert sure.y_true[sure.true_proba == 1].all()


def test_seeds_decide_everything():
    one, other = (make_forecasts(50, random_state=seed) for seed in (3, 4))
    assert not np.array_equal(one.y_proba, other.y_proba)
    # distortions of one seed share their forecasts
    np.testing.assert_array_equal(one.y_proba, make_forecasts(50, distortion="sine", random_state=3).y_proba)


def test_bad_options():
    for make, kwargs, message in [
        (make_forecasts, {"n_samples": 0}, "n_samples must be at least 1"),
        (make_forecasts, {"n_samples": 10.0}, "n_samples must be an integer"),
        (make_forecasts, {"distribution": "normal"}, "distribution must be one of 'uniform'"),
        (make_forecasts, {"distortion": "cosine"}, "distortion must be one of 'none'"),
        (make_forecasts, {"distortion": "slope", "strength": 0}, "strength must be positive"),
        (make_forecasts, {"distortion": "sine", "strength": float("inf")}, "strength must be finite"),
        (make_forecasts, {"distortion": "shift", "strength": "1"}, "strength must be a number"),
        (make_forecasts, {"strength": 0.5}, "needs a distortion"),
        (make_forecasts, {"periods": 0}, "periods must be at least 1"),
        (make_discrete_forecasts, {"forecasts": [0.5, 0.5]}, "not distinct"),
        (make_discrete_forecasts, {"forecasts": [0.5]}, "frequencies has 2 values but forecasts has 1"),
        (make_discrete_forecasts, {"forecasts": [0.5, 1.5]}, r"forecasts contains .*1.5.* outside \[0, 1\]"),
        (make_discrete_forecasts, {"frequencies": [0, -1]}, "frequencies contains"),
        (make_discrete_forecasts, {"weights": [1, -1]}, "weights contains -1"),
        (make_discrete_forecasts, {"weights": [0, 0]}, "weights is zero everywhere"),
        (make_multiclass_forecasts, {"n_classes": 1}, "n_classes must be at least 2"),
        (make_multiclass_forecasts, {"temperature": 0}, "temperature must be positive"),
        (make_multiclass_forecasts, {"concentration": -1}, "concentration must be positive"),
    ]:
        good = {"forecasts": [0.5, 0.6], "frequencies": [0, 1]} if make is make_discrete_forecasts else {}
        with pytest.raises((TypeError, ValueError), match=message):
            make(**{"n_samples": 10, **good, **kwargs})


def test_discrete_forecasts_have_the_given_frequencies_and_shares():
    data = make_discrete_forecasts(6000, [0.9, 0.2, 0.0], [0.5, 0.25, 0.1], weights=[1, 2, 3], random_state=0)
    for forecast, frequency, share in ((0.9, 0.5, 1 / 6), (0.2, 0.25, 2 / 6), (0.0, 0.1, 3 / 6)):
        rows = data.y_proba == forecast
        assert (data.true_proba[rows] == frequency).all()
        assert stats.binomtest(int(rows.sum()), 6000, share).pvalue > 0.001
        assert stats.binomtest(int(data.y_true[rows].sum()), int(rows.sum()), frequency).pvalue > 0.001
    assert data.true_ece == pytest.approx(np.abs(data.true_proba - data.y_proba).mean())
    assert make_discrete_forecasts(5, [0.5], [1.0]).y_true.tolist() == [1] * 5
    text = str(make_forecasts(40, distortion="sine", periods=4))
    assert text.startswith("40 forecasts: uniform, sine 0.15, 4 periods\nbase rate")


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_multiclass_truth_is_the_forecast_at_another_temperature(temperature, n_classes):
    data = make_multiclass_forecasts(300, n_classes, temperature=temperature, random_state=0)
    np.testing.assert_allclose(data.y_proba.sum(axis=1), 1)
    np.testing.assert_allclose(data.true_proba.sum(axis=1), 1)
    for p, q in zip(data.y_proba, data.true_proba, strict=True):
        repaired = p ** (1 / temperature)
        np.testing.assert_allclose(repaired / repaired.sum(), q, rtol=1e-9)
    assert (data.y_true.dtype, set(data.y_true.tolist())) == (np.int64, set(range(n_classes)))


@pytest.mark.parametrize("concentration", [0.05, 1.0, 4.0])
def test_multiclass_labels_and_probabilities_follow_their_distributions(concentration):
    data = make_multiclass_forecasts(4000, 3, concentration=concentration, random_state=0)
    q = data.true_proba
    for k in range(3):
        assert stats.kstest(q[:, k], stats.beta(concentration, 2 * concentration).cdf).pvalue > 0.001
        for rows in np.array_split(np.argsort(q[:, k], kind="stable"), 5):
            spread = np.sqrt((q[rows, k] * (1 - q[rows, k])).sum())
            assert abs((data.y_true[rows] == k).sum() - q[rows, k].sum()) <= 4 * spread + 1e-2


def test_multiclass_text():
    text = str(make_multiclass_forecasts(100, 4, temperature=2.5, random_state=0))
    assert text.startswith("100 forecasts of 4 classes: temperature 2.5\naccuracy")
