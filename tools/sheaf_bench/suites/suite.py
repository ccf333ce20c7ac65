# SPDX-License-Identifier: MIT
"""A suite as the `bench` command sees it, and its settings."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from sheaf_tool import table

from .. import html
from ..document import Document

# ms that a program idles before its resident memory is read again: clearly more than the second
# for which all freed memory stays (the option decay).
IDLE = 5000

Table = tuple[str, list[str], list[list[str]]]  # title, header, rows; the first line is the heading


@dataclass(frozen=True)
class Settings:
    workers: Path  # directory of the benchmark programs
    quick: bool
    repeat: int | None  # repetitions; None: the suite's own number
    against: Path | None = None  # directory of another build's programs, instead of peers
    rows: tuple[str, ...] = ()  # of suite real: programs and kinds to measure; none: all
    before: Document | None = None  # with rows: where the others' results are


@dataclass(frozen=True)
class Suite:
    name: str
    summary: str  # one line
    about: str  # describes the measurement in a few sentences
    run: Callable[[Settings, dict[str, Any]], Document]  # with the machine's description
    pictures: Callable[[Document], list[str]]  # as HTML
    tables: Callable[[Document], list[Table]]
    notes: Callable[[Document], list[str]]  # notes about the results
    # Work that is repeated with events counted: titles and workers' arguments.
    works: Callable[[dict[str, Any], bool], list[tuple[str, tuple[str, ...]]]]
    others: tuple[str, ...] = ()  # for ready(), with these works

    def text(self, document: Document) -> str:
        """At most 100 columns."""
        return table.page([(title, table.fold(header, rows))
                           for title, header, rows in self.tables(document)], self.notes(document))

    def html(self, document: Document) -> str:
        return html.page(self.pictures(document), self.tables(document), self.notes(document))


def missing_lines(machine: dict[str, Any]) -> list[str]:
    """A line for each peer that was not measured."""
    return [f"{name} is missing: {remedy}"
            for name, remedy in machine.get("missing", {}).items()]
