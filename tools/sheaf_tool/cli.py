# SPDX-License-Identifier: MIT
"""The command line: exit code 0 for success, 1 after a failure, 2 for wrong usage.

Commands may have others: `sheaf compare` returns 3 for a regression, `sheaf top` and `sheaf stat` return 4
if the process ended, `sheaf info --validate` 3 for faults; 5 means that a process did not answer. `sheaf run`
and `sheaf record-maps` return the code of the program that they run.
"""
from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from importlib.util import find_spec

from . import complete, paths
from .errors import Failure
from .table import printable

# Command: the package whose module of this name it is. Benchmarks are not installed.
BENCHMARKS = ("bench", "compare", "detect", "sim")
HAS_BENCHMARKS = find_spec("sheaf_bench") is not None
COMMANDS = {**({name: "sheaf_bench" for name in BENCHMARKS} if HAS_BENCHMARKS else {}),
            **{name: "sheaf_tool" for name in ("info", "top", "stat", "leaks", "profile", "debug", "tune", "trim", "symbolize", "run", "record-maps")}}

EPILOG = """\
examples:
  sheaf run -- ./program           run a program on libsheaf and say how it ran
  sheaf info                       list the running processes with statistics
  sheaf info PID                   show the caches of one of them
  sheaf top                        the same, live; asks which one if there are several
  sheaf stat -i 5 PID              print a line every five seconds
  sheaf leaks PID                  show who allocated the objects of one, by stack
  sheaf profile PID                show who allocates memory, from samples; also of a file
  sheaf debug PID                  list its checked caches, and switch their letters
  sheaf tune PID                   list settings of one, and change them
  sheaf trim PID                   return its free memory to the system
  sheaf symbolize REPORT           show a report of slab_debug with files and lines
{benchmarks}  sheaf record-maps -- PROGRAM     record how a program uses its address space

`sheaf COMMAND --help` has more examples. A process has statistics if it was started with
SHEAF_OPTIONS=stats=live, SHEAF_OPTIONS=stats or `sheaf run`. Any other one that has libsheaf tells
its caches, but no rates, to those who may trace it (ptrace(2)): its user and root.
"""


BENCHMARK_EXAMPLES = """\
  sheaf bench batch --quick        measure the speed here, in less than a minute
  sheaf compare A.json B.json      show what became slower or faster
  sheaf detect                     show which tool finds which bug
  sheaf sim scale --quick          run the library on a machine of 384 CPUs
"""


def parser_for(words: list[str]) -> argparse.ArgumentParser:
    """The parser of one command, or of all. Importing the benchmarks would take longer than `sheaf info`."""
    parser = argparse.ArgumentParser(
        prog="sheaf", description="Tools for libsheaf: object caches on per-CPU sheaves.",
        epilog=EPILOG.format(benchmarks=BENCHMARK_EXAMPLES if HAS_BENCHMARKS else ""),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command_name")
    for name in words[:1] if set(words[:1]) & set(COMMANDS) else COMMANDS:
        import_module(f"{COMMANDS[name]}.{name.replace('-', '_')}").add_parser(commands)
    return parser


def main(words: list[str]) -> int:
    if words[:1] == [complete.OPTION]:
        return complete.run(parser_for, words[1:])
    if words[:1] and words[0] in BENCHMARKS and not HAS_BENCHMARKS:
        print(f"sheaf: {words[0]} works only in libsheaf's source tree: run tools/sheaf {words[0]} there", file=sys.stderr)
        return 2
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
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Failure as failure:
        print(printable(f"sheaf: {failure}"), file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        print("sheaf: interrupted", file=sys.stderr)
    return 1
