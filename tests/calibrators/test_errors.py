"""What the border of the calibrators refuses, by name of the argument."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from sklearn_calib import calibrators as cal
from tests.calibrators._registry import CALIBRATORS, calibrators_with

P = np.array([0.1, 0.4, 0.6, 0.9])
Y = np.array([0, 1, 0, 1])

every_calibrator = calibrators_with()


BAD_INPUT = [
    ([0.1, np.nan, 0.6, 0.9], Y, None, "X contains NaN at index 1"),
    ([], [], None, "X is empty"),
    (np.empty((4, 0)), Y, None, r"X has 0 feature\(s\)"),
    (P.reshape(1, 2, 2), Y, None, r"X must have shape .* pass proba\[k\]\[:, 1\], label by label"),
    (["a", "b", "c", "d"], Y, None, "X must contain numbers only, got 'a'. Convert it to float64"),
    (P + 1j, Y, None, "Complex data not supported: X"),
    (P, Y[:3], None, "y has 3 samples but X has 4"),
    (P, [0, 1, np.nan, 1], None, "Input y contains NaN"),
    (P, [0.1, 0.2, 0.3, 1.4], None, "Unknown label type"),
    (P, None, None, "requires y to be passed"),
    (P, Y, [1, 1, 1], "sample_weight has 3 values"),
    (P, Y, [1, -1, 1, 1], "sample_weight contains -1 at index 1"),
    (P, Y, [0, 0, 0, 0], "sample_weight is zero everywhere"),
    (P, Y, [1, 0, 1, 0], "y has only samples of class"),
    (P, Y, np.ones((4, 1)), r"sample_weight must have shape \(n,\)"),
]


@every_calibrator
def test_bad_input_is_named(case):
    for X, y, w, message in BAD_INPUT:
        with pytest.raises(ValueError, match=message):
            case.make().fit(X, y, w)
    with pytest.raises(TypeError, match="X is a sparse matrix"):
        case.make().fit(csr_array(P[:, None]), Y)


@pytest.mark.filterwarnings("ignore:.*so that the constant event rate is used")
@every_calibrator
def test_scores_are_checked_again_when_predicting(case):
    fitted = case.make().fit(P, Y)
    message = "X has 2 features, but .* is expecting 1 features .* Pass the outp"
    for method in ("transform", "predict_proba", "predict"):
        with pytest.raises(NotFittedError):
            getattr(case.make(), method)(P)
        with pytest.raises(ValueError, match="X contains NaN at index 0"):
            getattr(fitted, method)([np.nan])
        with pytest.raises(ValueError, match=message):
            getattr(fitted, method)([[0.3, 0.7]])


DECLARED = [cal.PlattCalibrator(), cal.TemperatureCalibrator()]
DECLARED.append(cal.OneVsRestCalibrator(cal.PlattCalibrator()))


@pytest.mark.parametrize("calibrator", DECLARED, ids=repr)
def test_declared_probabilities_must_be_probabilities(calibrator):
    for bad in (-0.1, 1.1, 3.0):
        with pytest.raises(ValueError, match=r"X contains .* at index 3, outside \[0, 1\]"):
            calibrator.fit([0.1, 0.2, 0.3, bad], Y)
    with pytest.raises(ValueError, match=r"X has two columns but row 1 sums to 1\.2"):
        calibrator.fit([[0.5, 0.5], [0.6, 0.6], [0.4, 0.6], [0.2, 0.8]], Y)


@pytest.mark.parametrize("calibrator", [cal.IsotonicCalibrator(), cal.PlattCalibrator(link="identity")])
def test_two_columns_are_probabilities(calibrator):
    for X in ([[-1.0, 1.0]] * 4, [[0.4, 0.4]] * 4):
        with pytest.raises(ValueError, match="Two columns are always read as the probabilities of both"):
            calibrator.fit(X, Y)
    both, expected = np.column_stack([1 - P, P]), calibrator.fit(P, Y).transform(P)
    np.testing.assert_array_equal(calibrator.fit(both, Y).transform(both)[:, 1], expected)


def test_probabilities_of_several_classes_must_sum_to_one():
    X = np.full((6, 3), 1 / 3)
    X[4, 0] = 0.4
    for calibrator in (cal.TemperatureCalibrator(), cal.OneVsRestCalibrator(cal.PlattCalibrator())):
        with pytest.raises(ValueError, match=r"X has 3 columns but row 4 sums to 1\.06667"):
            calibrator.fit(X, [0, 1, 2] * 2)
        with pytest.raises(ValueError, match=r"X contains -0.2 at index 0, outside"):
            calibrator.fit([[-0.2, 0.6, 0.6]] * 6, [0, 1, 2] * 2)
        with pytest.raises(ValueError, match=r"X contains NaN at index 0"):
            calibrator.fit([[np.nan, 0.6, 0.6]] * 6, [0, 1, 2] * 2)
    with pytest.raises(ValueError, match="X contains inf at index 2"):
        cal.TemperatureCalibrator(link="identity").fit([[1, 2, 3], [1, 2, 3], [1, np.inf, 2]], [0, 1, 2])


@pytest.mark.parametrize(
    "case", [case for case in CALIBRATORS if hasattr(case.make(), "link")], ids=lambda c: c.name
)
def test_link_is_never_guessed(case):
    with pytest.raises(ValueError, match="link must be one of 'logit', 'identity', got 'auto'"):
        case.make().set_params(link="auto").fit(P, Y)


BLACK_BOX = {"training_prior": 0.5, "target_prior": "black_box"}
TWO_KINDS = {"a": cal.PlattCalibrator(), "b": cal.TemperatureCalibrator(link="identity")}
BAD_PARAMETERS = [
    (cal.AutoCalibrator(cv=1), "cv must be at least 2"),
    (cal.AutoCalibrator(cv=2.5), "cv must be an integer"),
    (cal.AutoCalibrator(n_standard_errors=-1), "n_standard_errors must be at least 0"),
    (cal.AutoCalibrator(candidates={}), "candidates is empty"),
    (cal.AutoCalibrator(candidates=[cal.PlattCalibrator()]), "candidates must be a dict"),
    (cal.AutoCalibrator(candidates={"a": cal.PlattCalibrator}), "pass an instance"),
    (cal.AutoCalibrator(candidates={"a": 3}), "no fit"),
    (cal.AutoCalibrator(candidates=TWO_KINDS), "require probabilities and others logits"),
    (cal.AutoCalibrator(link="probit"), "link must be one of"),
    (cal.AutoCalibrator(progress="yes"), "progress must be"),
    (cal.BetaCalibrator(parameters="abc"), "parameters must be one of 'abm', 'ab', 'am', got 'abc'"),
    (cal.CertifiedCalibrator("isotonic"), "calibrator must be one of 'passthrough'"),
    (cal.CertifiedCalibrator(3), "calibrator must have fit and predict_proba"),
    (cal.CertifiedCalibrator(target=-0.1), "target must lie strictly between 0 and 1"),
    (cal.CertifiedCalibrator(target="sharp"), "target must be"),
    (cal.CertifiedCalibrator(confidence=0), "confidence"),
    (cal.CertifiedCalibrator(method="exact"), "method must be one of"),
    (cal.CertifiedCalibrator(random_state=-1), "random_state"),
    (cal.DirichletCalibrator(diagonal_penalty=-1.0), "diagonal_penalty must be at least 0"),
    (cal.GroupCalibrator(cal.PlattCalibrator), "calibrator is the class PlattCalibrator"),
    (cal.HistogramBinningCalibrator(n_bins=2.5), "n_bins must be an integer"),
    (cal.HistogramBinningCalibrator(n_bins="sqrt"), "n_bins must be one of 'auto'"),
    (cal.HistogramBinningCalibrator(strategy="kmeans"), "strategy must be one of 'quantile', 'uniform'"),
    (cal.HistogramBinningCalibrator(smoothing=-1.0), "smoothing must be positive"),
    (cal.IsotonicCalibrator(clip="laplace"), "clip must be one of 'auto'"),
    (cal.IsotonicCalibrator(interpolation="cubic"), "interpolation must be one of 'linear', 'step'"),
    (cal.LogAverageCalibrator([]), "calibrators is empty"),
    (cal.LogAverageCalibrator(cal.PlattCalibrator()), "calibrators must be a list of calibrators"),
    (cal.LogAverageCalibrator([cal.PlattCalibrator]), "calibrator is the class PlattCalibrator; pass an in"),
    (cal.LogAverageCalibrator([cal.PlattCalibrator()], weights=[1, 2]), "weights has 2 values, expected"),
    (cal.LogAverageCalibrator([cal.PlattCalibrator()], weights=[-1]), "weights contains -1"),
    (cal.LogAverageCalibrator([cal.PlattCalibrator()], weights=[0]), "weights is zero everywhere"),
    (cal.MatrixScalingCalibrator(penalty=None), "penalty must be a number"),
    (cal.MatrixScalingCalibrator(off_diagonal_ratio=np.inf), "off_diagonal_ratio must be"),
    (cal.ModifiedPlattCalibrator(tolerance=np.nan), "tolerance must be at least 0 and finite"),
    (cal.ModifiedPlattCalibrator(tolerance="loose"), "tolerance must be one of 'sharp', 'paper'"),
    (cal.ModifiedPlattCalibrator(confidence=1.0), "confidence must lie strictly between"),
    (cal.OneVsRestCalibrator(cal.IsotonicCalibrator), "is the class IsotonicCalibrator; pass an instance"),
    (cal.OneVsRestCalibrator(None), "calibrator must have fit and predict_proba, but None has no fit"),
    (cal.OneVsRestCalibrator("isotonic"), "'isotonic' has no fit"),
    (cal.PriorShiftCalibrator(), "training_prior is required .* Pass for example training_prior=0.3"),
    (cal.PriorShiftCalibrator(training_prior=0.5, training_weight="balanced"), "has no meaning with"),
    (cal.PriorShiftCalibrator(training_weight={1: 2.0}, target_prior="em"), "training_prior is required"),
    (cal.PriorShiftCalibrator(training_prior=1.0), "training_prior must lie strictly between"),
    (cal.PriorShiftCalibrator(training_prior=0.5, target_prior="auto"), "target_prior must be one of"),
    (cal.PriorShiftCalibrator(training_prior={0: 0.5}), r"has labels \[0\], but the classes are \[0, 1\]"),
    (cal.PriorShiftCalibrator(training_prior=[0.2, 0.3, 0.5]), "must be a number for each of 2 classes"),
    (cal.PriorShiftCalibrator(training_weight={0: 0.0}), "training_weight must be positive"),
    (cal.PriorShiftCalibrator(training_weight=2.0), "training_weight must be a number for each of 2 classes"),
    (cal.PriorShiftCalibrator(training_weight={2: 2.0}), "training_weight has labels"),
    (cal.PriorShiftCalibrator(training_weight="auto"), "training_weight must be one of 'balanced'"),
    (cal.PriorShiftCalibrator(**BLACK_BOX), "confusion and target_prior="),
    (cal.PriorShiftCalibrator(confusion=[[1, 1], [2, 2]], **BLACK_BOX), "confusion must be a regular matrix"),
    (cal.ScalingBinningCalibrator(3), "calibrator must have fit and predict_proba"),
    (cal.ScalingBinningCalibrator(n_bins=0), "n_bins must be at least 1"),
    (cal.ScalingBinningCalibrator(split="yes"), "split must be True or False"),
    (cal.SmoothedCalibrator(bandwidth=1e-9), "bandwidth=1e-09 is below the smallest possible value"),
    (cal.SmoothedCalibrator(bandwidth="silverman"), "bandwidth must be one of"),
    (cal.SmoothedCalibrator(randomized=1), "randomized must be True or False"),
    (cal.SmoothedCalibrator(random_state="a"), "random_state must be"),
    (cal.SplineCalibrator(n_knots=1), "n_knots must be at least 2"),
    (cal.SplineCalibrator(penalty="bic"), "penalty must be one of"),
    (cal.SplineCalibrator(penalty=0.0), "penalty must be positive"),
    (cal.SplineCalibrator(penalty=None), "penalty must be a number"),
    (cal.SplineCalibrator(monotone=1), "monotone must be True or False"),
    (cal.StructuredMatrixScalingCalibrator(penalty=True), "penalty must be a number"),
    (cal.VectorScalingCalibrator(penalty=-1.0), "penalty must be at least 0 and finite, got -1.0"),
    (cal.VectorScalingCalibrator(penalty="cv"), "penalty must be one of 'auto' or a number, got 'cv'"),
    (cal.VennAbersCalibrator(loss="mean"), "loss must be one of 'log', 'brier'"),
]


def test_bad_parameters():
    for calibrator, message in BAD_PARAMETERS:
        with pytest.raises((TypeError, ValueError), match=message):
            calibrator.fit(P, Y)
