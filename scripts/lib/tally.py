# SPDX-License-Identifier: MIT
"""What the check scripts share: run a command, build, run a build's tests, count the verdicts."""
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, name, verdict, output=""):
        word = {"OK": "ok", "SKIP": "skip"}.get(verdict, "FAIL")
        print(f"{word:5} {name}", flush=True)
        if word == "FAIL":
            self.failed += 1
            sys.stdout.write(output[-6000:])
        elif word == "skip":
            self.skipped += 1
        else:
            self.passed += 1

    def close(self):
        """Print the closing line; the exit status."""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0


def run(command, **kwargs):
    return subprocess.run(command, **{"cwd": ROOT, "text": True, "errors": "replace",
                                      "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
                                      "check": False, **kwargs})


def build(tally, directory, compiler, options):
    env = dict(os.environ, CC=compiler, CXX={"gcc": "g++", "clang": "clang++"}[compiler])
    path = os.path.join(ROOT, directory)
    log = ""
    if not os.path.exists(os.path.join(path, "build.ninja")):
        result = run(["meson", "setup", path, "-Dtests=enabled", "-Dwerror=true", *options], env=env)
        log = result.stdout
        if result.returncode:
            tally.add(f"{directory}: setup", "FAIL", log)
            return False
    result = run(["ninja", "-C", path])
    tally.add(f"{directory}: build with {compiler}", "FAIL" if result.returncode else "OK",
              log + result.stdout)
    return result.returncode == 0


def test(tally, directory, *arguments, env=None):
    """Run a build's tests; further arguments choose among them, as for meson test."""
    path = os.path.join(ROOT, directory)
    # With a wrapper, meson adds that one's name to the report's.
    reports = os.path.join(glob.escape(path), "meson-logs", "testlog*.json")
    for old in glob.glob(reports):
        os.remove(old)
    result = run(["meson", "test", "-C", path, "--no-rebuild", "--print-errorlogs", *arguments],
                 env=dict(os.environ, **(env or {})))
    report = glob.glob(reports)
    if not report:
        tally.add(f"{directory}: tests", "FAIL", result.stdout)
        return
    with open(report[0], encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            tally.add(f"{directory}: {entry['name']}", entry["result"],
                      entry.get("stdout", "") + entry.get("stderr", ""))
