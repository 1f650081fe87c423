"""Vector scaling: a temperature and an intercept for each class."""

import numpy as np

from sklearn_calib._typing import Array
from sklearn_calib.calibrators._affine import AffineCalibrator, AffineFit


class VectorScalingCalibrator(AffineCalibrator):
    r"""Vector scaling: the softmax of log-probabilities with a factor and an intercept for each class.

    With :math:`z_k` the logarithm of the probability of class k, centered so that :math:`\sum_k z_k = 0`, the
    calibrated probabilities are the softmax of :math:`\beta (1 + v_k) z_k + b_k`. Here :math:`1/\beta` is the
    temperature of :class:`TemperatureCalibrator`, fitted first, and v and b minimize

    .. math:: \sum_i w_i \ell_i(v, b) + \frac{\lambda K}{2} \Big(\sum_k v_k^2 + \sum_k b_k^2\Big)

    with :math:`\ell_i` the log loss of sample i. The limit of a large penalty is temperature scaling; a
    penalty of 0 gives the vector scaling of [1]_.

    Parameters
    ----------
    penalty : "auto" or float, default="auto"
        :math:`\lambda \ge 0`; its influence decreases with the total weight. "auto": chosen by
        cross-validation with preference for large penalties, as by :class:`MatrixScalingCalibrator`. With 0
        and perfect separation of a class there is no solution, and a very steep map is returned.
    %(shrink_temperature)s
    %(link)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,)
        :math:`\beta (1 + v)`, the factors of the centered log-probabilities.
    intercept_ : ndarray of shape (n_classes,)
        :math:`b`.
    %(shrunk_to)s
    %(affine_fit)s

    See Also
    --------
    MatrixScalingCalibrator : With interactions between classes.
    TemperatureCalibrator : One factor for all classes.

    Notes
    -----
    Solver, choice of the penalty and invariances are those of :class:`MatrixScalingCalibrator`, so that with
    few samples the map is close to temperature scaling; a Newton step costs O(n K). For two classes this is
    Platt scaling on log-odds with a penalty.

    %(clipped_there)s

    References
    ----------
    .. [1] Guo et al. (2017). On calibration of modern neural networks. ICML. arXiv:1706.04599, Section 4.2.

    Examples
    --------
    The forecasts are calibrated except for the frequencies of the classes:

    >>> import numpy as np
    >>> from sklearn_calib.calibrators import VectorScalingCalibrator
    >>> proba = np.tile([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]], (100, 1))
    >>> labels = np.where(np.arange(300) % 10 < 5, np.tile([0, 1, 2], 100), 0)
    >>> calibrator = VectorScalingCalibrator().fit(proba, labels)
    >>> int(calibrator.intercept_.argmax())
    0
    >>> calibrator.predict_proba(proba).mean(axis=0).round(1), np.bincount(labels) / 300
    (array([0.6, 0.2, 0.2]), array([0.66666667, 0.16666667, 0.16666667]))
    """

    temperature_: float

    def __init__(
        self, *, penalty: float | str = "auto", shrink_temperature: bool = False, link: str = "logit"
    ) -> None:
        self.penalty = penalty
        self.shrink_temperature = shrink_temperature
        self.link = link

    def _center(self, n_classes: int, beta: float) -> Array:
        return np.column_stack([np.ones(n_classes), np.zeros(n_classes)])

    def _penalties(self, penalty: float, n_classes: int, total: float) -> Array:
        return np.full((n_classes, 2), penalty * n_classes)

    def _keep(self, fit: AffineFit) -> None:
        self.temperature_ = 1.0 / fit.beta
        self.coef_ = fit.beta * fit.theta[:, 0]
        self.intercept_ = fit.theta[:, 1].copy()
