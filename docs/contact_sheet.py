"""Draw the displays from samples that are hard to draw, and all of them on one sheet, to be judged by eye.

``make pictures`` draws docs/_build/pictures/sheet.png and a picture of each case beside it, and prints
faults. A thorough test looks for them, too: no text overlaps another one or leaves its figure, tick labels
differ, and no curve leaves the range of the predictions, or of their kernel.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit, logit
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
from sklearn_calib.inference import CombinedTest, find_segments
from sklearn_calib.monitor import CalibrationMonitor
from sklearn_calib.plot import (
    BinningDisplay,
    ComparisonDisplay,
    CutoffDisplay,
    DecisionCurveDisplay,
    DecisionDisplay,
    MonitorDisplay,
    MurphyDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    ScoreDecompositionDisplay,
    SegmentsDisplay,
    TestDisplay,
    reliability_grid,
)
from sklearn_calib.plot._reliability import _drawn_curves

import pictures

PLACE = Path(__file__).resolve().parent / "_build" / "pictures"
Sample = tuple[np.ndarray, np.ndarray]


def forecasts(n: int, low: float = 0.0, high: float = 1.0) -> Sample:
    """Return outcomes and slightly wrong predictions between two numbers."""
    rng = np.random.default_rng(n)
    p = low + (high - low) * rng.beta(0.7, 0.9, n)
    true = expit(0.7 * logit(np.clip(p, 1e-9, 1 - 1e-9))) if (low, high) == (0.0, 1.0) else p
    return (rng.random(n) < true).astype(int), p


def models(
    number: int, n: int = 2000, low: float = 0.0, high: float = 1.0
) -> tuple[np.ndarray, dict]:
    """Return outcomes and the predictions of several models."""
    y, p = forecasts(n, low, high)
    odds, rng = logit(np.clip(p, 1e-6, 1 - 1e-6)), np.random.default_rng(1)
    names = (
        "logistic regression",
        "boosting",
        "forest",
        "naive Bayes",
        "network",
        "support vectors",
    )
    given = {
        name: expit(odds * (0.6 + 0.15 * k) + rng.normal(0, 0.2 * k, n))
        for k, name in enumerate(names)
    }
    if (low, high) != (0.0, 1.0):
        given = {name: np.clip(low + (high - low) * q, low, high) for name, q in given.items()}
        given = {
            name: np.clip(p + (q - p) * 0.1 * k, low, high)
            for k, (name, q) in enumerate(given.items())
        }
    return y, dict(list(given.items())[:number])


def several(display: Any, number: int, **options: Any) -> Figure:
    """Draw models one after the other on the same axes."""
    y, given = models(number)
    ax = None
    for name, p in given.items():
        ax = display.from_predictions(y, p, name=name, ax=ax, **options).ax_
    return ax.figure


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of handwritten digits, and probabilities of naive Bayes."""
    X, y = load_digits(return_X_y=True)
    return y[900:], GaussianNB().fit(X[:900], y[:900]).predict_proba(X[900:])


def grid(**params: Any) -> Figure:
    """Draw the grid of ten classes."""
    return reliability_grid(*digits(), **params)[0].figure_


def segments(found: bool) -> Figure:
    """Draw segments with long names, or that there is none."""
    rng = np.random.default_rng(0)
    X = {
        "number of previous admissions within twelve months": rng.integers(0, 9, 4000),
        "department that referred the patient": rng.choice(["emergency", "general practice"], 4000),
    }
    p = rng.uniform(0.1, 0.5, 4000)
    both = (X["department that referred the patient"] == "emergency") & (
        X["number of previous admissions within twelve months"] > 5
    )
    y = (rng.random(4000) < p + 0.25 * both * found).astype(int)
    return SegmentsDisplay(find_segments(X, y, p)).plot().figure_


def animals() -> Figure:
    """Draw the grid of classes with names, of which one does not occur."""
    rng = np.random.default_rng(3)
    names, p = np.array(["ant", "bee", "cat", "dog"]), rng.dirichlet([1.0, 0.7, 0.5, 0.4], 3000)
    y = (p.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    return reliability_grid(names[np.where(y == 2, 0, y)], p, labels=names)[0].figure_


def monitored(slope: float) -> Figure:
    """Draw the monitor of predictions whose slope changes."""
    rng, monitor = np.random.default_rng(0), CalibrationMonitor(window=700)
    for day in range(40):
        p = rng.uniform(size=100)
        monitor.update(
            (rng.random(100) < 0.5 + (slope if day > 20 else 1.0) * (p - 0.5)).astype(int), p
        )
    return MonitorDisplay.from_monitor(monitor).figure_


def comparison(number: int, **params: Any) -> Figure:
    """Compare models by two metrics."""
    y, given = models(number, 500)
    metrics = ["smooth_ece", "brier_score"]
    return ComparisonDisplay.from_predictions(
        y, given, metrics=metrics, n_resamples=199, **params
    ).figure_


def drawn(display: Any, sample: Sample, **params: Any) -> Callable[[], Figure]:
    """Return what draws a display."""
    return lambda: display.from_predictions(*sample, **params).figure_


SMALL, LARGE = forecasts(20), forecasts(1_000_000)
RARE, SURE = forecasts(20_000, 0.0, 0.01), forecasts(20_000, 0.98, 1.0)
TINY, NONE = forecasts(20_000, 0.0, 2e-5), (np.zeros(200, dtype=int), forecasts(200, 0.0, 0.2)[1])
TWO = (np.tile([0, 1, 1, 0, 1], 8), np.repeat([0.3, 0.7], 20))

CASES: dict[str, Callable[[], Figure]] = {
    "README": pictures.reliability,
}
for _name, _sample in {
    "n = 20": SMALL,
    "n = 1,000,000": LARGE,
    "two predictions": TWO,
    "predictions in [0, .01]": RARE,
    "predictions in [.98, 1]": SURE,
    "predictions in [0, .00002]": TINY,
    "no events": NONE,
}.items():
    CASES |= {
        f"smooth, {_name}": drawn(ReliabilityDisplay, _sample, annotate=_name != "no events"),
        f"binned, {_name}": drawn(ReliabilityDisplay, _sample, curve="binned"),
        f"isotonic, {_name}": drawn(ReliabilityDisplay, _sample, curve="isotonic"),
        f"logit, {_name}": drawn(ReliabilityDisplay, _sample, scale="logit"),
        f"residuals, {_name}": drawn(CutoffDisplay, _sample),
        f"decision curve, {_name}": drawn(DecisionCurveDisplay, _sample),
        f"Murphy diagram, {_name}": drawn(MurphyDisplay, _sample),
    }
del CASES["isotonic, n = 1,000,000"]
CASES |= {
    "kernel, n = 20": drawn(ReliabilityDisplay, SMALL, curve="kernel"),
    "kernel, two predictions": drawn(ReliabilityDisplay, TWO, curve="kernel", sharpness="brier"),
    "kernel, predictions in [0, .01]": drawn(ReliabilityDisplay, RARE, curve="kernel"),
    "kernel, predictions in [.98, 1]": drawn(
        ReliabilityDisplay, SURE, curve="kernel", sharpness="brier"
    ),
    "kernel, six models": lambda: several(ReliabilityDisplay, 6, curve="kernel", sharpness="brier"),
    "reliability, six models": lambda: several(ReliabilityDisplay, 6),
    "reliability, three models": lambda: several(ReliabilityDisplay, 3),
    "decision curves, six models": drawn(DecisionCurveDisplay, models(6)),
    "decision curves, six models in [.98, 1]": drawn(
        DecisionCurveDisplay, models(6, 20_000, 0.98, 1.0)
    ),
    "Murphy diagram, six models": drawn(MurphyDisplay, models(6)),
    "risk gaps, six models": drawn(DecisionDisplay, models(6), n_resamples=99),
    "difference of decision curves": drawn(DecisionCurveDisplay, models(2), reference="boosting"),
    "difference of decision curves, rare events": drawn(
        DecisionCurveDisplay, models(2, 20_000, 0.0, 0.01), reference="boosting"
    ),
    "risk coverage, six models": lambda: several(RiskCoverageDisplay, 6),
    "decomposition, six models": drawn(ScoreDecompositionDisplay, models(6)),
    "ten classes": grid,
    "ten classes, 7 inches": lambda: grid(n_cols=3, figsize=(7, 9)),
    "ten classes, own axes": lambda: grid(
        ax=plt.subplots(4, 3, figsize=(7, 7), layout="constrained")[1].ravel()[:10]
    ),
    "comparison of two": lambda: comparison(2),
    "comparison of six": lambda: comparison(6),
    "comparison with a reference": lambda: comparison(4, reference="boosting"),
    "smooth, n = 20, predictions in [0, .01]": drawn(
        ReliabilityDisplay, forecasts(20, 0.0, 0.01), annotate=True
    ),
    "classes with names, one absent": animals,
    "test": lambda: TestDisplay(CombinedTest().test(*SMALL)).plot().figure_,
    "monitor, alert": lambda: monitored(0.5),
    "monitor, no alert": lambda: monitored(1.0),
    "segments": lambda: segments(True),
    "no segment": lambda: segments(False),
    "binning": drawn(BinningDisplay, SMALL),
    "binning, rare events": drawn(BinningDisplay, RARE),
}


def drawn_texts(figure: Figure) -> list[tuple[str, Any]]:
    """Return the texts of a drawn figure, with their boxes."""
    found = list(figure.texts) + [text for legend in figure.legends for text in legend.get_texts()]
    for ax in every_axes(figure):
        legend = ax.get_legend()
        found += [*ax.texts, ax.title]
        found += [] if legend is None else [*legend.get_texts(), legend.get_title()]
        for axis in (ax.xaxis, ax.yaxis):
            if axis.get_visible() and ax.axison:
                found += [axis.label, axis.offsetText, *tick_labels(axis)]
    shown = [text for text in found if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in shown]


def every_axes(figure: Figure) -> list[Any]:
    """Return all axes, and histograms within them."""
    return [each for ax in figure.axes for each in (ax, *ax.child_axes)]


def tick_labels(axis: Any) -> list[Any]:
    """Return the labels of ticks within the limits."""
    low, high = np.sort(axis.get_view_interval())
    pad = 1e-9 * (high - low)
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    inside = [tick.label1 for tick in ticks if low - pad <= tick.get_loc() <= high + pad]
    return [label for label in inside if label.get_visible() and label.get_text()]


def faults(figure: Figure) -> list[str]:
    """Draw a figure; return which texts overlap, leave it or repeat, and which curves leave their data."""
    figure.draw_without_rendering()
    found, texts = [], drawn_texts(figure)
    for k, (text, box) in enumerate(texts):
        if box.x0 < -1 or box.y0 < -1 or box.x1 > figure.bbox.x1 + 1 or box.y1 > figure.bbox.y1 + 1:
            found.append(f"{text!r} leaves the figure")
        for other, its in texts[:k]:
            wide, high = (
                min(box.x1, its.x1) - max(box.x0, its.x0),
                min(box.y1, its.y1) - max(box.y0, its.y0),
            )
            if wide > 1 and high > 1:
                found.append(f"{text!r} overlaps {other!r}")
    for ax in every_axes(figure):
        for axis in (ax.xaxis, ax.yaxis):
            labels = [label.get_text() for label in tick_labels(axis)]
            if len(set(labels)) < len(labels):
                found.append(f"tick labels {labels} repeat")
        curves = _drawn_curves(ax)
        histograms = [steps for child in ax.child_axes for steps in child.patches]
        for curve, steps in zip(curves, histograms, strict=bool(histograms)):
            line = curve.line
            values, edges, base = steps.get_data()
            occupied = np.flatnonzero(values > base)
            # predictions near the axes are drawn on their margin
            low, high = edges[max(occupied[0] - 1, 0)], edges[min(occupied[-1] + 2, values.size)]
            pad = 0.02 * (edges[-1] - edges[0]) + (curve.curve.bandwidth or 0.0)
            x = line.get_xdata()[np.isfinite(line.get_ydata())]
            # hidden points are beyond the axes, and clipped
            x = x[(x >= ax.get_xlim()[0]) & (x <= ax.get_xlim()[1])] if line.get_clip_on() else x
            if x.size and (x.min() < low - pad or x.max() > high + pad):
                found.append(
                    f"curve from {x.min():.6g} to {x.max():.6g}, data from {low:.6g} to {high:.6g}"
                )
    return found


def draw_sheet(cases: dict[str, Callable[[], Figure]], columns: int = 6) -> None:
    """Draw each case, and all of them on one sheet."""
    PLACE.mkdir(parents=True, exist_ok=True)
    for name, draw in cases.items():
        figure = draw()
        for fault in faults(figure):
            print(f"{name}: {fault}")
        figure.savefig(PLACE / f"{name}.png", dpi=100)
        plt.close("all")
    rows = -(-len(CASES) // columns)
    sheet, axes = plt.subplots(rows, columns, figsize=(4 * columns, 4 * rows), layout="constrained")
    for ax in axes.ravel():
        ax.set_axis_off()
    for ax, name in zip(axes.ravel(), CASES, strict=False):
        path = PLACE / f"{name}.png"
        if path.exists():
            ax.imshow(plt.imread(path))
            ax.set_title(name, fontsize="small")
    sheet.savefig(PLACE / "sheet.png", dpi=100)


if __name__ == "__main__":
    mpl.use("agg")
    chosen = [name for name in CASES if all(word in name for word in sys.argv[1:])]
    draw_sheet({name: CASES[name] for name in chosen})
