"""Correction for another base rate against Bayes' formula on a joint distribution that is written out."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from sklearn_calib.calibrators import PriorShiftCalibrator

#: Probabilities of four values of a feature among non-events and among events.
OTHERS = np.array([0.5, 0.3, 0.15, 0.05])
EVENTS = np.array([0.1, 0.2, 0.3, 0.4])


def posterior(prior):
    return prior * EVENTS / (prior * EVENTS + (1 - prior) * OTHERS)


@pytest.mark.parametrize("target", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("training", [0.1, 0.5])
def test_is_the_posterior_under_the_other_prior(training, target):
    calibrator = PriorShiftCalibrator(training_prior=training, target_prior=target).fit([0.2, 0.7], [0, 1])
    np.testing.assert_allclose(calibrator.transform(posterior(training)), posterior(target), rtol=1e-14)
    assert calibrator.target_prior_ == target


@pytest.mark.parametrize("rate", [0.1, 3.0])
def test_sampling_rate_undoes_the_thinning_of_one_class(rate):
    """Of non-events the share ``rate`` is kept, which changes the base rate from 0.2; only r matters."""
    thinned = 0.2 / (0.2 + rate * 0.8)
    calibrator = PriorShiftCalibrator(training_prior=0.5, target_prior=rate / (1 + rate)).fit([0.2, 0.7])
    np.testing.assert_allclose(calibrator.transform(posterior(thinned)), posterior(0.2), rtol=1e-14)
    assert calibrator.odds_factor_ == pytest.approx(rate, rel=1e-14)


def test_takes_the_base_rate_of_the_labels():
    calibrator = PriorShiftCalibrator(training_prior=0.5).fit([0.2, 0.7, 0.4], [0, 1, 0], [3, 1, 4])
    assert calibrator.target_prior_ == 1 / 8
    assert calibrator.odds_factor_ == pytest.approx(1 / 7)


def em(p, w, prior):
    """The iteration of Saerens, Latinne and Decaestecker, a million steps at most."""
    target = prior
    for _ in range(1_000_000):
        odds = target / (1 - target) * (1 - prior) / prior
        new = np.average(odds * p / (odds * p + 1 - p), weights=w)
        if abs(new - target) < 1e-15:
            break
        target = new
    return target


@pytest.mark.parametrize("prior", [0.2, 0.5])
def test_em_is_the_fixed_point_of_the_iteration(prior):
    rng = np.random.default_rng(0)
    p = posterior(prior)[rng.choice(4, 300, p=0.7 * EVENTS + 0.3 * OTHERS)]
    w = rng.integers(1, 4, 300)
    y = rng.integers(0, 2, 300)
    calibrator = PriorShiftCalibrator(training_prior=prior, target_prior="em").fit(p, y, w)
    assert calibrator.target_prior_ == pytest.approx(em(p, w, prior), abs=1e-10)
    assert np.average(calibrator.transform(p), weights=w) == pytest.approx(
        calibrator.target_prior_, abs=1e-10
    )
    assert calibrator.target_prior_ == pytest.approx(0.7, abs=0.1)


def test_em_recovers_the_base_rate_from_exact_frequencies():
    counts = np.round(1000 * (0.3 * EVENTS + 0.7 * OTHERS))
    calibrator = PriorShiftCalibrator(training_prior=0.5, target_prior="em").fit(
        posterior(0.5), [0, 1, 0, 1], counts
    )
    assert calibrator.target_prior_ == pytest.approx(0.3, abs=1e-12)


@pytest.mark.parametrize(
    "parameters",
    [
        {"training_prior": 0.5, "target_prior": "em"},
        {"training_prior": 0.5, "target_prior": 0.1},
    ],
    ids=str,
)
def test_labels_are_not_needed(parameters):
    rng = np.random.default_rng(1)
    p, w = np.round(rng.beta(2, 3, 200), 2), rng.integers(0, 3, 200)
    labelled = PriorShiftCalibrator(**parameters).fit(p, rng.integers(0, 2, 200), w)
    calibrator = clone(labelled).fit(p, sample_weight=w)
    np.testing.assert_array_equal(calibrator.transform(p), labelled.transform(p))
    assert calibrator.classes_.tolist() == [0, 1]
    assert not get_tags(calibrator).target_tags.required
    np.testing.assert_array_equal(
        clone(labelled).fit_transform(p[w > 0]), clone(labelled).fit(p[w > 0]).transform(p[w > 0])
    )
    pipeline = make_pipeline(FunctionTransformer(), clone(labelled)).fit(p[:, np.newaxis])
    assert pipeline.predict_proba(p[:, np.newaxis]).shape == (200, 2)
    named = clone(labelled).fit(np.column_stack((1 - p, p)), classes=["no", "yes"])
    assert set(named.predict(np.column_stack((1 - p, p)))) <= {"no", "yes"}
    # attributes of an earlier fit with labels are removed
    assert hasattr(labelled, "training_size_")
    assert not hasattr(labelled.fit(p), "training_size_")
    with pytest.raises(ValueError, match="A certificate needs labels"):
        labelled.cutoff_certificate()
    with pytest.raises(ValueError, match="requires y to be passed"):
        labelled.fit(p, clusters=np.arange(200) // 4)


def test_labels_are_needed_for_their_frequency():
    calibrator = PriorShiftCalibrator(training_prior=0.5)
    assert get_tags(calibrator).target_tags.required
    with pytest.raises(ValueError, match="requires y to be passed"):
        calibrator.fit([0.2, 0.7])


def test_em_at_its_limits():
    low = PriorShiftCalibrator(training_prior=0.5, target_prior="em").fit([0.1, 0.2], [0, 1])
    assert low.target_prior_ == 1 / 4
    assert (
        PriorShiftCalibrator(training_prior=0.5, target_prior="em").fit([0.9, 0.8], [0, 1]).target_prior_
        == 3 / 4
    )
    assert (
        PriorShiftCalibrator(training_prior=0.3, target_prior="em").fit([0.3, 0.3], [0, 1]).target_prior_
        == 0.3
    )


def test_certainty_stays_next_to_certain():
    calibrator = PriorShiftCalibrator(training_prior=0.5, target_prior=0.01).fit([0.2, 0.7], [0, 1])
    assert calibrator.transform([0.0, 1.0]).tolist() == [2.0**-53, 1 - 2.0**-53]
