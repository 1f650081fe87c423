"""Maps between probabilities and log-odds, with the one clipping constant of the package."""

import numpy as np

from sklearn_calib._typing import Array

#: Distance from 0 and 1 at which probabilities are clipped before a logarithm: 2**-53, the smallest
#: for which 1 - EPS is representable. Coarser clipping would change confident predictions.
EPS = 2.0**-53


def clip_probability(p: Array, eps: float = EPS) -> Array:
    """Return ``p`` clipped to [eps, 1 - eps]."""
    return np.clip(p, eps, 1.0 - eps)


def logit(p: Array, eps: float = EPS) -> Array:
    """Return log(p / (1 - p)) of the clipped probabilities; finite for every p in [0, 1]."""
    q = np.maximum(p, eps)
    np.minimum(q, 1.0 - eps, out=q)
    out: Array = np.subtract(1.0, q)
    np.divide(q, out, out=out)
    return np.log(out, out=out)
