"""The report as text, as a page and as a block: fits, stands alone, is well formed, and escapes."""

import json
import re
import sys

import numpy as np
import pytest

from sklearn_calib._validation import check_binary
from sklearn_calib.report._figures import _points
from sklearn_calib.report._page import _templates
from sklearn_calib.report._words import one_line
from tests._every import short_report
from tests._samples import simulated
from tests.report._page import checked


@pytest.mark.parametrize("which", ["report", "many_classes"])
def test_text_fits_and_says_it_all(which, request):
    report = request.getfixturevalue(which)
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 100
    assert all(line == line.rstrip() for line in lines)
    assert all(line.isprintable() for line in lines)
    flat = " ".join(" ".join(lines).split())
    for sentence in (*report.findings, *report.advice, *report.warnings):
        assert " ".join(sentence.split()) in flat or one_line(sentence) in flat
    for line in report.metrics:
        marked = line.name in "".join(text for text in lines if text.startswith("* "))
        assert marked == line.exceeds or line.name.startswith(("observed", "log loss", "Brier"))
    assert {"Findings", "Recommendations", "Metrics", "Tests"} <= set(lines)
    assert ("Groups, worst first" in lines) == (which == "report")
    assert ("Classes, each against the rest, worst first" in lines) == (which == "many_classes")


def test_the_page_is_well_formed_and_self_contained(report, page):
    pytest.importorskip("matplotlib")
    found = checked(page)
    assert found.tags.count("figure") == 4
    text = " ".join("".join(found.text).split())
    for sentence in (*report.findings, *report.advice, *report.warnings):
        assert " ".join(sentence.split()) in text
    for line in (*report.metrics, *report.tests):
        assert line.name in text
    assert "prefers-color-scheme:dark" in page
    assert "@media print" in page
    assert "<metadata" not in page


def test_classes_are_shown_worst_first(many_classes, classes_block):
    pytest.importorskip("matplotlib")
    worst = [part.name for part in sorted(many_classes.classes, key=lambda part: part.pvalue)]
    assert worst != [part.name for part in many_classes.classes]
    pvalues = {part.name: part.pvalue for part in many_classes.classes}
    section = str(many_classes).split("worst first\n")[1]
    listed = [name for line in section.splitlines() for name in worst if line[2:].startswith(name[:16])]
    figure = classes_block.split('class="wide"')[1]
    drawn = re.findall(r">(class \d\d)[^<]*</text>", figure.split("</figure>")[0])
    assert (len(listed), len(drawn)) == (20, 12)
    by_number = {name[:8]: pvalues[name] for name in worst}
    for shown in (listed, drawn):
        found = [by_number[name[:8]] for name in shown]
        assert found == sorted(pvalues.values())[: len(found)]
    # the others are named below the diagrams
    caption = figure.split("<figcaption>")[1].split("</figcaption>")[0]
    assert caption.count("class 0") + caption.count("class 1") + caption.count("class 2") == 12
    assert "and 1 more, with larger p-values" in caption


def test_the_block_keeps_to_itself(page, classes_block):
    style = re.search(r"<style>(.*?)</style>", classes_block, flags=re.DOTALL)[1]
    without_media = re.sub(r"@media[^{]*\{", "", style)
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", without_media)
    assert len(selectors) > 30
    for selector in selectors:
        for one in selector.split(","):
            assert one.strip().startswith(".sklearn-calib-report")
    first, second = checked(page), checked(classes_block)
    assert not set(first.ids) & set(second.ids)


def test_without_matplotlib_there_are_no_pictures_and_the_page_says_so(report, no_matplotlib):
    page = report.to_html()
    assert "<figure" not in page
    assert "No figures: matplotlib is not installed." in page
    assert "smooth ECE" in checked(page).text


def test_bars_of_many_rows_are_those_of_the_rows():
    pytest.importorskip("matplotlib")
    p = np.random.default_rng(0).beta(0.5, 40.0, 100_000)
    y = (np.arange(p.size) % 40 == 0).astype(int)
    points = _points(check_binary(y, p))
    assert points.p.size < 6000
    edges = np.linspace(p.min(), p.max(), 41)
    bars = np.histogram(points.p, edges, weights=points.w)[0]
    # predictions in one cell of 1/400 of the range are shown at their mean
    np.testing.assert_array_equal(bars, np.histogram(p, edges)[0])


def test_dict_is_json(report, many_classes):
    for each in (report, many_classes):
        text = json.dumps(each.to_dict(), allow_nan=False)
        back = json.loads(text)
        assert back["metrics"]["smooth_ece"]["estimate"] == each.metric("smooth_ece").estimate
        assert [test["name"] for test in back["tests"]] == [test.name for test in each.tests]
        assert back["verdict"]["level"] in ("off", "slight", "fine", "open")
        assert (back["findings"], len(back["classes"])) == (list(each.findings), len(each.classes))


def test_without_jinja2_the_page_is_refused_and_a_notebook_shows_text(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    _templates.cache_clear()
    with pytest.raises(ImportError, match=r"sklearn-calib\[report\]"):
        report.to_html()
    block = report._repr_html_()
    assert block.startswith("<pre>Calibration report")
    assert "<script" not in block
    _templates.cache_clear()


@pytest.fixture(scope="module")
def labeled(tmp_path_factory):
    """Report and page of labels with dollars and weights by class."""
    pytest.importorskip("jinja2")
    mpl, plt = pytest.importorskip("matplotlib"), pytest.importorskip("matplotlib.pyplot")
    before, figures = dict(mpl.rcParams), plt.get_fignums()
    y, p = simulated(200, "uniform", 0.1, 0.9, digits=2)
    labels, w = np.array(["$A$", "$\\frac{1}$ <z>"])[y], np.where(y, 1.0, 3.0)
    found = short_report(labels, p, pos_label="$\\frac{1}$ <z>", sample_weight=w)
    path = tmp_path_factory.mktemp("page") / "report.html"
    page = found.to_html(path, title="Häuser")
    assert path.read_text(encoding="utf-8") == page
    # the style and the figures of the user stay as they are
    assert (dict(mpl.rcParams), plt.get_fignums()) == (before, figures)
    return found, page


def test_labels_and_weights_by_class_on_the_page(labeled, page):
    assert "<title>Häuser</title>" in labeled[1]
    assert "Predicted probability ($\\frac{1}$ <z>)" in checked(labeled[1]).text
    text = " ".join(str(labeled[0]).split())
    assert "by class (case-control), tested as probabilities among the samples" in text
    assert "null band" not in labeled[1]
    assert "predictions are too high. Gray: 95% null band. The bar" in page
