# SPDX-License-Identifier: MIT
"""Stages: the tests under gcc's sanitizers."""
from lib.stage import parts, suite

SANITIZER = ["-Dbench=true", "--buildtype=debugoptimized", "-Db_lundef=false"]


@parts("asan", 3, "gcc, address and undefined-behaviour sanitizers")
def asan(tally, part):
    suite(tally, "build/deep/asan", "gcc", ["-Db_sanitize=address,undefined", *SANITIZER],
          {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
          # Tests of the tools overrun objects of a process, which this sanitizer ends.
          ("fast-path-count", "tools-control", "tools-symbolize"), part)


@parts("tsan", 2, "gcc, thread sanitizer, trylock backend")
def tsan(tally, part):
    # gcc warns that this sanitizer ignores fences: it sees less order than there is.
    suite(tally, "build/deep/tsan", "gcc", ["-Db_sanitize=thread", "-Dc_args=-Wno-tsan", *SANITIZER], None,
          # The sums are of benchmarks in one thread: 90 seconds.
          ("fast-path-count", "tools", "maple-sums"), part)
