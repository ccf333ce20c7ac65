# SPDX-License-Identifier: MIT
"""What the stages of check-deep have done: a file for each stage in verification/.

A file has the last run of its stage on a clean tree ("last") and, while that one has not passed, the run that passed
before it ("passed_before"). A tree is named by a hash of all its files except the records and the page made from
them, so a commit of records changes no name.
"""
import datetime
import hashlib
import json
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from lib.builds import ROOT, run

FOLDER = Path(ROOT, "verification")
PAGE = "docs/verification.md"
LINES = 20  # of what a failure printed
PASSED, FAILED, SKIPPED, UNFINISHED = "passed", "failed", "skipped", "unfinished"


@dataclass(frozen=True)
class Tree:
    """A tree that is committed: its name, and the commit that had it when this was asked."""
    name: str
    commit: str
    committed: str


def _git(*arguments):
    result = run(["git", "-c", "safe.directory=*", *arguments])
    return result.stdout if result.returncode == 0 else None


def _is_record(path):
    return path.startswith(f"{FOLDER.name}/") or path == PAGE


def tree():
    """The tree as it is now, or why it has no name."""
    changed = _git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all") if os.path.exists(os.path.join(ROOT, ".git")) else None
    if changed is None:
        return None, "these sources are not a git repository"
    if changed := [line[3:] for line in changed.split("\0") if line and not _is_record(line[3:])]:
        return None, f"{changed[0]} and perhaps others are not committed"
    files = [line for line in _git("ls-tree", "-r", "-z", "HEAD").split("\0") if line and not _is_record(line.split("\t")[1])]
    commit, committed = _git("log", "-1", "--format=%h %cI").split()
    return Tree(hashlib.sha256("\0".join(files).encode()).hexdigest()[:16], commit, committed), None


def _version(compiler):
    try:
        return re.search(r"\d+\.\d+\.\d+", run([compiler, "--version"]).stdout)[0]
    except (OSError, TypeError):
        return None


def machine():
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*: (.*)", cpus, re.M)
    return {"cpu": model[1] if model else platform.machine(), "cpus": len(os.sched_getaffinity(0)),
            "kernel": platform.release(), "system": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
            "gcc": _version("gcc"), "clang": _version("clang")}


def _ran(results):
    """What ran: a line for each build's tests with their number, and each program's own line."""
    lines, tests = [], {}
    for name, verdict, _, _ in results:
        folder, test, _ = name.partition(": ")
        if not test or not folder.startswith("build/"):
            lines += [name] if verdict == PASSED else []
        elif not test.startswith("build with") and verdict == PASSED:
            tests[folder] = tests.get(folder, 0) + 1
    return [f"{folder}: {number} tests" for folder, number in tests.items()] + lines


def _said(output):
    """The last lines of a failed test, without the command, and without where this clone is."""
    lines = output.replace(f"{ROOT}/", "").rstrip().splitlines()
    return [line for line in lines if not line.startswith(">>> ")][-LINES:]


def summary(results, verdict, seconds, cpu_seconds):
    """A run as it is recorded. results: name, verdict, output and seconds of each test."""
    skips = {}
    for name, how, output, _ in results:
        if how == SKIPPED:
            skips.setdefault(output.strip() or "it gives no reason", []).append(name)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "verdict": verdict, "seconds": round(seconds), "cpu_seconds": round(cpu_seconds),
        **{each: sum(how == each for _, how, _, _ in results) for each in (PASSED, FAILED, SKIPPED)},
        "ran": _ran(results), "skips": skips,
        "failures": {name: _said(output) for name, how, output, _ in results if how == FAILED},
        "machine": machine()}


def read(stage):
    """The record of a stage, {} if there is none."""
    path = FOLDER / f"{stage}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(stage, of, ran):
    """Record a run on this tree."""
    before = read(stage)
    last = {"tree": of.name, "commit": of.commit, "committed": of.committed, **ran}
    passed = before.get("last") if before.get("last", {}).get("verdict") == PASSED else before.get("passed_before")
    record = {"last": last} | ({"passed_before": passed} if passed and ran["verdict"] != PASSED else {})
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{stage}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def verdict_on(stage, of):
    """The verdict of a stage's last run if it ran on this tree, or None."""
    last = read(stage).get("last", {})
    return last.get("verdict") if of and last.get("tree") == of.name else None
