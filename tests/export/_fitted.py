"""Fitted calibrators of the registry, and scores to compare them at."""

import hashlib
import json
from functools import cache

import numpy as np
import pytest

from sklearn_calib import calibrators as cal
from sklearn_calib.export import from_json, to_json
from tests.calibrators._registry import CALIBRATORS, once_a_class

N = 600
CASES = [(case, 2) for case in CALIBRATORS] + [(case, 3) for case in CALIBRATORS if case.multiclass]
IDS = [f"{case.name}-{n_classes}" for case, n_classes in CASES]
#: Cases with every kind of map; the others are left to ``pytest --thorough``.
KINDS = {"isotonic-2", "isotonic_step-2", "platt_identity-2", "beta-2", "prior_shift-2", "spline-2"}
KINDS |= {"spline_identity-2", "matrix_identity-3", "structured_matrix-3", "dirichlet-3"}
KINDS |= {"one_vs_rest_isotonic-3", "log_average_default-3", "auto-3"}


def cases(fast):
    """Return the cases as parameters, those that are not ``fast`` for the second tier."""
    return pytest.mark.parametrize(
        ("case", "n_classes"),
        [
            pytest.param(*case, id=name, marks=[] if name in fast else [pytest.mark.thorough])
            for case, name in zip(CASES, IDS, strict=True)
        ],
    )


every_kind = cases(KINDS)
#: Every class with two classes, and every kind of map with three.
first = {param.id for param in once_a_class(CALIBRATORS, slow={"auto"}) if not param.marks}
every_class = cases({f"{name}-2" for name in first} | KINDS)


@cache
def data(n_classes, log_odds=False):
    """Return scores and labels."""
    rng = np.random.default_rng(n_classes)
    if n_classes == 2:
        scores = rng.random(N)
        return scores, (rng.random(N) < scores**1.5).astype(int)
    scores = rng.dirichlet(np.ones(n_classes), N)
    labels = (scores.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)
    return (np.log(scores + 1e-9) if log_odds else scores), labels


@cache
def fitted(case, n_classes):
    """Return the calibrator of a case, and what its JSON document loads as."""
    calibrator = case.make().fit(*data(n_classes, case.log_odds))
    # coarse, for short tests; finer ones have tests of their own
    return calibrator, from_json(to_json(calibrator, tolerance=1e-3))


def new_scores(case, n_classes, n):
    """Return scores all over the range, with both ends and those of the fit."""
    rng = np.random.default_rng(7)
    if n_classes == 2:
        ends = [0.0, 1.0, 0.5, 1e-300, 1e-20, 1e-10, 1.0 - 1e-10, 1.0 - 2.0**-53]
        odds = np.linspace(-38.0, 38.0, n // 2)
        return np.concatenate([ends, data(2)[0][:200], rng.random(n // 2), 1.0 / (1.0 + np.exp(-odds))])
    scores = np.vstack([rng.dirichlet([0.2, 0.3, 1.0], n), np.eye(3), [[0.5, 0.5, 0.0], [1 / 3] * 3]])
    return np.log(scores + 1e-12) if case.log_odds else scores


#: Calibrators whose limit of probabilities matters after a model that votes.
VOTED = {
    "Platt": cal.PlattCalibrator(),
    "temperature": cal.TemperatureCalibrator(),
    "beta": cal.BetaCalibrator(),
    "vector": cal.VectorScalingCalibrator(),
    "structured matrix": cal.StructuredMatrixScalingCalibrator(),
    "average": cal.LogAverageCalibrator([cal.PlattCalibrator(), cal.BetaCalibrator()]),
}


def votes():
    """Return probabilities that are multiples of a tenth, some of them 0 and 1, and outcomes."""
    rng = np.random.default_rng(0)
    p = rng.binomial(10, rng.beta(0.5, 0.5, N)) / 10
    return p, (rng.random(N) < 0.1 + 0.8 * p).astype(int)


def fingerprint(document):
    """Return SHA-256 of a document without its field ``fingerprint``."""
    content = {name: value for name, value in document.items() if name != "fingerprint"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
