"""The operations of maps on arrays: scalars of shape (n,), vectors of shape (K, n)."""

from typing import Any

import numpy as np
from scipy.special import expit

from sklearn_calib._core._links import clip_probability, logit
from sklearn_calib._typing import Array


class _Numpy:
    exp = staticmethod(np.exp)
    log = staticmethod(np.log)
    asinh = staticmethod(np.arcsinh)
    maximum = staticmethod(np.maximum)
    clip = staticmethod(np.clip)
    expit = staticmethod(expit)
    logit = staticmethod(logit)
    inside = staticmethod(clip_probability)
    stack = staticmethod(np.stack)

    @staticmethod
    def let(x: Any) -> Any:
        return x

    @staticmethod
    def sigmoid(x: Array) -> Array:
        return clip_probability(expit(x))

    @staticmethod
    def constant(values: Array) -> Array:
        return values[:, np.newaxis]

    @staticmethod
    def product(matrix: Array, x: Array) -> Array:
        return np.asarray(matrix @ x)

    @staticmethod
    def sum(x: Array) -> Array:
        return np.asarray(x.sum(axis=0))

    @staticmethod
    def column(x: Array, k: int) -> Array:
        return np.asarray(x[k])

    @staticmethod
    def log_softmax(x: Array) -> Array:
        shifted = x - x.max(axis=0)
        return shifted - np.log(np.exp(shifted).sum(axis=0))

    @staticmethod
    def largest(x: Array) -> Array:
        return np.asarray(np.arange(x.shape[0])[:, np.newaxis] == x.argmax(axis=0), dtype=np.float64)

    @staticmethod
    def if_positive(condition: Array, then: Any, other: Any) -> Array:
        return np.where(condition > 0.0, then, other)

    @staticmethod
    def piecewise(
        score: Array, x: Array, edges: Array, start: Array | None, value: Array, slope: Array | None
    ) -> Array:
        part = edges.searchsorted(score, side="right")
        if start is None or slope is None:
            return np.asarray(value[part])
        return np.asarray(value[part] + (x - start[part]) * slope[part])


#: The backend of arrays.
NUMPY = _Numpy()
