# SPDX-License-Identifier: MIT
"""What a program needs to have libsheaf-malloc.so preloaded, and why some cannot have it."""
from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from . import elf

SCRIPTS = 4  # as many interpreters as the kernel follows


def _words(path: str) -> list[str]:
    """The interpreter of a script, with its argument."""
    try:
        with open(path, "rb") as file:
            line = file.readline(256)
    except OSError:
        return []
    return os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []


def program_of(command: str) -> str | None:
    """The file that a command runs: of a script, its interpreter."""
    path = shutil.which(command)
    for _ in range(SCRIPTS):
        words = _words(path) if path else []
        if not words:
            break
        is_env = os.path.basename(words[0]) == "env" and len(words) == 2
        path = shutil.which(words[-1] if is_env else words[0])
    return path


def _is_privileged(path: str) -> bool:
    """Does it get rights that its user has not? The loader then ignores LD_PRELOAD."""
    found = os.stat(path)
    if found.st_mode & stat.S_ISUID and found.st_uid != os.geteuid():
        return True
    if found.st_mode & stat.S_ISGID and found.st_gid != os.getegid():
        return True
    try:
        return os.geteuid() != 0 and bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def obstacle(path: str, library: Path) -> str | None:
    """Why the program keeps its own malloc(), as the rest of a sentence about it; None if it need not."""
    head, ours = elf.head(path), elf.head(str(library))
    if head is None or ours is None or head.machine != ours.machine:
        return "is for another architecture"
    if not head.interpreter:
        return "is static"
    if _is_privileged(path):
        return "is set-user-ID or has capabilities"
    if any(name.startswith(("libasan.so", "libclang_rt.asan")) for name in head.needed):
        return "has a shared AddressSanitizer, which refuses preloaded libraries"
    return None


def contains_libsheaf(path: str) -> bool:
    """In libsheaf.a its code is in a section of this name; that of a build has its symbols."""
    head = elf.head(path)
    return head is not None and ("sheaf_text" in head.sections or elf.has_function(path, "sheaf_kmem_cache_alloc"))


def variable(library: Path) -> str:
    """LD_PRELOAD with the library before what the user preloads."""
    return ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD", "")]))
