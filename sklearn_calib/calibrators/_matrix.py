"""Matrix scaling: a linear map of log-probabilities, kept near temperature scaling; plain and structured."""

import numpy as np
from numpy.typing import NDArray

from sklearn_calib.calibrators._affine import AffineCalibrator, AffineFit, check_penalty
from sklearn_calib.calibrators._inverse_temperature import posterior_share
from sklearn_calib.calibrators._vector import VectorScalingCalibrator

__all__ = ["MatrixScalingCalibrator", "StructuredMatrixScalingCalibrator"]

Array = NDArray[np.float64]


class MatrixScalingCalibrator(AffineCalibrator):
    r"""Matrix scaling: a linear map of the log-probabilities, then normalised.

    With :math:`z` the logarithms of the probabilities, centred so that :math:`\sum_k z_k = 0`, the calibrated
    probabilities are the softmax of :math:`\beta (I + V) z + b`. Here :math:`1/\beta` is the temperature of
    :class:`TemperatureCalibrator`, fitted first, and V and b minimise

    .. math:: \sum_i w_i \ell_i(V, b) + \frac{\lambda K}{2} \Big(\sum_k V_{kk}^2 + \sum_k b_k^2
        + \rho \sum_{j \ne k} V_{jk}^2\Big)

    with :math:`\ell_i` the log loss of sample i. A great :math:`\rho` leaves vector scaling, a great
    :math:`\lambda` temperature scaling, and 0 the matrix scaling of [1]_, which overfits.

    Parameters
    ----------
    penalty : float, "cv" or "vector", default="cv"
        :math:`\lambda \ge 0`, per unit of total weight 1: its influence fades as samples are added. "cv":
        chosen by cross-validation, in favour of great ones; see Notes. "vector": the one so chosen for
        :class:`VectorScalingCalibrator`, which is much faster for many classes. 0 has no solution, and a
        very steep one is returned, where the samples of a class can be separated from the others.
    off_diagonal_ratio : float, default=10.0
        :math:`\rho \ge 0`, how much more the influence of one class on another is penalised.
    shrink_temperature : bool, default=False
        Whether the temperature is shrunk: the posterior mode, averaged with 1; see Notes.
    %(link)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        :math:`\beta (I + V)`, the map of the centred log-probabilities.
    intercept_ : ndarray of shape (n_classes,)
        :math:`b`.
    temperature_ : float
        :math:`1/\beta`, of the temperature scaling that the penalty pulls to.
    %(affine_fit)s

    Raises
    ------
    ValueError
        When fitting, if a penalty is negative or ``link`` unknown; and as for any calibrator.
    TypeError
        When fitting, if a penalty is not a number.

    See Also
    --------
    StructuredMatrixScalingCalibrator : published penalties that grow with the number of classes.
    DirichletCalibrator : log-probabilities that are not centred, and the diagonal free.
    LogAverageCalibrator : average it with a calibrator of each class against the rest.

    Notes
    -----
    The loss is convex. It is minimised by Newton's method with conjugate gradients, preconditioned class by
    class, until no derivative exceeds 1e-9 per unit of weight and of the typical feature, and by one more
    step. A product with the second derivative costs O(n K^2). Nothing is random; the names of the classes and
    the order of samples do not matter, nor does sharpening or flattening of all forecasts by one temperature
    beforehand. A class whose samples all have weight zero gets an ever lower offset as the penalty goes to 0.
    The clipping limit of multiclass problems is chosen as by :class:`TemperatureCalibrator`.

    *Choice of the penalty.* With n the total weight, "cv" walks :math:`500/n` times 1e5, 1e4, ..., 1, each
    solution the start of the next, in 3 folds that share the temperature of all samples, and ends the walk
    two standard errors above the least loss so far; the square root of ten times more and less than the best
    are tried last. Of the penalties whose log loss of samples left out exceeds the least by no more than half
    a standard error of the differences, sample by sample, it takes the greatest. So few samples leave about
    temperature scaling, though several times as many parameters as samples are fitted. Samples that are equal
    up to the names of the classes, of weight 3 or more in all, are divided among the folds, so that weights
    are repetitions for the choice too; weights that are not counts should sum to the number of samples.

    *Shrinkage of the temperature.* With ``shrink_temperature=True`` and L the log loss of the inverse
    temperature :math:`e^\theta`, summed over the samples, :math:`\hat\theta` minimises :math:`L(\theta) +
    \theta^2 / 2`, the negative log posterior with a standard normal prior. By Laplace's approximation its
    evidence is :math:`-L(\hat\theta) - \hat\theta^2 / 2 - \tfrac12 \log(1 + L''(\hat\theta))`, and that of
    the temperature 1 is :math:`-L(0)`. With prior odds of 2 to 1 these give the posterior probability
    :math:`\pi` of the first, and :math:`\beta = \pi e^{\hat\theta} + 1 - \pi`. With ``link="identity"``,
    where the unit of the scores is unknown, :math:`\beta` is :math:`2 e^{\hat\theta}` divided by the root
    mean square of all :math:`z_{ik} - z_{i y_i}`. So separated samples do not make it infinite; the influence
    of the prior fades as 1/n.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger (2017). On calibration of modern neural networks. ICML.
       arXiv:1706.04599, Section 4.2.

    Examples
    --------
    The first two classes are confused with each other, not with the third:

    >>> import numpy as np
    >>> from sklearn_calib.calibrators import MatrixScalingCalibrator
    >>> proba = np.tile([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], (200, 1))
    >>> labels = np.tile([0, 1, 2, 1, 0, 2], 100)
    >>> calibrator = MatrixScalingCalibrator().fit(proba, labels)
    >>> calibrator.predict_proba(proba[:3]).round(1)
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """

    temperature_: float
    _penalty_rules = ("cv", "vector")

    def __init__(
        self,
        *,
        penalty: float | str = "cv",
        off_diagonal_ratio: float = 10.0,
        shrink_temperature: bool = False,
        link: str = "logit",
    ) -> None:
        self.penalty = penalty
        self.off_diagonal_ratio = off_diagonal_ratio
        self.shrink_temperature = shrink_temperature
        self.link = link

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_penalty(self.off_diagonal_ratio, "off_diagonal_ratio")

    def _choose(self, logits: Array, codes: NDArray[np.int64], weight: Array, beta: float) -> float:
        if self.penalty == "vector":
            return VectorScalingCalibrator(link=self.link)._choose(logits, codes, weight, beta)
        return super()._choose(logits, codes, weight, beta)

    def _penalties(self, penalty: float, n_classes: int, total: float) -> Array:
        one = penalty * n_classes
        return matrix_penalties(n_classes, one, one * float(self.off_diagonal_ratio), one)

    def _keep(self, theta: Array, beta: float, total: float) -> None:
        super()._keep(theta, beta, total)
        self.temperature_ = 1.0 / beta
        self.coef_ *= beta

    def _map_logits(self, logits: Array) -> Array:
        return self._linear(logits)


class StructuredMatrixScalingCalibrator(AffineCalibrator):
    r"""Structured matrix scaling: temperature, then vector, then matrix, each step dearer than the last.

    Temperature scaling comes first, softened by Laplace's rule so that no probability is 0: with n the total
    weight, :math:`q = \frac{n}{n+1} \mathrm{softmax}(\beta z) + \frac{1}{(n+1) K}`. With x the centred
    logarithms of q, the calibrated probabilities are the softmax of :math:`(I + \mathrm{diag}(v) + M) x + b`,
    where the diagonal of M is zero and v, M, b minimise

    .. math:: \sum_i w_i \ell_i + \lambda \Big(K \sum_k b_k^2 + K \sum_k v_k^2
        + K (K - 1) \sum_{j \ne k} M_{jk}^2\Big)

    with :math:`\ell_i` the log loss of sample i: each group of parameters is penalised in proportion to their
    number, and all of them, beside the mean loss, by 1 / n. With :math:`\lambda = 1` this is the ridge
    penalty of [1]_ with exponents of one and unit factors. Centring x and the choice of another penalty by
    cross-validation are our own.

    Parameters
    ----------
    penalty : float, "cv" or "evidence", default=1.0
        :math:`\lambda \ge 0`. "cv": chosen by cross-validation, as by :class:`MatrixScalingCalibrator`, in
        favour of great ones; it did no better on average, at several times the cost. "evidence": 1, and the
        map is averaged with its first step, the temperature alone; see Notes.
    shrink_temperature : bool, default=False
        Whether the temperature is shrunk, as by :class:`MatrixScalingCalibrator`.
    %(link)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        :math:`I + \mathrm{diag}(v) + M`, the map of x.
    intercept_ : ndarray of shape (n_classes,)
        :math:`b`.
    temperature_ : float
        :math:`1/\beta`.
    smoothing_ : float
        :math:`1/(n + 1)`, the weight of the uniform distribution in q.
    posterior_probability_ : float
        The posterior probability of the matrix; 1 unless ``penalty="evidence"``.
    %(affine_fit)s

    Raises
    ------
    ValueError
        When fitting, if ``penalty`` is negative or ``link`` unknown; and as for any calibrator.
    TypeError
        When fitting, if ``penalty`` is not a number.

    See Also
    --------
    MatrixScalingCalibrator : the same map with lighter penalties and without the softening.

    Notes
    -----
    Solved as :class:`MatrixScalingCalibrator` is, at the same cost. The softening bounds what the calibrator
    says if all samples of the fit were predicted rightly: then the temperature alone would make every
    forecast certain.

    *Averaging by evidence.* The penalty is a normal prior of v, M and b with mean 0 and precisions
    :math:`\Lambda`, of K or K (K - 1), times :math:`2 \lambda`. With the least penalised loss :math:`L_1`,
    the loss :math:`L_0` of the temperature alone, and the second derivative H of the loss at the solution,
    Laplace's approximation to the logarithm of the ratio of their evidence is :math:`L_0 - L_1 - \tfrac12
    \log\det(I + \Lambda^{-1/2} H \Lambda^{-1/2})` [3]_. Here H is replaced by its blocks of one class each,
    which does not overstate the ratio. With prior odds of 2 to 1 it gives ``posterior_probability_``, by
    which v, M and b are multiplied: few samples without structure leave about temperature scaling.

    References
    ----------
    .. [1] Berta, Holzmüller, Jordan, Bach (2025). Structured matrix scaling for multi-class calibration.
       arXiv:2511.03685.
    .. [2] Berta, Holzmüller, Jordan, Bach (2025). Rethinking early stopping: refine, then calibrate.
       arXiv:2501.19195.
    .. [3] MacKay (1992). Bayesian interpolation. Neural Computation 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import StructuredMatrixScalingCalibrator
    >>> proba = np.tile([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], (200, 1))
    >>> labels = np.tile([0, 1, 2, 1, 0, 2], 100)
    >>> calibrator = StructuredMatrixScalingCalibrator().fit(proba, labels)
    >>> calibrator.predict_proba(proba[:3]).round(1)
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """

    temperature_: float
    smoothing_: float
    posterior_probability_: float
    _penalty_rules = ("cv", "evidence")

    def __init__(
        self, *, penalty: float | str = 1.0, shrink_temperature: bool = False, link: str = "logit"
    ) -> None:
        self.penalty = penalty
        self.shrink_temperature = shrink_temperature
        self.link = link

    def _choose(self, logits: Array, codes: NDArray[np.int64], weight: Array, beta: float) -> float:
        return 1.0 if self.penalty == "evidence" else super()._choose(logits, codes, weight, beta)

    def _averaged(self, fit: AffineFit) -> Array:
        if self.penalty != "evidence":
            self.posterior_probability_ = 1.0
            return fit.theta
        self.posterior_probability_ = own = posterior_share(fit.problem.log_evidence_ratio(fit.theta))
        return own * fit.theta + (1.0 - own) * fit.problem.centre

    def _features(self, logits: Array, beta: float, total: float) -> Array:
        scaled = beta * logits
        proba = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        proba *= total / (total + 1.0) / proba.sum(axis=1, keepdims=True)
        proba += 1.0 / ((total + 1.0) * logits.shape[1])
        features: Array = np.log(proba, out=proba)
        features -= features.mean(axis=1, keepdims=True)
        return features

    def _penalties(self, penalty: float, n_classes: int, total: float) -> Array:
        # half the square of a parameter is multiplied, hence the twos
        one = 2.0 * penalty * n_classes
        return matrix_penalties(n_classes, one, one * (n_classes - 1), one)

    def _keep(self, theta: Array, beta: float, total: float) -> None:
        super()._keep(theta, beta, total)
        self.temperature_ = 1.0 / beta
        self.smoothing_ = 1.0 / (total + 1.0)
        self._total = total

    def _map_logits(self, logits: Array) -> Array:
        return self._linear(self._features(logits, 1.0 / self.temperature_, self._total))


def matrix_penalties(n_classes: int, diagonal: float, off_diagonal: float, intercept: float) -> Array:
    """Return the penalties of [W, b]."""
    penalties = np.full((n_classes, n_classes + 1), off_diagonal)
    penalties[np.arange(n_classes), np.arange(n_classes)] = diagonal
    penalties[:, -1] = intercept
    return penalties
