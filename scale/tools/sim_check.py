# SPDX-License-Identifier: MIT
"""Is `sheaf sim scale` credible: measurements on 2 real CPUs, beside the same work in the model.

Ratios of ours to an allocator without sheaves are compared. The guest on which benchmarks run is in one of two
states: its CPUs are two cores of the host, or two threads of one core. The rate of ours
shows the state of each repetition, and each state has a machine file.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any

from sheaf_tool import paths
from sheaf_tool.table import number, render

from .allocators import CPU_SLAB, OURS
from .document import Document, read
from .sim_point import RATE, Point

NO_SHEAF = "no-sheaf"
OTHERS = CPU_SLAB, NO_SHEAF
OFF = 0.25  # by which a ratio may differ
NEAR = 120.0  # million objects a second from one CPU to the other: more pass only within a core
BOTH = 520.0  # million pairs a second on both CPUs: two threads of one core make less
CORES, CORE = "this-2cpu", "this-2cpu-core"
STATES = {CORES: "two cores", CORE: "one core"}


@dataclass(frozen=True)
class Case:
    title: str
    suite: str
    params: dict[str, Any]  # of its results
    workload: str
    machine: str = CORES
    cpus: int = 2
    per_cpu: int = 1
    limits: tuple[float, float] = (0, inf)  # million a second of ours, in repetitions with CPUs of this kind


def _pairs(size: int, threads: int, title: str, per_cpu: int = 1) -> list[Case]:
    """Both states: on one core two threads take each other's time."""
    params = {"batch": size, "threads": threads}
    return [Case(f"{title}, batches of {size}", "scale", params, f"batch-{size}", machine, 2, per_cpu, limits)
            for machine, limits in ((CORES, (BOTH, inf)), (CORE, (0, BOTH)))]


_QUEUE = {"pattern": "producer-consumer", "threads": 2, "size": 64}
_ACROSS = "from one CPU to the other"
CASES = (
    *(Case(f"one CPU, batches of {size}", "batch", {"batch": size, "order": "fifo"}, f"batch-{size}", cpus=1)
      for size in (10, 100, 1000)),
    Case(_ACROSS, "cross", _QUEUE, "cross-near", CORES, limits=(0, NEAR)),
    Case(_ACROSS, "cross", _QUEUE, "cross-near", CORE, limits=(NEAR, inf)),
    *_pairs(100, 2, "2 CPUs"), *_pairs(1000, 2, "2 CPUs"), *_pairs(100, 32, "32 threads", 16),
)


def _samples(case: Case, allocator: str, results: Document) -> list[float]:
    """Million pairs a second, by repetition."""
    found = results.samples("ns/pair", allocator=allocator, **case.params)
    if found:
        return [1000 / ns for ns in found]
    return results.samples("Mpairs/s", allocator=allocator, **case.params)


def measured(case: Case, results: Document) -> dict[str, float]:
    """Medians of the repetitions in which ours was within the case's limits; empty if there is none."""
    low, high = case.limits
    wanted = [low <= rate < high for rate in _samples(case, OURS, results)]
    if not any(wanted):
        return {}
    return {name: median(rate for rate, is_wanted in zip(_samples(case, name, results), wanted) if is_wanted)
            for name in (OURS, *OTHERS)}


@dataclass(frozen=True)
class Cell:
    case: Case
    other: str
    measured: tuple[float, float]  # rates of ours and of the other one
    model: tuple[float, float]

    def ratios(self) -> tuple[float, float]:
        return self.measured[0] / self.measured[1], self.model[0] / self.model[1]

    def quotient(self) -> float:
        measured, model = self.ratios()
        return model / measured

    def fits(self) -> bool:
        return abs(self.quotient() - 1) <= OFF


def points() -> list[Point]:
    """What the model has to run."""
    return [Point(case.machine, case.workload, allocator, case.cpus, case.per_cpu)
            for case in CASES for allocator in (OURS, *OTHERS)]


def _modelled(case: Case, allocator: str, model: Document) -> float:
    found = model.samples(RATE, allocator=allocator, machine=case.machine, workload=case.workload,
                          cpus=case.cpus, tasks=case.cpus * case.per_cpu)
    return found[0]


def cells(model: Document) -> list[Cell]:
    """With the committed results of the suites."""
    made = []
    for case in CASES:
        rates = measured(case, read(paths.ROOT / "bench" / "results" / f"{case.suite}.json"))
        made += [Cell(case, other, (rates[OURS], rates[other]),
                      (_modelled(case, OURS, model), _modelled(case, other, model)))
                 for other in OTHERS if rates]
    return made


def rows(found: list[Cell]) -> list[list[str]]:
    made = []
    for cell in found:
        measured, model = cell.ratios()
        state = STATES[cell.case.machine] if cell.case.cpus > 1 else ""
        made.append([cell.case.title, state, cell.other,
                     *(f"{number(ours)}:{number(other)}" for ours, other in (cell.measured, cell.model)),
                     number(measured), number(model), f"{cell.quotient():.2f}", "yes" if cell.fits() else "no"])
    return made


HEADER = ["million pairs a second", "CPUs are", "ours by", "measured", "model", "ratio", "model", "off", "fits"]


def text(found: list[Cell]) -> str:
    fitting = sum(cell.fits() for cell in found)
    return (render(HEADER, rows(found))
            + f"\n\n{fitting} of {len(found)} ratios are within {100 * OFF:.0f} % of those measured.")
