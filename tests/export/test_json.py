"""JSON documents: the same map, the published schema, and errors for all that is damaged."""

import json
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_calib import CalibratedClassifier
from sklearn_calib import calibrators as cal
from sklearn_calib.export import ExportedCalibrator, from_json, to_json
from sklearn_calib.monitor import StreamingCalibrator
from sklearn_calib.report import CalibrationRequirements
from sklearn_calib.sketch import CalibrationSketch
from tests._optional import jsonschema
from tests.calibrators._own import Keeper
from tests.export._fitted import CASES, IDS, VOTED, data, every_class, fingerprint, fitted, new_scores, votes

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "_static" / "exported_calibrator.schema.json"
#: A document of the first version of the format, which all later releases must read.
FIRST = (
    '{"format": "sklearn_calib.map", "version": 1, "written_by": "sklearn_calib 0.1.0", "calibrator": '
    '"IsotonicCalibrator", "classes": ["no", "yes"], "columns": 1, "input": "score", "certain": true, '
    '"tolerance": 0.0, "training": {"n_samples": 5.0, "event_rate": 0.4, "date": "2026-01-31"}, '
    '"certificate": null, "map": {"kind": "linear", "axis": "score", "center": 0.0, "scale": 1.0, "values": '
    '"probability", "x": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 0.5, 0.5, 1.0]}, "fingerprint": "FINGERPRINT"}'
)


@pytest.fixture(scope="module")
def schema():
    given = json.loads(SCHEMA.read_text(encoding="utf-8"))
    made = jsonschema.validators.validator_for(given)
    made.check_schema(given)
    return made(given)


@every_class
def test_loaded_map_is_that_of_the_calibrator(case, n_classes, schema):
    calibrator, loaded = fitted(case, n_classes)
    schema.validate(loaded.document)
    scores = new_scores(case, n_classes, 2000)
    deviation = np.abs(loaded.transform(scores) - calibrator.transform(scores)).max()
    tolerance = loaded.document["tolerance"]
    # where nothing is approximated only rounding differs
    assert deviation <= max(tolerance, 1e-14)
    assert loaded.transform(scores).shape == scores.shape
    np.testing.assert_array_equal(loaded.classes_, calibrator.classes_)
    np.testing.assert_allclose(loaded.predict_proba(scores).sum(axis=1), 1.0, atol=1e-12)
    if case.monotone and n_classes == 2:
        assert (np.diff(loaded.transform(np.sort(scores))) >= 0).all()


def test_schema_refuses_other_documents(schema):
    document = json.loads(FIRST.replace("FINGERPRINT", "0" * 64))
    schema.validate(document)
    document["map"]["x"] = ["1"]
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(document)


def test_a_document_of_the_first_version_is_read():
    loaded = from_json(FIRST.replace("FINGERPRINT", FIRST_FINGERPRINT))
    np.testing.assert_array_equal(loaded.transform([0.0, 1.5, 2.7, 3.5, 9.0]), [0.0, 0.25, 0.5, 0.75, 1.0])
    assert (loaded.predict([4.0]).tolist(), loaded.n_knots_) == (["yes"], 4)


FIRST_FINGERPRINT = "a64783041ed91bc05add97cb51f20c1bdc0004781c0e96abb65ca61e67b54b67"


@pytest.mark.parametrize("link", ["logit", "identity"])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_splines_deviate_by_no_more_than_the_tolerance_anywhere(link, tolerance):
    """Compare with the calibrator on a grid that is a hundred times finer than the knots."""
    scores, labels = data(2)
    scores = scores if link == "logit" else 100.0 * scores - 30.0
    calibrator = cal.SplineCalibrator(link=link).fit(scores, labels)
    loaded = from_json(to_json(calibrator, tolerance=tolerance))
    knots = np.array(loaded.document["map"]["x"])
    fine = np.interp(np.arange(100 * knots.size) / 100.0, np.arange(knots.size), knots)
    fine = np.append(fine, [0.0, 1.0] if link == "logit" else [-1e100, 1e100, -1e5, 1e5, 1e20])
    assert np.abs(loaded.transform(fine) - calibrator.transform(fine)).max() <= tolerance
    assert loaded.n_knots_ < 2.0 / np.sqrt(tolerance)


@pytest.mark.parametrize(
    "calibrator", [cal.VennAbersCalibrator(), cal.ScalingBinningCalibrator(random_state=0)]
)
def test_jumps_lie_at_the_same_floats(calibrator):
    scores, labels = data(2)
    calibrator.fit(scores, labels)
    loaded = from_json(to_json(calibrator))
    edges = np.append(scores, loaded.document["map"].get("edges", []))
    near = np.concatenate([edges, np.nextafter(edges, 0.0), np.nextafter(edges, 1.0)])
    np.testing.assert_array_equal(loaded.transform(near), calibrator.transform(near))
    assert loaded.document["tolerance"] == 0.0


PLATT, STEPS = cal.PlattCalibrator(link="identity"), cal.IsotonicCalibrator(interpolation="step")


def test_a_falling_map_stays_one():
    scores, labels = data(2)
    loaded = from_json(to_json(cal.SplineCalibrator(monotone=True).fit(1.0 - scores, labels)))
    assert (np.diff(loaded.transform(np.linspace(0.0, 1.0, 5000))) <= 0).all()


@pytest.mark.parametrize(
    "calibrator",
    [
        Keeper(np.square),
        cal.OneVsRestCalibrator(Keeper(np.square)),
        cal.CertifiedCalibrator("passthrough", target=0.9),
        cal.CertifiedCalibrator(LogisticRegression(), random_state=0),
        StreamingCalibrator(cal.IsotonicCalibrator()),
        StreamingCalibrator(cal.BetaCalibrator()),
        cal.LogAverageCalibrator([cal.HistogramBinningCalibrator(), Keeper(np.square)]),
        cal.LogAverageCalibrator([cal.HistogramBinningCalibrator(), STEPS]),
        cal.LogAverageCalibrator([PLATT, cal.IsotonicCalibrator()]),
        cal.LogAverageCalibrator([cal.IsotonicCalibrator(), cal.SplineCalibrator(link="identity")]),
        cal.LogAverageCalibrator([cal.SplineCalibrator(link="identity"), PLATT]),
        cal.CertifiedCalibrator(FrozenEstimator(cal.IsotonicCalibrator().fit(*data(2)))),
    ],
    ids=lambda calibrator: type(calibrator).__name__,
)
def test_calibrators_around_others_and_of_users_are_approximated(calibrator):
    scores, labels = data(2)
    calibrator.fit(scores, labels)
    loaded, new = from_json(to_json(calibrator, tolerance=1e-5)), new_scores(None, 2, 4000)
    assert np.abs(loaded.transform(new) - calibrator.transform(new)).max() <= 1e-5


def test_groups():
    scores, labels = data(2)
    groups = np.array(["a", "b'\"", "c"])[np.arange(scores.size) % 3]
    groups[:3] = "rare"
    calibrator = cal.GroupCalibrator(cal.IsotonicCalibrator()).fit(scores, labels, groups=groups)
    loaded = from_json(to_json(calibrator))
    wanted = calibrator.transform(scores, groups=groups)
    np.testing.assert_allclose(loaded.transform(scores, groups=groups), wanted, rtol=0, atol=1e-15)
    unknown = np.full(scores.size, "unknown")
    expected = calibrator.predict_proba(scores, unknown)
    np.testing.assert_allclose(loaded.predict_proba(scores, unknown), expected, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match="groups are missing"):
        loaded.transform(scores)
    with pytest.raises(ValueError, match="Omit groups"):
        from_json(to_json(cal.IsotonicCalibrator().fit(scores, labels))).transform(scores, groups)


def test_training_data_and_certificate_are_recorded(tmp_path):
    scores, labels = data(2)
    calibrator = cal.IsotonicCalibrator().fit(scores, labels)
    certificate, path = calibrator.cutoff_certificate(random_state=0), tmp_path / "map.json"
    text = to_json(calibrator, path, certificate=certificate, date="2026-01-31")
    loaded = from_json(path)
    assert loaded.document == json.loads(text)
    expected = {"n_samples": float(scores.size), "event_rate": labels.mean(), "date": "2026-01-31"}
    assert loaded.document["training"] == expected
    assert loaded.document["certificate"]["bound"] == certificate.upper
    assert "2026-01-31" in str(loaded)
    assert f"{certificate.upper:.4f}" in str(loaded)
    # what is loaded can be written again
    assert to_json(loaded) == text
    assert from_json(to_json(calibrator, date="2026-02-01")).fingerprint_ != loaded.fingerprint_
    for date, shown in ((2026, "2026"), ("2026\x1b[31m", "'2026.x1b")):
        with pytest.raises(ValueError, match=f"date must be a printable text .* got {shown}"):
            to_json(calibrator, date=date)
    with pytest.raises(TypeError, match="certificate must be the result of cutoff_certificate"):
        to_json(calibrator, certificate=0.1)


def test_calibrated_classifier_with_one_member():
    scores, labels = data(2)
    X = np.column_stack([scores, 1.0 - scores])
    model = CalibratedClassifier(LogisticRegression(), cal.PlattCalibrator(), ensemble=False).fit(X, labels)
    loaded, bare = from_json(to_json(model)), model.estimators_[0].predict_proba(X)
    np.testing.assert_allclose(loaded.predict_proba(bare), model.predict_proba(X), rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="Fit it with ensemble=False"):
        to_json(CalibratedClassifier(LogisticRegression(), cv=2).fit(X, labels))


def test_scores_are_checked_as_those_of_the_calibrator():
    loaded, bad = from_json(to_json(cal.PlattCalibrator().fit(*data(2)))), [([0.1, np.nan], "NaN|nan")]
    for scores, match in [*bad, ([0.1, 1.5], "1.5"), ([], "empty"), (np.full((2, 3), 1 / 3), "3 columns")]:
        with pytest.raises(ValueError, match=match):
            loaded.transform(np.asarray(scores))


@pytest.mark.parametrize(
    ("calibrator", "error", "match"),
    [
        (cal.PlattCalibrator(), ValueError, "not fitted"),
        (LogisticRegression(), TypeError, "must be a fitted calibrator"),
        (cal.SmoothedCalibrator(randomized=True, random_state=0).fit(*data(2)), ValueError, "random"),
        (cal.PlattCalibrator().fit([0.1, 0.9], np.array(["2026", "2027"], "M8[Y]")), TypeError, "Encode"),
    ],
    ids=["unfitted", "classifier", "random", "dates"],
)
def test_what_cannot_be_exported_says_so(calibrator, error, match):
    with pytest.raises(error, match=match):
        to_json(calibrator)


def test_other_calibrators_of_several_classes_are_not_exported():
    for member in (Keeper(np.square), LogisticRegression()):
        with pytest.raises(TypeError, match=r"cannot be exported.*OneVsRestCalibrator"):
            to_json(cal.LogAverageCalibrator([member]).fit(*data(3)))


@pytest.mark.parametrize(
    ("calibrator", "scale"),
    [
        (cal.SplineCalibrator(link="identity", monotone=True), 1e-90),
        (cal.SplineCalibrator(link="identity", monotone=True), 1e90),
        (cal.IsotonicCalibrator(), 1e-90),
        (cal.PlattCalibrator(link="identity"), 1e-90),
        (cal.PlattCalibrator(link="identity"), 1e12),
    ],
)
def test_scores_of_any_size(calibrator, scale):
    scores, labels = data(2)
    calibrator.fit((scores - 0.4) * scale, labels)
    loaded = from_json(to_json(calibrator, tolerance=1e-4))
    new = np.concatenate([(np.linspace(-3.0, 3.0, 1001) - 0.4) * scale, [-1e100, 1e100]])
    # Platt scaling of tiny scores overflows to log-odds of infinity, as it should
    with np.errstate(over="ignore"):
        found, wanted = loaded.transform(new), calibrator.transform(new)
    assert np.abs(found - wanted).max() <= 1e-4


def test_a_tolerance_that_needs_too_many_knots_says_so():
    with pytest.raises(ValueError, match="Pass a greater one"):
        to_json(cal.SplineCalibrator().fit(*data(2)), tolerance=1e-12)
    with pytest.raises(ValueError, match="tolerance"):
        to_json(cal.SplineCalibrator().fit(*data(2)), tolerance=0.0)


def documents():
    """Return sound documents of all kinds of maps, as text, none of them long."""
    names = {"isotonic-2", "beta-2", "platt_identity-2", "venn_abers-2", "structured_matrix-3"}
    names |= {"log_average-3", "one_vs_rest_isotonic-3"}
    for (case, n_classes), name in zip(CASES, IDS, strict=True):
        if name in names:
            scores, labels = data(n_classes)
            yield to_json(case.make().fit(scores[:40], labels[:40]))


def places(value, path=()):
    """Yield the path of everything in a document."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        if not isinstance(key, int) or key < 1:
            yield from places(part, (*path, key))


WRONG = [None, True, -1, 1e308, "\x1b[31m" * 2000, [], {}, [[1]], {"kind": "step"}, 10**400, ["b", "a"], "1"]


def signed(document):
    """Return a document with the fingerprint of what it says, as a forger would write it."""
    try:
        return {**document, "fingerprint": fingerprint(document)}
    except (ValueError, OverflowError):
        return document


def test_damaged_documents_raise_value_errors_and_nothing_else():
    messages = []
    for text in documents():
        for path in places(json.loads(text)):
            for wrong in WRONG:
                document = json.loads(text)
                part = document
                for key in path[:-1]:
                    part = part[key]
                if not path or part[path[-1]] == wrong:
                    continue
                part[path[-1]] = wrong
                with pytest.raises(ValueError, match=r"damaged|not an exported calibrator|version"):
                    ExportedCalibrator(document)
                try:
                    loaded = ExportedCalibrator(signed(document))
                except ValueError as error:
                    messages.append(str(error))
                    continue
                # what a forger has signed is a map, if another one
                assert "\x1b" not in str(loaded)
                width = len(loaded.document["classes"])
                proba = loaded.predict_proba(np.full((3, width), 1.0 / width))
                assert ((proba >= 0) & (proba <= 1)).all()
    assert len(messages) > 300
    assert all(message.isprintable() and len(message) < 300 for message in messages)


def changed(**parts):
    """Return a sound document in which parts are replaced, with the fingerprint of what it contains."""
    return ExportedCalibrator(signed(json.loads(FIRST) | parts))


CERTIFICATE = {"bound": 0.1, "method": "", "n_samples": 5, "note": ""}
BETA = {"kind": "beta", "low": 2.0, "high": 2.0, "intercept": 0.5}


def test_numbers_and_texts_of_documents_are_checked():
    for parts, problem in [
        ({"columns": 3}, "columns do not match"),
        ({"columns": True}, "columns do not match"),
        ({"classes": ["yes", "no"]}, "classes are not sorted"),
        ({"classes": [0, 2**63]}, "a class is too large"),
        ({"tolerance": "0"}, "tolerance is out of range"),
        ({"training": {"n_samples": 5.0, "event_rate": 1.5, "date": None}}, "event_rate is out of range"),
        ({"training": {"n_samples": True, "event_rate": 0.5, "date": None}}, "n_samples is out of range"),
        ({"training": {"n_samples": 5.0, "event_rate": 0.5, "date": "\x1b[2J"}}, "date is no text"),
        ({"certificate": {**CERTIFICATE, "confidence": 95}}, "confidence of the certificate is out of range"),
        ({"map": {"kind": "logistic", "slope": "1", "intercept": 0.0}}, "slope is not numeric"),
        ({"map": {"kind": "step", "edges": [0.5], "values": [False, True]}}, "values is not numeric"),
        ({"map": {**BETA, "floor": 0.6}}, "floor is out of range"),
        ({"map": {**BETA, "floor": 0.0}}, "floor is out of range"),
    ]:
        with pytest.raises(ValueError, match=f"damaged: {problem}"):
            changed(**parts)


@pytest.mark.parametrize("floor", [2.0**-53, 2.0**-10, 0.5])
def test_probabilities_are_clipped_at_the_limit_of_the_document(floor):
    """The limit was 2**-53 once, and is that of the fit now."""
    loaded = changed(input="probability", map={**BETA, "floor": floor})
    p = np.array([0.0, 1e-300, 1e-6, 0.2, 0.5, 0.9, 1.0])
    expected = expit(2 * logit(np.clip(p, floor, 1 - floor)) + 0.5)
    np.testing.assert_allclose(loaded.transform(p), np.clip(expected, 2.0**-53, 1 - 2.0**-53), rtol=1e-12)


@pytest.mark.parametrize("name", VOTED)
def test_corners_at_the_limit(name):
    calibrator = VOTED[name].fit(*votes())
    loaded, p = from_json(to_json(calibrator, tolerance=1e-5)), np.linspace(0.0, 1.0, 20_001)
    found = np.abs(loaded.transform(p) - calibrator.transform(p)).max()
    assert found <= (loaded.document["tolerance"] or 1e-13)
    np.testing.assert_allclose(loaded.transform([0.0, 1.0]), loaded.transform([0.01, 0.99]), atol=1e-5)


def test_labels_keep_their_ends_and_need_little_memory():
    loaded = changed(classes=["a", "a\0"])
    assert loaded.predict([0.0, 4.0]).tolist() == ["a", "a\0"]
    # as an array of texts of equal width these labels would have 4 GB
    labels = sorted(["a" * 500_000, *map(str, range(2000))])
    softmax = {"kind": "softmax", "floor": 0.0, "beta": 1.0, "share": 1.0, "center": False}
    softmax |= {"coef": [1.0] * 2001, "intercept": [0.0] * 2001}
    tracemalloc.start()
    loaded = changed(classes=labels, columns=2001, map=softmax)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert loaded.predict(np.eye(2001)[:3]).tolist() == labels[:3]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"format": "sklearn_calib.map"}',
        '{"format": "sklearn_calib.map", "version": 1, "version": 1}',
        '{"format": "pickle", "version": 1}',
        '{"a":' * 100_000,
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"damaged|not an exported calibrator"):
        from_json(text)


def test_newer_versions_and_binary_files_are_refused(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(cal.PlattCalibrator()))
    for read, source, error, message in (
        (from_json, '{"format": "sklearn_calib.map", "version": 2}', ValueError, "newer release"),
        (from_json, path, ValueError, r"not an exported calibrator|damaged"),
        (from_json, tmp_path / "none.json", FileNotFoundError, "none.json"),
        (ExportedCalibrator, [], ValueError, "not an exported calibrator"),
        (from_json, {}, TypeError, "source must be JSON text or a pathlib.Path"),
        # a text is not the name of a file, which may be a device without an end
        (from_json, str(path), ValueError, "not JSON .* Pass a pathlib.Path to read a file"),
        (from_json, "/dev/zero", ValueError, "not JSON .* Pass a pathlib.Path to read a file"),
    ):
        with pytest.raises(error, match=message):
            read(source)


def test_byte_order_marks_and_devices(tmp_path):
    text, path = to_json(cal.PlattCalibrator().fit(*data(2))), tmp_path / "map.json"
    path.write_text(text, encoding="utf-8-sig")
    assert from_json(path).document == from_json(f"\ufeff{text}").document == json.loads(text)
    path.write_text("slope = [0.5, 1.5]", encoding="utf-8-sig")
    assert CalibrationRequirements.from_toml(path).limits == {"slope": [0.5, 1.5]}
    zero, link = Path("/dev/zero"), tmp_path / "sketch.json"
    if zero.exists():
        link.symlink_to(zero)
        for read in (from_json, CalibrationRequirements.from_toml, CalibrationSketch.load):
            with pytest.raises(ValueError, match="is a pipe or device with more than"):
                read(link)


def test_loaded_calibrator_is_an_estimator():
    scores, labels = data(2)
    loaded = from_json(to_json(cal.PlattCalibrator().fit(scores, labels)))
    assert loaded.fit(scores, labels) is loaded
    for copy in (clone(loaded), pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_array_equal(copy.transform(scores), loaded.transform(scores))
    assert loaded.transform(scores[:, np.newaxis]).shape == (scores.size, 1)
    both = np.column_stack([1.0 - scores, scores])
    np.testing.assert_array_equal(loaded.transform(both), loaded.predict_proba(scores))
    assert loaded.predict(both).tolist() == (loaded.transform(scores) > 0.5).astype(int).tolist()
    np.testing.assert_array_equal(loaded.transform(scores.astype(np.float32).tolist()).shape, scores.shape)
    # it can calibrate a classifier further, as it is
    frozen = FrozenEstimator(LogisticRegression().fit(both, labels))
    model = CalibratedClassifier(frozen, loaded, response_method="predict_proba")
    assert model.fit(both, labels).predict_proba(both).shape == both.shape
