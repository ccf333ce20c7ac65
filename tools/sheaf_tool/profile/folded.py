# SPDX-License-Identifier: MIT
"""Folded stacks, which flame graph tools read: "outermost;...;innermost N" for each stack, N > 0.

flamegraph.pl, inferno and speedscope read N after the last space. The first two take a number before it for a second
value, and speedscope leaves out lines whose N has a sign. So a difference has only what has grown.
"""
from __future__ import annotations

import re

from ..table import one_line
from .aggregate import Column, by_stack
from .estimate import Profile


SECOND_VALUE = re.compile(r"\s+(?=[\d.]*$)")  # or what seems to be one, at the end of a name


def render(profile: Profile, column: Column) -> str:
    lines: dict[str, float] = {}
    for names, (value,) in by_stack(profile, [column]):
        text = ";".join(SECOND_VALUE.sub("_", one_line(name).replace(";", ":")) for name in names)
        lines[text] = lines.get(text, 0) + value
    return "".join(f"{text} {round(value)}\n" for text, value in sorted(lines.items()) if round(value) > 0)
