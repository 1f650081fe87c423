"""What every page of HTML must satisfy: well formed, stands alone, runs nothing."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Checker(HTMLParser):
    """Collects what a page holds, and fails where an element is not closed."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.tags, self.loads, self.text, self.references = [], [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.loads += [attributes[name] for name in ("src", "href", "xlink:href") if name in attributes]
        self.references += re.findall(r"url\(#([^)]*)\)", " ".join(map(str, attributes.values())))
        assert not [name for name in attributes if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def checked(html):
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert (checker.open, len(set(checker.ids))) == ([], len(checker.ids))
    known = {f"#{name}" for name in checker.ids}
    assert set(checker.loads) <= known
    assert {f"#{name}" for name in checker.references} <= known
    assert "script" not in checker.tags
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)
    return checker
