"""Files: nothing is lost, and what is no sketch is refused."""

import errno
import json
import os
import stat
import zlib

import numpy as np
import pytest

from sklearn_calib.monitor import CalibrationMonitor, StreamingCalibrator
from sklearn_calib.sketch import CalibrationSketch, WindowedSketch


def sketches():
    rng = np.random.default_rng(0)
    p = np.concatenate((rng.random(500), 2.0 ** -rng.uniform(0, 70, 100), [0.0, 1.0]))
    y = rng.random(p.shape[0]) < p
    return {
        "counts": CalibrationSketch().update(y, p),
        "real weights": CalibrationSketch().update(y, p, sample_weight=rng.exponential(size=p.shape[0])),
        "large": CalibrationSketch().update(y, p, sample_weight=np.full(p.shape[0], 1e15)),
        "label": CalibrationSketch(pos_label="ill", precision=12).update(np.where(y, "ill", "well"), p),
        "number": CalibrationSketch(pos_label=np.int64(2)).update(y + 1, p),
        "empty": CalibrationSketch(),
    }


@pytest.mark.parametrize("name", list(sketches()))
def test_files_and_dicts_are_exact(name, tmp_path):
    sketch, path = sketches()[name], tmp_path / "sketch.JSON"
    sketch.save(path)
    again = CalibrationSketch.load(str(path))
    assert again == sketch == CalibrationSketch.from_dict(json.loads(json.dumps(sketch.to_dict())))
    assert (again.n_samples, again.pos_label) == (sketch.n_samples, sketch.pos_label)
    if sketch.n_samples:
        np.testing.assert_array_equal(again.weighted_sample(), sketch.weighted_sample())
    # it can be gone on with, and written over; nothing else is left in the folder
    again.merge(sketch).save(path)
    assert CalibrationSketch.load(path) == sketch + sketch
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_damaged_and_foreign_dicts_are_refused():
    for change, message in [
        ({"format": "something"}, "not a saved CalibrationSketch"),
        ({"version": 2}, "version 2 of the format, but 4 is supported. Read it with the release"),
        ({"more": 1}, "checksum"),
        ({"checksum": None}, "checksum"),
        ({"n_samples": 4}, "checksum"),
        ({"pos_label": [1]}, "checksum"),
        ({"bins": [5]}, "checksum"),
        ({"negatives": [1, float("nan")]}, "checksum"),
        ({"values": [0.5, None]}, "checksum"),
    ]:
        found = CalibrationSketch().update([0, 1, 1], [0.5, 0.5, 0.75]).to_dict()
        with pytest.raises(ValueError, match=message):
            CalibrationSketch.from_dict(found | change)
        (key,) = change
        found.pop(key, None)
        with pytest.raises(ValueError, match=r"damaged|not a saved|version None|checksum"):
            CalibrationSketch.from_dict(found if key != "more" else {})


def test_bad_names_and_missing_files(tmp_path):
    sketch, tuples = CalibrationSketch(), CalibrationSketch(pos_label=("a", "b"))
    for call, path, error, message in (
        (sketch.save, tmp_path / "sketch.csv", ValueError, r"path must end in \.json"),
        (CalibrationSketch.load, "sketch", ValueError, r"path must end in \.json"),
        (CalibrationSketch.load, tmp_path / "none.json", FileNotFoundError, "none"),
        (sketch.save, tmp_path / "none" / "sketch.json", FileNotFoundError, "none"),
        (tuples.save, tmp_path / "sketch.json", ValueError, "cannot be written"),
    ):
        with pytest.raises(error, match=message):
            call(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_files_keep_their_mode_and_may_lie_in_folders_that_take_no_others(tmp_path, monkeypatch):
    sketch, path = CalibrationSketch().update([0, 1], [0.25, 0.75]), tmp_path / "sketch.json"
    for bits in (0o600, 0o664):
        path.write_bytes(b"old")
        path.chmod(bits)
        sketch.save(path)
        assert (stat.S_IMODE(path.stat().st_mode), CalibrationSketch.load(path)) == (bits, sketch)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    WindowedSketch(window=10).save(link)
    assert link.is_symlink()
    assert WindowedSketch.load(path) == WindowedSketch(window=10)

    # a file that may be written in a folder that may not
    def refused(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied", "part")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        sketch.save(path)
        with pytest.raises(PermissionError) as caught:
            sketch.save(tmp_path / "new.json")
        assert caught.value.filename == str(tmp_path / "new.json")
    assert (CalibrationSketch.load(path), len(list(tmp_path.iterdir()))) == (sketch, 2)


def damaged(content, rng):
    """Return bytes with one small damage."""
    where, kind = int(rng.integers(len(content))), rng.integers(4)
    if kind == 0:
        return content[:where] + bytes([int(rng.integers(256))]) + content[where + 1 :]
    if kind == 1:
        return content[:where] + b"0123456789"[(d := int(rng.integers(10))) : d + 1] + content[where + 1 :]
    length = int(rng.integers(1, 5))
    if kind == 2:
        return content[:where] + content[where + length :]
    return content[: where + length] + content[where:]


@pytest.mark.parametrize("kind", [CalibrationSketch, WindowedSketch])
def test_random_damage_never_makes_other_numbers(kind, tmp_path):
    rng = np.random.default_rng(0)
    y, p, path = np.arange(12) % 3 % 2, np.arange(12) / 12.0, tmp_path / "sketch.json"
    if kind is WindowedSketch:
        sketch = WindowedSketch(10.0, n_slots=2).update(y, p, time=np.arange(12) / 2.0)
    else:
        sketch = CalibrationSketch().update(y, p, sample_weight=rng.integers(1, 4, 12) / 3.0)
    sketch.save(path)
    whole, refused = path.read_bytes(), 0
    others = [b"", b"abc", whole[: len(whole) // 2], b"[1]", b"\xff\xfe"]
    for content in [*others, *(damaged(whole, rng) for _ in range(200))]:
        path.write_bytes(content)
        try:
            found = kind.load(path)
        except ValueError as error:
            assert any(word in str(error) for word in ("saved", "version", "damaged"))  # noqa: PT017
            refused += 1
        else:
            # a digit for the same digit
            assert found.to_dict() == sketch.to_dict()
    assert refused > 130


WRONG = [None, True, -1, 0.5, 3, 1e308, 10**400, float("nan"), "text", [], {}, [1], [[1, {}]], ["a"]]
WINDOWS = {
    "sketch": CalibrationSketch(pos_label="a").update(["a", "b", "a"], [0.5, 0.5, 0.75]),
    "numbers": WindowedSketch(10.0, n_slots=2).update([0, 1, 1], [0.1, 0.2, 0.3], time=[1.0, 2.0, 8.0]),
    "dates": WindowedSketch(np.timedelta64(2, "D"), n_slots=2).update(1, 0.5, time=np.datetime64("2026-01")),
}


def places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        if not isinstance(key, int) or key < 1:
            yield from places(part, (*path, key))


def signed(document):
    """Return a dict with the checksum of its content."""
    content = {key: value for key, value in document.items() if key not in ("format", "version", "checksum")}
    return document | {"checksum": f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"}


@pytest.mark.parametrize("kind", WINDOWS)
def test_wrong_contents_with_a_right_checksum(kind):
    """They are a ValueError, or another sketch that can be used."""
    whole, refused = WINDOWS[kind].to_dict(), 0
    for path in places(whole):
        for wrong in (*WRONG, "left out", "once more"):
            document = json.loads(json.dumps(whole))
            part = document
            for key in path[:-1]:
                part = part[key]
            if not path or path[0] in ("format", "version", "checksum"):
                continue
            if wrong == "left out":
                del part[path[-1]]
            elif wrong == "once more":
                if not isinstance(part, list):
                    continue
                part.append(part[path[-1]])
            else:
                part[path[-1]] = wrong
            try:
                found = type(WINDOWS[kind]).from_dict(signed(document))
            except ValueError as error:
                assert "is damaged" in str(error)  # noqa: PT017
                refused += 1
                continue
            assert type(found).from_dict(found.to_dict()) == found
            for shown in (found, *([] if kind == "sketch" else [part for _, _, part in found.slots()])):
                assert "sample" in str(shown)
            y, p, w = found.weighted_sample()
            assert np.isin(y, (0, 1)).all()
            assert ((p >= 0) & (p <= 1) & (w > 0)).all()
    assert refused > 70


@pytest.mark.parametrize(
    ("changed", "update", "read"),
    [
        (CalibrationSketch(), lambda it, *data: it.update(*data), lambda it: it.event_rate),
        (CalibrationSketch(), lambda it, *data: it.merge(WINDOWS["sketch"].copy()), str),
        (WindowedSketch(4, n_slots=2), lambda it, *data: it.update(*data), lambda it: it.to_dict()),
        (CalibrationMonitor(), lambda it, *data: it.update(*data), lambda it: it.update(1, 0.5)),
        (StreamingCalibrator(), lambda it, y, p: it.partial_fit(p, y), lambda it: it.sketch_),
        (StreamingCalibrator(half_life=9.0), lambda it, y, p: it.partial_fit(p, y), lambda it: it.sketch_),
    ],
)
def test_an_interrupted_update_says_so(changed, update, read, monkeypatch):
    update(changed, [0, 1], [0.5, 0.25])
    with monkeypatch.context() as patch:
        patch.setattr("sklearn_calib.sketch._contents.note_values", _interrupt)
        patch.setattr("sklearn_calib.sketch._contents._MOST_WAITING", 0)
        with pytest.raises(KeyboardInterrupt):
            update(changed, [0, 1], [0.5, 0.25])
    for call in (lambda: read(changed), lambda: update(changed, [0, 1], [0.5, 0.25])):
        with pytest.raises(ValueError, match=r"An update of this \w+ was interrupted"):
            call()


def _interrupt(*arguments):
    raise KeyboardInterrupt
