"""Correction for other class frequencies, against Bayes' formula on written joint distributions."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from sklearn_calib.calibrators import PriorShiftCalibrator, VectorScalingCalibrator
from tests._tiers import thorough, weekly

#: Probabilities of four values of a feature among non-events and among events.
OTHERS = np.array([0.5, 0.3, 0.15, 0.05])
EVENTS = np.array([0.1, 0.2, 0.3, 0.4])


def posterior(prior):
    return prior * EVENTS / (prior * EVENTS + (1 - prior) * OTHERS)


@pytest.mark.parametrize(("training", "target"), [(0.1, 0.02), (0.1, 0.5), (0.5, 0.9)])
def test_is_the_posterior_under_the_other_prior(training, target):
    calibrator = PriorShiftCalibrator(training_prior=training, target_prior=target).fit([0.2, 0.7], [0, 1])
    np.testing.assert_allclose(calibrator.transform(posterior(training)), posterior(target), rtol=1e-14)
    assert calibrator.target_prior_ == target


@pytest.mark.parametrize("rate", [0.1, 3.0])
@pytest.mark.parametrize("weights", [lambda rate: {"no": rate}, lambda rate: [rate, 1.0]])
def test_weights_undo_the_thinning_of_one_class(rate, weights):
    """Of non-events the share ``rate`` is kept, which changes the base rate from 0.2."""
    thinned = 0.2 / (0.2 + rate * 0.8)
    calibrator = PriorShiftCalibrator(training_weight=weights(rate)).fit([0.2, 0.7], classes=["no", "yes"])
    np.testing.assert_allclose(calibrator.transform(posterior(thinned)), posterior(0.2), rtol=1e-14)
    assert np.isnan(calibrator.target_prior_)
    assert calibrator.odds_factor_ == pytest.approx(rate)


#: Probabilities of four values of a feature in each of three classes (rows).
DENSITIES = np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4], [0.25, 0.05, 0.05, 0.65]])


def posteriors(prior):
    joint = np.asarray(prior)[:, np.newaxis] * DENSITIES
    return (joint / joint.sum(axis=0)).T


@pytest.mark.parametrize(
    ("parameters", "seen"),
    [
        ({"training_prior": [0.2, 0.3, 0.5]}, [0.2, 0.3, 0.5]),
        # numbers of samples
        ({"training_prior": {"a": 20, "b": 30, "c": 50}}, [0.2, 0.3, 0.5]),
        ({"training_weight": "balanced"}, [1 / 3, 1 / 3, 1 / 3]),
        ({"training_prior": [0.2, 0.3, 0.5], "training_weight": {"a": 5.0}}, [1 / 1.8, 0.3 / 1.8, 0.5 / 1.8]),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_posterior_of_three_classes_under_other_frequencies(parameters, seen, known):
    target, labels = [0.6, 0.3, 0.1], np.array(["a", "b", "c"])
    P = posteriors(seen)[[0, 1, 2, 3] * 3][:10]
    calibrator = PriorShiftCalibrator(**parameters)
    if known:
        calibrator.set_params(target_prior=dict(zip(labels, target, strict=True))).fit(P, classes=labels)
    else:
        calibrator.fit(P, labels[[0] * 6 + [1] * 3 + [2]])
        np.testing.assert_allclose(calibrator.standard_error_, np.sqrt([0.024, 0.021, 0.009]))
    np.testing.assert_allclose(calibrator.predict_proba(posteriors(seen)), posteriors(target), rtol=1e-14)
    np.testing.assert_allclose(calibrator.target_prior_, target)
    with pytest.raises(ValueError, match="A certificate needs a binary problem"):
        calibrator.cutoff_certificate()


def test_weights_of_three_classes_alone():
    weight = np.array([0.1, 1.0, 4.0])
    found = PriorShiftCalibrator(training_weight={0: 0.1, 2: 4.0}).fit(posteriors([1, 1, 1]))
    np.testing.assert_allclose(found.transform(posteriors(weight)), posteriors([1, 1, 1]), rtol=1e-14)


def draw(rng, size, prior, source):
    """Return calibrated probabilities for class frequencies ``source`` and labels with others, ``prior``."""
    centers, y = 2.0 * np.eye(len(source)), rng.choice(len(source), size, p=prior)
    odds = np.exp((centers[y] + rng.normal(size=(size, len(source)))) @ centers) * source
    return odds / odds.sum(axis=1, keepdims=True), y


# steps of the optimizer of early versions leave the bounds
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")
@pytest.mark.parametrize("n_classes", [2, 4])
def test_em_maximizes_the_likelihood(n_classes):
    rng = np.random.default_rng(n_classes)
    source = np.arange(1.0, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    P, _ = draw(rng, 200, source[::-1], source)
    w = rng.integers(0, 3, 200)

    def deviance(free):
        return -w @ np.log(P / source @ np.append(1 - free.sum(), free))

    best = minimize(
        deviance,
        np.full(n_classes - 1, 1 / n_classes),
        method="SLSQP",
        bounds=[(1e-9, 1.0)] * (n_classes - 1),
        constraints={"type": "ineq", "fun": lambda free: 1 - free.sum() - 1e-9},
        options={"ftol": 1e-15},
    ).x
    found = PriorShiftCalibrator(training_prior=source, target_prior="em").fit(P, sample_weight=w)
    np.testing.assert_allclose(np.atleast_1d(found.target_prior_)[1 - n_classes :], best, atol=1e-5)
    # second differences of the log-likelihood
    step, size = 1e-4 * np.eye(n_classes - 1), n_classes - 1
    second = np.empty((size, size))
    for i, j in np.ndindex(size, size):
        up, right = step[i], step[j]
        corners = (deviance(best + a * up + b * right) * a * b for a in (1, -1) for b in (1, -1))
        second[i, j] = sum(corners) / 4e-8
    error = np.sqrt(np.diag(np.linalg.inv(second)))
    np.testing.assert_allclose(np.atleast_1d(found.standard_error_)[1 - n_classes :], error, rtol=1e-3)


def test_em_counts_the_classes_of_certain_scores():
    certain = PriorShiftCalibrator(training_prior=[0.7, 0.2, 0.1], target_prior="em")
    certain.fit(np.eye(3), sample_weight=[3000, 5000, 2000])
    frequency = np.array([0.3, 0.5, 0.2])
    np.testing.assert_allclose(certain.target_prior_, frequency, rtol=1e-10)
    expected = np.sqrt(frequency * (1 - frequency)) / 100
    np.testing.assert_allclose(certain.standard_error_, expected, rtol=1e-10)


def test_em_standard_error_of_absent_classes():
    """The logarithm of the likelihood is 2 lower at two standard errors; (1 - 2/n)^n is about exp(-2)."""
    certain = PriorShiftCalibrator(training_prior=[0.7, 0.2, 0.1], target_prior="em")
    certain.fit(np.eye(3)[np.zeros(400, dtype=int)])
    np.testing.assert_allclose(certain.standard_error_[1:], 1 / 400, rtol=0.01)
    np.testing.assert_allclose(certain.standard_error_[0], np.sqrt(2) / 400, rtol=0.01)
    p = np.random.default_rng(0).uniform(0.0, 0.3, 100)
    found = PriorShiftCalibrator(training_prior=0.5, target_prior="em").fit(p)
    assert found.target_prior_ == pytest.approx(1 / 103)
    two, expected = 2 * found.standard_error_, np.log(2 * (1 - p)).sum() - 2
    assert np.log(2 * (1 - two) * (1 - p) + 2 * two * p).sum() == pytest.approx(expected, rel=0.01)


def test_black_box_of_classes_that_are_never_predicted():
    given = {"training_prior": 0.5, "target_prior": "black_box"}
    found = PriorShiftCalibrator(**given, confusion=[[50, 0], [0, 50]]).fit(np.full(400, 0.1))
    assert found.standard_error_ == pytest.approx(1 / 400, rel=0.01)
    # rates .52 and .50: the inverse multiplies errors by 50
    with pytest.warns(UserWarning, match="nearly singular .*condition number 50"):
        found = PriorShiftCalibrator(**given, confusion=[[52, 48], [50, 50]]).fit(np.full(400, 0.1))
    assert found.standard_error_ > 1


def test_black_box_solves_the_confusion_matrix():
    """80% of 50 events and 10% of 100 others are predicted as events, and 40 of 100 new samples."""
    given = {"target_prior": "black_box", "confusion": [[90, 10], [10, 40]]}
    found = PriorShiftCalibrator(training_prior=1 / 3, **given).fit(np.repeat([0.9, 0.2], [40, 60]))
    prior = (0.4 - 0.1) / 0.7
    assert found.target_prior_ == pytest.approx(prior)
    variance = 0.24 / 100 + prior**2 * 0.16 / 50 + (1 - prior) ** 2 * 0.09 / 100
    assert found.standard_error_ == pytest.approx(np.sqrt(variance) / 0.7)
    # never below 1 / (n + 2), before the division by the sum
    rare = PriorShiftCalibrator(training_prior=0.5, target_prior="black_box", confusion=[[9, 1], [2, 8]])
    assert rare.fit([0.1, 0.2, 0.3]).target_prior_ == pytest.approx(0.2 / 1.2)


@pytest.mark.parametrize(("n_classes", "repetitions"), [thorough(4, 25), weekly(2, 400)])
def test_two_standard_errors_cover_the_true_frequencies(n_classes, repetitions):
    """Normal features; the scores are calibrated, distorted, or calibrated again from labeled samples."""
    rng = np.random.default_rng(0)
    source = np.arange(n_classes, 0, -1.0) / np.arange(1, n_classes + 1).sum()
    truth = source[::-1]
    covered, distance = [], []
    for _ in range(repetitions):
        (P, y), (new, _) = draw(rng, 1000, source, source), draw(rng, 300, truth, source)
        parameters = {"training_prior": source, "target_prior": "em"}
        likeliest = PriorShiftCalibrator(**parameters).fit(new)
        confusion = confusion_matrix(y, P.argmax(axis=1), labels=range(n_classes))
        parameters = {"training_prior": source, "target_prior": "black_box", "confusion": confusion}
        black_box = PriorShiftCalibrator(**parameters).fit(new)
        errors = [np.atleast_1d(one.target_prior_)[-1] - truth[-1] for one in (likeliest, black_box)]
        limits = [2.0 * np.atleast_1d(one.standard_error_)[-1] for one in (likeliest, black_box)]
        covered.append(np.abs(errors) <= limits)
        distorted = P**1.7 / (P**1.7).sum(axis=1, keepdims=True)
        shifted = new**1.7 / (new**1.7).sum(axis=1, keepdims=True)
        scaling = VectorScalingCalibrator(penalty=0).fit(distorted, y)
        again = PriorShiftCalibrator(training_prior=np.bincount(y), target_prior="em")
        again.fit(scaling.transform(shifted))
        distance.append(np.atleast_1d(again.target_prior_)[-1] - truth[-1])
    # .954 for normal estimates, minus three standard deviations
    assert np.mean(covered, axis=0).min() > 0.95 - 3 * np.sqrt(0.05 * 0.95 / repetitions)
    assert abs(np.mean(distance)) < 3 * np.std(distance) / np.sqrt(repetitions) + 0.005


def test_takes_the_base_rate_of_the_labels():
    calibrator = PriorShiftCalibrator(training_prior=0.5).fit([0.2, 0.7, 0.4], [0, 1, 0], [3, 1, 4])
    assert (calibrator.target_prior_, calibrator.odds_factor_) == (1 / 8, pytest.approx(1 / 7))


@pytest.mark.parametrize(
    "parameters",
    [
        {"training_prior": 0.5, "target_prior": "em"},
        {"training_prior": 0.5, "target_prior": 0.1},
        {"training_weight": {0: 0.1}},
        {"training_prior": 0.5, "target_prior": "black_box", "confusion": [[5, 2], [3, 5]]},
    ],
    ids=str,
)
def test_labels_are_not_needed(parameters):
    rng = np.random.default_rng(1)
    p, w = np.round(rng.beta(2, 3, 200), 2), rng.integers(0, 3, 200)
    labeled = PriorShiftCalibrator(**parameters).fit(p, rng.integers(0, 2, 200), w)
    calibrator = clone(labeled).fit(p, sample_weight=w)
    np.testing.assert_array_equal(calibrator.transform(p), labeled.transform(p))
    assert calibrator.classes_.tolist() == [0, 1]
    assert not get_tags(calibrator).target_tags.required
    expected = clone(labeled).fit(p[w > 0]).transform(p[w > 0])
    np.testing.assert_array_equal(clone(labeled).fit_transform(p[w > 0]), expected)
    pipeline = make_pipeline(FunctionTransformer(), clone(labeled)).fit(p[:, np.newaxis])
    assert pipeline.predict_proba(p[:, np.newaxis]).shape == (200, 2)
    if "training_weight" in parameters:
        labeled.set_params(training_weight=[0.1, 1.0])
    named = clone(labeled).fit(np.column_stack((1 - p, p)), classes=["no", "yes"])
    assert set(named.predict(np.column_stack((1 - p, p)))) <= {"no", "yes"}
    # attributes of an earlier fit with labels are removed
    assert hasattr(labeled, "training_size_")
    assert not hasattr(labeled.fit(p), "training_size_")
    with pytest.raises(ValueError, match="A certificate needs labels"):
        labeled.cutoff_certificate()
    with pytest.raises(ValueError, match="requires y to be passed"):
        labeled.fit(p, clusters=np.arange(200) // 4)


@pytest.mark.parametrize("parameters", [{"training_prior": 0.5}, {"training_weight": "balanced"}], ids=str)
def test_labels_are_needed_for_their_frequency(parameters):
    calibrator = PriorShiftCalibrator(**parameters)
    assert get_tags(calibrator).target_tags.required
    with pytest.raises(ValueError, match=r"requires y to be passed.*Pass y, or target_prior"):
        calibrator.fit([0.2, 0.7])


def test_em_of_scores_that_say_nothing():
    flat = PriorShiftCalibrator(training_prior=[5, 3, 2], target_prior="em").fit([[0.5, 0.3, 0.2]] * 9)
    np.testing.assert_allclose(flat.target_prior_, [0.5, 0.3, 0.2], rtol=1e-5)
    assert np.isinf(flat.standard_error_).all()
