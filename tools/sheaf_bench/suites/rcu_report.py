# SPDX-License-Identifier: MIT
"""The results of suite `rcu`: its tables, its pictures, and their arithmetic."""
from __future__ import annotations

from typing import Any

from sheaf_tool.stats import median
from sheaf_tool.table import stacked

from ..allocators import HARNESS, OURS
from ..document import Document
from ..svg import COLOURS, Bar, Line, LinePanel, Panel, figure, line_figure
from .cells import NOTHING, cell, intervals, less, notes as failed_and_missing, ratio_cell, samples
from .suite import Table

CPU, CALLER, RATE, PENDING = "cpu", "caller", "rate", "pending"  # results; also the program's words
REUSE, RESIDENT = "reuse", "resident"
NS = "ns"
BYTES = 64  # of an object
WIDE = "wide"  # the barn's room
CONFIGS = (("memb", 1), ("memb", 2), ("qsbr", 1), ("qsbr", 2))
NAMES = {"kfree_rcu": "kfree_rcu", "cache": "cache_free_rcu", "call_rcu": "call_rcu",
         "batch": "array", "immediate": "at once"}

Params = dict[str, Any]


def label(params: Params) -> str:
    if params["allocator"] == HARNESS:
        return HARNESS
    barn = f" {WIDE}" if "barn" in params else ""
    return f"{params['allocator']} {NAMES[params['way']]}{barn}"


def entries(document: Document, name: str) -> list[Params]:
    """The ways to retire with each allocator, in the order of measurement."""
    found: list[Params] = []
    for result in document.results:
        entry = {key: result.params.get(key) for key in ("allocator", "way", "barn")}
        if result.name == name and entry not in found:
            found.append(entry)
    return found


def _said(entry: Params) -> Params:
    return {key: value for key, value in entry.items() if value is not None}


def raw(document: Document, name: str, entry: Params, config: tuple[str, int]) -> list[float]:
    """The samples of exactly this entry: one with the default barn has no param for it."""
    wanted = {**_said(entry), "flavour": config[0], "writers": config[1]}
    for result in document.results:
        if result.name == name and result.params == wanted:
            return result.samples
    return []


def net(document: Document, name: str, entry: Params, config: tuple[str, int]) -> list[float]:
    """Without the time of the loop that uses no allocator and retires nothing."""
    empty = raw(document, name, {"allocator": HARNESS, "way": "immediate"}, config)
    return less(raw(document, name, entry, config), empty)


HEADER = ["", *(f"{flavour}\n{writers} writer{'s' * (writers > 1)}" for flavour, writers in CONFIGS)]


def net_rows(document: Document, name: str) -> list[list[str]]:
    rows = []
    for entry in entries(document, name):
        found = raw if entry["allocator"] == HARNESS else net
        rows.append([label(_said(entry)),
                     *(cell(found(document, name, entry, config)) for config in CONFIGS)])
    return rows


def rate_rows(document: Document) -> list[list[str]]:
    return [[label(_said(entry)), *(cell(raw(document, RATE, entry, config)) for config in CONFIGS)]
            for entry in entries(document, RATE)]


def ratio_rows(document: Document, ours: Params) -> list[list[str]]:
    """The CPU time of each of the others over ours."""
    rows = []
    for entry in entries(document, CPU):
        if entry["way"] in ("call_rcu", "batch"):
            rows.append([label(_said(entry)),
                         *(ratio_cell(net(document, CPU, entry, config),
                                      net(document, CPU, ours, config)) for config in CONFIGS)])
    return rows


PACED_HEADER = ["", "from retiring to reuse,\nms, 99th percentile", "waiting at most,\nKiB",
                "waiting at most,\nKiB, flat out"]


def paced_rows(document: Document) -> list[list[str]]:
    rows = []
    for entry in entries(document, REUSE):
        said = _said(entry)
        reuse = [one / 1e6 for one in samples(document, REUSE, **said)]
        paced = samples(document, PENDING, **said, rate=document.machine["rate"])
        rows.append([label(said), cell(reuse), cell(paced),
                     cell(raw(document, PENDING, entry, CONFIGS[0]))])
    return rows


def strand_line(document: Document, entry: Params) -> list[tuple[float, float]]:
    """Millions of rounds and MiB."""
    said = _said(entry)
    rounds = document.machine["strand"] / 1e6
    return sorted((result.params["at"] * rounds, median(result.samples).value)
                  for result in document.results
                  if result.name == RESIDENT and said.items() <= result.params.items())


STRAND_AT = (0.25, 0.5, 0.75, 1.0)


def strand_header(document: Document) -> list[str]:
    rounds = document.machine["strand"] / 1e6
    return ["", *(f"{at * rounds:g} million" for at in STRAND_AT)]


def strand_rows(document: Document) -> list[list[str]]:
    rows = []
    for entry in entries(document, RESIDENT):
        found = [samples(document, RESIDENT, **_said(entry), at=at) for at in STRAND_AT]
        rows.append([label(_said(entry)),
                     *(stacked(median(one)) if one else NOTHING for one in found)])
    return rows


LESS = "less the harness's own (last line: the harness)"


def tables(document: Document) -> list[Table]:
    kfree = {"allocator": OURS, "way": "kfree_rcu"}
    wide = {**kfree, "barn": WIDE}
    over = "CPU time of the others over that of {}; above 1 sheaf is cheaper"
    return [
        (f"CPU ns per object retired and allocated again, writers and worker,\n{LESS}\n"
         + intervals(document, CPU), HEADER, net_rows(document, CPU)),
        (f"the caller's share of that: writers alone, {LESS}",
         HEADER, net_rows(document, CALLER)),
        (over.format(label(kfree)), HEADER, ratio_rows(document, kfree)),
        (over.format(label(wide)), HEADER, ratio_rows(document, wide)),
        ("millions of objects per second, without the time in barriers",
         HEADER, rate_rows(document)),
        (f"{document.machine['rate'] / 1e6:g} million objects per second, memb, one writer\n"
         + intervals(document, REUSE), PACED_HEADER, paced_rows(document)),
        ("allocated on one CPU, retired on another: MiB the process has grown by, after rounds\n"
         + intervals(document, RESIDENT), strand_header(document), strand_rows(document))]


def notes(document: Document) -> list[str]:
    objects = document.machine["round"] * document.machine["rounds"]
    return [f"A sample of CPU time covers {objects:,} objects of {BYTES} bytes for each writer, "
            "after as many that are not measured, with a barrier every "
            f"{document.machine['round']:,}. One reader walks the objects, checks them, and "
            "sleeps 50 µs; its CPU time is not counted.",
            "array: call_rcu of an array of 64 pointers, freed in the callback. at once: no "
            f"grace period; useless to a program, but a lower bound. {WIDE}: sheaf, with a barn "
            "that has room for all waiting objects.",
            "Counters cover the measured part only.", *failed_and_missing(document)]


def _kind(entry: Params) -> str:
    if entry["allocator"] == HARNESS:
        return "harness"
    if entry["allocator"] != OURS:
        return "peer"
    return "ours" if entry["way"] in ("kfree_rcu", "cache") else "variant"


def _bars(document: Document, config: tuple[str, int]) -> list[Bar]:
    bars = []
    for entry in entries(document, CPU):
        found = net(document, CPU, entry, config)
        if found and entry["allocator"] != HARNESS:
            short = label(_said(entry)).replace("cache_free_rcu", "free_rcu")
            bars.append(Bar(short, median(found), _kind(entry)))
    return bars


def _strand_picture(document: Document) -> str:
    lines = []
    for i, entry in enumerate(entries(document, RESIDENT)):
        kind = "ours" if _kind(entry) == "ours" else f"l{i % COLOURS}"
        lines.append(Line(label(_said(entry)), strand_line(document, entry), kind, []))
    return line_figure("resident size over rounds", [LinePanel("stranding", 0, 0, lines)],
                       ("million rounds", "MiB"),
                       ["Resident size while one CPU allocates and another retires."])


def pictures(document: Document) -> list[str]:
    panels = [Panel(f"{flavour}, {writers} writer{'s' * (writers > 1)}", i % 2, i // 2,
                    _bars(document, (flavour, writers)))
              for i, (flavour, writers) in enumerate(CONFIGS)]
    return [figure("CPU ns per object retired and allocated again", panels, "ns",
                   ["CPU ns per object, writers and worker, less the harness; shorter is better. "
                    "array: call_rcu of 64 pointers. at once: no grace period."]),
            _strand_picture(document)]
