#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the tests in this folder; each one's verdict is told when it ends, in the form of `meson test`.

Usage: run.py BUILD     (the build directory whose programs are run)
"""
from __future__ import annotations

import os
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Told(unittest.TestResult):
    def __init__(self, total: int) -> None:
        super().__init__()
        self.buffer = True
        self.total = total
        self.began = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.began = time.monotonic()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        verdict, said = "OK", ""
        for word, found in (("SKIP", self.skipped), ("FAIL", self.failures), ("ERROR", self.errors)):
            if found and found[-1][0] is test:
                verdict, said = word, found[-1][1].rstrip()
        print(f"{self.testsRun}/{self.total} {test.id()} {verdict} {time.monotonic() - self.began:.2f}s",
              said, sep=" " if verdict == "SKIP" else "\n" if said else "", flush=True)


def main(build: str) -> int:
    directory = Path(build).resolve()
    os.environ.update(SHEAF_BUILD=str(directory), SHEAF_LIVE=str(directory / "tools" / "live"),
                      SHEAF_MAPS_CALLS=str(directory / "tools" / "maps-calls"))
    sys.path.insert(0, str(HERE.parent))
    tests = unittest.defaultTestLoader.discover(str(HERE))
    result = Told(tests.countTestCases())
    tests.run(result)
    for what, said in result.errors:
        if not isinstance(what, unittest.TestCase):  # the beginning or end of a class or file
            print(f"{what}: {said}")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
