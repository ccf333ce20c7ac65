# SPDX-License-Identifier: MIT
"""A suite's results, and their JSON form: printed by `--json`, and the source of the report."""
from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any

from sheaf_tool.errors import Failure


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
        """The result with these params; created if it does not exist."""
        for result in self.results:
            if (result.name, result.params, result.unit) == (name, params, unit):
                return result
        self.results.append(Result(name, params, unit))
        return self.results[-1]

    def samples(self, unit: str, **params: Any) -> list[float]:
        """The samples of the result with these params; empty if there is none."""
        for result in self.results:
            if result.unit == unit and params.items() <= result.params.items():
                return result.samples
        return []

    def allocators(self) -> list[str]:
        """In the order of measurement."""
        return list(dict.fromkeys(result.params["allocator"] for result in self.results))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """JSON with a line for each fact about the machine, and one for the results of the same params."""
        machine = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}"
                             for key, value in self.machine.items())
        alike = groupby(self.results, key=lambda result: (result.name, result.params))
        results = ",\n".join(", ".join(json.dumps(asdict(result)) for result in found) for _, found in alike)
        return (f'{{"suite": {json.dumps(self.suite)},\n"machine": {{\n{machine}\n}},\n'
                f'"results": [\n{results}\n]}}')

    def write(self, path: Path) -> None:
        path.write_text(self.text() + "\n", encoding="utf-8")


def _result(raw: Any) -> Result:
    if not isinstance(raw, dict) or set(raw) != {"name", "params", "unit", "samples"}:
        raise ValueError("a result has a name, params, a unit and samples")
    result = Result(**raw)
    if not isinstance(result.params, dict) or not isinstance(result.samples, list):
        raise ValueError("params are an object, samples a list")
    if not result.samples or not all(isinstance(sample, (int, float)) and isfinite(sample)
                                     for sample in result.samples):
        raise ValueError(f"samples of {result.name} must be numbers")
    return result


def read(path: Path) -> Document:
    """The results in a file; Failure with one line if it is not such a file."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path}: not JSON: {error}") from error
    if isinstance(raw, list):
        raise Failure(f"{path}: contains a list, as `sheaf bench all --json` prints it; give the file "
                      "of one suite: SUITE.json next to the report")
    try:
        if not isinstance(raw, dict) or not {"suite", "machine", "results"} <= set(raw):
            raise ValueError("it lacks suite, machine and results")
        if not isinstance(raw["machine"], dict) or not isinstance(raw["results"], list):
            raise ValueError("its machine or its results have the wrong form")
        return Document(str(raw["suite"]), raw["machine"], [_result(one) for one in raw["results"]])
    except ValueError as error:
        raise Failure(f"{path}: not the results of a benchmark suite: {error}") from error
