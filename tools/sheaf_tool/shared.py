# SPDX-License-Identifier: MIT
"""The files of counters: which ones exist, which process owns each, and which are left over.

A process with SHEAF_OPTIONS=stats or stats=live has /dev/shm/libsheaf-PID, readable by its user only.
It removes the file at exit, but not if it is killed. As long as it uses the file it holds a shared
flock() on it; src/os/linux/counter_file.c describes how. The PID in the name does not prove who owns a file:
a process in another PID namespace may have the same one. So a file is removed only with its lock held
exclusively.
"""
from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from . import namespaces
from .errors import Failure
from .table import printable

DIRECTORY = Path("/dev/shm")
NAME = re.compile(r"libsheaf-([1-9][0-9]*)")
SETTLED = 10.0  # seconds after which its process has certainly mapped a new file
HOW = "start it with SHEAF_OPTIONS=stats=live"


class NoStatistics(Failure):
    """The process has no file."""


def path_of(pid: int) -> Path:
    """The file with this number here."""
    return DIRECTORY / f"libsheaf-{pid}"


def place_of(pid: int) -> Path:
    """Where this process has its file: in its own mount namespace, with its own number."""
    return namespaces.root_of(pid) / str(path_of(namespaces.own_number(pid))).lstrip("/")


def _tasks(pid: int) -> Iterator[Path]:
    """Its threads that have not ended. The main thread may end before the others."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            status = (task / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if status.rpartition(")")[2].split()[0] not in "ZX":
            yield task


def runs(pid: int) -> bool:
    """True if the process exists. A zombie counts as ended."""
    return next(_tasks(pid), None) is not None


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError:
        return "?"


def command_line_of(pid: int) -> str:
    """The command with its arguments, if they can be read, for one line of a terminal."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
    except OSError:
        words = b""
    return printable(words.decode("utf-8", "replace") or command_of(pid))[:80]


def resident_of(pid: int) -> tuple[int, int]:
    """Its resident bytes, now and the peak; 0 if it has ended or they are unknown."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0, 0
    found = dict(re.findall(r"^(VmRSS|VmHWM):\s*(\d+) kB$", text, re.MULTILINE))
    return int(found.get("VmRSS", 0)) << 10, int(found.get("VmHWM", 0)) << 10


def _maps(pid: int, path: Path) -> bool:
    """True if the process has the file mapped, or if that is unknown."""
    task = next(_tasks(pid), None)
    if task is None:
        return False
    try:
        text = (task / "maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    file = path.stat()
    device = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}"
    return any(line.split()[3:5] == [device, str(file.st_ino)] for line in text.splitlines())


def _settled(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > SETTLED


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Take the file's lock, if no process uses the file."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield os.path.samestat(os.fstat(file), path.lstat())
    except BlockingIOError:
        yield False
    finally:
        os.close(file)


def left_over(pid: int) -> bool:
    """True if no process owns this PID's file: its process may have ended, and another may have the PID."""
    path = path_of(pid)
    try:
        if runs(pid) and (not _settled(path) or _maps(pid, path)):
            return False
        with _alone(path) as alone:
            return alone
    except OSError:
        return False


def remove_left_over(pid: int) -> None:
    """Remove the file if it belongs to this user, or this is root, and no process owns it."""
    path = path_of(pid)
    try:
        with _alone(path) as alone:
            if alone and os.geteuid() in (0, path.lstat().st_uid):
                path.unlink()
    except OSError:
        pass


def processes() -> list[int]:
    """The processes whose counters we can read, in order; files that are left over here are removed."""
    try:
        names = os.listdir(DIRECTORY)
    except OSError:
        names = []
    for match in filter(None, map(NAME.fullmatch, names)):
        if left_over(int(match[1])):
            remove_left_over(int(match[1]))
    return [pid for pid in namespaces.pids() if os.access(place_of(pid), os.R_OK) and _has(pid)]


def _has(pid: int) -> bool:
    """False if the file belongs to another process with the same number in its own PID namespace."""
    place = place_of(pid)
    try:
        return not _settled(place) or _maps(pid, place)
    except OSError:
        return False


def _its_own(pid: int, file: int) -> int:
    """Only the process's user, or root, which a process may have been before, may have created the file: another
    user could change it while it is read."""
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.stat(f"/proc/{pid}").st_uid):
        return file
    os.close(file)
    raise Failure(f"{place_of(pid)} was not created by process {pid}: not read")


def open_file(pid: int) -> int:
    """The file of a running process, open for reading."""
    if left_over(pid):
        remove_left_over(pid)
    if not runs(pid):
        raise Failure(f"there is no process {pid}; `sheaf info` lists those with statistics")
    try:
        place = place_of(pid)
        if _settled(place) and not _maps(pid, place):
            raise FileNotFoundError  # a process in another PID namespace has the same PID
        # Do not wait for a writer if there is a pipe with this name.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        return _its_own(pid, os.open(place, flags))
    except FileNotFoundError:
        raise NoStatistics(f"process {pid} ({command_of(pid)}) has no statistics: {HOW}") from None
    except PermissionError:
        raise Failure(f"no permission to read the statistics of process {pid}: only its user "
                      "may read them") from None
    except OSError as error:
        raise Failure(f"{place_of(pid)}: {error.strerror}") from None


def open_left(pid: int) -> int:
    """The file that a zombie child of ours left."""
    try:
        return _its_own(pid, os.open(path_of(pid), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
    except OSError as error:
        raise Failure(f"{path_of(pid)}: {error.strerror}") from None


def number(word: str) -> int:
    """A PID from the command line."""
    if not re.fullmatch(r"[1-9][0-9]{0,9}", word):
        raise Failure(f"{word!r} is not a PID; `sheaf info` lists those with "
                      "statistics")
    return int(word)
