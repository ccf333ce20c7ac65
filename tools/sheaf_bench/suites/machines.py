# SPDX-License-Identifier: MIT
"""Suite `machines`: what it costs to be prepared for a large machine.

The same workloads on this machine as it is, and with a library that believes it is on another one: two memory
nodes, or 384 CPUs, of which only those that are here ever run.
"""
from __future__ import annotations

from typing import Any

from ..document import Document
from .cells import intervals, notes, ratio_cell
from .choices import TIME, Choice, Choices, Work, no_works
from .suite import Settings, Suite, Table

INVENTED = "-invented"
THIS = Choice("this\nmachine", program=INVENTED)


def _nodes(number: int) -> str:
    """The text of tests/internal/kit/invented_machine.c: 384 CPUs, neighbours on one node."""
    cpus = 384 // number
    nodes = (f"node{node}={node * cpus}-{(node + 1) * cpus - 1};distance{node}="
             + " ".join("10" if other == node else "20" for other in range(number)) for node in range(number))
    return ";".join(("possible=0-383;present=0-383", f"memory=0-{number - 1}", *nodes))


def _invented(name: str, nodes: int) -> Choice:
    return Choice(name, environment=(("INVENTED_MACHINE", _nodes(nodes)),), program=INVENTED)


OTHERS = (Choice("numa=fake\n=8", environment=(("SHEAF_OPTIONS", "numa=fake=8"),), program=INVENTED),
          _invented("384 CPUs,\n1 node", 1), _invented("384 CPUs,\n8 nodes", 8))
WORKS = (
    *(Work("batch", ("--batch", str(batch))) for batch in (1, 10, 100, 1000)),
    Work("scale", ("--batch", "100", "--threads", "2"), 2),
    Work("scale", ("--batch", "1000", "--threads", "32"), 32),
    Work("cross", ("--threads", "2"), 2),
    Work("cross", ("--threads", "32"), 32),
    Work("cross", ("--symmetric", "--threads", "2"), 2),
)
ALL = Choices("machines", WORKS, (THIS, *OTHERS), "machine")


def _run(settings: Settings, machine: dict[str, Any]) -> Document:
    return ALL.run(settings, machine, 15, 6, 60.0)


def _tables(document: Document) -> list[Table]:
    rows = [[work.label, *(ratio_cell(ALL.found(document, TIME, work, choice), ALL.found(document, TIME, work, THIS))
                           for choice in OTHERS)] for work in WORKS]
    return [("the time over that on this machine; above 1 it costs time\n" + intervals(document),
             ["work", *(choice.name for choice in OTHERS)], rows), *ALL.tables(document)]


def _notes(document: Document) -> list[str]:
    return ["numa=fake=8 makes as many nodes as there are CPUs, if that is less: then every object that passes from CPU "
            "to CPU is another node's. 384 CPUs: those that are here are neighbours.", *notes(document)]


def _pictures(document: Document) -> list[str]:
    return [ALL.picture(document, THIS)]


SUITE = Suite("machines", "the same workloads where the library believes it is on a large machine",
              "Works on this machine as it is, and with a library that sees other memory nodes, and CPUs that never "
              "run.",
              _run, _pictures, _tables, _notes, no_works)
