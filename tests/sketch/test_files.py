"""Files: nothing is lost, and what is no sketch is refused."""

import contextlib
import json
import os
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest

from sklearn_calib.report import calibration_report
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


@pytest.mark.parametrize("ending", ["npz", "json", "JSON"])
@pytest.mark.parametrize("name", list(sketches()))
def test_files_are_exact(name, ending, tmp_path):
    sketch, path = sketches()[name], tmp_path / f"sketch.{ending}"
    sketch.save(path)
    again = CalibrationSketch.load(str(path))
    assert again == sketch
    assert (again.n_rows, again.pos_label) == (sketch.n_rows, sketch.pos_label)
    # it can be gone on with, and written over; nothing else is left in the folder
    again.merge(sketch).save(path)
    assert CalibrationSketch.load(path) == sketch + sketch
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", list(sketches()))
def test_dicts_are_exact(name):
    sketch = sketches()[name]
    found = json.loads(json.dumps(sketch.to_dict()))
    assert CalibrationSketch.from_dict(found) == sketch == CalibrationSketch.from_dict(sketch.to_dict())


def test_counts_are_written_as_whole_numbers():
    found = CalibrationSketch().update([0, 1, 1], [0.5, 0.5, 0.75]).to_dict()
    assert (found["negatives"], found["positives"], found["offset"]) == ([1, 0], [1, 1], [0, 0])
    assert all(type(value) is int for name in ("cell", "negatives", "offset") for value in found[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "something"}, "not a saved CalibrationSketch"),
        ({"version": 2}, "version 2 of the format"),
        ({"version": "1"}, "version '1' of the format"),
        ({"precision": 30}, "damaged: ValueError: precision"),
        ({"precision": "17"}, "damaged: TypeError: precision"),
        ({"n_rows": -1}, "damaged: ValueError: n_rows"),
        ({"cell": [5, 5]}, "contradict"),
        ({"cell": [5]}, "contradict"),
        ({"cell": [-5, 5]}, "contradict"),
        ({"cell": [5, 10**7]}, "contradict"),
        ({"cell": [5, 10**30]}, "damaged: TypeError: object in place of numbers"),
        ({"cell": [5, 2**63 + 5]}, "damaged|contradict"),
        ({"cell": [5.5, 9.5]}, "damaged: TypeError: float64"),
        ({"cell": "abc"}, "damaged: TypeError"),
        ({"positives": ["1", "1"]}, "damaged: TypeError"),
        ({"positives": [True, True]}, "damaged: TypeError: bool"),
        ({"negatives": [1, -1]}, "contradict"),
        ({"negatives": [1, float("nan")]}, "contradict"),
        ({"negatives": [0, 0], "positives": [1, 0], "offset": [0, 0]}, "contradict"),
        ({"positives": [1, [1]]}, "damaged: ValueError"),
        ({"offset": [1, 10**9]}, "contradict"),
        ({"offset": None}, "contradict|damaged"),
    ],
)
def test_damaged_and_foreign_dicts_are_refused(change, message):
    found = CalibrationSketch().update([0, 1, 1], [0.5, 0.5, 0.75]).to_dict()
    with pytest.raises(ValueError, match=message):
        CalibrationSketch.from_dict(found | change)


@pytest.mark.parametrize(
    "missing", ["precision", "cell", "offset", "n_rows", "pos_label", "version", "format"]
)
def test_incomplete_dicts_are_refused(missing):
    found = CalibrationSketch().update([0, 1, 1], [0.5, 0.5, 0.75]).to_dict()
    del found[missing]
    with pytest.raises(ValueError, match=r"damaged|not a saved|version None"):
        CalibrationSketch.from_dict(found)
    with pytest.raises(ValueError, match="not a saved"):
        CalibrationSketch.from_dict([1])


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_damaged_files_are_refused(ending, tmp_path):
    path = tmp_path / f"sketch.{ending}"
    sketches()["counts"].save(path)
    whole = path.read_bytes()
    for content in (b"", b"abc", whole[: len(whole) // 2], b"[1]", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"damaged|not a saved"):
            CalibrationSketch.load(path)


def test_foreign_archives_are_refused(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, head=np.arange(3))
    with pytest.raises(ValueError, match="damaged"):
        CalibrationSketch.load(path)
    np.savez(path, head=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="damaged"):
        CalibrationSketch.load(path)
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "array.npy").rename(path)
    with pytest.raises(ValueError, match="damaged"):
        CalibrationSketch.load(path)


def test_bad_names_and_missing_files(tmp_path):
    sketch = CalibrationSketch()
    with pytest.raises(ValueError, match=r"path must end in \.npz or \.json"):
        sketch.save(tmp_path / "sketch.csv")
    with pytest.raises(ValueError, match=r"path must end in \.npz or \.json"):
        CalibrationSketch.load("sketch")
    with pytest.raises(FileNotFoundError):
        CalibrationSketch.load(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError):
        sketch.save(tmp_path / "none" / "sketch.json")
    with pytest.raises(ValueError, match="cannot be written"):
        CalibrationSketch(pos_label=("a", "b")).save(tmp_path / "sketch.json")
    assert not list(tmp_path.iterdir())


def writers():
    sketch = CalibrationSketch().update([0, 1], [0.25, 0.75])
    report = calibration_report([0, 1] * 20, np.tile([0.25, 0.75], 20), n_resamples=20)
    return {
        "sketch.npz": sketch.save,
        "sketch.json": sketch.save,
        "window.json": WindowedSketch(window=10).save,
        "report.html": report.to_html,
    }


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@contextlib.contextmanager
def unprivileged():
    """Give up the rights of root for a while, who may write everywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_files_keep_their_mode_and_may_lie_in_folders_that_take_no_others():
    writes = writers()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = os.umask(0o027)
        try:
            for file, write in writes.items():
                path = folder / file
                write(path)
                whole = path.read_bytes()
                assert mode(path) == 0o640
                for bits in (0o600, 0o664):
                    path.write_bytes(b"old")
                    path.chmod(bits)
                    write(path)
                    assert (mode(path), path.read_bytes()) == (bits, whole)
                link = folder / f"link-{file}"
                link.symlink_to(path)
                write(link)
                assert link.is_symlink()
                path.write_bytes(b"old")
                path.chmod(0o666)
            folder.chmod(0o555)
            with unprivileged():
                for file, write in writes.items():
                    write(folder / file)
                    assert (folder / file).read_bytes() != b"old"
                    with pytest.raises(PermissionError) as refused:
                        write(folder / f"new-{file}")
                    assert refused.value.filename == str(folder / f"new-{file}")
            folder.chmod(0o777)
            for file in writes:
                (folder / file).write_bytes(b"old")
                (folder / file).chmod(0o444)
            with unprivileged():
                for file, write in writes.items():
                    with pytest.raises(PermissionError):
                        write(folder / file)
                    assert (folder / file).read_bytes() == b"old"
            assert len(list(folder.iterdir())) == 2 * len(writes)
        finally:
            os.umask(before)
