"""Link names in the guide, such as `smooth_ece` or `metrics.smooth_ece`, and in docstrings docs/inputs.md."""

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

__all__ = ["setup"]

PAGE = re.compile(r"docs/([\w/]+)\.md")
SUBPACKAGES = sorted(path.stem for path in (Path(__file__).parent / "reference").glob("*.md"))


@cache
def pages_of_names() -> dict[str, str]:
    """Return the page of each public object, by its name and by its name with the subpackage."""
    found = {}
    for subpackage in SUBPACKAGES:
        for name in importlib.import_module(f"sklearn_calib.{subpackage}").__all__:
            page = f"generated/sklearn_calib.{subpackage}.{name}"
            found |= {
                name: page,
                f"{subpackage}.{name}": page,
                f"sklearn_calib.{subpackage}.{name}": page,
            }
    return found


class LinkNames(SphinxPostTransform):
    """Link literals that name a public object, with or without a call; in docstrings, pages of the guide."""

    default_priority = 400
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Link the literals of one page."""
        here = self.env.docname
        if here.startswith("generated/"):
            self.link_guide(here)
            return  # docstrings name the objects that they mean to link
        pages = pages_of_names()
        for literal in list(self.document.findall(nodes.literal)):
            page = pages.get(re.sub(r"\(.*\)$", "", literal.astext(), flags=re.DOTALL))
            around = ancestors(literal)
            inside = any(isinstance(up, nodes.reference | nodes.title) for up in around)
            # the first column of these pages has names of other packages
            cells = [up for up in around if isinstance(up, nodes.entry)]
            theirs = here.startswith("migration/") and any(up is up.parent[0] for up in cells)
            if page is None or inside or theirs or page not in self.env.found_docs:
                continue
            link = make_refnode(self.app.builder, here, page, None, literal.deepcopy())
            literal.replace_self(link)

    def link_guide(self, here: str) -> None:
        """Link the pages of the guide that the text of one page names."""
        for text in list(self.document.findall(nodes.Text)):
            parts = PAGE.split(text.astext())
            no_prose = nodes.reference | nodes.FixedTextElement
            if len(parts) == 1 or any(isinstance(up, no_prose) for up in ancestors(text)):
                continue
            linked: list[nodes.Node] = [nodes.Text(parts[0])]
            for page, after in zip(parts[1::2], parts[2::2], strict=True):
                name = nodes.Text(f"docs/{page}.md")
                known = page in self.env.found_docs
                linked += [
                    make_refnode(self.app.builder, here, page, None, name) if known else name
                ]
                linked += [nodes.Text(after)]
            text.parent.replace(text, linked)


def ancestors(node: nodes.Node) -> list[nodes.Node]:
    """Return the nodes around a node."""
    around = []
    while node.parent is not None:
        node = node.parent
        around.append(node)
    return around


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the links with Sphinx."""
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
