"""The two-step procedure: division of the rows, what is measured, when a map is dropped, what is promised.

Long because every part of the procedure has its own plain reference.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.certificate_coverage import TRUTHS
from sklearn_calib.calibrators import BaseCalibrator, CertifiedCalibrator, IsotonicCalibrator, PlattCalibrator
from sklearn_calib.metrics import cutoff_result
from tests._references import cutoff_by_enumeration

METHODS = ("asymptotic", "dkw", "paper")


class Keeper(BaseCalibrator):
    """Remembers what it was given and maps every score to ``value``, or to itself."""

    def __init__(self, value=None):
        self.value = value

    def _score_kind(self):
        return "probability"

    def _fit_scores(self, scores, codes, weight):
        self.given_ = scores.copy(), codes.copy(), weight

    def _map_scores(self, scores):
        return scores if self.value is None else np.full(scores.shape, float(self.value))


def sample(n=400, power=1.0, seed=0, digits=1):
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(n), digits)
    return p, (rng.random(n) < p**power).astype(int)


def table(scores, y, weight=None):
    """Return the counts of each pair of score and class."""
    weight = np.ones(len(y), dtype=int) if weight is None else np.asarray(weight)
    keys = sorted({(s, c) for s, c in zip(scores, y, strict=True)})
    return {key: int(weight[(scores == key[0]) & (y == key[1])].sum()) for key in keys}


@pytest.mark.parametrize("stratify", [True, False])
@pytest.mark.parametrize("test_size", [0.5, 0.3])
def test_rows_are_divided_and_the_other_part_measures(stratify, test_size):
    p, y = sample()
    calibrator = CertifiedCalibrator(Keeper(), test_size=test_size, stratify=stratify, random_state=0).fit(
        p, y
    )
    X, labels, weight = calibrator.calibrator_.given_
    assert weight is None
    fitted, everything = table(X, labels), table(p, y)
    left = {key: everything[key] - fitted.get(key, 0) for key in everything}
    assert min(left.values()) >= 0
    size = sum(left.values())
    assert size == calibrator.certified_size_ == pytest.approx(400 * test_size, abs=1)
    positives = sum(count for (_, c), count in left.items() if c == 1)
    assert calibrator.certified_event_rate_ == positives / size
    if stratify:
        assert positives == round(test_size * y.sum())
    scores, classes = np.array(list(left)).T
    expected = cutoff_by_enumeration(classes, scores, np.array(list(left.values())))
    assert calibrator.cutoff_error_ == pytest.approx(expected, abs=1e-14)
    assert calibrator.mean_ == pytest.approx(y.mean(), rel=1e-14)


def test_weights_are_counts_that_are_divided():
    p, y = sample(60)
    w = np.random.default_rng(1).integers(0, 5, 60)
    weighted = CertifiedCalibrator(Keeper(), random_state=0).fit(p, y, w)
    # the same rows in the same order, hence the same draw
    repeated = CertifiedCalibrator(Keeper(), random_state=0).fit(np.repeat(p, w), np.repeat(y, w))
    X, labels, counts = weighted.calibrator_.given_
    again, others, _ = repeated.calibrator_.given_
    assert counts is None
    assert table(X, labels) == table(again, others)
    fitted = table(X, labels)
    assert any(0 < fitted.get(key, 0) < count for key, count in table(p, y, w).items()), "copies part"
    for name in ("cutoff_error_", "certificate_", "mean_", "certified_size_", "tolerance_"):
        assert getattr(weighted, name) == getattr(repeated, name)
    with pytest.raises(ValueError, match="sample_weight must contain whole numbers"):
        CertifiedCalibrator().fit(p, y, w + 0.5)
    with pytest.raises(ValueError, match="sample_weight sums to 2000000000"):
        CertifiedCalibrator().fit([0.1, 0.2], [0, 1], [10**9, 10**9])


def test_acceptance_is_a_comparison_with_the_tolerance():
    p, y = sample()
    error = CertifiedCalibrator(Keeper(0.4), random_state=0).fit(p, y).cutoff_error_
    assert error > 0
    for tolerance, accepted in ((error, True), (np.nextafter(error, 0), False), (0, False), (1, True)):
        calibrator = CertifiedCalibrator(Keeper(0.4), tolerance=tolerance, random_state=0).fit(p, y)
        assert calibrator.accepted_ is accepted
        np.testing.assert_array_equal(calibrator.transform(p), np.full(400, 0.4 if accepted else y.mean()))
        assert calibrator.tolerance_ == tolerance
    sharp = CertifiedCalibrator(Keeper(), confidence=0.9, random_state=0).fit(p, y)
    # half of the samples certify, with the same event rate
    assert sharp.tolerance_ == pytest.approx(math.sqrt(2) * cutoff_result(y, p).margin(0.9))
    paper = CertifiedCalibrator(Keeper(), tolerance="paper", confidence=0.9, random_state=0).fit(p, y)
    expected = (20 + math.sqrt(2 * math.log(20))) / math.sqrt(paper.certified_size_)
    assert paper.tolerance_ == pytest.approx(expected)


@pytest.mark.parametrize("method", METHODS)
def test_certificate_is_error_and_margin(method):
    p, y = sample(100_000)
    kept = CertifiedCalibrator(Keeper(), method=method, confidence=0.9, random_state=0).fit(p, y)
    assert kept.accepted_
    margin = math.sqrt(2) * cutoff_result(y, p).margin(0.9, method)
    assert kept.margin_ == pytest.approx(margin)
    assert kept.certificate_ == pytest.approx(kept.cutoff_error_ + margin)
    dropped = CertifiedCalibrator(
        Keeper(0.9), test_size=0.5, stratify=False, method=method, random_state=0
    ).fit(p, y)
    assert not dropped.accepted_
    margin = math.sqrt(2) * cutoff_result(y, p).margin(0.95, method)
    gap = abs(y.mean() - dropped.certified_event_rate_)
    assert gap > 1e-5
    assert dropped.certificate_ == pytest.approx(gap + margin / 2)
    for calibrator in (kept, dropped):
        assert calibrator.cutoff_certificate(0.99, method).upper > calibrator.certificate_
        same = calibrator.cutoff_certificate(calibrator.confidence, method).upper
        assert same == calibrator.certificate_
    assert CertifiedCalibrator(Keeper(), method="paper", random_state=0).fit(p[:60], y[:60]).certificate_ == 1


def test_platt_is_dropped_where_no_curve_is_right():
    """Figure 4 of the paper: the error stays, whatever the number of rows."""
    truth = TRUTHS["four atoms"]
    scores, y = truth.draw(20_000, np.random.default_rng(0))
    calibrator = CertifiedCalibrator(PlattCalibrator(link="identity"), random_state=0).fit(scores, y)
    assert not calibrator.accepted_
    assert calibrator.cutoff_error_ == pytest.approx(0.243, abs=0.01)
    np.testing.assert_array_equal(calibrator.transform(scores), y.mean())
    # while maps that may turn are kept, and keep the information
    tree = CertifiedCalibrator(DecisionTreeClassifier(), random_state=0).fit(scores, y)
    assert tree.accepted_
    np.testing.assert_array_equal(tree.transform(truth.score), truth.event)
    # so few rows refute nothing
    assert (
        CertifiedCalibrator(PlattCalibrator(link="identity"), random_state=0)
        .fit(scores[:100], y[:100])
        .accepted_
    )


def error_in_the_population(truth, calibrator):
    mapped = calibrator.transform(truth.score)
    value, cell = np.unique(mapped, return_inverse=True)
    residual = np.bincount(cell, weights=truth.mass * (truth.event - mapped), minlength=value.size)
    walk = np.concatenate([[0.0], np.cumsum(residual)])
    return walk.max() - walk.min()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "calibrator",
    [IsotonicCalibrator(), PlattCalibrator(link="identity"), KNeighborsClassifier(15), "passthrough"],
    ids=repr,
)
@pytest.mark.parametrize("stratify", [True, False])
def test_certificates_hold_as_often_as_they_say(calibrator, stratify):
    """At 80 % confidence; nearest neighbours give a map that goes up and down."""
    repetitions, confidence = 30, 0.8
    lowest = binom.ppf(1e-5, repetitions, confidence)
    rng = np.random.default_rng(2)
    for name in ("calibrated", "over-confident", "wave", "reversed", "four atoms", "atoms, rare"):
        truth, held, kept = TRUTHS[name], np.zeros(3), []
        for _ in range(repetitions):
            fitted = CertifiedCalibrator(calibrator, stratify=stratify, random_state=rng)
            fitted.fit(*truth.draw(300, rng))
            bounds = [fitted.cutoff_certificate(confidence, method).upper for method in METHODS]
            held += error_in_the_population(truth, fitted) <= np.array(bounds) + 1e-12
            kept.append(fitted.accepted_)
        assert (held >= lowest).all(), name
        if calibrator == "passthrough":
            assert np.mean(kept) == (name not in ("reversed", "four atoms")), name


def test_a_part_without_one_class_gives_the_mean():
    p, y = np.linspace(0.1, 0.9, 40), np.arange(40) == 39
    seen = set()
    for seed in range(20):
        calibrator = CertifiedCalibrator(stratify=False, method="asymptotic", random_state=seed).fit(p, y)
        seen.add(calibrator.calibrator_ is None)
        if calibrator.calibrator_ is None:
            assert not calibrator.accepted_
            assert math.isnan(calibrator.cutoff_error_)
            np.testing.assert_array_equal(calibrator.transform(p), 1 / 40)
            expected = abs(1 / 40 - 1 / 20) + calibrator.margin_ / 2
            assert calibrator.certificate_ == pytest.approx(expected)
            # without an event, the limit 3 / 20 of the rule of three
            fitted = clone(calibrator).set_params(method="fitted").fit(p, y)
            assert 3 / 20 < fitted.certificate_ < 0.6
        assert CertifiedCalibrator(random_state=seed).fit(p, y).calibrator_ is not None
    assert seen == {True, False}


def test_what_is_fixed_is_certified_by_all_rows():
    p, y = sample(300)
    labels = np.where(y == 1, "yes", "no")
    frozen = FrozenEstimator(IsotonicCalibrator().fit(*sample(500, seed=9))).estimator
    plain = CertifiedCalibrator("passthrough", tolerance=1.0).fit(p, labels)
    np.testing.assert_array_equal(plain.transform(p), p)
    assert plain.certified_size_ == 300
    assert plain.cutoff_error_ == pytest.approx(cutoff_by_enumeration(y, p, np.ones(300)), abs=1e-14)
    with pytest.raises(ValueError, match="Pass probabilities"):
        CertifiedCalibrator("passthrough").fit(p * 3, y)
    kept = CertifiedCalibrator(FrozenEstimator(frozen), tolerance=1.0).fit(p, y)
    assert kept.certified_size_ == 300
    np.testing.assert_array_equal(kept.transform(p), frozen.transform(p))
    np.testing.assert_array_equal(kept.calibrator_.estimator.y_thresholds_, frozen.y_thresholds_)
    with pytest.raises(ValueError, match="fitted to the classes"):
        CertifiedCalibrator(FrozenEstimator(frozen)).fit(p, labels)
    with pytest.raises(NotFittedError):
        CertifiedCalibrator(FrozenEstimator(IsotonicCalibrator())).fit(p, y)
    with pytest.raises(ValueError, match="outside"):
        CertifiedCalibrator(FrozenEstimator(PlattCalibrator().fit(p, y))).fit(p * 3, y)


@pytest.mark.parametrize("model", [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(max_depth=2)])
def test_any_classifier_of_one_score(model):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=500)
    y = np.where(rng.random(500) < 1 / (1 + np.exp(-scores)), "b", "a")
    calibrator = CertifiedCalibrator(model, random_state=0).fit(scores, y)
    assert calibrator.accepted_
    expected = calibrator.calibrator_.predict_proba(scores[:, None])[:, 1]
    np.testing.assert_array_equal(calibrator.transform(scores), expected)
    weighted = CertifiedCalibrator(model, random_state=0).fit(scores, y, np.full(500, 2))
    assert weighted.certified_size_ == pytest.approx(500, abs=1)
