"""The choice among calibrators: against a plain cross-validation, and what its rule says."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, TimeSeriesSplit

from sklearn_calib import calibrators
from tests._samples import simulated


class Fixed(LogisticRegression):
    """A classifier that is fitted to nothing: its columns are its probabilities, to a power."""

    def __init__(self, power=1.0):
        super().__init__()
        self.power = power

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.asarray(X)[:, -1] ** self.power
        return np.column_stack([1 - p, p])


def sample(n=400, power=1.0, seed=0):
    return simulated(n, "uniform", 0.02, 0.98, seed=seed, truth=power)[::-1]


def test_losses_and_standard_errors_of_calibrators_without_parameters():
    """Their loss on a row is the same in every fold, so the mean over all rows can be written down."""
    p, y = sample(power=1.5)
    candidates = {"as it is": Fixed(), "power": Fixed(1.5), "square": Fixed(2.0)}
    chosen = calibrators.AutoCalibrator(candidates=candidates).fit(p, y)
    losses = [-np.log(np.where(y == 1, p**power, 1 - p**power)) for power in (1.0, 1.5, 2.0)]
    best = int(np.argmin([loss.mean() for loss in losses]))
    for candidate, loss in zip(chosen.selection_.candidates, losses, strict=True):
        difference = loss - losses[best]
        assert candidate.log_loss == pytest.approx(loss.mean(), abs=1e-12)
        assert candidate.excess == pytest.approx(difference.mean(), abs=1e-12)
        assert candidate.standard_error == pytest.approx(difference.std(ddof=1) / 20, abs=1e-12)
    assert chosen.selection_.best == ["as it is", "power", "square"][best]


def test_rows_are_held_out():
    """A calibrator that remembers its rows would win if it were scored on them."""
    p, y = sample()
    memory = calibrators.IsotonicCalibrator(clip="auto")
    candidates = {"Platt": calibrators.PlattCalibrator(), "isotonic": memory}
    found = calibrators.AutoCalibrator(candidates=candidates, n_standard_errors=0.0).fit(p, y)
    scores = {one.name: one.log_loss for one in found.selection_.candidates}

    def in_sample(calibrator):
        q = calibrator.fit(p, y).transform(p)
        return -np.mean(np.log(np.where(y == 1, q, 1 - q)))

    assert in_sample(memory) < in_sample(calibrators.PlattCalibrator()) < scores["Platt"] < scores["isotonic"]
    assert found.selection_.chosen == "Platt"


class Keeper(calibrators.BaseCalibrator):
    """Records what it is fitted to in a list that its clones share."""

    def __init__(self, seen=None):
        self.seen = seen

    def __sklearn_clone__(self):
        return Keeper(self.seen)

    def _score_kind(self):
        return "score"

    def _fit_scores(self, scores, codes, weight):
        self.seen.append((scores, codes, weight))

    def _map_scores(self, scores):
        return np.full(scores.shape, 0.5) if scores.ndim == 1 else np.full(scores.shape, 1 / scores.shape[1])


def fits_of_the_folds(X, y, w=None, **params):
    """Return scores, codes and weights of the fits to the training parts."""
    seen = []
    candidates = {"one": Keeper(seen), "two": calibrators.TemperatureCalibrator(link="identity")}
    # the first candidate is chosen, and fitted last to all samples
    calibrators.AutoCalibrator(candidates=candidates, n_standard_errors=1e9, **params).fit(X, y, w)
    return seen[:-1]


def test_counts_are_repeated_rows_for_the_folds():
    """So that a score with many samples is held out in part; every sample has the same chance."""
    p, y, w = np.tile([0.2, 0.7], 2), np.repeat([0, 1], 2), np.array([30, 10, 20, 40])
    held = np.zeros(4)
    for seed in range(15):
        fits = fits_of_the_folds(p, y, w, random_state=seed)
        # all four distinct rows are in every training part
        parts = w - np.stack([weight for _, _, weight in fits])
        assert (parts.sum(axis=0).tolist(), parts.sum(axis=1).tolist()) == (w.tolist(), [20] * 5)
        held += parts[0]
    # five standard deviations of the mean of hypergeometric counts, at most those of a binomial one
    np.testing.assert_allclose(held / 15, w / 5, rtol=0, atol=5 * np.sqrt(w.max() * 0.16 / 15))


def test_weights_that_are_no_counts_stay_with_their_rows():
    p, y, w = np.arange(20) / 20, np.arange(20) % 2, np.arange(20) / 10 + 0.5
    for scores, _, weight in fits_of_the_folds(p, y, w):
        np.testing.assert_allclose(weight, 2 * scores + 0.5, rtol=1e-15)


@pytest.mark.parametrize("splitter", [TimeSeriesSplit(3), RepeatedStratifiedKFold(n_splits=2, n_repeats=2)])
def test_any_splitter(splitter):
    p, y = np.arange(1, 41) / 41, np.arange(40) % 2
    fits = fits_of_the_folds(p, y, cv=splitter)
    assert len(fits) == splitter.get_n_splits()
    if isinstance(splitter, TimeSeriesSplit):
        for (train, _), (scores, _, _) in zip(splitter.split(p), fits, strict=True):
            np.testing.assert_array_equal(scores, p[train])


def test_one_standard_error_towards_simplicity():
    p, y = sample(2000, 1.4)
    candidates = {"far": Fixed(1.0), "near": Fixed(1.38), "true": Fixed(1.4)}
    strict = calibrators.AutoCalibrator(candidates=candidates, n_standard_errors=0.0).fit(p, y).selection_
    lenient = calibrators.AutoCalibrator(candidates=candidates).fit(p, y).selection_
    indulgent = calibrators.AutoCalibrator(candidates=candidates, n_standard_errors=1e6).fit(p, y).selection_
    assert strict.chosen == strict.best == lenient.best
    near = next(one for one in lenient.candidates if one.name == "near")
    assert lenient.chosen == ("near" if near.excess <= near.standard_error else "true")
    assert indulgent.chosen == "far"
    assert "comes first" in indulgent.reason
    assert "comes first" not in strict.reason


def test_result_is_the_chosen_calibrator_fitted_to_all_rows():
    p, y = sample(1500, 2.0)
    found = calibrators.AutoCalibrator().fit(p, y)
    names = [one.name for one in found.selection_.candidates]
    assert names == ["spline", "temperature", "Platt", "beta", "Venn-Abers"]
    again = clone(found.calibrator_).fit(p, y)
    rate = (y.sum() + 0.5) / (len(y) + 1)
    expected = again.transform(p) + 0.1 / len(y) * (rate - again.transform(p))
    np.testing.assert_allclose(found.transform(p), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("link", [pytest.param("logit", marks=pytest.mark.thorough), "identity"])
def test_several_classes(link):
    rng = np.random.default_rng(0)
    z = 3 * rng.standard_normal((300, 3))
    y = (z / 3 + [0.5, 0, 0] + rng.gumbel(size=z.shape)).argmax(axis=1)
    proba = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    X = proba if link == "logit" else z
    found = calibrators.AutoCalibrator(link=link).fit(X, np.array(["c", "a", "b"])[y])
    assert len(found.selection_.candidates) == 4
    rate = (np.bincount(np.array([2, 0, 1])[y]) + 0.5) / 301.5
    expected = (1 - 0.1 / 300) * found.calibrator_.predict_proba(X) + 0.1 / 300 * rate
    np.testing.assert_allclose(found.predict_proba(X), expected, rtol=0, atol=1e-15)


def test_a_class_with_a_single_row_leaves_nothing_to_compare():
    p = np.array([0.1, 0.2, 0.3, 0.9])
    found = calibrators.AutoCalibrator().fit(p, [0, 0, 0, 1])
    assert found.selection_.chosen == "spline"
    assert found.selection_.n_folds == 0
    assert "single sample" in found.selection_.reason
    assert calibrators.AutoCalibrator().fit(p, [0, 1, 0, 1]).selection_.n_folds == 2


def test_a_single_candidate_is_not_compared():
    p, y = sample(50)
    found = calibrators.AutoCalibrator(candidates={"only": calibrators.SplineCalibrator()}).fit(p, y)
    assert found.selection_.reason == "only is the only candidate."
    np.testing.assert_array_equal(found.transform(p), calibrators.SplineCalibrator().fit(p, y).transform(p))


def test_progress_names_each_fit():
    steps, p = [], np.linspace(0.05, 0.95, 40)
    y = np.tile([0, 1], 20)
    candidates = {"temperature": calibrators.TemperatureCalibrator(), "Platt": calibrators.PlattCalibrator()}
    progress = lambda *step: steps.append(step)  # noqa: E731
    found = calibrators.AutoCalibrator(candidates=candidates, cv=2, progress=progress).fit(p, y)
    names = ["temperature", "temperature", "Platt", "Platt", found.selection_.chosen]
    assert steps == [(done, 5, name) for done, name in enumerate(names)]
