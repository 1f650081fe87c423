"""The bets of the sequential test, written from their definition."""

import math

from scipy.special import expit, logit

SHIFTS = (-1.0, -0.3, 0.3, 1.0)
GRID = [
    (a, b) for a in (0, -0.1, 0.1, -0.3, 0.3, -1, 1) for b in (1 / 2, 3 / 4, 1, 4 / 3, 2) if (a, b) != (0, 1)
]


def ratio(y, p, a, b=1.0):
    """Return q(y) / p(y) for logit q = a + b logit p."""
    q = expit(a + b * logit(p))
    return q / p if y else (1 - q) / (1 - p)


class Cell:
    """A cell of a tree: wealth of each bettor in it, its past, its three cells."""

    def __init__(self, low, high, level):
        self.low, self.high = low, high
        self.wealth = dict.fromkeys((*SHIFTS, "learned", "out"), 1.0)
        self.past = []
        third = (high - low) / 3
        self.within = [
            Cell(low + i * third, low + (i + 1) * third, level - 1) for i in range(3 if level else 0)
        ]

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
