"""Properties of the sketch, what it refuses, and that it is left as it was."""

import json
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest

from sklearn_calib._core._binning import POSITIONS, octave_bins
from sklearn_calib.metrics import expected_calibration_error
from sklearn_calib.sketch import CalibrationSketch, WindowedSketch

EDGE = [0.0, -0.0, 5e-324, 1e-300, 2.0**-41, 2.0**-8, 0.5, np.nextafter(1.0, 0), 1.0]


def rows(n=2000, seed=0):
    """Return outcomes, predictions of all sizes with ties and edge cases, and whole-number weights."""
    rng = np.random.default_rng(seed)
    tails = 2.0 ** -rng.uniform(0, 60, n // 4)
    p = np.concatenate((rng.random(n // 4), tails, 1 - tails, rng.choice([0.1, 0.25, 0.3, *EDGE], n // 4)))
    rng.shuffle(p)
    return (rng.random(n) < p).astype(np.int64), p, rng.integers(0, 4, n)


def batches(y, p, w=None, seed=0, number=7):
    """Split rows, shuffled, in batches of unequal size."""
    rng = np.random.default_rng(seed)
    parts = np.split(rng.permutation(y.shape[0]), np.sort(rng.integers(0, y.shape[0], number)))
    return [(y[part], p[part], None if w is None else w[part]) for part in parts]


def sketch_of(y, p, w=None, **parameters):
    return CalibrationSketch(**parameters).update(y, p, sample_weight=w)


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_and_merges_in_any_order_are_one_batch_bit_for_bit(weighted):
    y, p, w = rows()
    w = w if weighted else None
    whole, incremental = sketch_of(y, p, w), CalibrationSketch()
    parts = []
    for part in batches(y, p, w):
        incremental.update(part[0], part[1], sample_weight=part[2])
        parts.append(sketch_of(*part))
    assert (incremental, sum(parts), reduce(add, parts[::-1])) == (whole, whole, whole)
    assert parts[0] + (parts[1] + parts[2]) == (parts[0] + parts[1]) + parts[2]
    assert incremental.n_samples == whole.n_samples == sum(part.n_samples for part in parts)
    for one, other in zip(whole.weighted_sample(), sum(parts).weighted_sample(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_small_and_large_batches_are_one_batch():
    y, p, _ = rows(100_000)
    whole, parts = sketch_of(y, p), CalibrationSketch()
    # gathered ones, one that fills the room exactly, and large ones between them
    sizes = [1, 2047, 2048, 2049, *[2048] * 18, 3, 40_000, 5]
    start = 0
    for size in sizes:
        part = slice(start, start + size)
        parts.update(y[part].astype(bool), p[part])
        start += size
    parts.update(y[start:], p[start:])
    assert parts == whole
    assert parts.n_samples == whole.n_samples == 100_000
    # what waits is not seen again by those who change their array
    batch = np.array([0.25, 0.5])
    sketch = CalibrationSketch().update([0, 1], batch)
    batch[:] = 1.0
    assert sketch == sketch_of([0, 1], [0.25, 0.5])
    y, p, w = rows(100_000)
    sketch, n_samples = CalibrationSketch(), 0
    # gathered ones, packed ones, and weights
    for number, part in enumerate(np.split(np.arange(100_000), [3, 100, 40_000, 40_001, 60_000, 99_000])):
        weight = w[part] if number % 3 == 2 else np.ones(part.shape[0])
        sketch.update(y[part], p[part], sample_weight=weight if number % 3 == 2 else None)
        n_samples += np.count_nonzero(weight)
        assert sketch.total_weight >= n_samples == sketch.n_samples
        w[part] = weight
    assert sketch == sketch_of(y, p, w)


def test_the_empty_sketch_is_neutral():
    sketch, empty = sketch_of(*rows()), CalibrationSketch()
    assert sketch + empty == sketch == empty + sketch
    assert (sum([]) + sketch, sum([empty, empty])) == (sketch, empty)
    assert sketch != empty
    assert empty.total_weight == empty.n_samples == empty.n_bins == 0
    empty = CalibrationSketch()
    for read in (empty.weighted_sample, lambda: empty.event_rate, lambda: empty.mean_prediction):
        with pytest.raises(ValueError, match="The sketch is empty"):
            read()


def test_merge_changes_the_left_one_only():
    first, second = sketch_of(*rows(seed=1)), sketch_of(*rows(seed=2))
    kept, both = second.copy(), first + second
    assert first.merge(second) is first
    assert (first, second) == (both, kept)
    kept.update([1], [0.5])
    assert second != kept


def test_weights_are_repetitions_and_zero_weights_are_no_rows():
    y, p, w = rows()
    repeated = sketch_of(np.repeat(y, w), np.repeat(p, w))
    assert (sketch_of(y, p, w), sketch_of(y, p, w.astype(np.float32))) == (repeated, repeated)
    assert sketch_of(y[w > 0], p[w > 0], w[w > 0]) == repeated
    twice = sketch_of(y, p, w)
    assert twice.merge(twice) == sketch_of(y, p, 2 * w)
    nothing = sketch_of(y, p, np.zeros(y.shape[0]))
    assert nothing == sketch_of([], []) == sketch_of([], [], []) == CalibrationSketch()


def test_real_weights_agree_up_to_rounding():
    y, p, _ = rows()
    w = np.random.default_rng(3).exponential(size=y.shape[0])
    whole, parts = sketch_of(y, p, w), [sketch_of(*part) for part in batches(y, p, w)]
    for one, other in zip(whole.weighted_sample(), sum(parts).weighted_sample(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-13)
    assert whole.total_weight == pytest.approx(w.sum(), rel=1e-14)


def test_weighted_sample_against_a_dictionary_of_cells():
    y, p, w = rows()
    precision = 10
    grid = octave_bins(precision)
    low, width = grid.edges(np.arange(grid.n_bins))
    cells = {}
    for outcome, value, weight in zip(y.tolist(), p.tolist(), w.tolist(), strict=True):
        if weight == 0:
            continue
        if value in (0.0, 1.0):
            index, rounded = (0 if value == 0 else grid.n_bins - 1), Fraction(value)
        else:
            # of the first two edges, both 0, the second one
            index = int(np.searchsorted(low, value, side="right")) - 1
            step = Fraction(width[index]) / POSITIONS
            rounded = Fraction(low[index]) + (Fraction(value) - Fraction(low[index])) // step * step
            rounded = max(rounded, Fraction(2) ** (-48 - precision))
        sums = cells.setdefault(index, [0, 0, Fraction(0), set()])
        sums[outcome] += weight
        sums[2] += weight * rounded
        sums[3].add(value)
    # the value itself where there is one
    expected = [
        (outcome, float(sums[2] / (sums[0] + sums[1]) if len(sums[3]) > 1 else min(sums[3])), sums[outcome])
        for _, sums in sorted(cells.items())
        for outcome in (0, 1)
        if sums[outcome]
    ]
    sketch = sketch_of(y, p, w, precision=precision)
    outcome, mean, weight = sketch.weighted_sample()
    assert outcome.tolist() == [row[0] for row in expected]
    np.testing.assert_allclose(mean, [row[1] for row in expected], rtol=1e-15, atol=0)
    assert (weight.tolist(), sketch.n_bins) == ([row[2] for row in expected], len(cells))


@pytest.mark.parametrize("unit", [1, 0.37])
def test_predictions_with_two_decimals_are_exact(unit, tmp_path):
    """Through batches of all sizes, merges, a window, and files."""
    rng = np.random.default_rng(0)
    p = rng.integers(0, 101, 5_000) / 100
    y, w = (rng.random(p.shape[0]) < p**1.2).astype(int), unit * rng.integers(1, 4, p.shape[0])
    parts = [sketch_of(*part) for part in batches(y, p, w, number=30)]
    found = {"whole": sketch_of(y, p, w), "parts": sum(parts), "window": WindowedSketch(10**6, n_slots=10)}
    for part in batches(y, p, w, number=30):
        found["window"].update(part[0], part[1], sample_weight=part[2])
    found["parts"].save(tmp_path / "sketch.json")
    found["file"] = CalibrationSketch.load(tmp_path / "sketch.json")
    found["dict"] = WindowedSketch.from_dict(json.loads(json.dumps(found["window"].to_dict())))
    # small batches without weights take another way
    unweighted = CalibrationSketch()
    for part in np.array_split(np.arange(p.shape[0]), 75):
        unweighted.update(y[part], p[part])
    for n_bins in (10, 15, 20):
        exact = expected_calibration_error(y, p, sample_weight=w, n_bins=n_bins)
        for sketch in found.values():
            outcome, mean, weight = sketch.weighted_sample()
            assert np.unique(mean).tolist() == np.unique(p).tolist()
            ece = expected_calibration_error(outcome, mean, sample_weight=weight, n_bins=n_bins)
            assert ece == pytest.approx(exact, abs=1e-12)
        outcome, mean, weight = unweighted.weighted_sample()
        ece = expected_calibration_error(outcome, mean, sample_weight=weight, n_bins=n_bins)
        assert ece == pytest.approx(expected_calibration_error(y, p, n_bins=n_bins), abs=1e-12)


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint64, np.float32, bool, object])
def test_kinds_of_outcomes(kind):
    y, p, w = rows()
    assert sketch_of(y.astype(kind), p, w) == sketch_of(y, p, w)
    assert sketch_of((2 * y - 1).astype(np.int64), p, w) == sketch_of(y, p, w)


def test_labels_with_a_positive_class():
    y, p, _ = rows()
    names, expected = np.where(y == 1, "ill", "well"), sketch_of(y, p)
    sketch = sketch_of(names, p, pos_label="ill")
    assert (sketch, sketch_of(y, p, pos_label=0)) == (expected, sketch_of(1 - y, p))
    assert sketch_of(y, p, pos_label=1) == sketch_of(y, p, pos_label=True) == expected
    # a batch of one label
    sketch = CalibrationSketch(pos_label="ill")
    for label in ("ill", "well"):
        sketch.update(names[names == label], p[names == label])
    assert sketch == expected
    assert sketch_of([1], [0.5]) + sketch_of([-1], [0.5]) == sketch_of([0, 1], [0.5, 0.5])


def test_kinds_of_predictions():
    y, p, _ = rows()
    single = p.astype(np.float32)
    wide = single.astype(np.float64)
    frozen = wide.copy()
    frozen.setflags(write=False)
    expected = sketch_of(y, wide)
    columns = single[:, np.newaxis], np.column_stack((1 - wide, wide))
    # every second element of an array, an array that must not be written to, and bytes in the other order
    others = np.repeat(wide, 2)[::2], frozen, wide.astype(np.longdouble), wide.astype(">f8")
    for kind in (single, single.tolist(), *columns, *others):
        assert sketch_of(y, kind) == expected
    for kind in (y.tolist(), y == 1, y.astype(">i8")):
        assert sketch_of(kind, wide) == expected
    with pytest.raises(ValueError, match=r"y_proba contains 1\.5"):
        sketch_of([0], np.array([1.5], dtype=">f8"))
    assert sketch_of([1, 0], [1, 0]) == sketch_of([1, 0], [1.0, 0.0])


def test_bad_batches_are_refused_and_leave_the_sketch_alone():
    for arguments, weights, message in [
        (([0, 1], [0.5, 1.5]), None, "y_proba contains 1.5 at index 1"),
        ((np.zeros(50_000), [0.5] * 49_999 + [2.0]), None, r"y_proba contains 2\.0 at index 49999"),
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
    ]:
        sketch = sketch_of([0, 1], [0.25, 0.75])
        kept = sketch.copy()
        with pytest.raises(ValueError, match=message):
            sketch.update(*arguments, sample_weight=weights)
        assert (sketch, sketch.n_samples) == (kept, 2)


def test_bad_precision():
    for value, kind in [(7, ValueError), (21, ValueError), (17.0, TypeError)]:
        with pytest.raises(kind, match="precision"):
            CalibrationSketch(precision=value)


def test_what_cannot_be_merged():
    sketch, named = sketch_of([0, 1, 1], [0.25, 0.5, 0.75]), CalibrationSketch(pos_label="a")
    for call, error, message in (
        (lambda: sketch.merge(CalibrationSketch(precision=12)), ValueError, "precision differs: 17 and 12"),
        (lambda: sketch.merge([1]), TypeError, "Only sketches can be merged, got list"),
        (lambda: named.merge(CalibrationSketch(pos_label="b")), ValueError, "pos_label differs: 'a' and 'b'"),
        (lambda: sketch + 1, TypeError, "unsupported"),
        (lambda: 1 + sketch, TypeError, "unsupported"),
        (lambda: hash(sketch), TypeError, "unhashable"),
    ):
        with pytest.raises(error, match=message):
            call()
    assert (CalibrationSketch() + named).pos_label == "a"
    assert sketch != 1
    assert CalibrationSketch(precision=12) != CalibrationSketch()
