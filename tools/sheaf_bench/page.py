# SPDX-License-Identifier: MIT
"""The report: one self-contained page, with a section for each suite that has results."""
from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

from sheaf_tool.errors import Failure

from . import counters
from .document import Document, read
from .html import escape, table
from .machine import calls, mitigations
from .seeds import SEEDS
from .style import STYLE
from .suites import SUITES

MACHINE = [("cpu", "CPU"), ("cpus", "CPUs"), ("nodes", "memory nodes"), ("kernel", "kernel"),
           ("libc", "C library"), ("governor", "governor"), ("libsheaf", "libsheaf"),
           ("backend", "backend in force"), ("sheaf", "sheaf's common calls"), ("options", "SHEAF_OPTIONS"),
           ("load", "load at the start")]


def _entries(machine: dict[str, Any]) -> list[tuple[str, str]]:
    known = [(title, str(machine[key])) for key, title in MACHINE if key in machine]
    further = [("an empty call", calls(machine)), ("mitigations", mitigations(machine))]
    return known + [(title, said) for title, said in further if said]


def _peers(documents: list[Document]) -> list[tuple[str, str]]:
    """The peers of all suites, with their versions."""
    found: dict[str, None] = {}
    for document in documents:
        for name, version in document.machine.get("versions", {}).items():
            found[f"{name} {version}"] = None
    return [("peers", ", ".join(found))] if found else []


def _list(entries: list[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>"
                            for title, text in entries) + "</dl>"


def _common(documents: list[Document]) -> list[tuple[str, str]]:
    """The facts common to all of them, once."""
    first, *rest = [_entries(document.machine) for document in documents]
    return [entry for entry in first if all(entry in other for other in rest)]


def _samples(document: Document) -> str:
    """A link to the samples. They are part of the page, so it needs no other file."""
    text = json.dumps(document.as_json(), separators=(",", ":"))
    data = base64.b64encode(text.encode()).decode()
    name = f"{document.suite}.json"
    return f'<a download="{name}" href="data:application/json;base64,{data}">{name}</a>'


def _section(document: Document, body: str, common: list[tuple[str, str]]) -> str:
    suite = SUITES[document.suite]
    own = [entry for entry in _entries(document.machine) if entry not in common]
    return (f'<section id="{suite.name}"><h2>{suite.name}: {escape(suite.summary)}</h2>'
            f"<p>{escape(suite.about)}</p>"
            f"<p>To repeat it: <code>{escape(document.machine['command'])}</code>. "
            f"Every sample: {_samples(document)}</p>"
            + (_list(own) if own else "") + body + "</section>")


def _contents(documents: list[Document]) -> str:
    lines = [(document.suite, SUITES[document.suite].summary) for document in documents]
    lines.append(("published", "published figures of the kernel"))
    return "<nav><ul>" + "".join(f'<li><a href="#{name}">{name}</a><span>{escape(text)}</span></li>'
                                 for name, text in lines) + "</ul></nav>"


def _published(documents: list[Document]) -> str:
    here = {document.suite for document in documents}
    rows = [[seed.says, f"suite {seed.suite}" if seed.suite in here else "", seed.origin()]
            for seed in SEEDS]
    return ('<section id="published"><h2>What the kernel\'s documents say</h2>'
            "<p>These percentages compare one kernel with another, on other machines. Our figures, in "
            "the suites, compare allocators in one run. Only the question is the same.</p>"
            + table(["claim", "suite that measures the same", "document and machine"], rows, "prose")
            + "</section>")


def _render(documents: list[Document], bodies: list[str]) -> str:
    common = _common(documents)
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>libsheaf: benchmarks</title><style>{STYLE}</style></head><body>"
            f"<h1>libsheaf: benchmarks</h1>{_list(common + _peers(documents))}"
            f"{_contents(documents)}"
            + "".join(_section(document, body, common)
                      for document, body in zip(documents, bodies))
            + _published(documents) + "</body></html>\n")


def _body(document: Document) -> str:
    return SUITES[document.suite].html(document) + counters.html(document)


def render(documents: list[Document]) -> str:
    return _render(documents, [_body(document) for document in documents])


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error


def write(path: Path, documents: list[Document]) -> None:
    _write(path, render(documents))


def write_all(directory: Path, new: list[Document]) -> Path:
    """Write the page of all results in the directory, with the new ones; return its path.

    Another version may have written old files, and this one may be unable to show them.
    """
    measured = {document.suite: document for document in new}
    documents, bodies = [], []
    for name in SUITES:
        path = directory / f"{name}.json"
        if name in measured:
            documents.append(measured[name])
            bodies.append(_body(measured[name]))
        elif path.exists():
            try:
                old = read(path)
                bodies.append(_body(old))
                documents.append(old)
            except (Failure, LookupError, TypeError, ValueError):
                print(f"sheaf: {path} is left out of the report, because another version "
                      f"wrote it; `sheaf bench {name}` writes a new one", file=sys.stderr)
    page = directory / "index.html"
    _write(page, _render(documents, bodies))
    return page
