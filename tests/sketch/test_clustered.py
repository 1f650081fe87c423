"""The sketch of dependent samples: one pass, merges, bounds, and what is read from it."""

import copy
import pickle

import numpy as np
import pytest

from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.inference import CombinedTest, CutoffTest
from sklearn_calib.metrics import smooth_ece
from sklearn_calib.report import calibration_report
from sklearn_calib.sketch import CalibrationSketch, ClusteredSketch


def samples(n=3000, n_clusters=40, seed=0):
    rng = np.random.default_rng(seed)
    p = np.where(rng.random(n) < 0.02, np.round(rng.random(n)), rng.beta(0.5, 0.5, size=n))
    return (rng.random(n) < p).astype(int), p, rng.integers(n_clusters, size=n)


def arrays(sketch):
    found = sketch.as_weighted_sample()
    return found.y, found.p, found.w, found.clusters


def equal(one, other):
    return all(np.array_equal(a, b) for a, b in zip(arrays(one), arrays(other), strict=True))


@pytest.mark.parametrize("labels", [lambda c: c, lambda c: np.array([f"patient {k}" for k in c]), list])
def test_batches_and_merges_equal_one_pass(labels):
    y, p, clusters = samples()
    whole = ClusteredSketch().update(y, p, labels(clusters))
    parts = [ClusteredSketch() for _ in range(3)]
    order = np.random.default_rng(1).permutation(y.size)
    for k, rows in enumerate(np.array_split(order, 50)):
        parts[k % 3].update(y[rows], p[rows], labels(clusters[rows]))
    assert equal(sum(parts), whole)
    assert equal(parts[2] + parts[0] + parts[1], whole)
    assert (whole.n_samples, whole.n_clusters) == (3000, 40)
    _, p, _, clusters = arrays(whole)
    assert whole.n_cells == len(set(zip(p.tolist(), clusters.tolist(), strict=True)))
    assert equal(pickle.loads(pickle.dumps(whole)), whole)
    assert equal(copy.copy(whole), whole)


def test_predictions_are_those_of_the_sketch_of_independent_samples():
    y, p, clusters = samples()
    found = ClusteredSketch(precision=9).update(y, p, clusters).as_weighted_sample()
    plain = CalibrationSketch(precision=9).update(y, p).as_weighted_sample()
    assert np.array_equal(np.unique(found.p), np.unique(plain.p))
    for value in np.unique(plain.p):
        for outcome in (0, 1):
            mine = found.w[(found.p == value) & (found.y == outcome)].sum()
            assert mine == plain.w[(plain.p == value) & (plain.y == outcome)].sum()
    # in each cluster the numbers are those of its samples
    for label in range(40):
        own = found.clusters == label
        assert found.w[own].sum() == np.count_nonzero(clusters == label)
        assert found.w[own] @ found.y[own] == y[clusters == label].sum()
        assert found.w[own] @ found.p[own] == pytest.approx(p[clusters == label].sum(), abs=0.2)


def test_tests_of_the_sketch_are_those_of_rounded_predictions():
    y, p, clusters = samples()
    sketch = ClusteredSketch(precision=8).update(y, p, clusters)
    found = sketch.as_weighted_sample()
    given = {"sample_weight": found.w, "clusters": found.clusters}
    # the bins of the samples, by the position of their mean predictions
    bins = ClusteredSketch(precision=8).update(y, p, np.arange(y.size)).as_weighted_sample()
    rounded = np.empty_like(p)
    rounded[bins.clusters] = bins.p
    for test in (CutoffTest(n_resamples=99, random_state=0), CombinedTest(n_resamples=99, random_state=0)):
        a, b = test.test(found.y, found.p, **given), test.test(y, rounded, clusters=clusters)
        assert (a.pvalue, a.n_clusters, a.n_samples) == (b.pvalue, 40, 3000)
        assert a.statistic == pytest.approx(b.statistic, rel=1e-9)
    report = calibration_report(found.y, found.p, n_resamples=20, random_state=0, **given)
    assert report.n_clusters == 40


def test_weights_are_numbers_of_samples():
    y, p, clusters = samples(500)
    w = np.random.default_rng(0).integers(0, 3, size=500)
    weighted = ClusteredSketch().update(y, p, clusters, sample_weight=w)
    repeated = ClusteredSketch().update(*(np.repeat(part, w) for part in (y, p, clusters)))
    assert equal(weighted, repeated)
    assert weighted.n_samples == w.sum()
    with pytest.raises(ValueError, match="whole numbers"):
        weighted.update([1], [0.5], [0], sample_weight=[0.5])


def test_many_small_batches():
    y, p, clusters = samples(2000)
    sketch = ClusteredSketch()
    for k in range(2000):
        sketch.update(y[k : k + 1], p[k : k + 1], clusters[k : k + 1])
    assert equal(sketch, ClusteredSketch().update(y, p, clusters))


def test_the_number_of_cells_is_bounded():
    y, p, clusters = samples()
    sketch = ClusteredSketch(max_cells=1000).update(y[:500], p[:500], clusters[:500])
    before = arrays(sketch)
    with pytest.raises(ValueError, match="more than max_cells=1,000"):
        sketch.update(y, p, clusters)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(sketch), before, strict=True))
    # the same cells again
    for _ in range(5):
        sketch.update(y[:500], p[:500], clusters[:500])
    assert sketch.n_samples == 3000


def test_empty_sketches_and_batches():
    sketch = ClusteredSketch().update([], [], [])
    assert (sketch.n_samples, sketch.n_clusters, sketch.n_cells) == (0, 0, 0)
    assert "sketch of 0 samples" in str(sketch)
    assert "sketch of 0 samples" in sketch._repr_html_()
    assert (sketch + ClusteredSketch()).n_samples == 0
    with pytest.raises(ValueError, match="The sketch is empty"):
        sketch.as_weighted_sample()
    assert repr(sketch.update([1], [0.5], ["a"])) == "<ClusteredSketch(precision=10) of 1 samples>"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update([1], [0.5], [1, 2]), "clusters has 2 samples but y_true has 1"),
        (lambda s: s.update([1], [0.5], [np.nan]), "clusters has a missing value at index 0"),
        (lambda s: s.update([1], [0.5], ["a"]), "numbers in one batch and texts in another"),
        (lambda s: s.update([1], [1.5], [1]), "y_proba"),
        (lambda s: s.merge(ClusteredSketch(precision=12)), "precision and pos_label differ"),
        (lambda s: s.merge(ClusteredSketch(pos_label="yes")), "precision and pos_label differ"),
        (lambda s: ClusteredSketch(precision=7), "precision must be at least 8"),
    ],
)
def test_bad_input(change, message):
    sketch = ClusteredSketch().update([0, 1], [0.25, 0.75], [1, 2])
    before = arrays(sketch)
    with pytest.raises(ValueError, match=message):
        change(sketch)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(sketch), before, strict=True))
    with pytest.raises(TypeError, match="Only sketches with clusters can be merged"):
        sketch.merge(CalibrationSketch())
    with pytest.raises(TypeError):
        sketch + 1


def test_clusters_are_never_ignored():
    y, p, clusters = samples(200)
    sketch = ClusteredSketch().update(y, p, clusters)
    for call in (CutoffTest().test, smooth_ece, calibration_report, PlattCalibrator().fit):
        with pytest.raises(ValueError, match="is passed by its arrays: with s = sketch"):
            call(sketch)
    with pytest.raises(ValueError, match="Pass arrays, or those of a ClusteredSketch"):
        CutoffTest().test(CalibrationSketch().update(y, p), clusters=clusters)


def test_text_labels():
    sketch = ClusteredSketch(pos_label="yes").update(["yes", "no"], [0.75, 0.25], ["a", "b"])
    assert arrays(sketch)[0].tolist() == [0, 1]
    assert arrays(sketch)[3].tolist() == ["b", "a"]
