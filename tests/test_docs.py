"""The guide: its code runs and prints what it says, and the reference lists every public object once."""

import importlib
import importlib.util
import inspect
import re

import pytest
from joblib.externals.loky import get_reusable_executor

from tests._scripts import ROOT, script

SUBPACKAGES = sorted(path.stem for path in (ROOT / "docs" / "reference").glob("*.md"))


guide = script("docs/run_blocks.py")
#: Pages whose code takes longer than a third of a second; what it calls has tests of its own.
SLOW = {
    "README.md", "calibrators.md", "certificates.md",
    "deployment.md", "early_stopping.md", "explaining.md", "monitoring.md", "planning.md", "requirements.md",
    "scale_out.md", "segments.md", "sketch.md", "stability.md", "start.md", "time_ordered.md",
    "logit_smoothed_ece.md", "r.md", "ads.md", "credit.md", "language_models.md", "medicine.md",
}  # fmt: skip
#: Pages whose code takes longest.
SLOWEST = {"custom_calibrators.md", "dependent_samples.md", "multilabel.md", "pitfalls.md"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[getattr(pytest.mark, tier)] if tier else [])
        for page in (ROOT / "README.md", *guide.pages())
        for tier in ["weekly" if page.name in SLOWEST else "thorough" if page.name in SLOW else ""]
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_code_of_the_guide_prints_what_the_page_says(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    for block in guide.blocks(page.read_text(encoding="utf-8")):
        for name in re.findall(r"^ *(?:import|from) (\w+)", block.code, flags=re.MULTILINE):
            pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    # workers that an earlier test has left behind work in another folder
    get_reusable_executor().shutdown(wait=True)
    for block, printed in guide.run(page):
        if block.output is not None:
            assert guide.agree(block.output, printed), f"line {block.line} prints\n{printed}"


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [("a 0.123", "a  0.124", True), ("a 0.123", "a 0.125", False), ("a 0.123", "b 0.123", False),
     ("n = 12", "n = 13", False), ("one\n...\nthree", "one\ntwo\nthree", True),
     ("one\n...\nthree", "one\ntwo\nfour", False), ("one", "one\ntwo", False), ("", "one", False)],
)  # fmt: skip
def test_outputs_are_compared(expected, printed, same):
    assert guide.agree(expected, printed) is same


def test_outputs_are_found():
    text = "```python\nprint(1)\n```\nwords\n```text\n1\n```\n\n```python\nprint(2)\n```\n```bash\nls\n```\n"
    expected = [("print(1)\n", "1\n", 2), ("print(2)\n", None, 10)]
    assert [(block.code, block.output, block.line) for block in guide.blocks(text)] == expected


SAVED = re.compile(r"savefig\(\"([^\"]+)\"\)")
SHOWN = re.compile(r"!\[[^\]]+\]\((?:\.\./)*_static/drawn/([^)]+)\)")


def test_pages_show_the_figures_that_their_code_saves():
    """A figure that a page saves is below the code, and every figure shown is drawn by a page or a script."""
    saved = []
    for page in guide.pages():
        text = page.read_text(encoding="utf-8")
        names = SAVED.findall(text)
        for name in names:
            assert f"_static/drawn/{name})" in text[text.index(f'savefig("{name}")') :], (page.name, name)
        saved += names
    assert len(set(saved)) == len(saved)
    script = (ROOT / "docs" / "pictures.py").read_text(encoding="utf-8")
    drawn = set(re.findall(r'^    "([^"]+)": \w+,$', script, flags=re.MULTILINE))
    assert drawn.isdisjoint(saved)
    pages = (ROOT / "docs").rglob("*.md")
    shown = {name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    assert shown == {*saved, *drawn} - {"card.png"}
    committed = {path.name: path.stat().st_size for path in (ROOT / "docs/_static/drawn").iterdir()}
    assert committed.keys() == {*saved, *drawn}
    assert sum(committed.values()) < 600_000


@pytest.mark.weekly
def test_committed_figures_have_the_texts_of_those_drawn_now(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "docs")
    script("docs/pictures.py").draw_all(tmp_path)
    for path in tmp_path.glob("*.svg"):
        now, then = (
            re.sub(r"\s*<[^>]+>\s*", "\n", each.read_text(encoding="utf-8"))
            for each in (path, ROOT / "docs" / "_static" / "drawn" / path.name)
        )
        assert guide.agree(then, now), path.name


def _anchors(page):
    """Return the anchors of the headings of a page, as code-hosting sites and the documentation form them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    plain = (re.sub(r"\]\([^)]*\)|[^\w\s-]", "", heading.lower()) for heading in headings)
    return {re.sub(r"\s", "-", heading.strip()) for heading in plain}


def test_links_between_pages_lead_to_files_and_headings():
    """So that they can be followed on a code-hosting site."""
    wrong = []
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    pages += [
        page
        for name in ("methods", "migration", "paths", "reference")
        for page in (ROOT / "docs" / name).glob("*.md")
    ]
    for page in pages:
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if ":" in link:
                continue
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
                wrong.append(f"{page.name}: {link}")
    assert wrong == []


def test_pages_can_be_read_on_code_hosting_sites():
    """No markup of Sphinx but in the lists of the reference, and no formula that Markdown changes."""
    wrong = []
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if page.parent.name != "reference" and page.name != "api.md":
            wrong += [
                f"{page.name}: {found}" for found in re.findall(r"^(?:`{3,}\{|:::).*|\{\w+\}`.*", text, re.M)
            ]
        formulas = re.findall(
            r"\$\$.+?\$\$|\$[^$`\n]+\$", re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S), re.S
        )
        wrong += [f"{page.name}: {formula}" for formula in formulas if re.search(r"\\[^\w\s]|\^\*", formula)]
    assert wrong == []


@pytest.mark.parametrize("name", ["ads", "credit", "language_models", "medicine"])
def test_pages_by_profession_show_a_figure(name):
    assert SHOWN.findall((ROOT / "docs" / "paths" / f"{name}.md").read_text(encoding="utf-8"))


def test_every_subpackage_has_a_page_of_reference():
    found = {path.parent.name for path in (ROOT / "sklearn_calib").glob("[!_]*/__init__.py")}
    assert found == set(SUBPACKAGES)
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^reference/(\w+)$", text, re.MULTILINE)) == found


@pytest.mark.parametrize("subpackage", SUBPACKAGES)
def test_reference_lists_every_public_object_once(subpackage):
    text = (ROOT / "docs" / "reference" / f"{subpackage}.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   (\w+)$", text, flags=re.MULTILINE)
    assert sorted(listed) == sorted(importlib.import_module(f"sklearn_calib.{subpackage}").__all__)


def test_names_of_the_guide_exist():
    """`subpackage.name` in the prose of the guide names a public object."""
    docs = ROOT / "docs"
    folders = [docs, *(docs / name for name in ("methods", "migration", "paths"))]
    pages = [ROOT / "README.md", *(page for folder in folders for page in folder.glob("*.md"))]
    wrong = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for subpackage, name in re.findall(rf"`({'|'.join(SUBPACKAGES)})\.(\w+)", text):
            if name != "_" and not hasattr(importlib.import_module(f"sklearn_calib.{subpackage}"), name):
                wrong.append(f"{page.name}: {subpackage}.{name}")
    assert wrong == []


def test_names_in_the_tables_of_the_papers_exist():
    public = {
        name: getattr(module, name)
        for module in map(importlib.import_module, (f"sklearn_calib.{name}" for name in SUBPACKAGES))
        for name in module.__all__
    }
    rows = re.findall(r"^\|.*$", (ROOT / "docs" / "papers.md").read_text(encoding="utf-8"), re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(names) > 10
    wrong = []
    for name in names:
        if "/" in name:
            found = (ROOT / name).exists()
        else:
            owner, attribute, arguments = re.fullmatch(r"(\w+)(?:\.(\w+))?(?:\((.*)\))?", name).groups()
            target = public.get(owner)
            if attribute and target is not None:
                known = getattr(target, "__dataclass_fields__", {})
                target = known.get(attribute) or getattr(target, attribute, None)
            options = set(re.findall(r"(\w+)=", arguments or ""))
            known = inspect.signature(target).parameters if options and target else ()
            found = target is not None and options <= set(known)
        if not found:
            wrong.append(name)
    assert wrong == []
