"""Several curves: classes, groups and folds."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib.metrics import expected_calibration_error, smooth_ece
from sklearn_calib.plot import ReliabilityDisplay, ReliabilityPanel
from tests._optional import pandas as pd

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def ax():
    return plt.figure(figsize=(4, 4)).add_subplot()


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 0.9, 500)
    return (rng.random(500) < p**1.5).astype(int), p


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(1)
    proba = rng.dirichlet([1.0, 1.5, 0.7], 400)
    codes = (proba.cumsum(axis=1) < rng.random(400)[:, None]).sum(axis=1)
    return np.array(["bird", "cat", "dog"])[codes], proba


@pytest.fixture(scope="module")
def folds():
    X, y = load_breast_cancer(return_X_y=True)
    y = np.array(["bad", "good"])[y]
    results = cross_validate(
        GaussianNB(),
        X[:, :4],
        y,
        cv=KFold(4, shuffle=True, random_state=0),
        return_estimator=True,
        return_indices=True,
    )
    return results, X[:, :4], y


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_classes_against_the_rest(classes, ax):
    y, proba = classes
    draw = ReliabilityDisplay.from_predictions
    panel = draw(y, proba, method="binned", ax=ax, name="model")
    assert isinstance(panel, ReliabilityPanel)
    assert panel.ax_ is ax
    assert [display.name for display in panel.displays_] == ["bird", "cat", "dog"]
    for k, display in enumerate(panel.displays_):
        alone = ReliabilityDisplay.from_predictions(
            y == display.name, proba[:, k] / proba.sum(1), method="binned"
        )
        np.testing.assert_allclose(display.curve.observed, alone.curve.observed)
        assert display.ax_ is ax
        error = expected_calibration_error(y == display.name, proba[:, k])
        assert display.line_.get_label() == f"{display.name}: ECE = {error:.3f}"
    assert len({display.line_.get_color() for display in panel.displays_}) == 3
    assert ax.get_legend().get_title().get_text() == "model"
    assert texts(ax)[:4] == [
        "perfect calibration",
        *(display.line_.get_label() for display in panel.displays_),
    ]


def test_the_largest_probability_against_being_right(classes, ax):
    y, proba = classes
    display = ReliabilityDisplay.from_predictions(y, proba, reduction="confidence", ax=ax)
    assert not isinstance(display, ReliabilityPanel)
    right = y == np.array(["bird", "cat", "dog"])[proba.argmax(axis=1)]
    assert display.curve.error == pytest.approx(smooth_ece(right, proba.max(axis=1)), abs=1e-6)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Confidence", "Accuracy")
    panel = ReliabilityDisplay.from_predictions(y, proba, reduction="top-label")
    assert [part.name for part in panel.displays_] == ["predicted bird", "predicted cat", "predicted dog"]
    rows = proba.argmax(axis=1) == 1
    assert panel.displays_[1].curve.error == pytest.approx(smooth_ece(right[rows], proba[rows, 1]), abs=1e-6)


def test_confidence_of_two_classes(forecast, ax):
    y, p = forecast
    display = ReliabilityDisplay.from_predictions(y, p, reduction="confidence", ax=ax)
    expected = smooth_ece((p > 0.5) == y, np.maximum(p, 1 - p))
    assert display.curve.error == pytest.approx(expected, abs=1e-6)


def test_estimators_of_several_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = LogisticRegression(max_iter=500).fit(X[::2], names[::2])
    panel = ReliabilityDisplay.from_estimator(model, X[1::2], names[1::2])
    assert [display.name for display in panel.displays_] == list(model.classes_)
    assert panel.name == "LogisticRegression"
    with pytest.raises(ValueError, match="pos_label"):
        ReliabilityDisplay.from_estimator(model, X, names, pos_label="setosa")


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_have_a_curve_each_with_number_and_size(forecast, ax, weighted):
    y, p = forecast
    groups = pd.Series(np.array(["north", "south"])[(np.arange(500) % 3 == 0).astype(int)])
    weight = np.random.default_rng(0).integers(0, 3, 500) if weighted else None
    panel = ReliabilityDisplay.from_predictions(y, p, groups=groups, sample_weight=weight, ax=ax)
    for display, name in zip(panel.displays_, ("north", "south"), strict=True):
        rows = (groups == name).to_numpy()
        part = None if weight is None else weight[rows]
        error = smooth_ece(y[rows], p[rows], sample_weight=part)
        size = rows.sum() if weight is None else part.sum()
        assert display.line_.get_label() == f"{name} (n = {size}): smECE = {error:.3f}"
        assert display.density_ is not None
    assert panel.axes_ == [ax]


def test_a_group_with_one_class_and_labels_that_are_words(forecast, ax):
    y, p = forecast
    words = np.array(["no", "yes"])[y]
    groups = np.where(y == 1, "events", "mixed")
    groups[:50] = "mixed"
    panel = ReliabilityDisplay.from_predictions(words, p, groups=groups, pos_label="yes", ax=ax)
    assert np.nanmin(panel.displays_[0].curve.observed) > 0.9
    assert ax.get_xlabel() == "Predicted probability (yes)"


def test_a_grid_has_a_diagram_for_each(forecast):
    y, p = forecast
    panel = ReliabilityDisplay.from_predictions(y, p, groups=np.arange(500) % 6, name="six")
    assert len(panel.axes_) == len(set(map(id, panel.axes_))) == 6
    assert [axes.get_title() for axes in panel.axes_] == [display.name for display in panel.displays_]
    assert texts(panel.axes_[0])[1].startswith("smECE = ")
    assert len(texts(panel.axes_[5])) == 1
    assert len({display.line_.get_color() for display in panel.displays_}) == 1
    assert panel.figure_._suptitle.get_text() == "six"
    three = ReliabilityDisplay.from_predictions(y, p, groups=np.arange(500) % 3, layout="grid")
    assert len(three.axes_) == 3
    with pytest.raises(ValueError, match="layout='grid' creates a new figure"):
        ReliabilityDisplay.from_predictions(y, p, groups=np.arange(500) % 3, layout="grid", ax=plt.gca())


def test_many_curves_in_one_diagram_have_no_bands(forecast, ax):
    y, p = forecast
    panel = ReliabilityDisplay.from_predictions(y, p, groups=np.arange(500) % 5, ax=ax)
    assert all(display.band_ is None and display.density_ is None for display in panel.displays_)
    assert len({display.line_.get_color() for display in panel.displays_}) == 5


def test_groups_beside_classes_are_refused(classes):
    y, proba = classes
    with pytest.raises(ValueError, match="groups cannot be combined with 3 classes"):
        ReliabilityDisplay.from_predictions(y, proba, groups=np.arange(400) % 2)
    panel = ReliabilityDisplay.from_predictions(
        y, proba, groups=np.arange(400) % 2, reduction="confidence", show_legend=False
    )
    assert len(panel.displays_) == 2


def test_folds_are_thin_and_the_pool_is_bold(folds, ax):
    results, X, y = folds
    panel = ReliabilityDisplay.from_cv_results(results, X, y, ax=ax)
    assert len(panel.displays_) == 4
    assert panel.summary_.line_.get_linewidth() > 2 * panel.displays_[0].line_.get_linewidth()
    assert panel.summary_.band_ is not None
    assert all(display.band_ is None for display in panel.displays_)
    outcomes, predictions = [], []
    for display, model, rows in zip(
        panel.displays_, results["estimator"], results["indices"]["test"], strict=True
    ):
        predictions.append(model.predict_proba(X[rows])[:, 1])
        outcomes.append(y[rows] == "good")
        assert display.curve.error == smooth_ece(outcomes[-1], predictions[-1])
    error = smooth_ece(np.concatenate(outcomes), np.concatenate(predictions))
    assert panel.summary_.curve.error == error
    assert texts(ax) == [
        "perfect calibration",
        "single folds",
        f"pooled, 4 folds: smECE = {error:.3f}",
        "95% confidence band (pointwise)",
    ]
    assert ax.get_legend().get_title().get_text() == "GaussianNB"


@pytest.mark.parametrize("method", ["smooth", "corp", "binned"])
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_the_mean_of_folds_and_their_spread(folds, ax, method, scale):
    results, X, y = folds
    panel = ReliabilityDisplay.from_cv_results(
        results, X, y, summary="mean", method=method, scale=scale, name="bayes", ax=ax, bandwidth=0.3
    )
    curve, single = panel.summary_.curve, [display.curve for display in panel.displays_]
    errors = [part.error for part in single]
    assert curve.error == pytest.approx(np.mean(errors))
    assert curve.error_spread == pytest.approx(np.std(errors, ddof=1))
    at = curve.predicted[100]
    values = [np.interp(at, part.predicted, part.observed) for part in single]
    np.testing.assert_allclose(curve.observed[100], np.mean(values), equal_nan=True)
    (band,) = curve.bands
    assert band.kind == "folds"
    np.testing.assert_allclose(
        band.upper[100], min(np.mean(values) + np.std(values, ddof=1), 1.0), equal_nan=True
    )
    assert "± 1 standard deviation across folds" in texts(ax)
    ax.figure.canvas.draw()


@pytest.mark.parametrize("kind", ["frame", "sparse", "list"])
def test_folds_of_any_container_with_weights(folds, kind, ax):
    results, X, y = folds
    data = {"frame": pd.DataFrame(X, index=np.arange(X.shape[0])[::-1]), "sparse": X, "list": X.tolist()}[
        kind
    ]
    estimators = results
    if kind == "frame":
        estimators = cross_validate(
            make_pipeline(StandardScaler(), GaussianNB()),
            data,
            y,
            cv=3,
            return_estimator=True,
            return_indices=True,
        )
    if kind == "sparse":
        data = csr_array(X)
        estimators = cross_validate(
            LogisticRegression(), csr_array(X), y, cv=3, return_estimator=True, return_indices=True
        )
    weight = np.random.default_rng(0).integers(0, 3, X.shape[0])
    panel = ReliabilityDisplay.from_cv_results(
        estimators, data, y, sample_weight=weight, pos_label="bad", density="rug", ax=ax
    )
    assert panel.summary_.curve.n_samples == weight.sum()
    assert ax.get_xlabel() == "Predicted probability (bad)"


def test_bad_results_of_cross_validation_are_named(folds):
    results, X, y = folds
    draw = ReliabilityDisplay.from_cv_results
    with pytest.raises(TypeError, match="cv_results must be the dict of cross_validate"):
        draw(5, X, y)
    with pytest.raises(ValueError, match=r"y must have shape \(n,\), got a single value"):
        draw(results, X, 1)
    with pytest.raises(ValueError, match="cv_results lacks indices"):
        draw({"estimator": results["estimator"]}, X, y)
    with pytest.raises(ValueError, match="cv_results has a test fold with row"):
        draw(results, X[:100], y[:100])
    with pytest.raises(ValueError, match="summary must be one of"):
        draw(results, X, y, summary="median")
    with pytest.raises(ValueError, match="summary='mean' does not support method='belt'"):
        draw(results, X, y, summary="mean", method="belt")
    with pytest.raises(ValueError, match="pos_label='ugly'"):
        draw(results, X, y, pos_label="ugly")
    iris = load_iris(return_X_y=True)
    three = cross_validate(GaussianNB(), *iris, return_estimator=True, return_indices=True)
    with pytest.raises(ValueError, match="cv_results holds estimators of 3 classes"):
        draw(three, *iris)
    assert plt.get_fignums() == []


def test_a_grid_of_seven_without_legends():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(7), 200)
    y = (p.cumsum(axis=1) > rng.random((200, 1))).argmax(axis=1)
    panel = ReliabilityDisplay.from_predictions(y, p, show_legend=False)
    assert [ax.get_title() for ax in panel.axes_] == list("0123456")
    assert not any(ax.get_legend() for ax in panel.axes_)
    # the eighth place of the grid is empty
    assert [ax.axison for ax in panel.figure_.axes] == [True] * 7 + [False]


def test_a_group_without_weight_is_left_out(forecast, ax):
    y, p = forecast[:2]
    groups = np.arange(len(y)) % 3
    panel = ReliabilityDisplay.from_predictions(y, p, groups=groups, sample_weight=groups != 1, ax=ax)
    shown = [str(display.name).split()[0] for display in panel.displays_]
    assert shown == ["0", "2"]


@pytest.mark.parametrize("reduction", ["confidence", "top-label"])
def test_reductions_of_an_estimator_of_two_classes(reduction):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = (rng.random(300) < 0.5 + 0.4 * np.tanh(X[:, 0])).astype(int)
    model = LogisticRegression().fit(X, y)
    shown = ReliabilityDisplay.from_estimator(model, X, y, reduction=reduction)
    proba = model.predict_proba(X)
    top = proba.argmax(axis=1)
    if reduction == "confidence":
        expected = ReliabilityDisplay.from_predictions(top == y, proba.max(axis=1))
        assert shown.curve.error == expected.curve.error
        return
    for k, display in enumerate(shown.displays_):
        rows = top == k
        expected = ReliabilityDisplay.from_predictions(y[rows] == k, proba[rows, k])
        assert display.curve.error == expected.curve.error


def test_folds_whose_predictions_do_not_meet_have_no_mean():
    class Given(ClassifierMixin, BaseEstimator):
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return np.column_stack([1.0 - X[:, 0], X[:, 0]])

    X = np.concatenate([np.linspace(0.1, 0.3, 20), np.linspace(0.6, 0.9, 20)])[:, np.newaxis]
    y, rows = np.arange(40) % 2, np.arange(40)
    results = {
        "estimator": [Given(), Given()],
        "indices": {"train": [rows[20:], rows[:20]], "test": [rows[:20], rows[20:]]},
    }
    with pytest.raises(ValueError, match="needs overlapping predictions"):
        ReliabilityDisplay.from_cv_results(results, X, y, summary="mean")
    panel = ReliabilityDisplay.from_cv_results(results, X, y, summary="pooled")
    assert panel.summary_.curve.n_samples == 40


def test_the_spread_of_folds_in_words(folds, ax):
    panel = ReliabilityDisplay.from_cv_results(*folds[:3], summary="mean", ax=ax)
    (band,) = panel.summary_.curve.bands
    assert str(band) == "± 1 standard deviation across folds"
