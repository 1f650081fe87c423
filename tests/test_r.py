"""Equality with packages of R, as docs/migration/r.md states it: the numbers below were printed by R.

R 4.2.2, rms 6.5-0, pROC 1.18.0, with these commands::

    i <- 1:200; p <- (i - 0.5) / 200; y <- as.integer(((61 * i) %% 200 + 0.5) / 200 < 0.2 + 0.5 * p)
    rms::val.prob(p, y, pl = FALSE)
    rms::lrm.fit(qlogis(p), y)$stats                    # which val.prob.ci.2 of CalibrationCurves returns
    confint(glm(y ~ 1, binomial, offset = qlogis(p)))
    confint(glm(y ~ qlogis(p), binomial))
    pROC::ci.auc(pROC::roc(y, p))

ResourceSelection and dcurves were not installed: their numbers are computed from their definitions.
"""

import numpy as np
import pytest

from sklearn_calib.inference import HosmerLemeshowTest
from sklearn_calib.metrics import calibration_summary

NUMBER = np.arange(1, 201)
P = (NUMBER - 0.5) / 200
Y = ((61 * NUMBER % 200 + 0.5) / 200 < 0.2 + 0.5 * P).astype(int)


def test_val_prob_of_rms():
    s, n = calibration_summary(Y, P), 200
    found = {
        "Dxy": s.somers_d.estimate, "C (ROC)": s.c_index.estimate,
        "D": s.quality_index - 2 / n, "D:Chi-sq": n * s.quality_index - 1,
        "U": s.unreliability_index, "U:Chi-sq": n * s.unreliability_index + 2, "U:p": s.unreliability_pvalue,
        "Q": s.quality_index - 2 / n - s.unreliability_index, "Brier": s.brier,
        "Intercept": s.slope_intercept.estimate, "Slope": s.slope.estimate,
        "S:z": s.spiegelhalter_z, "S:p": s.spiegelhalter_pvalue,
    }  # fmt: skip
    assert found == pytest.approx({
        "Dxy": 0.351553800992, "C (ROC)": 0.675776900496,
        "D": -0.0939401010104, "D:Chi-sq": -17.7880202021,
        "U": 0.173197664834, "U:Chi-sq": 36.6395329667, "U:p": 1.10618179061e-08,
        "Q": -0.267137765844, "Brier": 0.24650625,
        "Intercept": -0.242827046477, "Slope": 0.374831842653,
        "S:z": 6.18399291806, "S:p": 6.25001726970e-10,
    }, rel=1e-8)  # fmt: skip


def test_val_prob_of_the_wrong_order():
    s = calibration_summary(1 - Y, P)
    assert (s.somers_d.estimate, s.c_index.estimate) == pytest.approx((-0.351553800992, 0.324223099504))


def test_statistics_of_the_logistic_recalibration():
    """R2 of Nagelkerke and the likelihood ratio of ``lrm.fit``, for D and Q of CalibrationCurves."""
    s, n, ratio, of_predictions = calibration_summary(Y, P), 200, 18.8515127646, 36.6395329667
    assert s.r2 == pytest.approx(0.120425213084)
    assert s.discrimination_index == pytest.approx((ratio - 1) / n)
    assert s.quality_index == pytest.approx((ratio - 1) / n - (of_predictions - 2) / n)


@pytest.mark.parametrize(
    ("measure", "expected", "tolerance"),
    [
        ("intercept", (-0.331202095269, -0.6741642404, 0.009184676493), 1e-5),
        ("slope", (0.374831842655, 0.1988872565, 0.56728557406), 1e-5),
        ("slope_intercept", (-0.242827046477, -0.5385466520, 0.04865643206), 1e-5),
        ("c_index", (0.675776900496, 0.601366710897, 0.750187090095), 1e-9),
    ],
)
def test_intervals_of_glm_and_proc(measure, expected, tolerance):
    found = getattr(calibration_summary(Y, P), measure)
    assert (found.estimate, found.lower, found.upper) == pytest.approx(expected, abs=tolerance)


def test_hoslem_of_resource_selection():
    edges = np.quantile(P, np.linspace(0, 1, 11))
    bins = np.searchsorted(edges[1:-1], P)
    n, expected, observed = (np.bincount(bins, weight) for weight in (np.ones(200), P, Y))
    chi2 = ((observed - expected) ** 2 * (1 / expected + 1 / (n - expected))).sum()
    found = HosmerLemeshowTest(n_bins=10, method="asymptotic").test(Y, P)
    # the definition in R: sum((o - e)^2 / e + (o - e)^2 / (n - e)) with cut(p, quantile(p, 0:10 / 10)),
    # and pchisq(54.1715360663, 10, lower.tail = FALSE)
    assert (found.statistic, found.statistic) == pytest.approx((chi2, 54.1715360663))
    assert found.pvalue == pytest.approx(4.50803356016e-08)


def test_dca_of_dcurves():
    plot = pytest.importorskip("sklearn_calib.plot")
    pytest.importorskip("matplotlib")
    events = Y == 1
    for rate in (events.mean(), 0.1):
        weight = np.where(events, rate / events.mean(), (1 - rate) / (1 - events.mean()))
        display = plot.DecisionCurveDisplay.from_predictions(
            Y, {"p": P}, sample_weight=weight, thresholds=[0.05, 0.2, 0.5, 0.8]
        )
        table = display.to_frame()
        odds = table["threshold"] / (1 - table["threshold"])
        true, false = ([(P[of] >= t).mean() for t in table["threshold"]] for of in (events, ~events))
        benefit = np.multiply(true, rate) - np.multiply(false, 1 - rate) * odds
        treat_all = rate - (1 - rate) * odds
        np.testing.assert_allclose(table["net_benefit"], benefit, atol=1e-12)
        np.testing.assert_allclose(table["treat_all"], treat_all, atol=1e-12)
        np.testing.assert_allclose(table["standardized_net_benefit"], benefit / rate, atol=1e-12)
        np.testing.assert_allclose(table["interventions_avoided"], (benefit - treat_all) / odds, atol=1e-12)
