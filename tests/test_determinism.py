"""The same seed gives the same result, in every process and with every size of chunks."""

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import sklearn_calib
from tests import _every as every
from tests._entries import entries
from tests._registry import METRICS

ROOT = Path(__file__).resolve().parents[1]


def seeded():
    """Return the entries that draw random numbers, by name."""
    return {entry.name: entry for entry in entries(displays=False) if "random_state" in entry.names}


def assert_the_seed_decides(entry, legacy=True):
    def call(seed):
        return entry.call(**{**entry.good, "random_state": seed})

    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert every.differs(without_seed(call(np.int64(5))), without_seed(call(5))) is None
    if legacy:
        assert every.differs(*[without_seed(call(np.random.RandomState(5))) for _ in range(2)]) is None
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_seeds():
    """A seed gives the same numbers, whatever its type; numpy's global state is neither used nor changed."""
    assert len(seeded()) > 15
    for place, (name, entry) in enumerate(seeded().items()):
        if name != "calibration_report":
            assert_the_seed_decides(entry, legacy=place % 3 == 0)


@pytest.mark.thorough
def test_seeds_of_a_report():
    assert_the_seed_decides(seeded()["calibration_report"])


def without_seed(found):
    """Return a result, or what a fitted estimator has learned, without the seed itself."""
    known = vars(found) if hasattr(found, "get_params") else {"result": found}
    return {name: value for name, value in known.items() if name != "random_state"}


def test_other_seeds_give_other_numbers():
    drawn = seeded()
    for name in ("CutoffTest.test", "confidence_interval", "compare_models", "make_forecasts"):
        entry = drawn[name.removesuffix(".test") + "()" if name.endswith(".test") else name]
        # a single p-value can be equal by chance
        found = (str(without_seed(entry.call(**{**entry.good, "random_state": seed}))) for seed in range(5))
        first = next(found)
        assert any(other != first for other in found), name


KINDS = ("metric", "calibrator", "test", "model")


def all_numbers(kinds=KINDS):
    """Return what every metric, calibrator, test and model gives, by name."""
    Y, P = every.binary()
    found = {f"metric_{case.name}": case.call(Y, P) for case in METRICS if "metric" in kinds}
    for name in every.CALIBRATOR_NAMES if "calibrator" in kinds else ():
        # fitted anew, not the one that all tests share
        calibrator, scores = every.fitted_calibrator.__wrapped__(name)
        found[f"calibrator_{name}"] = calibrator.predict_proba(scores)
    for name, test in every.TEST_MAKERS.items() if "test" in kinds else ():
        result = test.test(*every.binary(60))
        found[f"test_{name}"] = [result.statistic, result.pvalue, result.estimate]
    X, y = every.features()
    for name, model in every.META_MAKERS.items() if "model" in kinds else ():
        fitted = clone(model).fit(X, y)
        method = "transform" if hasattr(fitted, "transform") else "predict_proba"
        found[f"model_{name}"] = getattr(fitted, method)(X)
    return {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}


@pytest.mark.thorough
def test_another_process_gives_the_same(tmp_path):
    """With other hashes of texts, so that nothing depends on the order of a set."""
    path = tmp_path / "numbers.npz"
    code = (
        "import sys, numpy as np\n"
        "from tests.test_determinism import all_numbers\n"
        "np.savez(sys.argv[1], **all_numbers())\n"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, cwd=ROOT, env=environment)
    here = all_numbers()
    with np.load(path) as there:
        assert set(there) == set(here)
        for name, value in here.items():
            np.testing.assert_array_equal(there[name], value, err_msg=name)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "metric" else pytest.mark.thorough) for kind in KINDS]
)
def test_chunk_sizes_change_rounding_at_most(kind, monkeypatch):
    """Chunks of 16 samples instead of thousands, in every module that has them."""
    here = all_numbers([kind])
    for info in pkgutil.walk_packages(sklearn_calib.__path__, "sklearn_calib."):
        module = None if info.name.endswith("__main__") else importlib.import_module(info.name)
        for name in ("CHUNK", "_CHUNK", "_SMALL_CHUNK", "_ROWS", "BLOCK_ROWS"):
            # small values are not sizes of chunks
            if getattr(module, name, 0) > 64:
                monkeypatch.setattr(module, name, 16)
    for name, value in all_numbers([kind]).items():
        # the bandwidths of many simulated samples are solved to 1e-6, and rounding moves the last steps
        atol = 1e-8 if name == "test_consistency" else 1e-11
        np.testing.assert_allclose(value, here[name], rtol=1e-9, atol=atol, err_msg=name)
