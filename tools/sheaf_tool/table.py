# SPDX-License-Identifier: MIT
"""Text tables for a terminal of 100 columns; a cell may have several lines."""
from __future__ import annotations

import shutil
import textwrap
from typing import Iterable, Sequence

from .stats import Estimate

WIDTH = 100
GAP = "  "


def printable(text: str) -> str:
    """Names and options come from a program: they must not control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def one_line(text: str) -> str:
    """The same for one name, which cannot begin a line."""
    return printable(text).replace("\n", "?")


def folded(notes: Iterable[str], width: int = WIDTH) -> str:
    """Fold notes into lines that fit."""
    return "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in notes)


def page(tables: Iterable[tuple[str, str]], notes: Iterable[str]) -> str:
    """Tables under their titles, and the notes about them."""
    return "\n\n".join([*(part for table in tables for part in table), folded(notes)])


def number(value: float) -> str:
    """Three significant digits, never in scientific notation."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def plural(n: int, what: str, width: int = 0) -> str:
    return f"{n:{width}} {what}{'' if n == 1 else 's'}"


def steady(estimate: Estimate) -> bool:
    """False if the interval's ends differ by more than a factor of ten: they say nothing then."""
    return not 0 < 10 * estimate.low < estimate.high


def interval(estimate: Estimate) -> str:
    return f"{number(estimate.low)}–{number(estimate.high)}" if steady(estimate) else "not steady"


def stacked(estimate: Estimate) -> str:
    """The value with its interval below, as narrow as possible."""
    return f"{number(estimate.value)}\n{interval(estimate)}"


def beside(estimate: Estimate) -> str:
    found = f"{estimate.low:.2f}–{estimate.high:.2f}" if steady(estimate) else "not steady"
    return f"{estimate.value:.2f} [{found}]"


def render(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column flush left, the others flush right, a rule below the header."""
    cells = [[cell.split("\n") for cell in row] for row in [header, *rows]]
    widths = [max(len(line) for row in cells for line in row[column])
              for column in range(len(header))]
    lines = []
    for index, row in enumerate(cells):
        for depth in range(max(len(cell) for cell in row)):
            parts = [cell[depth] if depth < len(cell) else "" for cell in row]
            aligned = [parts[0].ljust(widths[0])]
            aligned += [part.rjust(width) for part, width in zip(parts[1:], widths[1:])]
            lines.append(GAP.join(aligned).rstrip())
        if index == 0:
            lines.append("-" * (sum(widths) + len(GAP) * (len(widths) - 1)))
    return "\n".join(lines)


def terminal_width() -> int:
    """WIDTH, or the width of a narrower terminal."""
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)


def fold(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH) -> str:
    """Like render(), but a table that is too wide for the terminal becomes several, each with the first
    column."""
    parts, begin = [], 1
    while begin < len(header):
        for end in range(len(header), begin, -1):
            part = render([header[0], *header[begin:end]],
                          [[row[0], *row[begin:end]] for row in rows])
            if end == begin + 1 or max(map(len, part.splitlines())) <= width:
                break
        parts.append(part)
        begin = end
    return "\n\n".join(parts)
