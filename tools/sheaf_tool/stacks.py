# SPDX-License-Identifier: MIT
"""Stacks of objects in use as text, the same for `sheaf leaks` and `sheaf profile --leaks`."""
from __future__ import annotations

from typing import Iterable

from .table import WIDTH, one_line

INDENT = " " * 11


def age(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 10000 else f"{ms / 1000:.0f} s"


def span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}-{most}"


def block(head: str, places: Iterable[str]) -> str:
    """A line on the objects, and one for each frame of their stack, the innermost first."""
    lines = [one_line(head)[:WIDTH]]
    for text in map(one_line, places):
        # The end says which line it is.
        lines.append(INDENT + (text if len(text) <= WIDTH - len(INDENT) else f"...{text[-(WIDTH - len(INDENT) - 3):]}"))
    return "\n".join(lines)
