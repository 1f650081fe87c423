"""What CalibratedClassifier accepts: containers, labels, text, kernels; and the attributes of its members."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator
from sklearn_calib.metrics import smooth_ece
from tests._optional import pandas as pd
from tests._optional import polars as pl


@pytest.mark.parametrize(
    ("container", "ensemble"),
    [(sparse.csr_matrix, True), (sparse.csc_array, False), (pd.DataFrame, True), (pd.DataFrame, False),
     (pl.DataFrame, False), (list, True)],
)  # fmt: skip
def test_containers_give_the_numbers_of_the_array(binary, container, ensemble):
    X, y = binary
    X_in = container(X.tolist() if container is list else X)
    if container is pd.DataFrame:
        X_in.columns = list("abcde")
        X_in.index = X_in.index + 1000  # a label index must not be read as row numbers
    model = CalibratedClassifier(LogisticRegression(), IsotonicCalibrator(), cv=3, ensemble=ensemble)
    expected, fitted = model.fit(X, y).predict_proba(X), clone(model).fit(X_in, y)
    np.testing.assert_allclose(fitted.predict_proba(X_in), expected, atol=1e-6)
    if container is pd.DataFrame:
        assert fitted.feature_names_in_.tolist() == list("abcde")
        with pytest.raises(ValueError, match="feature names"):
            fitted.predict_proba(X_in.rename(columns={"a": "z"}))


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: np.array(["no", "yes"], dtype=object)[y],
        lambda y: pd.Series(np.array(["no", "yes"])[y], index=np.arange(y.shape[0])[::-1]),
        lambda y: np.array(["no", "yes"])[y].tolist(),
        lambda y: y == 1,
        lambda y: y * 2 - 1,
    ],
    ids=["object", "pandas", "list", "bool", "signs"],
)
def test_any_labels(binary, labels):
    X, y = binary
    model = CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), cv=3)
    expected, fitted = clone(model).fit(X, y).predict_proba(X), model.fit(X, labels(y))
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)
    assert set(fitted.predict(X)) <= set(np.asarray(labels(y)).tolist())
    assert (fitted.predict(X) == np.asarray(labels(y))).mean() > 0.6


def test_text_and_tables():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    texts = ["good fine" if (label ^ (rng.random() < 0.2)) else "bad poor" for label in y]
    counts = make_pipeline(CountVectorizer(), MultinomialNB())
    text_model = CalibratedClassifier(counts, IsotonicCalibrator(), cv=3)
    assert text_model.fit(texts, y).score(texts, y) > 0.7
    assert not hasattr(text_model, "n_features_in_")
    frame = pd.DataFrame({"word": [text.split()[0] for text in texts], "x": rng.normal(size=120)})
    columns = make_column_transformer((OneHotEncoder(), ["word"]), remainder="passthrough")
    table_model = CalibratedClassifier(make_pipeline(columns, LogisticRegression()), PlattCalibrator(), cv=3)
    assert table_model.fit(frame, y).score(frame, y) > 0.7
    assert table_model.feature_names_in_.tolist() == ["word", "x"]


def test_tags_follow_the_estimator():
    class Sparse(GaussianNB):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.sparse = True
            tags.non_deterministic = True
            return tags

    for estimator in (Sparse(), GaussianNB(), HistGradientBoostingClassifier()):
        inner, tags = get_tags(estimator), get_tags(CalibratedClassifier(estimator))
        assert (tags.input_tags, tags.classifier_tags) == (inner.input_tags, inner.classifier_tags)
        assert tags.non_deterministic == inner.non_deterministic
    assert get_tags(CalibratedClassifier(Sparse())).input_tags.sparse
    assert not get_tags(CalibratedClassifier(GaussianNB())).input_tags.sparse
    assert get_tags(CalibratedClassifier(SVC(kernel="precomputed"))).input_tags.pairwise
    assert get_tags(CalibratedClassifier()).estimator_type == "classifier"


def test_precomputed_kernel(binary):
    X, y = binary
    kernel = rbf_kernel(X)
    plain = CalibratedClassifier(SVC(kernel="rbf", gamma=0.2), IsotonicCalibrator(), ensemble=False)
    expected = plain.fit(X, y).predict_proba(X)
    model = CalibratedClassifier(SVC(kernel="precomputed"), IsotonicCalibrator()).fit(kernel, y)
    np.testing.assert_allclose(model.predict_proba(kernel), expected, atol=1e-12)
    with pytest.raises(ValueError, match="ensemble=False"):
        CalibratedClassifier(SVC(kernel="precomputed"), ensemble=True).fit(kernel, y)


class Reversed(ClassifierMixin, BaseEstimator):
    """A classifier whose classes are kept in falling order."""

    def __init__(self, method="predict_proba"):
        self.method = method

    def fit(self, X, y):
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_[::-1]
        return self

    def __getattr__(self, name):
        if name not in ("predict_proba", "decision_function") or name != self.method:
            raise AttributeError(name)

        def response(X):
            scores = getattr(self.inner_, name)(X)
            return scores[:, ::-1] if scores.ndim == 2 else -scores

        return response


@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
def test_columns_are_matched_by_class_not_by_place(binary, three, method):
    for X, y in (binary, three):
        settings = {"cv": 3, "response_method": method}
        expected = CalibratedClassifier(LogisticRegression(), IsotonicCalibrator(), **settings).fit(X, y)
        found = CalibratedClassifier(Reversed(method), IsotonicCalibrator(), **settings).fit(X, y)
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-12)


def test_refit_forgets_the_names_of_the_first_data(binary):
    X, y = binary
    model = CalibratedClassifier(GaussianNB(), IsotonicCalibrator(), cv=2)
    model.fit(pd.DataFrame(X, columns=list("abcde")), y)
    assert hasattr(model, "feature_names_in_")
    model.fit(X[:, :3], y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3


X, Y = make_classification(200, n_features=6, n_informative=4, n_classes=3, random_state=0)


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize(
    ("estimator", "name"),
    [(LogisticRegression(), "coef_"), (DecisionTreeClassifier(max_depth=3), "feature_importances_")],
)
def test_attributes_are_means_over_the_members(estimator, name, ensemble):
    model = CalibratedClassifier(estimator, PlattCalibrator(), ensemble=ensemble, cv=3)
    assert not hasattr(model, name)
    model.fit(X, Y)
    members = [getattr(member, name) for member in model.estimators_]
    assert len(members) == (3 if ensemble else 1)
    np.testing.assert_allclose(getattr(model, name), sum(members) / len(members))
    assert not hasattr(model, "coef_" if name != "coef_" else "feature_importances_")
    assert SelectFromModel(model, prefit=True).transform(X).shape[1] < 6


def test_frozen_classifiers_and_those_without_attributes():
    frozen = FrozenEstimator(LogisticRegression().fit(X, Y))
    model = CalibratedClassifier(frozen, PlattCalibrator()).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, frozen.coef_)
    assert not hasattr(CalibratedClassifier(GaussianNB(), PlattCalibrator()).fit(X, Y), "coef_")


@pytest.mark.parametrize("wrap", [MultiOutputClassifier, OneVsRestClassifier, ClassifierChain])
def test_each_label_of_a_multilabel_target_has_a_calibrator(wrap):
    X, Y = make_multilabel_classification(120, 4, n_classes=2, random_state=0)
    model = CalibratedClassifier(GaussianNB(), PlattCalibrator(), cv=3)
    found = wrap(clone(model)).fit(X, Y).predict_proba(X)
    first, second = clone(model).fit(X, Y[:, 0]), clone(model)
    inputs = X
    if wrap is ClassifierChain:
        # the second model has the first label as a feature
        inputs = np.column_stack([X, first.predict(X)])
        second.fit(np.column_stack([X, Y[:, 0]]), Y[:, 1])
    else:
        second.fit(X, Y[:, 1])
    expected = np.column_stack([first.predict_proba(X)[:, 1], second.predict_proba(inputs)[:, 1]])
    if wrap is MultiOutputClassifier:
        assert smooth_ece(Y, found) == smooth_ece(Y, expected)
        found = np.column_stack([each[:, 1] for each in found])
    np.testing.assert_allclose(found, expected)
    with pytest.raises(ValueError, match=r"MultiOutputClassifier\(CalibratedClassifier\(\.\.\.\)\)"):
        clone(model).fit(X, Y)
