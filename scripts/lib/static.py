# SPDX-License-Identifier: MIT
"""The checks of sources and documents, which need no build."""
import os

from lib.builds import ROOT, SKIP, run

STATIC = ["check-docs", "check-format", "check-invariants", "check-layers", "check-lists", "check-man",
          "check-readme", "check-spdx", "update-numbers --check", "update-verification --check"]


def static(tally):
    for name in STATIC:
        with tally.running(name):
            script, *arguments = name.split()
            result = run([os.path.join(ROOT, "scripts", script), *arguments])
        tally.add(name, {0: "OK", SKIP: "SKIP"}.get(result.returncode, "FAIL"), result.stdout)
