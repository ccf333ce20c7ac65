# SPDX-License-Identifier: MIT
"""`sheaf stat PID`: the activity of a process's caches, one line per interval, like vmstat."""
from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Callable

from .choose import pid_of
from .info import bytes_short
from .process import Process
from .rates import Rates, short
from .top import ENDED, seconds

HEADER_EVERY = 20  # lines, on a terminal
# Sums over all caches: title, key in JSON, width, format.
COLUMNS: tuple[tuple[str, str, int, Callable[[float], str]], ...] = (
    ("resident", "resident_bytes", 8, bytes_short),
    ("used", "used_bytes", 7, bytes_short),
    ("mapped", "mapped_bytes", 7, bytes_short),
    ("free", "free_bytes", 7, bytes_short),
    ("in use", "objects_in_use", 8, short),
    ("parked", "objects_in_sheaves", 8, short),
    ("allocs/s", "allocs_per_second", 9, short),
    ("frees/s", "frees_per_second", 9, short),
    ("misses/s", "misses_per_second", 9, short),
    ("slabs/s", "slabs_made_per_second", 8, short),
)

EPILOG = """\
Rates are per second over the interval, summed over all caches. A miss is a call that no sheaf of
the CPU could serve; slabs counts slabs made of fresh pages. Resident memory is that of the
process; used memory is in slabs, in blocks of up to 1 MiB and in the library itself; mapped
memory is in larger blocks; free memory was used, and has not yet been returned to the system.

examples:
  sheaf stat                      the only process, or one that you choose
  sheaf stat -i 5 1234            every five seconds
  sheaf stat --count 10 1234      ten lines
  sheaf stat --json 1234          a JSON object per line

exit code: 0 after --count lines, 4 if the process ended
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "stat", help="the activity of a process's caches, one line per interval, like vmstat", epilog=EPILOG,
        description="Print the activity of a process's caches, summed over all of them, one line per interval.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", nargs="?", metavar="PID", help="the number of a process")
    parser.add_argument("-i", "--interval", type=seconds, default=1.0, metavar="SECONDS",
                        help="length of the interval (default: 1)")
    parser.add_argument("-c", "--count", type=_count, metavar="N", help="end after N lines")
    parser.add_argument("--json", action="store_true", help="print a JSON object per line")
    parser.set_defaults(run=run)


def _count(word: str) -> int:
    value = int(word)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def line_of(values: dict[str, float]) -> str:
    return "".join(write(values[key]).rjust(width) for _, key, width, write in COLUMNS)


def header() -> str:
    return "".join(title.rjust(width) for title, _, width, _ in COLUMNS)


def _print(values: dict[str, float], number: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps(values), flush=True)
        return
    if number == 0 or (sys.stdout.isatty() and number % HEADER_EVERY == 0):
        print(header())
    print(line_of(values), flush=True)


def run(arguments: argparse.Namespace) -> int:
    with Process(pid_of(arguments.pid, "stat")) as process:
        rates = Rates()
        rates.add(process.read(), time.monotonic())
        number = 0
        while number != arguments.count:
            time.sleep(arguments.interval)
            runs = process.runs()
            rates.add(process.read(), time.monotonic())
            _print(rates.totals(), number, arguments.json)
            number += 1
            if not runs:
                print(f"sheaf: process {process.pid} has ended", file=sys.stderr)
                return ENDED
    return 0
