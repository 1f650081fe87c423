"""Types of arrays and of shared parameters."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Whole numbers: indices of classes, outcomes 0 and 1, counts.
Codes = NDArray[np.int64]
#: What sample weights mean.
Weights: TypeAlias = Literal["sampling", "frequency"]
#: What they mean where they can only count samples; None allows 0 and 1 only.
CountingWeights: TypeAlias = Literal["frequency"] | None
