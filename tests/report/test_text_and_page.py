"""The report as text, as a page and as a block: fits, stands alone, is well formed, and escapes."""

import builtins
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from sklearn_calib.report import ReportRegion, calibration_report
from sklearn_calib.report._graphs import region_strip
from sklearn_calib.report._words import one_line
from tests.report._page import checked

EVIL = '<script>alert("x")</script>&"\'\n\x1b[31m'


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 800)
    return (rng.random(800) < p**1.4).astype(int), p


@pytest.fixture(scope="module")
def report(forecast):
    groups = np.where(np.arange(800) % 2, "east", EVIL)
    return calibration_report(*forecast, groups=groups, name=EVIL, n_resamples=20)


@pytest.fixture(scope="module")
def several():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(25, 0.3), 600)
    y = (p.cumsum(axis=1) < rng.random(600)[:, np.newaxis]).sum(axis=1).clip(0, 24)
    labels = [f"class {k} with a name that is rather long, as names of classes are" for k in range(25)]
    extreme = p**3
    return calibration_report(
        np.array(labels)[y], extreme / extreme.sum(axis=1, keepdims=True), labels=labels, n_resamples=20
    )


@pytest.fixture(scope="module")
def page(report):
    return report.to_html()


@pytest.mark.parametrize("which", ["report", "several"])
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
        assert marked == line.exceeds or line.name.startswith("observed")
    for section in ("Where and how", "What to do", "Measures", "Tests", "Noise alone"):
        assert section in lines
    assert ("Groups" in lines, "Classes, each against the rest" in lines) == (
        which == "report",
        which == "several",
    )


def test_the_text_lists_the_worst_classes(several):
    text = str(several)
    assert "and 5 more, with greater p-values" in text
    worst = min(several.classes, key=lambda part: part.pvalue)
    assert worst.name[:16] in text


@pytest.mark.parametrize("which", ["report", "several"])
def test_the_page_is_well_formed_and_stands_alone(which, request):
    pytest.importorskip("matplotlib")
    report = request.getfixturevalue(which)
    page = report.to_html()
    found = checked(page)
    assert found.tags.count("figure") == 4
    text = " ".join(found.text)
    for sentence in (*report.findings, *report.advice, *report.warnings):
        assert " ".join(sentence.split()) in " ".join(
            re.sub(r"</?code>", "", page.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">"))
            .replace("&#x27;", "'")
            .replace("&amp;", "&")
            .split()
        )
    for line in (*report.metrics, *report.tests):
        assert line.name in text
    assert "prefers-color-scheme:dark" in page
    assert "@media print" in page
    assert "<metadata" not in page


def test_texts_of_the_user_are_escaped(report):
    page, block = report.to_html(title=EVIL), report._repr_html_()
    for html in (page, block):
        assert "<script" not in html
        assert "\x1b" not in html
        checked(html)
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;" in page


def test_labels_are_escaped(forecast):
    y = np.where(forecast[0][:60] == 1, "<b>yes</b>", "<a>no</a>")
    report = calibration_report(y, forecast[1][:60], n_resamples=20)
    assert report.positive == "<b>yes</b>"
    page = report.to_html()
    assert "<b>yes" not in page
    assert "&lt;b&gt;yes&lt;/b&gt;" in page
    assert 'an event is "<b>yes</b>"' in str(report)


@pytest.mark.thorough
def test_the_block_keeps_to_itself(report, several):
    block = report._repr_html_()
    style = re.search(r"<style>(.*?)</style>", block, flags=re.DOTALL)[1]
    without_media = re.sub(r"@media[^{]*\{", "", style)
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", without_media)
    assert len(selectors) > 30
    for selector in selectors:
        for one in selector.split(","):
            assert one.strip().startswith(".sklearn-calib-report")
    first, second = checked(block), checked(several._repr_html_())
    assert not set(first.ids) & set(second.ids)
    assert block == report._repr_html_()


def test_the_page_is_written(report, page, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "report.html"
    assert report.to_html(path) == page
    assert path.read_text(encoding="utf-8") == page
    report.to_html(str(path), title="Häuser")
    assert "<title>Häuser</title>" in path.read_text(encoding="utf-8")
    with pytest.raises(FileNotFoundError):
        report.to_html(tmp_path / "missing" / "report.html")


def test_without_matplotlib_there_are_no_pictures_and_the_page_says_so(report, monkeypatch):
    importing = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return importing(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    page = report.to_html()
    assert "<figure" not in page
    assert "No pictures: matplotlib is not installed." in page
    assert "smooth ECE" in checked(page).text


def test_pictures_leave_the_settings_of_matplotlib_alone(report):
    mpl = pytest.importorskip("matplotlib")
    plt = pytest.importorskip("matplotlib.pyplot")
    before, figures = dict(mpl.rcParams), plt.get_fignums()
    report.to_html()
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == figures


def test_rare_events_are_drawn_where_they_are():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    p = rng.beta(1, 200, 4000)
    report = calibration_report((rng.random(4000) < p).astype(int), p, n_resamples=20)
    assert "Share of rows" in report.to_html()
    assert max(map(len, str(report).splitlines())) <= 100


def test_dict_is_json(report, several):
    for each in (report, several):
        text = json.dumps(each.to_dict(), allow_nan=False)
        back = json.loads(text)
        assert back["metrics"]["smooth_ece"]["value"] == each.metric("smooth_ece").value
        assert [test["name"] for test in back["tests"]] == [test.name for test in each.tests]
        assert back["verdict"]["level"] in ("off", "slight", "fine", "open")
        assert back["findings"] == list(each.findings)
        assert len(back["classes"]) == len(each.classes)


def test_one_line():
    assert one_line("a\n b\t\x00c") == "a b c"
    assert one_line("x" * 30, 10) == "xxxxxxx..."


def test_a_single_prediction_that_is_off_can_be_seen():
    one = dict.fromkeys(ReportRegion.__dataclass_fields__, 0.5)
    region = ReportRegion(**one | {"observed": 0.7})
    page = region_strip((region,), 0.0, 1.0)
    assert 'x="498.0"' in page
    assert 'width="4.0"' in page
    # at an end it stays inside
    assert 'x="996.0"' in region_strip((replace(region, lower=1.0, upper=1.0),), 0.0, 1.0)
