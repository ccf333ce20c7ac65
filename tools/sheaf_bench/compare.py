# SPDX-License-Identifier: MIT
"""`sheaf compare`: the differences in speed between two files of results.

A result is marked only where the 95 % intervals of its two medians do not overlap. The two files
come from different runs, so their samples are not paired: each interval is separate.
"""
from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from sheaf_tool.errors import Failure
from sheaf_tool.stats import Estimate, has_interval, median
from sheaf_tool.table import WIDTH, number, one_line, plural, render

from .document import Document, Result, read

REGRESSED = 3  # exit code
REGRESSION, IMPROVEMENT, SAME = "regression", "improvement", "same"
TOO_FEW, UNKNOWN = "too few samples", "unknown unit"
MARKS = {REGRESSION: "(R)", IMPROVEMENT: "(I)", TOO_FEW: "?", UNKNOWN: "?"}
COUNTED = {"instructions", "locked", "rseq", "tls", "steps"}  # by stepping: one sample is exact
SIMULATED = "sim-scale"  # a suite whose samples are all exact
LOWER_IS_BETTER = COUNTED | {"lines", "ns", "faults", "us", "ms", "s", "bytes", "KiB", "MiB"}
OF_MACHINE = ("cpu", "cpus", "kernel", "libc", "backend", "options", "sheaf")

EPILOG = """\
(R) marks a regression from A to B, (I) an improvement: the 95 % intervals of the two medians do not
overlap. ? marks a result that cannot be judged. For times, instructions and bytes, lower is better;
for rates (.../s), higher is better.

exit code:
  0  no regression
  1  a file cannot be read, or the two cannot be compared
  2  wrong usage
  3  at least one regression

examples:
  sheaf bench batch --json >before.json
  sheaf compare before.json after.json
  sheaf compare --threshold 3 --allocator sheaf before.json after.json || echo slower
"""


@dataclass(frozen=True)
class Pair:
    """One quantity in both files."""

    name: str
    params: dict[str, Any]
    unit: str
    before: Estimate
    after: Estimate
    verdict: str
    paired: Estimate | None = None  # the ratio, where the samples of both are of the same repetitions

    def ratio(self) -> float | None:
        """None if the value before was 0."""
        return self.after.value / self.before.value if self.before.value else None


@dataclass(frozen=True)
class Comparison:
    suite: str
    pairs: list[Pair]
    only: tuple[list[Result], list[Result]]  # in the first file, in the second
    machines: list[str]  # a line for each way in which they differ


def higher_is_better(unit: str) -> bool | None:
    """None if unknown."""
    if unit.endswith("/s"):
        return True
    return False if unit.split("/")[0] in LOWER_IS_BETTER else None


def verdict_of(unit: str, before: list[float], after: list[float], threshold: float = 0.0,
               simulated: bool = False) -> str:
    """Compare two series of samples; a change below the threshold (in percent) does not count."""
    higher = higher_is_better(unit)
    if higher is None:
        return UNKNOWN
    exact = simulated or unit.split("/")[0] in COUNTED
    if not exact and not (has_interval(len(before)) and has_interval(len(after))):
        return TOO_FEW
    a, b = median(before), median(after)
    if a.low <= b.high and b.low <= a.high:
        return SAME
    if 100 * abs(b.value - a.value) < threshold * abs(a.value):
        return SAME
    return IMPROVEMENT if (b.value > a.value) == higher else REGRESSION


def _said(params: dict[str, Any]) -> str:
    return " ".join(f"{key}={_value(value)}" for key, value in params.items())


def _value(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else one_line(str(value))


def _machines(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    return [f"{key}: {first.get(key, 'not recorded')} / {second.get(key, 'not recorded')}"
            for key in OF_MACHINE if first.get(key) != second.get(key)]


def _by_key(document: Document, path: str, allocators: list[str]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for result in document.results:
        key = json.dumps([result.name, result.unit, result.params], sort_keys=True)
        if key in found:
            raise Failure(f"{path}: contains {one_line(result.name)} twice for {_said(result.params)}")
        if not allocators or result.params.get("allocator") in allocators:
            found[key] = result
    return found


def compare(files: tuple[str, str], threshold: float, allocators: list[str]) -> Comparison:
    first, second = (read(Path(path)) for path in files)
    if first.suite != second.suite:
        raise Failure(f"{files[0]} is of suite {one_line(first.suite)}, {files[1]} of suite {one_line(second.suite)}: "
                      "only results of one suite can be compared")
    before = _by_key(first, files[0], allocators)
    after = _by_key(second, files[1], allocators)
    pairs = []
    for key, a in before.items():
        if key in after:
            b = after[key].samples
            pairs.append(Pair(a.name, a.params, a.unit, median(a.samples), median(b),
                              verdict_of(a.unit, a.samples, b, threshold, first.suite == SIMULATED)))
    if not pairs:
        raise Failure(f"{files[0]} and {files[1]} have no result in common"
                      + (f" for allocator {', '.join(allocators)}" if allocators else ""))
    return Comparison(first.suite, pairs,
                      ([one for key, one in before.items() if key not in after],
                       [one for key, one in after.items() if key not in before]),
                      _machines(first.machine, second.machine))


def _change(pair: Pair) -> list[str]:
    ratio = pair.ratio()
    if ratio is None:
        return ["", ""]
    if pair.paired:
        return [f"{ratio:.2f}", f"{pair.paired.low:.2f}–{pair.paired.high:.2f}"]
    return [f"{ratio:.2f}", f"{100 * (ratio - 1):+.1f} %"]


def _cell(found: Estimate, wide: bool) -> str:
    if found.low == found.high:
        return number(found.value)
    interval = f"[{number(found.low)}–{number(found.high)}]"
    return f"{number(found.value)}{' ' if wide else chr(10)}{interval}"


def _table(pairs: list[Pair]) -> str:
    """The table of one name and unit. A parameter that never changes is printed once, above it."""
    keys = list(dict.fromkeys(key for pair in pairs for key in pair.params))
    fixed = {key: pairs[0].params.get(key) for key in keys
            if len({json.dumps(pair.params.get(key)) for pair in pairs}) == 1}
    columns = [key for key in keys if key not in fixed or key == "allocator"]
    better = {True: "higher is better", False: "lower is better", None: "it is unknown which is better"}
    unit = pairs[0].unit
    title = [f"{pairs[0].name}, {unit} ({better[higher_is_better(unit)]})"]
    said = _said({key: value for key, value in fixed.items() if key not in columns})
    for wide in (True, False):
        more = "interval" if pairs[0].paired else "change"
        heads = ["B / A", more] if wide else [f"B / A\n{more}"]
        rows = [[*(_value(pair.params.get(key, "")) for key in columns),
                 _cell(pair.before, wide), _cell(pair.after, wide),
                 *(_change(pair) if wide else ["\n".join(_change(pair))]),
                 MARKS.get(pair.verdict, "")] for pair in pairs]
        table = render([*columns, "A", "B", *heads, ""], rows)
        if max(map(len, table.splitlines())) <= WIDTH:
            break
    return "\n".join(title + ([said] if said else []) + ["", table])


def tables(pairs: list[Pair]) -> list[str]:
    """One for each name and unit."""
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.name, pair.unit), []).append(pair)
    return [_table(group) for group in groups.values()]


def text(files: tuple[str, str], found: Comparison, threshold: float) -> str:
    parts = [f"{found.suite}: A is {files[0]}, B is {files[1]}\nmedians with their 95 % intervals"]
    if found.machines:
        parts.append("The machines differ, so differences need not come from the library:\n"
                     + "\n".join(f"  {line}" for line in found.machines))
    parts += tables(found.pairs)
    for letter, results in zip("AB", found.only):
        if results:
            parts.append(f"Only in {letter}:\n" + "\n".join(
                f"  {one.name} {_said(one.params)} {one.unit}" for one in results))
    return "\n\n".join([*parts, summary(found.pairs, threshold)])


def count(pairs: list[Pair], verdict: str) -> int:
    return sum(pair.verdict == verdict for pair in pairs)


def summary(pairs: list[Pair], threshold: float = 0.0) -> str:
    """How many pairs have which verdict."""
    lines = [f"{plural(count(pairs, REGRESSION), 'regression')} (R), "
             f"{plural(count(pairs, IMPROVEMENT), 'improvement')} (I), "
             f"{count(pairs, SAME)} without a significant difference"
             + (f" (beyond {threshold:g} %)" if threshold else "")]
    few, unknown = count(pairs, TOO_FEW), count(pairs, UNKNOWN)
    if few:
        lines.append(f"{few} not judged (?): fewer than six samples give no 95 % interval")
    if unknown:
        lines.append(f"{unknown} not judged (?): it is not known whether more of that unit is better")
    return "\n".join(lines)


def as_json(files: tuple[str, str], found: Comparison, threshold: float) -> dict[str, Any]:
    return {"suite": found.suite, "a": files[0], "b": files[1], "threshold": threshold,
            "regressions": count(found.pairs, REGRESSION), "improvements": count(found.pairs, IMPROVEMENT),
            "machines": found.machines,
            "results": [{"name": pair.name, "params": pair.params, "unit": pair.unit,
                         "a": asdict(pair.before), "b": asdict(pair.after),
                         "ratio": pair.ratio(), "verdict": pair.verdict}
                        for pair in found.pairs],
            **{f"only_{letter}": [{"name": one.name, "params": one.params, "unit": one.unit}
                                  for one in results]
               for letter, results in zip("ab", found.only)}}


def _percent(text: str) -> float:
    value = float(text)
    if not isfinite(value) or value < 0:
        raise ValueError
    return value


_percent.__name__ = "percentage"  # argparse says "invalid ... value"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "compare", help="show the differences between two files of results", epilog=EPILOG,
        description="Compare two result files of one suite: show what became slower or faster from A to B.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", metavar="A.json", help="the results before")
    parser.add_argument("b", metavar="B.json", help="the results after")
    parser.add_argument("--threshold", type=_percent, default=0.0, metavar="PCT",
                        help="do not mark changes below PCT percent")
    parser.add_argument("--allocator", action="append", default=[], metavar="NAME",
                        help="compare only this allocator's results (can be repeated)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    files = (arguments.a, arguments.b)
    found = compare(files, arguments.threshold, arguments.allocator)
    if arguments.json:
        print(json.dumps(as_json(files, found, arguments.threshold), indent=1))
    else:
        print(text(files, found, arguments.threshold))
    return REGRESSED if count(found.pairs, REGRESSION) else 0
