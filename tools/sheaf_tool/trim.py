# SPDX-License-Identifier: MIT
"""`sheaf trim PID`: have a running process return its free memory to the system."""
from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from . import control, shared
from .info import bytes_short

EPILOG = """\
It empties the sheaves of every CPU, and then returns all free pages. The process does this in its
next slow call, which takes as long as sheaf_trim(0), but calls none of the program's shrinkers.

examples:
  sheaf trim 4711

exit code: 5 if the process made no slow call, so it did not answer
"""


def run(arguments: argparse.Namespace) -> int:
    pid = shared.number(arguments.pid)
    found = control.ask_json(pid, "trim", {"returned_bytes": int}, None, arguments.timeout)[0]
    print(json.dumps(found) if arguments.json else f"process {pid} returned {bytes_short(found['returned_bytes'])} to the system")
    return 0


def add_parser(commands: Any) -> None:
    control.add_command(commands, sys.modules[__name__], "return the free memory of a running process", caches=False)
