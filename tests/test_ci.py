"""The scripts that build and check the package: what they refuse, and whether what they name exists."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests._scripts import ROOT, script

SCRIPTS = ["run", "copy", "package", "matrix"]
if not (ROOT / ".ci").is_dir():
    pytest.skip("the scripts are not beside the tests", allow_module_level=True)


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


def test_mutants_apply_once_and_are_in_every_subpackage():
    mutate = script(".ci/mutate")
    # it exits if one does not apply
    mutants = mutate.read_mutants()
    assert len(mutants) >= 60
    assert len(set(mutants)) == len(mutants)
    folders = {path.parent.name for path in (ROOT / "sklearn_calib").glob("*/__init__.py")}
    assert folders - {Path(file).parts[1] for file, _, _ in mutants} == set()
    found = [mutate.TESTS_OF.get(folder, [f"tests/{folder}/*"]) for folder in folders]
    patterns = [pattern for some in found for pattern in some]
    assert [pattern for pattern in patterns if not list(ROOT.glob(f"{pattern}.py"))] == []
    for _, _, new, *rows in mutate.read_mutants("mutants_papers.txt"):
        assert rows, new
        for row in rows:
            assert (ROOT / "benchmarks" / "papers" / f"{row.split(': ')[0]}.py").is_file(), row


def test_a_release_is_written_everywhere_it_is_said(tmp_path):
    release = script(".ci/release.py").release
    for name in ("sklearn_calib/_version.py", "CITATION.cff", "CHANGELOG.md", "recipe/recipe.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def said():
        names = ("sklearn_calib/_version.py", "CITATION.cff", "CHANGELOG.md")
        return [(tmp_path / name).read_text(encoding="utf-8") for name in names]

    release(tmp_path, "0.1.0rc1", "2027-01-02")
    assert '\n  version: "0.1.0rc1"\n' in (tmp_path / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
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


def test_addresses_of_the_metadata_follow_from_that_of_the_repository(monkeypatch):
    interface = SimpleNamespace(MetadataHookInterface=object)
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    build = script("hatch_build.py")
    text = "![p](docs/p.png) [a](docs/a.md) [b](https://c.org) [d](#e)"
    raw, blob = "https://raw.githubusercontent.com/o/n/v1.0.0", "https://github.com/o/n/blob/v1.0.0"
    assert build.absolute(text, "https://github.com/o/n", "1.0.0") == (
        f"![p]({raw}/docs/p.png) [a]({blob}/docs/a.md) [b](https://c.org) [d](#e)"
    )
    private, public = {}, {}
    build.Addresses.update(SimpleNamespace(root=ROOT, config={"repository": ""}), private)
    config = {"repository": "https://github.com/o/n"}
    build.Addresses.update(SimpleNamespace(root=ROOT, config=config), public)
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
    lines = "\n".join(path.read_text() for path in folder.glob("*.yml")).splitlines()
    used = [line for line in lines if "uses:" in line]
    assert used
    assert [line for line in used if not re.search(r"@[0-9a-f]{40} # v\d", line)] == []


@pytest.mark.thorough
def test_benchmarks_are_run_that_import_what_changed():
    affected, names = script(".ci/affected.py"), ("error_rates", "interval_coverage", "speed")
    reached = {each.stem: affected.reached(each) for each in affected.benchmarks() if each.stem in names}
    package = ROOT / "sklearn_calib"
    # through names that packages pass on
    assert package / "inference" / "_testing" / "_tcal.py" in reached["error_rates"]
    assert package / "_core" / "_nested_bins.py" in reached["error_rates"]
    assert ROOT / "benchmarks" / "_population.py" in reached["interval_coverage"]
    assert package / "plot" / "_reliability.py" not in reached["error_rates"]
    assert package / "report" / "_report.py" in reached["speed"]
    assert affected.changed("") is None
    assert affected.changed("no such commit") is None


@pytest.mark.thorough
def test_smoke_runs_of_benchmarks_name_those_that_fail(tmp_path):
    if not hasattr(os, "fork"):
        pytest.skip("processes cannot be copied here")
    texts = {
        "good": "import sys, beside\nassert sys.argv[1:] == ['--smoke']\nprint('a table')",
        "status": "import sys\nsys.exit('not measured')",
        "error": "print('begun')\nraise RuntimeError('broken')",
        "beside": "",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    scripts = [str(tmp_path / f"{name}.py") for name in ("good", "status", "error")]
    command = [sys.executable, str(ROOT / ".ci" / "smoke.py")]
    done = subprocess.run([*command, *scripts], capture_output=True, text=True)
    assert done.returncode == 1
    verdicts = {name: verdict for verdict, name in re.findall(r"(passed|FAILED): .*?(\w+)\.py", done.stdout)}
    assert verdicts == {"good": "passed", "status": "FAILED", "error": "FAILED"}
    assert "not measured" in done.stdout
    assert "begun" in done.stdout
    assert "RuntimeError: broken" in done.stdout
    assert "a table" not in done.stdout
