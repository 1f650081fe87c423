"""The border: what is accepted, what is refused, and what the message says."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from sklearn_calib import _validation as v
from sklearn_calib.calibrators import HistogramBinningCalibrator, SplineCalibrator
from sklearn_calib.datasets import make_forecasts, make_multiclass_forecasts
from sklearn_calib.inference import HosmerLemeshowTest, TCal
from sklearn_calib.metrics import expected_calibration_error, lower_distance_to_calibration, smooth_ece
from sklearn_calib.monitor import CalibrationMonitor
from sklearn_calib.report import calibration_report
from sklearn_calib.sketch import CalibrationSketch, WindowedSketch


@pytest.mark.parametrize("rounded", [1 + 2**-52, float(np.nextafter(np.float32(1), np.float32(2))), -1e-17])
def test_rounding_errors_are_clipped(rounded):
    assert v.check_binary([0, 1], [0.5, rounded]).p[1] == round(rounded)


def test_numpy_labels_of_width_64_are_not_copied():
    y = np.array([0, 1, 1])
    assert v.check_labels(y) is y
    p = np.array([0.1, 0.2, 0.3])
    assert v.check_probabilities(p) is p


def test_labels():
    for labels, pos_label, expected in [
        ([1, 2, 2], None, [0, 1, 1]),
        ([-1, 1, 1], None, [0, 1, 1]),
        ([1, 1, 1], None, [1, 1, 1]),
        ([-1, -1], None, [0, 0]),
        ([True, False], None, [1, 0]),
        ([0, 1], 0, [1, 0]),
        ([0, 1], True, [0, 1]),
        ([0.0, 1.0], None, [0, 1]),
        (["b", "a"], None, [1, 0]),
        (["b", "a"], "a", [0, 1]),
        ([3, 3], 3, [1, 1]),
        ([3, 3], 4, [0, 0]),
        ([-1, 0], None, [0, 1]),
        (np.array([0, 1], dtype=np.uint8), None, [0, 1]),
        (np.array([2**40, 1]), None, [1, 0]),
    ]:
        found = v.check_labels(labels, pos_label)
        assert (found.dtype, found.tolist()) == (np.int64, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, bool, object])
def test_numbers_of_any_type_are_probabilities(dtype):
    found = v.check_probabilities(np.array([0, 1, 1], dtype=dtype))
    assert (found.dtype, found.tolist()) == (np.float64, [0, 1, 1])


def test_minus_zero_becomes_zero():
    assert not np.signbit(v.check_probabilities(np.array([-0.0, 0.5]))).any()


@pytest.mark.parametrize(
    "bad", [[0.5 + 0.1j], ["0.5"], [b"0.5"], np.array(["2020"], dtype="M8[Y]"), [[[0.5]]]]
)
def test_not_probabilities(bad):
    with pytest.raises(ValueError, match="y_proba"):
        v.check_probabilities(bad)


def test_weights():
    assert v.check_weights([1, 0], 2).tolist() == [1, 0]
    sample = v.check_binary([0, 1], [0.5, 0.2], [1, 0])
    assert (sample.y.tolist(), sample.total) == ([0], 1)
    with pytest.raises(ValueError, match="sums to inf, but must sum to"):
        v.check_weights([1e308, 1e308], 2)
    assert v.check_frequency_weights(np.array([1.0, 3.0])).tolist() == [1, 3]
    with pytest.raises(ValueError, match=r"whole numbers .* got 0\.5 at index 1\. Pass weights='sampling'"):
        v.check_frequency_weights(np.array([1.0, 0.5]))


def test_parameters():
    assert (v.check_positive(2, "width"), v.check_fraction(0.25, "share")) == (2.0, 0.25)
    assert (v.check_integer(np.int32(3), "count"), v.check_option("a", "kind", ("a", "b"))) == (3, "a")
    for check, bad, error in (
        (v.check_positive, 0, ValueError),
        (v.check_positive, float("nan"), ValueError),
        (v.check_positive, "1", TypeError),
        (v.check_positive, True, TypeError),
        (v.check_fraction, 1, ValueError),
        (v.check_fraction, None, TypeError),
        (v.check_integer, 0, ValueError),
        (v.check_integer, 1.0, TypeError),
    ):
        with pytest.raises(error, match="name"):
            check(bad, "name")
    with pytest.raises(ValueError, match="kind must be one of 'a', 'b', got 'c'"):
        v.check_option("c", "kind", ("a", "b"))
    with pytest.raises(ValueError, match="kind must be one of 'a', 'b' or None, got 'none'"):
        v.check_option("none", "kind", ("a", "b"), "None")
    with pytest.raises(ValueError, match="kind"):
        v.check_option(["a"], "kind", ("a", "b"))


def test_sizes_have_a_largest():
    for call, name, largest in [
        (lambda n: expected_calibration_error([0, 1], [0.2, 0.4], n_bins=n), "n_bins", 10**7),
        (lambda n: HosmerLemeshowTest(n_bins=n).test([0, 1], [0.2, 0.4]), "n_bins", 10**7),
        (lambda n: HistogramBinningCalibrator(n_bins=n).fit([0.2, 0.4], [0, 1]), "n_bins", 10**7),
        (lambda n: lower_distance_to_calibration([0, 1], [0.2, 0.4], n_bins=n), "n_bins", 10_000),
        (lambda n: SplineCalibrator(n_knots=n).fit([0.1, 0.2, 0.3], [0, 1, 0]), "n_knots", 1000),
        (lambda n: TCal(n_resamples=n).test([0, 1], [0.2, 0.4]), "n_resamples", 10**7),
        (lambda n: make_forecasts(n), "n_samples", 10**9),
        (lambda n: make_multiclass_forecasts(10**8, n_classes=n), "n_classes", 10),
        (lambda n: CalibrationMonitor(run_length=n), "run_length", 2**53),
        (lambda n: WindowedSketch(n, n_slots=1), "window", 2**53),
        (lambda n: WindowedSketch(1.0, n_slots=n), "n_slots", 10**7),
    ]:
        for wrong in (largest + 1, 10**300):
            with pytest.raises(ValueError, match=f"{name} must be at most {largest}, got"):
                call(wrong)


def test_what_numpy_cannot_read_is_named():
    class Elsewhere:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("memory of another device.")

    with pytest.raises(TypeError, match="y_proba is a Elsewhere that numpy cannot read: memory of another"):
        smooth_ece([0, 1], Elsewhere())


def _boxed(cells):
    """Return an array of objects, one for each cell, whatever the cells are."""
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


@pytest.mark.parametrize(
    "refused",
    [
        lambda y, p: smooth_ece(y, p),
        lambda y, p: TCal().test(y, p),
        lambda y, p: HistogramBinningCalibrator().fit(p, y),
        lambda y, p: CalibrationSketch(pos_label=1).update(y, p),
        lambda y, p: CalibrationMonitor().update(y, p),
        lambda y, p: calibration_report(y, p),
    ],
)
def test_complex_labels_and_collections_are_refused_by_name(refused):
    p = np.array([0.2, 0.5, 0.7, 0.4])
    with pytest.raises(ValueError, match=r"Complex data not supported: (y_true|y) must"):
        refused(np.array([0, 1, 1, 0], dtype=complex), p)
    tuples = _boxed([("a", 0), ("b", 1), ("b", 1), ("a", 0)])
    with pytest.raises(ValueError, match=r"^(y_true|y) contains the tuple \('a', 0\)\. Pass a number"):
        refused(tuples, p)
    with pytest.raises(ValueError, match="contains the frozenset"):
        refused(_boxed([frozenset([k % 2]) for k in range(4)]), p)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, X, y, w: smooth_ece(y, y),
        lambda model, X, y, w: model.fit(X, y, w),
        lambda model, X, y, w: make_pipeline(model).fit_transform(X, y, splinecalibrator__sample_weight=w),
    ],
    ids=["function", "fit", "pipeline"],
)
def test_warnings_name_the_line_of_the_caller(call):
    rng = np.random.default_rng(0)
    p, w = rng.random(400), rng.uniform(0.5, 1.5, 400) / 1e3
    y = (rng.random(400) < p).astype(int)
    with pytest.warns(UserWarning, match="y_proba contains only|sample_weight sums") as caught:
        call(SplineCalibrator(), p[:, np.newaxis], y, w)
    assert {found.filename for found in caught} == {__file__}
