"""The choice among calibrators, by cross-validated log loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from sklearn_calib import _validation
from sklearn_calib._core._links import EPS
from sklearn_calib._core._maps import Average, Softmax
from sklearn_calib._core._weights import whole_numbers, written_out
from sklearn_calib._frame import FrameMixin
from sklearn_calib._html import printable_lines, result_html
from sklearn_calib._progress import Progress
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._base import as_columns, check_link, may_be_certain
from sklearn_calib.calibrators._beta import BetaCalibrator
from sklearn_calib.calibrators._log_average import default_calibrator
from sklearn_calib.calibrators._matrix import StructuredMatrixScalingCalibrator
from sklearn_calib.calibrators._multiclass import (
    ComposedCalibrator,
    check_calibrator,
    class_probabilities,
    fit_clone,
)
from sklearn_calib.calibrators._platt import PlattCalibrator
from sklearn_calib.calibrators._temperature import TemperatureCalibrator
from sklearn_calib.calibrators._vector import VectorScalingCalibrator
from sklearn_calib.calibrators._venn_abers import VennAbersCalibrator

# Samples with integer weights are expanded to at most this many copies, each of which represents several
# samples if there are more.
_MOST_COPIES = 10**6
# Weight of the class frequencies, in samples, that are mixed into the probabilities of the default
# candidates.
_DOUBT = 0.1


@dataclass(frozen=True)
class Candidate:
    """Cross-validation result of one candidate of :class:`AutoCalibrator`.

    Attributes
    ----------
    name : str
        Name of the calibrator.
    log_loss : float
        Mean log loss, in nats, of held-out samples.
    excess : float
        Difference from the smallest log loss of all candidates.
    standard_error : float
        Standard error of the excess, from the paired differences.

    Examples
    --------
    >>> from sklearn_calib.calibrators import AutoCalibrator
    >>> p = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> y = [0, 0, 1, 0, 1, 0, 1, 1]
    >>> AutoCalibrator(cv=4).fit(p, y).selection_.candidates[0].name
    'spline'
    """

    name: str
    log_loss: float
    excess: float
    standard_error: float


@dataclass(frozen=True)
class CalibratorSelection(FrameMixin):
    """Choice of :class:`AutoCalibrator`, with the results of all candidates.

    Attributes
    ----------
    chosen : str
        Name of the chosen calibrator.
    best : str
        Name of the candidate with the smallest log loss.
    candidates : tuple of Candidate
        All candidates, in their order; empty without cross-validation.
    n_folds : int
        Number of folds; 0 without cross-validation.
    n_standard_errors : float
        Maximum excess of a candidate that comes before the best one, in standard errors.
    reason : str
        The reason for the choice, in a sentence.

    Examples
    --------
    >>> from sklearn_calib.calibrators import AutoCalibrator
    >>> p = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> y = [0, 0, 1, 0, 1, 0, 1, 1]
    >>> print(AutoCalibrator(cv=4).fit(p, y).selection_.reason)
    spline has the smallest held-out log loss.
    """

    _rows_in = "candidates"

    chosen: str
    best: str
    candidates: tuple[Candidate, ...]
    n_folds: int
    n_standard_errors: float
    reason: str

    def __str__(self) -> str:
        lines = [f"Calibrator: {self.chosen}", f"  {self.reason}"]
        if self.candidates:
            width = max(len(one.name) for one in self.candidates)
            lines.append(f"  {'':{width}}  log loss   excess (s.e.), {self.n_folds} folds")
            for one in self.candidates:
                mark = "  <- chosen" if one.name == self.chosen else ""
                lines.append(
                    f"  {one.name:{width}}  {one.log_loss:8.5f}   {one.excess:.5f} ({one.standard_error:.5f})"
                    f"{mark}"
                )
        return printable_lines(lines)

    def _repr_html_(self) -> str:
        """Return the text of ``__str__`` as HTML."""
        pairs = [("chosen", self.chosen), ("why", self.reason)]
        return result_html("Choice of a calibrator", pairs, [("Candidates", self.candidates)], unfolded=True)


class AutoCalibrator(ComposedCalibrator):
    r"""Choice among calibrators by cross-validated log loss, with the one-standard-error rule.

    Each candidate is fitted to all folds but one and evaluated on the held-out fold. The first candidate
    whose mean log loss exceeds the smallest one by at most one standard error of the difference is chosen
    [1]_ and fitted to all samples. ``selection_`` describes the choice and its reason.

    Parameters
    ----------
    candidates : dict of str to calibrator, or None, default=None
        Calibrators or other classifiers with ``predict_proba`` by name, the preferred ones first, such as
        the simplest. None: the default of the package, then the others; for binary problems spline,
        temperature scaling, Platt scaling, beta calibration and Venn-Abers; with ``link="identity"`` those
        that support any scores, spline, Platt scaling and Venn-Abers; for multiclass problems the log
        average, :class:`LogAverageCalibrator`, and temperature, vector and structured matrix scaling.
    cv : int or splitter, default=5
        Number of shuffled stratified folds, at least 2, or a splitter of :mod:`sklearn.model_selection`.
        Fewer folds if a class has fewer samples; if it has a single one, the first candidate is chosen
        without cross-validation, which ``selection_`` reports.
    n_standard_errors : float, default=1.0
        Maximum excess of a preferred candidate, in standard errors; 0 chooses the smallest log loss.
    link : {"logit", "identity"}, default="logit"
        Type of the scores for the default candidates. "logit": probabilities. "identity": any real scores,
        or for multiclass problems logits. Ignored with ``candidates``, which have their own links.
    random_state : int, Generator, RandomState or None, default=0
        Source of the folds; not used by a splitter.
    %(progress)s

    Attributes
    ----------
    selection_ : CalibratorSelection
        The choice, its reason, and the results of all candidates.
    calibrator_ : calibrator
        The chosen calibrator, fitted to all samples, with the indices of the labels in ``classes_`` as
        labels.
    %(multiclass_fit)s

    See Also
    --------
    SplineCalibrator : A curve whose flexibility adapts to the data, for a fraction of the time.
    LogAverageCalibrator : Average of several calibrators.

    Notes
    -----
    The log loss of sample i is :math:`-\log p_{i, y_i}` with probabilities clipped at 2**-53. With the
    differences :math:`d_i` between a candidate and the best, weights :math:`w_i` and :math:`W = \sum w_i`,
    the excess is :math:`\bar d = \sum w_i d_i / W`, and its standard error :math:`\sqrt{\sum w_i (d_i - \bar
    d)^2 / (W (W - 1))}`.

    For the folds, samples with integer weights are expanded to repeated samples, at most about 10**6 equal
    copies; samples with other weights are assigned to one fold each.

    *Use.* For your own candidates, or to see by how much the default ones differ. The default of the package
    adapts to the data itself. A choice among the default candidates takes many times as long, and on average
    does not have a smaller log loss; with few samples the choice is a further source of error.

    *Smoothing.* With ``candidates=None`` the probabilities :math:`p` become :math:`(1 - \epsilon) p +
    \epsilon q`, in the comparison and in the result, with :math:`\epsilon = 0.1/n` and the class frequencies
    :math:`q_k = (n_k + 1/2) / (n + K/2)` of the n training samples. Candidates passed by the user are not
    smoothed.

    *Cost.* ``cv`` fits of every candidate, and one final fit.

    References
    ----------
    .. [1] Hastie, Tibshirani, Friedman (2009). The Elements of Statistical Learning, Section 7.10.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import AutoCalibrator
    >>> p = (np.arange(2000) + 0.5) / 2000
    >>> y = np.random.default_rng(0).random(2000) < p**2
    >>> calibrator = AutoCalibrator().fit(p, y)
    >>> calibrator.selection_.best, calibrator.selection_.chosen
    ('beta', 'Platt')
    """

    selection_: CalibratorSelection
    calibrator_: Any
    _counts: Array | None

    def __init__(
        self,
        *,
        candidates: dict[str, Any] | None = None,
        cv: Any = 5,
        n_standard_errors: float = 1.0,
        link: str = "logit",
        random_state: Any = 0,
        progress: bool | Callable[[int, int, str], Any] = False,
    ) -> None:
        self.candidates = candidates
        self.cv = cv
        self.n_standard_errors = n_standard_errors
        self.link = link
        self.random_state = random_state
        self.progress = progress

    def _check_parameters(self) -> None:
        if isinstance(self.cv, str) or not hasattr(self.cv, "split"):
            _validation.check_integer(self.cv, "cv", minimum=2)
        check_link(self.link)
        _validation.check_randomness(self.random_state)
        _validation.check_not_negative(self.n_standard_errors, "n_standard_errors")
        if self.candidates is None:
            return
        if not isinstance(self.candidates, dict):
            raise TypeError(
                f"candidates must be a dict of calibrators by name, got {self.candidates!r}. "
                "Its order is that of complexity."
            )
        if not self.candidates:
            raise ValueError("candidates is empty. Pass at least one calibrator.")
        for calibrator in self.candidates.values():
            check_calibrator(calibrator)
        self._score_kind()

    def _members(self) -> list[Any]:
        return list(self.candidates.values()) if isinstance(self.candidates, dict) else []

    def _fit_scores(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        classes = np.arange(self.classes_.shape[0])
        candidates = self.candidates or _portfolio(self.link, scores.ndim == 2)
        folds = self._folds(scores, codes, weight) if len(candidates) > 1 else []
        with Progress(self.progress, len(folds) * len(candidates) + 1) as step:
            if folds:

                def losses_of(name: str, one: Any) -> Array:
                    found = []
                    for fold in folds:
                        step(name)
                        found.append(self._held_out_losses(one, scores, codes, fold, weight is not None))
                    return np.stack(found)

                losses = {name: losses_of(name, one) for name, one in candidates.items()}
                held_out = np.stack([test for _, test in folds])
                self.selection_ = _select(losses, held_out, float(self.n_standard_errors))
            else:
                first = next(iter(candidates))
                reason = f"{first} is the only candidate."
                if len(candidates) > 1:
                    reason = f"A class has a single sample, so {first}, the first candidate, is not compared."
                limit = float(self.n_standard_errors)
                self.selection_ = CalibratorSelection(first, first, (), 0, limit, reason)
            step(self.selection_.chosen)
            chosen = candidates[self.selection_.chosen]
            self.calibrator_ = fit_clone(chosen, scores, codes, weight, classes)
        self._counts = None if self.candidates else _class_counts(codes, weight, classes.shape[0])

    def _folds(self, scores: Array, codes: Codes, weight: Array | None) -> list[tuple[Array, Array]]:
        """Return the training and held-out weights of each fold; no folds if a class has a single sample."""
        n = codes.shape[0]
        times = np.ones(n, dtype=np.int64)
        if weight is not None and whole_numbers(weight):
            scale = min(1.0, _MOST_COPIES / float(weight.sum()))
            times = np.maximum(np.rint(weight * scale), 1.0).astype(np.int64)
        unit = np.ones(n) if weight is None else weight / times
        rows = written_out(times)
        splitter = self.cv
        if not hasattr(splitter, "split"):
            count = np.bincount(codes, times).astype(np.int64)
            n_folds = min(int(self.cv), int(count[count > 0].min()))
            if n_folds < 2:
                return []
            seed = int(_validation.check_generator(self.random_state).integers(2**32))
            splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)

        def mass(part: Any) -> Array:
            return np.asarray(np.bincount(rows[part], minlength=n) * unit)

        parts = splitter.split(as_columns(scores)[rows], codes[rows])
        return [(mass(train), mass(test)) for train, test in parts]

    def _held_out_losses(
        self, calibrator: Any, scores: Array, codes: Codes, fold: tuple[Array, Array], weighted: bool
    ) -> Array:
        """Return the log loss of each sample that a fold holds out, under the fit to its training part."""
        n_classes = self.classes_.shape[0]
        train, test = fold
        rows, out = np.flatnonzero(train), np.flatnonzero(test)
        own = train[rows] if weighted else None
        fitted = fit_clone(calibrator, scores[rows], codes[rows], own, np.arange(n_classes))
        proba = class_probabilities(fitted, scores[out])
        if self.candidates is None:
            proba = _soften(proba, _class_counts(codes, train, n_classes))
        losses = np.zeros(codes.shape[0])
        losses[out] = -np.log(np.maximum(proba[np.arange(out.shape[0]), codes[out]], EPS))
        return losses

    def _may_be_certain(self) -> bool:
        return may_be_certain(self.calibrator_)

    def _export(self, build: Any) -> Any:
        if self._counts is None:
            return build.part(self.calibrator_)
        n_classes = self.classes_.shape[0]
        if n_classes == 2:
            return build.composed(self, [self.calibrator_])
        total = float(self._counts.sum())
        fraction = min(_DOUBT / total, 1.0)
        rates = (self._counts + 0.5) / (total + n_classes / 2.0)
        constant = Softmax(EPS, 0.0, 1.0, False, np.zeros(n_classes), np.log(rates))
        parts = build.part(self.calibrator_), constant
        return Average("probability", np.array([1.0 - fraction, fraction]), parts)

    def _map_scores(self, scores: Array) -> Array:
        proba = class_probabilities(self.calibrator_, scores)
        if self._counts is not None:
            proba = _soften(proba, self._counts)
        return proba if scores.ndim == 2 else np.ascontiguousarray(proba[:, 1])


def _portfolio(link: str, several: bool) -> dict[str, Any]:
    """Return the default candidates, the default calibrator first."""
    default = default_calibrator(link, several)
    if several:
        return {
            "log average": default,
            "temperature": TemperatureCalibrator(link=link),
            "vector scaling": VectorScalingCalibrator(link=link),
            "structured matrix scaling": StructuredMatrixScalingCalibrator(link=link),
        }
    platt = PlattCalibrator(link=link)
    if link == "identity":
        return {"spline": default, "Platt": platt, "Venn-Abers": VennAbersCalibrator()}
    return {
        "spline": default,
        "temperature": TemperatureCalibrator(),
        "Platt": platt,
        "beta": BetaCalibrator(),
        "Venn-Abers": VennAbersCalibrator(),
    }


def _class_counts(codes: Codes, weight: Array | None, n_classes: int) -> Array:
    return np.bincount(codes, weight, minlength=n_classes).astype(np.float64)


def _soften(proba: Array, counts: Array) -> Array:
    """Mix the class frequencies of the training samples into probabilities, with the weight 0.1 / n."""
    total, n_classes = float(counts.sum()), counts.shape[0]
    epsilon = min(_DOUBT / total, 1.0)
    softened: Array = (1.0 - epsilon) * proba + epsilon * (counts + 0.5) / (total + n_classes / 2.0)
    return softened


def _select(losses: dict[str, Array], weight: Array, n_standard_errors: float) -> CalibratorSelection:
    """Choose the first candidate whose loss is within ``n_standard_errors`` of the smallest."""
    total = float(weight.sum())

    def mean(values: Array) -> float:
        return float((weight * values).sum()) / total

    means = {name: mean(loss) for name, loss in losses.items()}
    best = min(means, key=means.__getitem__)
    found = []
    for name, loss in losses.items():
        difference = loss - losses[best]
        excess = mean(difference)
        error = np.sqrt(mean(np.square(difference - excess)) / max(total - 1.0, 1.0))
        found.append(Candidate(name, means[name], excess, float(error)))
    chosen = next(one for one in found if one.excess <= n_standard_errors * one.standard_error)
    reason = f"{best} has the smallest held-out log loss"
    if chosen.name != best:
        reason += (
            f", but {chosen.name} comes first, with an excess of only {chosen.excess:.2g} and a standard "
            f"error of {chosen.standard_error:.2g}"
        )
    return CalibratorSelection(
        chosen.name, best, tuple(found), weight.shape[0], n_standard_errors, f"{reason}."
    )
