"""What the border of the calibrators refuses, by name of the argument."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from sklearn_calib.calibrators import (
    IsotonicCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
)
from tests.calibrators._registry import CALIBRATORS

P = np.array([0.1, 0.4, 0.6, 0.9])
Y = np.array([0, 1, 0, 1])

every_calibrator = pytest.mark.parametrize("case", CALIBRATORS, ids=lambda case: case.name)


BAD_INPUT = [
    ([0.1, np.nan, 0.6, 0.9], Y, None, "X contains NaN at index 1"),
    ([0.1, np.inf, 0.6, 0.9], Y, None, "X contains inf at index 1"),
    ([], [], None, "X is empty"),
    (np.empty((0, 1)), [], None, "X is empty"),
    (np.empty((4, 0)), Y, None, r"X has 0 feature\(s\)"),
    (P.reshape(1, 2, 2), Y, None, r"X must have shape"),
    (["a", "b", "c", "d"], Y, None, "X must contain numbers only"),
    (P + 1j, Y, None, "Complex data not supported: X"),
    (P, Y[:3], None, "y has 3 samples but X has 4"),
    (P, [0, 0, 0, 0], None, "y contains only one class, 0"),
    (P, [0, 1, np.nan, 1], None, "Input y contains NaN"),
    (P, ["a", None, "b", "a"], None, "y contains missing values"),
    (P, [0.1, 0.2, 0.3, 0.4], None, "Unknown label type"),
    (P, None, None, "requires y to be passed"),
    (P, Y, [1, 1, 1], "sample_weight has 3 values"),
    (P, Y, [1, -1, 1, 1], "sample_weight contains -1 at index 1"),
    (P, Y, [1, np.nan, 1, 1], "sample_weight contains"),
    (P, Y, [0, 0, 0, 0], "sample_weight is zero everywhere"),
    (P, Y, [1, 0, 1, 0], "sample_weight is zero for all samples but those of class"),
    (P, Y, np.ones((4, 1)), r"sample_weight must have shape \(n,\)"),
]


@every_calibrator
def test_bad_input_is_named(case):
    for X, y, w, message in BAD_INPUT:
        with pytest.raises(ValueError, match=message):
            case.make().fit(X, y, w)


@every_calibrator
def test_sparse_scores_are_refused(case):
    with pytest.raises(TypeError, match="X is a sparse matrix"):
        case.make().fit(csr_array(P[:, None]), Y)


@every_calibrator
@pytest.mark.parametrize("method", ["transform", "predict_proba", "predict"])
def test_scores_are_checked_again_when_predicting(case, method):
    with pytest.raises(NotFittedError):
        getattr(case.make(), method)(P)
    call = getattr(case.make().fit(P, Y), method)
    with pytest.raises(ValueError, match="X contains NaN at index 0"):
        call([np.nan])
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 1 features"):
        call([[0.3, 0.7]])


@pytest.mark.parametrize(
    "calibrator",
    [PlattCalibrator(), TemperatureCalibrator(), OneVsRestCalibrator(PlattCalibrator())],
    ids=repr,
)
@pytest.mark.parametrize("bad", [-0.1, 1.1, 3.0])
def test_declared_probabilities_must_be_probabilities(calibrator, bad):
    with pytest.raises(ValueError, match=r"X contains .* at index 3, outside \[0, 1\]"):
        calibrator.fit([0.1, 0.2, 0.3, bad], Y)
    with pytest.raises(ValueError, match=r"X has two columns but row 1 sums to 1\.2"):
        calibrator.fit([[0.5, 0.5], [0.6, 0.6], [0.4, 0.6], [0.2, 0.8]], Y)


@pytest.mark.parametrize("calibrator", [IsotonicCalibrator(), PlattCalibrator(link="identity")], ids=repr)
def test_two_columns_are_probabilities(calibrator):
    for X in ([[-1.0, 1.0]] * 4, [[0.4, 0.4]] * 4):
        with pytest.raises(
            ValueError, match="Two columns are always read as the probabilities of both classes"
        ):
            calibrator.fit(X, Y)
    both = np.column_stack([1 - P, P])
    np.testing.assert_array_equal(
        calibrator.fit(both, Y).transform(both)[:, 1], calibrator.fit(P, Y).transform(P)
    )


def test_probabilities_of_several_classes_must_sum_to_one():
    X = np.full((6, 3), 1 / 3)
    X[4, 0] = 0.4
    for calibrator in (TemperatureCalibrator(), OneVsRestCalibrator(PlattCalibrator())):
        with pytest.raises(ValueError, match=r"X has 3 columns but row 4 sums to 1\.06667"):
            calibrator.fit(X, [0, 1, 2] * 2)
        with pytest.raises(ValueError, match=r"X contains -0.2 at index 0, outside"):
            calibrator.fit([[-0.2, 0.6, 0.6]] * 6, [0, 1, 2] * 2)
        with pytest.raises(ValueError, match=r"X contains NaN at index 0"):
            calibrator.fit([[np.nan, 0.6, 0.6]] * 6, [0, 1, 2] * 2)
    with pytest.raises(ValueError, match="X contains inf at index 2"):
        TemperatureCalibrator(link="identity").fit(
            np.array([[1.0, 2, 3], [1, 2, 3], [1, np.inf, 2]]), [0, 1, 2]
        )


@pytest.mark.parametrize(
    "case", [case for case in CALIBRATORS if hasattr(case.make(), "link")], ids=lambda c: c.name
)
def test_link_is_never_guessed(case):
    with pytest.raises(ValueError, match="link must be one of 'logit', 'identity', got 'auto'"):
        case.make().set_params(link="auto").fit(P, Y)


def test_interpolation_is_checked():
    with pytest.raises(ValueError, match="interpolation must be one of 'linear', 'step'"):
        IsotonicCalibrator(interpolation="cubic").fit(P, Y)
