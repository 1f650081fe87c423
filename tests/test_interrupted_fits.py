"""A fit that is broken off or refused leaves the estimator as it was.

All estimators of the registries, broken off at calls from the first to the last, those of C included.
"""

import copy

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sklearn_calib.calibrators import IsotonicCalibrator, PlattCalibrator
from sklearn_calib.inference import CalibrationTest, SequentialTest
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer
from tests._every import (
    CALIBRATOR_MAKERS,
    META_MAKERS,
    SEVERAL_MAKERS,
    TEST_MAKERS,
    binary,
    differs,
    features,
    several,
)
from tests._interrupt import count_calls, interrupt, spread
from tests.calibrators._registry import CALIBRATORS, once_a_class

KINDS = {
    # the fit of what has been exported changes nothing
    "calibrator": [name for name in CALIBRATOR_MAKERS if name != "exported"],
    "several": SEVERAL_MAKERS,
    "test": TEST_MAKERS,
    "meta": META_MAKERS,
}
# These fit many others, or are of a class that another one stands for.
SLOW = {"auto", "log_average_default"} | {
    case.values[0].name for case in once_a_class(CALIBRATORS) if case.marks
}
every_estimator = pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[pytest.mark.thorough] if name.removesuffix("_3") in SLOW else [])
        for kind, names in KINDS.items()
        for name in names
    ],
)


def case(kind, name):
    """Return an unfitted estimator, data for it, and less data, with other columns where that is possible."""
    y, p = binary()
    q = p[:60] ** 2
    if kind == "meta":
        X, y = features()
        return clone(META_MAKERS[name]), (X, y), (X[:60, :3] - 0.1, 1 - y[:60])
    if kind == "several":
        y, p = several()
        return SEVERAL_MAKERS[name](), (p, y), (p[:60, ::-1], y[:60])
    estimator = clone(TEST_MAKERS[name]) if kind == "test" else CALIBRATOR_MAKERS[name]()
    return estimator, (p, y), (np.column_stack([1 - q, q]), y[:60])


def certificate_of(estimator):
    """Return the certificate, or why there is none."""
    try:
        return estimator.cutoff_certificate(n_resamples=19, random_state=0)
    except ValueError as refused:
        return str(refused)


def seen(estimator, X):
    """Return all that can be asked of a fitted estimator."""
    found = {name: getattr(estimator, name) for name in vars(estimator) if name.endswith("_")}
    if not isinstance(estimator, CalibrationTest):
        columns = estimator.n_features_in_
        X = np.column_stack([1 - X, X])[:, -columns:] if X.ndim == 1 else X[:, :columns]
        found["map"] = (estimator.transform if hasattr(estimator, "transform") else estimator.predict_proba)(
            X
        )
    if hasattr(estimator, "cutoff_certificate") and estimator.classes_.shape[0] == 2:
        found["certificate"] = certificate_of(estimator)
    return found


@every_estimator
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_refit_that_is_broken_off(kind, name):
    estimator, first, second = case(kind, name)
    estimator.fit(*first)
    X = first[0]
    before = copy.deepcopy((seen(estimator, X), vars(estimator)))
    # what the first fit fills, such as caches, is no part of the count
    copy.deepcopy(estimator).fit(*second)
    done = copy.deepcopy(estimator)
    total = count_calls(lambda: done.fit(*second))
    after = seen(done, X), vars(done)
    assert differs(before, after)
    for at in spread(total):
        refitted = copy.deepcopy(estimator)
        assert interrupt(lambda refitted=refitted: refitted.fit(*second), at)
        found = seen(refitted, X), vars(refitted)
        difference = differs(found, before)
        assert difference is None or differs(found, after) is None, (at, difference)
    # what was broken off does not stand in the way of the next fit
    refitted.fit(*second)
    assert differs((seen(refitted, X), vars(refitted)), after) is None


@every_estimator
def test_a_refit_that_is_refused(kind, name):
    estimator, first, second = case(kind, name)
    estimator.fit(*first)
    before = copy.deepcopy(vars(estimator))
    X, y = second
    # other columns, and too few labels or none that will do
    with pytest.raises(ValueError, match=r"\by\b|y_true|samples"):
        estimator.fit(X, y[:-1])
    with pytest.raises(ValueError, match=r"\by\b|y_true|samples"):
        estimator.fit(X, np.full(60, np.nan))
    assert differs(vars(estimator), before) is None


class Doubling(PlattCalibrator):
    """A calibrator of a user: its fit does something before and after the inherited one."""

    def __init__(self, *, link="logit", fail=False):
        super().__init__(link=link)
        self.fail = fail

    def fit(self, X, y, sample_weight=None, *, note="none"):
        self.note_ = note
        fitted = super().fit(X, y, sample_weight)
        assert fitted is self
        self.doubled_ = 2 * self.slope_
        if self.fail:
            raise MemoryError
        return self


def test_a_class_of_a_user():
    y, p = binary()
    calibrator = Doubling().set_output(transform="pandas")
    assert calibrator.fit(p, y, note="first") is calibrator
    assert (calibrator.doubled_, calibrator.note_) == (2 * PlattCalibrator().fit(p, y).slope_, "first")
    before = certificate_of(calibrator)
    calibrator.set_params(fail=True)
    with pytest.raises(MemoryError):
        calibrator.fit(p[:60] ** 3, y[:60], note="second")
    assert (calibrator.doubled_, calibrator.note_) == (2 * PlattCalibrator().fit(p, y).slope_, "first")
    assert certificate_of(calibrator) == before
    # a parameter that was set stays, and so does the container of the output
    assert calibrator.fail
    assert list(calibrator.transform(p).columns) == ["x0"]
    assert clone(calibrator).set_params(fail=False).fit(p, y).slope_ == calibrator.slope_


def test_requests_of_metadata_outlive_a_fit():
    with config_context(enable_metadata_routing=True):
        calibrator = IsotonicCalibrator().set_fit_request(sample_weight=True)
        y, p = binary()
        for _ in range(2):
            calibrator.fit(p, y, sample_weight=np.ones(120))
        assert calibrator.get_metadata_routing().fit.requests["sample_weight"] is True


def test_a_prediction_during_a_refit_is_one_of_the_old_map():
    """The base estimator of a refit asks the estimator that is fitted, as another thread may."""
    X, y = features()
    asked = []

    class Asking(LogisticRegression):
        def fit(self, X_, y_, sample_weight=None):
            asked.append(model.predict_proba(X) if hasattr(model, "classes_") else None)
            return super().fit(X_, y_, sample_weight)

    model = CalibratedClassifier(Asking(), PlattCalibrator(), cv=3)
    model.fit(X, y)
    assert asked == [None] * 3
    old = model.predict_proba(X)
    model.fit(X, 1 - y)
    assert all((one == old).all() for one in asked[3:])
    assert (model.predict_proba(X) != old).any()


def test_held_out_scores_that_are_not_reached():
    X, y = features()
    stage = CrossFitScorer(LogisticRegression(), cv=3).fit(X, y)
    copy.deepcopy(stage).fit_transform(X[:60, :3], 1 - y[:60])
    done = copy.deepcopy(stage)
    total = count_calls(lambda: done.fit_transform(X[:60, :3], 1 - y[:60]))
    for at in spread(total):
        refitted = copy.deepcopy(stage)
        assert interrupt(lambda refitted=refitted: refitted.fit_transform(X[:60, :3], 1 - y[:60]), at)
        assert differs(vars(refitted), vars(stage)) is None or differs(vars(refitted), vars(done)) is None, at


def test_a_stream_that_is_broken_off():
    y, p = binary()
    test = SequentialTest().fit(p[:80], y[:80])
    done = copy.deepcopy(test)
    total = count_calls(lambda: done.partial_fit(p[80:], y[80:]))
    for at in spread(total, n_between=20):
        assert interrupt(lambda: test.partial_fit(p[80:], y[80:]), at)
    # nothing is counted twice
    test.partial_fit(p[80:], y[80:])
    assert differs(vars(test), vars(done)) is None
