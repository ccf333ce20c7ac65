# SPDX-License-Identifier: MIT
"""The pages of stored results on the site of documents, a page for each suite; `make docs` makes them."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from . import sim_study
from .document import Document, read
from .machine import calls, cpus, mitigations
from .paths import ROOT
from .suites import SUITES

FOLDERS = [ROOT / product / "results" for product in ("bench", "maple", "scale")]
SIMULATED, BEFORE, MODEL = "sim-scale", "sim-scale-before", "scale-model"  # results, and their page


def stored(name: str) -> Path:
    """The file of results of a suite, or of the model."""
    places = [folder / f"{name}.json" for folder in FOLDERS]
    return next((path for path in places if path.exists()), places[0])


def is_quick(measured: Document) -> bool:
    return "--quick" in measured.machine["command"].split()


def command(machine: dict[str, Any]) -> str:
    return f"`tools/{machine['command']}`"


def page_of(path: Path) -> str | None:
    """The name of the page with the tables of this file of results."""
    if path.parent not in FOLDERS:
        return None
    return MODEL if path.stem in (SIMULATED, BEFORE) else path.stem if path.stem in SUITES else None


def page(name: str) -> str:
    """The text of a page, as if it were in docs/performance."""
    if name == MODEL:
        return sim_study.page(*(read(stored(one)) for one in (SIMULATED, BEFORE)))
    suite, measured = SUITES[name], read(stored(name))
    machine = measured.machine
    versions = ", ".join(f"{peer} {version}" for peer, version in machine.get("versions", {}).items())
    facts = [("command", command(machine) + (" (a quick run: fewer repetitions, and in some suites less work)"
                                             if is_quick(measured) else "")),
             ("machine", f"{machine['cpu']}, {cpus(machine)}, "
                         f"{machine['nodes']} memory node{'s' * (machine['nodes'] > 1)}"),
             *([("an empty call", costs)] if (costs := calls(machine)) else []),
             *([("mitigations", said)] if (said := mitigations(machine)) else []),
             ("load at the start", f"{machine['load']:g}"),
             ("system", f"{machine['kernel']}, {machine['libc']}"),
             ("libsheaf", f"{machine['libsheaf']}, backend {machine['backend']}"),
             *([("compared with", versions)] if versions else []),
             ("every sample", f"`{stored(name).relative_to(ROOT)}`")]
    return (f"# {name}: {suite.summary}\n\n{suite.about}\n\n"
            + "".join(f"- {key}: {value}\n" for key, value in facts)
            + f"\n```text\n{suite.text(measured)}\n```\n")
