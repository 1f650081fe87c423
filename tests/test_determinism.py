"""One seed, one result, whatever the process, the batches, the threads; no seed, a fresh result each time.

And what is computed from extreme scores: probabilities without overflow.
"""

import contextlib
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import sklearn_calib
from sklearn_calib import SelectiveClassifier, datasets, inference, metrics, report
from sklearn_calib._core import _null
from sklearn_calib._core._links import EPS, clip_probability, logit
from sklearn_calib.calibrators import (
    CertifiedCalibrator,
    IsotonicCalibrator,
    ScalingBinningCalibrator,
    SmoothedCalibrator,
    TemperatureCalibrator,
)
from sklearn_calib.report._numbers import ERRORS
from sklearn_calib.scorers._proper import log_loss
from tests import _every as every
from tests._registry import METRICS
from tests.calibrators._registry import CALIBRATORS

ROOT = Path(__file__).resolve().parents[1]
Y, P = every.binary()
FEW = {"n_resamples": 19}


def spread_scores():
    """A calibrator whose map depends on the division of its rows."""
    return np.linspace(0.01, 0.99, 50)


def drawn_map(make):
    def draw(random_state):
        calibrator = make(random_state=random_state)
        return calibrator.fit(P, Y).predict_proba(spread_scores())

    return draw


#: Everything with a ``random_state``: what it draws, as numbers, by the name of its class or function.
DRAWN = {
    "AutoCalibrator": lambda s: [c.log_loss for c in _auto(s).selection_.candidates],
    "CertifiedCalibrator": drawn_map(CertifiedCalibrator),
    "ScalingBinningCalibrator": drawn_map(ScalingBinningCalibrator),
    "SmoothedCalibrator": drawn_map(lambda **s: SmoothedCalibrator(randomized=True, **s)),
    "cutoff_certificate": lambda s: (
        IsotonicCalibrator().fit(P, Y).cutoff_certificate(method="bootstrap", n_resamples=199, random_state=s)
    ),
    "margin": lambda s: metrics.cutoff_result(Y, P).margin(
        method="bootstrap", n_resamples=199, random_state=s
    ),
    "BinomialTest": lambda s: (
        inference.BinomialTest(max_values=10**4, n_resamples=19, random_state=s)
        .test(Y, P, clusters=np.arange(len(Y)) // 4)
        .null_distribution
    ),
    "CombinedTest": lambda s: _null_of(inference.CombinedTest(**FEW, random_state=s)),
    "ConsistencyTest": lambda s: _null_of(
        inference.ConsistencyTest(metrics.smooth_ece, n_resamples=19, random_state=s)
    ),
    "CoxTest": lambda s: _null_of(inference.CoxTest(**FEW, random_state=s)),
    "HosmerLemeshowTest": lambda s: _null_of(inference.HosmerLemeshowTest(**FEW, random_state=s)),
    "SpiegelhalterTest": lambda s: _null_of(inference.SpiegelhalterTest(**FEW, random_state=s)),
    "CutoffTest": lambda s: _null_of(inference.CutoffTest(method="monte_carlo", **FEW, random_state=s)),
    "KernelTest": lambda s: _null_of(inference.KernelTest(**FEW, random_state=s)),
    "SampleSplittingTest": lambda s: _null_of(inference.SampleSplittingTest(**FEW, random_state=s)),
    "TCal": lambda s: _null_of(inference.TCal(**FEW, random_state=s)),
    "expected_under_calibration": lambda s: (
        inference.expected_under_calibration(None, P, metric=metrics.smooth_ece, **FEW, random_state=s).mean
    ),
    "confidence_interval": lambda s: (
        inference.confidence_interval(Y, P, metric=metrics.smooth_ece, n_resamples=50, random_state=s).lower
    ),
    "paired_test": lambda s: (
        inference.paired_test(
            Y, P, P**2, metric=metrics.expected_calibration_error, n_resamples=39, random_state=s
        ).lower
    ),
    "dominance_test": lambda s: inference.dominance_test(
        Y, P, P**2, n_resamples=49, random_state=s
    ).upper.tolist(),
    "compare_models": lambda s: [
        m.null_mean
        for m in inference.compare_models(
            Y, {"a": P, "b": P**2}, metric=metrics.expected_calibration_error, n_resamples=39, random_state=s
        ).models
    ],
    "SelectiveClassifier": lambda s: (
        SelectiveClassifier(LogisticRegression(), target=0.4, random_state=s)
        .fit(np.tile(P, 4)[:, np.newaxis], np.tile(Y, 4))
        .estimator_.coef_
    ),
    "calibration_report": lambda s: [
        line.null_mean for line in report.calibration_report(Y, P, n_resamples=20, random_state=s).metrics[:2]
    ],
    "check": lambda s: [
        line.upper
        for line in report.CalibrationRequirements({"smooth_ece": 0.1, "certificate": 0.1})
        .check(Y, P, n_resamples=20, random_state=s)
        .results
    ],
    "required_n_samples": lambda s: inference.required_n_samples(
        np.arange(1, 30) // 3 / 10, bound=0.01, random_state=s
    ),
    "make_forecasts": lambda s: datasets.make_forecasts(20, random_state=s).y_proba,
    "make_discrete_forecasts": lambda s: (
        datasets.make_discrete_forecasts(200, [0.2, 0.7], [0.3, 0.6], random_state=s).y_true
    ),
    "make_multiclass_forecasts": lambda s: datasets.make_multiclass_forecasts(20, random_state=s).y_proba,
}
SMOOTHED = {
    "ConsistencyTest",
    "calibration_report",
    "check",
    "confidence_interval",
    "expected_under_calibration",
}


def _auto(random_state):
    from sklearn_calib.calibrators import AutoCalibrator, PlattCalibrator

    candidates = {"a": PlattCalibrator(), "b": TemperatureCalibrator()}
    return AutoCalibrator(candidates=candidates, n_folds=3, random_state=random_state).fit(P, Y)


def _null_of(test):
    return test.test(Y, P).null_distribution


def numbers(found):
    return np.asarray(found, dtype=np.float64)


def test_nothing_with_a_random_state_is_left_out():
    """Displays pass theirs on to what is listed, and their default is 0; the rest is here."""
    asked = set()
    for module in (
        "metrics",
        "calibrators",
        "inference",
        "meta",
        "report",
        "datasets",
        "sketch",
        "export",
        "scorers",
        "monitor",
    ):
        subpackage = importlib.import_module(f"sklearn_calib.{module}")
        for name in subpackage.__all__:
            value = getattr(subpackage, name)
            methods = [(m, getattr(value, m)) for m in dir(value) if not m.startswith("_")]
            for shown, callable_ in [(name, value), *(methods if inspect.isclass(value) else [])]:
                with contextlib.suppress(TypeError, ValueError):
                    if "random_state" in inspect.signature(callable_).parameters:
                        asked.add(shown)
    assert asked == set(DRAWN)


@pytest.fixture
def _few_measures(monkeypatch):
    """Leave out the intervals of a report but one: they take most of the time."""
    monkeypatch.setattr("sklearn_calib.report._numbers.ERRORS", ERRORS[:1])


@pytest.mark.usefixtures("_few_measures")
@pytest.mark.parametrize("name", DRAWN)
def test_seeds(name):
    """A seed gives the same numbers, other seeds and None others; numpy's global state has no part in it."""
    draw = DRAWN[name]
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = numbers(draw(5))
    np.testing.assert_array_equal(numbers(draw(np.int64(5))), first)
    if name not in ("calibration_report", "check"):  # they draw a seed from a generator
        np.testing.assert_array_equal(numbers(draw(np.random.default_rng(5))), first)
    assert not np.array_equal(numbers(draw(6)), first)
    legacy = [numbers(draw(np.random.RandomState(5))) for _ in range(2)]
    np.testing.assert_array_equal(*legacy)
    fresh = numbers(draw(None))
    # discrete results can be equal by chance
    assert any(not np.array_equal(numbers(draw(None)), fresh) for _ in range(8)), (
        "None draws the same each time"
    )
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_a_generator_goes_on():
    """One generator for two calls: the second draws others than the first, the same ones each time."""
    for name, draw in DRAWN.items():
        if name in ("AutoCalibrator", "calibration_report"):  # these take no more than a seed from it
            continue
        a, b = np.random.default_rng(0), np.random.default_rng(0)
        once = [numbers(draw(a)), numbers(draw(a))]
        again = [numbers(draw(b)), numbers(draw(b))]
        for first, second in zip(once, again, strict=True):
            np.testing.assert_array_equal(first, second, err_msg=name)
        assert not np.array_equal(*once), name


def all_numbers():
    """Return what every metric, calibrator and test gives, by name."""
    found = {f"metric_{case.name}": case.call(Y, P) for case in METRICS}
    for name in every.CALIBRATOR_NAMES:
        calibrator, scores = every.fitted_calibrator(name)
        found[f"calibrator_{name}"] = calibrator.predict_proba(scores)
    for name, test in every.TEST_MAKERS.items():
        result = test.test(*every.binary(60))
        found[f"test_{name}"] = [result.statistic, result.pvalue, result.estimate]
    X, y = every.features()
    for name, model in every.META_MAKERS.items():
        fitted = clone(model).fit(X, y)
        method = "transform" if hasattr(fitted, "transform") else "predict_proba"
        found[f"model_{name}"] = getattr(fitted, method)(X)
    return {name: numbers(value) for name, value in found.items()}


@pytest.fixture(scope="module")
def here():
    return all_numbers()


@pytest.mark.thorough
def test_another_process_gives_the_same(here, tmp_path):
    """With other hashes of texts, so that nothing depends on the order of a set."""
    path = tmp_path / "numbers.npz"
    code = (
        "import sys, numpy as np\n"
        "from tests.test_determinism import all_numbers\n"
        "np.savez(sys.argv[1], **all_numbers())\n"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    subprocess.run(
        [sys.executable, "-c", code, str(path)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
    )
    with np.load(path) as there:
        assert set(there) == set(here)
        for name, value in here.items():
            np.testing.assert_array_equal(there[name], value, err_msg=name)


def test_threads_of_linear_algebra_change_rounding_at_most(here):
    with threadpool_limits(3):
        found = all_numbers()
    for name, value in here.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-11, err_msg=name)


#: Names of the constants with the sizes of chunks of long arrays.
CHUNK_NAMES = ("CHUNK", "_CHUNK", "_SMALL_CHUNK", "_ROWS", "_SLICE")


def test_chunk_sizes_change_rounding_at_most(here, monkeypatch):
    """Chunks of 16 samples instead of thousands, in every module that has them."""
    found = {
        (info.name, name)
        for info in pkgutil.walk_packages(sklearn_calib.__path__, "sklearn_calib.")
        if not info.name.endswith("__main__")
        for name in CHUNK_NAMES
        # small values are not sizes of chunks
        if getattr(importlib.import_module(info.name), name, 0) > 64
    }
    assert len(found) > 12
    for module, name in found:
        monkeypatch.setattr(f"{module}.{name}", 16)
    for name, value in all_numbers().items():
        # the bandwidths of its many samples are solved to 1e-6, and rounding moves the last steps
        atol = 1e-8 if name == "test_consistency" else 1e-11
        np.testing.assert_allclose(value, here[name], rtol=1e-9, atol=atol, err_msg=name)


@pytest.mark.usefixtures("_few_measures")
@pytest.mark.parametrize("size", [1, 7])
def test_batches_of_draws_change_nothing(size, monkeypatch):
    """A draw at a time, or seven: the streams are read in the same order."""
    drawn = {name: numbers(DRAWN[name](5)) for name in DRAWN if "make_" not in name}
    calls = []

    def small(n_draws, _size, _max_elements):
        calls.append(n_draws)
        for first in range(0, n_draws, size):
            yield first, min(first + size, n_draws)

    monkeypatch.setattr(_null, "_chunks", small)
    for module in ("_kernel_estimators", "_splitting"):
        monkeypatch.setattr(f"sklearn_calib.inference.{module}.MAX_ELEMENTS", size * 120)
    for module in ("metrics._logit_smoothed", "inference._kernel_estimators", "_core._smoothing"):
        monkeypatch.setattr(f"sklearn_calib.{module}._WORK", 1 << 10)
    for name, value in drawn.items():
        # smoothed errors of many draws are evaluated to this accuracy, whose rounding depends on the others
        atol = 1e-6 if name in SMOOTHED else 1e-12
        np.testing.assert_allclose(numbers(DRAWN[name](5)), value, rtol=0, atol=atol, err_msg=name)
    assert len(calls) > 5


# From the least positive number to the largest below 1, with both ends.
EXTREMES = np.array([0.0, 5e-324, 1e-308, 1e-300, 1e-100, 1e-17, EPS, 1e-10, 0.5, 1 - 1e-10, 1 - EPS, 1.0])


def test_links():
    for p in (EXTREMES, EXTREMES[::-1]):
        x = logit(p)
        assert np.isfinite(x).all()
        assert np.abs(x).max() <= 37
        np.testing.assert_allclose(expit(x), clip_probability(p), rtol=1e-13, atol=0)
    far = np.array([-1e308, -745.2, -700.0, 0.0, 700.0, 745.2, 1e308])
    assert expit(far).tolist() == pytest.approx([0, 0, np.exp(-700), 0.5, 1, 1, 1], rel=1e-12, abs=0)


@pytest.mark.parametrize("case", CALIBRATORS, ids=lambda case: case.name)
def test_extreme_scores(case):
    """Nothing overflows, nothing leaves [0, 1], in the fit or after it."""
    calibrator = case.make()
    kind = calibrator._score_kind()
    far = np.array([-700.0, -300.0, -37.0, -1.0, 0.0, 1e-300, 1.0, 37.0, 300.0, 700.0])
    ends = EXTREMES if kind == "probability" else far
    rng = np.random.default_rng(0)
    scores = np.concatenate([np.repeat(ends, 3), rng.choice(ends, 20)])
    y = (rng.random(scores.shape[0]) < (0.2 + 0.6 * (scores > np.median(scores)))).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fitted in (calibrator.fit(scores, y), case.make().fit(*_usual(kind))):
            for given in (ends, scores):
                proba = fitted.predict_proba(given)
                assert ((proba >= 0) & (proba <= 1)).all()
                np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
            if case.monotone:
                assert (np.diff(fitted.transform(np.sort(ends))) >= 0).all()


def _usual(kind):
    return (P, Y) if kind == "probability" else (logit(P), Y)


@pytest.mark.parametrize(
    "case", [case for case in CALIBRATORS if case.multiclass], ids=lambda case: case.name
)
def test_extreme_scores_of_several_classes(case):
    y, rows = every.several()
    far = 700.0 * (np.arange(3) == np.arange(30)[:, None] % 3) - 350.0
    sure = np.eye(3)[np.arange(30) % 3]
    if case.log_odds:
        rows, ends = np.log(rows), far
    else:
        ends = np.clip(sure, 1e-300, 1.0)
    both, labels = np.vstack([rows, ends]), np.concatenate([y, np.arange(30) * 7 % 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fitted in (case.make().fit(rows, y), case.make().fit(both, labels)):
            for given in (ends, both) if case.log_odds else (ends, both, sure):
                proba = fitted.predict_proba(given)
                assert ((proba >= 0) & (proba <= 1)).all()
                np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_metrics_of_extreme_predictions(case):
    y = np.arange(24) % 2
    p = np.repeat(EXTREMES, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(case.call(y, p))


def test_log_loss_of_extreme_predictions():
    """Finite, but where the definition is not: of a prediction of 0 or 1 that fails. The scorer clips it."""
    inner = np.repeat(EXTREMES[1:-1], 2)
    y = np.arange(24) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = metrics.score_decomposition(y[2:-2], inner, score="log_loss")
        assert np.isfinite([found.score, found.miscalibration, found.discrimination, found.uncertainty]).all()
        assert found.score == pytest.approx(-np.log([1 - inner[::2], inner[1::2]]).mean(), rel=1e-9)
        ends = metrics.score_decomposition(y, np.repeat(EXTREMES, 2), score="log_loss")
        assert (ends.score, ends.miscalibration) == (np.inf, np.inf)
        p = np.repeat(EXTREMES, 2)
        assert np.isfinite(log_loss(y, np.column_stack((1 - p, p))))


def test_defaults_of_random_states_are_none_or_zero():
    """Estimators and tests draw anew by default, but where results have always been the same.

    These are the choice among calibrators and the classical tests, which may do without simulations.
    """
    fixed = {"AutoCalibrator", "BinomialTest", "CoxTest", "HosmerLemeshowTest", "SpiegelhalterTest"}
    for kind in every.public_estimators():
        if issubclass(kind, BaseEstimator) and "random_state" in inspect.signature(kind).parameters:
            default = inspect.signature(kind).parameters["random_state"].default
            assert default is (0 if kind.__name__ in fixed else None), kind
