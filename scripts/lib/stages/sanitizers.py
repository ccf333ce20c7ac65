# SPDX-License-Identifier: MIT
"""Stages: the tests under gcc's sanitizers."""
from lib.stage import parts, suite

SANITIZER = ["--buildtype=debugoptimized", "-Dtools=false", "-Db_lundef=false"]
# gcc warns that this sanitizer ignores fences: it sees less order than there is.
TSAN = "build/deep/tsan", "gcc", ["-Db_sanitize=thread", "-Dc_args=-Wno-tsan", *SANITIZER]


@parts("asan", 3, "gcc, address and undefined-behaviour sanitizers")
def asan(tally, part):
    suite(tally, "build/deep/asan", "gcc", ["-Db_sanitize=address,undefined", *SANITIZER],
          {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
          part=part)


@parts("tsan", 3, "gcc, thread sanitizer, trylock backend")
def tsan(tally, part):
    suite(tally, *TSAN, part=part)
