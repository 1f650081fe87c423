"""Wrong arguments of every public function, estimator and display: errors that name the argument.

Arguments that can be used after all are fine, but no input may change, and no warning may leak.
"""

import copy
import inspect
import re
import signal
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from tests._entries import DATA, ESTIMATORS, N, entries, good_of
from tests._optional import Missing
from tests._optional import pandas as pd
from tests._optional import pyplot as plt

#: What an argument is called by those to which it is handed on.
OTHER_NAMES = {
    "X": ("y_proba", "features"),
    "y": ("y_true",),
    "predictions": ("y_proba",),
    "calibrators": ("calibrator ",),
    "classes": ("is not one of",),
    "sample_weight": ("has no column",),
}
ARRAYS = {
    "text": "text",
    "object": object(),
    "number": 0.5,
    "none_list": [None] * N,
    "empty": [],
    "no_columns": np.zeros((N, 0)),
    "ragged": [[0.1], [0.1, 0.9]] * (N // 2),
    "three_d": np.zeros((N, 1, 1)),
    "complex": np.full(N, 0.5 + 0j),
    "nan": np.where(np.arange(N) == 3, np.nan, 0.5),
    "infinite": np.where(np.arange(N) == 3, np.inf, 0.5),
    "negative": np.full(N, -1),
    "huge": [10**400] * N,
    "dates": np.full(N, "2020-01-01", dtype="M8[D]"),
    "dict": {"a": 1},
    "function": len,
    "sparse": csr_matrix(np.full((N, 1), 0.5)),
    "mixed": [0, "a"] * (N // 2),
    "records": np.zeros(N, dtype=[("a", float), ("b", int)]),
    "shorter": np.full(N - 1, 0.5),
    "masked": np.ma.masked_array(np.full(N, 0.5), mask=np.arange(N) == 2),
}
VALUES = {
    "none": None,
    "word": "word",
    "true": True,
    "minus": -1,
    "zero": 0,
    "fraction": 1.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "huge": 10**400,
    "large": 10**12,
    "tiny": 5e-324,
    "almost_one": 1 - 2**-53,
    "object": object(),
    "list": [],
    "dict": {},
    "array": np.array([1.0, 2.0]),
    "class": int,
}


@cache
def wrong_arrays():
    if isinstance(pd, Missing):
        return ARRAYS
    nullable = pd.Series([None] + [0.5] * (N - 1), dtype="Float64")
    return ARRAYS | {"frame": pd.DataFrame({"a": ["x"] * N, "b": 0.5}), "nullable": nullable}


def kept(value):
    """Return a copy of the arrays and containers of an argument, but not of other objects in them."""
    if isinstance(value, dict):
        return {key: kept(each) for key, each in value.items()}
    if isinstance(value, list):
        return [kept(each) for each in value]
    return copy.deepcopy(value) if isinstance(value, np.ndarray) or hasattr(value, "iloc") else value


def same(before, after):
    if before is after:
        return True
    if hasattr(before, "iloc"):
        return before.equals(after)
    try:
        np.testing.assert_equal(after, before)
    except AssertionError:
        return False
    return True


@contextmanager
def bounded(seconds=20, memory=1 << 30):
    """Give what is done inside so much time of the processor, and so much more memory."""
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    def late(signum, frame):
        raise TimeoutError(f"it took more than {seconds} seconds")

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, limit[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limit)


def complaint(entry, name, key, value):
    """Return what is wrong with the answer to a wrong argument, or None."""
    given = {**entry.good, name: value}
    before = {each: kept(argument) for each, argument in given.items()}
    # an array of another length contradicts any of the others
    names = (name, *OTHER_NAMES.get(name, ()), *(entry.good if key in ("shorter", "array") else ()))
    try:
        with bounded():
            entry.call(**given)
    except (ValueError, TypeError, ImportError) as error:
        named = any(known in str(error) for known in names)
        return None if named else f"does not name it: {type(error).__name__}: {error}"
    except UserWarning as error:
        # a column of labels, or a table after a fit of arrays, as scikit-learn warns; an unreachable target
        known = "column-vector", "feature names", "always abstains", "the constant event rate is used"
        return None if any(words in str(error) for words in known) else repr(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if not isinstance(plt, Missing):
            plt.close("all")
    changed = [each for each, copied in before.items() if not same(copied, given[each])]
    return f"changed {changed}" if changed else None


def troubles(chosen):
    """Yield what is wrong with the answers to wrong arguments: those whose number is chosen."""
    number = 0
    for entry in entries():
        for name in entry.names:
            for key, value in (wrong_arrays() if name in DATA else VALUES).items():
                number += 1
                if chosen(number) and not (name in ("metric", "metrics") and key == "class"):
                    trouble = complaint(entry, name, key, value)
                    if trouble is not None:
                        yield f"{entry.name}: {name}={key}: {trouble}"


@pytest.mark.thorough
def test_some_wrong_arguments():
    """Every twentieth: 2 and 5 divide neither the number of wrong arrays nor that of wrong values."""
    assert list(troubles(lambda number: number % 20 == 0)) == []


@pytest.mark.weekly
@pytest.mark.parametrize("part", range(10))
def test_wrong_arguments(part):
    assert list(troubles(lambda number: number % 10 == part)) == []


@pytest.mark.thorough
def test_whole_numbers_are_checked():
    """What is not a whole number, or negative, is refused where one is annotated."""
    for entry in entries():
        for name in entry.names:
            annotation = str(inspect.signature(entry.call).parameters[name].annotation)
            if re.fullmatch(r"int", annotation.replace(" | None", "")):
                for value in (float("inf"), float("nan"), 1.5, -(10**30)):
                    with pytest.raises((ValueError, TypeError), match=name), bounded():
                        entry.call(**{**entry.good, name: value})


@pytest.mark.thorough
def test_read_only_arguments_are_accepted_and_stay_as_they_are():
    for entry in entries():
        frozen = kept(entry.good)
        for value in frozen.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        entry.call(**frozen)
        for name, value in frozen.items():
            assert same(value, entry.good[name]), (entry.name, name)


def test_parameters_are_checked_by_fit_only():
    """As scikit-learn asks: a constructor stores its parameters unchanged."""
    for cls in ESTIMATORS:
        good = good_of(cls, cls.__name__)
        for name in cls(**good).get_params(deep=False):
            wrong = object()
            assert getattr(cls(**{**good, name: wrong}), name) is wrong
