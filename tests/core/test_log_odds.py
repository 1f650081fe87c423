"""Cells of log-odds against the rows they stand for."""

import numpy as np
import pytest

from sklearn_calib._core import _log_odds
from sklearn_calib._core._links import logit
from sklearn_calib._core._log_odds import LogitPositions, LogOddsCells


def sample(n=300_000):
    """Ties, both ends, far and near the middle."""
    rng = np.random.default_rng(0)
    p = np.concatenate(
        [rng.beta(0.7, 0.9, n - 3000), np.round(rng.random(1000), 2), 10.0 ** -rng.uniform(0, 20, 1000)]
    )
    p = np.concatenate([p, 1.0 - 10.0 ** -rng.uniform(0, 20, 990), [0.0, 1.0, 0.5, 0.25, 0.75] * 2])
    rng.shuffle(p)
    return (rng.random(n) < p).astype(np.int64), p


def rows(cells):
    return [np.concatenate(part) for part in zip(*cells.points(), strict=True)]


def moments(y, h, w, variance, s):
    """Sum of Gaussian bumps of width s at some places, of positive rows and of all; to second order."""
    at = np.linspace(-6, 6, 25)[:, np.newaxis]
    z = (at - h) / s
    bump = np.exp(-0.5 * z * z)
    bump *= 1.0 + (z * z - 1.0) * variance / (2.0 * s * s)
    return np.stack((bump @ (w * y), bump @ w))


@pytest.mark.parametrize("s", [0.05, 0.3, 2.0])
def test_cells_smooth_like_their_rows(s):
    y, p = sample()
    cells = LogOddsCells.gather(y, p, s)
    parts = [
        (a, b, np.ones_like(b) if c is None else c, np.zeros_like(b) if d is None else d)
        for a, b, c, d in cells.between()
    ]
    found = [np.concatenate(part) for part in zip(*parts, strict=True)]
    assert found[2].sum() == y.shape[0]
    assert found[2] @ found[0] == y.sum()
    expected = moments(y, logit(p), np.ones(y.shape[0]), 0.0, s)
    np.testing.assert_allclose(moments(*found, s), expected, atol=2e-7 * y.shape[0])
    outcome, h, weight = rows(cells)
    np.testing.assert_allclose(moments(outcome, h, weight, 0.0, s), expected, atol=2e-7 * y.shape[0])
    low, high = cells.span
    assert low <= logit(p).min() <= low + s
    assert high - s <= logit(p).max() <= high


def test_some_rows_are_those_between():
    y, p = sample()
    cells, h = LogOddsCells.gather(y, p, 0.1), logit(p)
    for low, high in [(-2.0, 1.0), (-50.0, -8.0), (7.0, 50.0), (0.5, 0.500001), (-1000.0, 1000.0)]:
        parts = list(cells.between(low, high))
        count = sum(part[0].shape[0] if part[2] is None else part[2].sum() for part in parts)
        inside = np.count_nonzero((h >= low) & (h <= high))
        near = np.count_nonzero((h >= low - 0.01) & (h <= high + 0.01))
        assert inside <= count
        # where there are no cells nearby, the outermost ones come along
        if abs(low) < 5 and abs(high) < 5:
            assert count <= near


def test_many_rows_are_unpacked_in_between(monkeypatch):
    y, p = sample()
    expected = LogOddsCells.gather(y, p, 0.1)
    monkeypatch.setattr(_log_odds, "_BLOCK", 16)
    found = LogOddsCells.gather(y, p, 0.1)
    assert found._unpacked.shape[1] > 0
    for a, b in zip(rows(found), rows(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert found.span == expected.span


def test_cells_go_where_the_rows_are(monkeypatch):
    y, p = sample()
    assert LogOddsCells.gather(y[:1000], p[:1000], 0.1) is None
    assert LogOddsCells.gather(y, p, 1e-6) is None
    assert LogOddsCells.gather(y[:130_000], p[:130_000], 0.1) is None
    # room for four octaves: most of these odds lie between 1/4 and 4
    monkeypatch.setattr(_log_odds, "_FEW_ENTRIES", 4 << 10)
    assert LogOddsCells.gather(y, p, 0.1) is None
    near = np.clip(p, 0.3, 0.7)
    near[:100] = p[:100]
    cells = LogOddsCells.gather(y, near, 0.1)
    assert cells._outside.shape[0] < 100
    outcome, h, weight = rows(cells)
    assert weight.sum() == y.shape[0]
    assert weight @ h == pytest.approx(logit(near).sum(), abs=1e-3 * y.shape[0])
    assert weight @ outcome == y.sum()


def test_span_ends_with_the_cells_of_the_outermost_rows(monkeypatch):
    monkeypatch.setattr(_log_odds, "_FEWEST_ROWS", 1000)
    rng = np.random.default_rng(1)
    for _ in range(10):
        ends = rng.uniform(0.05, 0.95, 2)
        p = rng.uniform(ends.min(), ends.max(), 20_000)
        cells, h = LogOddsCells.gather((rng.random(20_000) < p).astype(np.int64), p, 1.0), logit(p)
        low, high = cells.span
        # a cell has a 2**digits-th part of an octave, which is log 2 wide and begins with the widest
        widest = 0.5**cells._digits
        assert h.min() - widest <= low <= h.min()
        assert h.max() <= high <= h.max() + widest


def test_positions_by_slices():
    p = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    x = LogitPositions(p, -4.0, 8.0, 1e-3)
    assert x.shape == (5,)
    expected = np.clip((logit(p, 1e-3) + 4.0) / 8.0, 0.0, 1.0)
    np.testing.assert_allclose(x[0:5], expected)
    np.testing.assert_allclose(x[1:3], expected[1:3])
