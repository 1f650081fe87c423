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


STRICT = {"strict": True, "counts": True}
BINS = {"monotone": False, "flip": False}
CLASSES = {"monotone": False, "multiclass": True}
FITTED = {"counts": True, "again": True}
#: The folds or parts are drawn.
DRAWN = {"monotone": False, "drawn": True, "flip": False, **FITTED}

CALIBRATORS = [
    CalibratorCase("isotonic", IsotonicCalibrator),
    # a score between two steps takes the lower one
    CalibratorCase("isotonic_step", partial(IsotonicCalibrator, interpolation="step"), flip=False),
    CalibratorCase("isotonic_clip_auto", partial(IsotonicCalibrator, clip="auto"), **FITTED),
    CalibratorCase("platt", PlattCalibrator, **STRICT),
    CalibratorCase("platt_identity", partial(PlattCalibrator, link="identity"), **STRICT, again=True),
    CalibratorCase("modified_platt", ModifiedPlattCalibrator, **STRICT),
    CalibratorCase("modified_platt_mean", partial(ModifiedPlattCalibrator, tolerance=0.0), constant=True),
    CalibratorCase("beta", BetaCalibrator, **STRICT, again=True),
    CalibratorCase("beta_ab", partial(BetaCalibrator, parameters="ab"), **STRICT, again=True),
    CalibratorCase("beta_am", partial(BetaCalibrator, parameters="am"), **STRICT, again=True),
    # an edge belongs to the bin above it
    CalibratorCase("histogram_binning", HistogramBinningCalibrator, **BINS, **FITTED),
    CalibratorCase(
        "histogram_binning_plain", partial(HistogramBinningCalibrator, n_bins=15, smoothing=None), **BINS
    ),
    CalibratorCase(
        "histogram_binning_uniform",
        partial(HistogramBinningCalibrator, n_bins="auto", strategy="uniform", smoothing=0.5),
        **BINS,
        **FITTED,
    ),
    CalibratorCase("scaling_binning", partial(ScalingBinningCalibrator, random_state=0), **DRAWN),
    CalibratorCase(
        "scaling_binning_all_rows",
        partial(ScalingBinningCalibrator, IsotonicCalibrator(), n_bins="auto", split=False),
        **BINS,
        counts=True,
    ),
    CalibratorCase("venn_abers", VennAbersCalibrator, counts=True),
    CalibratorCase("venn_abers_brier", partial(VennAbersCalibrator, loss="brier"), counts=True),
    CalibratorCase(
        "prior_shift",
        partial(PriorShiftCalibrator, training_weight="balanced"),
        strict=True,
        multiclass=True,
        again=True,
    ),
    # without groups, which the generated tests do not pass
    CalibratorCase("group", GroupCalibrator, monotone=False, counts=True),
    CalibratorCase("group_temperature", partial(GroupCalibrator, TemperatureCalibrator()), **CLASSES),
    CalibratorCase("smoothed", SmoothedCalibrator, monotone=False, again=True),
    CalibratorCase(
        "smoothed_logit",
        partial(SmoothedCalibrator, scale="logit", bandwidth=0.3),
        monotone=False,
        again=True,
    ),
    CalibratorCase("spline", SplineCalibrator, monotone=False, **FITTED),
    CalibratorCase("spline_monotone", partial(SplineCalibrator, monotone=True), **STRICT, again=True),
    CalibratorCase(
        "spline_identity", partial(SplineCalibrator, link="identity", monotone=True), **STRICT, again=True
    ),
    CalibratorCase("temperature", TemperatureCalibrator, strict=True, multiclass=True),
    # log-odds may be any numbers, probabilities too, but then they have no flip symmetry around 1/2
    CalibratorCase(
        "temperature_identity",
        partial(TemperatureCalibrator, link="identity"),
        strict=True,
        multiclass=True,
        flip=False,
        log_odds=True,
        again=True,
    ),
    CalibratorCase("one_vs_rest_isotonic", partial(OneVsRestCalibrator, IsotonicCalibrator()), **CLASSES),
    CalibratorCase(
        "one_vs_rest_platt", partial(OneVsRestCalibrator, PlattCalibrator()), **CLASSES, counts=True
    ),
    CalibratorCase("vector", VectorScalingCalibrator, **CLASSES, **FITTED),
    CalibratorCase("matrix", MatrixScalingCalibrator, **CLASSES, **FITTED),
    CalibratorCase(
        "matrix_identity",
        partial(MatrixScalingCalibrator, link="identity"),
        flip=False,
        log_odds=True,
        **CLASSES,
        **FITTED,
    ),
    CalibratorCase("structured_matrix", StructuredMatrixScalingCalibrator, **CLASSES, **FITTED),
    CalibratorCase("dirichlet", partial(DirichletCalibrator, penalty=0.01), **CLASSES, **FITTED),
    CalibratorCase(
        "log_average",
        partial(
            LogAverageCalibrator,
            [OneVsRestCalibrator(PlattCalibrator()), MatrixScalingCalibrator()],
            weights=[1.0, 2.0],
        ),
        **CLASSES,
        **FITTED,
    ),
    CalibratorCase("log_average_default", LogAverageCalibrator, **CLASSES, **FITTED),
    CalibratorCase(
        "log_average_binary",
        partial(LogAverageCalibrator, [IsotonicCalibrator(), PlattCalibrator()]),
        monotone=False,
        **FITTED,
    ),
    CalibratorCase("auto", AutoCalibrator, multiclass=True, **DRAWN),
    CalibratorCase(
        "auto_any_score",
        partial(
            AutoCalibrator,
            candidates={
                "Platt": PlattCalibrator(link="identity"),
                "isotonic": IsotonicCalibrator(clip="auto"),
            },
            cv=3,
            n_standard_errors=0.5,
        ),
        **DRAWN,
    ),
    CalibratorCase("certified", partial(CertifiedCalibrator, random_state=0, weights="frequency"), **DRAWN),
    CalibratorCase(
        "certified_isotonic",
        partial(CertifiedCalibrator, IsotonicCalibrator(), random_state=0, weights="frequency"),
        **DRAWN,
    ),
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
