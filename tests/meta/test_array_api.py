"""CalibratedClassifier with array API dispatch of scikit-learn, which needs a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib.calibrators import IsotonicCalibrator, OneVsRestCalibrator, PlattCalibrator
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer, SelectiveClassifier
from tests._sklearn import SKLEARN

ROOT = Path(__file__).parents[2]


class Foreign:
    """An array of another library, as the standard defines it, as far as it is asked."""

    def __init__(self, values, device="cpu"):
        self.values, self.device = np.asarray(values), device
        self.shape, self.dtype = self.values.shape, self.values.dtype

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __array_namespace__(self, api_version=None):
        return SimpleNamespace(__name__="foreign", asarray=lambda values, device: Foreign(values, device))


class Plain(GaussianNB):
    """A classifier that computes with numpy."""

    def predict_proba(self, X):
        return super().predict_proba(np.asarray(X))


def raised(call, *given):
    try:
        call(*given)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def check_foreign():
    X, y = make_classification(200, random_state=0)
    for labels in (y, np.array(["a", "b"])[y]):
        model = CalibratedClassifier(FrozenEstimator(Plain().fit(X, labels)))
        expected = model.fit(X, labels).predict_proba(X)
        with config_context(array_api_dispatch=True):
            here, found = model.fit(Foreign(X), labels), model.predict_proba(Foreign(X))
            assert type(found) is Foreign
            assert type(model.predict(Foreign(X))) is (Foreign if labels is y else np.ndarray)
            assert type(here.predict_proba(X)) is np.ndarray
            assert type(here.predict_proba(X.tolist())) is np.ndarray
            np.testing.assert_array_equal(found, expected)
            message = raised(CalibratedClassifier(GaussianNB()).fit, Foreign(X, "gpu:0"), labels)
            assert message == "X is a tensor on the device 'gpu:0'. Move it to the CPU first: X.cpu()."


def check_torch():
    import torch

    for n_classes in (2, 3):
        X, y = make_classification(300, n_informative=4, n_classes=n_classes, random_state=0)
        tensors = torch.tensor(X), torch.tensor(y)
        for estimator in (
            LinearDiscriminantAnalysis(),
            make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()),
            RidgeClassifier(solver="svd"),
        ):
            for calibrator in (PlattCalibrator(link="identity"), IsotonicCalibrator()):
                ensemble = isinstance(calibrator, PlattCalibrator)
                model = CalibratedClassifier(estimator, calibrator, ensemble=ensemble, cv=3)
                expected = model.fit(X, y).predict_proba(X)
                with config_context(array_api_dispatch=True):
                    found = model.fit(*tensors).predict_proba(tensors[0])
                    labels = model.predict(tensors[0])
                assert type(found) is type(labels) is torch.Tensor
                np.testing.assert_allclose(found, expected, atol=1e-9)
                np.testing.assert_array_equal(labels, expected.argmax(axis=1))
    X, y = tensors
    estimator, groups = LinearDiscriminantAnalysis(), np.arange(300) % 7
    with config_context(array_api_dispatch=True):
        model = CalibratedClassifier(estimator, IsotonicCalibrator(), cv=StratifiedGroupKFold(3))
        model.fit(X, y, groups=groups)
        assert type(model.predict(X)) is torch.Tensor
        weighted = CalibratedClassifier(GaussianNB(), IsotonicCalibrator()).fit(X, y, torch.rand(300))
        assert type(weighted.predict(X)) is torch.Tensor
        grid = {"calibrator": [IsotonicCalibrator(), PlattCalibrator()]}
        for scoring in ("neg_brier_score", "neg_smooth_ece"):
            search = GridSearchCV(CalibratedClassifier(estimator, cv=2), grid, cv=2, scoring=scoring)
            assert np.isfinite(search.set_params(error_score="raise").fit(X, y).best_score_)
        steps = make_pipeline(CrossFitScorer(estimator), OneVsRestCalibrator(IsotonicCalibrator())).fit(X, y)
        assert steps.predict_proba(X).shape == (300, 3)
        assert len(SelectiveClassifier(estimator, target=0.6).fit(X, y).predict(X)) == 300
        message = raised(CalibratedClassifier(estimator).fit, X.to("meta"), y.numpy())
        assert message.startswith("X is a tensor on the device 'meta'")


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["foreign", "torch"])
def test_features_of(library):
    if SKLEARN < (1, 7):
        pytest.importorskip("array_api_compat")
    if library == "torch":
        pytest.importorskip("torch")
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.meta.test_array_api", library]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    {"foreign": check_foreign, "torch": check_torch}[sys.argv[1]]()
