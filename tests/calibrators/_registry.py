"""Every calibrator with the properties that the generated tests check.

A new calibrator is one row here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sklearn_calib.calibrators import (
    AutoCalibrator,
    BaseCalibrator,
    BetaCalibrator,
    CenteredIsotonicCalibrator,
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
    TopLabelCalibrator,
    VectorScalingCalibrator,
    VennAbersCalibrator,
)


@dataclass(frozen=True)
class CalibratorCase:
    """A calibrator with fixed parameters and what holds for it.

    ``monotone``: the binary map never reverses two scores; it then has a certificate. ``strict``: nor does it
    merge them. ``multiclass``: takes K columns. ``flip``: calibrating 1 - p for 1 - y gives 1 - h(p).
    ``constant``: the map ignores the score. ``log_odds``: K columns hold logits, not probabilities.
    """

    name: str
    make: Callable[[], BaseCalibrator]
    monotone: bool = True
    strict: bool = False
    multiclass: bool = False
    flip: bool = True
    constant: bool = False
    log_odds: bool = False


CALIBRATORS = [
    CalibratorCase("isotonic", IsotonicCalibrator),
    CalibratorCase("isotonic_step", partial(IsotonicCalibrator, interpolation="step"), flip=False),
    CalibratorCase("isotonic_clip_auto", partial(IsotonicCalibrator, clip="auto")),
    CalibratorCase("isotonic_clip", partial(IsotonicCalibrator, clip=0.01)),
    CalibratorCase("platt", PlattCalibrator, strict=True),
    CalibratorCase("platt_identity", partial(PlattCalibrator, link="identity"), strict=True),
    CalibratorCase("modified_platt", ModifiedPlattCalibrator, strict=True),
    CalibratorCase("modified_platt_mean", partial(ModifiedPlattCalibrator, tolerance=0.0), constant=True),
    CalibratorCase(
        "modified_platt_isotonic", partial(ModifiedPlattCalibrator, tolerance=0.0, fallback="isotonic")
    ),
    CalibratorCase("beta", BetaCalibrator, strict=True),
    CalibratorCase("beta_ab", partial(BetaCalibrator, parameters="ab"), strict=True),
    CalibratorCase("beta_am", partial(BetaCalibrator, parameters="am"), strict=True),
    # an edge belongs to the bin above it
    CalibratorCase("histogram_binning", HistogramBinningCalibrator, monotone=False, flip=False),
    CalibratorCase(
        "histogram_binning_plain",
        partial(HistogramBinningCalibrator, n_bins=15, smoothing=None),
        monotone=False,
        flip=False,
    ),
    CalibratorCase(
        "histogram_binning_uniform",
        partial(HistogramBinningCalibrator, n_bins="auto", strategy="uniform", smoothing="jeffreys"),
        monotone=False,
        flip=False,
    ),
    CalibratorCase(
        "scaling_binning", partial(ScalingBinningCalibrator, random_state=0), monotone=False, flip=False
    ),
    CalibratorCase(
        "scaling_binning_all_rows",
        partial(ScalingBinningCalibrator, IsotonicCalibrator(), n_bins="auto", split=False),
        monotone=False,
        flip=False,
    ),
    CalibratorCase("venn_abers", VennAbersCalibrator),
    CalibratorCase("venn_abers_brier", partial(VennAbersCalibrator, merge="brier")),
    CalibratorCase("centered_isotonic", CenteredIsotonicCalibrator, strict=True),
    CalibratorCase("centered_isotonic_plain", partial(CenteredIsotonicCalibrator, tilt=0.0)),
    CalibratorCase("prior_shift", partial(PriorShiftCalibrator, training_prior=0.5), strict=True),
    # without groups, which the generated tests do not pass
    CalibratorCase("group", GroupCalibrator, monotone=False),
    CalibratorCase(
        "group_temperature",
        partial(GroupCalibrator, TemperatureCalibrator()),
        monotone=False,
        multiclass=True,
    ),
    CalibratorCase("smoothed", SmoothedCalibrator, monotone=False),
    CalibratorCase("spline", SplineCalibrator, monotone=False),
    CalibratorCase("spline_monotone", partial(SplineCalibrator, monotone=True), strict=True),
    CalibratorCase("spline_identity", partial(SplineCalibrator, link="identity", monotone=True), strict=True),
    CalibratorCase("temperature", TemperatureCalibrator, strict=True, multiclass=True),
    # log-odds may be any numbers, probabilities too, but then they have no flip symmetry around 1/2
    CalibratorCase(
        "temperature_identity",
        partial(TemperatureCalibrator, link="identity"),
        strict=True,
        multiclass=True,
        flip=False,
        log_odds=True,
    ),
    CalibratorCase(
        "one_vs_rest_isotonic",
        partial(OneVsRestCalibrator, IsotonicCalibrator()),
        monotone=False,
        multiclass=True,
    ),
    CalibratorCase(
        "one_vs_rest_platt", partial(OneVsRestCalibrator, PlattCalibrator()), monotone=False, multiclass=True
    ),
    CalibratorCase("vector", VectorScalingCalibrator, monotone=False, multiclass=True),
    CalibratorCase("matrix", MatrixScalingCalibrator, monotone=False, multiclass=True),
    CalibratorCase(
        "matrix_identity",
        partial(MatrixScalingCalibrator, link="identity"),
        monotone=False,
        multiclass=True,
        flip=False,
        log_odds=True,
    ),
    CalibratorCase("structured_matrix", StructuredMatrixScalingCalibrator, monotone=False, multiclass=True),
    CalibratorCase("dirichlet", partial(DirichletCalibrator, penalty=0.01), monotone=False, multiclass=True),
    CalibratorCase(
        "dirichlet_l2",
        partial(DirichletCalibrator, penalty=0.01, regularization="l2"),
        monotone=False,
        multiclass=True,
    ),
    # equal probabilities are broken in favour of one class
    CalibratorCase(
        "top_label",
        partial(TopLabelCalibrator, PlattCalibrator()),
        monotone=False,
        multiclass=True,
        flip=False,
    ),
    CalibratorCase(
        "top_label_pooled",
        partial(TopLabelCalibrator, IsotonicCalibrator(), mode="pooled"),
        monotone=False,
        multiclass=True,
        flip=False,
    ),
    CalibratorCase(
        "log_average",
        partial(
            LogAverageCalibrator,
            [OneVsRestCalibrator(PlattCalibrator()), MatrixScalingCalibrator()],
            weights=[1.0, 2.0],
        ),
        monotone=False,
        multiclass=True,
    ),
    CalibratorCase("log_average_default", LogAverageCalibrator, monotone=False, multiclass=True),
    CalibratorCase(
        "log_average_binary",
        partial(LogAverageCalibrator, [IsotonicCalibrator(), PlattCalibrator()]),
        monotone=False,
    ),
    # the folds depend on the values of the scores, hence on their direction
    CalibratorCase("auto", AutoCalibrator, monotone=False, multiclass=True, flip=False),
    CalibratorCase(
        "auto_any_score",
        partial(
            AutoCalibrator,
            candidates={
                "Platt": PlattCalibrator(link="identity"),
                "isotonic": IsotonicCalibrator(clip="auto"),
            },
            n_folds=3,
            n_standard_errors=0.5,
        ),
        monotone=False,
        flip=False,
    ),
    # the division of the rows depends on their values, hence on the direction of the scores
    CalibratorCase("certified", partial(CertifiedCalibrator, random_state=0), monotone=False, flip=False),
    CalibratorCase(
        "certified_isotonic",
        partial(CertifiedCalibrator, IsotonicCalibrator(), test_size=0.25, random_state=0),
        monotone=False,
        flip=False,
    ),
    CalibratorCase(
        "certified_mean",
        partial(CertifiedCalibrator, tolerance=0.0, random_state=0),
        monotone=False,
        constant=True,
    ),
]
