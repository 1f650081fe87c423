"""Adjustment of p-values for multiple testing."""

import numpy as np
from numpy.typing import NDArray


def adjust_pvalues(pvalues: NDArray[np.float64], correction: str) -> NDArray[np.float64]:
    """Return p-values adjusted for their number m.

    Bonferroni: m p. Holm: the running maximum of (m - j + 1) p_(j), j = 1, ..., m, over sorted p-values. At
    most 1.
    """
    m = pvalues.shape[0]
    if correction == "bonferroni":
        return np.minimum(m * pvalues, 1.0)
    order = np.argsort(pvalues, kind="stable")
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.maximum.accumulate((m - np.arange(m)) * pvalues[order]), 1.0)
    return adjusted
