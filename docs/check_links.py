"""Check that every link inside the built site leads to a page that exists, and to an anchor on it."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken_links"]


class _Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.add(value)
            elif value and name in ("id", "name"):
                self.anchors.add(value)


def broken_links(site: Path) -> list[str]:
    """Return "page: link" for each link of a site to a file or an anchor in it that does not exist."""
    site = site.resolve()
    files = [path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts]
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in files}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file() or (
                anchor and target in pages and anchor not in pages[target].anchors
            ):
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


if __name__ == "__main__":
    found = broken_links(Path(sys.argv[1]))
    print("\n".join(found) or "no broken links")
    sys.exit(bool(found))
