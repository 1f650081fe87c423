"""The streaming calibrator against the plain one on all rows, and on rows weighted by hand."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sklearn_calib import CalibratedClassifier, calibrators
from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator, SplineCalibrator
from sklearn_calib.monitor import StreamingCalibrator
from sklearn_calib.sketch import CalibrationSketch
from tests._samples import simulated
from tests.calibrators.test_estimator_checks import EXPECTED_FAILURES, LEAST_PASSED, on_columns

GRID = np.linspace(0.001, 0.999, 200)


def rows(n, seed=0, shift=0.7):
    return simulated(n, seed=seed, truth=lambda p: expit(logit(p) + shift))


def streamed(y, p, cuts, w=None, **params):
    calibrator = StreamingCalibrator(**params)
    for part in np.split(np.arange(y.shape[0]), cuts):
        calibrator.partial_fit(p[part], y[part], None if w is None else w[part], classes=[0, 1])
    return calibrator


@pytest.mark.parametrize("inner", [None, IsotonicCalibrator(), PlattCalibrator(link="identity")], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_equal_one_fit_bit_for_bit(inner, weighted):
    y, p = rows(3000)
    w = np.random.default_rng(1).integers(0, 4, 3000).astype(float) if weighted else None
    whole = StreamingCalibrator(inner).fit(p, y, w)
    order = np.random.default_rng(2).permutation(3000)
    for chosen, cuts in ((np.arange(3000), [10, 11, 2000]), (order, np.arange(100, 3000, 400))):
        found = streamed(y[chosen], p[chosen], cuts, None if w is None else w[chosen], calibrator=inner)
        assert found.sketch_ == whole.sketch_
        np.testing.assert_array_equal(found.transform(GRID), whole.transform(GRID))
        assert found.n_samples_seen_ == whole.n_samples_seen_ == (3000 if w is None else (w > 0).sum())


@pytest.mark.parametrize(
    "inner", [SplineCalibrator(), PlattCalibrator(), SplineCalibrator(monotone=True)], ids=str
)
def test_near_the_plain_calibrator(inner):
    y, p = rows(1500, 3)
    plain, found = clone(inner).fit(p, y), StreamingCalibrator(inner).fit(p, y)
    np.testing.assert_allclose(found.transform(GRID), plain.transform(GRID), atol=2e-5)
    # without rounding it is the same: predictions that are multiples of the cells' width
    exact = np.round(p * 1024) / 1024
    w = np.random.default_rng(4).integers(1, 5, 1500)
    expected = clone(inner).fit(exact, y, w).transform(GRID)
    found = StreamingCalibrator(inner).fit(exact, y, w)
    np.testing.assert_allclose(found.transform(GRID), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("cuts", "half_life"), [([], 40), ([1, 2, 3, 500], 1000.0), ([*range(7, 1500, 21)], 3.7)]
)
def test_half_life_is_weights_by_age(cuts, half_life):
    y, p = rows(1500, 5)
    p = np.round(p * 256) / 256
    w = np.random.default_rng(6).integers(1, 4, 1500) if half_life > 10 else None
    found = streamed(y, p, cuts, w, half_life=half_life, calibrator=PlattCalibrator())
    faded = 2.0 ** (-(1499.0 - np.arange(1500)) / half_life) * (1 if w is None else w)
    outcome, value, weight = found.sketch_.weighted_sample()
    for label in (0, 1):
        expected = np.bincount((256 * p[y == label]).astype(int), faded[y == label], minlength=257)
        rows_of = outcome == label
        got = np.bincount((256 * value[rows_of]).astype(int), weight[rows_of], minlength=257)
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-17)
    expected = PlattCalibrator().fit(p, y, faded).transform(GRID)
    np.testing.assert_allclose(found.transform(GRID), expected, atol=1e-6)


def test_only_the_ratios_of_weights_say_what_is_forgotten():
    y, p = rows(2000, 11)
    made = StreamingCalibrator(IsotonicCalibrator(), half_life=100)
    plain, small = (clone(made).fit(p, y, np.full(2000, scale)) for scale in (1.0, 2.0**-200))
    np.testing.assert_allclose(small.transform(GRID), plain.transform(GRID), rtol=1e-12)
    assert small.sketch_.n_bins == plain.sketch_.n_bins


def test_a_long_stream_keeps_a_bounded_sketch():
    y, p = rows(20_000, 7)
    found = streamed(y, p, np.arange(1000, 20_000, 1000), half_life=20)
    assert found.sketch_.total_weight == pytest.approx(1 / (1 - 2 ** (-1 / 20)))
    # rows that are 64 half-lives old are gone
    assert found.sketch_.n_bins < 3 * 64 * 20
    at_once = StreamingCalibrator(half_life=20).fit(p, y)
    np.testing.assert_allclose(at_once.transform(GRID), found.transform(GRID), rtol=1e-6)


def test_window_is_the_last_rows():
    y, p = rows(1000, 8)
    found = streamed(y, p, [100, 333, 750], window=200, n_slots=20)
    assert found.sketch_ == CalibrationSketch().update(y[-200:], p[-200:])
    last = StreamingCalibrator().fit(p[-200:], y[-200:])
    np.testing.assert_array_equal(found.transform(GRID), last.transform(GRID))
    found.partial_fit(p[:3], y[:3])
    assert found.sketch_.n_samples == 193
    (y, p), (z, q) = rows(300, 13), rows(300, 14, shift=-1.0)
    again = StreamingCalibrator().fit(p, y).partial_fit(p, y).fit(q, z)
    np.testing.assert_array_equal(again.transform(GRID), StreamingCalibrator().fit(q, z).transform(GRID))
    assert again.n_samples_seen_ == 300


def test_fits_are_made_on_demand_and_not_more_often():
    class Counting(PlattCalibrator):
        fits = 0

        def fit(self, X, y, sample_weight=None):
            type(self).fits += 1
            return super().fit(X, y, sample_weight)

    y, p = rows(400, 12)
    found = StreamingCalibrator(Counting(), refit_every=50)
    for part in np.split(np.arange(300), 10):
        found.partial_fit(p[part], y[part])
    assert Counting.fits == 0
    first = found.transform(GRID)
    found.predict_proba(GRID)
    found.predict(GRID)
    assert Counting.fits == 1
    np.testing.assert_array_equal(found.partial_fit(p[300:349], y[300:349]).transform(GRID), first)
    assert Counting.fits == 1
    assert (found.partial_fit(p[349:350], y[349:350]).transform(GRID) != first).any()
    assert Counting.fits == 2
    found.fit(p, y).transform(GRID)
    assert (Counting.fits, found.n_samples_seen_) == (3, 400)


def test_labels_and_shapes():
    y, p = rows(300, 15)
    names, expected = np.array(["ill", "well"])[1 - y], StreamingCalibrator().fit(p, y)
    found = StreamingCalibrator().partial_fit(1 - p, names)
    assert found.classes_.tolist() == ["ill", "well"]
    np.testing.assert_allclose(found.transform(1 - GRID), 1 - expected.transform(GRID), atol=1e-4)
    assert set(found.predict(1 - GRID)) == {"ill", "well"}
    two = StreamingCalibrator().partial_fit(np.column_stack([1 - p, p]), y)
    columns = two.transform(np.column_stack([1 - GRID, GRID]))
    np.testing.assert_allclose(columns[:, 1], expected.transform(GRID))
    assert two.n_features_in_ == 2
    with pytest.raises(ValueError, match="2"):
        two.partial_fit(p, y)
    only = StreamingCalibrator().partial_fit([0.2, 0.4], [0, 0])
    assert only.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="only one class"):
        only.transform([0.5])
    assert only.partial_fit([0.9, 0.3], [1, 1]).transform([0.5]).shape == (1,)
    found = StreamingCalibrator(window=10).fit(np.linspace(0, 1, 20), [0, 1] * 10)
    found.partial_fit(np.full(10, 0.1), np.zeros(10))
    with pytest.raises(ValueError, match="contain only one class"):
        found.predict_proba([0.5])
    with pytest.raises(ValueError, match="contain only one class"):
        StreamingCalibrator(window=10).fit(np.linspace(0, 1, 20), [1] * 10 + [0] * 10)
    single, batch = StreamingCalibrator(), StreamingCalibrator()
    for p, y in ((0.3, 1), (np.float64(0.6), np.int64(0)), (np.array(0.9), np.array(1))):
        single.partial_fit(p, y, classes=[0, 1])
    batch.partial_fit([0.3, 0.6, 0.9], [1, 0, 1])
    np.testing.assert_array_equal(single.predict_proba([0.2, 0.7]), batch.predict_proba([0.2, 0.7]))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([0.2, 1.5], [0, 1]), r"1\.5"),
        (([0.2], [0, 1]), "y has shape"),
        (([0.2, 0.3], [0, 2]), "contains 2, which is not one of"),
        (([0.2, 0.3], None), "requires y"),
        (([0.2, 0.3], [0, 1], [1, -1]), "sample_weight"),
        (([0.2, 0.3], [0, 1], None, [0, 2]), "differs from those of the first call"),
        (([[0.1, 0.2, 0.7]] * 2, [0, 1]), "3"),
    ],
)
def test_bad_batches_leave_it_as_it_was(args, message):
    y, p = rows(100, 16)
    found = StreamingCalibrator().fit(p, y)
    before = pickle.dumps(found)
    with pytest.raises(ValueError, match=message):
        found.partial_fit(*args)
    assert pickle.dumps(found) == before


def test_bad_parameters():
    for params, kind, message in [
        ({"half_life": 0}, ValueError, "half_life must be positive"),
        ({"half_life": 1e-300}, ValueError, "half_life must be at least 1 sample"),
        ({"window": 0}, ValueError, "window must be at least 1"),
        ({"window": 25, "n_slots": 10}, ValueError, "not a multiple of n_slots"),
        ({"window": 100, "half_life": 10}, ValueError, "cannot be combined"),
        ({"refit_every": 0}, ValueError, "refit_every"),
        ({"precision": 3}, ValueError, "precision"),
        ({"calibrator": PlattCalibrator}, TypeError, "pass an instance"),
        ({"calibrator": calibrators.TemperatureCalibrator(link="identity")}, ValueError, "needs logits"),
    ]:
        y, p = rows(50, 17)
        for method in ("fit", "partial_fit"):
            with pytest.raises(kind, match=message):
                getattr(StreamingCalibrator(**params), method)(p, y)


def test_unfitted():
    for read in (lambda c: c.sketch_, lambda c: c.calibrator_, lambda c: c.transform([0.5])):
        with pytest.raises(NotFittedError):
            read(StreamingCalibrator())


def test_in_the_company_of_others():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(20)
    X = rng.standard_normal((200, 3))
    y = (X[:, 0] + rng.standard_normal(200) > 0).astype(int)
    model = CalibratedClassifier(LogisticRegression(), StreamingCalibrator(PlattCalibrator()), cv=3).fit(X, y)
    plain = CalibratedClassifier(LogisticRegression(), PlattCalibrator(), cv=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-4)
    assert make_pipeline(StreamingCalibrator()).fit(X[:, 0] > 0, y).predict([0, 1]).tolist() == [0, 1]


@pytest.mark.parametrize(
    "params", [{}, pytest.param({"window": 1_000_000}, marks=pytest.mark.thorough)], ids=str
)
def test_passes_the_checks_of_scikit_learn(params):
    with warnings.catch_warnings(action="ignore"):
        results = check_estimator(on_columns(StreamingCalibrator(PlattCalibrator(), **params)), on_fail=None)
    passed = [result["check_name"] for result in results if result["status"] == "passed"]
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed.keys() == EXPECTED_FAILURES.keys(), failed
    assert len(passed) >= LEAST_PASSED
