# SPDX-License-Identifier: MIT
"""A suite's results, and their JSON form: printed by `--json`, and the source of the report."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Iterator

from sheaf_tool.errors import Failure

AT = "at"  # a parameter: the point of a curve


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
        return {"suite": self.suite, "machine": _short(self.machine), "results": self._rows()}

    def _rows(self) -> list[dict[str, Any]]:
        """A row for all quantities of the same params, and one for each curve: results that differ only in AT."""
        rows: dict[str, dict[str, Any]] = {}
        for result in self.results:
            params = dict(result.params)
            at = params.pop(AT, None)
            key = json.dumps([params, at is not None and [result.name, result.unit]])
            row = rows.setdefault(key, {"params": params, **({} if at is None else {AT: []}), "samples": {}})
            units = row["samples"].setdefault(result.name, {})
            if at is None:
                units[result.unit] = _short(result.samples)
            else:
                row[AT].append(at)
                units.setdefault(result.unit, []).append(_short(result.samples))
        return list(rows.values())

    def text(self) -> str:
        """JSON with a line for each fact about the machine, and one for each row of results."""
        form = self.as_json()
        machine = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in form["machine"].items())
        rows = ",\n".join(map(json.dumps, form["results"]))
        return (f'{{"suite": {json.dumps(self.suite)},\n"machine": {{\n{machine}\n}},\n'
                f'"results": [\n{rows}\n]}}')

    def write(self, path: Path) -> None:
        path.write_text(self.text() + "\n", encoding="utf-8")


def _short(value: Any) -> Any:
    """With numbers of six digits: no measurement has more."""
    if isinstance(value, float):
        short = float(f"{value:.6g}")
        return int(short) if short.is_integer() else short
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, list) else value


def _result(name: str, params: dict[str, Any], unit: str, samples: Any) -> Result:
    if not isinstance(samples, list) or not samples or not all(
            isinstance(sample, (int, float)) and isfinite(sample) for sample in samples):
        raise ValueError(f"samples of {name} must be numbers")
    return Result(name, params, unit, samples)


def _results(row: Any) -> Iterator[Result]:
    if not isinstance(row, dict) or not {"params", "samples"} <= set(row) <= {"params", AT, "samples"}:
        raise ValueError("a row of results has params and samples, a curve also where its points are")
    params = row["params"]
    if not isinstance(params, dict) or not isinstance(row["samples"], dict):
        raise ValueError("params and samples are objects")
    for name, units in row["samples"].items():
        for unit, samples in units.items():
            if AT in row:
                for at, point in zip(row[AT], samples):
                    yield _result(name, {**params, AT: at}, unit, point)
            else:
                yield _result(name, params, unit, samples)


def read(path: Path) -> Document:
    """The results in a file; Failure with one line if it is not such a file."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path}: not JSON: {error}") from error
    if isinstance(raw, list):
        raise Failure(f"{path}: contains a list, as `sheaf bench all --json` prints it; give the file "
                      "of one suite: SUITE.json next to the report")
    try:
        if not isinstance(raw, dict) or not {"suite", "machine", "results"} <= set(raw):
            raise ValueError("it lacks suite, machine and results")
        if not isinstance(raw["machine"], dict) or not isinstance(raw["results"], list):
            raise ValueError("its machine or its results have the wrong form")
        return Document(str(raw["suite"]), raw["machine"], [one for row in raw["results"] for one in _results(row)])
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise Failure(f"{path}: not the results of a benchmark suite: {error}") from error
