"""ComparisonDisplay: what is drawn is what the comparison says, and letters mean what they should."""

from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.inference import ModelComparison, ModelPair, ModelSummary, compare_models
from sklearn_calib.metrics import cutoff_calibration_error, smooth_ece
from sklearn_calib.plot import ComparisonDisplay
from tests._samples import simulated
from tests._tiers import thorough
from tests.plot._legend import legend_texts

plt = pytest.importorskip("matplotlib.pyplot")
draw = ComparisonDisplay.from_predictions
QUICK = {"metrics": cutoff_calibration_error, "n_resamples": 99}


@pytest.fixture(scope="module")
def models():
    y, p = simulated(300, "beta", 0.7, 0.9)
    return y, {"third": p**3, "true": p, "root": p**0.5}


@pytest.fixture(scope="module")
def compared(models):
    return compare_models(*models, metric=cutoff_calibration_error, n_resamples=99)


def texts(display, panel=0):
    return [text.get_text() for text in display.marks_[panel]]


def test_drawn_equals_computed(models, compared):
    display = draw(*models, **QUICK)
    assert display.comparisons["cutoff calibration error"].models == compared.models
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["third", "true", "root"]
    drawn = {}
    for line in (display.points_[0], display.worse_[0]):
        drawn |= dict(zip(*line.get_data()[::-1], strict=True))
    assert [drawn[k] for k in range(3)] == [row.estimate for row in compared.models]
    assert {compared.models[int(k)].name for k in display.points_[0].get_ydata()} == set(compared.best_set)
    assert compared.best_set == ("true",)
    segments = np.array(display.intervals_[0].get_segments())
    np.testing.assert_array_equal(segments[:, 0, 0], [row.lower for row in compared.models])
    np.testing.assert_array_equal(segments[:, 1, 0], [row.upper for row in compared.models])
    np.testing.assert_array_equal(segments[:, :, 1], [[k, k] for k in range(3)])
    np.testing.assert_array_equal(display.expected_[0].get_xdata(), [row.expected for row in compared.models])
    # the first model is on top
    bottom, top = display.ax_.get_ylim()
    assert bottom > 2 > 0 > top
    assert display.worse_[0].get_markerfacecolor() == display.ax_.get_facecolor()
    words = {"95% confidence interval,\nwithout the bias of the estimate", "expected under calibration"}
    assert words | {"estimate, significantly worse"} <= set(legend_texts(display))
    assert display.ax_.get_xlabel() == "cutoff calibration error"
    left, right = display.ax_.get_xlim()
    assert left < 0
    assert right > max(row.upper for row in compared.models)


def graph(names, parted, confidence=0.95):
    rows = tuple(ModelSummary(name, 0.1, 0.01, 0.1, 0.05, 0.15, "inversion", True) for name in names)
    pairs = tuple(
        ModelPair(a, b, *[0.1] * 4, 0.5, 0.001 if (a, b) in parted else 0.9, None)
        for a, b in combinations(names, 2)
    )
    return ModelComparison(rows, pairs, tuple(names), None, "max-t", confidence, 50)


def test_letters_by_their_definition():
    rng, ax = np.random.default_rng(0), plt.subplots()[1]

    def letters(names, parted):
        ax.clear()
        display = ComparisonDisplay({"error": graph(names, parted)}).plot(ax, show_legend=False)
        return dict(zip(names, texts(display), strict=True))

    for _ in range(8):
        names, share = list("uvwxyz"[: rng.integers(3, 7)]), rng.random()
        parted = {pair for pair in combinations(names, 2) if rng.random() < share}
        found = letters(names, parted)
        for pair in combinations(names, 2):
            assert (set(found[pair[0]]) & set(found[pair[1]]) == set()) == (pair in parted)
        used = sorted(set("".join(found.values())))
        members = [{name for name in names if letter in found[name]} for letter in used]
        # no letter is idle
        assert all(not (a < b) for a in members for b in members)
        assert used == list("abcdefghijklmnopqrstuvwxyz"[: len(used)])


def test_marks_of_all_pairs(compared):
    display = ComparisonDisplay.from_result(compared)
    adjusted = {(pair.name_a, pair.name_b): pair.adjusted_pvalue for pair in compared.pairs}
    found = dict(zip([row.name for row in compared.models], texts(display), strict=True))
    for (a, b), pvalue in adjusted.items():
        assert (set(found[a]) & set(found[b]) == set()) == (pvalue <= 0.05)
    assert "same letter: not significantly different" in legend_texts(display)
    assert [text.get_position()[1] for text in display.marks_[0]] == [0, 1, 2]


def test_marks_against_a_reference(models):
    display = draw(*models, reference="true", **QUICK)
    (comparison,) = display.comparisons.values()
    expected = {pair.name_a: f"p = {pair.adjusted_pvalue:.2g}" for pair in comparison.pairs}
    assert texts(display) == [expected["third"], "reference", expected["root"]]
    assert "same letter: not significantly different" not in legend_texts(display)


def test_marks_of_one_pair(models):
    y, predictions = models
    pair = {name: predictions[name] for name in ("third", "true")}
    display = draw(y, pair, **QUICK)
    (comparison,) = display.comparisons.values()
    assert texts(display) == [f"p = {comparison.pairs[0].adjusted_pvalue:.2g}"]
    assert display.marks_[0][0].get_position()[1] == 0.5
    tiny = replace(comparison, pairs=(replace(comparison.pairs[0], adjusted_pvalue=1e-5),))
    assert texts(ComparisonDisplay.from_result(tiny)) == ["p < 0.0001"]


def test_several_metrics(models):
    y, predictions = models[0][:80], {name: p[:80] for name, p in models[1].items()}
    metrics = {"cutoff": cutoff_calibration_error, "Brier": lambda y, p: np.mean((y - p) ** 2)}
    draw = partial(ComparisonDisplay.from_predictions, y, predictions, metrics=metrics, n_resamples=19)
    with pytest.raises(ValueError, match="does not declare whether greater values are better"):
        draw()
    # of the metric that declares none
    display = draw(greater_is_better=True)
    assert [found.greater_is_better for found in display.comparisons.values()] == [False, True]
    display = draw(greater_is_better=False)
    assert [ax.get_xlabel() for ax in display.axes_] == ["cutoff", "Brier"]
    assert len(display.points_) == len(display.expected_) == len(display.marks_) == 2
    assert display.axes_[0].get_ylim() == display.axes_[1].get_ylim()
    assert display.axes_[1].get_legend() is None
    assert display.axes_[0].get_xlim() != display.axes_[1].get_xlim()
    figure, axes = plt.subplots(1, 3)
    again = display.plot(axes[1:])
    figure.draw_without_rendering()
    assert again.axes_ == list(axes[1:])
    assert not axes[0].has_data()


def test_from_multilabel_estimators():
    X, y = make_multilabel_classification(60, 4, n_classes=2, random_state=0)
    models = {"one": OneVsRestClassifier(GaussianNB()), "list": MultiOutputClassifier(GaussianNB())}
    models = {name: model.fit(X, y) for name, model in models.items()}
    display = ComparisonDisplay.from_estimators(models, X, y, n_resamples=39)
    (found,) = display.comparisons.values()
    assert found.models[0].estimate == found.models[1].estimate
    assert found.models[0].estimate == pytest.approx(smooth_ece(y, models["one"].predict_proba(X)))


@pytest.mark.parametrize("many", [False, thorough(True)])
def test_from_estimators(many):
    X, y = (load_iris if many else load_breast_cancer)(return_X_y=True)
    words, rng = np.array([f"class {label}" for label in y]), np.random.default_rng(0)
    X = X / X.std(axis=0) + 2 * rng.normal(size=X.shape)
    a = LogisticRegression(max_iter=9999).fit(X[::2], words[::2])
    b = GaussianNB().fit(X[::2], words[::2])
    X, words = X[1::2], words[1::2]
    metric: Any = cutoff_calibration_error
    if many:
        metric = partial(metric, reduction="confidence", labels=[0, 1, 2])
    params = {"metrics": {"ECE": metric}, "n_resamples": 39, "show_legend": False}
    display = ComparisonDisplay.from_estimators({"LR": a, "NB": b}, X, words, **params)
    expected = draw(words, {"LR": a.predict_proba(X), "NB": b.predict_proba(X)}, **params)
    assert display.comparisons == expected.comparisons
    if not many:
        other = ComparisonDisplay.from_estimators({"LR": a, "NB": b}, X, words, pos_label="class 0", **params)
        columns = {"LR": a.predict_proba(X)[:, 0], "NB": b.predict_proba(X)[:, 0]}
        known = draw(words, columns, pos_label="class 0", **params)
        assert other.comparisons == known.comparisons
    c = GaussianNB().fit(X, np.arange(len(X)) % 2)
    with pytest.raises(ValueError, match=r"estimators\['c'\] has the classes"):
        ComparisonDisplay.from_estimators({"LR": a, "c": c}, X, words)


def test_errors_name_the_argument(models, compared):
    y, predictions = models
    draw = partial(ComparisonDisplay.from_predictions, y)
    alone, far = predictions["true"], predictions | {"true": predictions["true"] + 1.0}
    for bad, error, message in (
        ({"predictions": alone}, TypeError, "predictions must map names to arrays, got ndarray"),
        ({"predictions": {"true": y}}, ValueError, "predictions must contain at least two models, got 1"),
        ({"predictions": far}, ValueError, r"predictions\['true'\]"),
        ({"metrics": "ece"}, ValueError, "metrics='ece' is not the name of a metric"),
        ({"metrics": {"a": 3}}, TypeError, r"metrics\['a'\] must be the name of a metric"),
        ({"metrics": []}, ValueError, "metrics is empty"),
        ({"metrics": [smooth_ece] * 2}, ValueError, "metrics contains two metrics of the same name"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"n_resamples": 0}, ValueError, "n_resamples"),
        ({"correction": "none at all"}, ValueError, "correction"),
        ({"reference": "fourth"}, ValueError, "reference"),
        ({"random_state": "seed"}, TypeError, "random_state"),
        ({"sample_weight": np.full(300, 0.5), "weights": "frequency"}, ValueError, "sample_weight"),
    ):
        with pytest.raises(error, match=message):
            draw(**{"predictions": predictions, "n_resamples": 199} | bad)
    without = compare_models(y, predictions, metric="brier_score", n_resamples=19, intervals=False)
    other = {"a": compared, "b": replace(compared, models=compared.models[:2])}
    for result, error, message in (
        (0.3, TypeError, "result must be a ModelComparison, got float"),
        (without, ValueError, r"no intervals to draw.*intervals=True"),
        (other, ValueError, "comparisons compares different models"),
    ):
        with pytest.raises(error, match=message):
            ComparisonDisplay.from_result(result)
    assert plt.get_fignums() == []
    with pytest.raises(ValueError, match="ax must be matplotlib Axes for 1 metrics, got 2 axes"):
        ComparisonDisplay.from_result(compared, ax=plt.subplots(1, 2)[1])
