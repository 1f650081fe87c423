"""Choice of the limit at which probabilities are clipped before a logarithm."""

import numpy as np

from sklearn_calib._core._links import EPS, logit
from sklearn_calib._core._null import TIE
from sklearn_calib._core._weights import effective_size
from sklearn_calib._typing import Array, Codes
from sklearn_calib.calibrators._inverse_temperature import fit_inverse_temperature
from sklearn_calib.calibrators._softmax import log_losses

# Subnormal numbers have reduced precision and are treated as zero.
_TINY = 2.0**-1022
# Any other limit than the first must lower the sum of the losses by more than this (Akaike).
_PRICE = 1.0
# Candidates if some of several probabilities are 0: numbers, and others divided by the number of samples.
_FIXED, _PER_SAMPLE = (2.0**-26, 1e-4), (0.5, 2.0, 8.0)


class LogClip:
    """Mixin of calibrators of logarithms of probabilities, which are clipped at a fitted limit."""

    min_proba_: float

    def _fit_clip(self, scores: Array, codes: Codes, weight: Array | None) -> None:
        """Set the limit; logits have none."""
        self.__dict__.pop("min_proba_", None)
        if self._logarithmic:
            binary = scores.ndim == 1
            self.min_proba_ = _binary_clip(scores, weight) if binary else fit_log_clip(scores, codes, weight)

    @property
    def _logarithmic(self) -> bool:
        return getattr(self, "link", "logit") == "logit"

    @property
    def _floor(self) -> float:
        return self.min_proba_ if self._logarithmic else 0.0

    def _linked(self, scores: Array) -> Array:
        """Return log-odds of two classes, logarithms of several probabilities, or logits unchanged."""
        if not self._logarithmic:
            return scores
        return logit(scores, self.min_proba_) if scores.ndim == 1 else clipped_logs(scores, self.min_proba_)


def _binary_clip(p: Array, weight: Array | None) -> float:
    """Return the smallest positive probability of either class, but no more than n samples support."""
    low, high = np.min(p, where=p > 0.0, initial=1.0), np.max(p, where=p < 1.0, initial=0.0)
    return max(EPS, min(float(low), float(1.0 - high), _most(_size(p.shape[0], weight))))


def _size(n_samples: int, weight: Array | None) -> float:
    return float(n_samples) if weight is None else effective_size(weight)


def _most(size: float) -> float:
    """Return the limit of scores that are 0 and 1 only, such as those of a tree with pure leaves."""
    return 0.5 / float(np.sqrt(size))


def fit_log_clip(proba: Array, codes: Codes, weight: Array | None) -> float:
    """Return the limit of several probabilities, the one with the smallest loss of temperature scaling."""
    base, *others = _limits(proba, _size(proba.shape[0], weight))
    if not others:
        return base
    w = np.ones(proba.shape[0]) if weight is None else weight
    best, least = base, np.inf
    for limit in (base, *others):
        logs = clipped_logs(proba, limit)
        beta = fit_inverse_temperature(logs, codes, weight)
        loss = float(log_losses(beta * logs, codes) @ w) + (0.0 if limit == base else _PRICE)
        if loss < least * (1.0 - TIE):
            best, least = limit, loss
    return best


def clipped_logs(proba: Array, limit: float) -> Array:
    """Return the logarithms of probabilities clipped at the limit."""
    logs: Array = np.maximum(proba, limit)
    return np.log(logs, out=logs)


def _limits(proba: Array, size: float) -> list[float]:
    """Return the candidate limits, the preferred one first; others that change nothing are left out."""
    least = float(proba.min())
    zeros = least < _TINY
    positive = float(proba[proba >= _TINY].min()) if zeros else least
    lowest = min(positive, EPS)
    base = min(positive, _most(size)) if zeros else lowest
    others = {EPS}
    if zeros:
        others |= {positive, *_FIXED, *(number / size for number in _PER_SAMPLE)}
    # each logarithm is twice the previous one
    limit = EPS
    while limit > lowest:
        others.add(limit)
        limit *= limit
    return [
        base,
        *sorted(limit for limit in others if least < limit < 1.0 / proba.shape[1] and limit != base),
    ]
