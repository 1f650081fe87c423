"""Dirichlet calibration with off-diagonal and intercept regularization."""

import numpy as np
from scipy.special import logsumexp

from sklearn_calib import _validation
from sklearn_calib._typing import Array
from sklearn_calib.calibrators._affine import AffineCalibrator
from sklearn_calib.calibrators._matrix import matrix_penalties


class DirichletCalibrator(AffineCalibrator):
    r"""Dirichlet calibration: the softmax of a linear map of the log-probabilities.

    If the vector p of forecasts has a Dirichlet distribution within each class, the true probabilities are
    the softmax of :math:`W \log p + b`. W and b minimize

    .. math:: \frac1n \sum_i w_i \ell_i + \frac{\lambda}{K (K-1)} \sum_{j \ne k} W_{jk}^2
        + \frac{\lambda}{K} \sum_k b_k^2

    with :math:`\ell_i` the log loss of sample i and n the total weight (off-diagonal and intercept
    regularization, ODIR), plus a penalty of the diagonal, ``diagonal_penalty``. For two classes it is beta
    calibration, with penalties.

    Parameters
    ----------
    penalty : "auto" or float, default="auto"
        :math:`\lambda \ge 0`. "auto": chosen by cross-validation; good values differ by orders of magnitude
        with the number of classes.
    diagonal_penalty : float, default=10.0
        :math:`\kappa \ge 0`: adds :math:`\kappa \Big(\frac{K}{2 n} +
        \frac{\lambda}{K^3 (K-1)}\Big) \sum_k (W_{kk} - \beta)^2`, with :math:`1/\beta` the temperature
        of :class:`TemperatureCalibrator`, the limit for a large :math:`\lambda`. With 0 the diagonal is not
        penalized, as in [1]_; with few samples of each class the map then overfits, up to forecasts of 0.
    %(link)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        :math:`W`.
    intercept_ : ndarray of shape (n_classes,)
        :math:`b`.
    %(affine_fit)s

    See Also
    --------
    MatrixScalingCalibrator : All parameters are shrunk to temperature scaling.

    Notes
    -----
    Solver, cost and choice of the penalty are those of :class:`MatrixScalingCalibrator`. The smallest
    penalty is :math:`2500 K^2 (K-1) / n^2`, for which off-diagonal elements have the same penalty as there;
    with few samples the map is therefore close to temperature scaling. The softmax is invariant to
    adding a constant to all scores of a sample, so that W and b are not unique without a penalty.

    %(clipped_there)s

    References
    ----------
    .. [1] Kull et al. (2019). Beyond temperature scaling: obtaining well-calibrated multiclass probabilities
       with Dirichlet calibration. NeurIPS. arXiv:1910.12656.

    Examples
    --------
    Calibrated forecasts, which change little:

    >>> import numpy as np
    >>> from sklearn_calib.calibrators import DirichletCalibrator
    >>> rng = np.random.default_rng(0)
    >>> proba = np.vstack([rng.dirichlet(np.ones(3) + np.eye(3)[k], 1000) for k in range(3)])
    >>> calibrator = DirichletCalibrator().fit(proba, np.repeat([0, 1, 2], 1000))
    >>> calibrator.predict_proba([[0.2, 0.3, 0.5]]).round(1)
    array([[0.2, 0.3, 0.5]])
    """

    def __init__(
        self, *, penalty: float | str = "auto", diagonal_penalty: float = 10.0, link: str = "logit"
    ) -> None:
        self.penalty = penalty
        self.diagonal_penalty = diagonal_penalty
        self.link = link

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _validation.check_not_negative(self.diagonal_penalty, "diagonal_penalty")

    def _features(self, logits: Array, beta: float, total: float) -> Array:
        features: Array = logits - logsumexp(logits, axis=1, keepdims=True)
        return features

    def _center(self, n_classes: int, beta: float) -> Array:
        return np.asarray(beta * np.eye(n_classes, n_classes + 1))

    def _penalties(self, penalty: float, n_classes: int, total: float) -> Array:
        scale = 2.0 * total
        intercept = scale * penalty / n_classes
        off_diagonal = scale * penalty / (n_classes * (n_classes - 1))
        diagonal = float(self.diagonal_penalty) * (n_classes + off_diagonal / n_classes**2)
        return matrix_penalties(n_classes, diagonal, off_diagonal, intercept)

    def _least_penalty(self, n_classes: int, total: float) -> float:
        # for this penalty, off-diagonal elements are penalized as in matrix scaling
        return n_classes**2 * (n_classes - 1) / 2.0 * 10.0 / total * super()._least_penalty(n_classes, total)

    def _inner(self) -> tuple[float, float, bool]:
        return 1.0, 1.0, False
