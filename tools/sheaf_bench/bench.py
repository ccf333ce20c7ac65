# SPDX-License-Identifier: MIT
"""`sheaf bench`: run suites, print their tables, write their JSON and the report."""
from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from sheaf_tool.errors import Failure
from sheaf_tool.table import folded

from . import against, compare, counters, machine, page, paths
from .allocators import ready
from .document import Document, read
from .suites import SUITES
from .suites.suite import Settings, Suite

ALL = "all"
COUNT = "count"  # of exact numbers: there is nothing to interleave

EPILOG = """\
examples:
  sheaf bench --list               list the suites
  sheaf bench batch --quick        a first result in less than a minute
  sheaf bench batch                more repetitions, so narrower intervals
  sheaf bench batch --repeat 30    even narrower intervals
  sheaf bench count                instructions instead of time: exact even on a busy machine
  sheaf bench real --row threads --row sqlite    a part of a long suite; the other rows stay
  sheaf bench all --json >all.json all suites, results as JSON
  sheaf bench all --html all.html  one page with all tables and pictures, to share
  sheaf bench batch --against ../old/build    before and after a change, in one run

Each suite prints tables, and writes SUITE.json and index.html (pictures with error bars) to the
output directory. That index.html shows the latest results of every suite; the page of --html shows
only this run. Both pages are self-contained. `sheaf compare` compares two SUITE.json files. For
allocators that are not installed, the suites print how to install them.

Rows named sheaf have the common calls in place, as optimised executables do. batch, bulk, kmalloc
and cross also have sheaf-static and sheaf-shared, which make the call; batch, bulk and kmalloc have
some peers linked statically (NAME-static). The line about the machine says what an indirect branch
costs there.

exit code with --against: 3 if something became slower, as with `sheaf compare`
"""


def _repetitions(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_repetitions.__name__ = "number of repetitions"  # argparse says "invalid ... value"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "bench", help="measure libsheaf against other allocators", epilog=EPILOG,
        description="Measure libsheaf and every other installed allocator in one interleaved run.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", choices=[*SUITES, ALL], metavar="SUITE",
                        help="a suite from --list, or all")
    parser.add_argument("--list", action="store_true", help="list the suites and exit")
    parser.add_argument("--quick", action="store_true",
                        help="fewer repetitions: under a minute each")
    parser.add_argument("--repeat", type=_repetitions, metavar="N",
                        help="repeat every measurement N times (six give a 95 %% interval)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--html", nargs="?", const="", metavar="FILE",
                        help="write one page about this run's suites (default: index.html in the "
                        "output directory)")
    parser.add_argument("--output", metavar="DIR",
                        help="write the report there (default: build/report)")
    parser.add_argument("--build", metavar="DIR",
                        help="the build directory of the benchmark programs (default: build)")
    parser.add_argument("--against", metavar="DIR",
                        help="measure libsheaf alone, interleaved with the programs of this other "
                        "build directory, and print the ratios; writes no report")
    parser.add_argument("--row", action="append", default=[], metavar="NAME", dest="rows",
                        help="of suite real: measure this program or kind only (may be repeated); the "
                        "other rows keep the results in the report's directory")
    parser.set_defaults(run=lambda arguments: run(parser, arguments))


def _command(name: str, arguments: argparse.Namespace) -> str:
    words = ["sheaf", "bench", name]
    if arguments.quick:
        words.append("--quick")
    if arguments.repeat:
        words += ["--repeat", str(arguments.repeat)]
    if arguments.against:
        words += ["--against", arguments.against]
    for row in arguments.rows:
        words += ["--row", row]
    return shlex.join(words)


def _print(documents: list[Document], arguments: argparse.Namespace) -> None:
    if arguments.json:
        shown = [document.text() for document in documents]
        print("[" + ",\n".join(shown) + "]" if arguments.suite == ALL else shown[0])
        return
    for document in documents:
        shown = ([against.text(document)] if arguments.against else
                 [SUITES[document.suite].text(document), counters.text(document)])
        print(f"{document.suite}: {SUITES[document.suite].summary}\n\n{folded([machine.line(document.machine)])}\n")
        print("\n\n".join(filter(None, shown)) + "\n")


def _measure(suite: Suite, settings: Settings, described: dict[str, Any]) -> Document:
    document = suite.run(settings, described)
    works = suite.works(described, settings.quick)
    if works:
        counters.add(document, settings, ready(suite.name, settings.workers, suite.others)[0], works)
    return document


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if arguments.list:
        for suite in SUITES.values():
            print(f"{suite.name:10} {suite.summary}")
        print(f"{ALL:10} every suite")
        return 0
    if not arguments.suite:
        parser.error("which suite? `sheaf bench --list` lists them")
    if arguments.against and (arguments.html is not None or arguments.suite == COUNT):
        parser.error("--against prints ratios of times: it writes no page, and counts nothing")
    if arguments.rows and arguments.suite != "real":
        parser.error("--row is for suite real")
    other = paths.worker_directory(arguments.against) if arguments.against else None
    output = paths.report_directory(arguments.output)
    earlier = output / "real.json"
    settings = Settings(paths.worker_directory(arguments.build), arguments.quick, arguments.repeat, other,
                        tuple(arguments.rows),
                        read(earlier) if arguments.rows and earlier.exists() and not other else None)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{output}: {error.strerror}") from error
    if arguments.html and (Path(arguments.html).is_dir()
                           or not Path(arguments.html).resolve().parent.is_dir()):
        raise Failure(f"--html {arguments.html}: it is a directory, or its directory does not exist")
    documents = []
    everything = [name for name in SUITES if not arguments.against or name != COUNT]
    for name in everything if arguments.suite == ALL else [arguments.suite]:
        described = {**machine.describe(settings.workers), "command": _command(name, arguments)}
        if other:
            described["sheaf before"] = machine.way(other)
        documents.append(_measure(SUITES[name], settings, described))
        if not arguments.against:
            documents[-1].write(output / f"{name}.json")
    _print(documents, arguments)
    if arguments.against:
        worse = any(compare.count(against.pairs(document), compare.REGRESSION) for document in documents)
        return compare.REGRESSED if worse else 0
    if arguments.html is None:
        written = page.write_all(output, documents)
    else:
        written = Path(arguments.html or output / "index.html")
        page.write(written, documents)
    print(f"report: {written}", file=sys.stderr if arguments.json else sys.stdout)
    return 0
