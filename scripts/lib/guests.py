# SPDX-License-Identifier: MIT
"""The emulated machines of check-deep, and the tests that run on each."""
import json
import os
import platform

from lib.builds import ROOT, run
from lib.guest import Machine, test

# Node 0 and 1 have CPUs and memory, 2 has no memory, 3 no CPUs. Node 1 is nearest to node 2.
NODES = {0: ("0-9", 256), 1: ("10-19", 256), 2: ("20-31", 0), 3: ("", 256)}
DISTANCES = {(0, 1): 21, (0, 2): 31, (0, 3): 17, (1, 2): 15, (1, 3): 25, (2, 3): 35}
# One host thread emulates all CPUs in turn: cheap, and threads are preempted anywhere.
ACCELERATOR = ("-accel", "tcg,thread=single")
ON_BOTH = ("cache", "numa", "kmalloc", "kmalloc-helpers", "prefill", "rcu", "nolock", "sheaves", "fork", "registration", "section")
NUMA_TESTS = [f"{name}-{backend}" for name in ON_BOTH for backend in ("rseq", "trylock")] + \
    ["topology", "page-1-node", "slab-1-node", "counters-rseq-stats", "stats-rseq-stats"]
ARM_TESTS = ["section-rseq", "section-rseq-mm-cid", "walk-cpu-id", "walk-mm-cid", "cache-rseq", "cache-rseq-mm-cid",
             "cache-rseq-2-nodes", "cache-rseq-mm-cid-stats", "kmalloc-rseq", "rcu-rseq", "rcu-rseq-mm-cid", "prefill-rseq",
             "nolock-rseq", "sheaves-rseq", "fork-rseq", "registration-rseq", "counters-rseq-stats", "stats-rseq-stats",
             "trim-rseq", "secret-rseq", "guard-trylock-guarded"]
STORMS = ["storm-rseq", "storm-trylock"]
SECONDS = 1800  # end a test that hangs, and a machine:
ALL_SECONDS = 7200


def commands(directory, chosen, arguments=()):
    """The name, time, variables and command of these tests of a build."""
    known = {each["name"]: each for each in json.loads(run(["meson", "introspect", "--tests", directory]).stdout)}
    return [(name, SECONDS, known[name]["env"], [*known[name]["cmd"], *arguments]) for name in chosen]


def numa_options():
    """Qemu's for these nodes; their memory is all that there is."""
    options = ["-m", f"{sum(size for _, size in NODES.values())}M", "-smp", "32"]
    for node, (cpus, size) in NODES.items():
        if size:
            options += ["-object", f"memory-backend-ram,id=m{node},size={size}M"]
        options += ["-numa", f"node,nodeid={node}" + (f",cpus={cpus}" if cpus else "") + (f",memdev=m{node}" if size else "")]
    for (src, dst), distance in DISTANCES.items():
        options += ["-numa", f"dist,src={src},dst={dst},val={distance}"]
    return options


def numa(tally, directory, storm_rounds):
    """32 CPUs and four nodes, one without memory and one without CPUs."""
    libraries = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"]
    machine = Machine("amd64", "qemu-system-x86_64", ["-cpu", "max", *ACCELERATOR], libraries)
    obstacle = machine.obstacle() if platform.machine() == "x86_64" else "this machine builds for another processor"
    if obstacle:
        tally.add("guest with four nodes", "SKIP", obstacle)
        return
    tests = commands(directory, NUMA_TESTS) + commands(directory, STORMS, ["--rounds", str(storm_rounds)])
    tests += [(f"cpus-{backend}", SECONDS, {"SHEAF_OPTIONS": f"backend={backend}"},
               [os.path.join(ROOT, directory, "tests/guest-cpus")]) for backend in ("rseq", "trylock")]
    init = os.path.join(ROOT, directory, "tests/guest-init")
    test(tally, machine, "four nodes", init, tests, ALL_SECONDS, numa_options(), "console=ttyS0 rdinit=/init")


def aarch64(tally, directory, libraries, storm_rounds):
    """AArch64, where rseq exists only on a whole machine."""
    libraries = ["/usr/aarch64-linux-gnu/lib", f"{libraries}/usr/lib/aarch64-linux-gnu"]
    machine = Machine("arm64", "qemu-system-aarch64", ["-M", "virt", "-cpu", "neoverse-n1", *ACCELERATOR], libraries,
                      "aarch64-linux-gnu-objdump")
    if obstacle := machine.obstacle():
        tally.add("guest of AArch64", "SKIP", obstacle)
        return
    tests = commands(directory, ARM_TESTS) + commands(directory, STORMS, ["--rounds", str(storm_rounds)])
    init = os.path.join(ROOT, directory, "tests/guest-init")
    test(tally, machine, "AArch64", init, tests, ALL_SECONDS, ["-m", "1G", "-smp", "4"], "console=ttyAMA0 rdinit=/init")
