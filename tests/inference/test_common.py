"""What holds for every test of calibration in the registry."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from sklearn_calib import inference
from tests.inference import _properties
from tests.inference._registry import TESTS


@pytest.fixture(params=TESTS, ids=lambda case: case.name)
def case(request):
    return request.param


def test_rows_and_weights(case):
    _properties.check_rows_and_weights(case.test, case.ordered)


@pytest.mark.parametrize("check", ["estimator", "bad_data", "impossible", "extremes"])
def test_properties(case, check):
    getattr(_properties, f"check_{check}")(case.test)


def test_what_was_almost_certain_is_no_evidence(case):
    """All draws have the very same labels; the rounding of sums must not tell the sample from them."""
    for n, chance in ((77, 1e-7), (20, 1e-9), (51, 1e-12)):
        p = chance * (1 + np.random.default_rng(n).random(n))
        for y, proba in ((np.zeros(n, int), p), (np.ones(n, int), 1 - p)):
            assert case.test.test(y, proba, pos_label=1).pvalue >= 0.4


def test_single_precision_is_upcast(case):
    y, p = _properties.sample(24)
    p[:4], w = (0.0, 1e-40, 0.7, 1.0), np.arange(24) % 3
    single, given = p.astype(np.float32), {"sample_weight": w, "weights": "frequency"}
    assert case.test.test(y, single, **given) == case.test.test(y, single.astype(float), **given)


def test_tiny_predictions(case):
    """Predictions of which no power is a float, some of them not borne out."""
    for tiny, y in ((5e-324, [0, 1, 0]), (1e-308, [0, 0, 1]), (1e-300, [0, 1, 1]), (1e-150, [0, 1, 0])):
        found = case.test.test(y, [0.0, tiny, 0.5], pos_label=1)
        assert 0 < found.pvalue <= 1
        assert np.isfinite(found.estimate)


@pytest.mark.parametrize(
    "test",
    [
        *(inference.CoxTest(parameter=each) for each in ("both", "intercept", "slope")),
        *(inference.HosmerLemeshowTest(strategy=each) for each in ("quantile", "uniform")),
        inference.CutoffTest(),
        inference.SpiegelhalterTest(),
    ],
)
def test_flip_leaves_asymptotic_pvalues(test):
    y, p = _properties.sample()
    test = clone(test).set_params(method="asymptotic")
    _properties.same(test.test(1 - y, 1 - p), test.test(y, p))


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [("method", "exact", ValueError), ("n_resamples", 0, ValueError), ("n_resamples", 10.5, TypeError),
     ("random_state", -1, ValueError), ("random_state", "seed", TypeError)],
)  # fmt: skip
def test_shared_parameters(name, value, error):
    for case in TESTS:
        if name in case.test.get_params():
            with pytest.raises(error, match=name):
                clone(case.test).set_params(**{name: value}).test([0, 1, 1], [0.5, 0.5, 0.5])


def test_own_parameters():
    for test, parameters, error in [
        (inference.TCal, {"smoothness": "rough"}, ValueError),
        (inference.TCal, {"smoothness": 0}, ValueError),
        (inference.TCal, {"combine": "max"}, ValueError),
        (inference.TCal, {"tolerance": 1.5}, ValueError),
        (inference.TCal, {"reduction": "vector"}, ValueError),
        (inference.CutoffTest, {"reduction": "canonical"}, ValueError),
        (inference.KernelTest, {"bandwidth": "mean"}, ValueError),
        (inference.KernelTest, {"bandwidth": "adaptive", "method": "asymptotic"}, ValueError),
        (inference.BinomialTest, {"max_values": 0}, ValueError),
        (inference.CombinedTest, {"weights": (1, 1)}, ValueError),
        (inference.CombinedTest, {"weights": (1, 0, 1)}, ValueError),
        (inference.CombinedTest, {"components": ()}, ValueError),
        (inference.CombinedTest, {"components": ("tcal", "tcal")}, ValueError),
        (inference.CombinedTest, {"components": ("wald",)}, ValueError),
        (inference.ConsistencyTest, {"metric": 7}, TypeError),
        (inference.ConsistencyTest, {"metric": "ece"}, ValueError),
        (inference.ConsistencyTest, {"metric": lambda y, p: np.inf}, ValueError),
        (inference.ConsistencyTest, {"metric": "smooth_ece", "resample": "rows"}, ValueError),
        (inference.CoxTest, {"parameter": "a"}, ValueError),
        (inference.HosmerLemeshowTest, {"n_bins": 0}, ValueError),
        (inference.HosmerLemeshowTest, {"strategy": "deciles"}, ValueError),
        (inference.SampleSplittingTest, {"smoothness": -1}, ValueError),
        (inference.SampleSplittingTest, {"cross_fit": 1}, TypeError),
    ]:
        named = "resample" if "resample" in parameters else next(iter(parameters))
        with pytest.raises(error, match=named):
            test(**parameters).test([0, 1, 1], [0.5, 0.5, 0.5])


def test_asymptotic_kernel_test_is_binary():
    with pytest.raises(ValueError, match="binary"):
        inference.KernelTest(method="asymptotic").test([0, 1, 2], np.full((3, 3), 1 / 3))


#: Checks that need no data that a test would take for probabilities.
INTERFACE = {
    "check_complex_data", "check_do_not_raise_errors_in_init_or_set_params", "check_estimator_cloneable",
    "check_estimator_repr", "check_estimator_sparse_matrix", "check_estimator_tags_renamed",
    "check_estimators_nan_inf", "check_estimators_unfitted", "check_get_params_invariance",
    "check_mixin_order", "check_no_attributes_set_in_init", "check_parameters_default_constructible",
    "check_requires_y_none", "check_set_params", "check_transformers_unfitted", "check_valid_tag_types",
}  # fmt: skip
#: It refuses several columns before it reads what is in them.
OF_ONE_COLUMN = {"sequential": {"check_estimators_nan_inf", "check_estimator_sparse_matrix"}}
#: One test of each class.
CASES = {type(case.test): case for case in TESTS}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_passes_the_checks_that_need_no_features(case):
    """The checks of scikit-learn that ask without data, or with data that any estimator refuses.

    Others pass features of any size and labels of several classes, where a test takes probabilities.
    """
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
            assert isinstance(result["exception"], ValueError | TypeError | IndexError | AssertionError)
