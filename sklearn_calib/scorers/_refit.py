"""A refit rule for searches: among the best models by a proper score, the best calibrated one."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sklearn_calib import _validation
from sklearn_calib._typing import Array


class BestCalibrated(BaseEstimator):
    r"""Select the best calibrated of the candidates whose proper score is close to the best.

    Pass it as ``refit`` to a search. A calibration error alone cannot select a model, because it is 0 for a
    constant prediction of the base rate. A proper score alone measures calibration and discrimination
    together, and does not separate candidates that differ by less than its standard error. Therefore the best
    calibrated of all candidates whose mean proper score is within one standard error of the best is selected.
    Ties are broken by the proper score, then by the order of the candidates. If the calibration error only
    has to be small enough, ``max_error`` selects the best by the proper score of those for which it is.

    Parameters
    ----------
    calibration : str, default="neg_smooth_ece"
        Name of the calibration score in the search's ``scoring``; greater is better.
    proper : str, default="neg_log_loss"
        Name of the proper score in the search's ``scoring``; greater is better.
    n_standard_errors : float, default=1.0
        Largest difference of the proper score from the best, in standard errors. With 0 only the candidates
        with the best score are considered.
    max_error : float or None, default=None
        With a number, the candidate with the best proper score among those whose mean calibration error, the
        negated score ``calibration``, is at most that; ties are broken by the error, and
        ``n_standard_errors`` is not used. An error is raised if there is none. None: the rule above.

    Notes
    -----
    With candidate :math:`j`, its scores :math:`S_{jk}` on the splits :math:`k = 1, \dots, K`, mean
    :math:`\bar S_j`, and :math:`b` the best mean, the candidates kept are those with

    .. math:: \bar S_j \ge \bar S_b - c \, s_b / \sqrt{K},
              \quad s_b^2 = \frac{1}{K - 1} \sum_k (S_{bk} - \bar S_b)^2,

    where :math:`c` is ``n_standard_errors`` (the one-standard-error rule of Breiman et al. 1984, Section
    3.4.3, who select the simplest of these trees). With one split the standard error is unknown and set to 0.
    Candidates whose mean score is not finite, for example after a failed fit, are never selected.

    A search with a callable ``refit`` has no ``best_score_``, and its method ``score`` raises an error after
    several scores: call a scorer with its ``best_estimator_``.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen, C. Stone (1984). *Classification and Regression Trees*. Wadsworth.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_calib.scorers import BestCalibrated, MultiScorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = GridSearchCV(
    ...     make_pipeline(StandardScaler(), LogisticRegression()),
    ...     {"logisticregression__C": [1e-6, 0.1, 1.0]},
    ...     scoring=MultiScorer(["neg_smooth_ece", "neg_log_loss"]),
    ...     refit=BestCalibrated(),
    ... ).fit(X, y)
    >>> search.best_params_
    {'logisticregression__C': 1.0}

    The calibration error alone would select the strongest penalty, which predicts the base rate:

    >>> search.cv_results_["mean_test_neg_smooth_ece"].round(3)
    array([-0.013, -0.047, -0.034])

    The best log loss with a calibration error of at most 0.04:

    >>> search.cv_results_["mean_test_neg_log_loss"].round(3)
    array([-0.659, -0.098, -0.081])
    >>> BestCalibrated(max_error=0.04)(search.cv_results_)
    2
    """

    def __init__(
        self,
        *,
        calibration: str = "neg_smooth_ece",
        proper: str = "neg_log_loss",
        n_standard_errors: float = 1.0,
        max_error: float | None = None,
    ) -> None:
        for name, value in (("calibration", calibration), ("proper", proper)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be the name of a score, got {value!r}.")
        if calibration == proper:
            raise ValueError(
                f"calibration and proper are both {proper!r}. A calibration error alone cannot select a "
                "model: name a proper score, such as 'neg_log_loss', as proper."
            )
        _validation.check_not_negative(n_standard_errors, "n_standard_errors")
        if max_error is not None:
            _validation.check_not_negative(max_error, "max_error")
        self.calibration = calibration
        self.proper = proper
        self.n_standard_errors = n_standard_errors
        self.max_error = max_error

    def __call__(self, cv_results: Mapping[str, Any]) -> int:
        """Return the index of the selected candidate in ``cv_results``, the search's ``best_index_``.

        Parameters
        ----------
        cv_results : mapping
            ``cv_results_`` of a search, with finite values of both scores.
        """
        error = -_mean_score(cv_results, self.calibration)
        score = _mean_score(cv_results, self.proper)
        usable = np.isfinite(error) & np.isfinite(score)
        if not usable.any():
            raise ValueError(
                f"No candidate has a finite mean of both {self.calibration!r} and {self.proper!r}. Run the "
                "search with error_score='raise' to see why. Folds that lack a class are one cause: stratify."
            )
        if self.max_error is not None:
            kept = np.flatnonzero(usable & (error <= self.max_error))
            if not kept.size:
                raise ValueError(
                    f"No candidate has a calibration error of at most max_error={self.max_error:g}: the "
                    f"smallest is {error[usable].min():.4g}. Calibrate the candidates, or raise max_error."
                )
            return int(kept[np.lexsort((error[kept], -score[kept]))[0]])
        best = int(np.where(usable, score, -np.inf).argmax())
        pattern = re.compile(rf"split\d+_test_{re.escape(self.proper)}")
        splits = [float(cv_results[key][best]) for key in cv_results if pattern.fullmatch(key)]
        error_of_best = float(np.std(splits, ddof=1) / np.sqrt(len(splits))) if len(splits) > 1 else 0.0
        kept = np.flatnonzero(usable & (score >= score[best] - self.n_standard_errors * error_of_best))
        # lexsort is stable: among exact ties the first candidate is selected
        return int(kept[np.lexsort((-score[kept], error[kept]))[0]])


def _mean_score(cv_results: Mapping[str, Any], name: str) -> Array:
    key = f"mean_test_{name}"
    if key not in cv_results:
        prefix = "mean_test_"
        found = sorted(other.removeprefix(prefix) for other in cv_results if other.startswith(prefix))
        raise ValueError(
            f"The search did not compute {name!r}, only {found}. Pass both scores to it, for example "
            "scoring=MultiScorer(['neg_smooth_ece', 'neg_log_loss'])."
        )
    return np.asarray(cv_results[key], dtype=np.float64)
