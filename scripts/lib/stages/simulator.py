# SPDX-License-Identifier: MIT
"""Stages: the simulator with thousands of seeds, from the time where a program takes a first one."""
import os

from lib import fast
from lib.builds import ROOT
from lib.stage import built, program, seeds, stage

PLACE = os.path.join(ROOT, fast.RELEASE[0])


@stage("sim", "the simulator: conservation from three first seeds; blocks, pools, reclaim and slabs")
def sim(tally):
    if not built(tally, *fast.RELEASE):
        return
    number = tally.times(2000)
    for seed in seeds():
        seed *= 10 * number
        program(tally, f"sim-conservation --seed {seed} --seeds {number}",
                [f"{PLACE}/tests/sim/sim-conservation", "--seed", str(seed), "--seeds", str(number)],
                wanted=f"{number} seeds, 0 failed")
    program(tally, "sim-pauses --all", [f"{PLACE}/tests/sim/sim-pauses", "--all"])
    # Their seeds begin at 1: more of them, and once.
    for name, number in ("blocks", 5000), ("mempool", 20000), ("reclaim", 1500), ("slabs", 20000):
        number = tally.times(number)
        program(tally, f"sim-{name} {number}", [f"{PLACE}/tests/sim/sim-{name}", str(number)], wanted=f"{number} seeds, 0 failed")


@stage("sim-maple", "the maple tree: readers in every short schedule, and against its model")
def sim_maple(tally):
    if not built(tally, *fast.RELEASE):
        return
    folder = f"{PLACE}/subprojects/maple/tests"
    budget, number = tally.times(10_000), tally.times(2000)
    program(tally, f"sim-maple --budget {budget} --seeds {number}",
            [f"{folder}/sim/sim-maple", "--budget", str(budget), "--stores", "2", "--seeds", str(number)],
            wanted=f"{number} seeds, all planted bugs found")
    steps = tally.times(500_000)
    for seed in seeds():
        program(tally, f"maple-property, SEED={seed} STEPS={steps}", [f"{folder}/tree/maple-property"],
                {"SEED": str(seed), "STEPS": str(steps)}, wanted="0 failed")


@stage("sim-scale", "every workload of `sheaf sim scale` on up to 32 CPUs")
def sim_scale(tally):
    if not built(tally, *fast.RELEASE):
        return
    program(tally, "sheaf sim scale, every workload",
            [os.path.join(ROOT, "tools/sheaf"), "sim", "scale", "--quick", "--build", fast.RELEASE[0]],
            wanted="cross-far on epyc-2x96-smt")
