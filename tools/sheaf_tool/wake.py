# SPDX-License-Identifier: MIT
"""Wakes a process that was started without SHEAF_OPTIONS=control: see src/os/channel.h.

It is what a debugger does, and needs the same rights. The process's own memory says where the word is, so its files
need not be found: they may be in a container, or replaced since.
"""
from __future__ import annotations

import os
import struct
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from .elf import HEAD, LOAD, PART
from .errors import Failure

NOTE_PART = 4
NOTE = struct.pack("<3I12s", 9, 8, 0x5eaf0001, b"libsheaf")
DISTANCE, WORD = struct.Struct("<q"), struct.Struct("<i")
WOKEN = 0x656b6177
SECURE = 23  # AT_SECURE


@contextmanager
def _memory(pid: int) -> Iterator[int]:
    try:
        file = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:
        raise Failure(f"process {pid} has no control socket, and may not be woken: that takes the rights to trace it, of "
                      f"its user or root{_scope()}") from None
    except OSError:
        raise Failure(f"there is no process {pid}") from None
    try:
        yield file
    except (OSError, struct.error):
        raise Failure(f"process {pid} has ended") from None
    finally:
        os.close(file)


def _scope() -> str:
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return "" if scope == "0" else f"; kernel.yama.ptrace_scope is {scope}: {'no one' if scope == '3' else 'only root'} may"


def _is_secure(pid: int) -> bool:
    """Did it get rights that its user has not? Such a process reads no options either."""
    data = Path(f"/proc/{pid}/auxv").read_bytes()
    return (SECURE, 1) in struct.iter_unpack("<QQ", data[:len(data) // 16 * 16])


def _object(memory: int, start: int) -> Iterator[int]:
    """The addresses of words in the ELF object that begins here."""
    head = HEAD.unpack(os.pread(memory, HEAD.size, start))
    if head[0][:6] != b"\x7fELF\x02\x01":
        return
    parts = [PART.unpack(os.pread(memory, PART.size, start + head[5] + i * PART.size)) for i in range(head[10])]
    moved = start - next(address for kind, _, offset, address, *_ in parts if kind == LOAD and not offset)
    for kind, _, _, address, _, size, *_ in parts:
        data = os.pread(memory, size, moved + address) if kind == NOTE_PART else b""
        at = data.find(NOTE)
        if at >= 0:
            at += len(NOTE)
            yield moved + address + at + DISTANCE.unpack_from(data, at)[0]


def find(pid: int) -> list[int]:
    """The addresses of its words: a program and a library that it loads may each have a copy of libsheaf."""
    found: list[int] = []
    with _memory(pid) as memory:
        if _is_secure(pid):
            raise Failure(f"process {pid} is not woken: it is set-user-ID or has capabilities, and takes no options from outside")
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
            addresses, rights, offset, _, inode, *_ = line.split()
            if rights[0] == "r" and int(offset, 16) == 0 and inode != "0":
                try:
                    found += _object(memory, int(addresses.split("-")[0], 16))
                except (OSError, struct.error, StopIteration, RuntimeError):  # no ELF file
                    continue
    if not found:
        raise Failure(f"process {pid} has no libsheaf, or a version that cannot be woken")
    return found


def wake(pid: int, words: list[int], again: bool) -> None:
    """Set words that are not set; Failure if the process could not create a socket since the last time."""
    with _memory(pid) as memory:
        values = [WORD.unpack(os.pread(memory, WORD.size, word))[0] for word in words]
        if again and max(values) < 0:
            raise Failure(f"process {pid} cannot create its control socket: {os.strerror(-max(values))}")
        for word, value in zip(words, values):
            if value == 0 or (value < 0 and not again):
                os.pwrite(memory, WORD.pack(WOKEN), word)
