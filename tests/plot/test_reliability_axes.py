"""What the axes of a reliability diagram show: logit scales, kinds of bands, where the predictions lie."""

from itertools import pairwise

import numpy as np
import pytest

from sklearn_calib.metrics import score_decomposition
from sklearn_calib.plot import ReliabilityDisplay

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def ax():
    return plt.figure(figsize=(4, 4)).add_subplot()


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 0.9, 500)
    return (rng.random(500) < p**1.5).astype(int), p


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(0)
    x = rng.normal(-4.5, 1.5, 3000)
    p = 1 / (1 + np.exp(-x))
    y = (rng.random(3000) < p).astype(int)
    p[:25], p[-5:] = 0.0, 1.0
    return y, p


@pytest.mark.parametrize("method", ["smooth", "binned", "corp", "belt"])
def test_logit_axes_have_percent_ticks_and_say_what_is_at_the_edge(rare, method, ax):
    y, p = rare
    if method == "belt":
        y, p = y[25:-5], p[25:-5]
    display = ReliabilityDisplay.from_predictions(
        y, p, method=method, scale="logit", strategy="quantile", ax=ax
    )
    ax.figure.canvas.draw()
    assert ax.get_xscale() == ax.get_yscale() == "logit"
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert {"1%", "10%"} <= set(shown)
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    assert all(one.x1 < two.x0 for one, two in pairwise(boxes))
    low, high = ax.get_xlim()
    inside = p[(p > 0) & (p < 1)]
    assert low < inside.min() < inside.max() < high
    if method == "belt":
        assert display.edges_ == []
        return
    at_zero, at_one = display.edges_[:2]
    assert "predicted 0 or 1 (n = 30)" in texts(ax)
    edge = [mark.get_transform().transform(mark.get_xydata())[0, 0] for mark in (at_zero, at_one)]
    np.testing.assert_allclose(edge, ax.transAxes.transform([[0, 0], [1, 0]])[:, 0])
    assert at_one.get_ydata()[0] == pytest.approx(max(y[-5:].mean(), low))


def test_bins_without_events_stand_at_the_edge_of_a_logit_axis(rare, ax):
    y, p = rare
    display = ReliabilityDisplay.from_predictions(y, p, method="binned", n_bins=40, scale="logit", ax=ax)
    empty = (display.curve.observed == 0) & (display.curve.predicted > 0) & (display.curve.predicted < 1)
    marks = [mark for mark in display.edges_ if mark.get_marker() == "v"]
    assert bool(marks) == bool(empty.any())
    if marks:
        np.testing.assert_array_equal(marks[0].get_xdata(), display.curve.predicted[empty])


def test_scales_do_not_mix(forecast, ax):
    ReliabilityDisplay.from_predictions(*forecast, ax=ax)
    with pytest.raises(ValueError, match="ax holds a diagram with scale='probability'"):
        ReliabilityDisplay.from_predictions(*forecast, scale="logit", ax=ax)


def test_bands_are_told_apart(forecast, ax):
    for band, text in (
        ("confidence", "95% confidence band (pointwise)"),
        ("consistency", "95% consistency band (pointwise)"),
        ("simultaneous", "95% confidence band (simultaneous)"),
    ):
        display = ReliabilityDisplay.from_predictions(*forecast, band=band, n_resamples=99, ax=ax)
        assert display.band_.get_label() == text
        assert text in texts(ax)
    assert display.departures_ is None
    y, p = forecast
    display = ReliabilityDisplay.from_predictions(y, p**0.4, band="simultaneous", ax=ax)
    assert "perfect calibration, outside the band" in texts(ax)
    segments = np.concatenate([path.vertices for path in display.departures_.get_paths()])
    np.testing.assert_array_equal(segments[:, 0], segments[:, 1])
    assert segments[0, 0] == display.curve.bands[0].departures[0].start


def test_the_legend_says_that_limits_cross(ax):
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    display = ReliabilityDisplay.from_predictions(rng.random(2000) > p, p, band="simultaneous", ax=ax)
    assert display.band_.get_label() == "95% confidence band (simultaneous): limits cross"
    assert any(artist.get_hatch() for artist in ax.collections)


def test_values_that_many_rows_share_have_bars(ax):
    rng = np.random.default_rng(0)
    p = rng.choice([0.1, 0.4, 0.8], 300)
    display = ReliabilityDisplay.from_predictions(rng.random(300) < p, p, band="simultaneous", ax=ax)
    (bars,) = [artist for artist in ax.collections if artist.get_gid() == "sklearn_calib.values"]
    lower, upper = display.curve.bands[0].at([0.1, 0.4, 0.8])
    segments = np.array(bars.get_segments())
    np.testing.assert_array_equal(segments[:, :, 0], [[0.1] * 2, [0.4] * 2, [0.8] * 2])
    np.testing.assert_allclose(segments[:, 0, 1], lower)
    np.testing.assert_allclose(segments[:, 1, 1], upper)
    # narrower than between the values
    between = display.curve.bands[0].at([0.2, 0.6])
    assert (upper - lower)[1] < (between[1] - between[0]).min()


def test_short_names_of_properties(forecast, ax):
    display = ReliabilityDisplay.from_predictions(*forecast, lw=0.3, c="k", ls=":", ax=ax)
    assert display.line_.get_linewidth() == 0.3
    assert display.line_.get_color() == "k"


def test_corp_shows_the_parts_of_the_score(forecast, ax):
    display = ReliabilityDisplay.from_predictions(*forecast, method="corp", ax=ax, name="a")
    parts = score_decomposition(*forecast)
    assert display.line_.get_label() == (
        f"a: MCB = {parts.miscalibration:.4f}\nDSC = {parts.discrimination:.4f}, "
        f"UNC = {parts.uncertainty:.4f}"
    )


@pytest.mark.parametrize("method", ["smooth", "corp", "binned"])
def test_width_shows_the_density(forecast, method, ax):
    display = ReliabilityDisplay.from_predictions(*forecast, method=method, density="width", ax=ax)
    curve = display.curve
    if method == "binned":
        sizes = display.density_.get_sizes()
        assert sizes.argmax() == curve.support.argmax()
        assert np.corrcoef(sizes, curve.support)[0, 1] > 0.95
    else:
        widths = np.asarray(display.density_.get_linewidths())
        assert len(widths) == len(display.density_.get_paths())
        assert widths.max() <= 14.0
        if method == "smooth":
            middle = 0.5 * (curve.support[1:] + curve.support[:-1])
            slope = np.polyfit(middle / curve.support.max(), widths, 1)
            np.testing.assert_allclose(slope, [14.0 - 0.8, 0.8], atol=1e-9)
    assert ax.get_ylim()[0] > -0.1


def test_area_of_width_and_gap_is_near_smooth_ece(forecast):
    """What the picture of the authors is for: gap times width, integrated, is the error."""
    display = ReliabilityDisplay.from_predictions(*forecast, density="width", bandwidth="smooth_ece")
    curve = display.curve
    shown = np.isfinite(curve.observed)
    gap = np.where(shown, np.abs(curve.observed - curve.predicted), 0.0)
    values = gap * curve.support
    area = float((0.5 * (values[1:] + values[:-1]) * np.diff(curve.predicted)).sum())
    assert abs(area - curve.error) <= 0.8 * curve.bandwidth + 0.01


def test_events_and_others_have_histograms_of_their_own(forecast, ax):
    y, p = forecast
    display = ReliabilityDisplay.from_predictions(y, p, density="classes", ax=ax)
    data = display.curve.distribution
    np.testing.assert_allclose(data.events / 50, np.histogram(p[y == 1], data.edges)[0] / 500, atol=1e-12)
    heights = display.density_.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0.5, 1.0)
    assert {"events (up)", "non-events (down)"} <= set(texts(ax))


def test_rug_has_a_tick_for_each_place(forecast, ax):
    y, p = forecast
    display = ReliabilityDisplay.from_predictions(y, p, density="rug", ax=ax)
    segments = np.array(display.density_.get_segments())
    up = segments[segments[:, 1, 1] == 1.0]
    down = segments[segments[:, 1, 1] == 0.0]
    for part, outcome in ((up, 1), (down, 0)):
        places = np.unique(np.minimum((p[y == outcome] * 1000).astype(int), 999))
        found = np.unique(np.minimum((part[:, 0, 0] * 1000 + 1e-9).astype(int), 999))
        np.testing.assert_array_equal(found, places)
