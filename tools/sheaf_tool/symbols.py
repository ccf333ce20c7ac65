# SPDX-License-Identifier: MIT
"""File and line of the functions in a stack, by llvm-symbolizer or addr2line, if one of them is there."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any, Iterable

PATIENCE = 60  # seconds
ADDRESS = re.compile(r"0x[0-9a-f]+")


def _command(module: str) -> list[str] | None:
    """Both tools read offsets and write, for each, a line with it, and then two lines for each function, with file
    and line: first those that are inlined, last the one into which they are."""
    if found := shutil.which("llvm-symbolizer"):
        return [found, f"--obj={module}", "--output-style=GNU", "--functions", "--addresses", "--inlines"]
    if found := shutil.which("addr2line"):
        return [found, "-e", module, "-f", "-C", "-a", "-i"]
    return None


def is_there() -> bool:
    return _command("") is not None


def functions(module: str, offsets: list[int], patience: float = PATIENCE) -> list[list[tuple[str, str]]]:
    """For each offset in the file the function and "file:line", the innermost one first; nothing if that is unknown.
    A function without debug data is at "??:0"."""
    command = _command(module)
    none: list[list[tuple[str, str]]] = [[] for _ in offsets]
    if not command or not os.path.exists(module):
        return none
    try:
        output = subprocess.run(command, input="".join(f"{offset:#x}\n" for offset in offsets), text=True,
                                errors="replace", capture_output=True, timeout=patience, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return none
    answers: list[list[str]] = []
    for line in filter(None, output.splitlines()):
        if ADDRESS.fullmatch(line):
            answers.append([])
        elif answers:
            answers[-1].append(line)
    if len(answers) != len(offsets):
        return none
    return [[(function, place.split(" (")[0]) for function, place in zip(lines[::2], lines[1::2])
             if "??" not in place or function != "??"] for lines in answers]


def places(module: str, offsets: list[int]) -> list[list[str]]:
    """For each offset in the file "function at file:line", the innermost one first; nothing if that is unknown."""
    return [[f"{function} at {place}" for function, place in found if "??" not in place]
            for found in functions(module, offsets)]


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
    """Add "place" to frames that have a module and an offset, and "inlined_by" to those of inlined functions. A
    return address is behind its call."""
    by_module: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for frame in frames:
        if frame.get("module") and ADDRESS.fullmatch(frame["offset"]):
            offsets = by_module.setdefault(frame["module"], {})
            offsets.setdefault(int(frame["offset"], 0) - 1, []).append(frame)
    for module, offsets in by_module.items():
        for offset, found in zip(offsets, places(_file(pid, module), list(offsets))):
            for frame in offsets[offset]:
                frame["place"] = found[0] if found else ""
                if len(found) > 1:
                    frame["inlined_by"] = found[1:]
