"""Sphinx configuration: guides in Markdown, a gallery of examples, a page for each public object."""

import importlib.util
import os
import re
import shutil
import sys
import tomllib
import warnings
from pathlib import Path

import sklearn_calib
from sphinx.errors import SphinxError
from sphinx_gallery.sorting import ExplicitOrder

sys.path.insert(0, str(Path(__file__).resolve().parent))
from check_links import broken_links

# warnings are errors in the build, but deprecations within other libraries are not shown in the examples
os.environ.setdefault("MPLBACKEND", "agg")
warnings.filterwarnings("ignore", category=DeprecationWarning)

project = "sklearn_calib"
author = copyright = "The sklearn_calib developers"
version = release = sklearn_calib.__version__
# the public address of the repository, from one place; empty if there is none yet
with (Path(__file__).resolve().parents[1] / "pyproject.toml").open("rb") as file:
    repository = tomllib.load(file)["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
owner, _, name = repository.removeprefix("https://github.com/").partition("/")
pages = f"https://{owner}.github.io/{name}/" if repository else ""
extensions = [
    "link_names",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxext.opengraph",
]
exclude_patterns = ["_build", "_templates", "**/sg_execution_times.rst", "sg_execution_times.rst"]
templates_path = ["_templates"]
# the configuration of the gallery cannot be pickled for the cache
suppress_warnings = ["config.cache"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "alphabetical"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# one parameter per line in long signatures; no class name before each method in the margin
python_maximum_signature_line_length = 60
toc_object_entries_show_parents = "hide"
viewcode_line_numbers = True

# formulas are displayed without network access
mathjax_path = "mathjax/tex-chtml.js"
MATHJAX = (
    Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
)

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

ogp_site_url = f"{pages}dev/" if pages else "/"
ogp_image = "_static/drawn/card.png"
ogp_use_first_image = False
ogp_enable_meta_description = True
ogp_social_cards = {"enable": False}

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(__init__|quickstart)\.py",
    "subsection_order": ExplicitOrder(
        [f"../examples/{each}" for each in ("evaluate", "calibrate", "monitor", "papers")]
    ),
    "thumbnail_size": (640, 400),
    "doc_module": ("sklearn_calib",),
    "reference_url": {"sklearn_calib": None},
    "backreferences_dir": "generated/backreferences",
    "inspect_global_variables": True,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "write_computation_times": False,
    "min_reported_time": 10,
    "plot_gallery": True,
    "abort_on_example_error": False,
    "matplotlib_animations": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_calib"
html_static_path = ["_static"]
html_favicon = html_logo = "_static/logo.svg"
html_css_files = ["site.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("search_text.js", "breaks.js")]
html_show_sourcelink = False
# pages without others below them have nothing to navigate
ALONE = (
    "index",
    "start",
    "comparison",
    "evidence",
    "stability",
    "licenses",
    "security",
    "architecture",
)
html_sidebars = {page: [] for page in (*ALONE, "contributing", "releasing", "changelog")}
html_theme_options = {
    "logo": {"text": f"sklearn_calib {release}", "alt_text": "sklearn_calib"},
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher", "navbar-icon-links"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}
if repository:
    html_theme_options |= {
        "github_url": repository,
        "navbar_start": ["navbar-logo", "version-switcher"],
        "switcher": {
            "json_url": f"{pages}versions.json",
            "version_match": "dev" if "dev" in release else release,
        },
        "check_switcher": False,
    }


def link_page(match):
    """Return a link to a page of the guide that a docstring names, with the title of the page."""
    title = Path(__file__).parent.joinpath(f"{match[1]}.md").read_text(encoding="utf-8")
    return f":doc:`{title[2:].splitlines()[0].partition(':')[0]} </{match[1]}>`"


def prepare_docstring(app, what, name, obj, options, lines):
    """Escape what is not markup in a docstring, and link the pages that it names by their files."""
    text = "\n".join(lines)
    # outside of code, the underscore at the end of an attribute within another's shape is not a link
    found = re.compile(r"``[^`]+``|^ *>>>.*$|(?<=\w)_(?=,?\)| -)", flags=re.MULTILINE)
    text = found.sub(lambda match: r"\_" if match[0] == "_" else match[0], text)
    # an author's initial does not begin a list
    text = re.sub(r"^((?: *\.\. \[\w+\])? *[A-Z])\. (?=[A-Z])", r"\1\\. ", text, flags=re.MULTILINE)
    lines[:] = re.sub(r"\bdocs/([\w/]+)\.md", link_page, text).split("\n")


def skip_scikit_learn(app, what, name, obj, skip, options):
    """Omit methods that scikit-learn's base classes add to every estimator; scikit-learn documents them."""
    module = getattr(obj, "__module__", None) or ""
    added = name in ("set_output", "get_metadata_routing") or re.fullmatch(r"set_\w+_request", name)
    return True if added or module.startswith("sklearn.") else None


def quote_readme(app, docname, source):
    """Put sections of the README into the front page, with links as seen from this folder."""
    if docname == "index":
        readme = Path(app.srcdir).parent.joinpath("README.md").read_text(encoding="utf-8")
        parts = re.split(r"^## (.+)\n", readme, flags=re.MULTILINE)
        sections = {parts[i]: f"## {parts[i]}\n{parts[i + 1]}" for i in range(1, len(parts), 2)}
        sections["introduction"] = parts[0].split("\n\n", 2)[2]  # without title and slogan
        source[0] = re.sub(r"<!-- README: (.+?) -->", lambda match: sections[match[1]], source[0])
        for link, target in {
            "(benchmarks/results/interval_coverage.md)": "(testing.md#coverage-of-the-confidence-intervals)",
            "(benchmarks/results/calibrators_two_classes.md)": "(calibrators.md#results-for-binary-targets)",
            "](examples/": "](../examples/",
            "](docs/": "](",
            "](benchmarks/": "](../benchmarks/",
        }.items():
            source[0] = source[0].replace(link, target)


def section(app, path, title):
    """Return the section of a file with tables that follows its title in bold letters."""
    text = Path(app.srcdir, path).read_text(encoding="utf-8")
    return text.partition(f"**{title}**\n")[2].partition("\n**")[0]


def cards(found):
    """Return cards instead of a list of links to pages."""
    link = r"^- \[(.+)\]\((\S+)\): (.+)$"
    card = ":::{grid-item-card} \\1\n:link: \\2\n:link-type: url\n\\3\n:::"
    items = re.sub(link, card, found[1], flags=re.MULTILINE).replace(".md", ".html")
    items = items.replace("../examples", "auto_examples/index.html")
    return f"::::{{grid}} 1 2 3 3\n:gutter: 3\n\n{items}::::\n"


def show_in_site(app, docname, source):
    """Show as part of the site what code-hosting sites show as links: tables, texts, examples, cards."""
    kinds = {
        r"Table of results\]\((\S+\.md)": "```{include} \\1\n:heading-offset: 2",
        r"Table of results\]\((\S+\.txt)": "```{literalinclude} \\1\n:language: text",
        r"Table of results\]\((\S+\.csv)": "```{csv-table}\n:file: \\1\n:header-rows: 1",
        r"Text of this \w+\]\((\S+)": "```{include} \\1\n:start-line: 1\n:relative-docs: docs/",
    }
    for link, directive in kinds.items():
        source[0] = re.sub(rf"^\[{link}\)$", f"{directive}\n```", source[0], flags=re.MULTILINE)
    link = r'^\[Table of results\]\((\S+) "(.+)"\)$'
    source[0] = re.sub(
        link, lambda found: section(app, *found.groups()), source[0], flags=re.MULTILINE
    )
    source[0] = re.sub(
        r"<!-- pages\n(.+?)-->", "```{toctree}\n:hidden:\n\n\\1```", source[0], flags=re.DOTALL
    )
    source[0] = re.sub(r"<!-- cards -->\n((?:- .+\n)+)", cards, source[0])
    link = r"\]\(((?:\.\./)*)\.\./examples/([\w/]+)\.py\)"
    source[0] = re.sub(link, r"](\1auto_examples/\2.rst)", source[0])
    source[0] = re.sub(r"\]\(\.\./examples\)", "](auto_examples/index.rst)", source[0])


def list_objects(app, docname, source):
    """Add the tables of all subpackages to the page of the reference, one line for each object."""
    if docname == "api":
        tables = [
            Path(app.srcdir, "reference", f"{name}.md").read_text()
            for name in re.findall(r"^reference/(\w+)$", source[0], re.MULTILINE)
        ]
        tables = (
            "\n".join(tables).replace("   :toctree: ../generated/\n", "").replace("](../", "](")
        )
        source[0] += "\n" + re.sub(r"^#", "##", tables, flags=re.MULTILINE)


def add_mathjax(app):
    """Copy the script and the fonts of MathJax for TeX."""
    target = Path(app.outdir, "_static", "mathjax")
    shutil.copytree(
        MATHJAX / "output" / "chtml" / "fonts",
        target / "output" / "chtml" / "fonts",
        dirs_exist_ok=True,
    )
    shutil.copy(MATHJAX / "tex-chtml.js", target)


def check_site(app, exception):
    """Fail if a link within the site has no target."""
    if exception is None and app.builder.name == "html":
        add_mathjax(app)
        broken = broken_links(Path(app.outdir))
        if broken:
            raise SphinxError("links without a target:\n" + "\n".join(broken))


def setup(app):
    app.connect("source-read", quote_readme)
    app.connect("source-read", show_in_site)
    app.connect("source-read", list_objects)
    app.connect("build-finished", check_site)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=1)
    app.connect("autodoc-skip-member", skip_scikit_learn)
