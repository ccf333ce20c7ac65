# SPDX-License-Identifier: MIT
"""Stages: AArch64 under qemu, and whole emulated machines."""
from lib import guests
from lib.builds import names
from lib.emulators import ARM, build_aarch64, in_small_ranges
from lib.stage import LIBRARY, built, need, parts, program, stage
from lib.units import NOT_UNITS

# Under this emulator no memory is left out of dumps, no report of a guarded object's fault appears (on a whole machine
# these tests pass: guests.py has them), memory, its limits and locked pages are the emulator's own, too, and samples of
# many objects take half an hour, or need more addresses than these ranges leave. It has no restartable sequences, which
# the last one asks for and which its reports do not expect.
LEAVE_OUT = ("secret-", "core-dumps-", "decay-", "many-caches-", "guard-trylock-guarded", "guard-rseq-guarded", "sample-",
             "profile-rseq", "profile-trylock", "rcu-rseq-mm-cid-stats") + NOT_UNITS
STORMS = ["storm-trylock", "storm-trylock-2-nodes", "storm-pages-16k", "storm-pages-64k"]


@parts("aarch64", 3, "AArch64 cross build, unit tests and a short storm under qemu")
def aarch64(tally, part):
    need("qemu-aarch64-static")
    directory, libraries = build_aarch64(tally)
    if libraries:
        env = {"LD_LIBRARY_PATH": "", "QEMU_SET_ENV": f"LD_LIBRARY_PATH={libraries}/usr/lib/{ARM}"}
        # Each test once: options change little of what depends on the processor.
        in_small_ranges(tally, directory, names(directory, LEAVE_OUT, without="options") + STORMS, part, env=env)


@stage("aarch64-branches", "branches of fast paths on AArch64")
def branches(tally):
    need(f"{ARM}-gcc")
    program(tally, "branches of fast paths on AArch64", ["tests/branches/check-branches", "."], {"CROSS": f"{ARM}-"},
            wanted="single file, LTO: kfree")


@stage("guest-numa", "an emulated machine of 32 CPUs and four nodes, one without memory and one without CPUs")
def guest_numa(tally):
    if built(tally, "build/deep/gcc", "gcc", LIBRARY):
        guests.numa(tally, "build/deep/gcc", tally.times(2000))


@stage("guest-aarch64", "an emulated AArch64 machine; its sections are aborted at each instruction")
def guest_aarch64(tally):
    need("qemu-system-aarch64")
    directory, libraries = build_aarch64(tally)
    if libraries:
        guests.aarch64(tally, directory, libraries, tally.times(2000))
