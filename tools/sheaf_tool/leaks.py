# SPDX-License-Identifier: MIT
"""`sheaf leaks PID`: the objects in use of a running process, by the stacks that allocated them."""
from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from . import control, shared, symbols
from .stacks import age, block, span
from .table import plural, printable

EPILOG = f"""\
The process must have been started with SHEAF_OPTIONS="control;slab_debug=U", or other letters
with U, for all caches or some. With SHEAF_OPTIONS=profile it lists the samples among the objects;
`sheaf profile PID --leaks` makes estimates of all objects from these. The process answers at the
end of a call that leaves the fast path. If it makes no such call, the command reports that it is
idle, with exit code 5.

A leak is a stack whose number of objects grows. Compare two outputs, or look at old objects only:

examples:
  sheaf leaks 4711
  sheaf leaks 4711 --cache conn --older 60   only what is older than a minute
  sheaf leaks 4711 --freed                   who freed the objects before
  sheaf leaks 4711 --json > before.json
"""

FRAME = {"frame": str, "module": (str, type(None)), "offset": str}
AGES = {f"age_{end}_ms": float for end in ("min", "max")}
ENDS = {f"{of}_{end}": int for of in ("thread", "cpu") for end in ("min", "max")}
FORM = {"cache": str, "objects": int, "unknown": int, "further": int, "guarded": bool,
        "traces": [{"objects": int, "bytes": int, **AGES, **ENDS, "stack": [FRAME]}]}


def _group(group: dict[str, Any]) -> str:
    head = (f"{plural(group['objects'], 'object', 8)}, {group['bytes']} bytes, age {age(group['age_min_ms'])} to "
            f"{age(group['age_max_ms'])}, thread {span(group['thread_min'], group['thread_max'])}, "
            f"cpu {span(group['cpu_min'], group['cpu_max'])}")
    return block(head, [text for frame in group["stack"]
                        for text in [frame.get("place") or frame["frame"],
                                     *(f"(inlined by) {by}" for by in frame.get("inlined_by", []))]])


def _kind(cache: dict[str, Any]) -> str:
    """`sheaf profile --leaks` estimates what samples stand for."""
    return "guarded or sampled object" if cache["guarded"] else "object"


def _text(caches: list[dict[str, Any]], freed: bool) -> str:
    parts = []
    for cache in caches:
        parts.append(f"{cache['cache']}: {plural(cache['objects'], _kind(cache))} in use, by the stack that "
                     f"{'freed them before' if freed else 'allocated them'}")
        parts += map(_group, cache["traces"])
        if cache["unknown"] and freed:
            parts.append(f"{plural(cache['unknown'], 'object', 8)} never freed before")
        if cache["further"]:
            parts.append(f"{plural(cache['further'], 'object', 8)} of further stacks")
        parts.append("")
    return printable("\n".join(parts).rstrip("\n")) or "no objects are in use"


def run(arguments: argparse.Namespace) -> int:
    pid = shared.number(arguments.pid)
    caches = control.ask_json(pid, f"traces {'free' if arguments.freed else 'alloc'} json", FORM, arguments.cache,
                              arguments.timeout)
    for cache in caches:
        cache["traces"] = [group for group in cache["traces"]
                           if group["age_max_ms"] >= 1000 * arguments.older]
    caches = [cache for cache in caches if cache["objects"]]
    caches.sort(key=lambda cache: -sum(group["bytes"] for group in cache["traces"]))
    symbols.resolve(pid, (frame for cache in caches for group in cache["traces"] for frame in group["stack"]))
    print(json.dumps(caches, indent=1) if arguments.json else _text(caches, arguments.freed))
    return 0


def add_parser(commands: Any) -> None:
    parser = control.add_command(commands, sys.modules[__name__], "who allocated the objects of a running process")
    parser.add_argument("--freed", action="store_true", help="group by the stacks that last freed the objects")
    parser.add_argument("--older", type=float, default=0, metavar="SECONDS",
                        help="only stacks with an object that is at least this old")
