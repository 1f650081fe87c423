"""Simulated predictions and their outcomes."""

import numpy as np


def simulated(n, *law, seed=0, truth=1.0, digits=None):
    """Return outcomes of probability p**truth or truth(p), and predictions p of a law of numpy."""
    rng = np.random.default_rng(seed)
    p = getattr(rng, law[0] if law else "random")(*law[1:], size=n)
    p = p if digits is None else np.round(p, digits)
    return (rng.random(n) < (truth(p) if callable(truth) else p**truth)).astype(int), p


def small(seed, largest=60, grid=10):
    """Return a few outcomes, predictions that have ties if the seed is even, and whole weights."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, largest))
    p = rng.random(n) if seed % 2 else rng.integers(0, grid + 1, n) / grid
    return (rng.random(n) < p ** rng.uniform(0.2, 4)).astype(int), p, rng.integers(1, 4, n)


def simulated_classes(n, alpha, seed=0, power=1.0):
    """Return labels of probability ~ p**power, and predictions p of a Dirichlet distribution."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(alpha, n)
    truth = p**power / (p**power).sum(axis=1, keepdims=True)
    return (truth.cumsum(axis=1)[:, :-1] < rng.random((n, 1))).sum(axis=1), p
