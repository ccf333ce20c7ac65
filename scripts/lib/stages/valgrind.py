# SPDX-License-Identifier: MIT
"""Stages: unit tests under valgrind's memcheck."""
import os

from lib.builds import ROOT, names
from lib.emulators import in_small_ranges
from lib.stage import DEBUG, built, need, parts
from lib.units import NOT_UNITS

DIRECTORY = "build/deep/debug"
LEAVE_OUT = ("gdb-",) + NOT_UNITS + (
    # These leave so little address space that valgrind cannot grow the stack,
    "oom-", "kmalloc-oom-",
    # use up so much that valgrind ends,
    "host-program-", "guard-exhausted", "quarantine-exhausted",
    # refuse calls that valgrind makes,
    "backend", "memory", "seccomp-",
    # need a limit on data that holds,
    "control-",
    # leave a stack for another one, which valgrind takes for the same,
    "longjmp-",
    # write beyond an object, which valgrind finds first,
    "traces-",
    # or take half an hour there: one ends only without memory, the other counts samples of many objects.
    "mempool-", "sample-")


@parts("valgrind", 4, "unit tests under valgrind's memcheck")
def valgrind(tally, part):
    need("valgrind")
    if built(tally, DIRECTORY, "gcc", DEBUG):
        # In checked caches valgrind knows of each object, and these tests read the old content of objects.
        units = [name for name in names(DIRECTORY, LEAVE_OUT) if not name.endswith("-checked")]
        in_small_ranges(tally, DIRECTORY, units, part, ["--wrapper", os.path.join(ROOT, "tests/deep/valgrind")])
