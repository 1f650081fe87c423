"""Certificates: their formula, what they refuse, and how often they hold."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.certificate_coverage import CALIBRATORS as SIMULATED
from benchmarks.certificate_coverage import TRUTHS, study
from sklearn_calib._core._bounds import BOUND_METHODS, cutoff_bound
from sklearn_calib.calibrators import IsotonicCalibrator, ModifiedPlattCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificate
from sklearn_calib.metrics import cutoff_result
from tests._references import cutoff_by_enumeration
from tests._tiers import thorough, weekly
from tests.calibrators._registry import calibrators_with


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(50), np.repeat([0.0, 0.4, 1.0], 4)])
    return p, (rng.random(62) < 0.2 + 0.5 * p).astype(int), rng.integers(0, 4, 62)


@calibrators_with("monotone")
def test_training_error_is_the_cutoff_error_of_the_fitted_map(case, data):
    p, y, w = data
    for weight in (None, w):
        calibrator = case.make().fit(p, y, weight)
        expected = cutoff_by_enumeration(y, calibrator.transform(p), np.ones(62) if weight is None else w)
        assert calibrator.training_cutoff_error_ == pytest.approx(expected, abs=1e-14)


@calibrators_with("monotone")
def test_certificate_is_training_error_and_margin(case, data):
    p, y, w = data
    calibrator = case.make().fit(p, y, w * 10_000)
    n, rate = 10_000 * w.sum(), np.average(y, weights=w)
    assert calibrator.training_size_ == n
    assert calibrator.training_event_rate_ == pytest.approx(rate, rel=1e-14)
    for method, confidence in itertools.product(BOUND_METHODS, (0.5, 0.99)):
        margin = cutoff_bound(n, confidence, method, base_rate=rate, refitted=True)
        expected = calibrator.training_cutoff_error_ + margin
        found = calibrator.cutoff_certificate(confidence, method, weights="frequency").upper
        assert found == pytest.approx(expected, rel=1e-6)
    # weights that are not counts are refused
    calibrator = case.make().fit(p, y, w + 0.5)
    assert calibrator.training_size_ == pytest.approx((w + 0.5).sum() ** 2 / np.sum((w + 0.5) ** 2))
    with pytest.raises(ValueError, match="non-integer weights"):
        calibrator.cutoff_certificate(weights="frequency")


def test_a_certificate_bounds_the_distance_from_calibration():
    c = np.linspace(1e-5, 0.5, 400)
    distance = np.array([CutoffCertificate(x, 0.95, "dkw", 100).distance for x in c])
    n = np.arange(1, 1000)[:, np.newaxis]
    np.testing.assert_allclose(distance, (n * c + 0.5 / n).min(axis=0), rtol=1e-12)
    assert CutoffCertificate(1.0, 0.95, "dkw", 100).distance == 1.0
    assert CutoffCertificate(0.0, 0.95, "dkw", 100).distance == 0.0


@pytest.mark.weekly
def test_certificates_hold_as_often_as_they_say():
    """At 80 % confidence, over all truths; a share below what chance explains would refute the claim."""
    repetitions, confidence = 40, 0.8
    lowest = binom.ppf(1e-5, repetitions, confidence) / repetitions
    results = list(study([300], repetitions, confidence, seed=1))
    assert len(results) == len(TRUTHS) * (len(SIMULATED) + 2)
    for result in results:
        names = ("asymptotic", "dkw", "paper")
        holds, means = ([result[f"{what}_{name}"] for name in names] for what in ("holds", "mean"))
        assert min(holds) >= lowest, result
        assert (np.diff(means) >= 0).all()
        assert result["error"] < means[0]


@pytest.mark.parametrize("repetitions", [thorough(10), weekly(100)])
def test_certificates_hold_for_outcomes_between_0_and_1(repetitions):
    """They are conservative, but hardly larger than those of outcomes 0 and 1 with the same means."""
    rng, atoms = np.random.default_rng(5), np.arange(0.5, 20) / 20
    truth = atoms**2

    def error(mapped):
        residual = np.bincount(np.unique(mapped, return_inverse=True)[1], (truth - mapped) / 20)
        return np.ptp(np.append(0.0, np.cumsum(residual)))

    n = 60
    held, bounds = {}, {"beta": [], "binary": []}
    for _ in range(repetitions):
        p = rng.choice(atoms, n)
        mean = p**2
        binary = (rng.random(n) < mean).astype(int)
        for kind, y in (("beta", rng.beta(0.3 * mean, 0.3 * (1 - mean))), ("binary", binary)):
            for calibrator in (IsotonicCalibrator(), ModifiedPlattCalibrator()):
                actual = error(calibrator.fit(p, y).transform(atoms))
                for method in ("fitted", "asymptotic", "dkw", "paper"):
                    bound = calibrator.cutoff_certificate(0.8, method, n_resamples=39).upper
                    held.setdefault((kind, type(calibrator), method), []).append(actual <= bound)
                    if method in ("fitted", "asymptotic"):
                        bounds[kind].append(bound)
            found = cutoff_result(y, p)
            for method in ("bootstrap", "asymptotic", "dkw", "paper"):
                margin = found.margin(0.8, method, n_resamples=39)
                held.setdefault((kind, method), []).append(abs(found.value - error(atoms)) <= margin)
    assert min(map(sum, held.values())) >= binom.ppf(1e-4, repetitions, 0.8)
    assert np.mean(bounds["beta"]) == pytest.approx(np.mean(bounds["binary"]), rel=0.1)
