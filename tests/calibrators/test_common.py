"""Properties that every calibrator has, generated from the registry."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression, minimize

from sklearn_calib import calibrators
from tests._optional import pandas as pd
from tests._optional import polars as pl
from tests.calibrators._registry import calibrators_with

TOLERANCE = 1e-10
GRID = np.linspace(0.0, 1.0, 101)

every_calibrator = calibrators_with()


@pytest.fixture
def data():
    """Probabilities with ties, outcomes that they overstate, and integer weights, some of them zero."""
    rng = np.random.default_rng(8)
    p = np.concatenate([rng.random(90), np.repeat([0.0, 0.3, 0.5, 1.0], 5)])
    y = (rng.random(110) < 0.3 + 0.4 * p).astype(int)
    return p, y, rng.integers(0, 4, 110)


@pytest.fixture
def classes():
    """Probabilities of three classes, labels drawn from a flatter version, and integer weights."""
    rng = np.random.default_rng(9)
    proba = rng.dirichlet([0.7, 0.7, 0.7], 150)
    flat = np.sqrt(proba) / np.sqrt(proba).sum(axis=1, keepdims=True)
    y = (flat.cumsum(axis=1) > rng.random((150, 1))).argmax(axis=1)
    return proba, y, rng.integers(0, 4, 150)


def columns(case, proba):
    """What the calibrator takes for several classes."""
    return np.log(np.maximum(proba, 1e-12)) if case.log_odds else proba


@every_calibrator
def test_shape_of_the_input_is_kept(case, data):
    p, y, _ = data
    both = np.column_stack([1 - p, p])
    # for two logits the margin is their difference
    two = np.column_stack([np.zeros_like(p), p]) if case.log_odds else both
    flat, column, pair = (case.make().fit(X, y).transform(X) for X in (p, p[:, None], two))
    assert (flat.shape, column.shape, pair.shape) == ((110,), (110, 1), (110, 2))
    np.testing.assert_array_equal(column[:, 0], flat)
    np.testing.assert_array_equal(pair[:, 1], flat)
    np.testing.assert_array_equal(pair[:, 0], 1 - flat)
    fitted = case.make().fit(p, y)
    np.testing.assert_array_equal(fitted.transform(p[:, None])[:, 0], flat)
    np.testing.assert_array_equal(fitted.predict_proba(p)[:, 1], flat)


@every_calibrator
def test_labels_may_be_anything_ordered(case, data):
    p, y, _ = data
    expected = case.make().fit(p, y).transform(GRID)
    for labels in ((False, True), (-1, 1), (7, 3), ("b", "a")):
        named = np.array(sorted(labels))[y]
        calibrator = case.make().fit(p, named)
        assert calibrator.classes_.tolist() == sorted(labels)
        np.testing.assert_array_equal(calibrator.transform(GRID), expected)
        more_probable = np.where(expected > 0.5, *sorted(labels, reverse=True))
        np.testing.assert_array_equal(calibrator.predict(GRID), more_probable)


@calibrators_with("monotone")
def test_ranking_is_kept(case, data):
    p, y, w = data
    for weight in (None, w):
        steps = np.diff(case.make().fit(p, y, weight).transform(GRID))
        assert steps.min() > 0 if case.strict else steps.min() >= 0


@every_calibrator
def test_input_is_read_only_and_unchanged(case, data):
    arrays = [array.copy() for array in data]
    for array in arrays:
        array.flags.writeable = False
    calibrator = case.make().fit(*arrays)
    calibrator.predict_proba(arrays[0])
    result = calibrator.transform(arrays[0])
    for array, original in zip(arrays, data, strict=True):
        np.testing.assert_array_equal(array, original)
    assert not np.shares_memory(result, arrays[0])


@every_calibrator
def test_single_precision_is_raised_first(case, data):
    p, y, w = data
    single = p.astype(np.float32)
    low, high = (case.make().fit(X, y, w) for X in (single, single.astype(np.float64)))
    np.testing.assert_array_equal(low.transform(single), high.transform(single.astype(np.float64)))


@every_calibrator
def test_second_fit_leaves_no_trace_of_the_first(case, data):
    p, y, w = data
    refitted = case.make().fit(1 - p, y).fit(p, y, w)
    np.testing.assert_array_equal(refitted.transform(GRID), case.make().fit(p, y, w).transform(GRID))
    assert vars(refitted).keys() == vars(case.make().fit(p, y, w)).keys()


@every_calibrator
def test_index_of_pandas_is_ignored(case, data):
    p, y, w = data
    index = np.random.default_rng(0).permutation(110)
    expected = case.make().fit(p, y, w).transform(p)
    series = pd.Series(p, index=index)
    calibrator = case.make().fit(series, pd.Series(y), pd.Series(w, index=index[::-1]))
    np.testing.assert_array_equal(calibrator.transform(series), expected)


@every_calibrator
def test_names_of_columns(case, data):
    p, y, _ = data
    frame = pd.DataFrame({"score": p})
    calibrator = case.make().fit(frame, y)
    assert calibrator.feature_names_in_.tolist() == ["score"]
    assert calibrator.get_feature_names_out().tolist() == ["score"]
    assert case.make().fit(p, y).get_feature_names_out().tolist() == ["x0"]
    with pytest.raises(ValueError, match="feature names should match"):
        calibrator.transform(frame.rename(columns={"score": "other"}))


@every_calibrator
def test_output_as_dataframe(case, data):
    p, y, _ = data
    index = np.random.default_rng(0).permutation(110)
    frame = pd.DataFrame({"score": p}, index=index)
    expected = case.make().fit(p, y).transform(p)
    output = case.make().set_output(transform="pandas").fit(frame, y).transform(frame)
    pd.testing.assert_frame_equal(output, pd.DataFrame({"score": expected}, index=index))
    polars_frame = pl.DataFrame({"score": p})
    output = case.make().set_output(transform="polars").fit(polars_frame, y).transform(polars_frame)
    assert output.equals(pl.DataFrame({"score": expected}))
    for container in ("pandas", "polars"):
        flat = case.make().set_output(transform=container).fit(p, y).transform(p)
        assert list(flat.columns) == ["x0"]
        np.testing.assert_array_equal(np.asarray(flat)[:, 0], expected)


@every_calibrator
def test_equal_scores_give_the_event_rate(case):
    """One score says nothing; the temperature has an upper end, which is why 1/2 is only approached."""
    calibrator = case.make().fit(np.full(1000, 0.5), np.repeat([0, 1], 500))
    # the halves of CertifiedCalibrator need not have as many events
    tolerance = 0.05 if case.name.startswith("certified") else 1e-5
    np.testing.assert_allclose(calibrator.transform(np.array([0.5])), 0.5, atol=tolerance)


@calibrators_with("multiclass")
def test_several_classes(case, classes):
    proba, y, w = classes
    X, labels = columns(case, proba), np.array(["a", "b", "c"])[y]
    calibrator = case.make().fit(X, labels, w)
    result = calibrator.transform(X)
    assert result.shape == proba.shape
    assert result.min() >= 0
    np.testing.assert_allclose(result.sum(axis=1), 1, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(calibrator.predict_proba(X), result)
    np.testing.assert_array_equal(calibrator.predict(X), calibrator.classes_[result.argmax(axis=1)])


@calibrators_with("multiclass", without="drawn")
def test_weights_and_order_of_rows_of_several_classes(case, classes):
    proba, y, w = classes
    X, labels = columns(case, proba), np.array(["a", "b", "c"])[y]
    result = case.make().fit(X, labels, w).transform(X)
    repeated = case.make().fit(np.repeat(X, w, axis=0), np.repeat(labels, w))
    np.testing.assert_allclose(repeated.transform(X), result, rtol=0, atol=TOLERANCE)
    order = np.random.default_rng(0).permutation(150)
    shuffled = case.make().fit(X[order], labels[order], w[order])
    np.testing.assert_allclose(shuffled.transform(X), result, rtol=0, atol=TOLERANCE)


@calibrators_with("multiclass")
def test_several_classes_in_a_dataframe(case, classes):
    proba, y, _ = classes
    frame = pd.DataFrame(columns(case, proba), columns=["a", "b", "c"], index=np.arange(150) * 3)
    calibrator = case.make().set_output(transform="pandas").fit(frame, y)
    output = calibrator.transform(frame)
    assert output.columns.tolist() == ["a", "b", "c"]
    assert output.index.equals(frame.index)


@calibrators_with("multiclass", without="drawn")
def test_order_of_classes_does_not_matter(case, classes):
    proba, y, w = classes
    X = columns(case, proba)
    straight = case.make().fit(X, y, w).transform(X)
    turned = case.make().fit(X[:, ::-1], 2 - y, w).transform(X[:, ::-1])
    np.testing.assert_allclose(turned[:, ::-1], straight, rtol=0, atol=1e-12)


@every_calibrator
def test_classes_that_a_calibrator_cannot_take(case, classes):
    proba, y, _ = classes
    if case.multiclass:
        with pytest.raises(ValueError, match="X has scores of a binary problem but y has 3 classes"):
            case.make().fit(proba[:, 0], y)
        with pytest.raises(ValueError, match="X has 3 columns but y has 2 classes"):
            case.make().fit(columns(case, proba), np.minimum(y, 1))
    else:
        with pytest.raises(ValueError, match="Only binary classification is supported"):
            case.make().fit(proba, y)
        with pytest.raises(ValueError, match=r"OneVsRestCalibrator\(calibrator\)"):
            case.make().fit(proba[:, 0], y)


@every_calibrator
def test_tags_say_what_is_supported(case):
    tags = case.make().__sklearn_tags__()
    assert tags.input_tags.one_d_array
    assert tags.classifier_tags.multi_class == case.multiclass
    assert tags.estimator_type == "classifier"
    assert tags.transformer_tags is not None


#: Calibrators of event frequencies and of likelihoods, which are linear in the outcomes.
LINEAR = (
    calibrators.BetaCalibrator,
    calibrators.HistogramBinningCalibrator,
    calibrators.IsotonicCalibrator,
    calibrators.PlattCalibrator,
    calibrators.SmoothedCalibrator,
    calibrators.SplineCalibrator,
    calibrators.TemperatureCalibrator,
)


@every_calibrator
def test_mean_judgements_are_as_good_as_judgements(case, data):
    p, _, w = data
    count = np.random.default_rng(10).binomial(4, 0.3 + 0.4 * p)
    y, calibrator = count / 4, case.make()
    if isinstance(calibrator, calibrators.CertifiedCalibrator):
        return  # it needs more samples
    if not isinstance(calibrator, LINEAR):
        with pytest.raises(ValueError, match=r"y looks like probabilities.*outcomes 0 and 1 are needed"):
            calibrator.fit(p, y)
        return
    one_by_one = (np.arange(4) < count[:, None]).astype(int).ravel()
    expected = case.make().fit(np.repeat(p, 4), one_by_one, sample_weight=np.repeat(w, 4))
    found = calibrator.fit(p, list(y), sample_weight=4 * w)
    np.testing.assert_allclose(found.transform(GRID), expected.transform(GRID), rtol=1e-9, atol=1e-12)
    assert found.classes_.tolist() == [0, 1]
    assert found.predict([0.5]).dtype == int
    alone = calibrator.fit(p, y)
    if hasattr(alone, "training_size_"):
        assert alone.training_size_ == 110
    with pytest.raises(ValueError, match="classes are 0 and 1 if y has outcomes between them"):
        calibrator.fit(p, y, classes=[0, 1])
    with pytest.raises(ValueError, match="clusters need outcomes 0 and 1"):
        calibrator.fit(p, y, clusters=np.arange(110) // 5)
    with pytest.raises(ValueError, match="y has only samples of class 1"):
        calibrator.fit([0.2, 0.7], [0.4, 1.0], sample_weight=[0, 1])


def test_fits_to_outcomes_between_0_and_1_minimise_their_loss(data):
    p, _, w = data
    y, w = np.random.default_rng(12).beta(1 + p, 2 - p), w + 0.5
    isotonic = calibrators.IsotonicCalibrator().fit(p, y, sample_weight=w)
    values, place = np.unique(p, return_inverse=True)
    mass, events = np.bincount(place, w), np.bincount(place, w * y)
    expected = isotonic_regression(events / mass, weights=mass).x
    np.testing.assert_allclose(isotonic.transform(values), expected, atol=1e-12)
    # targets of Platt, with the weights of events and non-events
    above, below = np.sum(w * y), np.sum(w * (1 - y))
    target = y * (above + 1) / (above + 2) + (1 - y) / (below + 2)

    def loss(theta):
        odds = theta[0] * p + theta[1]
        return np.sum(w * (np.logaddexp(0, odds) - target * odds))

    platt = calibrators.PlattCalibrator(link="identity").fit(p, y, sample_weight=w)
    best = minimize(loss, [1.0, 0.0], tol=1e-12).x
    np.testing.assert_allclose([platt.slope_, platt.intercept_], best, rtol=1e-4)
