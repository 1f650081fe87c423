"""Reports that several files look at, made once."""

import sys

import numpy as np
import pytest

from sklearn_calib.report import calibration_report
from tests._every import short_report
from tests._samples import simulated, simulated_classes

EVIL = '<script>alert("x")</script>&"\'\n\x1b[31m\0\ud800'


@pytest.fixture(scope="session")
def forecast():
    return simulated(600, "beta", 2, 3, truth=1.4, digits=3)


@pytest.fixture(scope="session")
def groups():
    return np.where(np.arange(600) % 3 == 0, EVIL, "right")


@pytest.fixture(scope="session")
def report(forecast, groups):
    return calibration_report(*forecast, n_resamples=20, random_state=3, name=EVIL, groups=groups)


@pytest.fixture(scope="session")
def page(report):
    return report.to_html()


@pytest.fixture
def no_matplotlib(monkeypatch):
    """Pages without figures, which take most of the time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def no_class_intervals(monkeypatch):
    """Leave out the intervals of the mean over classes, as in reports on large samples."""
    monkeypatch.setattr("sklearn_calib.report._numbers._MOST_INTERVALS", 2)


@pytest.fixture(scope="session")
def multiclass():
    """Overconfident predictions of three classes."""
    y, p = simulated_classes(300, [0.6, 0.6, 0.6], seed=1)
    extreme = p**2.5
    return y, extreme / extreme.sum(axis=1, keepdims=True)


@pytest.fixture(scope="session")
def multiclass_report(multiclass):
    return calibration_report(*multiclass, n_resamples=20)


@pytest.fixture(scope="session")
def many_classes():
    """Report on 25 classes with long names."""
    y, p = simulated_classes(300, np.full(25, 0.3), seed=1)
    labels = [f"class {k:02} with a name that is rather long, as names of classes are" for k in range(25)]
    extreme = p**3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn_calib.report._numbers._MOST_INTERVALS", 2)
        p = extreme / extreme.sum(axis=1, keepdims=True)
        return short_report(np.array(labels)[y], p, labels=labels)


@pytest.fixture(scope="session")
def classes_block(many_classes):
    return many_classes._repr_html_()
