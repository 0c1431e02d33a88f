"""A bar chart as SVG: readable in light and dark, without a library and without a font of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABEL, VALUE = 720, 250, 90
ROW, GAP, TOP, BOTTOM = 22, 8, 58, 34
STYLE = """
    .page { fill: #ffffff; stroke: #e3e5ea; }
    .title { fill: #1c2030; font-weight: 600; font-size: 15px; }
    .text { fill: #3a4052; font-size: 12.5px; }
    .note { fill: #6b7285; font-size: 11.5px; }
    .ours { fill: #3f51b5; }
    .peer { fill: #aab2c5; }
    .line { stroke: #e3e5ea; }
    text { font-family: system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #1e2129; stroke: #343947; }
      .title { fill: #eceef4; } .text { fill: #c9cedb; } .note { fill: #9aa1b3; }
      .ours { fill: #7c8ff0; } .peer { fill: #565e73; } .line { stroke: #343947; }
    }
"""


@dataclass(frozen=True)
class Bar:
    """One line of a chart; `text` is its value as the reader sees it."""

    label: str
    value: float
    text: str
    is_ours: bool = True


@dataclass(frozen=True)
class Chart:
    """What is shown, in which unit, and the files of benchmarks/results/ that it is made from."""

    name: str
    title: str
    unit: str
    bars: Sequence[Bar]
    sources: Sequence[str]
    least: float = 0.0
    """Where the bars begin: 0, unless all values are near each other and the title says so."""


def svg(chart: Chart) -> str:
    """The chart as the text of a file."""
    height = TOP + len(chart.bars) * (ROW + GAP) + BOTTOM
    most = max(bar.value for bar in chart.bars)
    room = WIDTH - LABEL - VALUE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(chart.title)}">',
        f"  <style>{STYLE}  </style>",
        f'  <rect class="page" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'  <text class="title" x="18" y="27">{escape(chart.title)}</text>',
        f'  <text class="note" x="18" y="45">{escape(chart.unit)}</text>',
    ]
    for number, bar in enumerate(chart.bars):
        y = TOP + number * (ROW + GAP)
        length = max(2.0, room * (bar.value - chart.least) / (most - chart.least))
        kind = "ours" if bar.is_ours else "peer"
        middle = y + ROW / 2 + 4.5
        lines += [
            f'  <text class="text" x="{LABEL - 10}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>',
            f'  <rect class="{kind}" x="{LABEL}" y="{y}" width="{length:.1f}" height="{ROW}" rx="3"/>',
            f'  <text class="text" x="{LABEL + length + 8:.1f}" y="{middle}">{escape(bar.text)}</text>',
        ]
    bottom = TOP + len(chart.bars) * (ROW + GAP)
    lines += [
        f'  <line class="line" x1="{LABEL}" x2="{LABEL}" y1="{TOP - 6}" y2="{bottom}"/>',
        f'  <text class="note" x="18" y="{bottom + 20}">benchmarks/results: {", ".join(chart.sources)}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
