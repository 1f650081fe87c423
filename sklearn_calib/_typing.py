"""Types of arrays."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Whole numbers: indices of classes, outcomes 0 and 1, counts.
Codes = NDArray[np.int64]
