# SPDX-License-Identifier: MIT
"""Bar charts with error bars, and line charts: panels on one scale, inline in a page or as a file.

Colours and the places of panels are CSS (style.py): inline pictures follow the page's dark mode, and
are stacked on a narrow page. A file contains its own colours.
"""
from __future__ import annotations

import statistics
import textwrap
from dataclasses import dataclass
from html import escape
from typing import Iterable, Sequence

from sheaf_tool.stats import Estimate
from sheaf_tool.table import number

from .style import FILE_STYLE

COLUMN = 506  # width of a panel with the space next to it
NAMES = 116  # of the labels left of the bars
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
class Place:
    """The place of a panel in its figure."""

    title: str
    column: int
    row: int


@dataclass(frozen=True)
class Panel(Place):
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


def axis_limit(values: Sequence[float], longest: float = LONGEST_IN_MEDIANS) -> float:
    """The end of the scale: the largest value that is not far from most others."""
    bound = statistics.median(values) * longest
    limit = max(value for value in values if value <= bound) * 1.06
    step = axis_step(limit)
    return step * -(-limit // step)


class Drawing:
    """A panel: a separate picture, so that a narrow page can stack panels."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.height = 0.0
        self.parts: list[str] = []
        self.text(0, 14, place.title, "title")

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" '
                          f'y2="{y2:.1f}"/>')

    def text(self, x: float, y: float, text: str, kind: str, anchor: str = "start") -> None:
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" '
                          f'text-anchor="{anchor}">{escape(text)}</text>')

    def curve(self, points: Sequence[tuple[float, float]], kind: str, title: str) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline class="line {kind}" points="{path}">'
                          f"<title>{escape(title)}</title></polyline>")

    def label(self, end: tuple[float, float], right: float, y: float, text: str,
              kind: str) -> None:
        """A label next to a curve, at this height, and a line to it from the curve's end."""
        self.line(*end, right, y, f"lead {kind}")
        self.text(right + 3, y + 4, text, f"name {kind}")

    def svg(self, where: str) -> str:
        """An element with these attributes."""
        return (f'<svg {where} viewBox="0 0 {COLUMN} {self.height:g}" role="img" '
                f'aria-label="{escape(self.place.title)}" '
                f'xmlns="http://www.w3.org/2000/svg">' + "".join(self.parts) + "</svg>")


def group(label: str, drawings: Iterable[Drawing], note: Sequence[str]) -> str:
    """A figure in a page: its panels, the note below them."""
    drawn = list(drawings)
    columns = max(drawing.place.column for drawing in drawn) + 1
    svgs = "".join(drawing.svg(f'style="--column: {drawing.place.column + 1}; '
                               f'--row: {drawing.place.row + 1}"') for drawing in drawn)
    return (f'<div class="panels" role="group" aria-label="{escape(label)}" '
            f'style="--columns: {columns}">{svgs}</div>'
            + (f'<figcaption>{escape(" ".join(note))}</figcaption>' if note else ""))


MARGIN = 14
NOTE_WIDTH = 84  # characters of a line
NOTE_PITCH = 16


def sheet(label: str, drawings: Iterable[Drawing], note: Sequence[str]) -> str:
    """A self-contained picture, panels below each other: an SVG file."""
    parts, top = [], float(MARGIN)
    for drawing in drawings:
        parts.append(drawing.svg(f'x="{MARGIN}" y="{top:g}" width="{COLUMN}" '
                                 f'height="{drawing.height:g}"'))
        top += drawing.height + MARGIN
    for line in textwrap.wrap(" ".join(note), NOTE_WIDTH):
        top += NOTE_PITCH
        parts.append(f'<text class="note" x="{MARGIN}" y="{top - 4:g}">{escape(line)}</text>')
    width, height = COLUMN + 2 * MARGIN, top + MARGIN
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" '
            f'width="{width}" height="{height:g}" role="img" aria-label="{escape(label)}">\n'
            f"<style>{FILE_STYLE}</style>\n"
            f'<rect class="paper" width="{width}" height="{height:g}"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


class _Canvas(Drawing):
    def __init__(self, place: Place, limit: float) -> None:
        super().__init__(place)
        self.limit = limit

    def x(self, value: float) -> float:
        return NAMES + value / self.limit * (COLUMN - NAMES - VALUES - 20)

    def axis(self, top: float, bottom: float, unit: str) -> None:
        step = axis_step(self.limit)
        for i in range(round(self.limit / step) + 1):
            self.line(self.x(i * step), top, self.x(i * step), bottom, "grid")
            self.text(self.x(i * step), bottom + 13, f"{i * step:g}", "tick", "middle")
        self.text(self.x(self.limit) + 8 + 3.5 * len(f"{self.limit:g}"), bottom + 13, unit, "tick")

    def whisker(self, found: Estimate, y: float) -> float:
        """The cap of a bar; one that continues beyond the scale has no cap there."""
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


def _panel(panel: Panel, limit: float, unit: str) -> Drawing:
    canvas = _Canvas(panel, limit)
    canvas.axis(TITLE - 3, TITLE + len(panel.bars) * PITCH, unit)
    for i, bar in enumerate(panel.bars):
        canvas.bar(bar, TITLE + i * PITCH + (PITCH - BAR) / 2 - 1)
    canvas.height = TITLE + len(panel.bars) * PITCH + AXIS - 8
    return canvas


def bar_panels(panels: Sequence[Panel], unit: str,
               longest: float = LONGEST_IN_MEDIANS) -> list[Drawing]:
    """All on one scale; longest: the longest bar that is not broken off, in medians."""
    limit = axis_limit([bar.estimate.value for panel in panels for bar in panel.bars], longest)
    return [_panel(panel, limit, unit) for panel in panels]


def figure(label: str, panels: Sequence[Panel], unit: str, note: Sequence[str]) -> str:
    return group(label, bar_panels(panels, unit), note)


CHART = 230  # height of a line chart's lines
CHART_LEFT = 34
CHART_LABELS = 140  # right of the lines
LABEL_PITCH = 13
COLOURS = 8  # that style.py has for lines that are not ours: classes l0 to l7


@dataclass(frozen=True)
class Line:
    label: str
    points: Sequence[tuple[float, float]]
    kind: str  # CSS class
    marks: Sequence[int] = ()  # points that get a dot


@dataclass(frozen=True)
class LinePanel(Place):
    lines: Sequence[Line]


def spread(places: Sequence[float], pitch: float, end: float) -> list[float]:
    """The places in their order, moved apart as little as possible, the last not beyond the end."""
    moved = list(places)
    order = sorted(range(len(moved)), key=moved.__getitem__)
    last = float("-inf")
    for i in order:
        last = moved[i] = max(moved[i], last + pitch)
    last = end + pitch
    for i in reversed(order):
        last = moved[i] = min(moved[i], last - pitch)
    return moved


class _Chart(_Canvas):
    """Lines over two axes that begin at zero."""

    def __init__(self, place: Place, limits: tuple[float, float]) -> None:
        super().__init__(place, limits[0])
        self.top = limits[1]
        self.bottom = TITLE + CHART

    def x(self, value: float) -> float:
        return CHART_LEFT + value / self.limit * (COLUMN - CHART_LEFT - CHART_LABELS)

    def y(self, value: float) -> float:
        """Values above the scale are drawn at its edge."""
        return self.bottom - min(max(value, 0.0), self.top) / self.top * CHART

    def axes(self, units: tuple[str, str]) -> None:
        right = self.x(self.limit)
        self.axis(TITLE, self.bottom, units[0])
        step = axis_step(self.top)
        for i in range(round(self.top / step) + 1):
            self.line(self.x(0), self.y(i * step), right, self.y(i * step), "grid")
            self.text(self.x(0) - 5, self.y(i * step) + 4, f"{i * step:g}", "tick", "end")
        self.text(COLUMN - 4, 14, units[1], "tick", "end")

    def draw(self, line: Line, label: float) -> None:
        """The line, and its label at this height."""
        places = [(self.x(x), self.y(y)) for x, y in line.points]
        self.curve(places, line.kind,
                   f"{line.label}: at most {number(max(y for _, y in line.points))}")
        for mark in line.marks:
            self.parts.append(f'<circle class="dot {line.kind}" cx="{places[mark][0]:.1f}" '
                              f'cy="{places[mark][1]:.1f}" r="2.2"/>')
        self.label(places[-1], self.x(self.limit) + 3, label,
                   f"{line.label} {number(max(line.points[-1][1], 0.0))}", line.kind)


def _line_panel(panel: LinePanel, limits: tuple[float, float],
                units: tuple[str, str]) -> Drawing:
    chart = _Chart(panel, limits)
    chart.axes(units)
    labels = spread([chart.y(line.points[-1][1]) for line in panel.lines], LABEL_PITCH, chart.bottom)
    for line, label in zip(panel.lines, labels):
        chart.draw(line, label)
    chart.height = chart.bottom + AXIS - 8
    return chart


def line_panels(panels: Sequence[LinePanel], units: tuple[str, str]) -> list[Drawing]:
    """All on one scale."""
    lines = [line for panel in panels for line in panel.lines]
    farthest = max(x for line in lines for x, _ in line.points)
    step = axis_step(farthest)
    limits = (step * -(-farthest // step),
              axis_limit([max(y for _, y in line.points) for line in lines]))
    return [_line_panel(panel, limits, units) for panel in panels]


def line_figure(label: str, panels: Sequence[LinePanel], units: tuple[str, str],
                note: Sequence[str]) -> str:
    return group(label, line_panels(panels, units), note)
