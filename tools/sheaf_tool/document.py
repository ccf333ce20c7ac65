# SPDX-License-Identifier: MIT
"""A suite's results, and their JSON form: what `--json` prints and the report is made from."""
from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Result:
    """One measured quantity; params always names the allocator."""

    name: str
    params: dict[str, Any]
    unit: str
    samples: list[float] = field(default_factory=list)


@dataclass
class Document:
    suite: str
    machine: dict[str, Any]
    results: list[Result] = field(default_factory=list)

    def result(self, name: str, params: dict[str, Any], unit: str) -> Result:
        """The result with these params; made if there is none."""
        for result in self.results:
            if (result.name, result.params, result.unit) == (name, params, unit):
                return result
        self.results.append(Result(name, params, unit))
        return self.results[-1]

    def samples(self, unit: str, **params: Any) -> list[float]:
        """The samples of the result that has these params; empty if there is none."""
        for result in self.results:
            if result.unit == unit and params.items() <= result.params.items():
                return result.samples
        return []

    def allocators(self) -> list[str]:
        """In the order they were measured."""
        return list(dict.fromkeys(result.params["allocator"] for result in self.results))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Document:
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Document(raw["suite"], raw["machine"], [Result(**result) for result in raw["results"]])
