# SPDX-License-Identifier: MIT
"""Stages: unit tests under valgrind's memcheck."""
import os

from lib.builds import ROOT, names
from lib.emulators import in_small_ranges
from lib.stage import DEBUG, built, need, parts
from lib.units import NOT_UNITS

DIRECTORY = "build/deep/debug"
# The variants by options of this suite show which memory each option touches. Of the others, each runs once.
WITH_OPTIONS = "cache-"
LEAVE_OUT = ("gdb-",) + NOT_UNITS + (
    # These need a malloc() that is not valgrind's,
    "malloc-",
    # are scripts, whose programs would not run under valgrind,
    "docs-", "foreign-python-", "ip-ranges", "reports-",
    # leave so little address space that valgrind cannot grow the stack,
    "oom-", "kmalloc-oom-", "maple-limit-",
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
    # know which options they chose, but not that a tool makes every cache a debug cache,
    "fuzz-api",
    # or take too long there: one ends only without memory, others have very many objects, samples, caches or
    # processes.
    "mempool-", "sample-", "many-caches-", "refusals-")


def _chosen():
    """Each test once. Which memory the library touches depends little on the options with which it runs again."""
    plain = names(DIRECTORY, LEAVE_OUT, without="options")
    return [name for name in names(DIRECTORY, LEAVE_OUT) if (name in plain or name.startswith(WITH_OPTIONS))
            # In checked caches valgrind knows of each object, and these tests read the old content of objects.
            and not name.endswith("-checked")]


@parts("valgrind", 4, "unit tests under valgrind's memcheck")
def valgrind(tally, part):
    need("valgrind")
    if built(tally, DIRECTORY, "gcc", DEBUG):
        in_small_ranges(tally, DIRECTORY, _chosen(), part, ["--wrapper", os.path.join(ROOT, "tests/deep/valgrind")])
