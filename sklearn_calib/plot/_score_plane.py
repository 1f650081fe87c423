"""Miscalibration and discrimination of several models: the components of a proper score in a plane."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib import _validation
from sklearn_calib._core._grouping import group_outcomes
from sklearn_calib._html import number_text
from sklearn_calib.metrics import ScoreDecomposition
from sklearn_calib.metrics._decomposition import COMPONENTS, decompose
from sklearn_calib.metrics._reductions import REDUCTIONS, Reduction, check_problem, reduced_error
from sklearn_calib.plot._estimator import DisplayMixin
from sklearn_calib.plot._matplotlib import GREY, draw_marks, legend_below, next_style, plain
from sklearn_calib.plot._threshold_curves import named_models

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


_POINT, _EQUAL = "sklearn_calib.score_point", "sklearn_calib.equal_score"
# Largest number of lines of equal score.
_N_EQUAL = 10
_TITLES = {"brier": "Brier score", "log_loss": "log loss"}


def _decomposition(problem: Any, reduction: str, score: str) -> ScoreDecomposition:
    """Return the isotonic decomposition; of several binary problems, the mean of each component."""

    def component(sample: _validation.BinarySample, name: str) -> float:
        return float(getattr(decompose(group_outcomes(sample.y, sample.p, sample.w), score), name))

    parts: Any = {
        part: reduced_error(partial(component, name=part), problem, reduction) for part in COMPONENTS
    }
    return ScoreDecomposition(
        **parts,
        score_name=score,
        n_samples=problem[0].total if isinstance(problem, list) else problem.total,
    )


class ScoreDecompositionDisplay(DisplayMixin):
    r"""Miscalibration-discrimination plane: the components of a proper score for several models.

    Make one with :meth:`from_predictions` or :meth:`from_estimator`. Each model is a point: miscalibration
    (MCB) to the right, discrimination (DSC) upward. Models further up and further left are better. Models on
    the same gray line have the same score, MCB - DSC + uncertainty, which is written at its end.
    Recalibration moves a point to the left.

    Parameters
    ----------
    decompositions : mapping of str to ScoreDecomposition
        Name and decomposition of each model; the key None stands for a single model.
    name : str, default=None
        Name of a single model in the legend.

    Attributes
    ----------
    %(axes)s
    points_ : list of matplotlib Line2D
        The models.
    lines_ : list of matplotlib Line2D
        Lines of equal score; none if the uncertainty differs between the models.

    See Also
    --------
    sklearn_calib.metrics.score_decomposition : The numbers behind the plot.
    MurphyDisplay : Scores over all decision thresholds, with tests.
    ComparisonDisplay : Tests and intervals for scores and calibration errors.

    Notes
    -----
    The decomposition is that of isotonic recalibration (CORP [1]_). Its miscalibration is positive for
    calibrated predictions, too: compare differences with
    :func:`~sklearn_calib.inference.expected_under_calibration` of ``calibration_loss``. For more than two
    classes, each component is the mean over the binary problems of ``reduction``.

    References
    ----------
    .. [1] T. Dimitriadis, T. Gneiting and A. I. Jordan (2021). Stable reliability diagrams for probabilistic
       classifiers. PNAS 118. arXiv:2008.03033
    .. [2] T. Dimitriadis, T. Gneiting, A. I. Jordan and P. Vogel (2024). Evaluating probabilistic
       classifiers: the triptych. International Journal of Forecasting 40. arXiv:2301.10803

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_calib.plot import ScoreDecompositionDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = rng.uniform(size=1000) < p
    >>> display = ScoreDecompositionDisplay.from_predictions(y, {"squared": p**2, "true": p})
    >>> print(display.points_[0].get_label())
    squared: 0.202
    >>> plt.close(display.figure_)
    """

    _multiclass = True

    points_: list[Line2D]
    lines_: list[Line2D]

    def __init__(
        self, decompositions: Mapping[str | None, ScoreDecomposition], *, name: str | None = None
    ) -> None:
        self.decompositions = dict(decompositions)
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: ArrayLike | Mapping[str, ArrayLike],
        *,
        score: Literal["brier", "log_loss"] = "brier",
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        reduction: Reduction = "classwise",
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Decompose the scores of predictions, and draw them.

        Parameters
        ----------
        %(models)s
        score : {"brier", "log_loss"}, default="brier"
            The proper score.
        %(plain_weight)s
        %(pos_label)s
        %(reduction)s
        %(named_picture)s
        """
        _validation.check_option(score, "score", tuple(_TITLES))
        _validation.check_option(reduction, "reduction", REDUCTIONS)
        found: dict[str | None, ScoreDecomposition] = {}
        for key, proba in named_models(predictions).items():
            problem = check_problem(y_true, proba, sample_weight, pos_label, labels)
            found[key] = _decomposition(problem, reduction, score)
            if not np.isfinite(found[key].score):
                raise ValueError(
                    f"The log loss of predictions{'' if key is None else f'[{key!r}]'} is infinite: an "
                    "outcome has probability 0. Use score='brier', or clip the predictions."
                )
        return cls(found, name=name).plot(ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        show_legend: bool = True,
        **marker_params: Any,
    ) -> Self:
        """Draw the models.

        Parameters
        ----------
        %(drawn_into)s
        %(named_legend)s
        **marker_params : dict
            Properties of the points, such as ``marker`` or ``markersize``.

        %(self_returned)s
        """
        ax, given = self._new_or(ax, 6.0, 4.8, marker_params)
        self.points_, self.lines_ = [], []
        for key, parts in self.decompositions.items():
            text = number_text(parts.score, 3, 3)
            label = self._named(text, name) if key is None else plain(f"{key}: {text}")
            params = {"gid": _POINT, "label": label, "markersize": 9} | given
            color = params.pop("color", next_style(ax, _POINT)[0])
            self.points_.append(draw_marks(ax, parts.miscalibration, parts.discrimination, color, **params))
        shown = list(self.decompositions.values())
        points = np.array([line.get_data() for line in ax.lines if line.get_gid() == _POINT])
        right, top = (1.15 * float(end) or 0.01 for end in points.max(axis=(0, 2)))
        ax.set_xlim(-0.03 * right, right)
        ax.set_ylim(-0.03 * top, top)
        for drawn in [each for each in (*ax.lines, *ax.texts) if each.get_gid() == _EQUAL]:
            drawn.remove()
        if np.ptp([parts.uncertainty for parts in shown]) <= 1e-9:
            self.lines_ = _lines_of_equal_score(ax, shown[0].uncertainty, right, top)
        # no power of ten where scores are written
        ax.ticklabel_format(scilimits=(-9, 9))
        ax.set_xlabel("Miscalibration (MCB)")
        ax.set_ylabel("Discrimination (DSC)")
        if show_legend:
            legend_below(ax, title=_TITLES[shown[0].score_name])
        return self


def _lines_of_equal_score(ax: Axes, uncertainty: float, right: float, top: float) -> list[Line2D]:
    """Draw lines of slope 1 at round scores, MCB - DSC + uncertainty, with the scores at their ends."""
    from matplotlib.ticker import MaxNLocator

    low, high = uncertainty - top, uncertainty + right
    scores = np.asarray(MaxNLocator(_N_EQUAL, steps=[1, 2, 5, 10]).tick_values(low, high))
    decimals = max(0, -math.floor(math.log10(1.001 * (scores[1] - scores[0]))))
    lines: list[Line2D] = []
    for score in scores[(scores > low) & (scores < high)].tolist():
        start = (0.0, uncertainty - score)
        lines.append(ax.axline(start, slope=1.0, color=GREY, alpha=0.35, linewidth=0.8, zorder=1, gid=_EQUAL))
        upper = score - low < right
        end = (score - low, top) if upper else (right, high - score)
        style: dict[str, Any] = {"fontsize": "small", "color": GREY, "annotation_clip": False, "gid": _EQUAL}
        # within the axes at the top, where a title can be
        style |= {"ha": "center", "va": "top"} if upper else {"ha": "left", "va": "center"}
        style |= {"xytext": (0, -3) if upper else (3, 0), "textcoords": "offset points"}
        style["bbox"] = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.5}
        ax.annotate(f"{score:.{decimals}f}", end, **style)
    return lines
