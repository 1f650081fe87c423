"""Coefficients and importances of a calibrated classifier: the means over its members."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import PlattCalibrator

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
    other = "coef_" if name != "coef_" else "feature_importances_"
    assert not hasattr(model, other)
    assert SelectFromModel(model, prefit=True).transform(X).shape[1] < 6


def test_frozen_classifiers_and_those_without_attributes():
    frozen = FrozenEstimator(LogisticRegression().fit(X, Y))
    model = CalibratedClassifier(frozen, PlattCalibrator()).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, frozen.coef_)
    assert not hasattr(CalibratedClassifier(GaussianNB(), PlattCalibrator()).fit(X, Y), "coef_")
