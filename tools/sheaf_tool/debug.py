# SPDX-License-Identifier: MIT
"""`sheaf debug PID`: the caches of a running process that are checked, and letters to switch."""
from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

from . import control, shared
from .errors import Usage
from .table import printable, render

EPILOG = """\
The process must have been started with SHEAF_OPTIONS="control;slab_debug=LETTERS". You can switch
T (report each allocation and free), A (make allocations fail) and Q (keep freed objects in
quarantine) in its checked caches. The other letters need space around each object, or its contents,
from the start: choose them there.

examples:
  sheaf debug 4711                             list the checked caches and their letters
  sheaf debug 4711 --letters +T --cache conn   report each allocation and free of this cache
  sheaf debug 4711 --letters=-T                stop that, in all caches

exit code: 5 if the process made no call that leaves the fast path, so it did not answer
"""


def run(arguments: argparse.Namespace) -> int:
    letters = arguments.letters or ""
    if not re.fullmatch(r"([+-][A-Za-z]+)*", letters):
        raise Usage("--letters takes + or - and letters, such as +T or --letters=-TA")
    signs = [f"{part[0]}{letter.upper()}" for part in re.findall(r"[+-][A-Za-z]+", letters) for letter in part[1:]]
    caches = control.ask_json(shared.number(arguments.pid), " ".join(["debug", *signs]),
                              {"cache": str, "letters": str}, arguments.cache, arguments.timeout)
    if arguments.json:
        print(json.dumps(caches, indent=1))
    else:
        print(printable(render(["cache", "letters"], [[cache["cache"], cache["letters"]] for cache in caches])))
    return 0


def add_parser(commands: Any) -> None:
    parser = control.add_command(commands, sys.modules[__name__], "list and switch the checks of a running process")
    parser.add_argument("--letters", metavar="+T|-T", help="switch T, A or Q on or off; --letters=-T for off")
