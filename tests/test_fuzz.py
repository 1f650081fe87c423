"""Every public entry, fed with what it cannot take: documented errors that name the argument, nothing else.

What an entry can take after all is fine; but no input may change, and no warning may leak.
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
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning

from sklearn_calib import (
    CalibratedClassifier,
    CrossFitScorer,
    SelectiveClassifier,
    calibrators,
    inference,
    monitor,
)
from sklearn_calib.report._numbers import ERRORS
from tests._entries import MAKERS, SUBPACKAGES, N, estimators, good_parameters, public_methods, wanted
from tests._optional import Missing
from tests._optional import pandas as pd
from tests._optional import pyplot as plt

pytestmark = pytest.mark.thorough

#: In place of an array.
ARRAYS = {
    "text": "text",
    "bytes": b"x",
    "object": object(),
    "number": 0.5,
    "none_list": [None] * N,
    "empty": [],
    "empty_row": [[]],
    "no_rows": np.zeros((0, 1)),
    "no_columns": np.zeros((N, 0)),
    "ragged": [[0.1], [0.1, 0.9]] * (N // 2),
    "zero_d": np.array(0.5),
    "three_d": np.zeros((N, 1, 1)),
    "many_columns": np.full((N, 5), 0.2),
    "complex": np.full(N, 0.5 + 0j),
    "nan": np.where(np.arange(N) == 3, np.nan, 0.5),
    "nan_row": np.where(np.arange(N)[:, None] == 3, np.nan, np.full((N, 3), 1 / 3)),
    "infinite": np.where(np.arange(N) == 3, np.inf, 0.5),
    "negative": np.full(N, -1),
    "no_sum": np.full((N, 3), 0.5),
    "huge": [10**400] * N,
    "dates": np.full(N, "2020-01-01", dtype="M8[D]"),
    "no_date": np.full(N, "NaT", dtype="M8[D]"),
    "spans": np.full(N, 3, dtype="m8[D]"),
    "dict": {"a": 1},
    "set": {0.1, 0.2},
    "iterator": iter([0.1]),
    "function": len,
    "sparse": csr_matrix(np.full((N, 1), 0.5)),
    "texts": ["a", "b", "c"] * (N // 3),
    "mixed": [0, "a"] * (N // 2),
    "dicts": [{}] * N,
    "lists": np.array([[0.1], None] * (N // 2), dtype=object),
    "records": np.zeros(N, dtype=[("a", float), ("b", int)]),
    "shorter": np.full(N - 1, 0.5),
    "masked": np.ma.masked_array(np.full(N, 0.5), mask=np.arange(N) == 2),
}
if not isinstance(pd, Missing):
    ARRAYS["frame"] = pd.DataFrame({"a": ["x"] * N, "b": 0.5})
    ARRAYS["nullable_truth"] = pd.Series([None] + [True] * (N - 1), dtype="boolean")
    ARRAYS["nullable"] = pd.Series([None] + [0.5] * (N - 1), dtype="Float64")

#: In place of a number, a word, or an object.
VALUES = {
    "none": None,
    "word": "word",
    "empty_word": "",
    "bytes": b"x",
    "true": True,
    "minus": -1,
    "zero": 0,
    "fraction": 1.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "huge": 10**400,
    "tiny": 5e-324,
    "small": 1e-12,
    "large": 1e300,
    "almost_one": 1 - 2**-53,
    "complex": 1j,
    "object": object(),
    "list": [],
    "nested": [["a"], 1],
    "dict": {},
    "array": np.array([1.0, 2.0]),
    "date": np.datetime64("NaT", "D"),
    "class": int,
}
DATA = ("y_true", "y_proba", "y_proba_a", "y_proba_b", "sample_weight", "X", "y", "groups", "labels", "time")
DATA += ("thresholds", "forecasts", "frequencies", "weights", "predicted", "classes")
#: In place of a number of bins, draws, rows, ...
SIZES = {"10**12": 10**12, "2**63": 2**63, "10**30": 10**30, "10**400": 10**400}
NO_SIZES = {"true": True, "infinite": float("inf"), "nan": float("nan"), "fraction": 1.5, "minus": -(10**30)}
#: What an argument is called by those to which it is handed on.
OTHER_NAMES = {
    "X": ("y_proba", "features"),
    "y": ("y_true",),
    "group_column": ("X must have a column",),
    "scoring": ("scorer",),
    "batches": ("batch ",),
    "classes": ("is not one of",),
    "estimator": ("has no method",),
    "estimators": ("predictions",),
    "calibrators": ("calibrator ",),
    "cv_results": ("The search did not compute",),
    "sample_weight": ("has no column",),
    "result": ("comparisons",),
    # of methods with one argument
    "other": ("can be merged",),
    "data": ("is not a saved",),
    "path": ("PathLike", "No such file"),
    "name": ("A name to be shown",),
    "metric_name": ("A name to be shown",),
}
#: These may agree with themselves, but not with another argument, which may be the one that is named.
DISAGREE = ("shorter", "array")


@cache
def made(maker, folder):
    """Return the entries of a maker, made once."""
    if maker == "plot":
        pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    found = list(MAKERS[maker](folder))
    close_pictures()
    return found


def close_pictures():
    if not isinstance(plt, Missing):
        plt.close("all")


@pytest.fixture(scope="module", autouse=True)
def _one_measure():
    """Leave out the other measures of a report: they take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn_calib.report._numbers.ERRORS", ERRORS[:1])
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("entries")


every_maker = pytest.mark.parametrize("maker", MAKERS)


def test_every_public_callable_has_an_entry(folder):
    entries = {entry.name for maker in MAKERS for entry in made(maker, folder)}
    # only monotone maps have an inverse
    assert all(name.endswith(".inverse_transform") for name in wanted() - entries)


def wrong_values(entry):
    for name in entry.fuzzed:
        # a weight may also be the name of a column
        is_array = name in DATA and not isinstance(entry.good.get(name), str)
        for key, value in (ARRAYS if is_array else VALUES).items():
            if key == "class" and name in ("metric", "metrics", "progress"):
                # it can be called, and answers for itself
                continue
            yield name, key, iter([0.1]) if key == "iterator" else value


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


def complaint(entry, name, key, value):
    """Return what is wrong with the answer to a wrong argument, or None."""
    given = {**entry.good, name: value}
    before = {each: kept(argument) for each, argument in given.items()}
    names = (name, *OTHER_NAMES.get(name, ()), *(entry.good if key in DISAGREE else ()))
    try:
        entry.call(**given)
    except DataConversionWarning:
        # a column of labels, as scikit-learn warns
        return None
    except (ValueError, TypeError, ImportError) as error:
        if not any(known in str(error) for known in names):
            return f"does not name it: {type(error).__name__}: {error}"
    except UserWarning as error:
        # a table after a fit of arrays, as scikit-learn warns; a target that cannot be met
        known = "feature names", "always abstains"
        return None if any(words in str(error) for words in known) else repr(error)
    except FileNotFoundError as error:
        return None if name == "path" else repr(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        close_pictures()
    changed = [each for each, copied in before.items() if not same(copied, given[each])]
    return f"changed {changed}" if changed else None


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


def bounded_complaint(entry, name, key, value):
    with bounded():
        return complaint(entry, name, key, value)


@every_maker
def test_wrong_arguments(maker, folder):
    found = [
        f"{entry.name}: {name}={key}: {trouble}"
        for entry in made(maker, folder)
        for name, key, value in wrong_values(entry)
        if (trouble := bounded_complaint(entry, name, key, value)) is not None
    ]
    assert not found, "\n" + "\n".join(found)


@cache
def whole_numbers():
    """Return the names of all arguments of public callables that take whole numbers, by their annotations."""
    found = set()
    for subpackage in SUBPACKAGES:
        for public in (getattr(subpackage, name) for name in subpackage.__all__):
            methods = public_methods(public) if inspect.isclass(public) else ()
            for call in (public, *(getattr(public, method) for method in methods)):
                known = inspect.signature(call).parameters.values()
                found |= {each.name for each in known if _is_whole(str(each.annotation))}
    return found


def _is_whole(annotation):
    # what a function of the caller takes is its own business
    return re.search(r"\bint\b", annotation) is not None and "Callable" not in annotation


def test_whole_numbers_are_found_in_signatures():
    assert whole_numbers() >= {"n_bins", "n_resamples", "n_slots", "n_samples", "random_state"}


@every_maker
def test_sizes_that_no_machine_has(maker, folder):
    """Refused by name before any work, or taken at no cost; what is no whole number is refused."""
    found = []
    for entry in made(maker, folder):
        for name in set(entry.fuzzed) & whole_numbers():
            for key, value in SIZES.items():
                if (trouble := bounded_complaint(entry, name, key, value)) is not None:
                    found.append(f"{entry.name}: {name}={key}: {trouble}")
            for key, value in NO_SIZES.items():
                if not refused(entry, name, value):
                    found.append(f"{entry.name}: {name}={key} is taken")
    assert not found, "\n" + "\n".join(found)


def refused(entry, name, value):
    """Tell whether an argument is an error that names it."""
    try:
        entry.call(**{**entry.good, name: value})
    except (ValueError, TypeError) as error:
        return any(known in str(error) for known in (name, *OTHER_NAMES.get(name, ())))
    finally:
        close_pictures()
    return False


@every_maker
def test_arguments_may_be_read_only_and_stay_as_they_are(maker, folder):
    for entry in made(maker, folder):
        frozen = kept(entry.good)
        for value in frozen.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        entry.call(**frozen)
        close_pictures()
        for name, value in frozen.items():
            assert same(value, entry.good[name]), (entry.name, name)


ESTIMATORS = [cls for subpackage in (calibrators, inference, monitor) for cls in estimators(subpackage)]
ESTIMATORS += [CalibratedClassifier, CrossFitScorer, SelectiveClassifier]


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_parameters_are_kept_as_they_are_until_they_are_used(cls):
    """As scikit-learn asks: nothing is checked before fit."""
    for name in cls(**good_parameters(cls)).get_params(deep=False):
        wrong = object()
        made: BaseEstimator = cls(**{**good_parameters(cls), name: wrong})
        assert made.get_params(deep=False)[name] is wrong
        with pytest.raises((ValueError, TypeError)):
            made.fit(np.array([0.2, 0.8, 0.3, 0.7]), np.array([0, 1, 1, 0]))
