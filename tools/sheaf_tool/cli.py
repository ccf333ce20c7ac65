# SPDX-License-Identifier: MIT
"""The command line: exit code 0 if all went well, 1 after a failure, 2 for wrong usage.

A command may have further ones: `sheaf compare` has 3 for a regression, `sheaf top` has 4 if the
process ended, `sheaf record-maps` those of the program that it runs.
"""
from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from .errors import Failure

# Command: the package whose module of this name it is.
COMMANDS = {"bench": "sheaf_bench", "compare": "sheaf_bench", "info": "sheaf_tool", "top": "sheaf_tool",
            "record-maps": "sheaf_tool"}

EPILOG = """\
examples:
  sheaf bench batch --quick        how fast is it here, in less than a minute
  sheaf bench --help               everything about benchmarks
  sheaf compare A.json B.json      what became slower or faster
  sheaf info                       which running processes show their caches
  sheaf top PID                    the caches of one of them, live
  sheaf record-maps -- PROGRAM     what a program does to its address space
"""


def _parser(words: list[str]) -> argparse.ArgumentParser:
    """Of the command that is named, or of all: the benchmarks take longer to read than `sheaf info` runs."""
    parser = argparse.ArgumentParser(
        prog="sheaf", description="Tools for libsheaf: object caches on per-CPU sheaves.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in words[:1] if set(words[:1]) & set(COMMANDS) else COMMANDS:
        import_module(f"{COMMANDS[name]}.{name.replace('-', '_')}").add_parser(commands)
    return parser


def main(words: list[str]) -> int:
    arguments = _parser(words).parse_args(words)
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Failure as failure:
        print(f"sheaf: {failure}", file=sys.stderr)
    except KeyboardInterrupt:
        print("sheaf: interrupted", file=sys.stderr)
    return 1
