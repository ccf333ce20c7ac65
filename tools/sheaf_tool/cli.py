# SPDX-License-Identifier: MIT
"""The command line: exit code 0 if all went well, 1 after a failure, 2 for wrong usage.

A command may have further ones: `sheaf compare` has 3 for a regression, `sheaf top` and `sheaf stat` have 4
if the process ended, `sheaf run` and `sheaf record-maps` those of the program that they run.
"""
from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from . import complete, paths
from .errors import Failure

# Command: the package whose module of this name it is.
COMMANDS = {"bench": "sheaf_bench", "compare": "sheaf_bench", "info": "sheaf_tool", "top": "sheaf_tool",
            "stat": "sheaf_tool", "run": "sheaf_tool", "record-maps": "sheaf_tool"}

EPILOG = """\
examples:
  sheaf run -- ./program           run a program and show its caches when it ends
  sheaf info                       which running processes show their caches
  sheaf info PID                   the caches of one of them
  sheaf top                        the same live; asks which one, if there are several
  sheaf stat -i 5 PID              a line every five seconds
  sheaf bench batch --quick        how fast is it here, in less than a minute
  sheaf compare A.json B.json      what became slower or faster
  sheaf record-maps -- PROGRAM     what a program does to its address space

`sheaf COMMAND --help` has more of them. Processes show statistics if they were started with
SHEAF_OPTIONS=stats=live, SHEAF_OPTIONS=stats or `sheaf run`.
"""


def parser_for(words: list[str]) -> argparse.ArgumentParser:
    """Of the command that is named, or of all: the benchmarks take longer to read than `sheaf info` runs."""
    parser = argparse.ArgumentParser(
        prog="sheaf", description="Tools for libsheaf: object caches on per-CPU sheaves.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command_name")
    for name in words[:1] if set(words[:1]) & set(COMMANDS) else COMMANDS:
        import_module(f"{COMMANDS[name]}.{name.replace('-', '_')}").add_parser(commands)
    return parser


def main(words: list[str]) -> int:
    if words[:1] == [complete.OPTION]:
        return complete.run(parser_for, words[1:])
    parser = parser_for(words)
    arguments = parser.parse_args(words)
    if arguments.version:
        print(f"sheaf {paths.version()}")
        return 0
    if not arguments.command_name:
        parser.print_help()
        return 0
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Failure as failure:
        print(f"sheaf: {failure}", file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        print("sheaf: interrupted", file=sys.stderr)
    return 1
