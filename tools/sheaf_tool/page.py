# SPDX-License-Identifier: MIT
"""The report: one page with a section for each suite that has results."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from .document import Document, read
from .html import escape
from .suites import SUITES

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2128; --faint: #667080; --rule: #d9dee5;
  --ours: #1f6feb; --variant: #93bdf5; --peer: #a8b0bb; --harness: #dfe3e8; --panel: #f5f7f9; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #e4e8ed; --faint: #98a2af;
  --rule: #333b45; --ours: #5aa2ff; --variant: #33598c; --peer: #667080; --harness: #363e48;
  --panel: #1c2228; } }
body { margin: 2rem auto; padding: 0 1.5rem; max-width: 100rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
.beside { display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; align-items: flex-start; }
.beside > figure { flex: 1 1 38rem; max-width: 62rem; margin: 0; }
.beside > div { flex: 0 1 auto; max-width: 100%; overflow-x: auto; }
a { color: var(--ours); }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .45rem; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
th:first-child { text-align: left; } tbody th { font-weight: normal; }
small { color: var(--faint); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem;
  margin: 1.5rem 0 .5rem; }
dt { color: var(--faint); } dd { margin: 0; }
code { background: var(--panel); padding: .15rem .4rem; border-radius: 3px; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .title { font-weight: 600; font-size: 13px; } svg .tick, svg .note { fill: var(--faint); }
svg .ours.name, svg .ours.value { font-weight: 600; } svg .harness.name { font-style: italic; }
svg .bar.ours { fill: var(--ours); } svg .bar.variant { fill: var(--variant); }
svg .bar.peer { fill: var(--peer); } svg .bar.harness { fill: var(--harness); }
svg .grid { stroke: var(--rule); stroke-width: 1; } svg .whisker { stroke: var(--ink); }
svg .gap { stroke: var(--paper); stroke-width: 4; fill: none; }
"""

MACHINE = [("cpu", "CPU"), ("cpus", "CPUs"), ("kernel", "kernel"), ("libc", "C library"),
           ("governor", "governor"), ("load", "load at the start"), ("options", "SHEAF_OPTIONS")]


def _machine(machine: dict[str, Any]) -> str:
    entries = [(title, str(machine[key])) for key, title in MACHINE if key in machine]
    found = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    if found:
        entries.append(("peers", found))
    return "<dl>" + "".join(f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>"
                            for title, text in entries) + "</dl>"


def _section(document: Document) -> str:
    suite = SUITES[document.suite]
    command = escape(document.machine["command"])
    return (f"<section><h2>{suite.name}: {escape(suite.summary)}</h2>{suite.html(document)}"
            f"{_machine(document.machine)}<p>To repeat it: <code>{command}</code>. "
            f'The samples: <a href="{suite.name}.json">{suite.name}.json</a>.</p></section>')


def render(documents: list[Document]) -> str:
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>libsheaf: benchmarks</title><style>{STYLE}</style></head><body>"
            "<h1>libsheaf: benchmarks</h1>"
            + "".join(_section(document) for document in documents) + "</body></html>\n")


def write(directory: Path) -> Path:
    """Make the page from the results of every suite in the directory; its path."""
    found = [directory / f"{name}.json" for name in SUITES]
    page = directory / "index.html"
    page.write_text(render([read(path) for path in found if path.exists()]), encoding="utf-8")
    return page
