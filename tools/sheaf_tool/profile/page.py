# SPDX-License-Identifier: MIT
"""One page with a flame graph and a table, in one file: page.css and page.js are put into it.

A page of any profile stays small: the graph has the STACKS largest stacks, the table the FUNCTIONS largest functions, by
their share of any value. What is left out is shown as frames named REST, so that sums stay right.
"""
from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any, Iterable, Sequence

from . import top
from .aggregate import Column, Function, by_function, by_stack
from .estimate import UNITS, Profile
from .raw import VALUES

COLUMNS = [(which, unit) for which in VALUES for unit in UNITS]
STACKS, FUNCTIONS = 5000, 2000
REST = "(smaller stacks)"
LABELS = {"live": "in use", "all": "allocated", "peak": "peak"}
HERE = Path(__file__).parent
Values = Sequence[float]


class Tree:
    """Frames by their parents, which come before them. Node 0 is the root."""

    def __init__(self) -> None:
        self.names = {REST: 0}
        self.parent, self.name, self.own = [0], [self.index("all")], [[0.0] * len(COLUMNS)]
        self._children: dict[tuple[int, int], int] = {}

    def index(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def add(self, names: Iterable[str], values: Values, whole: bool) -> None:
        """If not whole, only frames that are there already, and the rest in one."""
        node = 0
        for name in names:
            if not whole and (node, self.names.get(name)) not in self._children:
                node = self._child(node, 0)
                break
            node = self._child(node, self.index(name))
        self.own[node] = [a + b for a, b in zip(self.own[node], values)]

    def _child(self, parent: int, name: int) -> int:
        if (parent, name) not in self._children:
            self._children[parent, name] = len(self.parent)
            self.parent.append(parent)
            self.name.append(name)
            self.own.append([0.0] * len(COLUMNS))
        return self._children[parent, name]


def _share(value: Values, of: Values) -> float:
    """The largest, of any column."""
    return max(abs(part) / whole if whole else 0.0 for part, whole in zip(value, of))


def _tree(profile: Profile) -> Tree:
    stacks = list(by_stack(profile, COLUMNS))
    sums = [sum(abs(values[i]) for _, values in stacks) for i in range(len(COLUMNS))]
    stacks.sort(key=lambda one: -_share(one[1], sums))
    tree = Tree()
    for number, (names, values) in enumerate(stacks):
        tree.add(names, values, number < STACKS)
    return tree


def _rounded(values: Values) -> list[int]:
    return [round(value) for value in values]


def _function(one: Function, tree: Tree) -> dict[str, Any]:
    share, lifetime = one.elsewhere_share(), one.mean_lifetime_ms()
    return {"name": tree.index(one.name), "own": _rounded(one.own), "total": _rounded(one.total),
            "elsewhere": None if share is None else round(share, 4), "lifetime": None if lifetime is None else round(lifetime, 1)}


def _data(profile: Profile, column: Column) -> str:
    tree, functions = _tree(profile), by_function(profile, COLUMNS)
    most = [max((abs(one.total[i]) for one in functions), default=0) for i in range(len(COLUMNS))]
    functions.sort(key=lambda one: (-max(_share(one.own, most), _share(one.total, most)), one.name))
    shown = [_function(one, tree) for one in functions[:FUNCTIONS]]
    text = json.dumps({"column": COLUMNS.index(column), "signed": profile.signed, "parent": tree.parent, "name": tree.name,
                       "own": [value for own in tree.own for value in _rounded(own)], "functions": shown,
                       "names": list(tree.names)}, separators=(",", ":"))
    return text.replace("<", "\\u003c")  # nothing may end the script


def _choices(name: str, labels: Sequence[str], chosen: int) -> str:
    return "<fieldset>" + "".join(
        f'<label><input type="radio" name="{name}" value="{i}"{" checked" if i == chosen else ""}>{label}</label>'
        for i, label in enumerate(labels)) + "</fieldset>"


def _heads() -> str:
    titles = {"name": "function", "own": "self", "total": "total", "elsewhere": "freed elsewhere", "lifetime": "mean lifetime"}
    return "".join(f'<th data-order="{order}" scope="col"><button type="button">{title}</button></th>'
                   for order, title in titles.items())


def _part(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def render(profile: Profile, column: Column) -> str:
    title, *lines = top.summary(profile, column)
    said = "".join(f"<p>{escape(line)}</p>" for line in lines)
    value, unit = VALUES.index(column[0]), UNITS.index(column[1])
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{escape(title)}</title><style>
{_part("page.css")}</style></head><body>
<h1>{escape(title)}</h1>{said}
<form id="choice">{_choices("value", [LABELS[which] for which in VALUES], value)}{_choices("unit", UNITS, unit)}
<input type="search" id="search" placeholder="search functions" aria-label="search functions">
<button type="button" id="out" hidden>whole graph</button></form>
<p id="said" aria-live="polite"></p>
<div id="graph"><div id="rows" role="tree" aria-label="flame graph"></div></div>
<h2>Functions</h2>
<p>Self is what a function allocated itself; total includes what it called. Freed elsewhere is the share of freed objects
that another CPU freed, and mean lifetime how long they were in use.</p>
<div class="scroll"><table><thead><tr>{_heads()}</tr></thead><tbody id="body"></tbody></table></div>
<button type="button" id="more" hidden></button>
<noscript><p>The graph and the table need JavaScript.</p></noscript>
<script type="application/json" id="data">{_data(profile, column)}</script>
<script>
{_part("page.js")}</script></body></html>
"""
