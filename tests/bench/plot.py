"""Bar charts as SVG. They have a background of their own, so that they can be read on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 860
LABELS = 300
"""Width of the labels, left of the bars."""
NUMBERS = 90
"""Width of the numbers, right of the longest bar."""
MARGIN = 20
BAR, GAP, TITLE = 20, 8, 34
INK, QUIET, OWN, OTHER, LIMIT = "#1f2328", "#59636e", "#0b6e4f", "#8a97a6", "#c5ccd3"


@dataclass(frozen=True, slots=True)
class Bar:
    """A labelled value; `color` is one of the constants above."""

    label: str
    value: float
    color: str = OTHER


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars that share a scale."""

    title: str
    bars: Sequence[Bar]

    @property
    def height(self) -> int:
        return TITLE + len(self.bars) * (BAR + GAP) + MARGIN


def svg(charts: Sequence[Chart], description: str) -> str:
    """The charts below each other. `description` is the text for screen readers."""
    charts = [chart for chart in charts if chart.bars]
    height = MARGIN + sum(chart.height for chart in charts)
    size = f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(description)}">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
    ]
    top = MARGIN
    for chart in charts:
        parts += _drawn(chart, top)
        top += chart.height
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(chart: Chart, top: int) -> list[str]:
    most = max(bar.value for bar in chart.bars) or 1.0
    room = WIDTH - 2 * MARGIN - LABELS - NUMBERS
    left = MARGIN + LABELS
    parts = [_text(MARGIN, top + 14, chart.title, INK, 'font-weight="bold"')]
    for n, bar in enumerate(chart.bars):
        y = top + TITLE + n * (BAR + GAP)
        length = room * bar.value / most
        parts += [
            _text(left - 10, y + 15, bar.label, INK, 'text-anchor="end"'),
            f'<rect x="{left}" y="{y}" width="{max(1.0, length):.1f}" height="{BAR}" rx="2" fill="{bar.color}"/>',
            _text(left + max(1.0, length) + 8, y + 15, f"{bar.value:,.0f}", QUIET),
        ]
    return parts


def _text(x: float, y: float, text: str, color: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{color}" {more}>{escape(text)}</text>'.replace(" >", ">")
