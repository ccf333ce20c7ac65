# SPDX-License-Identifier: MIT
"""`sheaf detect`: run a program for each class of bugs under each tool, and show which of them noticed it.

A tool detects a bug if it writes something that it does not write about right use (the case right-use), or if
it protects pages and the program dies of SIGSEGV or SIGBUS at the very access that is wrong. A crash of
another tool's program is luck, and does not count. "At once": before the wrong call or access was done. The
culprit is named if the report names the functions that allocated or freed the object, or, at once, the
calls that led to the misuse.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sheaf_tool.errors import Failure

from . import detection, machine, paths
from .detectors import Detector, detectors, find_library, known_options
from .progress import Progress

TIMEOUT = 300  # seconds; ends a program that hangs. Under valgrind, on a busy machine, one takes half a minute
RIGHT_USE = "right-use"
NOT_HERE = 77
FAULTS = {-signal.SIGSEGV, -signal.SIGBUS}
MARK = "detect: "

EPILOG = """\
examples:
  sheaf detect                         the whole table, in about two minutes
  sheaf detect --class double-free     one bug under every tool
  sheaf detect --row FZPU --row asan   all bugs under some tools, by the headings of their columns
  sheaf detect --class uaf-write --row FZPU --show    and what the tool says
  sheaf detect --json >detect.json     results as JSON, a line for each row
  sheaf detect --list                  the classes, who can see each, and their sources

bench/detect/classes has the classes, bench/detect/cases their programs. Tools that are not
installed are left out; the command names their packages. With the JSON in bench/results,
scripts/update-numbers rewrites docs/detection.md.
"""


def _plain(line: str) -> str:
    """A line without what differs between runs."""
    return re.sub(r"0x[0-9a-f]+|[0-9a-f]{6,}|\d+", "N", line).strip()


def run_case(detector: Detector, directory: Path, name: str) -> tuple[str, int | None]:
    """Its output, with both streams in order, and its exit status; None if it did not end."""
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("LD_PRELOAD", "SHEAF_OPTIONS")}
    environment.update(detector.environment)
    if detector.options:
        environment["SHEAF_OPTIONS"] = detector.options
    program = [str(directory / f"detect-{detector.program}"), name]
    if detector.library:
        program = ["env", f"LD_PRELOAD={find_library(detector.library)}", *program]
    try:
        result = subprocess.run([*detector.command, *program], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT,
                                check=False)
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace"), None
    return result.stdout.decode(errors="replace"), result.returncode


@dataclass
class Found:
    bug: str
    row: str
    detected: str  # at once, later, no, none (there is no such bug with this interface)
    culprit: bool = False
    how: str = ""  # the first line of the evidence


def _reports(lines: list[str], usual: set[str]) -> list[str]:
    return [line for line in lines
            if line.strip() and not line.startswith(MARK) and _plain(line) not in usual]


def judge(detector: Detector, name: str, text: str, status: int | None, usual: set[str]) -> Found:
    row = detector.code
    if status == NOT_HERE:
        return Found(name, row, detection.NONE)
    lines = text.splitlines()
    if MARK + "misuse" not in lines:
        return Found(name, row, detection.NO, how=f"ended before the misuse: {status}")
    lines = lines[lines.index(MARK + "misuse") + 1:]
    done = lines.index(MARK + "done") if MARK + "done" in lines else len(lines)
    now, later = _reports(lines[:done], usual), _reports(lines[done:], usual)
    if detector.ours:  # what the C library says is not our work
        now, later = (part if any(line.startswith("libsheaf: ") for line in part) else []
                      for part in (now, later))
    if now or later:
        said = "\n".join(now + later)
        whose = r"made_here|freed_here|\bmain\b" if now else r"made_here|freed_here"
        telling = next((line for line in now + later if re.search(r"[a-z]{4}", line)), said)
        return Found(name, row, detection.NOW if now else detection.LATER,
                     bool(re.search(whose, said)), telling.strip()[:100])
    if detector.guards and status in FAULTS and done == len(lines):
        return Found(name, row, detection.NOW, how="fault at the access")
    ended = {None: "does not end", 0: ""}.get(status, f"crash: {status}")
    return Found(name, row, detection.NO, how=ended)


def _one(detector: Detector, directory: Path, names: list[str]) -> tuple[list[Found], dict[str, str]]:
    """All cases of one row, and what the tool said."""
    text, status = run_case(detector, directory, RIGHT_USE)
    if status:
        raise Failure(f"{detector.name}: the program of right use ends with {status}:\n{text[-2000:]}")
    usual = {_plain(line) for line in text.splitlines()}
    false = _reports(text.splitlines(), set()) if detector.ours else []
    if any(line.startswith("libsheaf: BUG") for line in false):
        raise Failure(f"{detector.name}: reports right use:\n{text[-2000:]}")
    found, said = [], {}
    for name in names:
        text, status = run_case(detector, directory, name)
        found.append(judge(detector, name, text, status, usual))
        said[name] = text
    return found, said


def measure(directory: Path, rows: list[Detector], names: list[str]) -> tuple[list[Found], dict[Any, str]]:
    results: dict[str, list[Found]] = {}
    said = {}
    with Progress(len(rows)) as progress, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        progress.start("detect")
        running = {pool.submit(_one, row, directory, names): row for row in rows}
        for done in as_completed(running):
            row = running[done]
            results[row.code], texts = done.result()
            said.update({(row.code, name): text for name, text in texts.items()})
            progress.finish()
            progress.start(row.name)
    return [one for row in rows for one in results[row.code]], said


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "detect", help="which tool finds which bug", epilog=EPILOG,
        description="Run a program for each class of bugs, on libsheaf and under other tools. Show which\n"
        "tools notice the bug, when, and whether they name who did it.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the classes of bugs and exit")
    parser.add_argument("--class", dest="bug", metavar="NAME", action="append",
                        help="only this class; can be repeated")
    parser.add_argument("--row", metavar="CODE", action="append",
                        help="only the tool whose column has this heading; can be repeated")
    parser.add_argument("--show", action="store_true", help="also print the output of the tools")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--build", metavar="DIR",
                        help="the build directory of the programs (default: build)")
    parser.set_defaults(run=lambda arguments: run(parser, arguments))


def _chosen(wanted: list[str] | None, there: list[str], what: str,
            parser: argparse.ArgumentParser) -> list[str]:
    for name in wanted or []:
        if name not in there:
            parser.error(f"no {what} {name}; there are {', '.join(there)}")
    return [name for name in there if not wanted or name in wanted]


def _list() -> None:
    for bug in detection.bugs():
        print(f"{bug.name:20} {bug.seen_by:7} {bug.what}\n{'':28} {bug.source}")


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if arguments.list:
        _list()
        return 0
    directory = paths.worker_directory(arguments.build) / "detect"
    if not (directory / "detect-sheaf").exists():
        raise Failure(f"no detect-sheaf in {directory}: build with Meson's option -Dbench=true")
    rows = [row for row in detectors(known_options(directory / "detect-sheaf"))
            if (directory / f"detect-{row.program}").exists()]
    missing = {row.name: needed for row in rows if (needed := row.needed())}
    rows = [row for row in rows if row.name not in missing]
    codes = _chosen(arguments.row, [row.code for row in rows], "row", parser)
    names = _chosen(arguments.bug, [bug.name for bug in detection.bugs()], "class", parser)
    rows = [row for row in rows if row.code in codes]
    found, said = measure(directory, rows, names)
    command = " ".join(["sheaf", "detect", *(f"--class {name}" for name in arguments.bug or []),
                        *(f"--row {code}" for code in arguments.row or [])])
    about = {**machine.describe(paths.worker_directory(arguments.build)), "command": command,
             "missing": missing}
    about.pop("options", None)
    document = detection.Detection(about, [
        {"code": row.code, "name": row.name, "options": row.options, "ours": row.ours} for row in rows],
        [asdict(one) for one in found])
    if arguments.json:
        print(document.text())
        return 0
    if arguments.show:
        for (code, name), text in said.items():
            print(f"--- {name}, {code}\n{text}")
    print(detection.page(document))
    for name, needed in missing.items():
        print(f"{name} is missing: {needed}", file=sys.stderr)
    return 0
