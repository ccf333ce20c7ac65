# SPDX-License-Identifier: MIT
"""Stages: long storms, in release and debug builds. Those with a seed run with three."""
import os

from lib import fast
from lib.builds import ROOT
from lib.stage import RUNS, built, program, seeds, stage

STORMS = {
    "rseq": "backend=rseq",
    "trylock": "backend=trylock",
    "rseq-2-nodes": "backend=rseq;numa=fake=2",
    "trylock-2-nodes": "backend=trylock;numa=fake=2",
    "hardened": "hardened;init_on_alloc=1;init_on_free=1",
}
FLAVOURS = "memb", "mb", "qsbr", "bp"


def _objects(tally, tests):
    """storms: threads that pass objects to each other; signal handlers that allocate."""
    for variant, options in STORMS.items():
        env = {"SHEAF_OPTIONS": options}
        for seed in seeds():
            program(tally, f"storm {variant} --seed {seed}",
                    [f"{tests}/storm", "--rounds", str(tally.times(200_000)), "--seed", str(seed)], env, "rounds")
            program(tally, f"storm {variant}, the profile is switched, --seed {seed}",
                    [f"{tests}/storm", "--rounds", str(tally.times(50_000)), "--profile", "3", "--seed", str(seed)], env, "rounds")
        for number in range(RUNS):  # it has no seed: the timer's signals are the chance
            program(tally, f"handlers {variant}, run {number + 1}", [f"{tests}/unit-nolock", str(tally.times(80_000))], env,
                    "handlers ran")


def _calls(tally, tests):
    """storms: calls that fail, and callbacks that fork."""
    for seed in seeds():
        for variant, options in STORMS.items():
            program(tally, f"callbacks that fork {variant} --seed {seed}",
                    [f"{tests}/storm-callbacks", "--rounds", str(tally.times(30_000)), "--refuse", "2", "--seed", str(seed)],
                    {"SHEAF_OPTIONS": f"{options};numa=fake=4"}, "signals")
        program(tally, f"refused system calls --seed {seed}",
                [f"{tests}/storm-refused", "--rounds", str(tally.times(30_000)), "--seed", str(seed)], wanted=" 0 failed")


def _readers(tally, tests):
    """storms: readers of grace periods and of the maple tree."""
    trees = os.path.join(os.path.dirname(tests), "subprojects/maple/tests/tree")
    rounds = [(f"kfree_rcu under readers of {flavour}", f"{tests}/urcu/storm-rcu-{flavour}", "--entries", 500_000, "0 faults")
              for flavour in FLAVOURS]
    rounds += [(name, f"{trees}/{name}", "--stores", 1_000_000, "0 faults") for name in ("maple-storm", "maple-storm-one-lock")]
    for what, path, option, times, wanted in rounds:
        if not os.path.exists(path):
            tally.add(what, "SKIP", "there is no liburcu for it here")
            continue
        for number in range(RUNS):
            program(tally, f"{what}, run {number + 1}", [path, option, str(tally.times(times))], wanted=wanted)
    if os.path.exists(f"{tests}/urcu/flat"):
        program(tally, "memory stays flat under kfree_rcu", [f"{tests}/urcu/flat", str(tally.times(5_000_000))], wanted="rounds")


def _forks(tally, tests):
    """storms: forks beside threads that use stdio and libsheaf-malloc."""
    build = os.path.dirname(tests)
    for variant in "rseq", "trylock":
        program(tally, f"forks {variant}", [f"{build}/malloc/tests/malloc-fork_stdio", str(tally.times(50_000))],
                {"SHEAF_OPTIONS": f"backend={variant}", "LD_PRELOAD": f"{build}/malloc/libsheaf-malloc.so.0"}, "forks")


KINDS = {"storm-objects": _objects, "storm-calls": _calls, "storm-readers": _readers, "storm-forks": _forks}


def storm(builds, function):
    def run_it(tally):
        if built(tally, *builds):
            function(tally, os.path.join(ROOT, builds[0], "tests"))
    return run_it


for kind, builds in ("release", fast.RELEASE), ("debug", fast.DEBUG):
    for name, function in KINDS.items():
        stage(f"{name}-{kind}", f"{function.__doc__.rstrip('.')}; {kind} build")(storm(builds, function))
