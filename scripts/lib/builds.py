# SPDX-License-Identifier: MIT
"""Shared by the check scripts: run a command, build, run a build's tests."""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPILERS = {"gcc": "g++", "clang": "clang++"}
SKIP = 77  # the exit status of what cannot be checked here
STEP = re.compile(r"\[(\d+/\d+)\] ")
# What `meson test` prints for a test: number, project, name, verdict, time and, if it failed, how it ended.
# What such a one printed follows.
TESTED = re.compile(r" *\d+/(\d+) (?:\S+ / )?(\S+) +([A-Z]+) +([\d.]+)s *(.*)")
END = re.compile(r"Summary of Failures:|Ok: +\d")


def run(command, **kwargs):
    return subprocess.run(command, **{"cwd": ROOT, "text": True, "errors": "replace",
                                      "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
                                      "check": False, **kwargs})


def start(command, env):
    return subprocess.Popen(command, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env={**os.environ, **env})


@contextlib.contextmanager
def alone(path):
    """Only one process at a time sets up and builds there: stages that run at once share directories."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.lock", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(tally, directory, compiler, options, targets=("all", "meson-test-prereq")):
    """Set up, if necessary, and build, with tests; returns True on success."""
    if not shutil.which(compiler):
        tally.add(f"{directory}: there is no {compiler} here", "SKIP")
        return False
    path = os.path.join(ROOT, directory)
    said = []
    cached = "ccache " if shutil.which("ccache") else ""
    with alone(path), tally.running(f"{directory}: build") as tell:
        # From Meson 1.7 on, "all" leaves out what only tests need.
        commands = [["ninja", "-C", path, *targets]]
        if not os.path.exists(os.path.join(path, "build.ninja")):
            shutil.rmtree(path, ignore_errors=True)  # a setup that was interrupted
            commands.insert(0, ["meson", "setup", path, "-Dtests=enabled", "-Dwerror=true", *options])
        for command in commands:
            with start(command, {"CC": cached + compiler, "CXX": cached + COMPILERS[compiler]}) as process:
                for line in process.stdout:
                    if step := STEP.match(line):
                        tell(step[1])
                    else:
                        said.append(line)
            if process.returncode:
                break
    tally.add(f"{directory}: build with {compiler}", "FAIL" if process.returncode else "OK", "".join(said))
    return process.returncode == 0


def test(tally, directory, *arguments, env=None):
    """Run a build's tests: add each one's verdict when its output is complete. Further arguments select
    tests, as for meson test."""
    command = ["meson", "test", "-C", directory, "--no-rebuild", "--print-errorlogs", *arguments]
    done = total = 0
    failed, said = None, []
    with tally.running(f"{directory}: tests") as tell, start(command, env or {}) as process:
        for line in process.stdout:
            found = TESTED.match(line)
            if not found and not END.match(line):
                said.append(line)
                continue
            if failed:
                tally.add(**failed, output="".join(said))
            failed, said = None, []
            if not found:
                break
            done, total = done + 1, int(found[1])
            tell(f"{done}/{total}")
            verdict = {"name": f"{directory}: {found[2]}", "verdict": found[3], "seconds": float(found[4])}
            if found[3] in ("OK", "SKIP"):
                tally.add(**verdict, output=found[5])
            else:
                failed, said = verdict, [f"{found[3]} {found[5]}\n"]
        said += process.stdout
    if failed:
        tally.add(**failed, output="".join(said))
    if done < max(total, 1):
        tally.add(f"{directory}: tests ended after {done} of {total or 'the'} tests", "FAIL",
                  f"{''.join(said)}exit status {process.returncode}\n")


def names(directory, leave_out=(), without=None):
    """The names of a build's tests; leave_out: beginnings of the names of unwanted tests; without: an unwanted suite."""
    listed = run(["meson", "test", "-C", directory, "--no-rebuild", "--list", *(["--no-suite", without] if without else [])]).stdout
    return [name for name in re.findall(r"^(?:\S+ / )?([\w-]+)$", listed, flags=re.M) if not name.startswith(tuple(leave_out))]
