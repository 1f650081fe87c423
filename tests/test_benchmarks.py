"""The benchmarks of speed: every public metric, test and calibrator is in them, and calls have a limit."""

import importlib
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_calib import calibrators, inference, metrics

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def scripts():
    """Import modules of the folder, which is no package."""
    before = list(sys.path), set(sys.modules)
    sys.path.append(str(FOLDER))
    yield importlib.import_module
    sys.path[:] = before[0]
    for name in set(sys.modules) - before[1]:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_every_public_object_is_measured(scripts):
    entries = scripts("_entries").own()
    measured = {name.split(",")[0].split("(")[0] for name in entries}
    for name in metrics.__all__:
        assert not inspect.isfunction(getattr(metrics, name)) or name in measured
    bases = {inference: inference.CalibrationTest, calibrators: calibrators.BaseCalibrator}
    for subpackage, base in bases.items():
        for name in subpackage.__all__:
            kind = getattr(subpackage, name)
            if inspect.isclass(kind) and issubclass(kind, base) and kind is not base:
                assert name in measured, name
    assert set(scripts("_peer_entries").PEERS) <= set(entries)


def test_entries_do_what_they_say(scripts):
    module = scripts("_entries")
    data = module.data_of(80)
    assert module.own_metrics()["smooth_ece"](data)() == metrics.smooth_ece(data.y, data.p)
    found = module.own_tests()["TCal, asymptotic"](data)()
    assert found == inference.TCal(method="asymptotic").test(data.y, data.p)
    mapped = module.own_calibrators()["PlattCalibrator"](data)()
    expected = calibrators.PlattCalibrator().fit(data.p, data.y).predict_proba(data.fresh)
    np.testing.assert_array_equal(mapped, expected)
    assert module.own_several()["TemperatureCalibrator, ten classes"](data)().shape == (80, 10)


def test_peers_of_scikit_learn(scripts):
    module, data = scripts("_peer_entries"), scripts("_entries").data_of(80)
    ours = scripts("_entries").own()["IsotonicCalibrator"](data)()[:, 1]
    for name in ("scikit-learn: IsotonicRegression", "scikit-learn: isotonic"):
        np.testing.assert_allclose(module.PEERS["IsotonicCalibrator"][name](data)(), ours, atol=1e-12)


@pytest.mark.weekly
def test_calls_have_a_limit(scripts):
    compare = scripts("compare_peers")
    # of the processes that measure, the first ends by its limit and the second does not
    request = {"sizes": [100, 10**6], "seconds": 1e-3, "memory": 6.0, "limit": 1.0}
    stopped = compare.ask(sys.executable, request | {"jobs": [["AutoCalibrator", compare.OURS]]})
    assert stopped[0]["seconds"][0] > 0
    assert stopped[-1]["status"] == "limit"
    request |= {"sizes": [1000], "limit": 10.0}
    request |= {"jobs": [["smooth_ece", compare.OURS], ["unknown", compare.OURS]]}
    found, failed = compare.ask(sys.executable, request)
    assert len(found["seconds"]) == len(found["sort"]) >= 1
    assert failed["status"] == "failed"


def test_memory_at_the_peak(scripts):
    memory = scripts("_timing").PeakMemory()
    with memory:
        for _ in range(2):
            np.ones(1 << 21).sum()
    if np.isnan(memory.bytes):
        pytest.skip("the peak is known on Linux only")
    assert 15 << 20 < memory.bytes < 40 << 20


@pytest.mark.weekly
def test_table(scripts, tmp_path):
    tables = scripts("_speed_table")
    run = tables.Run("a machine", "X", 10.0)

    def cells(**seconds):
        given = {int(n[1:]): time for n, time in seconds.items()}
        times = {
            n: {"seconds": [time] * 3, "sort": [n / 1e9] * 3, "peak": 8 * n} for n, time in given.items()
        }
        return {n: tables.Cell("limit") if given[n] is None else tables.Cell.of(times[n]) for n in given}

    run.sort.cells |= cells(n10000=1e-5, n100000=1e-4)
    run.plain.cells |= cells(n10000=2e-5, n100000=2e-4)
    run.rows = [
        tables.Row("ece", tables.OURS, cells(n10000=1e-3, n100000=2e-2)),
        tables.Row("ece", "peer: ece", cells(n10000=5e-4, n100000=None)),
    ]
    ours = run.rows[0]
    assert (ours.exponent, ours.bytes_a_row) == (pytest.approx(np.log10(20)), 8)
    assert ours.cells[10000].ratio == pytest.approx(100)
    assert run.faster() == ["ece, peer: ece: n = 10,000: 500 µs, this package 1 ms"]
    assert "**500 µs**<br>50 [50, 50] | > 10 s" in run.markdown()
    assert "> 10 s" in run.line(run.rows[1])
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "docs" / "_static").mkdir(parents=True)
    pytest.importorskip("matplotlib").use("agg")
    tables.write(run, tmp_path)
    assert (tmp_path / "benchmarks" / "results" / "speed.md").read_text(encoding="utf-8") == run.markdown()
    assert (tmp_path / "docs" / "_static" / "speed.png").stat().st_size > 10_000
