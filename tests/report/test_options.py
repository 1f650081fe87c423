"""The command line, fed with what its options cannot take, found by asking its parser."""

import argparse

import numpy as np
import pytest

from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.export import to_json
from sklearn_calib.report._command import _parser
from tests._program import main

TABLE = "y,p,g\n" + "".join(f"{k % 2},{0.05 + k % 10 / 10:.2f},{'ab'[k % 3 % 2]}\n" for k in range(40))
MAP = to_json(PlattCalibrator().fit(np.arange(1, 41) / 41, np.arange(40) % 3 // 2))
#: In place of a value, whatever the option.
WORDS = ["", " ", "no such", "\x1b[31mred\x1b[0m", "\u65e5\u672c", "a" * 5000, "=1+1", "\udcff", "a\nb"]
NUMBERS = [
    "x",
    "",
    "nan",
    "inf",
    "-inf",
    "-1",
    "-5e300",
    "1e400",
    "9" * 30,
    "9" * 5000,
    "1,5",
    "\u00bd",
    "0x10",
    "1_0",
]
#: Options of which any text is a good one.
ANY_TEXT = {"--title", "--date", "--name"}


def options():
    """Return the commands with their options."""
    (commands,) = (each for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))
    for command, parser in commands.choices.items():
        for action in parser._actions:
            if action.option_strings and action.dest != "help":
                yield pytest.param(command, action, id=f"{command}{action.option_strings[-1]}")


# an option without a value cannot have a wrong one, and twice is as good as once
valued_option = pytest.mark.parametrize(
    ("command", "action"), [each for each in options() if each.values[1].nargs != 0]
)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, one_measure):
    """Return what runs a command with an option; the answer is its code and stderr, the rest is looked at."""
    monkeypatch.setattr("sklearn_calib.report._page.report_page", lambda report, title: "page")
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "map.json").write_text(MAP, encoding="utf-8")
    (tmp_path / "r.toml").write_text("slope = [-100, 100]", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def call(command, action, *given):
        needed = {"--y": ["y"], "--p": ["p"]}
        needed |= {
            "report": {"--n-resamples": ["20"]},
            "sketch": {"--out": ["s.json"]},
            "check": {"--requirements": ["r.toml"]},
            "fit": {"--out": ["m.json"]},
            "apply": {"--out": ["o.csv"]},
        }[command]
        files = ["t.csv"]
        if command == "apply":
            del needed["--y"]
            files = ["map.json", "t.csv"]
        name = action.option_strings[-1]
        beside = [text for each, values in needed.items() if each != name for text in (each, *values)]
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        try:
            code = main([command, *files, *beside, *given])
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        if code:
            assert out == ""
            # what argparse says comes after the usage, on one line
            assert len(err) < 3000
            assert all(line.isprintable() for line in err.splitlines())
            assert "error: " in err.splitlines()[-1]
            assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
        for file in tmp_path.iterdir():
            if file.name not in before:
                file.unlink()
        return code, err.splitlines()[-1] if code else ""

    return call


def named(action, error, value=""):
    """Tell whether an error names an option, or shows the column, file or label that was asked for."""
    names = [*action.option_strings, f"{action.dest} ", f"{action.dest}="]
    shown = " ".join("".join(c if c.isprintable() else " " for c in value).split())[:200]
    return any(name in error for name in names) or (shown and shown in error) or repr(value)[1:200] in error


@valued_option
def test_a_value_is_missing(command, action, run):
    name = action.option_strings[-1]
    code, error = run(command, action, name)
    assert code == 2
    assert f"argument {'/'.join(action.option_strings)}: expected" in error


@valued_option
def test_an_option_is_given_twice(command, action, run):
    name = action.option_strings[-1]
    value = {"--sketch": "auto", "--delimiter": ";", "--undecided": "skipped", "--calibrator": "beta"}.get(
        name, "1"
    )
    code, error = run(command, action, name, value, name, value)
    assert code == 2
    assert f"argument {'/'.join(action.option_strings)}: is given twice" in error


@valued_option
def test_bad_values(command, action, run):
    name = action.option_strings[-1]
    values = WORDS if action.type is None else NUMBERS
    # of those that are good a few are enough
    for value in values[-2:] if name in ANY_TEXT else values:
        code, error = run(command, action, f"{name}={value}")
        if code == 0:
            good = action.dest in ("out", "json", "junit", "markdown") or name in ANY_TEXT
            # a seed may be any whole number, and Python reads 1_0 as one
            good |= action.type is int and (value == "1_0" or (name == "--seed" and value == "9" * 30))
            good |= name == "--precision" and value == "1_0"
            assert good, value
        else:
            assert code == 2
            assert named(action, error, value), (value, error)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--out", "a.html", "--json", "a.html"], "--out and --json name the same file"),
        (["--out", "t.csv"], "--out names t.csv, which is an input file"),
        (["--json", "./t.csv"], "--json names ./t.csv, which is an input file"),
        (["--labels", "a"], "--labels is for several columns"),
        (["--group", "g", "--weight", "g"], "of column 'g' is 'a', not a number"),
        (["--weight", "p", "--sketch", "maybe"], "argument --sketch: invalid choice"),
        (["--unknown"], "unrecognized arguments: --unknown"),
    ],
)
def test_options_that_do_not_go_together(given, message, run):
    code, error = run("report", argparse.Action(["--none"], "none"), *given)
    assert code == 2
    assert message in error


@pytest.mark.parametrize("option", ["--out", "--json"])
def test_no_file_is_left_half_written(option, run, tmp_path, monkeypatch):
    """A file that cannot be put in its place stays as it was, and no other file is left."""

    def full(self, target):
        raise OSError(28, "No space left on device", str(self), None, str(target))

    (tmp_path / "old").write_text("as it was", encoding="utf-8")
    monkeypatch.setattr("pathlib.Path.replace", full)
    code, error = run("report", argparse.Action(["--none"], "none"), option, "old")
    assert code == 2
    assert "old: No space left on device" in error
    assert sorted(file.name for file in tmp_path.iterdir()) == ["map.json", "old", "r.toml", "t.csv"]
