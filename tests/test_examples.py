"""The gallery: every example runs as a script, prints, draws a picture, and leaves the style alone."""

import re
import runpy
from pathlib import Path

import pytest

mpl = pytest.importorskip("matplotlib", reason="the examples draw")
EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*/plot_*.py"))
MOST_LINES = 60


@pytest.fixture
def pyplot(monkeypatch):
    """Return pyplot without windows."""
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: None)
    return plt


# the documentation is built from the output of the same scripts before a change lands
@pytest.mark.weekly
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, pyplot, capsys):
    before = dict(mpl.rcParams)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    assert len(figures) == 1
    figures[0].draw_without_rendering()
    assert ([ax for ax in figures[0].axes if not ax.has_data()], dict(mpl.rcParams)) == ([], before)
    titles = [ax.get_title() for ax in figures[0].axes]
    assert any([figures[0].get_suptitle(), *titles]), "a title states the result"
    for ax in figures[0].axes:
        legend = ax.get_legend()
        if legend is not None:
            box = legend.get_window_extent()
            for line in ax.lines:
                points = line.get_transform().transform(line.get_xydata())
                shown = [point for point in points if ax.bbox.contains(*point)]
                assert not any(box.contains(*point) for point in shown), "the legend covers a line"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_stands_alone(path):
    prose, code = path.read_text(encoding="utf-8").split('"""\n', 2)[1:]
    title, underline = prose.splitlines()[:2]
    assert underline == "=" * len(title)
    lines = [line for line in code.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(lines) < MOST_LINES
    assert lines[-1] == "plt.show()"
    # the gallery saves a figure at the end of the block that creates it
    assert all(
        block.rstrip().endswith("plt.show()") for block in code.split("# %%") if "plt.subplots(" in block
    )
    assert not re.search(r"\._[a-z]|import _", code), "private names"


def test_the_gallery_is_not_empty():
    assert len(EXAMPLES) > 10
