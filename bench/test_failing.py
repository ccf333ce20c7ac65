#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls that fail cost no more beside many caches or many partial slabs, and hold no lock for longer.

Usage: test_failing.py FAILING-SIM

In steps, so that nothing depends on the machine. A call may make twice as many steps as with one cache
and one slab, and 100 more: lists are longer, and other paths are taken. A search of the list of caches
alone makes one step or more for each.
"""
from __future__ import annotations

import subprocess
import sys

MANY = 10_000
MORE_STEPS = 100
MOST_HELD = 512  # as in tests/sim/holds.c


def measured(program: str, *arguments: str) -> dict[str, tuple[int, int]]:
    """Steps, and those of the longest hold of a lock, by name."""
    result = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=300)
    if result.returncode:
        sys.exit(result.stderr.strip() or f"{program}: exit status {result.returncode}")
    lines = [line.split() for line in result.stdout.splitlines()]
    return {name: (int(steps), int(held)) for name, steps, held in lines}


def main(program: str) -> int:
    failed = 0
    for part in ((), ("--misuse",)):
        alone = measured(program, *part)
        for what in ("caches", "slabs"):
            for name, (steps, held) in measured(program, *part, f"--{what}", str(MANY)).items():
                if steps > 2 * alone[name][0] + MORE_STEPS or held > MOST_HELD:
                    failed += 1
                    print(f"{name} with {MANY} {what}: {steps} steps, with one {alone[name][0]}; a lock is held "
                          f"for {held}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
