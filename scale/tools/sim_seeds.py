# SPDX-License-Identifier: MIT
"""The kernel's documents about large machines, cell by cell beside the model of their designs."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

from sheaf_tool.table import number, render

from .document import Document
from .seeds import CROSS, SPARE, SPARE_DELTAS, SYSCALLS, TREE_DELTAS, TREE_DELTAS_RC4
from .sim_point import LINES, MEMORY, RATE, Point

EPYC, GRANITE = "epyc-2x96-smt", "granite-rapids-2s"
SLABS, FIRST, NOW = "kernel-slabs", "kernel-first", "kernel"
BOTH, RULE = "kernel-both", "kernel-both-spare"  # the machines of maps had three tiers below their sheaves
OURS = "sheaf"
CLEAR = 15.0  # percent: smaller deltas have no sign
UBLK_CPUS = 32
# Document: machine and call; here: machine file, workload. The kernel with sheaves alone against that with both.
SYSCALL_MACHINES = {"Graviton3": "graviton3-64", "Sapphire Rapids": "sapphire-rapids-2s"}
SYSCALL_WORKLOADS = {"fork": "fork-wait", "execve": "exec"}
SYSCALL_CPUS = 2

# Columns of the tables: the kernel that was measured, and the one that it is compared with.
Columns = Mapping[str, tuple[str, str]]
SPARE_COLUMNS: Columns = {"the rule": (RULE, BOTH)}
TREE_COLUMNS: Columns = {"no rule": (BOTH, SLABS), "rule": (RULE, SLABS), "64": ("kernel-both-64", SLABS),
                         "128": ("kernel-both-128", SLABS), "256": ("kernel-both-256", SLABS)}


@dataclass(frozen=True)
class Cell:
    tasks: int
    column: str
    theirs: float  # percent
    model: float
    memory: float  # MiB, of the kernel that was measured, in the model

    def counts(self) -> bool:
        return abs(self.theirs) > CLEAR

    def fits(self) -> bool:
        return not self.counts() or self.theirs * self.model > 0


def _rate(model: Document, machine: str, workload: str, allocator: str, cpus: int, unit: str = RATE) -> float:
    return model.samples(unit, allocator=allocator, machine=machine, workload=workload, cpus=cpus)[0]


def _cells(model: Document, machine: str, columns: Columns,
           deltas: Mapping[str, Mapping[int, float]]) -> list[Cell]:
    def has(name: str, tasks: int) -> bool:
        return bool(model.samples(RATE, allocator=name, machine=machine, workload="mmap2", cpus=tasks))

    return [Cell(tasks, column, theirs,
                 100 * (_rate(model, machine, "mmap2", columns[column][0], tasks)
                        / _rate(model, machine, "mmap2", columns[column][1], tasks) - 1),
                 _rate(model, machine, "mmap2", columns[column][0], tasks, MEMORY))
            for column, by_tasks in deltas.items() for tasks, theirs in by_tasks.items()
            if all(has(name, tasks) for name in columns[column])]


def tables(model: Document) -> list[tuple[str, list[Cell]]]:
    """Each table of the document about the spare rule, with its title."""
    spare = {"Granite Rapids": GRANITE, "AMD EPYC": EPYC}
    made = [(f"The spare rule against none, {name}", _cells(model, machine, SPARE_COLUMNS,
                                                           {"the rule": SPARE_DELTAS[name]}))
            for name, machine in spare.items()]
    made.append(("Sheaves against three tiers, Granite Rapids: without the rule, with it, and wider sheaves",
                 _cells(model, GRANITE, TREE_COLUMNS, TREE_DELTAS)))
    made.append(("The same with a later kernel", _cells(model, GRANITE, TREE_COLUMNS, TREE_DELTAS_RC4)))
    return made


def _said(cell: Cell) -> str:
    mark = "" if cell.fits() else " !"
    return f"{cell.theirs:+.0f} / {cell.model:+.0f}{mark}"


def _table(cells: Sequence[Cell]) -> str:
    columns = list(dict.fromkeys(cell.column for cell in cells))
    by_place = {(cell.tasks, cell.column): cell for cell in cells}
    rows = [[str(tasks), *(_said(by_place[tasks, column]) for column in columns),
             number(by_place[tasks, columns[-1]].memory)]
            for tasks in dict.fromkeys(cell.tasks for cell in cells)]
    return render(["tasks", *columns, "MiB"], rows)


def _ublk(model: Document) -> str:
    rows = []
    for workload, where in (("ublk", "neighbours"), ("ublk-far", "two nodes")):
        for name, what in ((SLABS, "three tiers"), (FIRST, "sheaves as first merged"),
                           (NOW, "sheaves as they are now"), (OURS, "libsheaf"),
                           ("sheaf-mempool", "libsheaf through a memory pool")):
            rows.append([what, where, number(_rate(model, EPYC, workload, name, UBLK_CPUS)),
                         f"{_rate(model, EPYC, workload, name, UBLK_CPUS, LINES):.2f}",
                         number(_rate(model, EPYC, workload, name, UBLK_CPUS, MEMORY))])
    return render([f"{UBLK_CPUS} CPUs", "pairs of", "M/s", "lines/op", "MiB"], rows)


def _syscalls(model: Document) -> str:
    rows = []
    for (machine, call), theirs in SYSCALLS.percent.items():
        def rate(name: str, unit: str = RATE) -> float:
            return _rate(model, SYSCALL_MACHINES[machine], SYSCALL_WORKLOADS[call], name, SYSCALL_CPUS, unit)
        change = 100 * (rate(FIRST) / rate(BOTH) - 1)
        rows.append([machine, call, f"{theirs:+.1f}", f"{change:+.1f}" + ("" if theirs * change > 0 else " !"),
                     f"{rate(BOTH, LINES):.2f} → {rate(FIRST, LINES):.2f}", number(rate(FIRST, MEMORY))])
    return render(["machine", "call", "theirs", "the allocator's share", "lines/op", "MiB"], rows)


def points() -> list[Point]:
    """What the model has to run."""
    wanted = {(GRANITE, name, tasks) for name in (SLABS, BOTH, RULE, "kernel-both-64", "kernel-both-128", "kernel-both-256")
              for tasks in SPARE_DELTAS["Granite Rapids"]}
    wanted |= {(EPYC, name, tasks) for name in (BOTH, RULE) for tasks in SPARE_DELTAS["AMD EPYC"]}
    return ([Point(machine, "mmap2", name, tasks) for machine, name, tasks in sorted(wanted)]
            + [Point(SYSCALL_MACHINES[machine], SYSCALL_WORKLOADS[call], name, SYSCALL_CPUS)
               for machine, call in SYSCALLS.percent for name in (BOTH, FIRST)]
            + [Point(EPYC, workload, name, UBLK_CPUS) for workload in ("ublk", "ublk-far")
               for name in (SLABS, FIRST, NOW, OURS, "sheaf-mempool")])


def text(model: Document) -> str:
    made = tables(model)
    cells = [cell for _, table in made for cell in table]
    clear = [cell for cell in cells if cell.counts()]
    fitting = sum(cell.fits() for cell in clear)
    parts = [f"Maps: “{SPARE.title}”\n"
             f"percent: theirs / the model's; !: the other sign, or none, where theirs is above {CLEAR:.0f} %\n"
             f"{fitting} of {len(clear)} such cells have the same sign"]
    parts += [f"{title}\n\n{_table(table)}" for title, table in made]
    parts.append(f"Requests:\n“{CROSS.title}”\n\n{_ublk(model)}\n\nTheirs: three tiers 36 M/s, sheaves as "
                 "first merged 13, after fixes 24.")
    parts.append(f"Calls: “{SYSCALLS.title}”\npercent; theirs is of the whole call, the model's of the "
                 f"allocator's part: !: the other sign\n\n{_syscalls(model)}")
    return "\n\n".join(parts)
