# SPDX-License-Identifier: MIT
"""Stages: every suite of unit tests, and the storm, with a further option, on both backends.

Suites without a subject under an option are listed with the reason. Single tests of other suites skip themselves
(tests/kit/needs.h).
"""
import os

from lib import fast
from lib.builds import ROOT, names, test
from lib.stage import built, stage
from lib.units import of_units

SHEAVES = ("sheaves", "spare", "wrong-cache")
OPTIONS = {
    "tiny": ("slub_tiny", "no cache has sheaves",
             dict.fromkeys((*SHEAVES, "idle"), "no cache has sheaves")
             | dict.fromkeys(("container", "pressure"), "no free memory waits")),
    "hardened": ("hardened", "every call is checked", {"wrong-cache": "no wrong pointer enters a sheaf"}),
    "checked": ("slab_debug=FZPU", "every cache is a debug cache",
                dict.fromkeys((*SHEAVES, "tune"), "no cache has sheaves") | {"sample": "it has letters of its own"}),
    "sampled": ("slab_debug=S;slab_sample=1", "every object is a sample",
                dict.fromkeys(SHEAVES, "no object enters a sheaf") | {
                    "sample": "it is about fewer samples", "profile": "its samples have a mean",
                    "profile-switch": "its samples have a mean", "held-locks": "locks of slabs are held",
                    "limit": "limits do not count guarded objects",
                    "tera": "there are not so many guarded objects"}),
}


def with_option(options, without):
    def function(tally):
        directory = fast.RELEASE[0]
        if built(tally, *fast.RELEASE):
            for unit, reason in without.items():
                tally.add(f"{unit} with {options}", "SKIP", reason)
            wrapper = os.path.join(ROOT, "tests/deep/with-options")
            test(tally, directory, "--wrapper", f"{wrapper} '{options}'", *of_units(set(names(directory)), without))
    return function


for short, (text, what, left_out) in OPTIONS.items():
    stage(f"options-{short}", f"unit tests and the storm with {text}: {what}")(with_option(text, left_out))
