# SPDX-License-Identifier: MIT
"""What a suite is to the `bench` command, and what it is told."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from ..document import Document


@dataclass(frozen=True)
class Settings:
    workers: Path  # directory of the benchmark programs
    quick: bool
    repeat: int | None  # repetitions; None: the suite's own number


@dataclass(frozen=True)
class Suite:
    name: str
    summary: str  # one line
    about: str  # what is measured, in a few sentences
    run: Callable[[Settings, dict[str, Any]], Document]  # with the machine's description
    text: Callable[[Document], str]  # tables, at most 100 columns
    html: Callable[[Document], str]  # picture and tables
    # What to do once more with events counted: titles and workers' arguments.
    works: Callable[[dict[str, Any], bool], list[tuple[str, tuple[str, ...]]]]


def missing_lines(machine: dict[str, Any]) -> list[str]:
    """A line for each peer that was not measured."""
    return [f"{name} is missing: {remedy}"
            for name, remedy in machine.get("missing", {}).items()]
