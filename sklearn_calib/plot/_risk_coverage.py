"""Risk-coverage curve: the error rate among the accepted samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._proportion import clopper_pearson
from sklearn_calib._core._weights import kish_size
from sklearn_calib._html import number_text
from sklearn_calib._typing import Weights
from sklearn_calib.metrics import RiskCoverageCurve, risk_coverage_curve
from sklearn_calib.metrics._reductions import Reduction
from sklearn_calib.plot._estimator import DisplayMixin
from sklearn_calib.plot._matplotlib import draw_curve, draw_marks, legend_below, thinned, unless_drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D


_CURVE = "sklearn_calib.risk_coverage"
# Coverage from which on the curve determines the height of the axes.
_LEAST_SHOWN = 0.05


class RiskCoverageDisplay(DisplayMixin):
    """Error rate among the accepted samples over the fraction that is accepted.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`. Samples are accepted in the order of
    their confidence. Draw several models into the same axes to compare them. For a
    :class:`~sklearn_calib.meta.SelectiveClassifier` of the error rate, or of the precision of one of two
    classes, :meth:`from_estimator` draws the curve of its risk and marks its threshold.

    Parameters
    ----------
    result : RiskCoverageCurve
        The curve.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    %(axes)s
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib Collection or None
        The confidence band.
    point_ : matplotlib Line2D or None
        The point of the threshold; None if no sample reaches it.

    See Also
    --------
    sklearn_calib.metrics.risk_coverage_curve : The numbers behind the plot.

    Notes
    -----
    The band is pointwise: at each coverage, fixed in advance, the Clopper-Pearson interval of the risk. It
    does not account for the choice of a threshold on this plot, as
    :class:`~sklearn_calib.meta.SelectiveClassifier` does. With sampling weights it is
    approximate, from the effective number of samples, (sum w)^2 / sum w^2 times the coverage.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import RiskCoverageDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = rng.uniform(size=1000) < p
    >>> display = RiskCoverageDisplay.from_predictions(y, p, name="model", threshold=0.8)
    >>> print(display.line_.get_label())
    model: AURC = 0.119
    >>> print(display.point_.get_label())
    confidence at least 0.8: coverage 40%, risk 0.091
    >>> plt.close(display.figure_)
    """

    _multiclass = True
    line_: Line2D
    band_: Collection | None
    point_: Line2D | None

    def __init__(self, result: RiskCoverageCurve, *, name: str | None = None) -> None:
        self.result = result
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        weights: Weights = "sampling",
        pos_label: Any = None,
        reduction: Reduction = "confidence",
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the curve of predictions.

        Parameters
        ----------
        y_true, y_proba : array-like
            As in :func:`~sklearn_calib.metrics.risk_coverage_curve`.
        %(inference_weight)s
        pos_label, reduction, labels
            As in :func:`~sklearn_calib.metrics.risk_coverage_curve`.
        %(named_picture)s
        """
        _validation.refuse_fractions(y_true)
        result = risk_coverage_curve(
            y_true,
            y_proba,
            sample_weight=sample_weight,
            pos_label=pos_label,
            reduction=reduction,
            labels=labels,
        )
        if sample_weight is not None:
            w = _validation.check_weights(sample_weight, _validation.as_array(y_true, "y_true").shape[0])
            if _validation.check_option(weights, "weights", ("sampling", "frequency")) == "frequency":
                _validation.check_frequency_weights(w)
            else:
                result = replace(result, n_samples=kish_size(w))
        return cls(result, name=name).plot(ax, **plot_params)

    @classmethod
    def _of_estimator(cls, estimator: Any) -> dict[str, Any]:
        shown = super()._of_estimator(estimator)
        # a fitted SelectiveClassifier, which this subpackage does not import
        if hasattr(estimator, "risk_bound_") and isinstance(estimator.risk, str):
            shown["threshold"] = estimator.threshold_ if estimator.coverage_ else None
            if estimator.risk == "false_discovery":
                shown |= {"reduction": "classwise", "pos_label": estimator.pos_label}
        return shown

    def plot(
        self,
        ax: Axes | None = None,
        *,
        threshold: float | None = None,
        confidence: float | None = None,
        name: str | None = None,
        show_legend: bool = True,
        **line_params: Any,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        %(drawn_into)s
        threshold : float, default=None
            Threshold of the confidence whose point is marked.
        confidence : float, default=None
            Level of a pointwise confidence band; None for no band.
        %(named_legend)s
        **line_params : dict
            Properties of the curve, such as ``color`` or ``linewidth``.

        %(self_returned)s
        """
        alpha = None if confidence is None else 1.0 - _validation.check_fraction(confidence, "confidence")
        curve = self.result
        x, y = (0.0, 0.0) if threshold is None else curve.at(threshold)
        ax, given = self._new_or(ax, 6.4, 4.4, line_params)
        kept = thinned(np.minimum(curve.coverage, np.nextafter(1.0, 0.0)), curve.risk)
        coverage, risk = curve.coverage[kept], curve.risk[kept]
        label = self._named(f"AURC = {number_text(curve.area, 3)}", name)
        self.line_ = draw_curve(ax, _CURVE, coverage, risk, label, given)
        self.band_, self.point_ = None, None
        if alpha is not None:
            trials = coverage * curve.n_samples
            lower, upper = clopper_pearson(risk * trials, trials, 0.5 * alpha)
            text = unless_drawn(ax, f"{100 * (1.0 - alpha):g}% confidence band (at each coverage)")
            style: dict[str, Any] = {"color": self.line_.get_color(), "label": text}
            if coverage.shape[0] == 1:
                self.band_ = ax.vlines(coverage, lower, upper, linewidth=1.4, clip_on=False, **style)
            else:
                self.band_ = ax.fill_between(coverage, lower, upper, alpha=0.2, linewidth=0, **style)
        if x > 0:
            label = f"confidence at least {threshold:.3g}: coverage {100 * x:.0f}%, risk {number_text(y, 3)}"
            self.point_ = draw_marks(ax, x, y, self.line_.get_color(), marker="D", label=label)
        ax.set_xlim(0.0, 1.0)
        ax.set_xlabel("Coverage (fraction accepted)")
        ax.set_ylabel("Risk among the accepted")
        # the band of the few most confident samples would make the rest flat
        shown = [np.asarray(line.get_xydata()) for line in ax.lines if line.get_gid() == _CURVE]
        if self.band_ is not None and coverage.shape[0] == 1:
            shown.append(np.column_stack((coverage, upper)))
        highest = max(float(at[at[:, 0] >= _LEAST_SHOWN, 1].max()) for at in shown)
        ax.set_ylim(0.0, 1.15 * highest or 0.01)
        if show_legend:
            legend_below(ax)
        return self
