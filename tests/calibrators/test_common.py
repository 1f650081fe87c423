"""Properties that every calibrator has, generated from the registry."""

import numpy as np
import pytest

from sklearn_calib import calibrators
from tests._optional import pandas as pd
from tests._optional import polars as pl
from tests.calibrators._registry import calibrators_with

TOLERANCE = 1e-10
GRID = np.linspace(0.0, 1.0, 101)

every_calibrator = calibrators_with()
every_structure = calibrators_with(structures=True)


@pytest.fixture
def data():
    """Probabilities with ties, outcomes that they overstate, and integer weights, some of them zero."""
    rng = np.random.default_rng(8)
    p = np.concatenate([rng.random(90), np.repeat([0.0, 0.3, 0.5, 1.0], 5)])
    return p, (rng.random(110) < 0.3 + 0.4 * p).astype(int), rng.integers(0, 4, 110)


@pytest.fixture
def classes():
    """Probabilities of three classes, labels drawn from a flatter version, and integer weights."""
    rng = np.random.default_rng(9)
    proba = rng.dirichlet([0.7, 0.7, 0.7], 150)
    flat = np.sqrt(proba) / np.sqrt(proba).sum(axis=1, keepdims=True)
    return proba, (flat.cumsum(axis=1) > rng.random((150, 1))).argmax(axis=1), rng.integers(0, 4, 150)


def columns(case, proba):
    return np.log(np.maximum(proba, 1e-12)) if case.log_odds else proba


@every_structure
def test_shape_of_the_input_is_kept(case, data):
    p, y, _ = data
    both, fitted = np.column_stack([1 - p, p]), case.make().fit(p, y)
    flat = fitted.transform(p)
    column, pair = (case.make().fit(X, y).transform(X) for X in (p[:, None], both))
    assert (flat.shape, column.shape, pair.shape) == ((110,), (110, 1), (110, 2))
    np.testing.assert_array_equal(column[:, 0], flat)
    np.testing.assert_array_equal(pair[:, 1], flat)
    np.testing.assert_array_equal(pair[:, 0], 1 - flat)
    np.testing.assert_array_equal(fitted.transform(p[:, None])[:, 0], flat)
    np.testing.assert_array_equal(fitted.predict_proba(p)[:, 1], flat)


@every_structure
def test_labels_may_be_anything_ordered(case, data):
    p, y, _ = data
    expected = case.make().fit(p, y).transform(GRID)
    for labels in ((False, True), (-1, 1), (7, 3), ("b", "a")):
        calibrator = case.make().fit(p, np.array(sorted(labels))[y])
        assert calibrator.classes_.tolist() == sorted(labels)
        np.testing.assert_array_equal(calibrator.transform(GRID), expected)
        more_probable = np.where(expected > 0.5, *sorted(labels, reverse=True))
        np.testing.assert_array_equal(calibrator.predict(GRID), more_probable)


@calibrators_with("monotone")
def test_ranking_is_kept(case, data):
    p, y, w = data
    for weight in (None, w):
        calibrator = case.make().fit(p, y, weight)
        steps, floor = np.diff(calibrator.transform(GRID)), getattr(calibrator, "min_proba_", 0.0)
        assert steps.min() >= 0
        assert steps[(floor <= GRID[:-1]) & (GRID[1:] <= 1 - floor)].min() > 0 or not case.strict


@every_calibrator
def test_second_fit_leaves_no_trace_of_the_first(case, data):
    """Nor of the input, which is read only."""
    arrays = [array.copy() for array in data]
    for array in arrays:
        array.flags.writeable = False
    p, y, w = arrays
    fitted, refitted = case.make().fit(p, y, w), case.make().fit(1 - p, y).fit(p, y, w)
    np.testing.assert_array_equal(refitted.transform(GRID), fitted.transform(GRID))
    assert vars(refitted).keys() == vars(fitted).keys()
    assert not np.shares_memory(fitted.transform(p), p)
    for array, original in zip(arrays, data, strict=True):
        np.testing.assert_array_equal(array, original)


@every_structure
def test_single_precision_is_raised_first(case, data):
    p, y, w = data
    single = p.astype(np.float32)
    low, high = (case.make().fit(X, y, w) for X in (single, single.astype(np.float64)))
    np.testing.assert_array_equal(low.transform(single), high.transform(single.astype(np.float64)))


@every_structure
def test_index_and_names_of_tables(case, data):
    """The index is ignored in fit and kept in the output."""
    p, y, w = data
    index, plain = np.random.default_rng(0).permutation(110), case.make().fit(p, y, w)
    expected, series = plain.transform(p), pd.Series(p, index=index)
    calibrator = case.make().fit(series, pd.Series(y), pd.Series(w, index=index[::-1]))
    np.testing.assert_array_equal(calibrator.transform(series), expected)
    frame = pd.DataFrame({"score": p}, index=index)
    calibrator = case.make().set_output(transform="pandas").fit(frame, y, w)
    assert calibrator.feature_names_in_.tolist() == ["score"]
    assert calibrator.get_feature_names_out().tolist() == ["score"]
    pd.testing.assert_frame_equal(calibrator.transform(frame), pd.DataFrame({"score": expected}, index=index))
    with pytest.raises(ValueError, match="feature names should match"):
        calibrator.transform(frame.rename(columns={"score": "other"}))
    table = pl.DataFrame({"score": p})
    output = calibrator.set_output(transform="polars").fit(table, y, w).transform(table)
    assert output.equals(pl.DataFrame({"score": expected}))
    assert plain.get_feature_names_out().tolist() == ["x0"]
    for container in ("pandas", "polars"):
        flat = plain.set_output(transform=container).transform(p)
        assert list(flat.columns) == ["x0"]
        np.testing.assert_array_equal(np.asarray(flat)[:, 0], expected)


@calibrators_with(slow={"smoothed"})
def test_equal_scores_give_the_event_rate(case):
    """One score says nothing; the temperature has an upper end, which is why 1/2 is only approached."""
    calibrator = case.make().fit(np.full(1000, 0.5), np.repeat([0, 1], 500))
    # the halves of CertifiedCalibrator need not have as many events
    tolerance = 0.05 if case.name.startswith("certified") else 1e-5
    np.testing.assert_allclose(calibrator.transform(np.array([0.5])), 0.5, atol=tolerance)


@calibrators_with("multiclass", slow={"auto"})
def test_several_classes(case, classes):
    proba, y, w = classes
    labels = np.array(["a", "b", "c"])[y]
    X = pd.DataFrame(columns(case, proba), columns=["p", "q", "r"], index=np.arange(150) * 3)
    calibrator = case.make().set_output(transform="pandas").fit(X, labels, w)
    output = calibrator.transform(X)
    assert output.columns.tolist() == ["p", "q", "r"]
    assert output.index.equals(X.index)
    result = output.to_numpy()
    assert result.shape == proba.shape
    np.testing.assert_array_equal(calibrator.predict_proba(X), result)
    np.testing.assert_array_equal(calibrator.predict(X), calibrator.classes_[result.argmax(axis=1)])


@calibrators_with("multiclass", without="drawn")
def test_weights_and_order_of_several_classes(case, classes):
    proba, y, w = classes
    X, labels = columns(case, proba), np.array(["a", "b", "c"])[y]
    result = case.make().fit(X, labels, w).transform(X)
    repeated = case.make().fit(np.repeat(X, w, axis=0), np.repeat(labels, w))
    np.testing.assert_allclose(repeated.transform(X), result, rtol=0, atol=TOLERANCE)
    order = np.random.default_rng(0).permutation(150)
    shuffled = case.make().fit(X[order], labels[order], w[order])
    np.testing.assert_allclose(shuffled.transform(X), result, rtol=0, atol=TOLERANCE)
    turned = case.make().fit(X[:, ::-1], 2 - y, w).transform(X[:, ::-1])
    np.testing.assert_allclose(turned[:, ::-1], result, rtol=0, atol=1e-12)


@every_structure
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
    assert (tags.classifier_tags.multi_class, tags.estimator_type) == (case.multiclass, "classifier")
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
def test_mean_judgments_are_as_good_as_judgments(case, data):
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
    assert (found.classes_.tolist(), found.predict([0.5]).dtype) == ([0, 1], int)
    alone = calibrator.fit(p, y)
    if hasattr(alone, "training_size_"):
        assert alone.training_size_ == 110
    with pytest.raises(ValueError, match="classes are 0 and 1 if y has outcomes between them"):
        calibrator.fit(p, y, classes=[0, 1])
    with pytest.raises(ValueError, match="clusters need outcomes 0 and 1"):
        calibrator.fit(p, y, clusters=np.arange(110) // 5)
    with pytest.raises(ValueError, match="y has only samples of class 1"):
        calibrator.fit([0.2, 0.7], [0.4, 1.0], sample_weight=[0, 1])
