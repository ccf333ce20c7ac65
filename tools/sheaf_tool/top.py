# SPDX-License-Identifier: MIT
"""`sheaf top PID`: the caches of a running process, live."""
from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import sys
import termios
import time
import tty

from . import groups
from .asked import Asked, look_at
from .choose import pid_of
from .control import PATIENCE
from .errors import Failure, Usage
from .process import Process
from .rates import Rates, frame

KEYS = {"o": "in use", "a": "allocs/s", "f": "frees/s", "m": "misses/s", "b": "memory", "n": "cache"}
ENDED = 4  # exit code

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, REST_OF_LINE, REST = "\x1b[H", "\x1b[K", "\x1b[J"


EPILOG = """\
keys: o, a, f, m, b and n sort by objects, allocations, frees, misses, bytes and name; u shows or
hides unused caches; q quits

examples:
  sheaf top                       the only process, or one that you choose
  sheaf top -i 0.2 1234           five updates per second
  sheaf top --once 1234           one table, without a terminal
  sheaf top --json 1234           a JSON object per update
  sheaf top --groups --once 1234  the groups as a tree, with their objects by cache

exit code: 0 after q or --once, 4 if the process ended
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "top", help="the caches of a running process, live",
        epilog=EPILOG,
        description="Show the caches of a process that runs with SHEAF_OPTIONS=stats or stats=live, with\n"
                    "rates. Without PID, ask which process, if there are several.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", nargs="?", metavar="PID", help="the number of a process")
    parser.add_argument("-i", "--interval", type=seconds, default=1.0, metavar="SECONDS",
                        help="time between two updates (default: 1)")
    parser.add_argument("--all", action="store_true", help="include caches that were never used")
    parser.add_argument("--once", action="store_true", help="print one table and end")
    parser.add_argument("--json", action="store_true", help="print a line of JSON per update")
    parser.add_argument("--groups", action="store_true",
                        help="show groups (kmem_group_create(3)) instead of caches: the process must make a slow "
                             "call now and then")
    parser.add_argument("--timeout", type=float, default=PATIENCE, metavar="SECONDS",
                        help="how long to wait for the answer of a process that is asked (default %(default)g)")
    parser.set_defaults(run=run)


def seconds(word: str) -> float:
    value = float(word)
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError("use 0.05 to 3600 seconds")
    return value


class Terminal:
    """Takes the whole screen and single keys; restores the terminal afterwards."""

    def __enter__(self) -> Terminal:
        self._input = sys.stdin.fileno()
        self._saved = termios.tcgetattr(self._input)
        tty.setcbreak(self._input)
        print(ENTER, end="", flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._saved)
        print(LEAVE, end="", flush=True)

    def show(self, lines: list[str]) -> None:
        text = "\r\n".join(line + REST_OF_LINE for line in lines)
        print(HOME + text + REST, end="", flush=True)

    def key(self, until: float) -> str | None:
        """A key pressed before this time."""
        ready, _, _ = select.select([self._input], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return None
        pressed = os.read(self._input, 1).decode("ascii", "replace")
        return pressed or "q"  # the terminal is gone


def _watch(process: Process | Asked, rates: Rates, arguments: argparse.Namespace) -> bool:
    """Run until q is pressed (returns True) or the process ends (returns False)."""
    order, interval, everything = "o", arguments.interval, arguments.all
    with Terminal() as terminal:
        next_look = time.monotonic() + interval
        while True:
            width, height = shutil.get_terminal_size()
            terminal.show(frame(rates, KEYS[order], width, height, everything))
            key = terminal.key(next_look)
            if key == "q":
                return True
            if key in KEYS:
                order = key
            if key == "u":
                everything = not everything
            if time.monotonic() >= next_look:
                if not process.runs():
                    return False
                rates.add(process.read(), time.monotonic())
                next_look = time.monotonic() + interval


def _print(process: Process | Asked, rates: Rates, arguments: argparse.Namespace) -> bool:
    while True:
        time.sleep(arguments.interval)
        runs = process.runs()
        rates.add(process.read(), time.monotonic())
        if arguments.json:
            print(json.dumps(rates.values()), flush=True)
        else:
            print("\n".join(frame(rates, KEYS["o"], 100, None, arguments.all)))
        if arguments.once or not runs:
            return runs


def _print_groups(pid: int, arguments: argparse.Namespace) -> None:
    while True:
        found = groups.read(pid, arguments)
        print(json.dumps(found) if arguments.json else "\n".join(groups.lines(found, True)), flush=True)
        if arguments.once:
            return
        time.sleep(arguments.interval)


def _watch_groups(pid: int, arguments: argparse.Namespace) -> None:
    caches = arguments.all
    with Terminal() as terminal:
        while True:
            width, height = shutil.get_terminal_size()
            terminal.show([line[:width] for line in groups.lines(groups.read(pid, arguments), caches)[:height - 1]])
            until = time.monotonic() + arguments.interval
            while time.monotonic() < until:
                key = terminal.key(until)
                if key == "q":
                    return
                if key == "u":
                    caches = not caches


def _run_groups(arguments: argparse.Namespace) -> int:
    if arguments.pid is None or not arguments.pid.isdigit():
        raise Usage("sheaf top --groups needs the number of a process")
    pid = int(arguments.pid)
    if arguments.once or arguments.json:
        _print_groups(pid, arguments)
    elif not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("sheaf top needs a terminal; use --once or --json without one")
    else:
        _watch_groups(pid, arguments)
    return 0


def run(arguments: argparse.Namespace) -> int:
    if arguments.groups:
        return _run_groups(arguments)
    pid = pid_of(arguments.pid, "top")
    plain = arguments.once or arguments.json
    with look_at(pid, arguments.timeout) as process:
        if not plain and not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise Failure("sheaf top needs a terminal; use --once or --json without one")
        rates = Rates()
        rates.add(process.read(), time.monotonic())
        runs = (_print(process, rates, arguments) if plain
                else _watch(process, rates, arguments))
    if runs:
        return 0
    print(f"sheaf: process {pid} has ended", file=sys.stderr)
    return ENDED
