# SPDX-License-Identifier: MIT
"""Which process a command shows: the one named, the only one, or one chosen from a list."""
from __future__ import annotations

import sys

from . import shared
from .errors import Failure, Usage


def _named(pid: int) -> str:
    return f"{pid} ({shared.command_of(pid)})"


def _ask(found: list[int]) -> int:
    """The question goes to standard error, because standard output may be JSON."""
    for number, pid in enumerate(found, 1):
        print(f"{number:3}  {pid:7}  {shared.command_line_of(pid)}", file=sys.stderr)
    while True:
        print(f"which process? 1 to {len(found)}, or its PID: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise Usage("no process was chosen")
        if not line.strip().isdecimal():
            continue
        answer = int(line)
        if answer in found:
            return answer
        if 1 <= answer <= len(found):
            return found[answer - 1]


def pid_of(word: str | None, command: str) -> int:
    if word is not None:
        return shared.number(word)
    found = shared.processes()
    if not found:
        raise Failure(f"this user has no process with statistics: {shared.HOW}")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Usage(f"which process? sheaf {command} PID; running: {', '.join(map(_named, found))}")
    return found[0] if len(found) == 1 else _ask(found)
