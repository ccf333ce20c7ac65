# SPDX-License-Identifier: MIT
"""jemalloc's text, heap_v2, which jeprof reads.

Its readers unsample: they multiply the objects and bytes of a record by 1 / (1 - exp(-mean size / mean)), with the mean
size of its objects. So it has the samples as they are. A record is one class of one stack, and its bytes are those of
the class, as jemalloc's are, not those asked for: with them the readers' factor is exactly ours.
"""
from __future__ import annotations

from ..errors import Failure
from ..table import one_line
from .estimate import Profile
from .raw import Map, Row


def _counts(row: Row | None, rows: list[Row], which: str) -> str:
    def pair(key: str) -> tuple[int, int]:
        chosen = [row] if row else rows
        return sum(one.values[key][0] for one in chosen), sum(one.values[key][0] * one.size for one in chosen)
    (now, now_bytes), (all_, all_bytes) = pair(which), pair("all")
    return f"  t*: {now}: {now_bytes} [{all_}: {all_bytes}]\n"


def _map(one: Map) -> str:
    return f"{one.start:x}-{one.end:x} r-xp {one.offset:08x} 00:00 0 {one_line(one.file)}\n"


def render(profile: Profile, which: str) -> str:
    """which: live, peak or all, as what readers call in use."""
    if profile.signed or len(profile.raws) != 1:
        raise Failure("--format jemalloc holds one profile of one process: write one file each; "
                      "`jeprof --base` makes the difference")
    raw = profile.raws[0]
    rows = [row for row in raw.rows if raw.stacks[row.stack] and (row.values[which][0] or row.values["all"][0])]
    parts = [f"heap_v2/{raw.mean}\n", _counts(None, rows, which)]
    for row in rows:
        parts += [f"@ {' '.join(f'{address:#x}' for address in raw.stacks[row.stack])}\n", _counts(row, rows, which)]
    return "".join([*parts, "\nMAPPED_LIBRARIES:\n", *map(_map, raw.maps)])
