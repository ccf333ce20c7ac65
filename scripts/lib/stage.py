# SPDX-License-Identifier: MIT
"""Stages of check-deep: how one is declared (@stage), what it calls, and how it is run.

A stage is a function in lib/stages/ that gets a Recorder. It reports each test by tally.add(), directly or through
build(), suite() and program(), and raises Skipped if this machine cannot run it. It should take at most ten minutes on
two CPUs; whether it is slow is recorded and is no failure. A stage that depends on chance runs its program once for
each of seeds(): three runs.
"""
import contextlib
import os
import resource
import shutil
import signal
import time
import traceback
from dataclasses import dataclass
from typing import Callable

from lib import children, records
from lib.builds import ROOT, build, names, run, test
from lib.tally import Tally

HOURS = 2  # after which a stage that hangs is ended
RUNS = 3
# Builds of stages: without benchmarks, and tests of the tools, which are Python.
RELEASE = ["--buildtype=release", "-Ddebug=true", "-Dtools=false"]
LIBRARY = [*RELEASE, "-Dsim=false"]
DEBUG = ["--buildtype=debug", "-Dtools=false", "-Dsim=false"]

STAGES = {}  # in the order in which they run


class Skipped(Exception):
    """This machine cannot run the stage: why."""


class Unfinished(Exception):
    """The stage hangs."""


@dataclass(frozen=True)
class Stage:
    name: str
    about: str
    function: Callable


def stage(name, about):
    """A decorator that makes the function a stage."""
    def declare(function):
        STAGES[name] = Stage(name, about, function)
        return function
    return declare


def parts(name, count, about):
    """A decorator that makes the function `count` stages. It is called with each one's part of a list: a function."""
    def declare(function):
        for number in range(count):
            def one(tally, number=number):
                function(tally, lambda chosen: chosen[number::count])
            stage(f"{name}-{number + 1}", f"{about}, part {number + 1} of {count}")(one)
        return function
    return declare


class Recorder(Tally):
    """Keeps what was added."""

    def __init__(self, short=False, base=None):
        super().__init__()
        self.short, self.base = short, base
        self.results = []

    def add(self, name, verdict, output="", seconds=None):
        super().add(name, verdict, output, seconds)
        self.results.append((name, {"OK": records.PASSED, "SKIP": records.SKIPPED}.get(verdict, records.FAILED), output, seconds))

    def times(self, number):
        """How often something is repeated: a tenth of it for --short."""
        return max(number // 10, 1) if self.short else number


def seeds():
    """One for each run, from the time."""
    base = int(time.time())
    return range(base, base + RUNS)


def program(tally, what, command, env=None, wanted=""):
    """Run one program that must succeed and print the wanted text."""
    begin = time.monotonic()
    with tally.running(what):
        result = run(command, env=dict(os.environ, **(env or {})))
    fine = result.returncode == 0 and wanted in result.stdout
    last = (result.stdout.rstrip().splitlines() or [""])[-1]
    tally.add(f"{what}: {last}" if fine else what, "OK" if fine else "FAIL",
              f"{result.stdout}\nexit status {result.returncode}\n", time.monotonic() - begin)


def need(*tools):
    if missing := [tool for tool in tools if not shutil.which(tool)]:
        raise Skipped(f"there is no {missing[0]} here")


def built(tally, directory, compiler, options, **targets):
    """Build this; True on success. The lack of a compiler skips the stage."""
    need(compiler)
    return build(tally, directory, compiler, options, **targets)


def suite(tally, directory, compiler, options, env=None, leave_out=(), part=lambda chosen: chosen):
    """Build, and run a part of the build's tests."""
    if built(tally, directory, compiler, options):
        test(tally, directory, *part(names(directory, leave_out)), env=env)


@contextlib.contextmanager
def _deadline(seconds):
    def end(*_):
        children.kill()
        raise Unfinished

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def execute(tally, chosen):
    """Run a stage, end all that it started, and return its run as it is recorded."""
    begin, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    tally.results, verdict = [], None
    try:
        with _deadline(3600 * HOURS):
            chosen.function(tally)
    except Skipped as reason:
        verdict = records.SKIPPED
        tally.add(chosen.name, "SKIP", str(reason))
    except Unfinished:
        verdict = records.UNFINISHED
        tally.add(chosen.name, "FAIL", f"it did not end within {HOURS} hours\n")
    except Exception:  # a mistake in the stage itself
        tally.add(chosen.name, "FAIL", traceback.format_exc())
    finally:
        children.kill()
        children.reap()
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    had = {how for _, how, _, _ in tally.results}
    verdict = verdict or next((each for each in (records.FAILED, records.PASSED) if each in had), records.SKIPPED)
    return records.summary(tally.results, verdict, time.monotonic() - begin,
                           now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)
