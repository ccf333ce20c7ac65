# SPDX-License-Identifier: MIT
"""Stages: everything tried in turn: each refusal, each short schedule, and inputs like those of the fuzz targets."""
import os

from lib import fast
from lib.builds import ROOT
from lib.stage import built, program, seeds, stage

FUZZ = {"api": 5000}  # inputs that take more time: each has a process


def refusals(backend):
    def function(tally):
        if built(tally, *fast.RELEASE):
            program(tally, f"refusals --backend {backend}",
                    [os.path.join(ROOT, fast.RELEASE[0], "tests/refusals"), "--backend", backend], wanted="points")
    return function


for name in "rseq", "trylock":
    stage(f"refusals-{name}", f"every point of every call that may be refused, {name} backend")(refusals(name))


@stage("schedules", "every schedule of small programs, with more preemptions")
def schedules(tally):
    if built(tally, *fast.RELEASE):
        program(tally, "sim-schedules --deep", [os.path.join(ROOT, fast.RELEASE[0], "tests/sim/sim-schedules"), "--deep"],
                wanted="schedules")


@stage("fuzz-inputs", "inputs made from the corpus of each fuzz target, debug build; longer sessions are below")
def fuzz(tally):
    if not built(tally, *fast.DEBUG):
        return
    folder = os.path.join(ROOT, fast.DEBUG[0], "tests/fuzz")
    for target in sorted(os.listdir(os.path.join(ROOT, "tests/fuzz/corpus"))):
        for seed in seeds():
            program(tally, f"fuzz-{target} --seed {seed}",
                    [f"{folder}/fuzz-{target}", "--runs", str(tally.times(FUZZ.get(target, 30_000))), "--seed", str(seed),
                     f"tests/fuzz/corpus/{target}"], wanted="inputs")


@stage("fuzz-tools", "what the `sheaf` command reads, changed at random")
def fuzz_tools(tally):
    if built(tally, *fast.RELEASE):
        for seed in seeds():
            program(tally, f"tests/fuzz/tools.py --seed {seed}",
                    ["tests/fuzz/tools.py", "--runs", str(tally.times(300)), "--seed", str(seed)],
                    {"SHEAF_LIVE": os.path.join(ROOT, fast.RELEASE[0], "tools/live"), "PYTHONDONTWRITEBYTECODE": "1"})
