#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The fast path's price: no locked instruction, no thread-local variable, few instructions.

Usage: test_count.py BATCH-SHEAF BATCH-HARNESS MOST [SHEAF_OPTIONS]

A pair that stays within a sheaf may execute MOST instructions beyond the loop (0: any number, for
builds without optimisation). Skipped (77) where nothing can be stepped, or there is no rseq.
"""
from __future__ import annotations

import os
import subprocess
import sys

SHORT, LONG, BATCH = 20, 60, 10
SECTIONS = 4  # accesses to the rseq area that two sections make at least
SKIP = 77


def count(worker: str, pairs: int) -> dict[str, int]:
    result = subprocess.run([worker, "--count", "--batch", str(BATCH), "--pairs", str(pairs)],
                            capture_output=True, text=True, check=False, timeout=100)
    if result.returncode:
        print(result.stderr.strip() or f"{worker}: exit status {result.returncode}")
        refused = "x86-64 only" in result.stderr or "ptrace" in result.stderr
        sys.exit(SKIP if refused else 1)
    words = result.stdout.split()
    return dict(zip(words[::2], map(int, words[1::2])))


def per_pair(worker: str) -> dict[str, float]:
    """Runs of two lengths: their difference leaves out what happens once in a run."""
    short, long = count(worker, SHORT), count(worker, LONG)
    return {key: (long[key] - short[key]) / (LONG - SHORT) for key in short if key != "pairs"}


def main(sheaf: str, harness: str, most: int, options: str = "") -> int:
    os.environ["SHEAF_OPTIONS"] = options
    ours, loop = per_pair(sheaf), per_pair(harness)
    beyond = ours["instructions"] - loop["instructions"]
    print(f"a pair: {beyond:.1f} instructions beyond the loop, {ours['locked']:.2f} locked, "
          f"{ours['rseq']:.2f} accesses to the rseq area, {ours['tls']:.2f} other thread-local")
    if ours["rseq"] < SECTIONS:
        print("no rseq here: the trylock backend ran")
        return SKIP
    if ours["locked"] or ours["tls"]:
        print("the fast path must execute no locked instruction and use no thread-local variable")
        return 1
    if most and beyond > most:
        print(f"more than {most} instructions")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
