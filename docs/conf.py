"""Sphinx configuration: the guides are Markdown, the reference comes from the docstrings."""

import re

import sklearn_calib

project = "sklearn_calib"
author = "The sklearn_calib developers"
version = release = sklearn_calib.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build"]
# the guides link to files of the source tree outside this folder, and docstrings to scikit-learn's
suppress_warnings = ["myst.xref_missing", "ref.*"]
html_theme = "furo"
html_title = "sklearn_calib"
autodoc_typehints = "none"
autodoc_member_order = "alphabetical"
numpydoc_show_class_members = False


def setup(app):
    """Escape the underscore at the end of an attribute in the shape of another: it would read as a link."""

    def escape(app, what, name, obj, options, lines):
        lines[:] = [re.sub(r"(?<=\w)_(?=,?\)| -)", r"\\_", line) for line in lines]

    app.connect("autodoc-process-docstring", escape, priority=1)
