"""An anytime-valid test of calibration for streams of forecasts."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_calib import _validation
from sklearn_calib._core._clusters import dependence_of
from sklearn_calib._core._grouping import group_sample
from sklearn_calib._typing import Array, CountingWeights, Weights
from sklearn_calib.inference._betting._bets import BettingStream, binned_cutoff_error
from sklearn_calib.inference._betting._rounds import BettingRounds
from sklearn_calib.inference._betting._tree import N_BINS, smallest_bin
from sklearn_calib.inference._testing._base import CalibrationTest, CalibrationTestResult, require_outcomes

# Observations are processed one by one; weights that sum to more would take minutes and gigabytes.
_MOST_REPEATED = 2**27


@dataclass(frozen=True)
class SequentialTestResult(CalibrationTestResult):
    """Outcome of a sequential test, with the e-value after each observation.

    ``statistic`` is the largest log e-value so far, ``pvalue`` is exp(-statistic); the other attributes of
    :class:`CalibrationTestResult` have the same meaning. The last call had ``len(log_e_path)`` observations,
    all earlier ones ``n_before``.

    Attributes
    ----------
    log_e_value : float
        Logarithm of the e-value after the last observation.
    log_e_path : ndarray of shape (n_samples - n_before,)
        Logarithm of the e-value after each observation of the last call; a sample of weight k counts k times.
    n_before : int
        Number of observations before the last call; 0 for ``test`` and ``fit``.
    max_log_e_before : float
        Largest log e-value before the last call.
    """

    log_e_value: float = 0.0
    log_e_path: Array = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    n_before: int = 0
    max_log_e_before: float = 0.0

    def rejected_at(self, alpha: float = 0.05) -> int | None:
        """Return the number of the observation at which the e-value first reached ``1 / alpha``.

        Parameters
        ----------
        alpha : float, default=0.05
            Level of the test, strictly between 0 and 1.

        Returns
        -------
        int or None
            Number in the stream, from 1; None if it was not reached.

        Raises
        ------
        ValueError
            If ``alpha`` is not strictly between 0 and 1, or if the e-value reached ``1 / alpha`` before the
            last call of ``partial_fit``; the result of that earlier call contains the number.
        """
        threshold = -math.log(_validation.check_fraction(alpha, "alpha"))
        if self.max_log_e_before >= threshold:
            raise ValueError(
                f"alpha={alpha!r} was reached among the first {self.n_before} observations, before the last "
                "call of partial_fit. Read result_ after each call."
            )
        reached = self.log_e_path >= threshold
        return self.n_before + int(reached.argmax()) + 1 if reached.any() else None


class SequentialTest(CalibrationTest):
    """Anytime-valid sequential test of calibration for streams, by a test martingale (e-process).

    A test of fixed sample size is valid for a single look at the data. Here you can look at the e-value E_t
    after every outcome, and stop or continue depending on its value: if the forecasts are calibrated, the
    probability that E_t *ever* reaches 1 / alpha is at most alpha.

    Attributes
    ----------
    result_ : SequentialTestResult
        The result on all data since ``fit`` (or since the first ``partial_fit``); its ``estimate`` is the
        cutoff calibration error over unions of neighboring bins, see Notes.
    e_value_ : float
        The e-value now; infinite above 1.8e308.
    log_e_value_ : float
        Its logarithm.
    max_log_e_value_, statistic_ : float
        The largest logarithm of an e-value so far, at least 0, that of the start.
    pvalue_ : float
        exp(-max_log_e_value_), an anytime-valid p-value.
    n_samples_ : int
        Number of observations so far.
    classes_ : ndarray of shape (2,)
        The labels; the last one is the positive class.
    n_features_in_ : int
        Number of columns of ``X``.

    See Also
    --------
    TCal : More powerful for a sample whose size was fixed in advance.

    Notes
    -----
    The null hypothesis is that each forecast is the conditional probability of its outcome given the past,
    which includes the forecast itself. Outcomes need not be independent, and forecasts may depend on earlier
    outcomes; but samples must be in temporal order, with each forecast made when all earlier outcomes were
    known. The e-value is

        E_0 = 1,    E_t = prod_{s <= t} q_s(y_s) / p_s(y_s),

    where q_s, a probability for y_s computed from p_s and the past, is a mixture of the following betting
    strategies. Each strategy has an initial weight, which is multiplied by the ratio of its own probability
    and p_s; E_t is the sum of these products, the total wealth. Under the null hypothesis E_t is a
    non-negative martingale with expectation 1 for any strategies, and Ville's inequality [1]_ gives

        P(sup_t E_t >= 1 / alpha) <= alpha.

    1. A grid of 34 recalibrations logit(q) = a + b logit(p), with a in {0, ±0.1, ±0.3, ±1} and b in
       {1/2, 3/4, 1, 4/3, 2}, has half of the initial wealth. It detects shifts, over- and underconfidence.
    2. A tree has the other half. It cuts the axis 2/pi arcsin(sqrt(p)), on which standard deviations are
       equal, into 3, 9, 27 and 81 equal bins, and mixes all prunings by context-tree weighting [2]_: half of
       the wealth of a bin is bet on the bin as a whole, half is passed to its three sub-bins, whose wealths
       are multiplied. Within a bin, one third of the wealth is bet on logit(q) = logit(p) + a with
       a in {±0.3, ±1}; one third with the learned a = S / (1 + V), clipped at ±1, where S is the past sum
       of y - p in the bin and V that of p (1 - p); one third on q = p. The tree detects local and
       oscillating errors.

    *Clusters.* Outcomes of a cluster may depend on each other in any way, given the past. The bets on a
    cluster are placed before its first outcome is used, and the wealth of a recalibration is multiplied by
    the mean of q(y) / p(y) over the cluster, whose expectation is 1 whatever the dependence. There is no
    tree. Samples of a cluster must follow each other, and the e-value changes after the last of them.

    For errors that begin late, each strategy has many starts: start j = 0, 1, 2, ... before sample 32 j + 1
    has the fraction 1 / ((j + 1)(j + 2)) of its initial wealth, and bets as if it had started at sample 1.
    The wealth of later starts is kept, so that E_t >= 1 / (2 + floor((t - 1) / 32)).

    Forecasts of exactly 0 or 1 that agree with the outcome do not change the wealth and do not count for the
    starts. One that disagrees makes the e-value infinite and the p-value 0.

    At a fixed sample size the power is lower than that of tests for a fixed sample size, and errors that
    cancel within the finest bins are not detected. The estimate is the cutoff calibration error restricted to
    intervals that end at edges of the 81 bins. The time is linear in the number of observations; the state
    between calls of ``partial_fit`` does not grow.

    References
    ----------
    .. [1] J. Ville (1939). Étude critique de la notion de collectif. Gauthier-Villars.
    .. [2] F. M. J. Willems, Y. M. Shtarkov and T. J. Tjalkens (1995). The context-tree weighting method:
       basic properties. IEEE Transactions on Information Theory 41.
    .. [3] G. Shafer and V. Vovk (2019). Game-Theoretic Foundations for Probability and Finance. Wiley.
    .. [4] A. Henzi and J. F. Ziegel (2022). Valid sequential inference on probability forecast performance.
       Biometrika 109.
    .. [5] S. Arnold, A. Henzi and J. F. Ziegel (2023). Sequentially valid tests for forecast calibration.
       Annals of Applied Statistics 17.
    .. [6] A. Ramdas, P. Grünwald, V. Vovk and G. Shafer (2023). Game-theoretic statistics and safe
       anytime-valid inference. Statistical Science 38.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.inference import SequentialTest
    >>> rng = np.random.default_rng(0)
    >>> monitor = SequentialTest()
    >>> for day in range(50):
    ...     p = rng.uniform(size=100)
    ...     y = rng.uniform(size=100) < p**2
    ...     _ = monitor.partial_fit(p, y)
    ...     if monitor.pvalue_ <= 0.01:
    ...         break
    >>> day, monitor.result_.rejected_at(0.01) <= monitor.n_samples_
    (0, True)
    """

    e_value_: float
    log_e_value_: float
    max_log_e_value_: float
    n_samples_: int

    _knows_clusters = True

    def _check_parameters(self) -> None:
        """Do nothing: the test has no parameters."""

    def _test_classes(self, sample: _validation.ClassSample) -> SequentialTestResult:
        raise ValueError(
            f"y_proba has {sample.p.shape[1]} columns, but SequentialTest tests binary problems. Use a test "
            "with a parameter reduction, such as CombinedTest; or test the confidence, y_proba.max(axis=1), "
            "against whether the predicted class is right."
        )

    def _test_sample(self, sample: _validation.BinarySample) -> SequentialTestResult:
        return _advance(BettingStream(), sample) if sample.clusters is None else _play_clusters(sample)

    def test(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        weights: Weights | None = None,
        clusters: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
    ) -> CalibrationTestResult:
        """Test whether the predictions are perfectly calibrated; nothing is stored.

        Parameters
        ----------
        y_true, y_proba, clusters, pos_label, labels
            As :meth:`CalibrationTest.test`, of two classes and in temporal order.
        sample_weight : array-like of shape (n,) or None, default=None
            Non-negative weights.
        %(counted_weight)s

        Returns
        -------
        SequentialTestResult
            The result.
        """
        weights = _counting(weights)
        shape = _validation.shape_of(y_true, "y_true")
        if sample_weight is not None and shape:
            _validation.check_counts(_validation.check_weights(sample_weight, shape[0]), weights)
        given = {"clusters": clusters, "pos_label": pos_label, "labels": labels}
        return super().test(y_true, y_proba, sample_weight=sample_weight, weights="frequency", **given)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        weights: Weights | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Reset the test, run it on the first part of a stream, and store the result.

        Parameters
        ----------
        X : array-like of shape (n,), (n, 1) or (n, 2)
            Predicted probabilities in temporal order, as ``y_proba`` of :meth:`test`.
        y : array-like of shape (n,)
            Outcomes.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequencies; k stands for the sample repeated k times in its place.
        weights : "frequency" or None, default=None
            "frequency": a weight of k, a whole number, stands for k samples. None: only weights of 0 and 1.
        clusters : None
            Not supported by a stream that is continued: pass them to :meth:`test`.

        Returns
        -------
        self
            The test, with its result.
        """
        require_outcomes(y)
        if clusters is not None:
            raise ValueError(
                "clusters cannot be passed to fit, which begins a stream. Use test, or CalibrationMonitor "
                "with dependent_batches=True."
            )
        return self._continue(BettingStream(), _validation.check_two_labels(y), X, y, sample_weight, weights)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        weights: Weights | None = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Continue or begin the stream; the e-values do not depend on how it is divided into calls.

        Parameters
        ----------
        X : float or array-like of shape (n,), (n, 1) or (n, 2)
            Predicted probabilities, later than those of earlier calls.
        y : label or array-like of shape (n,)
            Outcomes.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequencies.
        weights : "frequency" or None, default=None
            As for :meth:`fit`.
        %(two_labels)s

        Returns
        -------
        self
            The test, with its result.
        """
        require_outcomes(y)
        X, y = _validation.as_samples(X, y)
        if not hasattr(self, "classes_"):
            return self._continue(
                BettingStream(), _validation.check_two_labels(y, classes), X, y, sample_weight, weights
            )
        check_known(y, self.classes_, classes)
        return self._continue(self._stream, self.classes_, X, y, sample_weight, weights)

    def _continue(
        self,
        stream: BettingStream,
        classes: NDArray[Any],
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        weights: Weights | None,
    ) -> Self:
        self._check_parameters()
        check_known(y, classes)
        weights = _counting(weights)
        sample = _validation.check_binary(y, X, sample_weight, classes[1], weights="frequency")
        if sample.w is not None:
            _validation.check_counts(sample.w, weights)
        result = _advance(stream, sample)
        self._stream, self.classes_ = stream, classes
        shape = _validation.shape_of(X, "X")
        self.n_features_in_ = 1 if len(shape) == 1 else shape[1]
        self.result_, self.statistic_, self.pvalue_ = result, result.statistic, result.pvalue
        self.max_log_e_value_, self.log_e_value_ = result.statistic, result.log_e_value
        with np.errstate(over="ignore"):
            self.e_value_ = float(np.exp(result.log_e_value))
        self.n_samples_ = result.n_samples
        return self


def _counting(weights: Weights | None) -> CountingWeights:
    """Return what weights mean; "sampling", the default of other tests, allows 0 and 1 only."""
    found = None if isinstance(weights, str) and weights == "sampling" else weights
    _validation.check_counting(found)
    return found


def check_known(y: ArrayLike, known: NDArray[Any], classes: ArrayLike | None = None) -> NDArray[Any]:
    """Return the labels of a stream; raise unless they are among those of its first call."""
    if classes is not None and not np.array_equal(_validation.check_sorted(classes, "classes"), known):
        raise ValueError(f"classes={classes!r} differs from those of the first call, {known.tolist()}.")
    labels = _validation.as_array(y, "y")
    unknown = labels[~np.isin(labels, known)]
    if unknown.size:
        raise ValueError(f"y contains {unknown[:1].tolist()[0]!r}, which is not one of {known.tolist()}.")
    return labels


def _times(sample: _validation.BinarySample) -> NDArray[np.int64] | None:
    """Return how often each sample occurs; None for once."""
    if sample.w is None:
        return None
    if sample.total > _MOST_REPEATED:
        raise ValueError(
            f"sample_weight stands for {sample.total:.3g} observations, which exceeds the limit of 2**27 "
            "for a test that processes them one by one. Pass smaller weights."
        )
    return _validation.check_frequency_weights(sample.w)


def _advance(stream: BettingStream, sample: _validation.BinarySample) -> SequentialTestResult:
    """Continue ``stream`` with the sample and return its result."""
    times = _times(sample)
    n_before, max_before = stream.n_samples, stream.max_log_wealth
    path = stream.advance(sample.y, sample.p, times)
    return _result(
        stream,
        max_log_e=stream.max_log_wealth,
        index=stream.index_of_max,
        estimate=stream.cutoff_error,
        log_e_path=path,
        n_before=n_before,
        max_log_e_before=max_before,
    )


def _play_clusters(sample: _validation.BinarySample) -> SequentialTestResult:
    """Return the result of clusters that follow each other, each of which is a round of bets."""
    assert sample.clusters is not None
    times, rounds = _times(sample), BettingRounds(dependent=True)
    starts = np.flatnonzero(np.diff(sample.clusters, prepend=-1))
    if starts.shape[0] > sample.clusters.max() + 1:
        raise ValueError(
            "in a sequential test the samples of each of the clusters must follow each other. Sort them "
            "by the time of their cluster."
        )
    ends = np.append(starts[1:], sample.y.shape[0])
    until = np.append(0, np.cumsum(np.ones(sample.y.shape[0], np.int64) if times is None else times))
    path = np.zeros(int(until[-1]))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        # the wealth changes after the last sample of a cluster
        path[until[start] : until[end]] = rounds.log_wealth
        rows = slice(start, end)
        path[until[end] - 1] = rounds.play(
            sample.y[rows], sample.p[rows], None if times is None else times[rows]
        )
    top = int(path.argmax())
    residuals = np.bincount(smallest_bin(sample.p), sample.weights * (sample.y - sample.p), minlength=N_BINS)
    grouped = group_sample(sample)
    return _result(
        rounds,
        max_log_e=max(0.0, float(path[top])),
        index=top + 1 if path[top] > 0.0 else 0,
        estimate=binned_cutoff_error(residuals, rounds.n_samples),
        log_e_path=path,
        **dependence_of(grouped.clusters, grouped.prob),
    )


def _result(
    bets: BettingStream | BettingRounds, max_log_e: float, index: int, estimate: float, **given: Any
) -> SequentialTestResult:
    """Return the result of bets with their largest log-wealth, and the observation after which it was."""
    if bets.impossible is not None:
        outcome, forecast = bets.impossible
        reason = f"an outcome that its forecast makes impossible: y = {outcome} where p = {forecast:g}"
        pvalue = 0.0
    else:
        reason = (
            f"log e-value {max_log_e:.4g} after observation {index}, {bets.log_wealth:.4g} after the last"
        )
        # what underflows is not impossible
        pvalue = max(math.exp(-max_log_e), sys.float_info.min)
    return SequentialTestResult(
        test="sequential test",
        null_hypothesis="each prediction is the probability of its outcome given the past",
        statistic=max_log_e,
        pvalue=pvalue,
        estimate=estimate,
        method="test martingale, anytime-valid",
        n_samples=bets.n_samples,
        reason=reason,
        log_e_value=bets.log_wealth,
        **given,
    )
