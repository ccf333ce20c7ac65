# SPDX-License-Identifier: MIT
"""File and line of the functions in a stack, by llvm-symbolizer or addr2line, if one of them is there."""
from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any, Iterable

PATIENCE = 60  # seconds


def _command(module: str) -> list[str] | None:
    """Both tools read offsets and write, for each, its functions with file and line in two lines; inlined
    ones first."""
    if found := shutil.which("llvm-symbolizer"):
        return [found, f"--obj={module}", "--output-style=GNU", "--functions"]
    if found := shutil.which("addr2line"):
        return [found, "-e", module, "-f", "-C"]
    return None


def _places(module: str, offsets: list[int]) -> list[str]:
    """For each offset "function at file:line", or ""."""
    command = _command(module)
    if not command or not os.path.exists(module):
        return [""] * len(offsets)
    try:
        # One by one: with inlined functions, the number of lines of each would be unknown.
        told = subprocess.run(command, input="".join(f"{offset:#x}\n" for offset in offsets), text=True,
                              errors="replace", capture_output=True, timeout=PATIENCE, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return [""] * len(offsets)
    lines = [line for line in told.splitlines() if line]
    if len(lines) != 2 * len(offsets):
        return [""] * len(offsets)
    pairs = zip(lines[::2], lines[1::2])
    return ["" if "??" in place else f"{function} at {place.split(' (')[0]}" for function, place in pairs]


def _file(pid: int, module: str) -> str:
    """Where this process has it: it may have another root, and the program may have been replaced."""
    program = f"/proc/{pid}/exe"
    try:
        if os.path.basename(os.readlink(program)) == os.path.basename(module):
            return program
    except OSError:
        pass
    inside = f"/proc/{pid}/root{module}"
    return inside if os.path.exists(inside) else module


def resolve(pid: int, frames: Iterable[dict[str, Any]]) -> None:
    """Add "place" to frames that have a module and an offset. A return address is behind its call."""
    by_module: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for frame in frames:
        if frame.get("module"):
            offsets = by_module.setdefault(frame["module"], {})
            offsets.setdefault(int(frame["offset"], 0) - 1, []).append(frame)
    for module, offsets in by_module.items():
        for offset, place in zip(offsets, _places(_file(pid, module), list(offsets))):
            for frame in offsets[offset]:
                frame["place"] = place
