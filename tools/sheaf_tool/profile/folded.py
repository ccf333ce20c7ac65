# SPDX-License-Identifier: MIT
"""Folded stacks, which flame graph tools read: "outermost;...;innermost N" for each stack. N is signed in a difference."""
from __future__ import annotations

from ..table import one_line
from .aggregate import Column, by_stack
from .estimate import Profile


def render(profile: Profile, column: Column) -> str:
    lines: dict[str, float] = {}
    for names, (value,) in by_stack(profile, [column]):
        text = ";".join(one_line(name).replace(";", ":") for name in names)
        lines[text] = lines.get(text, 0) + value
    return "".join(f"{text} {round(value)}\n" for text, value in sorted(lines.items()) if round(value))
