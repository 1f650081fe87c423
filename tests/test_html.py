"""Results as HTML: the same facts as the text, everything escaped, nothing loaded."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np

from sklearn_calib import inference, metrics
from sklearn_calib._html import MOST_ROWS, result_html
from tests import _every as every

VOID = {"br", "hr", "img", "link", "input", "meta"}
EVIL = "<script>alert('1')</script> & \"quoted\""


class Page(HTMLParser):
    """Text, tags and attributes of a block; fails where tags do not nest."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes = [], [], []
        self.texts, self.rows, self.folded, self.summaries = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag not in VOID
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows_here().append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((data, "details" in self.open))
        if "tr" in self.open:
            self.rows_here()[-1].append(data)
        if "summary" in self.open:
            self.summaries.append(data)

    def rows_here(self):
        return self.folded if "details" in self.open else self.rows

    def facts(self):
        """The texts that are seen without unfolding."""
        return [text for text, folded in self.texts if not folded]


def numbers(text):
    return re.findall(r"\d+(?:\.\d+)?(?:e[-+]\d+)?", text)


#: Results whose text is a table, and reports, which have tests of their own.
TABLES = {"cutoff_of_classes", "comparison", "segments", "selection", "requirements_result"}
TABLES |= {"report", "report_of_classes"}
MORE = {
    "impossible": lambda: inference.CoxTest().test([0, 1, 1], [0.2, 0.0, 0.7]),
    "expected_alone": lambda: metrics.expected_performance([0.2, 0.7]),
}


def results():
    for name, make in (every.RESULT_MAKERS | MORE).items():
        if name not in TABLES and hasattr(result := make(), "_repr_html_"):
            yield name, result


def test_the_same_facts_as_the_text_and_nothing_is_loaded_or_run():
    for name, result in results():
        html = result._repr_html_()
        page = Page(html)
        text, facts = str(result), " | ".join(page.facts())
        assert sorted(set(numbers(text))) == sorted(set(numbers(facts))), name
        # every value of the block is in the text, word for word but for spaces
        for row in page.rows:
            assert all(word in text for word in row[1].split()), name
        tags = {"div", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
        assert set(page.tags) <= tags, name
        assert {key for key, _ in page.attributes} <= {"style", "scope"}, name
        assert "url(" not in html
        assert "//" not in html
        # no color of its own, so that dark pages keep theirs
        for key, style in page.attributes:
            if key == "style":
                declared = dict(item.split(":", 1) for item in style.strip(";").split(";"))
                assert declared.get("color", "inherit") == "inherit", name
                assert declared.get("background", "none") == "none", name


def test_everything_is_escaped():
    @dataclasses.dataclass(frozen=True)
    class Row:
        label: str
        share: float

    result = inference.CalibrationTestResult(
        test=EVIL, null_hypothesis=EVIL, statistic=1.0, pvalue=0.5, estimate=0.1, method=EVIL,
        n_samples=3, scales=(Row(EVIL, 0.5),), reason=EVIL,
    )  # fmt: skip
    html = result._repr_html_()
    assert "<script" not in html
    page = Page(html)
    assert "script" not in page.tags
    assert (page.texts.count((EVIL, False)), page.texts.count((EVIL, True))) == (3, 1)
    assert (f"0.5  ({EVIL})", False) in page.texts
    for table in [(EVIL, [EVIL])], [("rows", [f"{EVIL}"])]:
        assert "<script" not in result_html("title", [(EVIL, EVIL)], table)


def test_rows_of_any_kind():
    @dataclasses.dataclass(frozen=True)
    class Row:
        count: int
        share: float

    tables = [("none", ()), ("mixed", (Row(1, 0.5), "text"))]
    page = Page(result_html("t", [("a", "b"), ("empty", "")], tables))
    assert (page.rows, page.folded) == ([["a", "b"]], [[str(Row(1, 0.5))], ["text"]])
    assert page.summaries == ["mixed"]
    many = tuple(Row(np.int64(100_000 + k), np.float64(1 / 3)) for k in range(MOST_ROWS + 7))
    page = Page(result_html("t", [], [("many", many)]))
    assert (len(page.folded), page.folded[0]) == (1 + MOST_ROWS, ["count", "share"])
    assert page.folded[1] == ["100000", "0.3333"]
    assert ("and 7 more", True) in page.texts
