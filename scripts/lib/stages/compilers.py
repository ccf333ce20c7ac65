# SPDX-License-Identifier: MIT
"""Stages: the library by other compilers, or with other options of the build.

The simulator, and what tests compile themselves, are the same in each build.
"""
from lib.stage import LIBRARY, built, parts, stage, suite
from lib.builds import names, test
from lib.units import of_units


@parts("clang", 2, "clang, release")
def clang(tally, part):
    # Valgrind cannot read this compiler's debug data.
    suite(tally, "build/deep/clang", "clang", LIBRARY, {"TSAN_ROUNDS": "10000"}, ("watched-memcheck",), part)


@parts("lto", 2, "gcc -O3 -flto")
def lto(tally, part):
    suite(tally, "build/deep/lto", "gcc", [*LIBRARY, "-Db_lto=true"], part=part)


@stage("tiny", "unit tests and the storm in a build with -Dslub_tiny=true, both backends")
def tiny(tally):
    directory = "build/deep/tiny"
    if built(tally, directory, "gcc", ["--buildtype=release", "-Dslub_tiny=true", "-Dsim=false", "-Dtools=false"]):
        without = {"topology": "it expects reports about sheaves",
                   **dict.fromkeys(("container", "pressure"), "no free memory waits")}
        for unit, reason in without.items():
            tally.add(unit, "SKIP", reason)
        test(tally, directory, *of_units(set(names(directory)), without))


@stage("gdb", "the commands for gdb on an optimised library with debug data")
def gdb(tally):
    suite(tally, "build/deep/gcc", "gcc", LIBRARY, part=lambda there: [name for name in there if name.startswith("gdb-")])
