# SPDX-License-Identifier: MIT
"""`sheaf info [PID]`: which processes show statistics, or the caches of one of them."""
from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any

from . import shared
from .errors import Failure
from .process import Cache, Process, Reading
from .table import WIDTH, fold, printable, render


EPILOG = """\
examples:
  sheaf info                        which processes there are
  sheaf info 1234                   the caches of one
  sheaf info --json | jq '.[].pid'  the same for programs
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "info", help="the caches of a running process", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Show the caches of a process that runs with SHEAF_OPTIONS=stats or stats=live;\n"
                    "without PID, which processes those are.")
    parser.add_argument("pid", nargs="?", metavar="PID", help="the number of a process")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--prometheus", action="store_true",
                      help="print Prometheus' text format; needs PID")
    parser.set_defaults(run=run)


def bytes_short(value: float) -> str:
    for unit in ("", "K", "M", "G"):
        if value < 10000:
            return f"{value:.0f}{unit}"
        value /= 1024
    return f"{value:.0f}T"


def _counts(value: int) -> str:
    return "1 node" if value == 1 else f"{value} nodes"


def head(reading: Reading) -> str:
    return (f"process {reading.pid} ({reading.command}): backend {reading.backend}, index "
            f"{reading.index}, {reading.cpus} CPUs, {_counts(reading.nodes)}\n"
            f"options: {reading.options}")


def _events(cache: Cache) -> str:
    words = " ".join(f"{name}={value}" for name, value in cache.counters.items() if value)
    text = textwrap.fill(words, WIDTH, initial_indent="  ", subsequent_indent="  ",
                         break_long_words=False, break_on_hyphens=False)
    return f"{cache.name}\n{text or '  nothing yet'}"


def text_of(reading: Reading) -> str:
    if not reading.caches:
        return printable(f"{head(reading)}\n\nno caches")
    columns = ["cache", "in use", "parked", "total", "size", "per slab", "order", "slabs",
               "memory", "sheaf", "aliases"]
    rows = []
    for cache in reading.caches:
        values = {**cache.settings, **cache.gauges}
        name = cache.name + (" (destroyed)" if values["destroyed"] else "")
        name = textwrap.shorten(name, 30, placeholder="...") if " " in name else name
        name = name if len(name) <= 30 else name[:27] + "..."
        rows.append([name, *(str(values[key]) for key in (
            "objects_in_use", "objects_in_sheaves", "total_objects", "object_size",
            "objs_per_slab", "order", "slabs")), bytes_short(values["slab_bytes"]),
            str(values["sheaf_capacity"]), str(values["aliases"])])
    events = "\n".join(_events(cache) for cache in reading.caches)
    return printable(f"{head(reading)}\n\n{fold(columns, rows)}\n\nin use: objects the program has; "
                     f"parked: free, in sheaves; sheaf: its capacity\n\n{events}")


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def prometheus(reading: Reading, numbers: list[dict[str, Any]]) -> str:
    """As sheaf_stats_print() in the process itself, less what only that can know."""
    lines = ["# HELP sheaf_info how the library runs", "# TYPE sheaf_info gauge",
             f'sheaf_info{{backend="{reading.backend}",index="{reading.index}",'
             f'options="{_label(reading.options)}"}} 1']
    for name, value, told in (("cpus", reading.cpus, "sets of sheaves a cache has"),
                              ("nodes", reading.nodes, "nodes of memory")):
        lines += [f"# HELP sheaf_{name} {told}", f"# TYPE sheaf_{name} gauge",
                  f"sheaf_{name} {value}"]
    for number in numbers:
        name, kind, suffix = number["name"], *(("counter", "_total") if number["words"] else ("gauge", ""))
        metric = f"sheaf_cache_{name}{suffix}"
        samples = [f'{metric}{{cache="{_label(cache.name)}",id="{cache.id}"}} {cache.values()[name]}'
                   for cache in reading.caches if name in cache.values()]
        if samples:
            lines += [f"# HELP {metric} {number['help']}", f"# TYPE {metric} {kind}", *samples]
    return "\n".join(lines)


def _list(arguments: argparse.Namespace) -> int:
    if arguments.prometheus:
        raise Failure("sheaf info --prometheus needs a PID")
    readings = []
    for pid in shared.processes():
        try:
            with Process(pid) as process:
                readings.append(process.read())
        except Failure:  # it has ended meanwhile
            continue
    if arguments.json:
        print(json.dumps([reading.values() for reading in readings], indent=1))
    elif not readings:
        print(f"no process shows statistics to this user; to see one, {shared.HOW}")
    else:
        rows = [[str(reading.pid), reading.command, reading.backend, str(len(reading.caches)),
                 bytes_short(sum(cache.gauges["slab_bytes"] for cache in reading.caches))]
                for reading in readings]
        print(render(["PID", "command", "backend", "caches", "memory"], rows))
    return 0


def run(arguments: argparse.Namespace) -> int:
    if arguments.pid is None:
        return _list(arguments)
    with Process(shared.number(arguments.pid)) as process:
        reading = process.read()
        if arguments.json:
            print(json.dumps(reading.values(), indent=1))
        elif arguments.prometheus:
            print(prometheus(reading, process.text["numbers"]))
        else:
            print(text_of(reading))
    return 0
