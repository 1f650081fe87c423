"""Binned ECE by the number of bins and logit-smoothed ECE by its bandwidth: whether the bins matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._html import number_text
from sklearn_calib._typing import Array
from sklearn_calib.metrics import expected_calibration_error, logit_smoothed_ece
from sklearn_calib.metrics._reductions import Reduction
from sklearn_calib.plot._estimator import DisplayMixin
from sklearn_calib.plot._matplotlib import draw_curve, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


_CURVE = "sklearn_calib.binning"
_NUMBERS = np.arange(1, 101)
# With fewer bins the noise of LS-ECE is too wide.
_FEWEST = 10
# Smaller differences are rounding errors.
_ROUNDING = 1e-9


class BinningDisplay(DisplayMixin):
    """Binned ECE over the number of bins and logit-smoothed ECE over the inverse bandwidth, in one plot.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`. The plot checks whether a binned ECE
    depends on its bins [1]_: if it hardly changes with their number, and agrees with LS-ECE, which has no
    bins, the bins make little difference. Otherwise use a measure without bins. Several models can be drawn
    into the same axes.

    Parameters
    ----------
    binned, smoothed : ndarray of shape (100,)
        Binned ECE with 1, ..., 100 bins of equal width, and LS-ECE at the bandwidths 1, 1/2, ..., 1/100.
    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    %(axes)s
    line_, smoothed_line_ : matplotlib Line2D
        The curves, solid and dashed.

    See Also
    --------
    sklearn_calib.metrics.expected_calibration_error : The binned error.
    sklearn_calib.metrics.logit_smoothed_ece : The smoothed error.
    sklearn_calib.metrics.smooth_ece : An error without bins and bandwidth.

    Notes
    -----
    The verdict in the legend: the bins matter if, of all values of both errors for 10 to 100 bins, the
    smallest is more than 10% (and more than 1e-9, a rounding error) below the largest. The 10% is a
    convention of this package; the authors of [1]_ compare the curves by eye. In small samples of a good
    model the bins nearly always matter, since both errors grow with the number of bins by chance.

    References
    ----------
    .. [1] M. Chidambaram, H. Lee, C. McSwiggen and S. Rezchikov (2024). How Flawed Is ECE? An Analysis via
       Logit Smoothing. ICML. Section 6, Figures 2 and 3. arXiv:2402.10046

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_calib.datasets import make_forecasts
    >>> from sklearn_calib.plot import BinningDisplay
    >>> data = make_forecasts(20_000, distortion="slope", strength=0.6, random_state=0)
    >>> display = BinningDisplay.from_predictions(data.y_true, data.y_proba)
    >>> display.bins_matter
    False
    >>> plt.close(display.figure_)
    """

    _multiclass = True
    line_: Line2D
    smoothed_line_: Line2D

    def __init__(self, binned: Array, smoothed: Array, *, name: str | None = None) -> None:
        self.binned = binned
        self.smoothed = smoothed
        self.name = name

    @property
    def bins_matter(self) -> bool:
        """Whether the values for 10 to 100 bins differ by more than 10% of the largest, and 1e-9."""
        values = self._values
        return bool(np.ptp(values) > max(0.1 * values.max(), _ROUNDING))

    @property
    def _values(self) -> Array:
        """The values of both errors for 10 to 100 bins."""
        return np.concatenate([self.binned[_FEWEST - 1 :], self.smoothed[_FEWEST - 1 :]])

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        reduction: Reduction = "classwise",
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw both errors of predictions.

        Parameters
        ----------
        y_true, y_proba, sample_weight, pos_label, reduction, labels
            As in :func:`~sklearn_calib.metrics.expected_calibration_error`. The figures of the paper show
            ``reduction="confidence"``.
        %(named_picture)s
        """
        given: Any = {"pos_label": pos_label, "reduction": reduction, "labels": labels}
        given |= {"y_true": y_true, "y_proba": y_proba, "sample_weight": sample_weight}
        binned = [expected_calibration_error(**given, n_bins=number) for number in _NUMBERS.tolist()]
        smoothed = [logit_smoothed_ece(**given, bandwidth=1.0 / number) for number in _NUMBERS.tolist()]
        return cls(np.array(binned), np.array(smoothed), name=name).plot(ax, **plot_params)

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, show_legend: bool = True, **line_params: Any
    ) -> Self:
        """Draw both curves.

        Parameters
        ----------
        %(drawn_into)s
        %(named_legend)s
        **line_params : dict
            Properties of both curves, such as ``color`` or ``linewidth``.

        %(self_returned)s
        """
        ax, given = self._new_or(ax, 6.4, 4.4, line_params)

        def text(error: str, values: Array) -> str:
            shown = values[_FEWEST - 1 :]
            return f"{error} {number_text(shown.min(), 3)} to {number_text(shown.max(), 3)}"

        # both ranges can be short, and far from each other
        verdict = "the bins matter" if self.bins_matter else "the bins make little difference"
        verdict += f" (values differ by {100.0 * np.ptp(self._values) / (self._values.max() or 1.0):.0f}%)"
        label = self._named(text("binned ECE", self.binned), name)
        self.line_ = draw_curve(ax, _CURVE, _NUMBERS, self.binned, label, given, linestyle="-", linewidth=1.5)
        label = self._named(f"{text('LS-ECE', self.smoothed)}:\n{verdict}", name)
        style = {"color": self.line_.get_color(), "linewidth": 1.5, "zorder": 4} | given
        (self.smoothed_line_,) = ax.plot(
            _NUMBERS, self.smoothed, **style | {"linestyle": "--", "label": label}
        )
        ax.set_xlim(0, _NUMBERS[-1] + 1)
        highest = max(float(np.max(np.asarray(line.get_ydata()))) for line in ax.lines)
        ax.set_ylim(0.0, 1.1 * highest or 0.01)
        ax.set_xlabel("Number of bins, or 1 / bandwidth of LS-ECE")
        ax.set_ylabel("Calibration error")
        if show_legend:
            legend_below(ax, title=f"Values for {_FEWEST} to {_NUMBERS[-1]} bins")
        return self
