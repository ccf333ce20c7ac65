# SPDX-License-Identifier: MIT
"""How programs call an allocator: in place, in a static library, or in a shared one."""
from __future__ import annotations

from typing import Iterator

from ..allocators import CALLED, INLINE, KMALLOC, OURS, OURS_SHARED, OURS_STATIC, STATIC_PEERS, peers
from ..document import Document

IN_PLACE = ("dpdk",)  # peers that are compiled into the program


def ways(document: Document) -> Iterator[tuple[str, str, list[str]]]:
    """Each way, ours in this way, and the names of all that were measured in it: ours first."""
    measured = document.allocators()
    others = peers(measured)
    for (way, ours, theirs), by_size in zip((
            ("in place", OURS, [name for name in others if name in IN_PLACE]),
            ("static", OURS_STATIC, [name for name in measured if name in STATIC_PEERS]),
            ("shared", OURS_SHARED, [name for name in others if name not in IN_PLACE])), KMALLOC):
        yield way, ours, [name for name in (ours, by_size, *theirs) if name in measured]


def called(document: Document) -> list[str]:
    """What the rows of ours mean."""
    measured = document.allocators()
    if "sheaf" not in document.machine:
        said = f"{OURS} made calls, to the static library, in the version that was measured."
        return [said + (f" {INLINE}: in place." if INLINE in measured else "")]
    return [f"{OURS}: the common calls {document.machine['sheaf']}, as in every program of this build. {OURS_STATIC} and "
            f"{OURS_SHARED} define SHEAF_NO_INLINE and make the call, linked with the static and the shared library. "
            "NAME-static is that peer's archive; the other mallocs are shared libraries."]
