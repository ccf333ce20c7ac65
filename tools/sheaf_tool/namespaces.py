# SPDX-License-Identifier: MIT
"""Processes in other namespaces, such as those of containers. The command knows each by its PID here.

A process names its file and its control socket by its own PID, which may be another one in its PID namespace.
The file is in the /dev/shm of its mount namespace, the socket in its network namespace.
"""
from __future__ import annotations

import ctypes
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator


def pids() -> list[int]:
    """All processes that can be seen here."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())


def own_number(pid: int) -> int:
    """Its PID as it sees it itself."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return pid
    found = re.search(r"^NSpid:.*\t(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else pid


def is_other(pid: int, kind: str) -> bool:
    """True if its namespace of this kind ("mnt", "net") is another one than ours. False if that is unknown."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return False


def root_of(pid: int) -> Path:
    """Where its files are, seen from here."""
    return Path(f"/proc/{pid}/root") if is_other(pid, "mnt") else Path("/")


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Be in its network namespace; OSError if that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(file: int) -> None:
        if libc.setns(file, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    with open("/proc/self/ns/net", "rb") as own, open(f"/proc/{pid}/ns/net", "rb") as other:
        enter(other.fileno())
        try:
            yield
        finally:
            enter(own.fileno())
