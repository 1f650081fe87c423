"""Adjustment of p-values for multiple testing."""

import numpy as np
from numpy.typing import NDArray


def adjust_pvalues(pvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values adjusted for their number m by Holm's procedure.

    The running maximum of (m - j + 1) p_(j), j = 1, ..., m, over sorted p-values; at most 1.
    """
    m = pvalues.shape[0]
    order = np.argsort(pvalues, kind="stable")
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.maximum.accumulate((m - np.arange(m)) * pvalues[order]), 1.0)
    return adjusted
