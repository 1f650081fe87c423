"""scikit-learn's own checks of estimators, all of them, on every calibrator.

These checks pass two-dimensional features. A calibrator that declared one-dimensional input would be spared
nearly all of them. So each one is checked through a subclass that makes a score of the columns and is
otherwise the calibrator itself.
"""

import warnings

import numpy as np
import pytest
from scipy.sparse import issparse
from scipy.special import expit
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator
from sklearn.utils.validation import validate_data

from sklearn_calib._validation import check_scores
from tests._sklearn import SKLEARN
from tests.calibrators._registry import CALIBRATORS, calibrators_with, once_a_class

LEAST_PASSED = 60
ONE_DIMENSIONAL = "a calibrator takes one-dimensional input, by design"
EXPECTED_FAILURES = {
    "check_fit1d": ONE_DIMENSIONAL,
    "check_fit2d_predict1d": ONE_DIMENSIONAL,
    "check_dtype_object": "wants a TypeError for a dictionary among numbers; the border raises ValueError",
}
# only the subclass of the test is binary
FAILURES_OF_MULTICLASS = {"check_classifier_not_supporting_multiclass"}
#: Other parts are drawn from repeated rows, which may or may not change what is fitted.
FAILURES_OF_DRAWN = {"check_sample_weight_equivalence_on_dense_data"}
if SKLEARN < (1, 7):
    EXPECTED_FAILURES["check_sample_weight_equivalence_on_dense_data"] = (
        "makes labels binary by 'equal to the first one', after shuffling only one of the two samples"
    )


class ScoreOfColumns:
    """Turns features into one score: their alternating sum, as a probability where one is declared."""

    def _check_scores(self, X, y="no_validation", *, reset):
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        if issparse(X):
            return check_scores(X, kind=self._score_kind())
        scores = np.asarray(X)
        if scores.ndim == 2 and scores.size:
            numbers = scores.dtype.kind in "iuf"
            # not by a matrix product, whose last bit may differ between copies of a row
            signs = (-1) ** np.arange(scores.shape[1])
            scores = (scores * signs).sum(axis=1) if numbers else scores[:, 0]
        if self._score_kind() == "probability" and scores.dtype.kind in "iuf":
            scores = np.where(np.isfinite(scores), expit(scores), scores)
        return check_scores(scores, kind=self._score_kind())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = False
        tags.classifier_tags.multi_class = False
        return tags


def on_columns(calibrator):
    """Return the calibrator as an instance of such a subclass, which pickle can find."""
    base = type(calibrator)
    name = f"{base.__name__}OnColumns"
    if name not in globals():
        attributes = {"__init__": base.__init__, "__module__": __name__}
        globals()[name] = type(name, (ScoreOfColumns, base), attributes)
    return globals()[name](**calibrator.get_params(deep=False))


#: What the constructor and the attributes of each class decide; the rest is the base class.
OF_EACH_CLASS = {
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_fit_check_is_fitted",
} | ({"check_estimator_sparse_tag"} if SKLEARN >= (1, 7) else set())


@pytest.mark.parametrize("case", once_a_class(CALIBRATORS, slow={"auto"}))
def test_passes_the_checks_of_each_class(case):
    names = []
    with warnings.catch_warnings(action="ignore"):
        for estimator, check in estimator_checks_generator(on_columns(case.make())):
            name = getattr(check, "func", check).__name__
            if name in OF_EACH_CLASS:
                names.append(name)
                check(estimator)
    assert set(names) == OF_EACH_CLASS


@calibrators_with(structures=True, slow={"platt", "log_average_binary", "certified"})
def test_passes_the_checks_of_scikit_learn(case):
    calibrator = case.make().set_params(cv=2) if case.name == "auto" else case.make()
    with warnings.catch_warnings(action="ignore"):
        results = check_estimator(on_columns(calibrator), on_fail=None)
    passed = [result["check_name"] for result in results if result["status"] == "passed"]
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    expected = set(EXPECTED_FAILURES) | (FAILURES_OF_MULTICLASS if case.multiclass else set())
    assert failed.keys() - (FAILURES_OF_DRAWN if case.drawn else set()) == expected, failed
    assert len(passed) >= LEAST_PASSED
