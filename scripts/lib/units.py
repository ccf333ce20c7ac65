# SPDX-License-Identifier: MIT
"""Which tests of a build are unit tests, and their variants (tests/meson.build)."""
import glob
import os
import re

from lib.builds import ROOT

# The variants of a suite that run with further options: the first of these that it has. One that has none of them is
# about an option of its own.
VARIANTS = (("-rseq", "-trylock"), ("-rseq-stats", "-trylock-stats"), ("",), ("-1-node",))
# The beginnings of other tests' names.
NOT_UNITS = ("storm-", "walk-", "sim-", "header-", "words-", "maps-")


def _variants(suite, there):
    """The tests of a suite that run with further options, of all that there are."""
    found = ([suite + ending for ending in endings if suite + ending in there] for endings in VARIANTS)
    return next(filter(None, found), [])


def sources():
    """The sources of each suite of unit tests, and of the storm."""
    found = {"storm": [os.path.join(ROOT, "tests/storm/storm.c")]}
    for folder in "api", "internal":
        for path in glob.glob(os.path.join(ROOT, "tests", folder, "*.c")):
            found[os.path.basename(path)[:-2]] = [path]
        for path in glob.glob(os.path.join(ROOT, "tests", folder, "*/main.c")):
            found[os.path.basename(os.path.dirname(path))] = glob.glob(f"{os.path.dirname(path)}/*.c")
    return found


def of_units(there, without=(), only=None):
    """The tests of every suite of unit tests, and of the storm, that run with further options; of these suites."""
    return [name for unit in sorted(only or sources()) if unit not in without for name in _variants(unit, there)]


def without_rseq(chosen):
    """These tests without those of the backend rseq that run with the other one, too: emulators and valgrind have no
    rseq, so both are the same there."""
    others = {name: re.sub("-rseq(-mm-cid)?", "-trylock", name) for name in chosen}
    return [name for name in chosen if others[name] == name or others[name] not in others]
