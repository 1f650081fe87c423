"""Figures of the level and power of tests of calibration."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: Tests in the figures, by kind. Variants of these are in the tables.
KINDS = {
    "recommended": ["combined", "T-Cal", "cutoff"],
    "general": ["kernel", "kernel, adaptive", "smooth ECE, redrawn", "sample splitting", "sequential"],
    "parametric, bins": ["Cox", "Spiegelhalter", "Hosmer-Lemeshow"],
}
RECOMMENDED = KINDS["recommended"]


def places(names: Collection[str]) -> dict[str, float]:
    """Return the height of each test in a figure, with a gap between the kinds."""
    height, found = 0.0, {}
    for tests in KINDS.values():
        shown = [test for test in tests if test in names]
        found |= {test: height + k for k, test in enumerate(shown)}
        height += len(shown) + 0.6
    return found


def name_tests(ax: Any, place: dict[str, float]) -> None:
    """Write names and kinds of the tests at the left, the recommended ones in bold and on a ground."""
    ax.set_yticks(list(place.values()), list(place))
    ax.set_ylim(max(place.values()) + 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    for label in ax.get_yticklabels():
        label.set_weight("bold" if label.get_text() in RECOMMENDED else "normal")
    for kind, tests in KINDS.items():
        shown = [place[test] for test in tests if test in place]
        if not shown:
            continue
        middle = (min(shown) + max(shown)) / 2
        turned: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "center", "fontsize": 9}
        turned |= {"xytext": (-155, 0), "textcoords": "offset points", "color": "0.35"}
        ax.annotate(kind, (0.0, middle), xycoords=("axes fraction", "data"), **turned)


def draw_level(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Plot the rates at level .05 of each test by simulation and of its approximation, for each n."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tests = {row["test"] for row in rows}
    place = places(tests)
    sizes = sorted({row["n"] for row in rows})
    shape: dict[str, Any] = {"sharex": True, "sharey": True, "layout": "constrained"}
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 0.33 * len(place) + 1.6), **shape)
    for ax, ending, title in zip(axes, ("", ", asymptotic"), ("Default", 'method="asymptotic"'), strict=True):
        ax.set_title(title, fontsize=10)
        ax.axvline(0.05, color="0.3", lw=1, zorder=1)
        for k, (n, color) in enumerate(zip(sizes, ("#9ecae1", "#4292c6", "#08306b"), strict=False)):
            offset = 0.22 * (k - (len(sizes) - 1) / 2)
            points = [
                (float(row["at_0.05"]), height + offset)
                for test, height in place.items()
                for row in rows
                if (row["n"], row["test"]) == (n, test + ending)
            ]
            ax.plot(*np.transpose(points), "o", ms=4, color=color, mew=0, label=f"n = {n}", clip_on=False)
        for height in (place[test] for test in place if f"{test}{ending}" in tests):
            ax.axhspan(height - 0.42, height + 0.42, color="0.95", zorder=0)
        ax.set_xlabel("rejection rate, level 0.05")
        ax.tick_params(axis="y", length=0)
        ax.spines[["top", "right", "left"]].set_visible(False)
    highest = max(float(row["at_0.05"]) for row in rows if row["test"].removesuffix(", asymptotic") in place)
    axes[0].set_xlim(0, 1.03 * highest)
    name_tests(axes[0], place)
    axes[1].tick_params(axis="y", labelleft=False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(sizes), frameon=False)
    figure.savefig(path, dpi=120)


def draw_power(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Plot the power of the tests as a heat map with numbers."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    heads = [head for head in rows[0] if head not in ("test", "largest loss")]
    place = places({row["test"] for row in rows})
    shown = {row["test"]: [float(row[head] or "nan") for head in heads] for row in rows}
    best = np.nanmax([shown[test] for test in place], axis=0)
    figure, ax = plt.subplots(figsize=(10.5, 0.36 * len(place) + 2.2), layout="constrained")
    for test, height in place.items():
        limits = (-0.5, len(heads) - 0.5, height + 0.5, height - 0.5)
        ax.imshow([shown[test]], cmap="Blues", vmin=0, vmax=1.2, aspect="auto", extent=limits)
        for j, value in enumerate(shown[test]):
            if np.isfinite(value):
                color = "white" if value > 0.75 else "black"
                weight = "bold" if value >= best[j] - 0.03 else "normal"
                ax.text(
                    j,
                    height,
                    f"{value:.2f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color=color,
                    weight=weight,
                )
    ax.set_xlim(-0.5, len(heads) - 0.5)
    ax.spines[:].set_visible(False)
    ax.set_xticks(range(len(heads)), heads, rotation=35, ha="right")
    name_tests(ax, place)
    figure.savefig(path, dpi=120)
