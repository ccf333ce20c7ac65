# SPDX-License-Identifier: MIT
"""Line charts over two logarithmic axes, as inline SVG: a grid of panels, each on its own scale."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Sequence

from sheaf_tool.table import number

from .svg import (AXIS, CHART, CHART_LABELS, CHART_LEFT, COLUMN, LABEL_PITCH, TITLE, Drawing, Place,
                  group, spread)

Points = Sequence[tuple[float, float]]
ROUND = (1, 2, 5)  # of each power of ten, where lines are drawn


@dataclass(frozen=True)
class Curve:
    label: str
    points: Points
    kind: str  # CSS class


@dataclass(frozen=True)
class LogPanel(Place):
    curves: Sequence[Curve]


def round_values(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 ... that enclose both; only the powers of ten if there would be too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = ROUND if last - first <= 4 else ROUND[:1]
    values = [factor * 10.0 ** power for power in range(first, last + 1) for factor in factors]
    begin = max(i for i, value in enumerate(values) if value <= low * 1.0001)
    end = min((i for i, value in enumerate(values) if value >= high * 0.9999),
              default=len(values) - 1)
    return values[begin:max(end, begin + 1) + 1]


def short(value: float) -> str:
    """10k, 1M."""
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"


class _LogChart(Drawing):
    def __init__(self, panel: LogPanel) -> None:
        super().__init__(panel)
        points = [point for curve in panel.curves for point in curve.points]
        self.panel = panel
        self.xs = sorted({x for x, _ in points})
        self.grid = round_values(min(y for _, y in points), max(y for _, y in points))
        self.bottom = TITLE + CHART

    def x(self, value: float) -> float:
        low, high = math.log10(self.xs[0]), math.log10(self.xs[-1])
        part = (math.log10(value) - low) / (high - low) if high > low else 0.5
        return CHART_LEFT + part * (COLUMN - CHART_LEFT - CHART_LABELS)

    def y(self, value: float) -> float:
        low, high = math.log10(self.grid[0]), math.log10(self.grid[-1])
        return self.bottom - (math.log10(value) - low) / (high - low) * CHART

    def axes(self, units: tuple[str, str]) -> None:
        left, right = self.x(self.xs[0]), self.x(self.xs[-1])
        for value in self.grid:
            self.line(left, self.y(value), right, self.y(value), "grid")
            self.text(left - 5, self.y(value) + 4, short(value), "tick", "end")
        for value in self.xs:
            self.line(self.x(value), TITLE, self.x(value), self.bottom, "grid")
            self.text(self.x(value), self.bottom + 13, short(value), "tick", "middle")
        self.text(right + 24, self.bottom + 13, units[0], "tick")
        self.text(COLUMN - 4, 14, units[1], "tick", "end")

    def curves(self) -> None:
        ends = [self.y(curve.points[-1][1]) for curve in self.panel.curves]
        right = self.x(self.xs[-1]) + 3
        for curve, label in zip(self.panel.curves, spread(ends, LABEL_PITCH, self.bottom)):
            places = [(self.x(x), self.y(y)) for x, y in curve.points]
            title = ", ".join(f"{short(x)}: {number(y)}" for x, y in curve.points)
            self.curve(places, curve.kind, f"{curve.label}: {title}")
            self.label(places[-1], right, label, f"{curve.label} {number(curve.points[-1][1])}",
                       curve.kind)


def _draw(panel: LogPanel, units: tuple[str, str]) -> Drawing:
    chart = _LogChart(panel)
    chart.axes(units)
    chart.curves()
    chart.height = chart.bottom + AXIS - 8
    return chart


def log_panels(panels: Sequence[LogPanel], units: tuple[str, str]) -> list[Drawing]:
    """Each panel on a scale of its own."""
    return [_draw(panel, units) for panel in panels]


def log_figure(label: str, panels: Sequence[LogPanel], units: tuple[str, str],
               note: Sequence[str]) -> str:
    return group(label, log_panels(panels, units), note)
