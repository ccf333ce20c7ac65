# SPDX-License-Identifier: MIT
"""`sheaf info [PID]`: list the processes with statistics, or show the caches of one of them."""
from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any

from . import control, shared, tune
from .asked import look_at
from .errors import Failure, Usage
from .process import SETTERS, Cache, Process, Reading
from .table import fold, folded, plural, printable, render, terminal_width


MEMORY = {
    "committed_bytes": "memory made usable",
    "used_bytes": "memory in slabs and of the library itself",
    "free_bytes": "free memory not yet returned to the system",
    "mapped_bytes": "memory in large blocks",
    "resident_bytes": "resident memory of the whole process",
    "peak_resident_bytes": "peak of the resident memory of the whole process",
    "decay_ms": "milliseconds for which free memory stays, 4294967295: always",
    "decay_set_by": "who set that: 0 the library, 2 SHEAF_OPTIONS, 3 sheaf tune",
    "peak_bytes": "peak of the memory in slabs, blocks and the library itself, if counted",
}
COLUMNS = ("cache", "in use", "parked", "size", "slabs", "memory", "peak", "waste", "sheaf")
LONGEST_NAME = 30
NOT_COUNTED = "  its events are not counted; SHEAF_OPTIONS=stats=live counts them"
LEGEND = ("in use: objects that the program has, exact to one sheaf per CPU; parked: free objects in sheaves; "
          "size: bytes per object; memory: of slabs now, and at its peak; waste: bytes of slabs that no "
          "object can use; sheaf: capacity of a sheaf")

EPILOG = """\
examples:
  sheaf info                        list the processes
  sheaf info 1234                   show the caches of one
  sheaf info --all 1234             include caches that were never used
  sheaf info --validate 1234        ask it to check its caches
  sheaf info --json | jq '.[].pid'  the same, for scripts
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "info", help="the caches of a running process", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Show the caches of a process; without PID, list those that run with SHEAF_OPTIONS=stats\n"
                    "or stats=live. Another one is asked, and answers in its next slow call.")
    parser.add_argument("pid", nargs="?", metavar="PID", help="the number of a process")
    parser.add_argument("--all", action="store_true", help="include caches that were never used")
    parser.add_argument("--validate", action="store_true",
                        help="ask the process to check its caches (kmem_cache_validate); needs PID")
    control.add_arguments(parser)
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


def memory_lines(reading: Reading) -> list[str]:
    """The memory of the process, and the library's parts of it."""
    slabs = sum(cache.gauges["slab_bytes"] for cache in reading.caches)
    memory = reading.memory
    own = max(0, memory["used_bytes"] - slabs)
    most_used = f" (peak {bytes_short(memory['peak_bytes'])})" if memory["peak_bytes"] else ""
    process, most, used, free, *parts = map(bytes_short, (
        memory["resident_bytes"], memory["peak_resident_bytes"],
        memory["used_bytes"] + memory["mapped_bytes"], memory["free_bytes"],
        slabs, memory["mapped_bytes"], own, memory["committed_bytes"]))
    # Unknown after the process has ended.
    resident = f"{process} resident (peak {most}); " if memory["resident_bytes"] else ""
    return [f"memory: {resident}libsheaf {used} used{most_used}, {free} free",
            "used: slabs {}, large blocks {}, own {}; committed {}".format(*parts)]


def decay_line(reading: Reading) -> str:
    ms, by = reading.memory["decay_ms"], SETTERS[reading.memory["decay_set_by"] & 3]
    return tune.decay_text(ms, by)


def head(reading: Reading) -> str:
    return "\n".join([
        f"process {reading.pid} ({reading.command}): backend {reading.backend}, index "
        f"{reading.index}, {plural(reading.cpus, 'CPU')}, {plural(reading.nodes, 'node')}",
        f"options: {reading.options}", *memory_lines(reading), decay_line(reading)])


def _events(cache: Cache, width: int) -> str:
    names = ", ".join(cache.alias_names)
    shared_by = textwrap.fill(f"also {names}", width, initial_indent="  ", subsequent_indent="  ") + "\n"
    words = " ".join(f"{name}={value}" for name, value in cache.counters.items() if value)
    text = textwrap.fill(words, width, initial_indent="  ", subsequent_indent="  ",
                         break_long_words=False, break_on_hyphens=False)
    letters = f" (slab_debug={cache.letters})" if cache.letters else ""
    chosen = ", ".join(f"{name}={cache.settings[name]} ({by})" for name, by in cache.setters().items())
    by_whom = textwrap.fill(f"set: {chosen}", width, initial_indent="  ", subsequent_indent="  ") + "\n"
    return (f"{cache.name}{letters}\n{shared_by if names else ''}{by_whom if chosen else ''}"
            f"{text or ('  nothing yet' if cache.counters else NOT_COUNTED)}")


def _row(cache: Cache) -> list[str]:
    values = {**cache.settings, **cache.gauges}
    name = cache.name + (" (destroyed)" if values["destroyed"] else "")
    name = name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME - 3] + "..."
    return [name, *(str(values[key]) for key in (
        "objects_in_use", "objects_in_sheaves", "object_size", "slabs")),
        bytes_short(values["slab_bytes"]), bytes_short(values["peak_slab_bytes"]) if cache.counters else "-",
        bytes_short(values["waste_bytes"]),
        str(values["sheaf_capacity"])]


def hidden(unused: int) -> str:
    caches = "1 unused cache is" if unused == 1 else f"{unused} unused caches are"
    return f"{caches} not shown; --all shows all"


def text_of(reading: Reading, everything: bool = False) -> str:
    """For people. Caches that were never used are hidden."""
    shown = [cache for cache in reading.caches if everything or cache.used()]
    unused, width = len(reading.caches) - len(shown), terminal_width()
    parts = [folded(head(reading).split("\n"), width)]
    if not reading.caches:
        parts.append("no caches")
    if shown:
        parts += [fold(COLUMNS, list(map(_row, shown)), width), folded([LEGEND], width),
                  "\n".join(_events(cache, width) for cache in shown if cache.counters or cache.letters or cache.setters())
                  or NOT_COUNTED.strip()]
    if unused:
        parts.append(hidden(unused))
    return printable("\n\n".join(parts))


def as_json(reading: Reading) -> str:
    """A line for each cache. With an indentation, Python's encoder takes ten times as long."""
    values = reading.values()
    caches = ",\n".join(map(json.dumps, values.pop("caches")))
    return f'{json.dumps(values)[:-1]}, "caches": [\n{caches}]}}'


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def prometheus(reading: Reading, numbers: list[dict[str, Any]]) -> str:
    """Like sheaf_stats_print() in the process, without the values that only the process knows."""
    lines = ["# HELP sheaf_info how the library runs", "# TYPE sheaf_info gauge",
             f'sheaf_info{{backend="{reading.backend}",index="{reading.index}",'
             f'options="{_label(reading.options)}"}} 1']
    for name, value, meaning in (("cpus", reading.cpus, "sets of sheaves a cache has"),
                                 ("nodes", reading.nodes, "nodes of memory"),
                                 *((name, value, MEMORY[name]) for name, value in reading.memory.items() if name in MEMORY)):
        lines += [f"# HELP sheaf_{name} {meaning}", f"# TYPE sheaf_{name} gauge",
                  f"sheaf_{name} {value}"]
    caches = [(f'{{cache="{_label(cache.name)}",id="{cache.id}"}}', cache.values()) for cache in reading.caches]
    for number in numbers:
        name, kind, suffix = number["name"], *(("counter", "_total") if number["words"] else ("gauge", ""))
        metric = f"sheaf_cache_{name}{suffix}"
        samples = [f"{metric}{labels} {values[name]}" for labels, values in caches if name in values]
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
        except Failure:  # it has ended since
            continue
    if arguments.json:
        print("[" + ",\n".join(map(as_json, readings)) + "]")
    elif not readings:
        print(f"this user has no process with statistics; to see one, {shared.HOW}")
    else:
        rows = [[str(reading.pid), reading.command, reading.backend, str(len(reading.caches)),
                 *(bytes_short(value) for value in (
                     reading.memory["used_bytes"] + reading.memory["mapped_bytes"],
                     reading.memory["free_bytes"], reading.memory["resident_bytes"]))]
                for reading in readings]
        print(printable(render(["PID", "command", "backend", "caches", "used", "free", "resident"], rows)))
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    """Exit code 3: there are faults, which the process has reported."""
    pid = shared.number(arguments.pid)
    caches = control.ask_json(pid, "validate", {"cache": str, "checked": bool, "faults": int}, arguments.cache,
                              arguments.timeout)
    faults = sum(cache["faults"] for cache in caches)
    checked = sum(cache["checked"] for cache in caches)
    if arguments.json:
        print(json.dumps(caches, indent=1))
    else:
        rows = [[printable(cache["cache"]), str(cache["faults"])] for cache in caches if cache["faults"]]
        if rows:
            print(render(["cache", "faults"], rows))
        print(f"{plural(len(caches), 'cache')}, {checked} with slab_debug: "
              + (f"{plural(faults, 'fault')}, reported by the process" if faults else "no faults"))
    return 3 if faults else 0


def run(arguments: argparse.Namespace) -> int:
    if arguments.validate and arguments.pid is None:
        raise Usage("sheaf info --validate needs a PID")
    if arguments.validate:
        return _validate(arguments)
    if arguments.pid is None:
        return _list(arguments)
    pid = shared.number(arguments.pid)
    with Process(pid) if arguments.prometheus else look_at(pid, arguments.timeout) as process:
        reading = process.read()
        if arguments.json:
            print(as_json(reading))
        elif isinstance(process, Process) and arguments.prometheus:
            print(prometheus(reading, process.text["numbers"]))
        else:
            print(text_of(reading, arguments.all))
    return 0
