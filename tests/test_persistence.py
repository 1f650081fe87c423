"""Saved and loaded, every estimator predicts and every result says the same, and versions are told apart."""

import copy
import importlib
import io
import itertools
import pickle
import warnings
import zlib
from functools import cache
from importlib.util import find_spec

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from sklearn_calib import SavedVersionWarning, __version__
from sklearn_calib._persistence import _FORMAT, VersionStamped, versions_agree
from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.inference import SequentialTest, TCal
from sklearn_calib.scorers import BestCalibrated, MultiScorer, PValueScorer, get_scorer, get_scorer_names
from sklearn_calib.sketch import CalibrationSketch
from tests import _every as every

STAMP = "_sklearn_calib_version"
# a development version has the number of the format
STAMPED = f"{__version__}+{_FORMAT}" if "dev" in __version__ else __version__
# of the attributes of all fitted estimators, for this number
ATTRIBUTES = (3, "65fc0376")
result = cache(lambda name: every.RESULT_MAKERS[name]())


@cache
def fitted_model(name):
    return clone(every.META_MAKERS[name]).fit(*every.features())


def by_pickle(value):
    """Return what the newest protocol makes of it; the oldest that knows such classes must match."""
    first, second = (pickle.loads(pickle.dumps(value, protocol)) for protocol in (2, pickle.HIGHEST_PROTOCOL))
    assert every.differs(first, second) is None
    return second


def by_joblib(value):
    file = io.BytesIO()
    joblib.dump(value, file, compress=3)
    file.seek(0)
    return joblib.load(file)


def by_skops(value):
    skops = importlib.import_module("skops.io")
    data = skops.dumps(value)
    unknown = skops.get_untrusted_types(data=data)
    # names of the package alone, which a reader can decide upon
    assert [name for name in unknown if not name.startswith("sklearn_calib.")] == []
    return skops.loads(data, trusted=unknown)


OTHER_WAYS = [by_joblib, copy.deepcopy, *([by_skops] if find_spec("skops") else [])]
WAYS = [by_pickle, *OTHER_WAYS]


def ways(names):
    """Parametrize by names, each with pickle and another way; every name with every way is thorough."""
    others = itertools.cycle([by_pickle, other] for other in OTHER_WAYS)
    pairs = [pytest.param(name, chosen, id=name) for name, chosen in zip(names, others, strict=False)]
    everything = [pytest.param(name, WAYS, id=f"{name}-all", marks=pytest.mark.thorough) for name in names]
    return pytest.mark.parametrize(("name", "chosen"), pairs + everything)


@ways(every.CALIBRATOR_NAMES)
def test_calibrators(name, chosen):
    calibrator, scores = every.fitted_calibrator(name)
    proba, transformed = calibrator.predict_proba(scores), calibrator.transform(scores)
    for way in chosen:
        loaded = way(calibrator)
        assert every.differs(calibrator, loaded) is None
        np.testing.assert_array_equal(loaded.predict_proba(scores), proba)
        np.testing.assert_array_equal(loaded.transform(scores), transformed)


@ways(every.META_MAKERS)
def test_classifiers(name, chosen):
    X, _ = every.features()
    model = fitted_model(name)
    method = "transform" if hasattr(model, "transform") else "predict_proba"
    for way in chosen:
        loaded = way(model)
        np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))
        assert repr(loaded) == repr(model)


@ways(every.TEST_MAKERS)
def test_tests_of_calibration(name, chosen):
    y, p = every.binary(60)
    test = clone(every.TEST_MAKERS[name]).fit(p, y)
    for way in chosen:
        loaded = way(test)
        assert every.differs(test.result_, loaded.result_) is None
        assert (loaded.score(p, y), str(loaded.result_)) == (test.pvalue_, str(test.result_))


@ways(every.RESULT_MAKERS)
def test_results(name, chosen):
    found = result(name)
    for way in chosen:
        loaded = way(found)
        if name != "pairs":  # pairs hold classifiers of scikit-learn, which are compared by what they predict
            assert every.differs(found, loaded) is None
        assert str(loaded) == str(found)
        # the page of a report draws pictures, which takes long
        if hasattr(found, "_repr_html_") and not name.startswith("report"):
            assert loaded._repr_html_() == found._repr_html_()


def test_no_public_estimator_or_result_is_left_out():
    made = [every.fitted_calibrator(name)[0] for name in every.CALIBRATOR_NAMES]
    made += [fitted_model(name) for name in every.META_MAKERS] + list(every.TEST_MAKERS.values())
    made += [result(name) for name in every.RESULT_MAKERS] + list(SCORERS.values())
    made.append(RULE)
    kinds = {type(part) for part in every.parts(made)}
    missing = (every.public_estimators() | every.public_dataclasses()) - kinds
    assert {kind.__name__ for kind in missing} == set(), "add what makes them to tests/_every.py"


RULE = BestCalibrated(calibration="mean_test_neg_smooth_ece", proper="mean_test_neg_log_loss")
SCORERS = {name: get_scorer(name) for name in get_scorer_names() if "calib" in name or "ece" in name} | {
    "multi": MultiScorer(["neg_smooth_ece", "neg_brier_score"]),
    "p-value": PValueScorer(TCal(n_resamples=19, random_state=0)),
}


@ways(SCORERS)
def test_scorers(name, chosen):
    X, y = every.features()
    model, scorer = fitted_model("pooled"), SCORERS[name]
    for way in chosen:
        loaded = way(scorer)
        assert (loaded(model, X, y), repr(loaded)) == (scorer(model, X, y), repr(scorer))
        assert repr(way(RULE)) == repr(RULE)


@pytest.mark.parametrize("way", WAYS)
def test_sketches_and_streams_go_on_after_loading(way):
    y, p = every.binary()
    sketch = CalibrationSketch().update(y[:50], p[:50])
    loaded = way(sketch)
    assert loaded == sketch
    assert loaded.update(y[50:], p[50:]) == sketch.update(y[50:], p[50:])
    y, p = every.binary()
    whole = SequentialTest().partial_fit(p[:40], y[:40], classes=[0, 1])
    half = way(whole)
    for test in (whole, half):
        test.partial_fit(p[40:], y[40:])
    assert every.differs(whole, half) is None


def test_arrays_that_are_mapped_read_only(tmp_path):
    """What workers get from joblib: no method writes into what was fitted."""
    for name in every.CALIBRATOR_NAMES:
        calibrator, scores = every.fitted_calibrator(name)
        path = tmp_path / f"{name}.joblib"
        joblib.dump(calibrator, path)
        loaded = joblib.load(path, mmap_mode="r")
        np.testing.assert_array_equal(loaded.predict_proba(scores), calibrator.predict_proba(scores), name)


def test_the_stamp_is_in_the_state_and_nowhere_else():
    calibrator = PlattCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    assert calibrator.__getstate__()[STAMP] == STAMPED
    assert STAMP.encode() in pickle.dumps(calibrator)
    assert not hasattr(calibrator, STAMP)
    assert not hasattr(pickle.loads(pickle.dumps(calibrator)), STAMP)
    assert STAMP not in calibrator.get_params()


def saved_by(version, estimator, monkeypatch):
    """Return a pickle as that version would have written it; None for a version that left no stamp."""
    with monkeypatch.context() as patch:
        patch.setattr("sklearn_calib._persistence.__version__", version)
        if version is None:
            patch.setattr(VersionStamped, "__getstate__", lambda self: self.__dict__.copy())
        return pickle.dumps(estimator)


@pytest.mark.parametrize("version", ["0.0.9", "7.3.1", "0.1.0.dev99", None, "no version"])
def test_other_versions_warn_and_load(version, monkeypatch):
    calibrator, scores = every.fitted_calibrator("platt")
    data = saved_by(version, calibrator, monkeypatch)
    with pytest.warns(SavedVersionWarning) as caught:
        loaded = pickle.loads(data)
    assert caught[0].filename == __file__
    message = caught[0].message
    assert (message.estimator_name, message.installed_version) == ("PlattCalibrator", STAMPED)
    assert message.saved_version.partition("+")[0] == (version or "unknown")
    text = str(message)
    assert text.startswith(
        f"PlattCalibrator was saved by sklearn_calib {message.saved_version} and is loaded"
    )
    assert "Fit it again" in text
    np.testing.assert_array_equal(loaded.predict_proba(scores), calibrator.predict_proba(scores))
    # saved again it is one of this version
    pickle.loads(pickle.dumps(loaded))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SavedVersionWarning)
        with pytest.raises(SavedVersionWarning, match="PlattCalibrator was saved by"):
            pickle.loads(data)


def test_another_format_of_a_development_version_warns(monkeypatch):
    calibrator, _ = every.fitted_calibrator("platt")
    with monkeypatch.context() as patch:
        patch.setattr("sklearn_calib._persistence._FORMAT", _FORMAT - 1)
        data = saved_by("0.1.0.dev0", calibrator, monkeypatch)
    monkeypatch.setattr("sklearn_calib._persistence.__version__", "0.1.0.dev0")
    with pytest.warns(SavedVersionWarning, match=rf"by sklearn_calib 0\.1\.0\.dev0\+{_FORMAT - 1} and is"):
        pickle.loads(data)


def test_new_attributes_have_a_new_format():
    made = [every.fitted_calibrator(name)[0] for name in every.CALIBRATOR_NAMES]
    made += [fitted_model(name) for name in every.META_MAKERS]
    stamped = [part for part in every.parts(made) if isinstance(part, VersionStamped)]
    kinds = {f"{type(part).__name__} {sorted(vars(part))}" for part in stamped}
    digest = f"{zlib.crc32(repr(sorted(kinds)).encode()):08x}"
    assert (_FORMAT, digest) == ATTRIBUTES, "attributes have changed: increase _FORMAT, and write both here"


@pytest.mark.parametrize(
    ("saved", "installed", "agree"),
    [("1.2.0", "1.2.7", True), ("1.2.7", "1.2.0", True), ("1.2.0", "1.3.0", False),
     ("1.2.0", "2.2.0", False), ("0.1.0", "0.2.0", False), ("1.2.0.dev0", "1.2.0.dev0", True),
     ("1.2.0.dev0", "1.2.0", False), ("1.2.0", "1.2.1rc1", False), ("1.20.0", "1.2.0", False),
     ("unknown", "1.2.0", False)],
)  # fmt: skip
def test_which_versions_agree(saved, installed, agree):
    assert versions_agree(saved, installed) is agree
