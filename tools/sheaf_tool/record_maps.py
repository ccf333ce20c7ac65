# SPDX-License-Identifier: MIT
"""`sheaf record-maps`: record how a program's address space changes, with maple/tools/record_maps."""
from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from . import paths
from .errors import Failure

OWN_FAILURE = 125  # as for timeout(1) and env(1)

EPILOG = """\
The recording has one line for each mmap, munmap, mprotect, brk, mremap, madvise(MADV_DONTNEED),
fork, exec and exit with its result, and the mappings after each exec and before each exit.
sheaf-maps(5) describes the format. maple/bench/vma/replay replays a recording.

examples:
  sheaf record-maps -- python3 -c 'import json'    writes python3.maps
  sheaf record-maps -o build.maps -- make -j2      including every compiler that make starts

PROGRAM behaves as usual, but each of its system calls takes some microseconds longer, and
set-user-ID programs run without that privilege. When it has ended, a summary goes to standard
error. If it leaves processes in the background, the recording continues until they end, or until
^C.

exit code: PROGRAM's; 125 if it cannot be recorded, 126 if it cannot be run, 127 if it is not found
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "record-maps", help="record how a program's address space changes",
        usage="sheaf record-maps [-h] [-o FILE] [--build DIR] -- PROGRAM [ARGUMENT]...",
        description="Run PROGRAM and record how its address space, and those of the processes it "
                    "starts, change.", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE (default: PROGRAM.maps, "
                        "which must not exist yet)")
    parser.add_argument("--build", metavar="DIR",
                        help="the build whose recorder is used (default: build)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM",
                        help="the program and its arguments")
    parser.set_defaults(run=lambda arguments: run(parser, arguments))


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> NoReturn:
    command = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        parser.error("which program? for example: sheaf record-maps -- ls")
    words = ["-o", arguments.output] if arguments.output is not None else []
    try:
        recorder = paths.program("record-maps", f"{paths.MAPLE_IN_BUILD}/tools/record_maps", arguments.build)
        os.execv(recorder, ["record-maps", *words, "--", *command])
    except (Failure, OSError) as error:
        print(f"sheaf: {error}", file=sys.stderr)
    sys.exit(OWN_FAILURE)
