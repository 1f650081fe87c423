"""Small graphics of a report that need no library: a measure on a scale, stretches of predictions."""

from html import escape

import numpy as np

from sklearn_calib.report._lines import ReportMetric, ReportRegion
from sklearn_calib.report._words import probability

__all__ = ["measure_graph", "region_strip"]

_WIDTH, _HEIGHT = 150.0, 18.0
_EDGE = 6.0


def measure_graph(line: ReportMetric) -> str:
    """Return a measure as a dot with its interval, above the range of perfectly calibrated predictions."""
    ends = [line.value, line.lower, line.upper, line.chance_lower, line.chance_upper]
    if not np.isnan(line.chance_upper) and np.isnan(line.chance_lower):
        ends.append(0.0)
    known = [value for value in ends if np.isfinite(value)]
    if not np.isfinite(line.value) or not np.isfinite(line.chance_upper) or max(known) <= min(known):
        return ""
    low, high = min(known), max(known)

    def x(value: float) -> float:
        return _EDGE + (_WIDTH - 2.0 * _EDGE) * (value - low) / (high - low)

    start = x(0.0 if np.isnan(line.chance_lower) else line.chance_lower)
    parts = [
        f'<rect x="{start:.1f}" y="2" width="{x(line.chance_upper) - start:.1f}" height="14" rx="2" '
        'fill="var(--shade)"/>',
        f'<path d="M{x(line.chance_mean):.1f} 2v14" stroke="var(--grey)" stroke-width="1.2"/>',
    ]
    color = "var(--red)" if line.exceeds else "var(--blue)"
    if np.isfinite(line.lower) and np.isfinite(line.upper):
        parts.append(
            f'<path d="M{x(line.lower):.1f} 9H{x(line.upper):.1f}" stroke="{color}" stroke-width="2" '
            'stroke-linecap="round"/>'
        )
    parts.append(f'<circle cx="{x(line.value):.1f}" cy="9" r="4" fill="{color}"/>')
    return (
        f'<svg class="graph" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-label="{escape(line.name)}: value and interval beside the range of a perfect model">'
        f"{''.join(parts)}</svg>"
    )


def region_strip(regions: tuple[ReportRegion, ...], low: float, high: float) -> str:
    """Return the axis of predictions with the stretches that are off: downwards, too much is promised."""
    if not regions or high <= low:
        return ""
    width, reach = 1000.0, 34.0
    largest = max(abs(region.gap) for region in regions)
    above = reach if any(region.gap > 0 for region in regions) else 0.0
    below = reach if any(region.gap < 0 for region in regions) else 0.0
    middle = above + 2.0

    def x(value: float) -> float:
        return width * (value - low) / (high - low)

    parts = [f'<path d="M0 {middle:g}H{width:g}" stroke="var(--grey)" stroke-width="1.5"/>']
    for region in regions:
        size = max(3.0, reach * abs(region.gap) / largest)
        top = middle - size if region.gap > 0 else middle
        color = "var(--blue)" if region.gap > 0 else "var(--red)"
        start, end = x(region.lower), x(region.upper)
        if end - start < 4.0:
            start = min(max(0.0, 0.5 * (start + end) - 2.0), width - 4.0)
            end = start + 4.0
        parts.append(
            f'<rect x="{start:.1f}" y="{top:.1f}" width="{end - start:.1f}" height="{size:.1f}" '
            f'fill="{color}" fill-opacity=".8"/>'
        )
    sides = [
        text
        for text, used in (("above the line: too little promised", above), ("below it: too much", below))
        if used
    ]
    if len(sides) == 1:
        sides = ["too little promised" if above else "too much promised"]
    return (
        f'<svg class="strip" viewBox="0 0 {width:g} {above + below + 4.0:g}" preserveAspectRatio="none" '
        f'role="img" '
        f'aria-label="Stretches of predictions that are off">{"".join(parts)}</svg>'
        f'<div class="axis"><span>{_end(low)}</span><span>{"; ".join(sides)}</span>'
        f"<span>{_end(high)}</span></div>"
    )


def _end(value: float) -> str:
    """Return the end of an axis."""
    return "0" if value < 1e-5 else "1" if value > 1.0 - 1e-5 else probability(value)
