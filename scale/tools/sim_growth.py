# SPDX-License-Identifier: MIT
"""How the library grows with CPUs in the model: before and after the work on that, beside what a machine allows.

The results of before were made once, with the library of an older commit (scale/results/sim-scale-before.json).
"""
from __future__ import annotations

from dataclasses import dataclass

from sheaf_tool.table import number, render

from .document import Document
from .sim_point import LINES, LOCKS, MEMORY, MOST, RATE, SPEED, STEADY, Point

OURS, IDEAL = "sheaf", "ideal"
MACHINE = "epyc-2x96-smt"
CPUS = 2, 8, 32, 96, 384
OWN = "batch-10", "batch-100", "batch-1000", "batch-1000-late", "exec"
CROSS = "cross-near", "cross-far", "ublk", "ublk-far", "all-to-all", "fork", "fork-wait"
WORKLOADS = OWN + ("burst", "node-out") + CROSS + ("mmap2",)
OWN_MACHINES = {"epyc-2x96-smt": 384, "granite-rapids-2s": 344, "snc3-6node": 384, "sapphire-rapids-2s": 192,
                "graviton3-64": 64, "ryzen-5700": 16, "memoryless-node": 16, "this-2cpu": 2}
HOTPLUG, HOTPLUG_CPUS = "hotplug-2node", 16
CROWDED, CROWD = ("batch-100", "cross-near", "cross-far", "all-to-all", "mmap2"), 4
CROWDED_CPUS = 2, 8, 32
# The goals.
LINEAR, OF_IDEAL, MOST_LINES, MOST_LOCKS, NO_LINES = 0.95, 0.8, 1.35, 5.0, 0.005


def points() -> list[Point]:
    """What the model has to run."""
    made = [Point(MACHINE, workload, name, cpus) for workload in WORKLOADS for cpus in CPUS for name in (OURS, IDEAL)]
    made += [Point(machine, "batch-100", OURS, cpus) for machine, most in OWN_MACHINES.items() for cpus in (1, most)]
    made += [Point(machine, "cross-far", name, most) for machine, most in OWN_MACHINES.items()
             for name in (OURS, IDEAL)]
    made += [Point(HOTPLUG, workload, name, HOTPLUG_CPUS) for workload in ("batch-100", "cross-near", "cross-far", "mmap2")
             for name in (OURS, IDEAL)]
    made += [Point(MACHINE, workload, name, cpus, CROWD) for workload in CROWDED for cpus in CROWDED_CPUS
             for name in (OURS, IDEAL)]
    return made


@dataclass(frozen=True)
class Row:
    """One allocator's numbers at one point."""

    rate: float
    lines: float
    locks: float
    memory: float
    most: float
    speed: float
    steady: float

    def said(self) -> str:
        """The rate; ~: it was not steady yet."""
        return number(self.rate) + ("" if self.steady else "~")


def row(model: Document, allocator: str, workload: str, cpus: int, machine: str = MACHINE,
        per_cpu: int = 1) -> Row | None:
    params = {"allocator": allocator, "machine": machine, "workload": workload, "cpus": cpus, "tasks": cpus * per_cpu}
    found = {result.unit: result.samples[0] for result in model.results if result.params == params}
    return Row(*(found[unit] for unit in (RATE, LINES, LOCKS, MEMORY, MOST, SPEED, STEADY))) if found else None


def _of_ideal(ours: Row, ideal: Row | None) -> str:
    return f"{ours.rate / ideal.rate:.2f}" if ideal and ideal.rate else ""


def _two(before: Row | None, after: Row, what: str, form: str = "{:.2f}") -> str:
    was = form.format(getattr(before, what)) if before else "–"
    return f"{was} → {form.format(getattr(after, what))}"


def _growth(model: Document, before: Document, workload: str) -> str:
    rows = []
    for cpus in CPUS:
        was, now = row(before, OURS, workload, cpus), row(model, OURS, workload, cpus)
        ideal = row(model, IDEAL, workload, cpus)
        if not now:
            continue
        rows.append([str(cpus), f"{was.said() if was else '–'} → {now.said()}", ideal.said() if ideal else "", _of_ideal(now, ideal), _two(was, now, "lines"),
                     _two(was, now, "locks", "{:.1f}"), f"{number(was.most) if was else '–'} → {number(now.most)}",
                     number(now.memory)])
    return render(["CPUs", "Mops/s", "ideal", "of ideal", "lines/op", "% in locks", "MiB at most", "at end"], rows)


def _own(model: Document) -> str:
    """Batches of 100 on every machine."""
    rows = []
    for machine, most in OWN_MACHINES.items():
        one, all_of = row(model, OURS, "batch-100", 1, machine), row(model, OURS, "batch-100", most, machine)
        if one and all_of:
            rows.append([machine, str(most), one.said(), all_of.said(),
                         f"{all_of.rate / one.rate / all_of.speed:.2f}", f"{all_of.lines:.3f}",
                         f"{all_of.locks:.1f}", number(all_of.memory)])
    return render(["machine", "CPUs", "one: Mops/s", "all: Mops/s", "of linear", "lines/op", "% in locks", "MiB"], rows)


def _beside_ideal(model: Document, cells: list[tuple[str, str, int, int]]) -> str:
    rows = []
    for machine, workload, cpus, per_cpu in cells:
        ours, ideal = row(model, OURS, workload, cpus, machine, per_cpu), row(model, IDEAL, workload, cpus, machine, per_cpu)
        if ours:
            rows.append([machine, workload, str(cpus), str(cpus * per_cpu), ours.said(), _of_ideal(ours, ideal),
                         f"{ours.lines:.2f}", f"{ours.locks:.1f}", number(ours.memory)])
    return render(["machine", "workload", "CPUs", "tasks", "Mops/s", "of ideal", "lines/op", "% in locks", "MiB"], rows)


def _missed(model: Document, workload: str, cpus: int, machine: str = MACHINE, per_cpu: int = 1) -> list[str]:
    """The goals that this cell misses."""
    ours, ideal = row(model, OURS, workload, cpus, machine, per_cpu), row(model, IDEAL, workload, cpus, machine, per_cpu)
    found = []
    if not ours:
        return found
    if workload in OWN:
        first = row(model, OURS, workload, CPUS[0], machine, per_cpu)
        if first and first.rate and ours.rate / first.rate / (ours.speed / first.speed) < LINEAR:
            found.append(f"{ours.rate / first.rate / (ours.speed / first.speed):.2f} of linear")
        if ours.lines > NO_LINES:
            found.append(f"{ours.lines:.2f} lines/op")
    elif workload != "burst":
        if ideal and ideal.rate and ours.rate / ideal.rate < OF_IDEAL:
            found.append(f"{ours.rate / ideal.rate:.2f} of ideal")
        if workload in CROSS and ours.lines > MOST_LINES:
            found.append(f"{ours.lines:.2f} lines/op")
    if ours.locks >= MOST_LOCKS:
        found.append(f"{ours.locks:.0f} % in locks")
    return found


def missed(model: Document) -> str:
    """Every cell that misses a goal, and which."""
    cells = [(MACHINE, workload, cpus, 1) for workload in WORKLOADS for cpus in CPUS]
    cells += [(machine, "cross-far", most, 1) for machine, most in OWN_MACHINES.items() if machine != MACHINE]
    cells += [(HOTPLUG, workload, HOTPLUG_CPUS, 1) for workload in ("batch-100", "cross-near", "cross-far", "mmap2")]
    cells += [(MACHINE, workload, cpus, CROWD) for workload in CROWDED for cpus in CROWDED_CPUS]
    rows = []
    for machine, workload, cpus, per_cpu in cells:
        found = _missed(model, workload, cpus, machine, per_cpu)
        now = row(model, OURS, workload, cpus, machine, per_cpu)
        if found and now:
            rows.append([workload, machine, f"{cpus}" + (f" × {per_cpu}" if per_cpu > 1 else ""), ", ".join(found),
                         number(now.memory)])
    return render(["workload", "machine", "CPUs", "missed", "MiB"], rows or [["none", "", "", "", ""]])


def text(model: Document, before: Document) -> str:
    parts = [f"{workload} on {MACHINE}\n\n{_growth(model, before, workload)}" for workload in WORKLOADS]
    parts.append(f"Batches of 100 on all CPUs of each machine: second threads of a core count as what they add\n\n{_own(model)}")
    others = [(machine, "cross-far", most, 1) for machine, most in OWN_MACHINES.items() if machine != MACHINE]
    parts.append(f"Other machines\n\n{_beside_ideal(model, others)}")
    hotplug = [(HOTPLUG, workload, HOTPLUG_CPUS, 1) for workload in ("batch-100", "cross-near", "cross-far", "mmap2")]
    parts.append(f"CPUs that come and go\n\n{_beside_ideal(model, hotplug)}")
    crowded = [(MACHINE, workload, cpus, CROWD) for workload in CROWDED for cpus in CROWDED_CPUS]
    parts.append(f"{CROWD} tasks on each CPU\n\n{_beside_ideal(model, crowded)}")
    parts.append(f"Cells that miss a goal. Batches of a CPU's own: at least {LINEAR} of linear, no lines. Else: at least\n"
                 f"{OF_IDEAL} of ideal; at most {MOST_LINES} lines for an object that another CPU frees. All: less than "
                 f"{MOST_LOCKS:.0f} % of\nthe time in locks.\n\n{missed(model)}")
    return "\n\n".join(parts)
