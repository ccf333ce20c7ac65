# SPDX-License-Identifier: MIT
"""The groups of a running process (<sheaf/group.h>), which it tells through its control socket."""
from __future__ import annotations

import argparse
from typing import Any

from .control import ask_json
from .table import one_line

Group = dict[str, Any]
HEADER = f"{'group':<32} {'bytes':>10} {'own':>10} {'objects':>9} {'peak':>10} {'limit':>10} {'failed':>8}"
FORM = {"id": int, "parent": int, "name": str, "hard_limit": int,
        **{name: int for name in ("bytes", "own_bytes", "own_objects", "peak", "failed")},
        "caches": [{"name": str, "bytes": int, "objects": int}]}
UNITS = ["", "K", "M", "G", "T"]


def read(pid: int, arguments: argparse.Namespace) -> list[Group]:
    return ask_json(pid, "groups", FORM, None, arguments.timeout)


def short(size: float) -> str:
    """A size in at most five characters, as the library's text has it."""
    unit = 0
    while size >= 10000 and unit < len(UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size:.0f}{UNITS[unit]}"


def _line(group: Group, depth: int) -> str:
    name = one_line(group["name"])
    limit = short(group["hard_limit"]) if group["hard_limit"] else "-"
    return (f"{'  ' * min(depth, 8) + name:<32.32} {short(group['bytes']):>10} {short(group['own_bytes']):>10} "
            f"{group['own_objects']:>9} {short(group['peak']):>10} {limit:>10} {group['failed']:>8}")


def _caches(group: Group, depth: int) -> list[str]:
    largest = sorted(group["caches"], key=lambda cache: -cache["bytes"])
    return [f"{'  ' * min(depth, 8)}  - {cache['name']}: {short(cache['bytes'])} in {cache['objects']} objects"
            for cache in largest]


def lines(groups: list[Group], caches: bool) -> list[str]:
    """The tree; groups below one group, the largest first."""
    below: dict[int, list[Group]] = {}
    for group in groups:
        if group["id"]:
            below.setdefault(group["parent"], []).append(group)
    result = [HEADER]
    rest = [(group, 0) for group in groups if not group["id"]]
    while rest:
        group, depth = rest.pop()
        result.append(_line(group, depth))
        if caches:
            result += _caches(group, depth)
        rest += [(child, depth + 1) for child in sorted(below.get(group["id"], []), key=lambda one: one["bytes"])]
    return result
