"""The scripts that build and check the package: what they refuse, and whether what they name exists."""

import importlib.util
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ["run", "copy", "package", "matrix", "mutate"]
if not (ROOT / ".ci").is_dir():
    pytest.skip("the scripts are not beside the tests", allow_module_level=True)


def load(name):
    """Import a script of the hidden folder."""
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


contents = load("contents")
DATA = "sklearn_calib/datasets/data/"
LICENCES = "- flares.csv: forecasts, doi:10.1/2, CC0 1.0.\n"
GOOD = [
    "sklearn_calib/__init__.py",
    "sklearn_calib/__main__.py",
    "sklearn_calib/py.typed",
    f"{DATA}LICENSES.md",
    f"{DATA}flares.csv",
    "sklearn_calib-1.0.0.dist-info/METADATA",
    "sklearn_calib-1.0.0.dist-info/licenses/LICENSE",
]


SAID = [
    "Metadata-Version: 2.4",
    "License-Expression: BSD-3-Clause",
    "License-File: LICENSE",
    f"License-File: {DATA}LICENSES.md",
]


def faults(names, licences=LICENCES, said=SAID):
    return contents.wheel_faults(names, licences, "\n".join(said))


def test_a_good_wheel_has_no_fault():
    assert faults(GOOD) == []


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_wheel_names_its_licences(k):
    assert faults(GOOD, said=SAID[:k] + SAID[k + 1 :]) == [f"the metadata of the wheel lack {SAID[k]!r}"]


@pytest.mark.parametrize(
    "stray",
    ["tests/test_x.py", "sklearn_calib/x.pyc", f"{DATA}other.csv", "sklearn_calib/tests/a.bin", "setup.py"],
)
def test_what_does_not_belong_into_a_wheel(stray):
    assert faults([*GOOD, stray]) == [f"{stray} does not belong into the wheel"]


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_what_a_wheel_needs(k):
    (fault,) = faults(GOOD[:k] + GOOD[k + 1 :])
    assert "the wheel lacks" in fault


def test_data_without_a_licence_is_refused():
    assert faults(GOOD, "") == [f"{DATA}flares.csv does not belong into the wheel"]


def test_source_archives():
    good = [*contents.NEEDED, *(f"{folder}/a.py" for folder in contents.FOLDERS)]
    assert contents.sdist_faults(good) == []
    assert contents.sdist_faults(good[1:]) == ["the source archive lacks README.md"]
    assert contents.sdist_faults(good[:-1]) == ["the source archive lacks .ci/"]
    built = "docs/_build/html/index.html"
    assert contents.sdist_faults([*good, built]) == [f"{built} does not belong into the source archive"]
    # what is needed is there, and is packed
    assert [name for name in contents.NEEDED if not (ROOT / name).is_file()] == []
    with (ROOT / "pyproject.toml").open("rb") as file:
        packed = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in contents.FOLDERS if name not in packed] == []
    missing = [name for name in contents.NEEDED if not name.endswith(".md") and name not in packed]
    assert set(missing) <= {"pyproject.toml"}  # always packed


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_can_be_read_by_bash(name):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    done = subprocess.run([bash, "-n", ROOT / ".ci" / name], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_quick_tests_of_the_matrix_exist():
    text = (ROOT / ".ci" / "matrix").read_text(encoding="utf-8")
    quick = re.search(r"^QUICK=\(\n(.*?)^\)", text, flags=re.MULTILINE | re.DOTALL)[1].split()
    assert len(quick) > 10
    assert [path for path in quick if not (ROOT / path).exists()] == []


def test_settings_of_mutation_name_what_exists():
    with (ROOT / ".ci" / "mutants.toml").open("rb") as file:
        settings = tomllib.load(file)
    package = ROOT / "sklearn_calib"
    assert [room for room in settings["rooms"] if not (package / room).is_dir()] == []
    assert [name for name in settings["tests"] if not (package / f"{name}.py").is_file()] == []
    named = {test for tests in settings["tests"].values() for test in tests}
    assert [test for test in sorted(named) if not (ROOT / test).is_file()] == []
    # every file has tests
    files = [path for room in settings["rooms"] for path in (package / room).glob("_*.py")]
    untested = [
        name
        for path in files
        if (name := f"{path.parent.name}/{path.stem}") not in settings["tests"]
        and path.name != "__init__.py"
        and not (ROOT / "tests" / path.parent.name.lstrip("_") / f"test{path.name}").is_file()
    ]
    assert untested == []
    # an explanation speaks of a line that is still there, and of each mutant once
    explained = settings.get("explained", [])
    gone = [
        (entry["file"], entry["before"])
        for entry in explained
        if entry["before"] not in (package / f"{entry['file']}.py").read_text(encoding="utf-8")
    ]
    assert gone == []
    assert len({(e["file"], e["before"], e["after"]) for e in explained}) == len(explained)


def test_mutants_change_code_and_leave_words_alone(tmp_path):
    pytest.importorskip("cosmic_ray")
    mutants = load("mutants")
    lines = [
        "def f(x: int | None = 3, *, y=4):",
        "    'Add 1 + 1.'",
        "    if x < 0:",
        "        raise ValueError(f'got {x - 1}')",
        "    x += y",
        "    return min(x, y)",
    ]
    path = tmp_path / "_code.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    n_all, found = mutants.sample(path, 100, 0)
    changes = {(mutant["before"], mutant["after"]) for mutant in found}
    assert changes == {
        ("if x < 0:", "if x <= 0:"),
        ("if x < 0:", "if x > 0:"),
        ("if x < 0:", "if not x < 0:"),
        ("if x < 0:", "if x < 1:"),
        ("if x < 0:", "if x < -1:"),
        ("x += y", "pass"),
        ("return min(x, y)", "return max(x, y)"),
    }
    assert n_all == len(found)
    # the same ones each time, and fewer are the first of more
    assert mutants.sample(path, 3, 0)[1] == found[:3]


def test_the_workflow_runs_scripts_and_versions_that_exist():
    path = ROOT / ".github" / "workflows" / "ci.yml"
    if not path.is_file():
        pytest.skip("the workflow is not beside the tests")
    text = path.read_text(encoding="utf-8")
    called = set(re.findall(r"\.ci/(\w+)", text))
    assert called == {"run", "matrix", "package"}
    named = set(re.findall(r"name: (\w+), python", text))
    assert named == {"oldest", "newest", "bare", "next"}
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    known = {item.split(" :: ")[-1] for item in project["classifiers"] if "Python :: 3." in item}
    assert set(re.findall(r'python(?:-version)?: "([\d.]+)"', text)) == known
    assert project["requires-python"] == f">={min(known, key=lambda v: int(v.split('.')[1]))}"
