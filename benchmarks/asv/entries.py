"""Time and peak memory of every metric, test and calibrator at a few sizes.

New public objects are included automatically: the entries are found by the ``__all__`` of the subpackages.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from _entries import Build, data_of, own_calibrators, own_metrics, own_several, own_tests


class _Entries:
    """One benchmark for each entry and size, defined by a subclass."""

    entries: ClassVar[dict[str, Build]]
    param_names: ClassVar = ["entry", "n"]
    params: ClassVar[list[list[Any]]]
    timeout = 120
    task: Callable[[], object]

    def setup(self, entry: str, n: int) -> None:
        """Create the data and the call."""
        self.task = self.entries[entry](data_of(n))

    def time_call(self, entry: str, n: int) -> None:
        """Call it once."""
        self.task()

    def peakmem_call(self, entry: str, n: int) -> None:
        """Call it while the memory of the process, with the data, is watched."""
        self.task()


class Metrics(_Entries):
    """Metrics of n predictions."""

    entries = own_metrics()
    params: ClassVar = [list(entries), [1_000, 100_000]]


class Tests(_Entries):
    """Tests of calibration with n predictions; many simulate samples."""

    entries = own_tests()
    params: ClassVar = [list(entries), [1_000, 10_000]]


class Calibrators(_Entries):
    """The fit of n scores of two classes, and the map of as many others."""

    entries = own_calibrators()
    params: ClassVar = [list(entries), [1_000, 100_000]]


class TenClasses(_Entries):
    """The same for ten classes."""

    entries = own_several()
    params: ClassVar = [list(entries), [1_000, 10_000]]


class Import:
    """Import time of the package, in a separate process."""

    def timeraw_import(self) -> str:
        """Return the code to time."""
        return "import sklearn_calib"
