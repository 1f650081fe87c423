"""The package as a whole: light import, typing marker, documented public names, a truthful README."""

import csv
import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest

import sklearn_calib
from tests._every import public_modules

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("matplotlib", "pandas", "polars", "dask", "distributed", "pyarrow", "pyspark", "torch", "tqdm")
LATER = ("datasets", "export", "inference", "monitor", "plot", "report", "sketch")
SECTIONS = ("Parameters", "Examples")


def public_objects():
    """Return every public class and function with its name, once each."""
    seen = {}
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", []):
            value = getattr(module, name, None)
            if inspect.isclass(value) or inspect.isfunction(value):
                seen.setdefault(value, f"{module_name}.{name}")
    return seen.items()


def readme_blocks(language):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


# Records who asks for what is heavy, and hides it, so that the next one has to ask again.
WATCH = """
import importlib, json, pkgutil, sys

class Watch:
    def __init__(self):
        self.asked = set()
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in {heavy!r}:
            frame = sys._getframe(1)
            while "importlib" in frame.f_code.co_filename:
                frame = frame.f_back
            self.asked.add((top, frame.f_globals["__name__"].partition(".")[0]))
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

watch = Watch()
sys.meta_path.insert(0, watch)
{code}
print(json.dumps([sorted(watch.asked), sorted(sys.modules)]))
"""
EVERY_ROOM = """
import sklearn_calib
from sklearn_calib.calibrators import PlattCalibrator
from sklearn_calib.plot import CutoffDisplay
for info in pkgutil.walk_packages(sklearn_calib.__path__, "sklearn_calib."):
    if not info.name.endswith("__main__"):
        importlib.import_module(info.name)
"""


def watched_import(code):
    """Return who asked for what is heavy when some code ran in a process of its own, and what it loaded."""
    command = [sys.executable, "-c", WATCH.format(heavy=HEAVY, code=code)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    asked, loaded = json.loads(found.stdout)
    return {tuple(pair) for pair in asked}, set(loaded)


@pytest.mark.thorough
def test_import_is_light():
    # scikit-learn itself looks for some of them, and has done so before
    asked, loaded = watched_import("import sklearn.base; watch.asked.clear(); import sklearn_calib")
    assert not asked
    assert not loaded & {f"sklearn_calib.{subpackage}" for subpackage in LATER}
    assert not loaded & {"sklearn.svm", "sklearn.linear_model", "sklearn.ensemble", "sklearn.calibration"}


@pytest.mark.weekly
def test_no_module_needs_what_is_heavy():
    asked, loaded = watched_import(EVERY_ROOM)
    theirs, _ = watched_import("import sklearn.metrics, sklearn.model_selection, sklearn.pipeline")
    assert asked <= theirs
    assert {f"sklearn_calib.{subpackage}" for subpackage in LATER} <= loaded


def test_typing_marker_is_shipped():
    assert files("sklearn_calib").joinpath("py.typed").is_file()


def test_version_is_said_once_and_everywhere_the_same():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|a\d+|b\d+|rc\d+)?", sklearn_calib.__version__)
    assert f"version: {sklearn_calib.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    try:
        installed = version("sklearn-calib")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package runs from its source tree without being installed")
    assert installed == sklearn_calib.__version__


def test_recipe_agrees_with_the_metadata():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    with (ROOT / "pyproject.toml").open("rb") as stream:
        meta = tomllib.load(stream)
    project = meta["project"]
    assert f'\n  version: "{sklearn_calib.__version__}"\n' in recipe
    assert f'\n  python_min: "{project["requires-python"].removeprefix(">=")}"\n' in recipe
    host, run = re.search(r"\n  host:\n(.*?)\n  run:\n(.*?)\n\n", recipe, flags=re.DOTALL).groups()
    listed = [re.sub(r"^ +- ", "", line).replace(" ", "") for line in run.splitlines()]
    assert listed == ["python>=${{python_min}}", *project["dependencies"]]
    expected = host.splitlines()[2:]
    assert [f"    - {name.replace('>=', ' >=')}" for name in meta["build-system"]["requires"]] == expected
    assert f"  license: {project['license']}\n" in recipe
    found = re.findall(r"- (sklearn-calib = \S+)\n", recipe)
    assert found == [f"{name} = {target}" for name, target in project["scripts"].items()]


def test_archive_of_the_release_cites_the_papers():
    archive = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'title: "{archive["title"]}"' in citation
    assert f"license: {archive['license']}\n" in citation
    papers = {entry["identifier"].removeprefix("arXiv:") for entry in archive["related_identifiers"]}
    assert (papers, len(papers)) == (set(re.findall(r"arxiv\.org/abs/([\d.]+)", citation)), 4)


def test_all_lists_what_exists():
    for module in map(importlib.import_module, public_modules()):
        names = module.__all__
        assert len(set(names)) == len(names), module
        assert [name for name in names if not hasattr(module, name)] == [], module
        assert module.__doc__, module


def test_public_objects_are_documented():
    for value, name in public_objects():
        check_documented(value, name)


def check_documented(value, name):
    documentation = inspect.getdoc(value) or ""
    methods = [getattr(value, name) for name in dir(value) if not name.startswith("_")]
    texts = [inspect.getdoc(part) or "" for part in (value, *methods)]
    assert not [text for text in texts if "%(" in text], f"{name}: a paragraph that is not known"
    assert documentation.splitlines()[:1] not in ([], [""]), f"{name}: no docstring"
    wanted, signature = list(SECTIONS), inspect.signature(value)
    if not signature.parameters:
        wanted.remove("Parameters")
    # a result object is returned, not built by the user: its fields stand under Attributes or Parameters
    if inspect.isclass(value) and hasattr(value, "__dataclass_fields__"):
        assert re.search(r"^(Attributes|Parameters)\n-+$", documentation, flags=re.MULTILINE), name
        return
    for section in wanted:
        assert re.search(rf"^{section}\n-+$", documentation, flags=re.MULTILINE), (name, section)
    for parameter in signature.parameters.values():
        shown = parameter.name
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            pattern = rf"^(\w+, )*{shown}(, \w+)*( :|$)"
            assert re.search(pattern, documentation, flags=re.MULTILINE), (name, shown)


def test_readme_has_two_set_up_commands_and_they_can_run():
    blocks = readme_blocks("bash")
    assert [block.count("\n") for block in blocks] == [1, 1]
    with (ROOT / "pyproject.toml").open("rb") as stream:
        extras = tomllib.load(stream)["project"]["optional-dependencies"]
    for block in blocks:
        (extra,) = re.findall(r'pip install "\.\[(\w+)\]"', block)
        assert extra in extras
    assert "examples/quickstart.py" in blocks[0]
    assert (ROOT / "examples" / "quickstart.py").is_file()
    assert "-m pytest" in blocks[1]


def test_readme_links_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    assert targets
    assert [target for target in targets if not (ROOT / target.partition("#")[0]).exists()] == []


def test_data_that_is_shipped_has_a_license():
    folder = ROOT / "sklearn_calib" / "datasets" / "data"
    shipped = {path.name for path in (ROOT / "sklearn_calib").rglob("*") if path.is_file()}
    code = (".py", ".pyc", ".html", ".css")
    shipped = {name for name in shipped if not name.endswith(code) and name != "py.typed"}
    text = (folder / "LICENSES.md").read_text(encoding="utf-8")
    lines = dict(re.findall(r"^- ([\w.-]+): (.+)$", text, flags=re.MULTILINE))
    assert shipped == {*lines, "LICENSES.md"}
    assert all(re.search(r"doi:\S+, (CC0|CC-BY|CC BY|MIT|BSD)[\w -]*\S", line) for line in lines.values())
    sources = "10.24432/C5NC77", "10.24432/C5K306", "Copyright (c) 2024 Ben Plaut", "10.7910/DVN/HYP74O"
    assert [source for source in sources if source not in text] == []


def results(name):
    return (ROOT / "benchmarks" / "results" / name).read_text(encoding="utf-8")


def result_rows(name):
    return list(csv.DictReader(results(name).splitlines()))


def test_figures_of_the_evidence_are_those_of_the_benchmarks():
    text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    rows = result_rows("certificate_fitted.csv")
    held = [float(row["holds"]) for row in rows if row["calibrator"] == "isotonic"]
    assert f"[{len(held)} simulated settings]" in text
    assert f"holds in {min(held):.0%} to {max(held):.0%} of" in text
    error = (min(held) * (1 - min(held)) / 400) ** 0.5
    assert f"400 repetitions (standard error at most {error:.1%})" in text
    assert {row["repetitions"] for row in rows if row["calibrator"] == "isotonic"} == {"400"}
    rows = result_rows("level_of_tests.csv")
    exact = [row for row in rows if row["test"] in ("T-Cal", "cutoff", "combined")]
    assert ({row["samples"] for row in exact}, {row["exceeds"] for row in exact}) == ({"1000"}, {"no"})
    sizes, rates = [{kind(row[key]) for row in exact} for key, kind in (("n", int), ("at_0.05", float))]
    assert f"[{len(exact)} simulated settings](../benchmarks/results/level_of_tests.csv) with " in text
    assert f"with {min(sizes)} to {max(sizes)} samples, the rejection rates" in text
    assert f"0.05 are {min(rates)} to {max(rates)} (1000 simulations, standard error 0.007)" in text
    exceeded = [row["test"] for row in result_rows("level_of_tests_exceeded.csv")]
    assert exceeded.count("Hosmer-Lemeshow, asymptotic") == 6
    assert "The asymptotic Hosmer-Lemeshow test exceeds its level in [six]" in text
    table = results("interval_coverage.md")
    means = re.findall(r"^\|[^|]+\| \d+ \|[^|]+\| ([\d.]+) \|", table, flags=re.MULTILINE)
    assert f"is {min(means)} to {max(means)} in [{len(means)} groups of settings]" in text
    for name in ("", "_logit", "_decisions", "_scores"):
        rows = result_rows(f"interval_coverage{name}.csv")
        assert {row["repetitions"] for row in rows} == {"400"}
        cover = [float(row["coverage"]) for row in rows]
        low, high = f"{min(cover):.3f}", f"{max(cover):.3f}"
        if name:
            link = rf"\[{len(cover)}[^]]*\]\(\S+interval_coverage{name}.csv\)"
            assert re.search(rf"{low} to {high} in {link}", text)
        else:
            assert f"the lowest coverage of a setting is {low} (400 simulations" in text
    pattern = r"([\d,]+) samples in .*?: ([\d.]+ s), .*? (\d+ MB)"
    sketch = re.search(pattern, results("sketch_speed.txt"), flags=re.DOTALL)
    assert f"{sketch[1]} samples takes [{sketch[2]} and {sketch[3]}]" in text
    table = results("calibrators_two_classes.md")
    methods = re.findall(r"^\| (.+?) \| ([\d.]+) \|", table, flags=re.MULTILINE)
    first = sorted(methods, key=lambda method: float(method[1]))[:2]
    assert {name for name, _ in first} == {"**spline**", "**spline, monotone**"}
    packages = {"sklearn_calib", *(name.split(":")[0] for name, _ in methods if ":" in name)}
    for page in (text, (ROOT / "README.md").read_text(encoding="utf-8")):
        assert f"[{len(methods)} methods from {len(packages)} packages]" in page


def test_paper_cites_what_its_bibliography_holds_and_shows_figures_that_exist():
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    bibliography = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    cited = set(re.findall(r"@([a-z]+\d{4})", text))
    assert cited == set(re.findall(r"^@\w+\{(\w+),$", bibliography, flags=re.MULTILINE))
    figures = re.findall(r"\]\(([^)]+\.png)\)", text)
    commands = re.findall(r"Drawn by\s+`python (\S+)", text)
    named = re.findall(r"`(benchmarks/results/\S+)`", text)
    assert len(figures) == len(commands) == 2
    assert named
    for path in (*(f"paper/{figure}" for figure in figures), *commands, *named):
        assert (ROOT / path).is_file(), path
    body = text.split("\n---\n", 1)[1]
    assert 750 <= len(body.split()) <= 1750
    assert ", ".join(re.findall(r"^# (.+)$", body, flags=re.MULTILINE)) == (
        "Summary, Statement of need, State of the field, Software design, Research impact statement, "
        "Limitations, AI usage disclosure, Acknowledgements, References"
    )


def test_figures_of_the_paper_are_those_of_the_evidence():
    text = " ".join((ROOT / "paper" / "paper.md").read_text(encoding="utf-8").split())
    evidence = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    evidence = " ".join(re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", evidence).split())
    for said in (
        "In 42 simulated settings with 50 to 1000 samples, the rejection rates",
        "at level 0.05 are 0.035 to 0.062",
        "mean coverage of 95% intervals for three calibration errors is 0.954 to 0.974 in 30 groups of",
        "lowest coverage of a setting is 0.922",
        "In 100 simulated settings, the 95% certificate of isotonic regression holds in 94% to 100% of 400",
        "59 methods from 10 packages",
    ):
        assert said in text
        assert said.replace(" for three calibration errors", "") in evidence, said
    assert f"takes {re.search(r'takes ([0-9.]+ s)', evidence)[1]}" in text
    verdicts = [row["verdict"] for row in result_rows("papers.csv")]
    agree, hold, substitute, differ = map(verdicts.count, ("agrees", "holds", "stand-in", "differs"))
    assert f"Of {len(verdicts)} results, {agree} agree with the published value, {hold} satisfy" in text
    assert f"{substitute} use substitute data, and {differ} differ from the paper" in text
