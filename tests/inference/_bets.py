"""The bets of the sequential test, written from their definition."""

import math

from scipy.special import expit, logit

SHIFTS = (-1.0, -0.3, 0.3, 1.0)
SLOPES = (1 / 2, 3 / 4, 1, 4 / 3, 2)
GRID = [(a, b) for a in (0, -0.1, 0.1, -0.3, 0.3, -1, 1) for b in SLOPES if (a, b) != (0, 1)]


def ratio(y, p, a, b=1.0):
    """Return q(y) / p(y) for logit q = a + b logit p."""
    q = expit(a + b * logit(p))
    return q / p if y else (1 - q) / (1 - p)


def wealth_of_batches(batches, adds_wealth=False):
    """Yield the wealth after each batch (y, p, w) of dependent rows, which is one bet at its mean ratio."""
    starts, since = [], 0
    for y, p, w in batches:
        if not starts or since >= 32:
            j = len(starts)
            capital = max(1, since) if adds_wealth else 1 / ((j + 1) * (j + 2))
            starts.append([capital, dict.fromkeys(GRID, 1.0)])
            since = 0
        since += sum(w)
        for a, b in GRID:
            rows = zip(y, p, w, strict=True)
            mean = sum(each * ratio(label, q, a, b) for label, q, each in rows) / sum(w)
            for _, wealth in starts:
                wealth[a, b] *= mean
        idle = 0 if adds_wealth else 1 / (len(starts) + 1)
        yield idle + sum(capital * sum(wealth.values()) / len(GRID) for capital, wealth in starts)


class Cell:
    """A cell of a tree: wealth of each bettor in it, its past, its three cells."""

    def __init__(self, low, high, level):
        self.low, self.high = low, high
        self.wealth = dict.fromkeys((*SHIFTS, "learned", "out"), 1.0)
        self.past = []
        third, parts = (high - low) / 3, range(3 if level else 0)
        self.within = [Cell(low + i * third, low + (i + 1) * third, level - 1) for i in parts]

    def bet(self, batch):
        mine = [(y, p) for y, p in batch if self.low <= 2 / math.pi * math.asin(math.sqrt(p)) < self.high]
        learned = sum(y - p for y, p in self.past) / (1 + sum(p * (1 - p) for _, p in self.past))
        for y, p in mine:
            for shift in SHIFTS:
                self.wealth[shift] *= ratio(y, p, shift)
            self.wealth["learned"] *= ratio(y, p, min(1.0, max(-1.0, learned)))
        self.past += mine
        for cell in self.within:
            cell.bet(mine)

    def total(self):
        own = sum(self.wealth[a] for a in SHIFTS) / 12 + (self.wealth["learned"] + self.wealth["out"]) / 3
        return (own + math.prod(cell.total() for cell in self.within)) / 2 if self.within else own


def reference(batches, lives=(math.inf,), adds_wealth=False, block=32):
    """Return the wealth after each batch of pairs (y, p)."""
    trees, born, inherited = [Cell(0, 1, 4) for _ in lives], [0 for _ in lives], [1.0 for _ in lives]
    wealths = [1.0] * (len(GRID) + len(lives))
    starts, capitals, since, path = [], [], 0, []
    for batch in batches:
        if not starts or since >= block:
            j = len(starts)
            for k, life in enumerate(lives):
                if j - born[k] >= life:
                    inherited[k] *= trees[k].total()
                    trees[k], born[k] = Cell(0, 1, 4), j
            capitals.append(max(1, since) if adds_wealth else 1 / ((j + 1) * (j + 2)))
            starts.append(wealths)
            since = 0
        since += len(batch)
        pairs = zip(wealths, GRID, strict=False)
        grid = [wealth * math.prod(ratio(y, p, a, b) for y, p in batch) for wealth, (a, b) in pairs]
        for tree in trees:
            tree.bet(batch)
        wealths = grid + [old * tree.total() for old, tree in zip(inherited, trees, strict=True)]
        share = [1 / (2 * len(GRID))] * len(GRID) + [1 / (2 * len(lives))] * len(lives)
        owned = sum(
            capital * c * now / then
            for capital, start in zip(capitals, starts, strict=True)
            for c, now, then in zip(share, wealths, start, strict=True)
        )
        path.append(owned + (0 if adds_wealth else 1 - sum(capitals)))
    return path
