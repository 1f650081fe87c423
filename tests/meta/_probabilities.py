"""What every prediction of probabilities has."""

import numpy as np


def assert_probabilities(proba, n_rows, n_classes):
    assert (proba.shape, proba.dtype) == ((n_rows, n_classes), np.float64)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-12)
