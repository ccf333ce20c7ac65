# SPDX-License-Identifier: MIT
"""The points from which the page about `sheaf sim scale` is made, the page, and curves of any points."""
from __future__ import annotations

from sheaf_tool.table import number, render

from . import sim_check, sim_growth, sim_seeds
from .document import Document
from .logchart import Curve, LogPanel, log_panels
from .sim_point import RATE, Point
from .svg import COLOURS, sheet

MACHINE = sim_seeds.EPYC
CPUS = 2, 8, 32, 96, 384
WORKLOADS = "batch-100", "cross-near"
ALLOCATORS = "sheaf", "ideal", "no-sheaf", "cpu-slab"
ACROSS = 2  # panels of a picture
WINDOWS = 12  # at most: rates that are not steady by then, such as those behind one lock, never will be


def points() -> list[Point]:
    """Every point of the documents, once."""
    wanted = [Point(MACHINE, workload, allocator, cpus)
              for workload in WORKLOADS for cpus in CPUS for allocator in ALLOCATORS]
    wanted += sim_check.points() + sim_seeds.points() + sim_growth.points()
    known = {(point.machine, point.workload, point.allocator, point.cpus, point.per_cpu): point for point in wanted}
    return list(known.values())


def _kind(allocator: str, others: list[str]) -> str:
    return "ours" if allocator == "sheaf" else f"l{others.index(allocator) % COLOURS}"


def curves(model: Document) -> str:
    """A picture: rates by CPUs, a panel for each workload and machine that has several points of ours, or of any."""
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    others = [name for name in model.allocators() if name != "sheaf"]
    for result in model.results:
        params = result.params
        if result.unit == RATE and result.samples[0] > 0 and params["tasks"] == params["cpus"]:
            lines = found.setdefault((params["workload"], params["machine"]), {})
            lines.setdefault(params["allocator"], []).append((params["cpus"], result.samples[0]))
    with_ours = {where: lines for where, lines in found.items() if len(lines.get("sheaf", [])) > 1}
    panels: list[LogPanel] = []
    for (workload, machine), lines in (with_ours or found).items():
        drawn = [Curve(name, sorted(at), _kind(name, others)) for name, at in lines.items() if len(at) > 1]
        if drawn:
            panels.append(LogPanel(f"{workload} on {machine}", len(panels) % ACROSS, len(panels) // ACROSS, drawn))
    return sheet("Rates by number of CPUs", log_panels(panels, ("CPUs", "million a second")),
                 ["Million operations a second on invented CPUs; both axes are logarithmic."])


def _curve_table(model: Document, workload: str) -> str:
    rows = []
    for cpus in CPUS:
        for name in ALLOCATORS:
            found = sim_growth.row(model, name, workload, cpus)
            if found:
                rows.append([str(cpus), name, found.said(), f"{found.lines:.3f}", f"{found.locks:.1f}",
                             number(found.memory)])
    return render(["CPUs", "allocator", "Mops/s", "lines/op", "% in locks", "MiB"], rows)


def text(model: Document, before: Document) -> str:
    """The page's tables."""
    parts = [f"The model beside measurements, 2 CPUs\n\n{sim_check.text(sim_check.cells(model))}",
             sim_seeds.text(model)]
    parts += [f"{workload} on {MACHINE}; ~: not steady yet\n\n{_curve_table(model, workload)}" for workload in WORKLOADS]
    parts.append(sim_growth.text(model, before))
    return "\n\n".join(parts)


UNFIT = """\
## Where it does not fit, and what may be the cause

The causes were not tested.

- **Two threads of one core** share the first-level cache and the buffers of stores. The model takes each line from the other thread for
  a fixed time; atomic changes and chains of loads come out wrong.
- **Batches of 1000 on both CPUs**: `cpu-slab` is in one of two modes in its repetitions, and the model in the slower one: slabs that both
  CPUs use.
- **32 threads**: time slices are shorter in the model than on Linux, so threads that hold a lock are preempted more often, and what
  takes a lock for each object comes out too slow.
- **Without sheaves on many CPUs**, nearly all CPUs sleep in line for one lock. A rate of 0.00 means that nothing was freed in the
  window; other rates of this kind are rough.
- **Sheaves against three tiers**: three tiers hardly meet in the model. On the real machine they did meet. So wider sheaves win there,
  and in the model only come closer: the order of the columns is the same, the sign is not.
- **The spare rule** saves exchanges with the barn, and the three tiers below meet at the nodes' lists all the same: in the model most
  of the waiting is there.
- **Requests between neighbours**: the model's queues are even, without bursts, and no design meets its worst case. Between two nodes
  the sheaves as first merged do; today's are level with three tiers there.
"""


def page(model: Document, before: Document) -> str:
    """The whole page."""
    return ("# The model of large machines, beside measurements\n\n"
            "What [`sheaf sim scale`](../../scale/README.md) says, beside what was measured on 2 real CPUs and what the "
            "kernel's documents report of large machines. A point that was not run has no row, or a –.\n\n"
            "- command: `tools/sheaf sim scale --study >scale/results/sim-scale.json`\n"
            "- before: the library at 7630ba1 in the model of its time, made once\n"
            f"- libsheaf: {model.machine['libsheaf']}, seed {model.machine['seed']}\n"
            "- every number: `scale/results/sim-scale.json`, `scale/results/sim-scale-before.json`\n\n"
            "![Rates by number of CPUs](../pictures/measured-scale-model.svg)\n\n"
            f"```text\n{text(model, before)}\n```\n\n{UNFIT}")
