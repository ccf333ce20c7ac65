# SPDX-License-Identifier: MIT
"""`sheaf stat PID`: what a process's caches do, a line for each interval, as vmstat has it."""
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
# Of all caches together: title, key in JSON, columns, how it is written.
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
Rates are per second of the interval that the line ends, of all caches together. A miss is a call
that no sheaf of the CPU could serve; slabs: slabs made of fresh pages. Of memory, resident is the
process's; used is in slabs, blocks of up to 2 MiB and the library itself; mapped is in larger
blocks; free was used, and is not yet given back.

examples:
  sheaf stat                      of the one process there is, or one that you choose
  sheaf stat -i 5 1234            every five seconds
  sheaf stat --count 10 1234      ten lines
  sheaf stat --json 1234          a JSON object for each line

exit code: 0 after --count lines, 4 if the process ended
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "stat", help="a line for each interval, as vmstat has it", epilog=EPILOG,
        description="Print what the caches of a process do, all together, a line for each interval.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", nargs="?", metavar="PID", help="the number of a process")
    parser.add_argument("-i", "--interval", type=seconds, default=1.0, metavar="SECONDS",
                        help="how long a line's interval is (default: 1)")
    parser.add_argument("-c", "--count", type=_count, metavar="N", help="end after N lines")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each line")
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
