"""The choice among calibrators, by cross-validated log loss."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from sklearn_calib._core._links import EPS
from sklearn_calib._html import result_html
from sklearn_calib._validation import check_generator, check_integer, check_not_negative, check_randomness
from sklearn_calib.calibrators._base import BaseCalibrator, as_columns, check_link, may_be_certain
from sklearn_calib.calibrators._beta import BetaCalibrator
from sklearn_calib.calibrators._default import default_calibrator
from sklearn_calib.calibrators._matrix import StructuredMatrixScalingCalibrator
from sklearn_calib.calibrators._multiclass import (
    check_calibrator,
    class_probabilities,
    fit_clone,
    is_binary,
    needs_every_class,
    scores_wanted_by_all,
)
from sklearn_calib.calibrators._platt import PlattCalibrator
from sklearn_calib.calibrators._temperature import TemperatureCalibrator
from sklearn_calib.calibrators._vector import VectorScalingCalibrator
from sklearn_calib.calibrators._venn_abers import VennAbersCalibrator

__all__ = ["AutoCalibrator", "CalibratorSelection", "Candidate"]

Array = NDArray[np.float64]
# More rows numpy cannot divide by a draw without replacement.
_MOST_ROWS = 10**9
# The share of a sample by which class frequencies are mixed into the probabilities of the default candidates.
_DOUBT = 0.1


@dataclass(frozen=True)
class Candidate:
    """How one calibrator did in the cross-validation of :class:`AutoCalibrator`.

    Attributes
    ----------
    name : str
        Name of the calibrator.
    log_loss : float
        Mean log loss, in nats, of rows that it was not fitted to.
    excess : float
        What this is above the least of all candidates.
    standard_error : float
        Standard error of the excess, from the differences row by row.

    Examples
    --------
    >>> from sklearn_calib.calibrators import AutoCalibrator
    >>> p = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> y = [0, 0, 1, 0, 1, 0, 1, 1]
    >>> AutoCalibrator(n_folds=4).fit(p, y).selection_.candidates[0].name
    'temperature'
    """

    name: str
    log_loss: float
    excess: float
    standard_error: float


@dataclass(frozen=True)
class CalibratorSelection:
    """What :class:`AutoCalibrator` chose, and why; print it.

    Attributes
    ----------
    chosen : str
        Name of the calibrator that was chosen.
    best : str
        Name of the one with the least log loss.
    candidates : tuple of Candidate
        All of them, from the simplest to the most flexible; empty if there was no cross-validation.
    n_folds : int
        Number of folds; 0 if there was no cross-validation.
    n_standard_errors : float
        How many standard errors a simpler calibrator may be behind.
    reason : str
        The reason, in a sentence.

    Examples
    --------
    >>> from sklearn_calib.calibrators import AutoCalibrator
    >>> p = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> y = [0, 0, 1, 0, 1, 0, 1, 1]
    >>> print(AutoCalibrator(n_folds=4).fit(p, y).selection_.reason)
    spline has the least log loss of rows held out.
    """

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
            lines.append(f"  {'':{width}}  log loss   above the best (s.e.), {self.n_folds} folds")
            for one in self.candidates:
                mark = "  <- chosen" if one.name == self.chosen else ""
                lines.append(
                    f"  {one.name:{width}}  {one.log_loss:8.5f}   {one.excess:.5f} ({one.standard_error:.5f})"
                    f"{mark}"
                )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        pairs = [("chosen", self.chosen), ("why", self.reason)]
        return result_html("Choice of a calibrator", pairs, [("Candidates", self.candidates)], unfolded=True)


class AutoCalibrator(BaseCalibrator):
    r"""The simplest calibrator that is about as good as the best one, by cross-validated log loss.

    Each candidate is fitted to all folds but one and scored on the one left out. The one chosen is the first,
    in order of complexity, whose mean log loss is above the least one by no more than one standard error of
    the difference [1]_. It is then fitted to all rows. ``selection_`` says what was chosen and why.

    Parameters
    ----------
    candidates : dict of str to calibrator, or None, default=None
        Calibrators or other classifiers with ``predict_proba`` by name, from the simplest to the most
        flexible. None: for two classes temperature scaling, Platt scaling, beta calibration, spline and
        Venn-Abers; with ``link="identity"`` those of them that take any score, Platt scaling, spline and
        Venn-Abers; for several classes temperature, vector and structured matrix scaling, and the log average
        (with ``link="identity"`` of one spline per class and both kinds of matrix scaling).
    n_folds : int, default=5
        Number of folds, at least 2; fewer where a class has fewer rows. A class with a single row leaves
        nothing to compare: the first candidate is then taken, and ``selection_`` says so.
    n_standard_errors : float, default=1.0
        How many standard errors a simpler candidate may be behind; 0 takes the one with the least log loss.
    link : {"logit", "identity"}, default="logit"
        What the scores are, for the default candidates. "logit": probabilities. "identity": any real scores,
        or for several classes logits. With ``candidates`` their own links count, and this one is ignored.
    random_state : int, Generator, RandomState or None, default=0
        Source of the folds.

    Attributes
    ----------
    selection_ : CalibratorSelection
        What was chosen and why, and how all candidates did.
    calibrator_ : calibrator
        The one chosen, fitted to all rows, with the indices of the labels in ``classes_`` as its labels.
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of ``X``, where it has string names.

    Raises
    ------
    ValueError
        When fitting, if a parameter is out of range, if there is no candidate, or if some want probabilities
        and others logits; if all rows of a class have weight zero; and as for any calibrator.
    TypeError
        When fitting, if ``candidates`` is not a dict of objects that can be fitted and predict probabilities.

    See Also
    --------
    SplineCalibrator : one curve that weighs its own complexity, for a fraction of the time.
    LogAverageCalibrator : several calibrators together instead of one.

    Notes
    -----
    The log loss of row i is :math:`-\log p_{i, y_i}` with probabilities raised to 2**-53. With the
    differences :math:`d_i` between a candidate and the best, weights :math:`w_i` and :math:`W = \sum w_i`,
    the excess is :math:`\bar d = \sum w_i d_i / W`, and its standard error :math:`\sqrt{\sum w_i (d_i - \bar
    d)^2 / (W (W - 1))}`.

    The folds depend on the rows, not on their order or that of the classes, and whole numbers as weights are
    repetitions: copies of a row are dealt out one by one. Rows with fractional weights are dealt out as they
    are.

    *No impossible outcomes.* Some of the default candidates say 0 or 1 of what lies beyond the samples. With
    ``candidates=None`` their probabilities :math:`p` become :math:`(1 - \epsilon) p + \epsilon q`, before
    they are compared and in the result, with :math:`\epsilon = 0.1/n` and the class frequencies
    :math:`q_k = (n_k + 1/2) / (n + K/2)` of the n samples of a fit. Candidates that are passed are
    used as they are; among these ``IsotonicCalibrator(clip="auto")`` avoids zeros.

    *Cost.* That of ``n_folds`` fits of all candidates, and one fit more.

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
    ('beta', 'beta')
    """

    selection_: CalibratorSelection
    calibrator_: Any
    _counts: Array | None

    def __init__(
        self,
        *,
        candidates: dict[str, Any] | None = None,
        n_folds: int = 5,
        n_standard_errors: float = 1.0,
        link: str = "logit",
        random_state: Any = 0,
    ) -> None:
        self.candidates = candidates
        self.n_folds = n_folds
        self.n_standard_errors = n_standard_errors
        self.link = link
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        """Declare several classes if all candidates support them."""
        tags = super().__sklearn_tags__()
        named = self.candidates.values() if isinstance(self.candidates, dict) else ()
        tags.classifier_tags.multi_class = not any(is_binary(one) for one in named)
        return tags

    def _check_parameters(self) -> None:
        check_integer(self.n_folds, "n_folds", minimum=2)
        check_link(self.link)
        check_randomness(self.random_state)
        check_not_negative(self.n_standard_errors, "n_standard_errors")
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

    def _score_kind(self) -> str:
        if self.candidates is None:
            # several classes cannot be told from two here; both portfolios take the same scores
            return scores_wanted_by_all(_portfolio(self.link, several=True).values(), "candidates")
        return scores_wanted_by_all(self.candidates.values(), "candidates")

    def _needs_every_class(self) -> bool:
        return any(map(needs_every_class, (self.candidates or {}).values()))

    def _check_classes(self, classes: NDArray[Any], scores: Array) -> None:
        for calibrator in (self.candidates or {}).values():
            if isinstance(calibrator, BaseCalibrator):
                calibrator._check_classes(classes, scores)
        super()._check_classes(classes, scores)

    def _fit_scores(self, scores: Array, codes: NDArray[np.int64], weight: Array | None) -> None:
        columns, n_classes = as_columns(scores), self.classes_.shape[0]
        candidates = self.candidates or _portfolio(self.link, scores.ndim == 2)
        rows = _Rows(columns, codes, weight, soften=self.candidates is None)
        counts = np.bincount(rows.codes, rows.counts)
        n_folds = min(self.n_folds, int(counts[counts > 0].min()))
        if n_folds < 2 or len(candidates) == 1:
            self.selection_ = _uncontested(next(iter(candidates)), len(candidates), self.n_standard_errors)
        else:
            held = rows.deal(n_folds, check_generator(self.random_state))
            losses = {name: rows.held_out_losses(one, held, n_classes) for name, one in candidates.items()}
            self.selection_ = _select(losses, held * rows.unit, float(self.n_standard_errors))
        chosen = candidates[self.selection_.chosen]
        self.calibrator_ = fit_clone(chosen, columns, codes, weight, n_classes)
        self._counts = None if self.candidates else _class_counts(codes, weight, n_classes)

    def _may_be_certain(self) -> bool:
        return may_be_certain(self.calibrator_)

    def _map_scores(self, scores: Array) -> Array:
        proba = class_probabilities(self.calibrator_, scores)
        if self._counts is not None:
            proba = _soften(proba, self._counts)
        return proba if scores.ndim == 2 else np.ascontiguousarray(proba[:, 1])


def _portfolio(link: str, several: bool) -> dict[str, Any]:
    """Return the default candidates, from the simplest to the most flexible."""
    default = default_calibrator(link, several)
    if several:
        return {
            "temperature": TemperatureCalibrator(link=link),
            "vector scaling": VectorScalingCalibrator(link=link),
            "structured matrix scaling": StructuredMatrixScalingCalibrator(link=link),
            "log average": default,
        }
    platt = PlattCalibrator(link=link)
    if link == "identity":
        return {"Platt": platt, "spline": default, "Venn-Abers": VennAbersCalibrator()}
    return {
        "temperature": TemperatureCalibrator(),
        "Platt": platt,
        "beta": BetaCalibrator(),
        "spline": default,
        "Venn-Abers": VennAbersCalibrator(),
    }


class _Rows:
    """The rows to be divided into folds, pooled where they are equal.

    Row i stands for ``counts[i]`` rows of weight ``unit[i]``; only whole rows can be divided. Fractional
    weights leave all rows apart.
    """

    def __init__(self, columns: Array, codes: NDArray[np.int64], weight: Array | None, soften: bool) -> None:
        self.soften = soften
        # in an order of their own, so that the folds do not depend on that of rows or classes
        own = columns[:, 0] if columns.shape[1] == 1 else columns[np.arange(codes.shape[0]), codes]
        order = np.lexsort((*columns.T, *np.sort(columns, axis=1).T, own, codes))
        columns, codes, own = columns[order], codes[order], own[order]
        self.weighted = weight is not None
        mass = np.ones(codes.shape[0]) if weight is None else weight[order]
        if (mass == np.floor(mass)).all() and mass.sum() < _MOST_ROWS:
            differs = (np.diff(columns, axis=0) != 0.0).any(axis=1) | (np.diff(codes) != 0)
            starts = np.concatenate([[0], np.flatnonzero(differs) + 1])
            columns, codes, own = columns[starts], codes[starts], own[starts]
            mass = np.add.reduceat(mass, starts)
            self.counts, self.unit = mass.astype(np.int64), np.ones(starts.shape[0])
        else:
            self.counts, self.unit = np.ones(codes.shape[0], dtype=np.int64), mass
        self.columns, self.codes = columns, codes
        totals = np.bincount(codes, self.counts), np.bincount(codes, self.counts * own)
        self.classes = [k for k in np.lexsort(totals[::-1]).tolist() if totals[0][k] > 0]

    def deal(self, n_folds: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return how many of each row are in each fold, (n_folds, n); each class is dealt out evenly."""
        held = np.zeros((n_folds, self.codes.shape[0]), dtype=np.int64)
        dealt = 0
        for k in self.classes:
            part = self.codes == k
            left = self.counts[part]
            size = int(left.sum())
            for i in range(n_folds):
                # the next class begins with the fold where this one ends, so that folds are of equal size
                fold = (dealt + i) % n_folds
                drawn = rng.multivariate_hypergeometric(left, size // n_folds + (i < size % n_folds))
                held[fold, part] = drawn
                left = left - drawn
            dealt += size
        return held

    def held_out_losses(self, calibrator: Any, held: NDArray[np.int64], n_classes: int) -> Array:
        """Return the log loss of each row under the fits to the other folds, (n_folds, n)."""
        losses = np.zeros(held.shape)
        for fold, tested in enumerate(held):
            counts = self.counts - tested
            rows = np.flatnonzero(counts)
            weight = counts[rows] * self.unit[rows] if self.weighted else None
            if not self.weighted:
                rows = np.repeat(rows, counts[rows])
            fitted = fit_clone(calibrator, self.columns[rows], self.codes[rows], weight, n_classes)
            out = np.flatnonzero(tested)
            proba = np.asarray(fitted.predict_proba(self.columns[out]), dtype=np.float64)
            if self.soften:
                proba = _soften(proba, _class_counts(self.codes, counts * self.unit, n_classes))
            losses[fold, out] = -np.log(np.maximum(proba[np.arange(out.shape[0]), self.codes[out]], EPS))
        return losses


def _class_counts(codes: NDArray[np.int64], weight: Array | None, n_classes: int) -> Array:
    return np.bincount(codes, weight, minlength=n_classes).astype(np.float64)


def _soften(proba: Array, counts: Array) -> Array:
    """Mix the frequencies of the classes of a fit into probabilities, by a tenth of a sample."""
    total, n_classes = float(counts.sum()), counts.shape[0]
    share = min(_DOUBT / total, 1.0)
    softened: Array = (1.0 - share) * proba + share * (counts + 0.5) / (total + n_classes / 2.0)
    return softened


def _select(losses: dict[str, Array], weight: Array, n_standard_errors: float) -> CalibratorSelection:
    """Choose the first candidate that is within so many standard errors of the best."""
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
    reason = f"{best} has the least log loss of rows held out"
    if chosen.name != best:
        reason += (
            f", but {chosen.name} is simpler and only {chosen.excess:.2g} above it, with a standard error of "
            f"{chosen.standard_error:.2g}"
        )
    return CalibratorSelection(
        chosen.name, best, tuple(found), weight.shape[0], n_standard_errors, f"{reason}."
    )


def _uncontested(name: str, n_candidates: int, n_standard_errors: float) -> CalibratorSelection:
    """Return the choice of the first candidate for want of a comparison."""
    reason = (
        f"{name} is the only candidate."
        if n_candidates == 1
        else f"A class has a single row, so that nothing can be held out; {name} is the simplest candidate."
    )
    return CalibratorSelection(name, name, (), 0, float(n_standard_errors), reason)
