"""scikit-learn's full suite of estimator checks, with the number of checks that really ran."""

import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import estimator_checks, get_tags

from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer, SelectiveClassifier
from tests._tiers import thorough, weekly

NEED_PANDAS = {"check_classifier_data_not_an_array", "check_sample_weights_pandas_series"}
WEIGHT_CHECKS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
HELD_OUT = "fit_transform returns held-out scores, by design other ones than fit followed by transform"
CROSS_FIT_FAILURES = {"check_transformer_general": HELD_OUT, "check_transformer_data_not_an_array": HELD_OUT}


def run(estimator, expected_failures=None):
    """Return how many checks passed; fail on any other outcome than a pass or a failure that is expected."""
    with warnings.catch_warnings(action="ignore"):
        given = {"expected_failed_checks": expected_failures or {}, "on_skip": None, "on_fail": None}
        results = estimator_checks.check_estimator(estimator, **given)
    assert {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"} == {}
    xfailed = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert xfailed == set(expected_failures or {}), "an expected failure no longer fails"
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    # scikit-learn runs the first only with SCIPY_ARRAY_API=1, the others with pandas
    assert skipped <= {"check_array_api_input"} | (set() if find_spec("pandas") else NEED_PANDAS)
    return sum(r["status"] == "passed" for r in results)


# three folds as scikit-learn itself uses here: some checks have three rows of a class
@pytest.mark.parametrize(
    ("model", "at_least"),
    [
        thorough(CalibratedClassifier(LogisticRegression(), "passthrough", ensemble=False), 60),
        weekly(CalibratedClassifier(LogisticRegression(), IsotonicCalibrator(), cv=3), 60),
        # gives repeated samples one score; of a matrix product the last bit may differ between them, and the
        # knots of the spline are not those of ties then
        thorough(CalibratedClassifier(GaussianNB(), cv=3), 58),
    ],
    ids=["passthrough", "isotonic", "default"],
)
def test_calibrated_classifier(model, at_least):
    assert run(model) >= at_least


@pytest.mark.parametrize(
    ("base", "link"), [(DecisionTreeClassifier(random_state=0), "logit"), (RidgeClassifier(), "identity")]
)
def test_a_sample_has_one_label_whatever_the_classifier_takes(base, link):
    model = CalibratedClassifier(base, PlattCalibrator(link=link), cv=3)
    assert get_tags(base).classifier_tags.multi_label
    assert not get_tags(model).classifier_tags.multi_label
    assert get_tags(model).classifier_tags.multi_class
    with pytest.raises(ValueError, match="y should be a 1d array"):
        model.fit(np.arange(12.0).reshape(6, 2), np.tile([[0, 1], [1, 0]], (3, 1)))
    assert get_tags(base).classifier_tags.multi_label


@pytest.mark.thorough
def test_a_classifier_of_several_labels_without_weights():
    model = CalibratedClassifier(KNeighborsClassifier(2), PlattCalibrator(), cv=3)
    assert run(model, dict.fromkeys(WEIGHT_CHECKS, "takes no weights")) >= 58


@pytest.mark.thorough
def test_cross_fit_scorer():
    assert run(CrossFitScorer(LogisticRegression(), cv=3), CROSS_FIT_FAILURES) >= 49


@pytest.mark.thorough
def test_selective_classifier():
    unlike = dict.fromkeys(WEIGHT_CHECKS, "draws samples, of copies otherwise than of weights")
    model = SelectiveClassifier(LogisticRegression(), validation_fraction=0.1, weights="frequency")
    assert run(model, unlike) >= 58


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_get_feature_names_out_error,
        pytest.param(estimator_checks.check_global_output_transform_pandas, marks=pytest.mark.thorough),
        estimator_checks.check_set_output_transform,
        estimator_checks.check_set_output_transform_pandas,
        estimator_checks.check_transformer_get_feature_names_out,
        estimator_checks.check_transformer_get_feature_names_out_pandas,
    ],
    ids=lambda check: check.__name__,
)
def test_cross_fit_scorer_names_and_output(check):
    with warnings.catch_warnings(action="ignore"):
        check("CrossFitScorer", CrossFitScorer(LogisticRegression(), cv=3))
