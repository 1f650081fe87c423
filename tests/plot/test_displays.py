"""What all displays of a model share, and those of bins and segments."""

import builtins
from functools import partial

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import metrics, plot
from sklearn_calib._html import number_text
from sklearn_calib.inference import SpiegelhalterTest, find_segments
from sklearn_calib.plot import BinningDisplay, SegmentsDisplay
from tests._samples import simulated
from tests._scripts import ROOT, script
from tests._tiers import thorough

mpl = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")
reliability = partial(plot.ReliabilityDisplay.from_predictions, curve="binned")
cutoff = partial(plot.CutoffDisplay.from_predictions, n_resamples=99)
decision = partial(plot.DecisionDisplay.from_predictions, n_resamples=39)
murphy = partial(plot.MurphyDisplay.from_predictions, band="simultaneous", n_resamples=39)
risk_coverage = partial(plot.RiskCoverageDisplay.from_predictions, confidence=0.95)
observed = partial(plot.TestDisplay.from_predictions, test=SpiegelhalterTest())


def comparison(y, p, **params):
    models = {"$a$": p, "b": p**2}
    given = {"metrics": metrics.cutoff_calibration_error, "n_resamples": 39, **params}
    return plot.ComparisonDisplay.from_predictions(y, models, **given)


def benefit(y, p, **params):
    return plot.DecisionCurveDisplay.from_predictions(y, {"$a$": p, "b": p**2}, n_resamples=39, **params)


def plane(y, p, **params):
    return plot.ScoreDecompositionDisplay.from_predictions(y, {"$a$": p, "b": p**2}, **params)


def binning(y, p, **params):
    return plot.BinningDisplay(np.linspace(0.05, 0.2, 100), np.full(100, 0.1)).plot(**params)


DRAWN = [reliability, cutoff, decision, comparison, benefit, murphy, plane, risk_coverage, binning]


@pytest.fixture(scope="module")
def forecast():
    return simulated(80, "beta", 0.7, 0.9, truth=1.5, digits=2)


@pytest.mark.parametrize("draw", DRAWN)
def test_the_callers_axes_and_style_are_left_alone(forecast, draw):
    figure, (ax, other) = plt.subplots(1, 2, figsize=(9, 3))

    def state():
        seed = np.random.get_state()[1].tolist()  # noqa: NPY002
        size = figure.get_size_inches().tolist()
        return dict(mpl.rcParams), size, ax.get_position().bounds, ax.get_aspect(), seed

    before, display = state(), draw(*forecast, ax=ax, show_legend=False)
    assert state() == before
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert not other.has_data()
    assert plt.get_fignums() == [figure.number]


@pytest.mark.thorough
@pytest.mark.parametrize("draw", DRAWN)
def test_style_in_force_reaches_new_figures(forecast, draw):
    with mpl.rc_context({"font.size": 7.0, "axes.facecolor": "yellow"}):
        display = draw(*(part[:20] for part in forecast), show_legend=False)
        assert display.ax_.xaxis.label.get_fontsize() == 7.0
        assert mpl.colors.to_hex(display.ax_.get_facecolor()) == "#ffff00"


def monitor(y, p, **params):
    history = {"time": [1, 2], "log_evidence": [0.0, 1.0], "alert": [False, False], "smooth_ece": [0.1, 0.1]}
    return plot.MonitorDisplay(history, threshold=20.0).plot(**params)


ALL = [*DRAWN, observed]
FIGURES = [((6.4, 4.8), None), ((3.2, 3.2), "constrained")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("draw", "size", "layout"),
    [(cutoff, *figure) for figure in FIGURES]
    + [thorough(draw, *FIGURES[place % 2]) for place, draw in enumerate(ALL) if draw is not cutoff],
)
def test_the_legend_lies_below_the_axes_and_within_the_figure(forecast, draw, size, layout):
    figure, ax = plt.subplots(figsize=size, layout=layout)
    draw(*forecast, ax=ax)
    figure.draw_without_rendering()
    legend, labels = ax.get_legend().get_window_extent(), ax.xaxis.get_tightbbox()
    assert -1.0 <= legend.y0 < legend.y1 <= labels.y0 + 1.0
    ax.set_xlabel("labels\ncan change")
    figure.set_dpi(200.0)
    figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().y1 <= ax.xaxis.get_tightbbox().y0 + 1.0
    if layout is None:
        # also if the layout is computed later
        figure.tight_layout()
        figure.draw_without_rendering()
        assert ax.get_legend().get_window_extent().y0 >= -1.0


def test_axes_within_axes_keep_their_place(forecast):
    figure, outer = plt.subplots()
    ax = outer.inset_axes((0.1, 0.4, 0.8, 0.5))
    display = reliability(*forecast, ax=ax)
    figure.draw_without_rendering()
    expected = outer.transAxes.transform([(0.1, 0.4), (0.9, 0.9)])
    np.testing.assert_allclose(ax.get_window_extent().get_points(), expected)
    assert ax.get_legend().get_window_extent().y1 <= ax.xaxis.get_tightbbox().y0 + 1.0
    assert display.ax_histogram_.patches[0].get_data().values.sum() == len(forecast[1])


@pytest.mark.thorough
@pytest.mark.parametrize("draw", [cutoff, *(thorough(draw) for draw in ALL if draw is not cutoff)])
def test_new_figures_grow_by_their_legend(forecast, draw):
    heights = []
    for show_legend in (False, True):
        display = draw(*forecast, show_legend=show_legend)
        display.figure_.draw_without_rendering()
        heights.append(display.ax_.get_window_extent().height)
    assert heights[1] == pytest.approx(heights[0], rel=0.03)


@pytest.mark.parametrize("draw", [*ALL, plot.reliability_grid, monitor])
def test_unknown_and_bad_properties_leave_no_figure(forecast, draw):
    y, p = (part[:20] for part in forecast)
    models = {"a": p, "b": p**2} if draw is plot.reliability_grid else p
    unknown = "'hue' is neither a parameter of this display nor a property"
    for name, error, message in (("hue", TypeError, unknown), ("color", ValueError, "no color")):
        with pytest.raises(error, match=message):
            draw(y, models, **{name: "no color"})
        assert plt.get_fignums() == []
    if draw is not plot.reliability_grid:
        axes = mpl.figure.Figure().add_subplot(projection="polar")
        with pytest.raises(ValueError, match="without projection, got the projection 'polar'"):
            draw(y, p, ax=axes)


def test_small_values_are_printed_with_two_significant_digits():
    for value, text in ((0.0672, "0.067"), (0.000482, "0.00048"), (-2.4e-5, "-0.000024"), (1e-17, "0.000")):
        assert number_text(value, 3) == text
    assert number_text(0.010149, 3, 3) == "0.0101"
    assert [number_text(value) for value in (0.25, 12.5, np.nan)] == ["0.2500", "12.5000", "nan"]
    y, p = simulated(10_000, "beta", 1, 1999)
    shown = f"{metrics.smooth_ece(y, p):.2g}"
    assert float(shown) < 0.001
    assert plot.ReliabilityDisplay.from_predictions(y, p).line_.get_label().split(" = ")[1][:7] == shown


@pytest.mark.parametrize("draw", [*(draw for draw in ALL if draw is not plane), monitor])
def test_short_names_of_properties(forecast, draw):
    display = draw(*forecast, lw=3.5, ls=":", c="red", show_legend=False)
    names = ("lines_", "line_", "points_", "evidence_", "observed_")
    drawn = next(np.ravel(getattr(display, name))[0] for name in names if hasattr(display, name))
    assert (drawn.get_linewidth(), drawn.get_linestyle(), drawn.get_color()) == (3.5, ":", "red")


@pytest.mark.parametrize("draw", DRAWN)
def test_without_matplotlib(monkeypatch, forecast, draw):
    real = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(ImportError, match=r"sklearn-calib\[plot\]"):
        draw(*forecast)


@pytest.mark.parametrize("display", [plot.ReliabilityDisplay, plot.CutoffDisplay])
def test_from_estimator_is_from_predictions(display):
    X, y = load_breast_cancer(return_X_y=True)
    words = np.where(y == 1, "good", "bad")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[::2], words[::2])
    X, words = X[1:200:2], words[1:200:2]
    hidden, weight = {"show_legend": False}, np.random.default_rng(0).integers(1, 4, len(words))
    proba, given = model.predict_proba(X), {"sample_weight": weight, **hidden}
    for label, known, column in [(None, "good", 1), ("bad", "bad", 0)]:
        drawn = display.from_estimator(model, X, words, pos_label=label, **given)
        expected = display.from_predictions(words, proba[:, column], pos_label=known, **given)
        np.testing.assert_array_equal(drawn.line_.get_data(), expected.line_.get_data())
        assert drawn.line_.get_label().startswith("Pipeline: ")
    # the estimator knows the classes of a test set with one class only
    display.from_estimator(model, X[words == "good"], words[words == "good"], **hidden)
    with pytest.raises(ValueError, match="pos_label='ugly' is not among the classes"):
        display.from_estimator(model, X, words, pos_label="ugly")
    with pytest.raises(TypeError, match="estimator must have predict_proba, which RidgeClassifier lacks"):
        display.from_estimator(RidgeClassifier().fit(X, words), X, words)
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=999).fit(X, y)
    with pytest.raises(ValueError, match=r"estimator must have two classes, got 3|for a binary target"):
        display.from_estimator(model, X, y)
    # the labels are those of the estimator
    with pytest.raises(TypeError, match="multiple values for keyword argument 'labels'"):
        plot.RiskCoverageDisplay.from_estimator(model, X, y, labels=[2, 1, 0])


@pytest.mark.parametrize("draw", [reliability, cutoff, risk_coverage])
def test_names_are_not_mathematics(forecast, draw):
    display = draw(*forecast, name=r"$\undefined{$", show_legend=False)
    assert display.line_.get_label().startswith(r"\$\undefined{\$: ")


def test_labels_are_not_mathematics(forecast):
    y, p = forecast
    words = np.where(y == 1, "$1$", "$0$")
    display = cutoff(words, p, pos_label="$1$", show_legend=False)
    display.figure_.draw_without_rendering()
    assert display.ax_.get_xlabel() == r"Predicted probability (\$1\$)"
    assert display.name is None
    models = comparison(*forecast, show_legend=False)
    names = [label.get_text() for label in models.ax_.get_yticklabels()]
    assert names == [r"\$a\$", "b"]


@pytest.mark.parametrize(("power", "found"), [(1.0, "no evidence of miscalibration"), (3.0, "miscalibrated")])
def test_headlines_state_the_finding_and_its_pvalue(power, found):
    y, p = simulated(300, seed=3, truth=power)
    walk = plot.CutoffDisplay.from_predictions(y, p, n_resamples=199, show_legend=False)
    assert walk.line_.get_label().endswith(f"{found} (p = {walk.test.pvalue:.2g})")
    tested = plot.TestDisplay.from_result(walk.test)
    title = tested.ax_.get_legend().get_title().get_text()
    assert title == f"cutoff test: {found} (p = {walk.test.pvalue:.2g})"


def test_classes_are_printed_as_a_person_writes_them():
    X, y = np.arange(40.0)[:, np.newaxis], np.repeat([3, 7], 20)
    model = LogisticRegression().fit(X, y)
    for cls in (plot.ReliabilityDisplay, plot.CutoffDisplay):
        drawn = cls.from_estimator(model, X, y, show_legend=False)
        assert drawn.ax_.get_xlabel() == "Predicted probability (7)"
        p = model.predict_proba(X)[:, 0]
        display = cls.from_predictions(y, p, pos_label=np.int64(3), show_legend=False)
        assert display.ax_.get_xlabel() == "Predicted probability (3)"


def test_both_curves_are_those_of_the_metrics():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet([1, 1, 1], 300), rng.integers(0, 3, 300)
    given = {"reduction": "confidence", "sample_weight": rng.integers(1, 3, 300)}
    display = BinningDisplay.from_predictions(y, p, name="net", **given, show_legend=False)
    for m in (1, 7, 100):
        assert display.line_.get_ydata()[m - 1] == metrics.expected_calibration_error(y, p, n_bins=m, **given)
        smoothed = metrics.logit_smoothed_ece(y, p, bandwidth=1 / m, **given)
        assert display.smoothed_line_.get_ydata()[m - 1] == smoothed
    low, high = display.binned[9:].min(), display.binned[9:].max()
    assert display.line_.get_label() == f"net: binned ECE {low:.3f} to {high:.3f}"
    values = np.concatenate((display.binned[9:], display.smoothed[9:]))
    verdict = f":\nthe bins matter (values differ by {100 * np.ptp(values) / values.max():.0f}%)"
    assert display.smoothed_line_.get_label().endswith(verdict)


def test_the_verdict_of_the_paper_on_two_points():
    # odd numbers of bins do not separate the two predictions
    display = BinningDisplay.from_predictions([0, 1], expit([-5e-4, 5e-4]), show_legend=False)
    assert display.binned[9::2].min() > 0.499
    assert display.binned[10::2].max() < 0.001
    assert display.bins_matter


@pytest.mark.thorough
def test_the_verdict_on_a_large_sample():
    # two rows for each of 300 log-odds, whose weights are the frequencies of the outcomes
    h, y = np.repeat(np.linspace(-4.0, 7.0, 300), 2), np.tile([0, 1], 300)
    w = np.exp(-0.5 * ((h - 1.5) / 2.0) ** 2) * np.where(y == 1, expit(0.7 * h), expit(-0.7 * h))
    display = BinningDisplay.from_predictions(y, expit(h), sample_weight=w)
    assert ":\nthe bins make little difference (values differ by " in display.smoothed_line_.get_label()
    other = BinningDisplay.from_predictions(y, expit(0.7 * h), sample_weight=w, ax=display.ax_)
    assert other.bins_matter
    assert display.ax_.get_ylim()[1] > display.smoothed.max() > other.smoothed.max()
    assert other.line_.get_color() == other.smoothed_line_.get_color() != display.line_.get_color()


def test_rounding_errors_do_not_matter():
    assert not BinningDisplay(np.zeros(100), np.append(np.zeros(99), 9e-10)).bins_matter
    assert BinningDisplay(np.zeros(100), np.append(np.zeros(99), 2e-9)).bins_matter


@pytest.mark.parametrize(("lowest", "matter"), [(0.91, False), (0.89, True)])
@pytest.mark.parametrize("at", [9, 99])
def test_values_from_ten_bins_on_may_differ_by_a_tenth(lowest, matter, at):
    flat, other = np.ones(100), np.ones(100)
    flat[:9] = 0.2
    other[at] = lowest
    assert BinningDisplay(flat, other).bins_matter is matter
    assert BinningDisplay(other, flat).bins_matter is matter


def segmented():
    rng = np.random.default_rng(0)
    X = {"age": rng.integers(18, 80, 2000), "price$": rng.standard_normal(2000)}
    p = rng.uniform(0.1, 0.5, 2000)
    return X, (rng.random(2000) < p + 0.2 * (X["age"] <= 30)).astype(int), p


def test_segments_drawn():
    X, y, p = segmented()
    result = find_segments(X, y, p, segments=["age", "price$"], n_resamples=99)
    display = SegmentsDisplay.from_result(result, color="black")
    expected = [(row.difference, k) for k, row in enumerate(result.segments)]
    np.testing.assert_array_equal(display.points_.get_xydata(), expected)
    assert display.points_.get_color() == "black"
    ends = [segment[:, 0].tolist() for segment in display.intervals_.get_segments()]
    assert ends == [[row.lower, row.upper] for row in result.segments]
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels == [row.segment.replace("$", r"\$") for row in result.segments]
    first = result.segments[0]
    assert display.ax_.texts[0].get_text() == f"  n = {first.n_samples:,.0f}, p = 0.01"


def test_no_segment_found():
    X, _, p = segmented()
    y = (np.random.default_rng(1).random(2000) < p).astype(int)
    display = SegmentsDisplay.from_predictions(X, y, p, n_resamples=99)
    assert [text.get_text() for text in display.ax_.texts] == ["no segment found"]


def test_segments_of_an_estimator_on_given_axes():
    from matplotlib.figure import Figure

    X, y, _ = segmented()
    table = np.column_stack(list(X.values()))
    model = LogisticRegression().fit(table[:, 1:], y)

    class Model:
        classes_ = model.classes_

        def predict_proba(self, X):
            return model.predict_proba(X[:, 1:])

    ax = Figure().subplots()
    display = SegmentsDisplay.from_estimator(Model(), table, y, ax=ax, n_resamples=99)
    assert display.ax_ is ax
    assert ax.get_legend() is None
    assert display.result == find_segments(table, y, model.predict_proba(table[:, 1:]), n_resamples=99)
    with pytest.raises(TypeError, match="find_segments"):
        SegmentsDisplay.from_result(table)


@pytest.mark.thorough
def test_pictures_that_are_hard_to_draw(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    sheet, bad = script("docs/contact_sheet.py"), plt.figure()
    for text in "ab":
        bad.text(0.99, 0.5, 20 * text)
    assert len(sheet.faults(bad)) == 3
    found = {}
    for name, draw in sheet.CASES.items():
        found[name] = sheet.faults(draw())
        plt.close("all")
    assert not {name: faults for name, faults in found.items() if faults}
