# SPDX-License-Identifier: MIT
"""Stages: what `make check` does."""
import shutil

from lib import fast
from lib.stage import built, parts, stage
from lib.builds import names, test
from lib.static import static as static_checks


@stage("static", "the checks of sources and documents")
def static(tally):
    static_checks(tally)


@parts("release", 2, "the tests of `make check` in its release build, gcc")
def release(tally, part):
    if built(tally, *fast.RELEASE):
        test(tally, fast.RELEASE[0], *part(names(fast.RELEASE[0], without="options" if shutil.which(fast.DEBUG[1]) else None)))


@parts("debug", 2, "the tests of `make check` in its debug build, clang, where the library asserts")
def debug(tally, part):
    if built(tally, *fast.DEBUG):
        test(tally, fast.DEBUG[0], *part(names(fast.DEBUG[0])))
