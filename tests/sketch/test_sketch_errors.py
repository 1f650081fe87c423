"""What a sketch refuses, and that it is left as it was."""

import numpy as np
import pytest

from sklearn_calib.sketch import CalibrationSketch


def sketch_of(y, p, w=None, **parameters):
    return CalibrationSketch(**parameters).update(y, p, sample_weight=w)


@pytest.mark.parametrize(
    ("arguments", "weights", "message"),
    [
        (([0, 1], [0.5, 1.5]), None, "y_proba contains 1.5 at index 1"),
        (([0, 1], [0.5, np.nan]), None, "y_proba contains NaN at index 1"),
        (([0, 1], np.array([0.5, np.inf], dtype=np.float32)), None, "y_proba contains inf at index 1"),
        (([0, 1], ["a", "b"]), None, "y_proba must contain numbers"),
        (([0, 1], [[0.1, 0.2, 0.7]] * 2), None, "y_proba must have shape"),
        (([0, 1, 1], [0.5, 0.5]), None, "y_true has 3 samples but y_proba has 2"),
        (([0, 1, 2], [0.5] * 3), None, "y_true has 3 distinct values"),
        (([1, 2], [0.5] * 2), None, r"y_true has the labels \[1, 2\]"),
        (([0.0, np.nan], [0.5] * 2), None, "y_true contains nan at index 1"),
        ((["no", "yes"], [0.5] * 2), None, "Name the positive class by the parameter pos_label"),
        ((["no", "no"], [0.5] * 2), None, "y_true contains the single label"),
        (([0, 1], [0.5] * 2), [1, -1], "sample_weight contains -1"),
        (([0, 1], [0.5] * 2), [1, np.inf], "sample_weight contains inf"),
        (([0, 1], [0.5] * 2), [1], "sample_weight has 1 values"),
        (([0, 1], [0.5] * 2), ["a", "b"], "sample_weight must contain numbers"),
        (([0, 1], [0.5] * 2), [1e308, 1e308], "sample_weight sums to inf"),
    ],
)
def test_bad_batches_are_refused_and_leave_the_sketch_alone(arguments, weights, message):
    sketch = sketch_of([0, 1], [0.25, 0.75])
    kept = sketch.copy()
    with pytest.raises(ValueError, match=message):
        sketch.update(*arguments, sample_weight=weights)
    assert sketch == kept
    assert sketch.n_samples == 2


def test_a_fault_in_a_late_row_leaves_the_sketch_alone():
    p = np.full(50_000, 0.5)
    p[-1] = 2.0
    sketch = CalibrationSketch()
    with pytest.raises(ValueError, match=r"y_proba contains 2\.0 at index 49999"):
        sketch.update(np.zeros(50_000), p)
    assert sketch == CalibrationSketch()


@pytest.mark.parametrize(
    ("value", "kind"), [(7, ValueError), (21, ValueError), (17.0, TypeError), (True, TypeError)]
)
def test_bad_precision(value, kind):
    with pytest.raises(kind, match="precision"):
        CalibrationSketch(precision=value)


def test_what_cannot_be_merged():
    sketch = sketch_of([0, 1, 1], [0.25, 0.5, 0.75])
    with pytest.raises(ValueError, match="precision differs: 17 and 12"):
        sketch.merge(CalibrationSketch(precision=12))
    with pytest.raises(TypeError, match="Only sketches can be merged, got list"):
        sketch.merge([1])
    with pytest.raises(ValueError, match="pos_label differs: 'a' and 'b'"):
        CalibrationSketch(pos_label="a").merge(CalibrationSketch(pos_label="b"))
    assert (CalibrationSketch() + CalibrationSketch(pos_label="a")).pos_label == "a"
    with pytest.raises(TypeError):
        sketch + 1
    with pytest.raises(TypeError):
        1 + sketch
    with pytest.raises(TypeError):
        sketch - 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(sketch)
    assert sketch != 1
    assert CalibrationSketch(precision=12) != CalibrationSketch()


def test_one_sample_is_singular():
    assert str(sketch_of([1], [0.5])).startswith("sketch of 1 sample\n")


def test_empty_sketches_say_so():
    empty = CalibrationSketch()
    for read in (empty.weighted_sample, lambda: empty.event_rate, lambda: empty.mean_prediction):
        with pytest.raises(ValueError, match="The sketch is empty"):
            read()
