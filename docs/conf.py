"""Sphinx configuration: guides in Markdown, a gallery of examples, a page for each public object."""

import os
import re
import sys
import warnings
from pathlib import Path

from sphinx.errors import SphinxError

import sklearn_calib

sys.path.insert(0, str(Path(__file__).resolve().parent))
from check_links import broken_links
from pictures import draw_all

# warnings are errors here; those of the libraries under an example are not the reader's business
os.environ.setdefault("MPLBACKEND", "agg")
warnings.filterwarnings("ignore", category=DeprecationWarning)

project = "sklearn_calib"
author = copyright = "The sklearn_calib developers"
version = release = sklearn_calib.__version__
extensions = [
    "link_names",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "**/sg_execution_times.rst", "sg_execution_times.rst"]
templates_path = ["_templates"]
# the pages of the gallery cannot be pickled for its cache
suppress_warnings = ["config.cache"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "alphabetical"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(__init__|quickstart)\.py",
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
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"index": [], "start": [], "contributing": [], "changelog": []}
html_theme_options = {
    "logo": {"text": "sklearn_calib"},
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}


def escape_trailing_underscores(app, what, name, obj, options, lines):
    """Escape the underscore at the end of an attribute in the shape of another: it would read as a link."""
    lines[:] = [re.sub(r"(?<=\w)_(?=,?\)| -)", r"\\_", line) for line in lines]


def skip_scikit_learn(app, what, name, obj, skip, options):
    """Leave out what scikit-learn's base classes add to every estimator: its own manual describes that."""
    module = getattr(obj, "__module__", None) or ""
    added = name in ("set_output", "get_metadata_routing") or re.fullmatch(r"set_\w+_request", name)
    return True if added or module.startswith("sklearn.") else None


def check_site(app, exception):
    """Fail if a link inside the site leads nowhere."""
    if exception is None and app.builder.name == "html":
        broken = broken_links(Path(app.outdir))
        if broken:
            raise SphinxError("links that lead nowhere:\n" + "\n".join(broken))


def setup(app):
    app.connect("builder-inited", lambda app: draw_all())
    app.connect("build-finished", check_site)
    app.connect("autodoc-process-docstring", escape_trailing_underscores, priority=1)
    app.connect("autodoc-skip-member", skip_scikit_learn)
