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


@stage("lto", "gcc -O3 -flto: tests of the common calls, and the storm")
def lto(tally):
    # Each program contains the library, compiled anew: all of them take more than 20 minutes.
    directory, chosen = "build/deep/lto", ("cache", "fork", "group", "kmalloc", "nolock", "prefill", "rcu", "sheaves", "stats", "storm")
    programs = ["tests/storm" if name == "storm" else f"tests/unit-{name}" for name in chosen]
    if built(tally, directory, "gcc", [*LIBRARY, "-Db_lto=true"], targets=programs):
        test(tally, directory, *of_units(set(names(directory)), only=chosen))


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
