# SPDX-License-Identifier: MIT
"""Stages: tests that could depend on time, next to 16 busy loops. Three runs: one a stage."""
import os
import re
import subprocess

from lib import fast
from lib.builds import ROOT, names, test
from lib.stage import built, stage
from lib.units import of_units, sources

LOOPS = 16
AT_ONCE = 4  # tests: each waits for the others, too
# What has threads, other processes or clocks.
TIMED = re.compile(r"\b(?:pthread_create|fork|poll|\w*sleep|clock_gettime|setitimer|sched_yield|alarm)\(|kit/clock\.h")
# Other tests with these.
BEGINNINGS = ("background-", "storm-rseq", "storm-trylock", "storm-callbacks-", "storm-rcu-", "storm-refused", "urcu-", "maple-storm",
              "gdb-", "maps-killed", "maps-record", "tools-control", "tools-info", "tools-record_maps", "tools-run", "tools-stat",
              "tools-top", "tools-trim")
# Variants that add no thread, wait or clock to those of a backend.
ENDINGS = ("-mm-cid", "-stats", "-2-nodes")


def _timed(there):
    timed = {unit for unit, paths in sources().items() if any(TIMED.search(_text(path)) for path in paths)}
    chosen = [name for unit in timed for name in of_units(set(there), only=(unit,))]
    return sorted({*chosen, *(name for name in there if name.startswith(BEGINNINGS) and not name.endswith(ENDINGS))})


def _text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def next_to_loops(builds):
    def function(tally):
        if not built(tally, *builds):
            return
        chosen = _timed(names(builds[0]))
        loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(LOOPS)]
        try:
            test(tally, builds[0], "--num-processes", str(AT_ONCE), *chosen)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
    return function


for number, builds in enumerate((fast.RELEASE, fast.DEBUG, fast.RELEASE), 1):
    stage(f"busy-{number}", f"what has threads, processes or clocks next to {LOOPS} busy loops, run {number}, "
          f"{os.path.basename(builds[0])}")(next_to_loops(builds))
