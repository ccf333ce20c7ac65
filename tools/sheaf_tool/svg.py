# SPDX-License-Identifier: MIT
"""Bar charts with error bars as inline SVG: a grid of panels on one scale.

Colours are CSS classes (page.py), so that the picture follows the page into the dark.
"""
from __future__ import annotations

import statistics
from dataclasses import dataclass
from html import escape
from typing import Sequence

from .stats import Estimate
from .table import number

COLUMN = 470  # width of a panel with the space beside it
NAMES = 78  # of the labels left of the bars
VALUES = 44  # of the numbers right of them
BAR = 13
PITCH = 19
TITLE = 26
AXIS = 30
LONGEST_IN_MEDIANS = 3.0  # a longer bar is broken off


@dataclass(frozen=True)
class Bar:
    label: str
    estimate: Estimate
    kind: str  # CSS class


@dataclass(frozen=True)
class Panel:
    title: str
    column: int
    row: int
    bars: Sequence[Bar]


def axis_step(limit: float) -> float:
    """A round step that divides the axis into four to nine parts."""
    step = 1.0
    while step * 9 < limit:
        step *= 10
    while step * 4 > limit:
        step /= 10
    for factor in (5, 2, 1):
        if step * factor * 4 <= limit:
            return step * factor
    return step


def axis_limit(values: Sequence[float]) -> float:
    """The end of the scale: the largest value that is not far off from most."""
    bound = statistics.median(values) * LONGEST_IN_MEDIANS
    limit = max(value for value in values if value <= bound) * 1.06
    step = axis_step(limit)
    return step * -(-limit // step)


class _Canvas:
    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        return NAMES + value / self.limit * (COLUMN - NAMES - VALUES - 20)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" '
                          f'y2="{y2:.1f}"/>')

    def text(self, x: float, y: float, text: str, kind: str, anchor: str = "start") -> None:
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" '
                          f'text-anchor="{anchor}">{escape(text)}</text>')

    def axis(self, top: float, bottom: float, unit: str) -> None:
        step = axis_step(self.limit)
        for i in range(round(self.limit / step) + 1):
            self.line(self.x(i * step), top, self.x(i * step), bottom, "grid")
            self.text(self.x(i * step), bottom + 13, f"{i * step:g}", "tick", "middle")
        self.text(self.x(self.limit) + 12, bottom + 13, unit, "tick")

    def whisker(self, found: Estimate, y: float) -> float:
        """Where it ends; one that goes on beyond the scale has no cap there."""
        low, high = self.x(found.low), self.x(min(found.high, self.limit))
        self.line(low, y, high, y, "whisker")
        for x in (low, high) if found.high <= self.limit else (low,):
            self.line(x, y - 3.5, x, y + 3.5, "whisker")
        return high

    def bar(self, bar: Bar, top: float) -> None:
        found = bar.estimate
        middle = top + BAR / 2
        broken = found.value > self.limit
        end = self.x(self.limit if broken else found.value)
        title = f"{bar.label}: {number(found.value)} [{number(found.low)}–{number(found.high)}]"
        self.text(NAMES - 7, middle + 4, bar.label, f"name {bar.kind}", "end")
        self.parts.append(f'<rect class="bar {bar.kind}" x="{NAMES}" y="{top:.1f}" '
                          f'width="{end - NAMES:.1f}" height="{BAR}" rx="1.5">'
                          f"<title>{escape(title)}</title></rect>")
        if broken:
            self.parts.append(f'<path class="gap" d="M{end - 22:.1f} {top + BAR + 2:.1f} '
                              f'l5 {-BAR - 4}"/>')
        else:
            end = self.whisker(found, middle)
        self.text(end + 5, middle + 4, number(found.value), f"value {bar.kind}")


def _panel(panel: Panel, limit: float, unit: str, height: float) -> str:
    canvas = _Canvas(limit)
    canvas.text(0, 14, panel.title, "title")
    canvas.axis(TITLE - 3, TITLE + len(panel.bars) * PITCH, unit)
    for i, bar in enumerate(panel.bars):
        canvas.bar(bar, TITLE + i * PITCH + (PITCH - BAR) / 2 - 1)
    return (f'<g transform="translate({panel.column * COLUMN} {panel.row * height:.0f})">'
            + "".join(canvas.parts) + "</g>")


def figure(label: str, panels: Sequence[Panel], unit: str, note: Sequence[str]) -> str:
    """All panels on one scale; the note fills the first free place of the right column."""
    limit = axis_limit([bar.estimate.value for panel in panels for bar in panel.bars])
    height = TITLE + max(len(panel.bars) for panel in panels) * PITCH + AXIS
    columns = max(panel.column for panel in panels) + 1
    rows = max(panel.row for panel in panels) + 1
    lines = "".join(f'<text class="note" x="{(columns - 1) * COLUMN + NAMES}" '
                    f'y="{TITLE + 14 + i * 20}">{escape(text)}</text>'
                    for i, text in enumerate(note))
    return (f'<svg viewBox="0 0 {columns * COLUMN} {rows * height - 8:.0f}" role="img" '
            f'aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">'
            + lines + "".join(_panel(panel, limit, unit, height) for panel in panels) + "</svg>")
