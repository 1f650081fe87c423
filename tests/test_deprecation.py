"""What is to go warns as docs/stability.md says, and nothing stays longer than it has announced."""

import ast
import warnings
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator, clone

from sklearn_calib import __version__
from sklearn_calib._deprecation import UNSET, deprecated, renamed

PACKAGE = Path(__file__).resolve().parents[1] / "sklearn_calib"


@deprecated("call smooth_ece", since="1.3", until="1.5")
def old_function(x):
    """Return one more."""
    return x + 1


@deprecated("use PlattCalibrator", since="1.3", until="2.0")
class OldClass(BaseEstimator):
    """A class that goes."""

    def __init__(self, penalty=1.0):
        self.penalty = penalty


def renames(y, *, n_bins=15, bins=UNSET):
    """Take the number of bins by either name."""
    return renamed("bins", bins, "n_bins", n_bins, since="1.3", until="1.5")


def test_functions_and_classes_warn_and_work():
    with pytest.warns(
        FutureWarning, match=r"old_function is deprecated; since 1\.3, .* 1\.5; call smooth_ece\."
    ):
        assert old_function(1) == 2
    with pytest.warns(FutureWarning, match=r"OldClass is deprecated; .* 2\.0; use PlattCalibrator\."):
        assert OldClass(penalty=3.0).penalty == 3.0
    assert old_function.__doc__.startswith("Return one more.")


def test_a_deprecated_class_can_be_cloned():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert clone(OldClass(penalty=2.0)).get_params() == {"penalty": 2.0}


def test_old_name_of_a_parameter():
    # warnings are errors in these tests: the new name does not warn
    assert renames([0, 1]) == 15
    assert renames([0, 1], n_bins=7) == 7
    with pytest.warns(
        FutureWarning, match=r"^bins was renamed to n_bins in 1\.3 and goes in 1\.5; .* bins=20 is used"
    ) as caught:
        assert renames([0, 1], bins=20) == 20
    # it points at the caller, who can change it
    assert caught[0].filename == __file__


@pytest.mark.parametrize("bins", [None, 0, "", [3]])
def test_any_value_by_the_old_name_is_noticed(bins):
    with pytest.warns(FutureWarning, match="bins was renamed"):
        assert renames([0, 1], bins=bins) == bins


@pytest.mark.parametrize(
    ("since", "until"),
    [("1.3", "1.4"), ("1.3", "1.3"), ("1.3", "0.9"), ("1.9", "1.10"), ("1", "2"), ("1.3.0", "1.5.0")],
)
def test_what_is_announced_keeps_the_promise(since, until):
    with pytest.raises(ValueError, match="minor release"):
        deprecated("call another", since=since, until=until)
    with pytest.raises(ValueError, match="minor release"):
        renamed("bins", UNSET, "n_bins", 15, since=since, until=until)


@pytest.mark.parametrize(
    ("since", "until"), [("1.3", "1.5"), ("1.9", "1.11"), ("1.9", "2.0"), ("0.1", "0.3")]
)
def test_announcements_that_may_be_made(since, until):
    assert renamed("bins", UNSET, "n_bins", 15, since=since, until=until) == 15


def overdue(source, version):
    """Return the lines in which something is announced to be gone in this version, or before it."""
    now = tuple(int(part) for part in version.split(".")[:2])
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("deprecated", "renamed"):
            until = next(word.value.value for word in node.keywords if word.arg == "until")
            if tuple(int(part) for part in until.split(".")) <= now:
                lines.append(node.lineno)
    return lines


def test_nothing_stays_longer_than_announced():
    found = {
        path.name: overdue(path.read_text(encoding="utf-8"), __version__) for path in PACKAGE.rglob("*.py")
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_what_is_overdue_is_found():
    source = 'x = 1\n\n@deprecated("call b", since="1.3", until="1.5")\ndef a(): ...\n'
    assert [overdue(source, version) for version in ("1.4.2", "1.5.0.dev0", "1.10.0", "2.0.0")] == [
        [],
        [3],
        [3],
        [3],
    ]
