"""Columns of numbers: predicted probabilities, scores, and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib._core._weights import kish_size
from sklearn_calib._typing import Array
from sklearn_calib._validation._arrays import as_array, missing_values
from sklearn_calib._validation._parameters import check_option
from sklearn_calib._validation._warnings import warn_user

# bits of 1.0: read as unsigned integers, exactly the floats in [0, 1] do not exceed it
# (negative numbers, infinities and NaN are all greater)
_ONE_BITS = np.float64(1.0).view(np.uint64)
#: Probabilities of all classes may sum to 1 plus or minus this: bfloat16 has eight significant bits.
ROW_SUM_TOLERANCE = 4e-3
#: Probabilities outside [0, 1] by at most this are clipped.
ROUNDING = 1e-6
_NEAR = 1e-3
#: What to do with other scores than probabilities.
CONVERT = (
    "convert decision scores or logits first (IsotonicCalibrator, or PlattCalibrator with link='identity')"
)
#: Largest absolute score: squares of differences of scores are finite.
LARGEST_SCORE = 1e100
# Rounding to two decimals changes a probability by no more than this.
_ROUNDED = 0.0051
# Limits of the sum of weights: its square is finite.
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-100, 1e100
# Calibrators warn if the sum of weights and the effective number of samples have a larger ratio.
_LARGEST_RATIO = 4.0
# Counts up to this are exact as floats.
_MOST_COUNTED = 2.0**53


def check_probabilities(y_proba: ArrayLike, name: str = "y_proba") -> Array:
    """Return the probability of the positive class as float64 of shape (n,).

    Accepts shapes (n,), (n, 1) and (n, 2); of two columns the last is the positive class.
    """
    p = check_numbers(y_proba, name)
    if p.ndim == 2 and p.shape[1] == 2:
        # columns are checked first, so that a NaN is not reported as a wrong sum
        negative = _check_unit_interval(np.ascontiguousarray(p[:, 0]), name)
        p = _check_unit_interval(np.ascontiguousarray(p[:, 1]), name)
        gap = np.abs(negative + p - 1.0)
        if gap.size and gap.max() > ROW_SUM_TOLERANCE:
            row = int(gap.argmax())
            raise ValueError(
                f"{name} has two columns but row {row} sums to {negative[row] + p[row]:.6g}, not 1. "
                "Pass the probabilities of both classes, or only those of the positive class."
                f"{_why(y_proba, gap.max())}"
            )
        return p
    if p.ndim == 2 and p.shape[1] == 1:
        p = p[:, 0]
    if p.ndim != 1:
        raise ValueError(
            f"{name} must have shape (n,), (n, 1) or (n, 2) for a binary problem, got shape {p.shape}. "
            f"Pass the predicted probability of the positive class.{_by_label(p)}{_why(y_proba)}"
        )
    return _check_unit_interval(np.ascontiguousarray(p), name)


def check_response(values: NDArray[Any], estimator: Any, method: str) -> None:
    """Raise if a classifier has predicted NaN or infinity."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        place = tuple(np.argwhere(~np.isfinite(values))[0])
        raise ValueError(
            f"{method} of {type(estimator).__name__} returned {_shown(values[place])} for sample "
            f"{place[0]}. Check its training, or use a classifier that predicts finite numbers."
        )


def check_scores(X: Any, name: str = "X", *, kind: str) -> Array:
    """Return scores as float64: shape (n,) for a binary problem, (n, K) with K >= 3 otherwise.

    "probability": all in [0, 1], and the rows of two or more columns sum to 1. "score": any finite numbers;
    but two columns are always probabilities of both classes. "logit": any finite numbers; two columns are the
    logits of both classes. Of two probabilities the last one is returned, of two logits the last minus the
    first.
    """
    scores = check_numbers(X, name)
    if scores.ndim not in (1, 2):
        raise ValueError(
            f"{name} must have shape (n,), (n, 1) or (n, K), got shape {scores.shape}.{_by_label(scores)}"
        )
    if scores.ndim == 2 and scores.shape[1] == 0:
        raise ValueError(
            f"{name} has 0 feature(s) (shape={scores.shape}) while a minimum of 1 is required. "
            "Pass one score per sample or one per class."
        )
    if scores.shape[0] == 0:
        raise ValueError(f"{name} is empty. Pass at least one sample.")
    columns = 1 if scores.ndim == 1 else scores.shape[1]
    if kind == "probability":
        return check_probabilities(scores, name) if columns <= 2 else _check_simplex(scores, name, X)
    if kind == "score" and columns == 2:
        try:
            return check_probabilities(scores, name)
        except ValueError as error:
            raise ValueError(
                f"{error} Two columns are always read as the probabilities of both classes; pass any other "
                "score as one column."
            ) from None
    if not np.isfinite(scores).all():
        row = int(np.argwhere(~np.isfinite(scores))[0, 0])
        value = scores[row][~np.isfinite(scores[row])].flat[0] if columns > 1 else scores.flat[row]
        raise ValueError(
            f"{name} contains {_shown(value)} at index {row}. Remove or impute missing scores first."
        )
    if max(scores.max(), -scores.min()) > LARGEST_SCORE:
        row = int(np.unravel_index(np.abs(scores).argmax(), scores.shape)[0])
        raise ValueError(
            f"{name} contains {scores.flat[np.abs(scores).argmax()]:.3g} at index {row}, but scores must lie "
            f"between -{LARGEST_SCORE:g} and {LARGEST_SCORE:g}. Divide them by a constant."
        )
    if columns == 1:
        return scores.reshape(-1)
    return scores[:, 1] - scores[:, 0] if columns == 2 else scores


def _check_simplex(p: Array, name: str, table: Any) -> Array:
    """Return ``p`` of shape (n, K) if its rows are probability vectors."""
    p = np.ascontiguousarray(p)
    if p.view(np.uint64).max() > _ONE_BITS:
        # slower, but locates the sample
        for column in range(p.shape[1]):
            _check_unit_interval(np.ascontiguousarray(p[:, column]), name)
        p = np.clip(p, 0.0, 1.0)
    # much faster than sums over short rows
    total = p @ np.ones(p.shape[1])
    gap = np.abs(total - 1.0)
    row = int(gap.argmax())
    if gap[row] > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"{name} has {p.shape[1]} columns but row {row} sums to {total[row]:.6g}, not 1. "
            "Pass the probabilities of all classes; if samples have several labels, one column at a time."
            f"{_why(table, gap[row], p.shape[1])}"
        )
    return p


def check_weights(sample_weight: ArrayLike, n_samples: int, name: str = "sample_weight") -> Array:
    """Return finite non-negative weights with a positive sum, float64 of shape (n_samples,)."""
    w = check_numbers(sample_weight, name)
    if w.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got shape {w.shape}. Pass one weight per sample.")
    if w.shape[0] != n_samples:
        raise ValueError(f"{name} has {w.shape[0]} values, expected {n_samples}, one for every sample.")
    if not np.isfinite(w).all():
        row = int(np.flatnonzero(~np.isfinite(w))[0])
        raise ValueError(f"{name} contains {w[row]} at index {row}. Weights must be finite.")
    if w.min() < 0:
        row = int(w.argmin())
        raise ValueError(f"{name} contains {w[row]:.6g} at index {row}. Weights must not be negative.")
    with np.errstate(over="ignore"):
        total = w.sum()
    if total == 0:
        raise ValueError(f"{name} is zero everywhere. At least one weight must be positive.")
    if not _LEAST_WEIGHT <= total <= _MOST_WEIGHT:
        raise ValueError(
            f"{name} sums to {total:.3g}, but must sum to a number from {_LEAST_WEIGHT:g} to "
            f"{_MOST_WEIGHT:g}. Multiply the weights by a constant."
        )
    return w


def warn_of_scale(w: Array) -> None:
    """Warn if the sum of weights is far from the number of samples for which they stand."""
    # weights that decay exponentially sum to half of it
    total, size = float(w.sum()), kish_size(w)
    small = total < size / _LARGEST_RATIO
    if not (small or total > _LARGEST_RATIO * size):
        return
    advice = f"Multiply the weights by {size / total:.3g}"
    if np.array_equal(w, np.rint(w)):
        # tables of counts have few samples of each count; equal weights can be counts, too
        different = np.unique(w[w > 0])
        if different[0] == 1 or not 1 < different.size <= w.size / 50:
            return
        advice += "; if a weight of k counts k equal samples, repeat them instead (np.repeat)"
    warn_user(
        f"sample_weight sums to {total:.3g}, but the effective number of samples is {size:.0f}. A weight "
        "of 1 counts as one sample, so that the penalties and priors of calibrators have too "
        f"{'much' if small else 'little'} influence. {advice}.",
    )


def check_frequency_weights(w: Array) -> NDArray[np.int64]:
    """Return checked weights as int64 if they are whole numbers, as tests and intervals require."""
    times = np.rint(w)
    if not np.array_equal(times, w):
        row = int(np.flatnonzero(times != w)[0])
        raise ValueError(
            "sample_weight must contain whole numbers (how often each sample was observed), got "
            f"{float(w[row])!r} at index {row}. Pass weights='sampling' for weights of surveys or exposures, "
            "where the function has this parameter; otherwise omit sample_weight, or round it."
        )
    if w.sum() > _MOST_COUNTED:
        raise ValueError(
            f"sample_weight sums to {w.sum():.3g}, which exceeds the limit of 2**53 samples. Divide it."
        )
    return times.astype(np.int64)


def check_counting(weights: str | None) -> None:
    """Raise unless ``weights`` is "frequency" or None, where weights can only count samples."""
    if weights is not None:
        check_option(weights, "weights", ("frequency",), "None")


def check_counts(w: Array, weights: str | None) -> NDArray[np.int64]:
    """Return numbers of samples as int64; raise if ``weights`` are not declared to be such."""
    check_counting(weights)
    if weights is None and not np.isin(w, (0.0, 1.0)).all():
        raise ValueError(
            "sample_weight has other values than 0 and 1, but sampling weights are not supported here, where "
            "samples are counted. Pass weights='frequency' if a weight of k stands for k samples."
        )
    return check_frequency_weights(w)


def check_numbers(values: ArrayLike, name: str) -> Array:
    """Return real numbers of any shape as float64."""
    array = as_array(values, name)
    if array.dtype == np.float64:
        return array
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must contain real numbers.")
    # object columns of numbers (a nullable pandas column) are fine; text and missing values are not
    if array.dtype.kind == "O" and not any(isinstance(v, str | bytes) for v in array.ravel()):
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            missing = missing_values(array.ravel()).reshape(array.shape)
        if missing.any():
            row = int(np.argwhere(missing)[0, 0])
            raise ValueError(
                f"{name} contains a missing value at index {row}. Remove or impute missing values first."
            )
    texts = np.argwhere(np.vectorize(lambda value: isinstance(value, str | bytes), otypes=[bool])(array))
    found, advice = f"dtype {array.dtype}", "Convert it to float64"
    if texts.size:
        found = repr(array.item(*texts[0]))
        if array.ndim == 2:
            found, advice = f"{found} in column {texts[0, 1]}", f"{advice}, or leave this column out"
    raise ValueError(f"{name} must contain numbers only, got {found}. {advice}.")


def check_length(name: str, found: int, other: str, expected: int) -> None:
    """Raise if two arguments differ in length."""
    if found != expected:
        raise ValueError(
            f"{name} has {found} samples but {other} has {expected}. Pass arrays of the same length."
        )


def _check_unit_interval(p: Array, name: str) -> Array:
    """Return contiguous ``p`` if every value lies in [0, 1]; values outside by up to 1e-6 are clipped."""
    if p.shape[0] == 0:
        raise ValueError(f"{name} is empty. Pass at least one sample.")
    if p.view(np.uint64).max() <= _ONE_BITS:
        return p
    if np.isfinite(p).all() and p.min() >= 0 and p.max() <= 1:
        return p + 0.0  # -0.0, whose sign bit is set, becomes 0.0
    if only_rounding(p):
        return np.clip(p, 0.0, 1.0)
    row = int(np.flatnonzero(~((p >= 0) & (p <= 1)))[0])
    if not np.isfinite(p[row]):
        raise ValueError(
            f"{name} contains {_shown(p[row])} at index {row}. Remove or impute missing predictions first."
        )
    worst = int(np.maximum(-p, p - 1.0).argmax())
    if -_NEAR <= p[worst] <= 1.0 + _NEAR:
        raise ValueError(
            f"{name} contains {float(p[worst])!r} at index {worst}, outside [0, 1] by more than "
            f"the 1e-6 that counts as rounding. If it should be 0 or 1, pass numpy.clip({name}, 0, 1)."
        )
    if p.min() >= 0 and 20 < p.max() <= 100:
        raise ValueError(
            f"{name} contains {float(p[row])!r} at index {row}, outside [0, 1], and looks like percentages: "
            "divide by 100?"
        )
    raise ValueError(
        f"{name} contains {float(p[row])!r} at index {row}, outside [0, 1]. Pass probabilities; {CONVERT}."
    )


def only_rounding(p: Array) -> bool:
    """Tell whether numbers are outside [0, 1] by no more than 1e-6, the rounding of single precision."""
    return bool(p.min() >= -ROUNDING and p.max() <= 1.0 + ROUNDING)


def _by_label(values: Array) -> str:
    """Return advice for the list of arrays (n, 2) of ``MultiOutputClassifier.predict_proba``."""
    return " For multilabel targets pass proba[k][:, 1], label by label." if values.shape[2:] == (2,) else ""


def _why(table: Any, gap: float = np.inf, n_columns: int = 2) -> str:
    """Return advice for rows whose sum differs from 1 by ``gap``, or for a table with too many columns."""
    if gap <= _ROUNDED * n_columns:
        return " If they were rounded, divide them by their sum: p / p.sum(axis=1, keepdims=True)."
    named = hasattr(table, "columns") or hasattr(table, "column_names")
    return " If the columns are models, pass dict(table) where several models are compared." if named else ""


def _shown(value: float) -> str:
    """Return the usual name of a number that is not finite."""
    return "NaN" if np.isnan(value) else str(value)
