"""Blocks of rows, so that temporary arrays are small."""

from collections.abc import Callable, Iterator
from typing import Any

#: Rows of a block whose temporary arrays stay in cache: 64 kB each, which memory allocators reuse. Dot
#: products are too short for the threads of BLAS libraries, which are slower here and make the last digits
#: depend on the machine.
BLOCK_ROWS = 1 << 13
#: All rows.
ALL = slice(None)


def blocks(n: int, budget: int | None = None, row: int = 1) -> Iterator[slice]:
    """Yield slices of n rows of ``row`` elements: at most ``budget`` elements each, at least one row."""
    size = max(1, (BLOCK_ROWS if budget is None else budget) // max(row, 1))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def block_sum(n: int, part: Callable[[slice], Any]) -> Any:
    """Return the sum over blocks of n rows of ``part``."""
    return part(ALL) if n <= BLOCK_ROWS else sum(map(part, blocks(n)))
