"""Segments in which predictions are off: a slow search from the definition, samples in words, bad input."""

import tracemalloc
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from sklearn_calib.inference import find_segments, multicalibration_error
from sklearn_calib.metrics import cutoff_calibration_error
from tests._tiers import thorough, weekly


def data(n=1500, seed=0, off=0.25):
    """Return features, outcomes and predictions that are too low for young customers in the south."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n).astype(float)
    age[rng.random(n) < 0.1] = np.nan
    X = {"age": age, "region": rng.choice(["north", "south", "west"], n), "children": rng.integers(0, 3, n)}
    p = rng.uniform(0.1, 0.6, n)
    truth = p + off * ((age <= 35) & (X["region"] == "south"))
    return X, (rng.random(n) < truth).astype(int), p


def single_segments(X, size):
    """Return the bins, half-lines and categories of each feature, as masks by words, from the definition."""
    found = []
    for name, values in X.items():
        own, missing = {}, np.array([value != value for value in values.tolist()])
        if values.dtype.kind == "f":
            repeated = np.sort(np.repeat(values[~missing], size[~missing].astype(int)))
            edges = [repeated[-(-len(repeated) * k // 5) - 1] for k in range(1, 5)]
            own[f"{name} <= {edges[0]:g}"] = values <= edges[0]
            own[f"{name} > {edges[-1]:g}"] = values > edges[-1]
            for low, high in pairwise(edges):
                own[f"{low:g} < {name} <= {high:g}"] = (values > low) & (values <= high)
            for edge in edges[1:]:
                own[f"{name} <= {edge:g}"] = values <= edge
            for edge in edges[:-1]:
                own[f"{name} > {edge:g}"] = values > edge
        else:
            for value in np.unique(values):
                own[f"{name} = {value}"] = values == value
            if values.dtype.kind == "i":
                own[f"{name} <= 1"], own[f"{name} > 0"] = values <= 1, values > 0
        if missing.any():
            own[f"{name} missing"] = missing
        found.append(own)
    return found


def every_segment(X, y, p, size=None, weight=None):
    """Return the mask of each segment that is tested, by its words."""
    size = np.ones(len(y)) if size is None else size
    weight = np.ones(len(y)) if weight is None else weight
    singles, masks = single_segments(X, size), {"all samples": np.ones(len(y), dtype=bool)}
    for own in singles:
        masks |= own
    for a, b in combinations(singles, 2):
        masks |= {f"{s} and {t}": inside & also for s, inside in a.items() for t, also in b.items()}
    v = size * p * (1 - p)

    def is_tested(words, inside):
        enough = (weight * v)[inside].sum() ** 2 >= 10 * (weight**2 * v)[inside].sum()
        return size[inside].sum() >= 50 and enough and (words == "all samples" or not inside.all())

    return {words: inside for words, inside in masks.items() if is_tested(words, inside)}


def test_search_is_that_of_the_definition():
    X, y, p = data()
    masks, v = every_segment(X, y, p), p * (1 - p)
    z = {words: (y - p)[inside].sum() / np.sqrt(v[inside].sum()) for words, inside in masks.items()}
    result = find_segments(X, y, p, n_resamples=199)
    assert result.n_tested == len(masks)
    first = result.segments[0]
    assert first.segment == max(z, key=lambda words: abs(z[words])) == "age <= 32 and region = south"
    for row in result.segments:
        inside = masks[row.segment]
        numbers = [row.n_samples, row.observed, row.predicted, row.difference, row.z]
        expected = [inside.sum(), y[inside].mean(), p[inside].mean(), (y - p)[inside].mean(), z[row.segment]]
        np.testing.assert_allclose(numbers, expected, rtol=1e-9)
    # the null distribution of the largest abs(z), from other simulations
    rng = np.random.default_rng(5)
    residuals = (rng.random((len(y), 1000)) < p[:, None]) - p[:, None]
    inside = np.array(list(masks.values()), dtype=float)
    largest = np.abs(inside @ residuals / np.sqrt(inside @ (p * (1 - p)))[:, None]).max(axis=0)
    calibrated = find_segments(X, (rng.random(len(y)) < p).astype(int), p, n_resamples=999)
    assert calibrated.segments == ()
    critical = np.quantile(largest, 0.95)
    # Wilson's interval with the simulated quantile: (observed - q)^2 = c^2 V / n^2 * q (1 - q) / (m (1 - m))
    m, q = first.predicted, first.predicted + np.array([first.lower, first.upper])
    ratio = (first.observed - q) ** 2 / (q * (1 - q)) * m * (1 - m)
    scale = (first.difference / first.z) ** 2
    np.testing.assert_allclose(np.sqrt(ratio / scale), critical, rtol=0.06)


def test_given_columns():
    X, y, p = data()
    result = find_segments(X, y, p, segments=["region", "age"])
    bins = ["age <= 32", "32 < age <= 44", "44 < age <= 56", "56 < age <= 68", "age > 68", "age missing"]
    regions = ["region = north", "region = south", "region = west"]
    assert sorted(row.segment for row in result.segments) == sorted(["all samples", *bins, *regions])
    z = [abs(row.z) for row in result.segments]
    assert z == sorted(z, reverse=True)
    for row in result.segments:
        assert (row.lower > 0 or row.upper < 0) == (row.adjusted_pvalue <= 0.05)
    assert result.pvalue == result.segments[0].adjusted_pvalue
    assert find_segments(X, y, p, segments="region") == find_segments(X, y, p, segments=[1])
    message = r"segments contains 'income', which X has no column of.*'age', 'region'"
    with pytest.raises(ValueError, match=message):
        find_segments(X, y, p, segments=["income"])


def test_distinct_segments():
    """Segments that contain the miscalibrated one, or lie in it, are not reported besides."""
    X, y, p = data(6000, off=0.25)
    young = (X["age"] <= 30) & (X["region"] == "north")
    y = np.where(young, np.random.default_rng(3).random(6000) < p - 0.1, y).astype(int)
    rows = find_segments(X, y, p, n_resamples=199).segments
    words = ["age <= 42 and region = south", "age <= 29 and region = north"]
    assert [row.segment for row in rows] == words
    assert rows[0].difference > 0 > rows[1].difference


def test_tables():
    X, y, p = data()
    expected, frame = find_segments(X, y, p, n_resamples=99), pd.DataFrame(X)
    for table in (frame, frame.astype({"region": "category"}), pl.DataFrame(X), frame.to_numpy(dtype=object)):
        found = find_segments(table, y, p, n_resamples=99)
        names = [row.segment for row in found.segments]
        if isinstance(table, np.ndarray):
            names = [s.replace("x0", "age").replace("x1", "region").replace("x2", "children") for s in names]
        assert names == [row.segment for row in expected.segments]
    array = find_segments(frame[["age"]].to_numpy(), y, p, segments=[0], n_resamples=99)
    assert {row.segment for row in array.segments} >= {"x0 <= 32", "x0 missing"}
    days = np.datetime64("2024-01-01") + np.arange(1500)
    for name, values, words in (("day", days, "2024-10-26"), ("since", days - days[0], "299 days")):
        found = find_segments(pd.DataFrame({name: values}), y, p, segments=[name], n_resamples=99)
        assert f"{name} <= {words}" in {row.segment for row in found.segments}
    X, y, p = data(800)
    wanted = find_segments({"x0": X["age"], "x1": X["region"]}, y, p, n_resamples=19)
    rows = list(zip(X["age"], X["region"], strict=True))
    for table in (rows, np.array(rows, dtype=object), [list(row) for row in rows]):
        assert find_segments(table, y, p, n_resamples=19) == wanted


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_order_of_the_rows_does_not_matter(n_classes):
    X, y, p = data(600)
    rng = np.random.default_rng(2)
    p, order, clusters = p.round(2), rng.permutation(600), rng.integers(0, 60, 600)
    if n_classes == 3:
        p, y = np.column_stack([p, (1 - p) / 3, 2 * (1 - p) / 3]), rng.integers(0, 3, 600)
    turned = {name: values[order] for name, values in X.items()}
    for given in ({}, {"clusters": clusters}, {"sample_weight": rng.uniform(1, 2, 600)}):
        moved = {name: values[order] for name, values in given.items()}
        for function in (find_segments, multicalibration_error):
            found = function(X, y, p, n_resamples=19, **given)
            other = function(turned, y[order], p[order], n_resamples=19, **moved)
            assert (found.pvalue, str(found)) == (other.pvalue, str(other))


@pytest.mark.thorough
def test_segments_of_too_few_samples_take_no_memory():
    """Of 40 columns with 100 levels each, 7.8 million pairs of levels have about 4 samples."""
    rng = np.random.default_rng(0)
    X = {f"c{j}": np.char.add("c", rng.integers(0, 100, 6000).astype(str)) for j in range(40)}
    p = rng.uniform(0.3, 0.7, 6000)
    tracemalloc.start()
    found = find_segments(X, (rng.random(6000) < p).astype(int), p, n_resamples=19)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 3000 < found.n_tested <= 4001
    assert peak < 300e6


def test_frequencies_are_repeated_samples():
    X, y, p = data()
    w = np.random.default_rng(1).integers(0, 4, len(y))
    repeated = {name: np.repeat(values, w) for name, values in X.items()}
    a = find_segments(X, y, p, sample_weight=w, weights="frequency")
    b = find_segments(repeated, np.repeat(y, w), np.repeat(p, w))
    assert (a.weights, a.n_samples, a.n_tested) == ("frequency", w.sum(), b.n_tested)
    for one, other in zip(a.segments, b.segments, strict=True):
        assert (one.segment, one.z) == (other.segment, pytest.approx(other.z))
        assert one.lower == pytest.approx(other.lower, abs=0.01)


def test_sampling_weights():
    """Only the weighted population is calibrated: the level holds, and it is not that of the samples."""
    X, _, p = data(4000, off=0.0)
    rejected = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        half = rng.random(4000) < 0.5
        truth = p + np.where(half, 0.08, -0.02)
        y = (rng.random(4000) < truth).astype(int)
        found = find_segments(X, y, p, sample_weight=np.where(half, 1.0, 4.0), n_resamples=99)
        rejected.append(bool(found.segments))
        assert found.weights == "sampling"
    # at level .05 more than 2 have a probability of .002
    assert sum(rejected) <= 2
    assert find_segments(X, y, p, n_resamples=99).segments
    row = find_segments(X, y, p, sample_weight=np.where(half, 1.0, 4.0), segments="region").segments[0]
    inside, w = np.ones(4000, dtype=bool), np.where(half, 1.0, 4.0)
    if row.segment != "all samples":
        inside = X["region"] == row.segment[-5:].strip("= ")
    assert row.difference == pytest.approx(np.average((y - p)[inside], weights=w[inside]))


def test_weights_that_nearly_depend_on_the_class_alone():
    """Variances are continuous in the weights: noise of 1e-5 changes no segment."""
    X, y, p = data(12_000, off=0.2)
    rng = np.random.default_rng(0)
    y[(X["region"] == "north") & (rng.random(12_000) < 0.2)] = 0
    kept = (y == 1) | (rng.random(12_000) < 1 / 3)
    X, y, p = {name: values[kept] for name, values in X.items()}, y[kept], p[kept]
    w = np.where(y == 1, 1.0, 3.0)
    noisy = w * np.exp(1e-5 * rng.standard_normal(len(y)))
    exact, found = (find_segments(X, y, p, sample_weight=each, n_resamples=99) for each in (w, noisy))
    assert (exact.weight_spread, found.weight_spread) == (None, pytest.approx(1e-5, rel=0.1))
    assert len(found.segments) >= 2
    assert [row.segment for row in found.segments] == [row.segment for row in exact.segments]
    np.testing.assert_allclose([s.z for s in found.segments], [s.z for s in exact.segments], rtol=1e-4)


def test_clusters_widen_the_null_distribution():
    X, _, p = data(4000, off=0.0)
    rng, code = np.random.default_rng(2), np.arange(4000) // 100
    X["site"] = code.astype(float)
    latent = 0.5 * rng.standard_normal(40)[code] + np.sqrt(0.75) * rng.standard_normal(4000)
    y = (ndtr(latent) < p).astype(int)
    assert find_segments(X, y, p, n_resamples=99).segments
    found = find_segments(X, y, p, n_resamples=99, clusters=code)
    assert found.segments == ()
    assert found.n_clusters == 40


def test_multiclass():
    rng, n = np.random.default_rng(0), 3000
    P, here = rng.dirichlet([2.0, 2.0, 2.0], n), rng.choice(["a", "b"], n)
    shifted = P + np.outer(here == "a", [0.15, -0.15, 0.0])
    shifted = np.clip(shifted, 0.0, None) / np.clip(shifted, 0.0, None).sum(axis=1, keepdims=True)
    y = np.array(["x", "y", "z"])[(rng.random(n)[:, None] > shifted.cumsum(axis=1)).sum(axis=1)]
    found = find_segments({"here": here}, y, P, n_resamples=99)
    rows = {(row.label, row.segment, row.difference > 0) for row in found.segments}
    assert rows == {("x", "here = a", True), ("y", "here = a", False)}
    assert "class x: here = a" in str(found)
    assert find_segments({"here": here}, y, P, segments="here").n_tested == 9
    top = find_segments({"here": here}, y, P, segments="here", reduction="top-label", n_resamples=99)
    assert {row.segment for row in top.segments} >= {"predicted class = x", "predicted class = z"}
    right, confidence = (np.array(["x", "y", "z"])[P.argmax(axis=1)] == y).astype(int), P.max(axis=1)
    one = find_segments({"here": here}, y, P, reduction="confidence", segments="here", n_resamples=99)
    other = find_segments({"here": here}, right, confidence, segments="here", n_resamples=99)
    for row, same in zip(one.segments, other.segments, strict=True):
        assert (row.segment, row.n_samples, row.z) == (same.segment, same.n_samples, pytest.approx(same.z))


def test_columns_without_segments():
    X, y, p = data()
    X |= {"constant": np.ones(1500), "nothing": np.full(1500, np.nan), "id": [f"{k}x" for k in range(1500)]}
    found = find_segments(X, y, p, n_resamples=99)
    reasons = ["constant", "all values are missing", "1,500 categories, none with 50 samples"]
    assert found.left_out == dict(zip(("constant", "nothing", "id"), reasons, strict=True))
    assert "columns left out: constant (constant); nothing (all values are missing); id (1,500" in str(found)
    none = find_segments({"region": X["region"]}, np.zeros(1500), p, segments="region", pos_label=1)
    assert all(row.observed == 0.0 and row.lower == -row.predicted for row in none.segments)
    few = find_segments({"age": X["age"][:40]}, y[:40], p[:40])
    assert (few.segments, few.n_tested, few.pvalue) == ((), 0, 1.0)
    assert "nothing tested: no segment has 50 samples and sum p (1 - p) of at least 10" in str(few)
    none = multicalibration_error({"age": X["age"][:40]}, y[:40], p[:40])
    assert np.isnan([none.value, none.expected]).all()
    assert (none.n_tested, none.pvalue) == (0, 1.0)
    assert find_segments({"age": [3.0]}, [1], [0.5]).n_tested == 0
    with pytest.raises(ValueError, match=r"X\['age'\]"):
        find_segments({"age": X["age"][:40]}, y, p)
    message = r"X\['a'\] must be one column of shape \(n,\) and of a distinct name, got shape \(1500, 2\)"
    with pytest.raises(ValueError, match=message):
        find_segments(pd.DataFrame(np.ones((1500, 2)), columns=["a", "a"]), y, p)
    with pytest.raises(ValueError, match="multilabel"):
        find_segments(X, np.eye(2)[y], np.column_stack((p, p)))


def test_result_as_text_and_frame():
    X, y, p = data()
    found = find_segments(X, y, p, n_resamples=99)
    assert str(found).startswith(f"{len(found.segments)} segment")
    assert found.to_frame()["segment"].tolist() == [row.segment for row in found.segments]
    assert "age &lt;= 32 and region = south" in found._repr_html_()
    nothing = find_segments(X, np.random.default_rng(1).random(1500) < p, p, n_resamples=99)
    assert str(nothing).startswith("no evidence of miscalibration (")
    assert nothing.to_frame().shape == (0, 10)


def without_halves(masks):
    """Return the segments that are not half-lines of ages or children, or pairs of these."""
    half = {f"age <= {edge}" for edge in (44, 56, 68)} | {f"age > {edge}" for edge in (32, 44, 56)}
    half |= {"children <= 1", "children > 0"}
    return {words: inside for words, inside in masks.items() if not half & set(words.split(" and "))}


@pytest.mark.parametrize("weighted", [False, True])
def test_multicalibration_error_is_that_of_the_definition(weighted):
    X, y, p = data()
    # ties of predictions, whose outcomes must not be ordered
    p = np.where(np.arange(1500) % 2, np.round(p, 1), p)
    w = np.random.default_rng(4).uniform(0.5, 2.0, 1500) if weighted else np.ones(1500)
    found = multicalibration_error(X, y, p, n_resamples=19, sample_weight=w if weighted else None)
    masks = without_halves(every_segment(X, y, p, weight=w))
    assert found.n_tested == len(masks)

    def ratio(inside, y=y):
        """Return the largest sum of residuals over an interval of predictions, and its deviation."""
        own, r, weight = p[inside], (y - p)[inside], w[inside]
        sums = np.array([0.0, *((weight * r)[own <= value].sum() for value in np.unique(own))])
        v = own * (1 - own)
        variance = v
        if weighted:
            # calibrated in the weighted population, with a step of logistic recalibration of all samples
            x = np.column_stack((np.ones(1500), np.log(p / (1 - p))))
            beta = np.linalg.solve(x.T @ (x * (w * p * (1 - p))[:, None]), x.T @ (w * (y - p)))
            # the mean weight changes no expectation
            c = (w**2 @ (p * (1 - p))) / (w @ (p * (1 - p)))
            variance = v + (1 - c / weight) * (1 - 2 * own) * (r - v * (x[inside] @ beta))
        return np.abs(np.subtract.outer(sums, sums)).max(), np.sqrt(weight**2 @ variance)

    statistics = {words: np.divide(*ratio(inside)) for words, inside in masks.items()}
    assert found.segment == max(statistics, key=statistics.get)
    assert found.statistic == pytest.approx(statistics[found.segment], rel=1e-9)
    everywhere = ratio(np.ones(1500, dtype=bool))[1] / w.sum()
    assert found.value == pytest.approx(found.statistic * everywhere)
    if weighted:
        return
    inside = masks[found.segment]
    assert ratio(inside)[0] / inside.sum() == pytest.approx(cutoff_calibration_error(y[inside], p[inside]))
    given = multicalibration_error(X, y, p, segments="region", n_resamples=99)
    single = {words: value for words, value in statistics.items() if words.startswith(("all", "region"))}
    single = {words: value for words, value in single.items() if " and " not in words}
    assert (given.n_tested, given.statistic) == (4, pytest.approx(max(single.values())))
    # the mean of the largest statistic, from other simulations
    rng, drawn = np.random.default_rng(5), []
    for _ in range(40):
        drawn_y = (rng.random(1500) < p).astype(int)
        drawn.append(max(np.divide(*ratio(masks[words], drawn_y)) for words in single))
    expected = np.mean(drawn) * given.value / given.statistic
    assert given.expected == pytest.approx(expected, rel=0.12)


def test_multicalibration_error_finds_what_averages_do_not():
    """Predictions of the south are too extreme, and right on average."""
    rng = np.random.default_rng(0)
    region, p = rng.choice(["north", "south"], 4000), rng.uniform(0.1, 0.9, 4000)
    y = (rng.random(4000) < np.where(region == "south", 0.5 * p + 0.25, p)).astype(int)
    found = multicalibration_error({"region": region}, y, p, n_resamples=99)
    assert (found.segment, found.pvalue) == ("region = south", 0.01)
    assert "largest in  region = south (3 segments tested)" in str(found)
    assert find_segments({"region": region}, y, p).segments == ()
    calibrated = multicalibration_error({"region": region}, rng.random(4000) < p, p, n_resamples=99)
    assert calibrated.pvalue > 0.1
    assert calibrated.value < 2.0 * calibrated.expected
    P = np.column_stack((p / 2, p / 2, 1 - p))
    labels = np.where(y == 1, rng.integers(2, size=4000), 2)
    classes = multicalibration_error({"region": region}, labels, P, n_resamples=99)
    assert (classes.label, classes.segment, classes.n_tested) == (2, "region = south", 9)


@pytest.mark.parametrize("n_runs", [thorough(60), weekly(300)])
def test_level(n_runs):
    """A calibrated model has a segment reported, or a significant error, in 5% of the samples."""
    X, _, p = data(800)
    rng, found = np.random.default_rng(0), []
    for _ in range(n_runs):
        y = (rng.random(800) < p**3).astype(int)
        error = multicalibration_error(X, y, p**3, n_resamples=39)
        found.append((bool(find_segments(X, y, p**3, n_resamples=99).segments), error.pvalue <= 0.05))
    assert (np.sum(found, axis=0) <= binom.ppf(0.997, n_runs, 0.05)).all()
