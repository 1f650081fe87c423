"""What a sketch can be off by, metric by metric: the bounds of its page of the guide, on coarse sketches."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_calib import metrics
from sklearn_calib._core._binning import POSITIONS, octave_bins
from sklearn_calib._core._links import logit
from sklearn_calib.inference import TCal
from sklearn_calib.sketch import CalibrationSketch

BETA = {"uniform": (1, 1), "skewed": (1, 8), "rare": (0.5, 300), "both ends": (0.1, 0.1)}
KINDS = (*BETA, "few values", "one cell")
ROUNDING = 1e-9


def located(p, precision):
    return octave_bins(precision).locate(np.asarray(p, dtype=np.float64))[0]


def predictions(kind, rng, n):
    if kind == "few values":
        return rng.choice(rng.random(12), n)
    if kind == "one cell":
        return 0.3 + 0.002 * rng.random(n)
    return rng.beta(*BETA[kind], n)


@pytest.fixture(scope="module", params=[(kind, k % 2) for k, kind in enumerate(KINDS)], ids=str)
def case(request):
    """Rows, their sketch, and what the bounds are made of.

    ``shift``, ``log_shift``: mean change of a prediction, and of its log-odds. ``heaviest``: largest share of
    the weight in one cell.
    """
    kind, seed = request.param
    rng, precision, n = np.random.default_rng(seed), 8 + seed, 700
    p = predictions(kind, rng, n)
    if kind == "one cell":
        # events follow the order within the cells, the worst case
        y = (p % 0.0005 > 0.00025).astype(np.int64)
    else:
        y = (rng.random(n) < np.clip(1.3 * p, 0, 1)).astype(np.int64)
    w = rng.integers(1, 4, n).astype(float)
    sketch = CalibrationSketch(precision=precision).update(y, p, sample_weight=w)
    cell = located(p, precision)
    _, mean, _ = sketch.weighted_sample()
    means = dict(zip(located(mean, precision).tolist(), mean.tolist(), strict=True))
    moved, weight = np.array([means[number] for number in cell.tolist()]), w / w.sum()
    return SimpleNamespace(
        **{"y": y, "p": p, "w": w, "sketch": sketch, "cell": cell},
        shift=float(weight @ np.abs(moved - p)),
        log_shift=float(weight @ np.abs(logit(moved) - logit(p))),
        heaviest=float(np.bincount(cell, weight).max()),
    )


def exact_of(metric, case, **options):
    return metric(case.y, case.p, sample_weight=case.w, **options)


def of_sketch(metric, sketch, **options):
    y, p, w = sketch.weighted_sample()
    return metric(y, p, sample_weight=w, **options)


ece, risk_gap = metrics.expected_calibration_error, metrics.decision_risk_gap


def step(case):
    """Return what rounding to positions can move a sum of predictions by, relative to the total weight."""
    return 2.0**-case.sketch.precision / POSITIONS


def test_predictions_move_by_no_more_than_a_cell(case):
    assert case.shift <= 2.0**-case.sketch.precision
    assert abs(case.sketch.mean_prediction - np.average(case.p, weights=case.w)) <= step(case)
    assert case.sketch.event_rate == pytest.approx(np.average(case.y, weights=case.w), rel=1e-14)


def test_cutoff(case):
    metric = metrics.cutoff_calibration_error
    found, exact = of_sketch(metric, case.sketch), exact_of(metric, case)
    assert found - step(case) - ROUNDING <= exact <= found + 2 * case.heaviest + step(case) + ROUNDING


def ece_bound(case, n_bins):
    """Cells that an edge divides may change sides."""
    edges = located(np.arange(1, n_bins) / n_bins, case.sketch.precision)
    divided = case.w[np.isin(case.cell, edges)].sum() / case.w.sum()
    return 2 * divided + step(case) + ROUNDING


def quantile_bound(case, n_bins):
    return 2 * (n_bins - 1) * case.heaviest + step(case) + ROUNDING


def scaled(metric, bandwidth, distance, *shift, **options):
    """Return a smoothed error, and its bound by the distance that predictions move, and their shift."""
    steep = math.sqrt(2 / math.pi) / bandwidth

    def bound(case):
        return sum(getattr(case, name) for name in shift) + steep * getattr(case, distance)

    return partial(metric, bandwidth=bandwidth, **options), lambda case: bound(case) + 1e-6


kernel_error = partial(metrics.kernel_calibration_error, bandwidth=0.2, squared=True)
BOUNDS = [
    # bins with edges on cells are exact
    *((partial(ece, n_bins=n), lambda case: step(case) + ROUNDING) for n in (1, 16, 256)),
    *((partial(ece, n_bins=n), partial(ece_bound, n_bins=n)) for n in (10, 7)),
    *((partial(ece, n_bins=n, strategy="quantile"), partial(quantile_bound, n_bins=n)) for n in (2, 10)),
    *(scaled(metrics.smooth_ece, s, "shift", "shift") for s in (0.01, 0.3)),
    *(scaled(metrics.smooth_ece, s, "log_shift", "shift", scale="logit") for s in (0.01, 0.3)),
    *(scaled(metrics.logit_smoothed_ece, s, "log_shift") for s in (0.01, 0.3)),
    (metrics.smooth_calibration_error, lambda case: 2 * case.shift + ROUNDING),
    (partial(metrics.lower_distance_to_calibration, n_bins=256), lambda case: case.shift + 2 / 256),
    *(
        (partial(kernel_error, debias=d), lambda case: 2 * case.shift * (1 + 1 / 0.2) + 1e-6)
        for d in (False, True)
    ),
    *((partial(risk_gap, threshold=t), lambda case: 2 * case.heaviest + ROUNDING) for t in (0.01, 0.3, 0.5)),
]


def test_errors_change_by_no_more_than_their_bounds(case):
    for metric, bound in BOUNDS:
        assert abs(of_sketch(metric, case.sketch) - exact_of(metric, case)) <= bound(case), metric


def test_smooth_error_at_its_own_scale(case):
    found, exact = of_sketch(metrics.smooth_ece, case.sketch), exact_of(metrics.smooth_ece, case)
    steep = math.sqrt(2 / math.pi) / min(found, exact)
    assert abs(found - exact) <= case.shift * (1 + steep) + 2e-6


def test_scores_and_their_parts(case):
    found = of_sketch(metrics.score_decomposition, case.sketch)
    exact = exact_of(metrics.score_decomposition, case)
    assert abs(found.score - exact.score) <= 2 * case.shift + ROUNDING
    found = of_sketch(metrics.score_decomposition, case.sketch, score="log_loss")
    exact = exact_of(metrics.score_decomposition, case, score="log_loss")
    assert abs(found.score - exact.score) <= case.log_shift + ROUNDING
    pooled = of_sketch(metrics.refinement_loss, case.sketch) - exact_of(metrics.refinement_loss, case)
    assert -ROUNDING <= pooled <= case.heaviest / 4 + ROUNDING
    lost = of_sketch(metrics.calibration_loss, case.sketch) - exact_of(metrics.calibration_loss, case)
    assert abs(lost) <= 2 * case.shift + case.heaviest / 4 + ROUNDING


def test_scales_of_tcal_down_to_the_cells_are_exact(case):
    y, p, w = case.sketch.weighted_sample()
    results = (
        TCal(method="asymptotic").test(*rows, sample_weight=weight, weights="frequency")
        for *rows, weight in ((y, p, w), (case.y, case.p, case.w))
    )
    found, exact = ({scale.n_bins: scale.statistic for scale in result.scales} for result in results)
    coarse = [n_bins for n_bins in exact if n_bins <= 2**case.sketch.precision]
    assert len(coarse) >= 4
    for n_bins in coarse:
        # residuals of pairs of rows of one bin, and no others
        assert found[n_bins] == pytest.approx(exact[n_bins], abs=2 * case.shift + ROUNDING)
