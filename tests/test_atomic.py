"""A fit that is broken off or refused leaves the estimator as it was."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.meta import CalibratedClassifier
from tests import _every as every

# the fit of what has been exported changes nothing
NAMES = [*every.CALIBRATOR_NAMES, *every.TEST_MAKERS, *every.META_MAKERS]
NAMES.remove("exported")


def fitted(name):
    """Return a fitted estimator that may be changed, and what it was fitted to."""
    if name in every.CALIBRATOR_NAMES:
        y, _ = every.several() if name in every.SEVERAL_MAKERS else every.binary()
        estimator, X = every.fitted_calibrator(name)
        return copy.deepcopy(estimator), X, y
    X, y = every.features() if name in every.META_MAKERS else every.binary()[::-1]
    return clone((every.META_MAKERS | every.TEST_MAKERS)[name]).fit(X, y), X, y


@pytest.mark.parametrize("name", NAMES)
def test_a_refit_that_is_refused(name):
    estimator, X, y = fitted(name)
    before = copy.deepcopy(vars(estimator))
    with pytest.raises(ValueError, match=r"\by\b|y_true|samples"):
        estimator.fit(X[:60], y[:59])
    with pytest.raises(ValueError, match=r"\by\b|y_true|samples"):
        estimator.fit(X[:60], np.full(60, np.nan))
    # copies of sketches hold finished bins
    assert every.differs(copy.deepcopy(vars(estimator)), before) is None


class Doubling(PlattCalibrator):
    """A calibrator of a user: its fit does something before and after the inherited one."""

    def __init__(self, *, link="logit", fail=False):
        super().__init__(link=link)
        self.fail = fail

    def fit(self, X, y, sample_weight=None, *, note="none"):
        self.note_ = note
        assert super().fit(X, y, sample_weight) is self
        self.doubled_ = 2 * self.slope_
        if self.fail:
            raise MemoryError
        return self


def test_a_class_of_a_user():
    y, p = every.binary()
    calibrator = Doubling().set_output(transform="pandas")
    assert calibrator.fit(p, y, note="first") is calibrator
    assert (calibrator.doubled_, calibrator.note_) == (2 * PlattCalibrator().fit(p, y).slope_, "first")
    calibrator.set_params(fail=True)
    before = copy.deepcopy(vars(calibrator))
    with pytest.raises(MemoryError):
        calibrator.fit(p[:60] ** 3, y[:60], note="second")
    assert every.differs(vars(calibrator), before) is None
    assert clone(calibrator).set_params(fail=False).fit(p, y).slope_ == calibrator.slope_


def test_a_prediction_during_a_refit_is_one_of_the_old_map():
    """The base estimator of a refit asks the estimator that is fitted, as another thread may."""
    X, y = every.features()
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
