# SPDX-License-Identifier: MIT
"""The results of `sheaf detect`: their JSON form, and the tables of docs/detection.md and the README."""
from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from sheaf_tool.errors import Failure
from sheaf_tool.paths import ROOT

CLASSES = ROOT / "bench" / "detect" / "classes"
NOW, LATER, NO, NONE = "at once", "later", "no", "none"
SEEN_BY = {"call": "an allocator: the pointer comes to it",
           "bytes": "an allocator that looks at bytes in and around objects, or protects them",
           "access": "one that protects memory, or a tool that sees each access",
           "rest": "one that delays the reuse of freed objects",
           "none": "no allocator"}


@dataclass(frozen=True)
class Bug:
    name: str
    seen_by: str
    what: str
    source: str


def bugs() -> list[Bug]:
    found = []
    for line in CLASSES.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            found.append(Bug(*(word.strip() for word in line.split("|"))))
    return found


@dataclass
class Detection:
    machine: dict[str, Any]
    rows: list[dict[str, Any]]
    results: list[dict[str, Any]]

    def text(self) -> str:
        """JSON with a line for each fact, each row, and the results of each row."""
        facts = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in self.machine.items())
        rows = ",\n".join(json.dumps(one) for one in self.rows)
        results = ",\n".join(", ".join(json.dumps(one) for one in results)
                             for _, results in groupby(self.results, lambda one: one["row"]))
        return (f'{{"suite": "detect",\n"machine": {{\n{facts}\n}},\n"rows": [\n{rows}\n],\n'
                f'"results": [\n{results}\n]}}')

    def of(self, bug: str, code: str) -> dict[str, Any] | None:
        for one in self.results:
            if one["bug"] == bug and one["row"] == code:
                return one
        return None


def read(path: Path) -> Detection:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return Detection(raw["machine"], raw["rows"], raw["results"])
    except (OSError, ValueError, KeyError) as error:
        raise Failure(f"{path}: not the results of `sheaf detect`: {error}") from error


SIGNS = {(NOW, True): "N", (NOW, False): "n", (LATER, True): "L", (LATER, False): "l", (NO, False): ".",
         (NONE, False): " "}
LEGEND = ["N: noticed now, at the wrong call or access.  L: noticed later.  Capital: the report names who",
          "allocated, who freed, or, now, who did it; small: it does not.  Dot: not noticed.  Blank: the",
          "interface has no such bug."]


def _sign(one: dict[str, Any] | None) -> str:
    return SIGNS[one["detected"], one["culprit"]] if one else "?"


def _columns(document: Detection, rows: list[dict[str, Any]]) -> list[str]:
    """A line for each class, a column for each row; heads are written downwards."""
    height = max(len(row["code"]) for row in rows)
    heads = [row["code"].rjust(height) for row in rows]
    lines = [" " * 28 + "  ".join(head[at] for head in heads) for at in range(height)]
    measured = {one["bug"] for one in document.results}
    for bug in bugs():
        if bug.name in measured:
            signs = "  ".join(_sign(document.of(bug.name, row["code"])) for row in rows)
            lines.append(f"{bug.name:19} {bug.seen_by:7} {signs}".rstrip())
    return lines


def counts(document: Detection, row: dict[str, Any]) -> tuple[int, int, int, int]:
    """Found, found at once, culprit named, and the classes that its interface has."""
    mine = [one for one in document.results if one["row"] == row["code"] and one["detected"] != NONE]
    found = [one for one in mine if one["detected"] in (NOW, LATER)]
    return (len(found), sum(one["detected"] == NOW for one in found),
            sum(one["culprit"] for one in found), len(mine))


def page(document: Detection) -> str:
    """For a terminal, and the table of docs/detection.md: at most 100 columns."""
    lines = _columns(document, document.rows) + [""] + LEGEND + [""]
    lines.append(f"{'':7} {'found':>8} {'now':>8} {'named':>6}")
    for row in document.rows:
        found, now, named, all_of = counts(document, row)
        lines.append(f"{row['code']:7} {f'{found}/{all_of}':>8} {now:8} {named:6}  {row['name']}"
                     + (f": SHEAF_OPTIONS={row['options']}" if row["options"] else ""))
    return "\n".join(lines)


def summary(document: Detection, costs: dict[str, str]) -> list[list[str]]:
    """Rows for a table: code, name, found, at once, named, cost."""
    shown = []
    for row in document.rows:
        found, now, named, all_of = counts(document, row)
        shown.append([row["code"], row["name"], f"{found} of {all_of}", str(now), str(named),
                      costs.get(row["code"], "–")])
    return shown
