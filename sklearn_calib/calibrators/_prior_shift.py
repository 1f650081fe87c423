"""Correction of probabilities for a base rate that has changed."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from sklearn.utils import Tags

from sklearn_calib._core._grouping import GroupedOutcomes, group_scores
from sklearn_calib._core._maps import TINY, Beta
from sklearn_calib._typing import Array
from sklearn_calib._validation import (
    check_columns,
    check_fraction,
    check_option,
    check_sorted,
)
from sklearn_calib.calibrators._base import BaseCalibrator
from sklearn_calib.calibrators._certificate import CutoffCertificateMixin, certify


class PriorShiftCalibrator(CutoffCertificateMixin, BaseCalibrator):
    r"""Correction of probabilities for a changed base rate (prior shift, label shift) by Bayes' formula.

    A model that was trained on resampled classes, or on a population with another event frequency, predicts
    probabilities for the wrong base rate. If the distribution of the scores within each class is unchanged,
    the odds must be multiplied by the ratio of the prior odds. Other miscalibration is not corrected.

    Parameters
    ----------
    training_prior : float
        Weighted frequency of ``classes_[1]`` in the data on which the model was trained.
    target_prior : "em", float or None, default=None
        Frequency of ``classes_[1]`` in the population where the model is used. None: the frequency among the
        samples of ``fit``, which then needs labels. "em": the maximum likelihood estimate from the scores of
        the samples of ``fit``. A number is a known frequency.

    Attributes
    ----------
    target_prior_ : float
        The base rate of the corrected probabilities.
    odds_factor_ : float
        Factor by which the odds are multiplied.
    %(trained_fit)s

    Without labels in ``fit``, the three attributes of the training samples do not exist.

    See Also
    --------
    PlattCalibrator : Estimates intercept and slope of the log-odds from the outcomes.

    Notes
    -----
    With training prior :math:`\pi`, target prior :math:`\pi'` and :math:`r =
    \frac{\pi'/(1-\pi')}{\pi/(1-\pi)}` (Theorem 2 of [1]_, eq. 2.4 of [2]_) the map is

    .. math:: h(p) = \frac{r p}{r p + 1 - p},

    a shift of the log-odds by :math:`\log r`. It preserves the ranking of the scores; probabilities of 0 and
    1 change by at most 2**-53. Only :math:`r` matters: if all events and a fraction r of the other samples
    were kept, and both priors are unknown, pass ``training_prior=1/2, target_prior=r/(1 + r)``.

    "em" maximises the likelihood :math:`\prod_i (\pi' p_i/\pi + (1-\pi')(1-p_i)/(1-\pi))` of the scores,
    whose maximum is the fixed point of the EM iteration of [2]_: the mean of :math:`h(p_i)` is
    :math:`\pi'`. The log-likelihood is concave in :math:`\pi'`, so that the root of its derivative is found
    by bracketing instead of EM iterations. The estimate is clipped to :math:`[1/(n + 2), 1 - 1/(n + 2)]`, and
    is the training prior if the scores are not informative. It assumes that the scores are calibrated for
    :math:`\pi`.

    O(n log n), for the sort that groups equal scores.

    References
    ----------
    .. [1] Elkan (2001). The foundations of cost-sensitive learning. IJCAI.
    .. [2] Saerens, Latinne, Decaestecker (2002). Adjusting the outputs of a classifier to new a priori
       probabilities: a simple procedure. Neural Computation 14(1).

    Examples
    --------
    A model trained on balanced classes, used in a population with 10% events:

    >>> from sklearn_calib.calibrators import PriorShiftCalibrator
    >>> calibrator = PriorShiftCalibrator(training_prior=0.5, target_prior=0.1)
    >>> calibrator.fit([0.2, 0.9], [0, 1]).transform([0.5, 0.9]).round(3)
    array([0.1, 0.5])

    The base rate of unlabelled samples, estimated from their scores:

    >>> shift = PriorShiftCalibrator(training_prior=0.5, target_prior="em").fit([0.2, 0.3, 0.3, 0.9])
    >>> round(shift.target_prior_, 3)
    0.301
    """

    _multiclass = False
    target_prior_: float
    odds_factor_: float

    def __init__(
        self,
        *,
        training_prior: float,
        target_prior: str | float | None = None,
    ) -> None:
        self.training_prior = training_prior
        self.target_prior = target_prior

    def _check_parameters(self) -> None:
        check_fraction(self.training_prior, "training_prior")
        if isinstance(self.target_prior, str):
            check_option(self.target_prior, "target_prior", ("em",))
        elif self.target_prior is not None:
            check_fraction(self.target_prior, "target_prior")

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Compute the factor of the odds.

        Parameters
        ----------
        X, sample_weight, clusters
            As for :meth:`PlattCalibrator.fit`.
        y : array-like of shape (n,) or None, default=None
            Class labels: required with ``clusters``, and with ``target_prior=None``. Otherwise only the
            certificate needs them.
        classes : array-like of shape (2,) or None, default=None
            The class labels, in sorted order. None: those that occur in ``y``, and 0 and 1 without ``y``.

        Returns
        -------
        self
            The fitted calibrator.
        """
        if y is not None or clusters is not None or self.target_prior is None:
            return super().fit(X, y, sample_weight, classes=classes, clusters=clusters)
        self._check_parameters()
        scores = self._check_scores(X, reset=True)
        self.classes_ = np.array([0, 1]) if classes is None else check_sorted(classes, "classes")
        self._check_classes(self.classes_, scores)
        check_columns(X, None if classes is None else self.classes_, "X")
        self._fit_scores(scores, None, self._read_weight(sample_weight, scores.shape[0]))
        return self

    def __sklearn_tags__(self) -> Tags:
        """Declare whether ``fit`` needs labels."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.target_prior is None
        return tags

    @property
    def _scale_free(self) -> bool:
        # the range of the estimate depends on the total weight
        return self.target_prior != "em"

    def _score_kind(self) -> str:
        return "probability"

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64] | None, weight: Array | None) -> None:
        grouped = group_scores(np.zeros(scores.shape, np.int64) if codes is None else codes, scores, weight)
        prior, target = float(self.training_prior), self.target_prior
        if target is None:
            target = float(grouped.positives.sum()) / grouped.total
        elif target == "em":
            target = likeliest_prior(grouped, prior)
        self.target_prior_ = target = float(target)
        self.odds_factor_ = target / (1.0 - target) * (1.0 - prior) / prior
        if not 0.0 < self.odds_factor_ < np.inf:
            raise ValueError(f"training_prior={prior!r} and target_prior={target!r} are too close to 0 or 1.")
        if codes is not None:
            certify(self, grouped, weight)
            return
        for name in ("training_cutoff_error_", "training_event_rate_", "training_size_", "_fitted_outcomes"):
            self.__dict__.pop(name, None)

    def _export(self, build: Any) -> Beta:
        # probabilities other than 0 and 1 are not clipped, because the formula does not clip
        return Beta(1.0, 1.0, float(np.log(self.odds_factor_)), TINY)

    def _map_scores(self, scores: Array) -> Array:
        scaled = self.odds_factor_ * scores
        return np.asarray(scaled / (scaled + (1.0 - scores)))


def likeliest_prior(grouped: GroupedOutcomes, prior: float) -> float:
    """Return the prior that makes the scores most likely, given those of the two classes under ``prior``."""
    # densities of the scores in the two classes, up to the common density of the scores under ``prior``
    event, other = grouped.prob / prior, (1.0 - grouped.prob) / (1.0 - prior)
    contrast = grouped.weight * (event - other)

    def slope(target: float) -> float:
        """Return the derivative of the log-likelihood, which decreases."""
        return float(np.sum(contrast / (target * event + (1.0 - target) * other)))

    low = 1.0 / (grouped.total + 2.0)
    high = 1.0 - low
    if not contrast.any():
        return prior
    if slope(low) <= 0.0:
        return low
    if slope(high) >= 0.0:
        return high
    return float(brentq(slope, low, high, xtol=1e-15, rtol=1e-15))
