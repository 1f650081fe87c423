"""Equality with other packages, of those that are installed (``pip install -r benchmarks/peers.txt``).

The pages under docs/migration state these equalities, and why other numbers differ.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import CalibratedClassifier, calibrators, metrics
from sklearn_calib.datasets import make_forecasts, make_multiclass_forecasts
from sklearn_calib.inference import CutoffTest, SpiegelhalterTest
from tests._sklearn import SKLEARN

ece, smooth = metrics.expected_calibration_error, metrics.smooth_ece


@pytest.fixture(scope="module", params=[300, pytest.param(3000, marks=pytest.mark.thorough)])
def sample(request):
    n = request.param
    rngs = [np.random.default_rng([0, j]) for j in (0, 1)]
    old, new = (make_forecasts(n, distortion="slope", strength=0.6, random_state=rng) for rng in rngs)
    several, others = (make_multiclass_forecasts(n, 4, temperature=1.7, random_state=seed) for seed in (0, 1))
    binary = {"p": old.y_proba, "y": old.y_true, "new": new.y_proba}
    rows = {"rows": several.y_proba, "labels": several.y_true, "new_rows": others.y_proba}
    return SimpleNamespace(**binary, **rows)


def test_calibration_curve_of_scikit_learn(sample):
    observed, predicted = calibration_curve(sample.y, sample.p, n_bins=10, strategy="uniform")
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, 11)[1:-1], sample.p), minlength=10)
    error = np.abs(observed - predicted) @ counts[counts > 0] / len(sample.p)
    assert ece(sample.y, sample.p, n_bins=10) == pytest.approx(error, abs=1e-12)


def test_points_of_calibration_curve(sample):
    pytest.importorskip("matplotlib")
    from sklearn_calib.plot import ReliabilityDisplay

    display = ReliabilityDisplay.from_predictions(sample.y, sample.p, curve="binned", n_bins=10)
    found = display.curve.observed, display.curve.predicted
    np.testing.assert_allclose(found, calibration_curve(sample.y, sample.p, n_bins=10), rtol=0, atol=1e-12)


@pytest.mark.skipif(SKLEARN < (1, 10), reason='scikit-learn has n_bins="cube_root" since 1.10')
@pytest.mark.parametrize("n", [9, 64, 1000, 1001])
def test_number_of_bins_of_scikit_learn(n):
    p = (np.arange(n) + 0.5) / n
    observed, _ = calibration_curve(np.arange(n) % 2, p, n_bins="cube_root", strategy="quantile")
    ours = calibrators.HistogramBinningCalibrator(n_bins="auto").fit(p, np.arange(n) % 2)
    assert ours.n_bins_ == observed.shape[0]


def _unclipped(calibrator, p):
    """Return the probabilities that a calibrator does not clip."""
    floor = getattr(calibrator, "min_proba_", 0.0)
    return p[(p >= floor) & (p <= 1.0 - floor)]


def _transformed(name, calibrator, several=False):
    def both(netcal, s):
        module, _, kind = name.partition(".")
        scores, labels, new = (s.rows, s.labels, s.new_rows) if several else (s.p, s.y, s.new)
        theirs = getattr(pytest.importorskip(f"netcal.{module}"), kind)
        theirs = theirs(15) if kind == "HistogramBinning" else theirs()
        theirs.fit(scores.copy(), labels.copy())
        ours = calibrator.fit(scores, labels)
        new = new if several else _unclipped(ours, new)
        return theirs.transform(new.copy()), ours.predict_proba(new) if several else ours.transform(new)

    return both


def _measured(name, **params):
    def both(netcal, s):
        y, p = (s.labels, s.rows) if params.get("reduction") else (s.y, s.p)
        return getattr(pytest.importorskip("netcal.metrics"), name)(15).measure(p, y), ece(y, p, **params)

    return both


def _mmce(netcal, s):
    theirs = pytest.importorskip("netcal.metrics").MMCE().measure(s.rows.copy(), s.labels.copy())
    params = {"bandwidth": 0.4, "debias": False, "reduction": "confidence"}
    return theirs, metrics.kernel_calibration_error(s.labels, s.rows, **params)


def _venn_abers(p0_p1):
    def both(venn_abers, s):
        columns, new = (np.column_stack([1 - p, p]) for p in (s.p, s.new))
        proba, bounds = venn_abers.VennAbers().fit(columns, s.y).predict_proba(new)
        ours = calibrators.VennAbersCalibrator().fit(s.p, s.y)
        if p0_p1:
            return bounds, np.column_stack(ours.predict_interval(s.new))
        return np.asarray(proba)[:, 1], ours.transform(s.new)

    return both


def _merged(venn_abers, s):
    columns, new = (np.column_stack([1 - p, p]) for p in (s.p, s.new))
    theirs = venn_abers.VennAbersCalibrator().predict_proba(p_cal=columns, y_cal=s.y, p_test=new)
    return theirs, calibrators.VennAbersCalibrator().fit(s.p, s.y).predict_proba(s.new)


def _beta(parameters):
    def both(betacal, s):
        theirs = (
            betacal.BetaCalibration(parameters).fit(s.p[:, np.newaxis], s.y).predict(s.new[:, np.newaxis])
        )
        return theirs, calibrators.BetaCalibrator(parameters=parameters).fit(s.p, s.y).transform(s.new)

    return both


def _cross_venn_abers(loss, average):
    def both(venn_abers, s):
        X, y = make_classification(600, n_informative=5, random_state=0)
        theirs = venn_abers.VennAbersCalibrator(
            GaussianNB(), inductive=False, n_splits=5, shuffle=True, random_state=0
        ).fit(X[:300], y[:300])
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        ours = CalibratedClassifier(
            GaussianNB(), calibrators.VennAbersCalibrator(loss=loss), cv=folds, average=average
        ).fit(X[:300], y[:300])
        return theirs.predict_proba(X[300:], loss=loss), ours.predict_proba(X[300:])

    return both


def _probcal(name, calibrator):
    def both(probcal, s):
        theirs, ours = getattr(probcal, name)().fit(s.p, s.y), calibrator.fit(s.p, s.y)
        new = _unclipped(ours, s.new)
        return theirs.predict_proba(new), ours.transform(new)

    return both


def _histogram(calibration, s):
    theirs = calibration.HistogramCalibrator(len(s.y), 10)
    theirs.train_calibration(s.p, s.y)
    ours = calibrators.HistogramBinningCalibrator(n_bins=10, smoothing=None)
    return theirs.calibrate(s.new), ours.fit(s.p, s.y).transform(s.new)


def _confidence(relplot, s):
    confidence = relplot.multiclass_logits_to_confidences(s.rows, s.labels, probs=True)
    return relplot.smECE(*confidence), metrics.smooth_ece(s.labels, s.rows, reduction="confidence")


def _diagram(relplot, s):
    """The mean curve of bootstrap samples, and the curve itself."""
    from sklearn_calib.plot import ReliabilityDisplay

    theirs = relplot.prepare_rel_diagram(s.p, s.y)
    curve = ReliabilityDisplay.from_predictions(s.y, s.p, curve="kernel", band=None).curve
    inside = (theirs["mesh"] > curve.predicted[0]) & (theirs["mesh"] < curve.predicted[-1])
    return theirs["mu"][inside], np.interp(theirs["mesh"][inside], curve.predicted, curve.observed)


def _line(probcal, s):
    ours = metrics.calibration_summary(s.y, s.p)
    theirs = probcal.metrics.calibration_slope(s.y, s.p), probcal.metrics.calibration_intercept(s.y, s.p)
    return theirs, (ours.slope.estimate, ours.intercept.estimate)


def _z(s):
    return SpiegelhalterTest(method="asymptotic").test(s.y, s.p).statistic


def _spiegelhalter(probcal, s):
    return abs(probcal.metrics.spiegelhalter_z(s.y, s.p).z), abs(_z(s))


def _ratio(s):
    return metrics.calibration_summary(s.y, s.p).observed_over_expected.estimate


def _kuiper(metrics_of_mapie, s):
    ours = CutoffTest(method="asymptotic").test(s.y, s.p)
    theirs = metrics_of_mapie.kuiper_statistic(s.y, s.p), metrics_of_mapie.kuiper_p_value(s.y, s.p)
    return theirs, (ours.statistic, ours.pvalue)


def _ecce(metrics_of_mcgrad, s):
    p = s.p + np.linspace(0, 1e-9, s.p.size)  # distinct
    ours = CutoffTest(method="asymptotic").test(s.y, p)
    theirs = [getattr(metrics_of_mcgrad, name)(s.y, p) for name in ("ecce", "ecce_sigma", "ecce_pvalue")]
    return theirs, (metrics.cutoff_calibration_error(s.y, p), ours.statistic, ours.pvalue)


def _torch(classes, norm):
    def both(functional, s):
        torch = pytest.importorskip("torch")
        y, p = (s.labels, s.rows) if classes else (s.y, s.p)
        given = torch.tensor(p), torch.tensor(np.asarray(y).astype(int))
        if classes:
            theirs = functional.multiclass_calibration_error(*given, num_classes=4, norm=norm)
            return float(theirs), ece(y, p, norm=norm, n_bins=15, reduction="confidence")
        return float(functional.binary_calibration_error(*given, norm=norm)), ece(y, p, norm=norm, n_bins=15)

    return both


_UNIFORM = calibrators.HistogramBinningCalibrator(n_bins=15, strategy="uniform", smoothing=None)
_QUANTILE = {"strategy": "quantile"}
_DEBIASED = {"norm": "l2", "debias": True, **_QUANTILE}
_MAPIE, _TORCH = "mapie.metrics.calibration", "torchmetrics.functional.classification"
#: Import name, comparison of both numbers, and tolerance.
EQUAL = [
    ("relplot", lambda m, s: (m.smECE(s.p, s.y), smooth(s.y, s.p)), 1e-3),
    ("relplot", lambda m, s: (m.smECE_sigma(s.p, s.y, 0.05), smooth(s.y, s.p, bandwidth=0.05)), 1e-3),
    ("relplot", _confidence, 1e-3),
    ("relplot", _diagram, 0.02),
    ("relplot", lambda m, s: (m.metrics.binnedECE(s.p, s.y, 10), ece(s.y, s.p, n_bins=10)), 1e-12),
    ("relplot", lambda m, s: (m.smECE_sigma(s.p, s.y, 0.2), smooth(s.y, s.p, bandwidth=0.2)), 2e-3),
    ("netcal", _measured("ECE"), 1e-12),
    ("netcal", _measured("ECE", reduction="confidence"), 1e-12),
    ("netcal", _measured("MCE", norm="max"), 1e-12),
    ("netcal", _mmce, 1e-12),
    ("netcal", _transformed("scaling.TemperatureScaling", calibrators.TemperatureCalibrator()), 1e-4),
    ("netcal", _transformed("scaling.TemperatureScaling", calibrators.TemperatureCalibrator(), True), 1e-4),
    ("netcal", _transformed("binning.IsotonicRegression", calibrators.IsotonicCalibrator()), 1e-12),
    ("netcal", _transformed("binning.HistogramBinning", _UNIFORM), 1e-12),
    ("venn_abers", _venn_abers(True), 1e-10),
    ("venn_abers", _venn_abers(False), 1e-10),
    ("venn_abers", _merged, 1e-10),
    ("venn_abers", _cross_venn_abers("log", "log"), 1e-10),
    ("venn_abers", _cross_venn_abers("brier", "probability"), 1e-10),
    ("calibration", lambda m, s: (m.get_ece(s.p, s.y), ece(s.y, s.p)), 1e-12),
    ("calibration", lambda m, s: (m.utils.get_ece_em(s.p, s.y), ece(s.y, s.p, **_QUANTILE)), 1e-12),
    ("calibration", lambda m, s: (m.lower_bound_scaling_ce(s.p, s.y), ece(s.y, s.p, **_DEBIASED)), 1e-12),
    ("calibration", _histogram, 1e-12),
    ("probcal", lambda m, s: (m.metrics.ece(s.y, s.p, strategy="width"), ece(s.y, s.p)), 1e-12),
    ("probcal", lambda m, s: (m.metrics.smooth_ece(s.y, s.p), smooth(s.y, s.p, scale="logit")), 1e-3),
    (
        "probcal",
        lambda m, s: (m.metrics.ece_sweep(s.y, s.p), metrics.sweep_calibration_error(s.y, s.p)),
        1e-12,
    ),
    ("probcal", _line, 1e-6),
    ("probcal", _spiegelhalter, 1e-9),
    ("probcal", _probcal("IsotonicCalibrator", calibrators.IsotonicCalibrator(interpolation="step")), 1e-12),
    ("probcal", _probcal("PlattCalibrator", calibrators.PlattCalibrator()), 1e-6),
    ("probcal", _probcal("TemperatureCalibrator", calibrators.TemperatureCalibrator()), 1e-6),
    ("probcal", _probcal("VennAbersCalibrator", calibrators.VennAbersCalibrator()), 1e-10),
    *(("betacal", _beta(parameters), 0.01) for parameters in ("abm", "ab", "am")),
    (
        _MAPIE,
        lambda m, s: (m.expected_calibration_error(s.y, s.p, num_bins=15), ece(s.y, s.p, n_bins=14)),
        1e-12,
    ),
    (_MAPIE, _kuiper, 1e-6),
    (_MAPIE, lambda m, s: (m.spiegelhalter_statistic(s.y, s.p), _z(s)), 1e-9),
    ("mcgrad.metrics", _ecce, 1e-6),
    (
        "mcgrad.metrics",
        lambda m, s: (m.expected_calibration_error(s.y, s.p, num_bins=15), ece(s.y, s.p, n_bins=15)),
        1e-9,
    ),
    ("mcgrad.metrics", lambda m, s: (1 / m.calibration_ratio(s.y, s.p), _ratio(s)), 1e-9),
    *((_TORCH, _torch(classes, norm), 1e-5) for classes in (False, True) for norm in ("l1", "l2", "max")),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("package", "both", "tolerance"), EQUAL)
def test_numbers_of_other_packages(package, both, tolerance, sample):
    theirs, ours = both(pytest.importorskip(package, exc_type=ImportError), sample)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)
