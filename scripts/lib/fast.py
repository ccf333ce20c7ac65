# SPDX-License-Identifier: MIT
"""The builds of `make check` and their tests. No test depends on the load of the machine."""
import shutil
from concurrent.futures import ThreadPoolExecutor

from lib.builds import build, test

# What users get, with everything that can be built.
RELEASE = ("build/gcc-release", "gcc", ["--buildtype=release", "-Dbench=true", "-Dexamples=true"])
# With assertions; without what is the same in any build: the simulator has assertions and -O2 of its own
# in each, tests that compile do not use this library's build, the tools are Python, and a benchmark that is
# not optimised is none. The library is optimised a little: its tests take half the time.
DEBUG = ("build/clang-debug", "clang", ["--buildtype=debug", "-Doptimization=1", "-Dsim=false", "-Dtools=false"])


def build_both(tally):
    for each in RELEASE, DEBUG:
        build(tally, *each)


def build_and_test(tally):
    """While the tests of the first build run, the second is built, which alone runs the suite `options`."""
    without = ["--no-suite", "options"] if shutil.which(DEBUG[1]) else []
    with ThreadPoolExecutor() as pool:
        jobs = []
        if build(tally, *RELEASE):
            jobs.append(pool.submit(test, tally, RELEASE[0], *without))
        if build(tally, *DEBUG):
            jobs.append(pool.submit(test, tally, DEBUG[0]))
        for job in jobs:
            job.result()
