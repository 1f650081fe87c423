"""Two worker processes: parts stay where they are, a killed worker changes nothing, estimators run there."""

import os
import pickle
import signal
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_calib import CalibratedClassifier, CrossFitScorer
from sklearn_calib.calibrators import AutoCalibrator, IsotonicCalibrator
from sklearn_calib.sketch import CalibrationSketch, sketch_dask
from tests._optional import dask, distributed

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    # brings the options of a cluster with it
    start = distributed.LocalCluster
    # whether a part is stolen by an idle worker depends on the clock
    with dask.config.set({"distributed.scheduler.work-stealing": False}):
        cluster = start(**options)
    with cluster, distributed.Client(cluster) as client:
        yield client


def rows(number):
    """Return the rows of a partition."""
    rng = np.random.default_rng(number)
    p = rng.beta(1, 2, 5000)
    return rng.random(5000) < p, p


def expected(n_parts, precision=17):
    sketch = CalibrationSketch(precision=precision)
    for number in range(n_parts):
        sketch.update(*rows(number))
    return sketch


def slow_rows(number, folder, deadly):
    """Return the rows of a partition after a while; the first worker that has made three kills itself."""
    time.sleep(0.05)
    folder = Path(folder)
    made = [path for path in folder.iterdir() if path.name.split("-")[0] == str(os.getpid())]
    if deadly and len(made) >= 3:
        try:
            (folder / "killed").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"{os.getpid()}-{number}-{time.monotonic_ns()}").touch()
    return rows(number)


def test_a_killed_worker_changes_nothing(client, tmp_path, monkeypatch):
    n_parts, found = 16, []
    # merged all at once, so that no part is safe before the others are done
    monkeypatch.setattr("sklearn_calib.sketch._dask._MERGED", n_parts)
    for deadly in (False, True):
        folder = tmp_path / str(deadly)
        folder.mkdir()
        make = dask.delayed(slow_rows, pure=False)
        found.append(sketch_dask([make(number, str(folder), deadly) for number in range(n_parts)]))
        made = [path.name.split("-") for path in folder.iterdir() if path.name != "killed"]
        assert {int(name[1]) for name in made} == set(range(n_parts))
        assert (folder / "killed").exists() == deadly
        # what the killed worker had made was lost, and made again by another process
        assert len(made) == n_parts if not deadly else len(made) >= n_parts + 3
        assert len({name[0] for name in made}) >= 2
    calm, killed = found
    assert killed == calm == expected(n_parts)
    assert pickle.dumps(killed.to_dict()) == pickle.dumps(calm.to_dict())
    for mine, theirs in zip(killed.weighted_sample(), calm.weighted_sample(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def many_rows(number):
    """Return the rows of a partition: 16 megabytes."""
    rng = np.random.default_rng(number)
    p = rng.uniform(size=1_000_000)
    return (rng.uniform(size=1_000_000) < p).astype(np.int64), p


def sent(dask_worker):
    """Return the number of bytes that a worker has sent to others."""
    return dask_worker.transfer_outgoing_bytes_total


def test_only_sketches_travel(client):
    client.wait_for_workers(2)
    parts = [dask.delayed(many_rows)(number) for number in range(4)]
    parts = dask.persist(*parts)
    distributed.wait(parts)
    assert len({worker for workers in client.who_has(parts).values() for worker in workers}) == 2
    before, sketch = sum(client.run(sent).values()), sketch_dask(parts, precision=10)
    moved, whole = sum(client.run(sent).values()) - before, CalibrationSketch(precision=10)
    for number in range(4):
        whole.update(*many_rows(number))
    assert sketch == whole
    # a sketch has some 40 000 bytes here
    assert 0 < moved < 1_000_000


@pytest.fixture(scope="module")
def data():
    return make_classification(300, n_features=5, flip_y=0.2, random_state=0)


@pytest.mark.parametrize(
    "estimator",
    [
        CalibratedClassifier(LogisticRegression(), n_jobs=2),
        CalibratedClassifier(LogisticRegression(), IsotonicCalibrator(), ensemble=False, n_jobs=2),
        make_pipeline(CrossFitScorer(LogisticRegression(), n_jobs=2), AutoCalibrator()),
    ],
    ids=["pairs", "cross-fitted", "stages"],
)
def test_estimators_give_the_same_numbers(client, data, estimator):
    X, y = data
    serial = estimator.fit(X, y).predict_proba(X)
    with joblib.parallel_config(backend="dask"):
        there = estimator.fit(X, y).predict_proba(X)
    # another process may add in another order
    np.testing.assert_allclose(there, serial, rtol=1e-9)
