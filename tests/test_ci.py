"""The scripts that build and check the package: what they refuse, and whether what they name exists."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ["run", "copy", "package", "matrix", "mutate"]
if not (ROOT / ".ci").is_dir():
    pytest.skip("the scripts are not beside the tests", allow_module_level=True)


def load(name, folder=".ci"):
    """Import a script, by default of the hidden folder."""
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / folder / f"{name}.py")
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
    "sklearn_calib/report/templates/page.html",
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


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7])
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


def test_a_release_is_written_everywhere_it_is_said(tmp_path):
    release = load("release").release
    for name in ("sklearn_calib/_version.py", "CITATION.cff", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def said():
        names = ("sklearn_calib/_version.py", "CITATION.cff", "CHANGELOG.md")
        return [(tmp_path / name).read_text(encoding="utf-8") for name in names]

    release(tmp_path, "0.1.0rc1", "2027-01-02")
    code, citation, changes = said()
    assert '__version__ = "0.1.0rc1"\n' in code
    assert "\nversion: 0.1.0rc1\ndate-released: 2027-01-02\n" in citation
    assert "\n## [Unreleased]\n\n## [0.1.0rc1] - 2027-01-02\n" in changes
    release(tmp_path, "0.2.0.dev0", "2027-01-03")
    code, citation, same = said()
    assert '__version__ = "0.2.0.dev0"\n' in code
    assert "\nversion: 0.2.0.dev0\n" in citation
    assert "date-released" not in citation
    assert same == changes
    with pytest.raises(SystemExit, match="is not a version"):
        release(tmp_path, "v1", "2027-01-04")


def test_versions_of_the_site(tmp_path):
    for name in ("dev", "0.9.0", "0.10.0rc1", "0.10.0", "0.11.0rc1", ".git"):
        (tmp_path / name).mkdir()
    load("versions").write(tmp_path, "https://a.github.io/b")
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert [each["version"] for each in listed] == ["dev", "0.11.0rc1", "0.10.0", "0.10.0rc1", "0.9.0"]
    assert listed[2] == {
        "name": "0.10.0 (stable)",
        "version": "0.10.0",
        "url": "https://a.github.io/b/0.10.0/",
    }
    assert "url=0.10.0/" in (tmp_path / "index.html").read_text()


def test_addresses_of_the_metadata_follow_from_that_of_the_repository(monkeypatch):
    interface = SimpleNamespace(MetadataHookInterface=object)
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    build = load("hatch_build", ".")
    text = "![p](docs/p.png) [a](docs/a.md) [b](https://c.org) [d](#e)"
    raw, blob = "https://raw.githubusercontent.com/o/n/v1.0.0", "https://github.com/o/n/blob/v1.0.0"
    assert build.absolute(text, "https://github.com/o/n", "1.0.0") == (
        f"![p]({raw}/docs/p.png) [a]({blob}/docs/a.md) [b](https://c.org) [d](#e)"
    )
    private, public = {}, {}
    build.Addresses.update(SimpleNamespace(root=ROOT, config={"repository": ""}), private)
    build.Addresses.update(
        SimpleNamespace(root=ROOT, config={"repository": "https://github.com/o/n"}), public
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert private == {"readme": {"content-type": "text/markdown", "text": readme}}
    assert public["urls"]["Documentation"] == "https://o.github.io/n/"
    assert public["urls"]["Repository"] == "https://github.com/o/n"
    links = re.findall(r"\]\(([^)]+)\)", public["readme"]["text"])
    assert links
    assert all(link.startswith("https://") for link in links)


def test_actions_are_pinned_by_hash():
    folder = ROOT / ".github" / "workflows"
    if not folder.is_dir():
        pytest.skip("the workflows are not beside the tests")
    used = [
        line for path in folder.glob("*.yml") for line in path.read_text().splitlines() if "uses:" in line
    ]
    assert used
    assert [line for line in used if not re.search(r"@[0-9a-f]{40} # v\d", line)] == []
