"""Labels and scores as the border hands them on."""

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

from sklearn_calib._validation import check_classes, check_scores
from tests._optional import pandas as pd


@pytest.mark.parametrize(
    "labels",
    [
        [3, 1, 3, 7],
        [-5, 5, 0, 5],
        [0, 1, 1, 0],
        [10**12, -(10**12), 0],
        [True, False, True],
        np.array([200, 0, 255], dtype=np.uint8),
        np.array([-128, 127, 0], dtype=np.int8),
        np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1], dtype=np.int64),
        [1.0, 0.0, 2.0],
        ["b", "a", "c", "a"],
    ],
    ids=repr,
)
def test_classes_are_those_of_unique(labels):
    check_against_unique(labels)


def test_classes_of_pandas_are_those_of_unique():
    check_against_unique(pd.Series(["x", "y"], index=[5, 3], dtype=object))
    check_against_unique(pd.Categorical(["x", "y", "x"]))


def check_against_unique(labels):
    expected, codes = np.unique(np.asarray(labels), return_inverse=True)
    found, found_codes = check_classes(labels)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found_codes, codes)
    assert found.dtype == expected.dtype
    assert found_codes.dtype == np.int64


def test_a_column_of_labels_is_flattened_with_the_usual_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        classes, codes = check_classes([[0], [1]])
    assert (classes.tolist(), codes.tolist()) == ([0, 1], [0, 1])


@pytest.mark.parametrize("labels", [["a", 1, None], np.array(["a", 1], dtype=object)], ids=repr)
def test_labels_of_mixed_types_are_refused(labels):
    with pytest.raises(ValueError, match=r"y (contains missing values|mixes labels)|Unknown label type"):
        check_classes(labels)


def test_what_two_columns_mean():
    proba = [[0.75, 0.25], [0.5, 0.5]]
    logits = [[1.0, 3.0], [0.0, -2.0]]
    assert check_scores(proba, kind="probability").tolist() == [0.25, 0.5]
    assert check_scores(proba, kind="score").tolist() == [0.25, 0.5]
    assert check_scores(logits, kind="logit").tolist() == [2.0, -2.0]
    with pytest.raises(ValueError, match="outside"):
        check_scores(logits, kind="score")


def test_scores_are_raised_to_double_precision():
    for values in (np.float32([0.1, 0.9]), np.array([0, 1]), [True, False], pd.Series([0.5, 1.0])):
        for kind in ("probability", "score", "logit"):
            found = check_scores(values, kind=kind)
            assert found.dtype == np.float64
            assert found.shape == (2,)
    assert check_scores(np.float32([0.1]), kind="score")[0] == np.float64(np.float32(0.1))


def test_several_columns_are_kept():
    proba = np.full((2, 4), 0.25)
    for kind in ("probability", "score", "logit"):
        np.testing.assert_array_equal(check_scores(proba, kind=kind), proba)
    assert check_scores([[0.1], [0.2]], kind="logit").tolist() == [0.1, 0.2]
