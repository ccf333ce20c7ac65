# SPDX-License-Identifier: MIT
"""The files that libsheaf shows its counters in: which there are, whose, and which are left over.

A process with SHEAF_OPTIONS=stats or stats=live has /dev/shm/libsheaf-PID, readable by its user only.
It removes the file at exit, but not if it is killed.
"""
from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path

from .errors import Failure

DIRECTORY = Path("/dev/shm")
NAME = re.compile(r"libsheaf-([1-9][0-9]*)")
SETTLED = 10.0  # seconds until a new file is surely mapped by its process
HOW = "start it with SHEAF_OPTIONS=stats=live"


def path_of(pid: int) -> Path:
    return DIRECTORY / f"libsheaf-{pid}"


def runs(pid: int) -> bool:
    """Is there such a process? One that nobody has waited for yet has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError:
        return "?"


def _maps(pid: int, path: Path) -> bool:
    """Does the process have the file mapped? If that cannot be known, yes."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return any(line.endswith(str(path)) for line in text.splitlines())


def left_over(pid: int) -> bool:
    """Is the file of this number nobody's? A process may have ended, and another got its number."""
    path = path_of(pid)
    try:
        age = time.time() - path.stat().st_mtime
    except OSError:
        return False
    return not runs(pid) or (age > SETTLED and not _maps(pid, path))


def remove_left_over(pid: int) -> bool:
    """Remove it if it is ours; true if it is gone."""
    path = path_of(pid)
    try:
        if path.lstat().st_uid != os.geteuid():
            return False
        path.unlink()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def processes() -> list[int]:
    """Who shows counters to us, in order; what was left over is removed."""
    found = []
    try:
        names = os.listdir(DIRECTORY)
    except OSError:
        names = []
    for name in names:
        match = NAME.fullmatch(name)
        if not match:
            continue
        pid = int(match[1])
        if left_over(pid):
            remove_left_over(pid)
        elif os.access(path_of(pid), os.R_OK):
            found.append(pid)
    return sorted(found)


def _its_own(pid: int, file: int) -> int:
    """Only the process's user may have made the file: others could change it while it is read."""
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.stat(f"/proc/{pid}").st_uid:
        return file
    os.close(file)
    raise Failure(f"{path_of(pid)} was not made by process {pid}: it is left alone")


def open_file(pid: int) -> int:
    """The file of a running process, open for reading."""
    if left_over(pid):
        remove_left_over(pid)
    if not runs(pid):
        raise Failure(f"there is no process {pid}; `sheaf info` lists those with statistics")
    try:
        # Not to wait for a writer, if somebody made a pipe of this name.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        return _its_own(pid, os.open(path_of(pid), flags))
    except FileNotFoundError:
        raise Failure(f"process {pid} ({command_of(pid)}) shows no statistics: {HOW}") from None
    except PermissionError:
        raise Failure(f"no permission to read the statistics of process {pid}: they are for its "
                      "user only") from None
    except OSError as error:
        raise Failure(f"{path_of(pid)}: {error.strerror}") from None


def number(word: str) -> int:
    """A process's number from the command line."""
    if not re.fullmatch(r"[1-9][0-9]{0,9}", word):
        raise Failure(f"{word!r} is not the number of a process; `sheaf info` lists those with "
                      "statistics")
    return int(word)
