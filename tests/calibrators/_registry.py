"""Every calibrator with the properties that the generated tests check.

A new calibrator is one row here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from sklearn_calib import calibrators as cal


@dataclass(frozen=True)
class CalibratorCase:
    """A calibrator with fixed parameters and what holds for it.

    ``monotone``: the binary map never reverses two scores; it then has a certificate. ``strict``: nor does it
    merge them. ``multiclass``: takes K columns. ``flip``: calibrating 1 - p for 1 - y gives 1 - h(p).
    ``constant``: the map ignores the score. ``log_odds``: K columns hold logits, not probabilities.
    ``drawn``: folds or parts of the samples are drawn at random, so that their order, and whether a weight or
    repetitions are passed, is immaterial in distribution only.
    ``counts``: the scale of the weights matters. ``again``: another fit to what the map gives changes it.
    """

    name: str
    make: Callable[[], cal.BaseCalibrator]
    monotone: bool = True
    strict: bool = False
    multiclass: bool = False
    flip: bool = True
    constant: bool = False
    log_odds: bool = False
    drawn: bool = False
    counts: bool = False
    again: bool = False


STRICT = "strict counts"
BINS = "not_monotone not_flip"
CLASSES = "not_monotone multiclass"
FITTED = "counts again"
LOGITS = "not_flip log_odds"
#: The folds or parts are drawn.
DRAWN = f"not_monotone drawn not_flip {FITTED}"


def row(name, kind, flags="", *members, **params):
    """Return the case of a class with parameters; "not_" before a flag denies it."""
    holds = {flag.removeprefix("not_"): not flag.startswith("not_") for flag in flags.split()}
    return CalibratorCase(name, partial(kind, *members, **params), **holds)


MEMBERS = [cal.OneVsRestCalibrator(cal.PlattCalibrator()), cal.MatrixScalingCalibrator()]
STEPS = cal.IsotonicCalibrator()
UNIFORM = {"n_bins": "auto", "strategy": "uniform", "smoothing": 0.5}
WHOLE = {"n_bins": "auto", "split": False}
TWO = {"Platt": cal.PlattCalibrator(link="identity"), "isotonic": cal.IsotonicCalibrator(clip="auto")}
COUNTS = {"random_state": 0, "weights": "frequency"}
CALIBRATORS = [
    row("isotonic", cal.IsotonicCalibrator),
    # a score between two steps takes the lower one
    row("isotonic_step", cal.IsotonicCalibrator, "not_flip", interpolation="step"),
    row("isotonic_clip_auto", cal.IsotonicCalibrator, FITTED, clip="auto"),
    row("platt", cal.PlattCalibrator, STRICT),
    row("platt_identity", cal.PlattCalibrator, f"{STRICT} again", link="identity"),
    row("modified_platt", cal.ModifiedPlattCalibrator, STRICT),
    row("modified_platt_mean", cal.ModifiedPlattCalibrator, "constant", tolerance=0.0),
    row("beta", cal.BetaCalibrator, f"{STRICT} again"),
    row("beta_ab", cal.BetaCalibrator, f"{STRICT} again", parameters="ab"),
    row("beta_am", cal.BetaCalibrator, f"{STRICT} again", parameters="am"),
    # an edge belongs to the bin above it
    row("histogram_binning", cal.HistogramBinningCalibrator, f"{BINS} {FITTED}"),
    row("histogram_binning_plain", cal.HistogramBinningCalibrator, BINS, n_bins=15, smoothing=None),
    row("histogram_binning_uniform", cal.HistogramBinningCalibrator, f"{BINS} {FITTED}", **UNIFORM),
    row("scaling_binning", cal.ScalingBinningCalibrator, DRAWN, random_state=0),
    row("scaling_binning_all_rows", partial(cal.ScalingBinningCalibrator, STEPS, **WHOLE), f"{BINS} counts"),
    row("venn_abers", cal.VennAbersCalibrator, "counts"),
    row("venn_abers_brier", cal.VennAbersCalibrator, "counts", loss="brier"),
    row("prior_shift", cal.PriorShiftCalibrator, "strict multiclass again", training_weight="balanced"),
    # without groups, which the generated tests do not pass
    row("group", cal.GroupCalibrator, "not_monotone counts"),
    row("group_temperature", cal.GroupCalibrator, CLASSES, cal.TemperatureCalibrator()),
    row("smoothed", cal.SmoothedCalibrator, "not_monotone again"),
    row("smoothed_logit", cal.SmoothedCalibrator, "not_monotone again", scale="logit", bandwidth=0.3),
    row("spline", cal.SplineCalibrator, f"not_monotone {FITTED}"),
    row("spline_monotone", cal.SplineCalibrator, f"{STRICT} again", monotone=True),
    row("spline_identity", cal.SplineCalibrator, f"{STRICT} again", link="identity", monotone=True),
    row("temperature", cal.TemperatureCalibrator, "strict multiclass"),
    # log-odds may be any numbers, probabilities too, but then they have no flip symmetry around 1/2
    row(
        "temperature_identity",
        cal.TemperatureCalibrator,
        f"strict multiclass {LOGITS} again",
        link="identity",
    ),
    row("one_vs_rest_isotonic", cal.OneVsRestCalibrator, CLASSES, cal.IsotonicCalibrator()),
    row("one_vs_rest_platt", cal.OneVsRestCalibrator, f"{CLASSES} counts", cal.PlattCalibrator()),
    row("vector", cal.VectorScalingCalibrator, f"{CLASSES} {FITTED}"),
    row("matrix", cal.MatrixScalingCalibrator, f"{CLASSES} {FITTED}"),
    row("matrix_identity", cal.MatrixScalingCalibrator, f"{CLASSES} {FITTED} {LOGITS}", link="identity"),
    row("structured_matrix", cal.StructuredMatrixScalingCalibrator, f"{CLASSES} {FITTED}"),
    row("dirichlet", cal.DirichletCalibrator, f"{CLASSES} {FITTED}", penalty=0.01),
    row("log_average", cal.LogAverageCalibrator, f"{CLASSES} {FITTED}", MEMBERS, weights=[1.0, 2.0]),
    row("log_average_default", cal.LogAverageCalibrator, f"{CLASSES} {FITTED}"),
    row(
        "log_average_binary",
        cal.LogAverageCalibrator,
        f"not_monotone {FITTED}",
        [STEPS, cal.PlattCalibrator()],
    ),
    row("auto", cal.AutoCalibrator, f"multiclass {DRAWN}"),
    row("auto_any_score", partial(cal.AutoCalibrator, candidates=TWO, cv=3, n_standard_errors=0.5), DRAWN),
    row("certified", cal.CertifiedCalibrator, DRAWN, **COUNTS),
    row("certified_isotonic", cal.CertifiedCalibrator, DRAWN, cal.IsotonicCalibrator(), **COUNTS),
]


#: One calibrator of every structure: steps, a curve, several classes, members, groups, parts of the samples.
STRUCTURES = {"isotonic", "platt", "temperature", "log_average_binary", "group", "certified"}


def once_a_class(cases, slow=(), structures=False):
    """Return the cases as parameters: the first of each class, and in the second tier the slow and others.

    With ``structures``, for what the base class does for all, parameters of a class do not matter, and the
    first tier has one calibrator of every structure.
    """
    known, params = set(), []
    for case in cases:
        kind = type(case.make())
        first = kind not in known or (structures and case.name in STRUCTURES)
        late = (case.name not in STRUCTURES if structures else not first) or case.name in slow
        if first or not structures:
            params.append(pytest.param(case, marks=[pytest.mark.thorough] if late else [], id=case.name))
        known.add(kind)
    return params


def calibrators_with(flag=None, without=None, **options):
    """Return the parameter ``case`` for the calibrators with one property and without another."""
    chosen = [case for case in CALIBRATORS if flag is None or getattr(case, flag)]
    chosen = [case for case in chosen if without is None or not getattr(case, without)]
    return pytest.mark.parametrize("case", once_a_class(chosen, **options))
