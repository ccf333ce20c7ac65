#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether every structure of the maple benchmark finds the same ranges, and its readers what is there.

Usage: test_sums.py PROGRAM...
"""
import subprocess
import sys

ONLY = "build,load,iterate,gap,varied,dup,pair,adjacent"
SIZES = ("2", "60", "1500")


def lines(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{program} {' '.join(arguments)}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout.splitlines()


def main():
    found = {}
    faults = 0
    for program in sys.argv[1:]:
        for ranges in SIZES:
            for line in lines(program, "--ranges", ranges, "--only", ONLY):
                if not line.startswith("sum "):
                    continue
                _, workload, total = line.split()
                first, expected = found.setdefault((ranges, workload), (program, total))
                if total != expected:
                    print(f"{workload}, {ranges} ranges: {program} and {first} differ")
                    faults += 1
        if program.endswith(("-sheaf", "-rbtree")):
            lock = "none" if program.endswith("-sheaf") else "mutex"
            lines(program, "--only", "readers", "--readers", "3", "--window", "50", "--lock", lock)
    return 1 if faults or not found else 0


if __name__ == "__main__":
    sys.exit(main())
