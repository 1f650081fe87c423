"""Progress of a long computation: a tqdm bar on a terminal, or a callback."""

import sys
from collections.abc import Callable
from typing import Any


class Progress:
    """Count the steps of a computation.

    Parameters
    ----------
    show : bool, callable or None
        True shows a bar on stderr, None only if stderr is a terminal and tqdm is installed, False shows
        nothing. A function is called with the number of completed steps, the total number, and the name of
        the next step.
    total : int
        Number of steps.
    """

    def __init__(self, show: bool | Callable[[int, int, str], Any] | None, total: int) -> None:
        if not (show is None or isinstance(show, bool) or callable(show)):
            raise TypeError(f"progress must be True, False, None or a function, got {show!r}.")
        self._total = total
        self._done = 0
        self._call = show if callable(show) else None
        self._bar: Any = None
        if show is True or (show is None and sys.stderr is not None and sys.stderr.isatty()):
            try:
                from tqdm import tqdm
            except ImportError as error:
                if show is True:
                    raise ImportError(
                        "progress=True needs tqdm, which is not installed. Install it with "
                        'python -m pip install "sklearn-calib[report]", or pass a function.'
                    ) from error
                return
            self._bar = tqdm(total=total, file=sys.stderr, leave=False, unit="step")

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, what: str) -> None:
        """Report that a step begins; the previous step is completed."""
        if self._call is not None:
            self._call(self._done, self._total, what)
        if self._bar is not None:
            self._bar.set_description_str(what)
            self._bar.update(self._done - self._bar.n)
        self._done += 1
