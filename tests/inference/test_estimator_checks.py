"""scikit-learn's own checks of estimators on the tests of calibration.

The checks pass features of any size and labels of several classes, which a test refuses: it takes
probabilities. So what is asked of it is all that the checks ask without data, or with data that any
estimator refuses; pipelines, searches and weights on probabilities have tests of their own.
"""

import warnings

import pytest
from sklearn.utils.estimator_checks import check_estimator

from tests.inference._registry import TESTS

#: Checks that need no data that a test would take for probabilities.
INTERFACE = {
    "check_complex_data",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_sparse_matrix",
    "check_estimator_tags_renamed",
    "check_estimators_nan_inf",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_set_params",
    "check_transformers_unfitted",
    "check_valid_tag_types",
}
#: It refuses several columns before it reads what is in them.
OF_ONE_COLUMN = {"sequential": {"check_estimators_nan_inf", "check_estimator_sparse_matrix"}}
#: One test of each class.
CASES = {type(case.test): case for case in TESTS}


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_passes_the_checks_that_need_no_features(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(case.test, on_fail=None)
    status = {result["check_name"]: result["status"] for result in results}
    asked = INTERFACE & status.keys() - OF_ONE_COLUMN.get(case.name, set())
    assert len(asked) >= 12
    assert [check for check in sorted(asked) if status[check] != "passed"] == []
    # whatever else fails does so for what it passed
    for result in results:
        if result["status"] == "failed":
            assert isinstance(result["exception"], ValueError | TypeError | IndexError | AssertionError), (
                result
            )
