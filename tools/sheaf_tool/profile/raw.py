# SPDX-License-Identifier: MIT
"""The document with raw samples that the library writes. Whatever parse() returns is consistent: indices are in range,
numbers are not negative, strings are valid UTF-8.

    {"profile": 1, "on": true, "mean": BYTES, "began_ms": N, "now_ms": N, "full": N,
     "stacks": [["HEX", ...], ...],                           (return addresses, the innermost first)
     "rows": [{"stack": N, "cache": "NAME", "group": "NAME", "size": BYTES, "live": [N, BYTES], "all": [N, BYTES],
               "peak": [N, BYTES], "freed": N, "elsewhere": N, "lifetime_ms": N}, ...],
     "samples": [[BYTES, ROW, THREAD, MS], ...],              (those in use, with the time of their allocation)
     "program": "/path", "pid": N,
     "maps": [{"start": "HEX", "end": "HEX", "offset": N, "file": "/path", "build_id": "HEX"}]}

"on": samples are still taken. "full" counts the samples for which there was no room. The bytes of a row are those that the
program asked for. "group" is optional. The last three keys are added by who fetches a profile from a process, if it does not say them itself.
"""
from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import Failure
from ..forms import MOST, has_form

VERSION = 1
VALUES = "live", "all", "peak"
FORM = {
    "on": bool, "mean": int, "began_ms": float, "now_ms": float, "full": int, "stacks": [[str]],
    "rows": [{"stack": int, "cache": str, "size": int, **{key: [int] for key in VALUES}, "freed": int, "elsewhere": int,
              "lifetime_ms": float}],
    "samples": [[float]], "program": str, "pid": int,
    "maps": [{"start": str, "end": str, "offset": int, "file": str, "build_id": str}]}


@dataclass(frozen=True)
class Map:
    start: int
    end: int
    offset: int
    file: str
    build_id: str


@dataclass(frozen=True)
class Row:
    stack: int
    cache: str
    group: str
    size: int
    values: dict[str, tuple[int, int]]  # live, all, peak: samples, and the bytes asked for by them
    freed: int
    elsewhere: int
    lifetime_ms: float


@dataclass(frozen=True)
class Sample:
    asked: int
    row: int
    thread: int
    ms: float


@dataclass(frozen=True)
class Raw:
    document: dict[str, Any]
    program: str
    pid: int
    on: bool
    mean: int
    began_ms: float
    now_ms: float
    full: int
    maps: list[Map]
    stacks: list[tuple[int, ...]]
    rows: list[Row]
    samples: list[Sample]
    taken: float  # when, in seconds since 1970; 0: unknown


def _natural(*numbers: float) -> None:
    if min(numbers) < 0 or max(numbers) > MOST:
        raise ValueError("it has a number that cannot be")


def _text(text: Any) -> str:
    return str(text).encode("utf-8", "replace").decode()  # a surrogate can be in JSON, but cannot be written


def _address(text: str) -> int:
    found = int(text, 16)
    if not 0 <= found < 1 << 64:
        raise ValueError("it has an address of more than 64 bits")
    return found


def _map(one: dict[str, Any]) -> Map:
    found = Map(_address(one["start"]), _address(one["end"]), one["offset"], _text(one["file"]), one["build_id"].lower())
    _natural(found.offset, found.end - found.start - 1)
    bytes.fromhex(found.build_id)
    return found


def _pair(one: list[int]) -> tuple[int, int]:
    n, size = one
    _natural(n, size)
    return n, size


def _row(one: dict[str, Any], stacks: int) -> Row:
    found = Row(one["stack"], _text(one["cache"]), _text(one.get("group", "")), one["size"],
                {key: _pair(one[key]) for key in VALUES}, one["freed"], one["elsewhere"], one["lifetime_ms"])
    _natural(found.stack, stacks - found.stack - 1, found.size - 1, found.elsewhere, found.freed - found.elsewhere,
             found.lifetime_ms)
    return found


def _sample(one: list[Any], rows: int) -> Sample:
    asked, row, thread, ms = one
    found = Sample(int(asked), int(row), int(thread), ms)
    _natural(found.asked, found.row, rows - found.row - 1, found.thread, found.ms)
    return found


def _parsed(document: Any, taken: float) -> Raw:
    version = document.get("profile") if isinstance(document, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise ValueError(f"it has form {str(version)[:9]}, and this version reads form {VERSION}: use the `sheaf` of its libsheaf")
    if not has_form(document, {"profile": int, **FORM}):
        raise ValueError("its keys are others")
    stacks = [tuple(map(_address, stack)) for stack in document["stacks"]]
    rows = [_row(one, len(stacks)) for one in document["rows"]]
    _natural(document["pid"], document["mean"] - 1, document["began_ms"], document["now_ms"], document["full"])
    return Raw(document, _text(document["program"]), document["pid"], document["on"], document["mean"],
               document["began_ms"], document["now_ms"], document["full"], [_map(one) for one in document["maps"]], stacks, rows,
               [_sample(one, len(rows)) for one in document["samples"]], taken)


def parse(text: str, name: str, taken: float = 0, more: dict[str, Any] | None = None) -> Raw:
    """name is for the line that says what is wrong; more has values of keys that the document lacks."""
    try:
        document = json.loads(text)
        if isinstance(document, dict):
            document = {**(more or {}), **document}
        return _parsed(document, taken)
    except (ValueError, RecursionError) as error:
        why = str(error).splitlines()[0] if text.strip() else "it is empty"
    raise Failure(f"{name} is no heap profile of libsheaf, or it is damaged: {why}")


def read(name: str) -> Raw:
    """From a file, which may be compressed by gzip."""
    try:
        data = Path(name).read_bytes()
        taken = Path(name).stat().st_mtime
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Failure(f"{name} is damaged: {error}") from None
    except OSError as error:
        raise Failure(f"{name}: {error.strerror}") from None
    return parse(data.decode("utf-8", "replace"), name, taken)


def render(raw: Raw) -> str:
    return json.dumps(raw.document, separators=(",", ":")) + "\n"
