"""Every calibrator with the properties that the generated tests check.

A new calibrator is one row here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from sklearn_calib.calibrators import (
    AutoCalibrator,
    BaseCalibrator,
    BetaCalibrator,
    CertifiedCalibrator,
    DirichletCalibrator,
    GroupCalibrator,
    HistogramBinningCalibrator,
    IsotonicCalibrator,
    LogAverageCalibrator,
    MatrixScalingCalibrator,
    ModifiedPlattCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    PriorShiftCalibrator,
    ScalingBinningCalibrator,
    SmoothedCalibrator,
    SplineCalibrator,
    StructuredMatrixScalingCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
    VennAbersCalibrator,
)


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
    make: Callable[[], BaseCalibrator]
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
#: The folds or parts are drawn.
DRAWN = f"not_monotone drawn not_flip {FITTED}"


def row(name, kind, flags="", *members, **params):
    """Return the case of a class with parameters; "not_" before a flag denies it."""
    holds = {flag.removeprefix("not_"): not flag.startswith("not_") for flag in flags.split()}
    return CalibratorCase(name, partial(kind, *members, **params), **holds)


PLATTS = OneVsRestCalibrator(PlattCalibrator())
TWO = {"Platt": PlattCalibrator(link="identity"), "isotonic": IsotonicCalibrator(clip="auto")}
COUNTS = {"random_state": 0, "weights": "frequency"}
CALIBRATORS = [
    row("isotonic", IsotonicCalibrator),
    # a score between two steps takes the lower one
    row("isotonic_step", IsotonicCalibrator, "not_flip", interpolation="step"),
    row("isotonic_clip_auto", IsotonicCalibrator, FITTED, clip="auto"),
    row("platt", PlattCalibrator, STRICT),
    row("platt_identity", PlattCalibrator, f"{STRICT} again", link="identity"),
    row("modified_platt", ModifiedPlattCalibrator, STRICT),
    row("modified_platt_mean", ModifiedPlattCalibrator, "constant", tolerance=0.0),
    row("beta", BetaCalibrator, f"{STRICT} again"),
    row("beta_ab", BetaCalibrator, f"{STRICT} again", parameters="ab"),
    row("beta_am", BetaCalibrator, f"{STRICT} again", parameters="am"),
    # an edge belongs to the bin above it
    row("histogram_binning", HistogramBinningCalibrator, f"{BINS} {FITTED}"),
    row("histogram_binning_plain", HistogramBinningCalibrator, BINS, n_bins=15, smoothing=None),
    row(
        "histogram_binning_uniform",
        partial(HistogramBinningCalibrator, n_bins="auto", strategy="uniform", smoothing=0.5),
        f"{BINS} {FITTED}",
    ),
    row("scaling_binning", ScalingBinningCalibrator, DRAWN, random_state=0),
    row(
        "scaling_binning_all_rows",
        partial(ScalingBinningCalibrator, IsotonicCalibrator(), n_bins="auto", split=False),
        f"{BINS} counts",
    ),
    row("venn_abers", VennAbersCalibrator, "counts"),
    row("venn_abers_brier", VennAbersCalibrator, "counts", loss="brier"),
    row("prior_shift", PriorShiftCalibrator, "strict multiclass again", training_weight="balanced"),
    # without groups, which the generated tests do not pass
    row("group", GroupCalibrator, "not_monotone counts"),
    row("group_temperature", GroupCalibrator, CLASSES, TemperatureCalibrator()),
    row("smoothed", SmoothedCalibrator, "not_monotone again"),
    row("smoothed_logit", SmoothedCalibrator, "not_monotone again", scale="logit", bandwidth=0.3),
    row("spline", SplineCalibrator, f"not_monotone {FITTED}"),
    row("spline_monotone", SplineCalibrator, f"{STRICT} again", monotone=True),
    row("spline_identity", SplineCalibrator, f"{STRICT} again", link="identity", monotone=True),
    row("temperature", TemperatureCalibrator, "strict multiclass"),
    # log-odds may be any numbers, probabilities too, but then they have no flip symmetry around 1/2
    row(
        "temperature_identity",
        partial(TemperatureCalibrator, link="identity"),
        "strict multiclass not_flip log_odds again",
    ),
    row("one_vs_rest_isotonic", OneVsRestCalibrator, CLASSES, IsotonicCalibrator()),
    row("one_vs_rest_platt", OneVsRestCalibrator, f"{CLASSES} counts", PlattCalibrator()),
    row("vector", VectorScalingCalibrator, f"{CLASSES} {FITTED}"),
    row("matrix", MatrixScalingCalibrator, f"{CLASSES} {FITTED}"),
    row("matrix_identity", MatrixScalingCalibrator, f"{CLASSES} {FITTED} not_flip log_odds", link="identity"),
    row("structured_matrix", StructuredMatrixScalingCalibrator, f"{CLASSES} {FITTED}"),
    row("dirichlet", DirichletCalibrator, f"{CLASSES} {FITTED}", penalty=0.01),
    row(
        "log_average",
        partial(LogAverageCalibrator, [PLATTS, MatrixScalingCalibrator()], weights=[1.0, 2.0]),
        f"{CLASSES} {FITTED}",
    ),
    row("log_average_default", LogAverageCalibrator, f"{CLASSES} {FITTED}"),
    row(
        "log_average_binary",
        partial(LogAverageCalibrator, [IsotonicCalibrator(), PlattCalibrator()]),
        f"not_monotone {FITTED}",
    ),
    row("auto", AutoCalibrator, f"multiclass {DRAWN}"),
    row("auto_any_score", partial(AutoCalibrator, candidates=TWO, cv=3, n_standard_errors=0.5), DRAWN),
    row("certified", CertifiedCalibrator, DRAWN, **COUNTS),
    row("certified_isotonic", CertifiedCalibrator, DRAWN, IsotonicCalibrator(), **COUNTS),
]


#: One calibrator of every structure: steps, a curve, several classes, members, groups, parts of the samples.
STRUCTURES = {"isotonic", "platt", "temperature", "log_average_binary", "group", "certified"}


def once_a_class(cases, slow=(), structures=False):
    """Return the cases as parameters: the first of each class, and in the second tier the slow and others.

    With ``structures``, for what the base class does for all, parameters of a class do not matter, and the
    first tier has one calibrator of every structure.
    """
    known = set()
    params = []
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
