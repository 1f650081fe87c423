"""The sequential test against its definition: martingale, level at every time, power, streams."""

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_calib._core import _blocks
from sklearn_calib.inference import SequentialTest
from sklearn_calib.inference._betting import _sequential
from sklearn_calib.metrics import cutoff_calibration_error
from tests._samples import simulated
from tests.inference._bets import reference, wealth_of_batches


def e_path(y, p, **kwargs):
    return np.exp(SequentialTest().test(np.asarray(y), p, pos_label=1, **kwargs).log_e_path)


def draw(n, seed, p_of_truth=None):
    """Return predictions p and outcomes with probability p_of_truth(p)."""
    return simulated(n, "uniform", 0.02, 0.98, seed=seed, truth=p_of_truth or 1.0)


@pytest.mark.parametrize(
    ("block", "chunk", "n", "truth"),
    [(32, 8192, 80, None), (32, 11, 80, np.square), (7, 8192, 40, lambda p: 1 - p), (7, 11, 40, "tied")],
)
def test_equals_the_definition(monkeypatch, block, chunk, n, truth):
    monkeypatch.setattr("sklearn_calib.inference._betting._bets.BLOCK", block)
    monkeypatch.setattr(_blocks, "BLOCK_ROWS", chunk)
    y, p = draw(n, n + chunk, truth if callable(truth) else None)
    if truth == "tied":
        p = np.random.default_rng(4).choice([0.1, 0.11, 0.5, 0.9, 0.997], n)
    rows = [[row] for row in zip(y.tolist(), p.tolist(), strict=True)]
    np.testing.assert_allclose(e_path(y, p), reference(rows, block=block), rtol=1e-10)


def test_rejected_at():
    y, p = draw(800, 10, np.square)
    result = SequentialTest().test(y, p)
    for alpha in (0.5, 0.05, 1e-3):
        row = result.rejected_at(alpha)
        assert result.log_e_path[row - 1] >= -math.log(alpha) > result.log_e_path[: row - 1].max()
        assert SequentialTest().test(y[:row], p[:row]).rejects(alpha)
        assert not SequentialTest().test(y[: row - 1], p[: row - 1]).rejects(alpha)
    assert result.statistic == max(0.0, result.log_e_path.max())
    assert (result.pvalue, result.log_e_value) == (math.exp(-result.statistic), result.log_e_path[-1])
    assert f"after observation {1 + result.log_e_path.argmax()}," in result.reason
    with pytest.raises(ValueError, match="alpha"):
        result.rejected_at(1.0)


@pytest.mark.parametrize("chunk", [8192, 50])
def test_any_cutting_gives_the_same(monkeypatch, chunk):
    monkeypatch.setattr(_blocks, "BLOCK_ROWS", chunk)
    rng = np.random.default_rng(11)
    y, p = draw(700, 12, np.sqrt)
    p[::50], y[::50] = 0.0, 0
    p[1::70], y[1::70] = 1.0, 1
    times = rng.integers(0, 3, 700)
    times[::20] = 1
    whole = SequentialTest().test(y, p, sample_weight=times, weights="frequency")
    for cuts in ([], [1, 350], [*range(1, 40)], [20, 21, 40, 400, 680]):
        stream, paths = SequentialTest(), []
        for rows in np.split(np.arange(700), cuts):
            if not times[rows].any():
                continue
            stream = pickle.loads(pickle.dumps(stream))
            stream.partial_fit(p[rows], y[rows], times[rows], weights="frequency", classes=[0, 1])
            paths.append(stream.result_.log_e_path)
            assert stream.result_.n_before + len(paths[-1]) == stream.n_samples_
        np.testing.assert_allclose(np.concatenate(paths), whole.log_e_path, rtol=1e-10, atol=1e-10)
        assert stream.n_samples_ == whole.n_samples == times.sum()
        assert stream.statistic_ == stream.max_log_e_value_ == pytest.approx(whole.statistic, rel=1e-10)
        assert stream.log_e_value_ == pytest.approx(whole.log_e_value, rel=1e-10)
        assert stream.e_value_ == pytest.approx(math.exp(whole.log_e_value), rel=1e-9)
        assert stream.pvalue_ == pytest.approx(whole.pvalue, rel=1e-9)
        assert stream.result_.estimate == pytest.approx(whole.estimate, rel=1e-10)


def test_state_does_not_grow():
    y, p = draw(20_000, 13)
    short, long = (SequentialTest().fit(p[:n], y[:n])._stream for n in (200, 20_000))
    assert len(pickle.dumps(long)) < len(pickle.dumps(short)) + 200


def test_weights_and_clusters_that_are_refused(monkeypatch):
    y, p = draw(60, 14)
    test, two = SequentialTest(), np.full(60, 2)
    for call, message in (
        (lambda: test.test(y, p, sample_weight=two * 2**39, weights="frequency"), "sample_weight"),
        (lambda: test.fit(p, y, two / 4, weights="frequency"), "sample_weight"),
        # a later part of the stream could have other weights
        (lambda: test.fit(p, y, two), "weights='frequency'"),
        (lambda: test.partial_fit(p, y, two), "weights='frequency'"),
        (lambda: test.test(y, p, sample_weight=np.arange(60)), "weights='frequency'"),
        (lambda: test.test(y, p, clusters=np.arange(60) % 20), "clusters must follow each other"),
        (lambda: test.fit(p, y, clusters=np.arange(60) // 2), "clusters cannot be passed to fit"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    monkeypatch.setattr(_sequential, "_MOST_REPEATED", 5)
    assert SequentialTest().test([1, 0], [0.4, 0.3], sample_weight=[2, 3], weights="frequency").n_samples == 5
    with pytest.raises(ValueError, match="one by one"):
        SequentialTest().test([1, 0], [0.4, 0.3], sample_weight=[3, 3], weights="frequency")


def test_certain_forecasts():
    y, p = draw(100, 15)
    at, certain = [0, 10, 10, 50, 100], np.array([0, 1, 0, 1, 1])
    filled = SequentialTest().test(np.insert(y, at, certain), np.insert(p, at, certain.astype(float)))
    plain = SequentialTest().test(y, p)
    assert (filled.statistic, filled.log_e_value) == (plain.statistic, plain.log_e_value)
    assert (filled.log_e_path[0], filled.n_samples) == (0.0, 105)
    stream = SequentialTest().fit(p, y)
    assert stream.pvalue_ > 0
    stream.partial_fit([0.5, 0.0, 0.5], [1, 1, 0])
    assert stream.pvalue_ == 0.0
    assert stream.e_value_ == stream.statistic_ == np.inf
    assert "impossible: y = 1 where p = 0" in stream.result_.reason
    np.testing.assert_array_equal(np.isinf(stream.result_.log_e_path), [False, True, True])
    assert stream.result_.rejected_at(0.01) == 102
    stream.partial_fit(p, y)
    assert np.isinf(stream.log_e_value_)
    assert stream.pvalue_ == 0.0


@pytest.mark.parametrize("p", [1e-300, 5e-324, 1e-17, 1 - 2.0**-53])
def test_extreme_forecasts_are_exact(p):
    """The most that the tree and the grid can win and lose stays finite; fair bets stay fair."""
    for label in (0, 1):
        result = SequentialTest().test([label] * 50, [p] * 50, pos_label=1)
        assert np.isfinite(result.log_e_path).all()
        assert result.pvalue > 0
    won, lost = (e_path([label], [p])[0] for label in (1, 0))
    assert p * won + (1 - p) * lost == pytest.approx(1.0, rel=1e-10)


def test_estimate_is_the_cutoff_error_of_bins():
    """Equal to the metric if predictions in a cell are equal, and not above it."""
    y, p = draw(500, 16, np.square)
    cells = np.floor(2 / np.pi * np.arcsin(np.sqrt(p)) * 81)
    middles = np.sin((cells + 0.5) / 81 * np.pi / 2) ** 2
    assert SequentialTest().test(y, middles).estimate == pytest.approx(cutoff_calibration_error(y, middles))
    assert SequentialTest().test(y, p).estimate <= cutoff_calibration_error(y, p) + 1e-12
    assert SequentialTest().test([1], [0.3], pos_label=1).estimate == pytest.approx(0.7)


def test_labels_of_a_stream():
    p = [0.2, 0.7]
    expected = SequentialTest().test([0, 0, 1, 0], p * 2).log_e_value
    for first, second, classes, known in [
        ([0, 0], [1, 0], None, [0, 1]),
        ([False, False], [True, False], None, [False, True]),
        ([-1, -1], [1, -1], None, [-1, 1]),
        (["no", "no"], ["yes", "no"], ["no", "yes"], ["no", "yes"]),
        ([7, 7], [9, 7], [7, 9], [7, 9]),
    ]:
        stream = SequentialTest().partial_fit(p, first, classes=classes)
        stream.partial_fit(p, second, classes=classes)
        np.testing.assert_array_equal(stream.classes_, known)
        assert stream.log_e_value_ == pytest.approx(expected, rel=1e-10)
        assert 0 < stream.score(p, second) <= 1
    for y, classes, message in [
        (["a", "a"], None, r"single label 'a'.*classes"),
        ([3, 3], None, "single label 3"),
        ([0, 1], [0, 1, 2], "two distinct"),
    ]:
        with pytest.raises(ValueError, match=message):
            SequentialTest().partial_fit(p, y, classes=classes)
    with pytest.raises(ValueError, match="differs"):
        SequentialTest().partial_fit(p, [0, 1]).partial_fit(p, [0, 1], classes=[0, 2])


def test_bad_data_leave_the_stream_as_it_was():
    y, p = draw(50, 17)
    stream = SequentialTest().fit(p, y)
    before = pickle.dumps(stream)
    for bad_p, bad_y, w, named in [
        ([0.2, 1.5], [0, 1], None, "y_proba"),
        ([0.2, np.nan], [0, 1], None, "y_proba"),
        ([0.2], [0, 1], None, "samples but"),
        ([], [], None, "empty"),
        ([0.2, 0.3], [0, 1], [1, -1], "sample_weight"),
        ([0.2, 0.3], [0, 1], [1, 0.5], "sample_weight"),
    ]:
        for method in (stream.partial_fit, stream.fit):
            with pytest.raises(ValueError, match=named):
                method(bad_p, bad_y, w)
    with pytest.raises(ValueError, match="contains 2, which is not one of"):
        stream.partial_fit([0.2, 0.3], [0, 2])
    with pytest.raises(ValueError, match="3 distinct values"):
        stream.fit([0.2, 0.3, 0.4], [0, 1, 2])
    assert pickle.dumps(stream) == before


def test_streams():
    y, p = draw(800, 10, np.square)
    stream = SequentialTest().fit(p[:400], y[:400])
    assert stream.pvalue_ <= 0.05
    row = stream.result_.rejected_at(0.05)
    assert row == SequentialTest().test(y, p).rejected_at(0.05)
    stream.partial_fit(p[400:], y[400:])
    with pytest.raises(ValueError, match="first 400 observations"):
        stream.result_.rejected_at(0.05)
    y, p = draw(90, 18)
    stream = SequentialTest().partial_fit(p, y).partial_fit(p, y)
    assert (stream.n_samples_, stream.fit(p, y).result_) == (180, SequentialTest().test(y, p))
    assert not hasattr(clone(stream), "result_")
    single = SequentialTest()
    for p, y in ((0.3, 1), (np.float64(0.6), np.int64(0)), (np.array(0.9), np.array(1))):
        single.partial_fit(p, y, classes=[0, 1])
    batch = SequentialTest().partial_fit([0.3, 0.6, 0.9], [1, 0, 1])
    assert (single.n_samples_, single.log_e_value_) == (3, pytest.approx(batch.log_e_value_))
    assert single.result_.rejected_at() is None


@pytest.mark.filterwarnings("ignore:.*clusters")
@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_against_a_loop(weighted):
    """Each recalibration is multiplied by its mean likelihood ratio over the cluster."""
    rng, clusters = np.random.default_rng(4), np.repeat([3, 1, 4, 0, 2], [20, 35, 7, 1, 30])
    p = rng.uniform(0.05, 0.95, clusters.size)
    y = (rng.random(clusters.size) < p).astype(int)
    w = rng.integers(1, 4, clusters.size) if weighted else np.ones(clusters.size, dtype=int)
    given = {"sample_weight": w, "weights": "frequency"} if weighted else {}
    result = SequentialTest().test(y, p, clusters=clusters, **given)
    parts = [(y[rows], p[rows], w[rows]) for rows in (clusters == name for name in [3, 1, 4, 0, 2])]
    path, before = [], 1.0
    for wealth, part in zip(wealth_of_batches(parts), parts, strict=True):
        path += [before] * (int(part[2].sum()) - 1) + [wealth]
        before = wealth
    np.testing.assert_allclose(np.exp(result.log_e_path), path)
    assert (result.pvalue, result.n_clusters) == (pytest.approx(1 / max(1.0, *path)), 5)
