# SPDX-License-Identifier: MIT
"""What an address is: which object of which cache, and where that object is now."""
from __future__ import annotations

from typing import Any, Iterator

from .cache import Cache, Slab, slab_of
from .library import Library
from .sheaves import CPU, PASSED, WAITS, retired, sheaves_of
from .stacks import tracks


def explain(library: Library, address: int) -> str:
    """Lines for a person."""
    slab = slab_of(library, address)
    if slab:
        lines = _of_slab(library, slab, address)
    elif 0 <= address - int(library.table["guards"]["base"]) < int(library.table["guards"]["size"]):
        lines = _of_guarded(library, address)
    elif 0 <= address - library.base < int(library.pages["size"]):
        lines = [f"{address:#x} is in a free page, or in one of the library's own"]
    else:
        lines = _of_mapping(library, address)
    return "\n".join(lines)


def state_name(library: Library, state: int) -> str:
    """An enum debug_state."""
    names = {"free": "free", "used": "in use", "waits": "waits for a grace period", "busy": "being freed",
             "rests": "free, and rests in the quarantine",
             "leaked": "kept out of use: it was written to while it was free"}
    return next((name for key, name in names.items() if library.number[f"state_{key.upper()}"] == state), "")


def _beside(address: int, start: int, size: int, what: str) -> str:
    """The first line: how the address is related to a block of memory."""
    if address == start:
        return f"{address:#x} is {what}"
    if address < start:
        return f"{address:#x} is {start - address} bytes in front of {what}"
    if address < start + size:
        return f"{address:#x} is {address - start} bytes into {what}"
    return f"{address:#x} is {address - start - size} bytes past the end of {what}"


# --- objects of slabs ---------------------------------------------------------------------------------


def _of_slab(library: Library, slab: Slab, address: int) -> list[str]:
    cache = Cache.of_owner(library, slab.owner)
    order, objects = cache.order(slab)
    # What precedes an object belongs to it: its red zone, and who used it.
    before = int(cache.debug["extra"]["before"]) if cache.debug is not None else 0
    index = min(max(0, address - slab.start - cache.first + before) // cache.stride, objects - 1)
    start = cache.object_at(slab, index)
    size = cache.object_size
    is_free = bool(cache.free_bits(slab) >> index & 1)
    states = list(_states(cache, start, is_free))
    if cache.debug is not None and states[0][1]:
        size = _head(cache, start)[1]
    lines = [_beside(address, start, size, f"an object of cache {cache.name}"),
             f"Object {start:#x}, {size} bytes, index {index} of {objects} in slab {slab.start:#x} "
             f"({1 << order} pages, {cache.in_use(slab)} objects outside it)"]
    lines += [f"State: {text}" for text, _ in states]
    if cache.debug is not None and states[0][1] and int(cache.debug["flags"]) & library.number["letter_U"]:
        lines += tracks(library, *(_track(cache, start, deed) for deed in (0, 1)))
    return lines


def _head_at(cache: Cache, start: int) -> int:
    """Where the debug_head of a checked cache's object is."""
    return start - int(cache.debug["left"]) - cache.library.size("debug_head")


def _head(cache: Cache, start: int) -> tuple[int, int]:
    """The state, and the bytes that were requested; zeros, if the memory was never written."""
    library = cache.library
    data = library.read(_head_at(cache, start), library.size("debug_head")) or bytes(library.size("debug_head"))
    return library.member("debug_head", "state", data), library.member("debug_head", "size", data)


def _track(cache: Cache, start: int, deed: int) -> Any:
    """deed: 0 for who allocated, 1 for who freed."""
    library = cache.library
    return library.value("debug_track", _head_at(cache, start) - (2 - deed) * library.size("debug_track"))


def _states(cache: Cache, start: int, is_free: bool) -> Iterator[tuple[str, bool]]:
    """What is known of the object's state, and whether the bytes in front of it have a meaning."""
    library = cache.library
    if cache.debug is not None:
        state = _head(cache, start)[0]
        name = state_name(library, state)
        if is_free and not name:
            yield "free in its slab, and never used", False
        elif is_free:
            yield "free in its slab", True
        else:
            yield name or f"unknown: the library's word in front of it was overwritten, and is {state:#x}", True
        return
    if is_free:
        yield "free in its slab", False
    else:
        yield _state_in_sheaves(cache, start), False
    if cache.flags & library.number["cache_marked"]:
        yield f"marked as {_mark(library, start)}", False


def _state_in_sheaves(cache: Cache, start: int) -> str:
    """Of an object that its slab counts as used: as kmem_cache_verify(), it may be in any sheaf."""
    library = cache.library
    for sheaf in [*sheaves_of(cache), *retired(library)]:
        if start not in sheaf.objects(library):
            continue
        if sheaf.kind == WAITS:
            return f"waits for a grace period, in {sheaf.place}"
        if sheaf.kind == PASSED:
            return f"free: its grace period has passed, in {sheaf.place}"
        return f"free, in the {'' if sheaf.kind == CPU else 'barn: '}{sheaf.place}"
    return "in use, or in the hands of a thread that is in a call of the library"


def _mark(library: Library, start: int) -> str:
    """Of a hardened cache: src/page/object_marks.h."""
    number = library.number
    marks = int(library.pages["marks"])
    mark = (library.read(marks + ((start - library.base) >> number["mark_shift"]), 1) or b"\0")[0]
    names = {number["mark_free"]: "free", number["mark_used"]: "in use", number["mark_waits"]: "waiting for a grace period"}
    return names.get(mark & number["mark_waits"], "no object")


# --- blocks that are no objects -----------------------------------------------------------------------


def _of_mapping(library: Library, address: int) -> list[str]:
    found = _mapping(library, address)
    if not found:
        return [f"{address:#x} is no memory of libsheaf"]
    start, size = found
    return [_beside(address, start, size, "a large block"),
            f"Block {start:#x}, {size} bytes, {_state_of_block(library, start)}"]


def _state_of_block(library: Library, start: int) -> str:
    for sheaf in retired(library):
        if start in sheaf.objects(library):
            return "waits for a grace period" if sheaf.kind == WAITS else "is freed next: its grace period has passed"
    return "in use"


def _mapping(library: Library, address: int) -> tuple[int, int] | None:
    """As map_find() of src/page/map.c."""
    number = library.number
    table = library.objfile.lookup_static_symbol("map_leaves")
    leaves = table and table.value()

    def entry(at: int) -> int:
        leaf = at >> number["map_leaf_bits"]
        if leaf > leaves.type.range()[1] or not int(leaves[leaf]):
            return 0
        return library.words(int(leaves[leaf]) + 8 * (at & ((1 << number["map_leaf_bits"]) - 1)), 1)[0]

    if leaves is None:
        return None
    at = address >> number["huge_shift"]
    found = entry(at)
    if found and not found & number["map_head"]:
        at -= found >> 1
        found = entry(at)
    start, size = at << number["huge_shift"], found & -(1 << number["page_shift"])
    if found & number["map_owned"]:
        size &= (1 << 32) - 1
    return (start, size) if found & number["map_head"] and address - start < size else None


# --- guarded objects ----------------------------------------------------------------------------------


def _of_guarded(library: Library, address: int) -> list[str]:
    """The slot whose object is next to the address, of those of its chunk."""
    base, size = (int(library.table["guards"][name]) for name in ("base", "size"))
    number, record = library.number, library.size("guard_slot")
    first = ((address - base) >> number["huge_shift"]) * number["guard_slots"]
    slots = base + size
    notes = slots + (size >> number["huge_shift"]) * number["guard_slots"] * record
    data = library.read(slots + first * record, number["guard_slots"] * record) or b""
    best = None
    for i in range(len(data) // record):
        slot = data[i * record:(i + 1) * record]
        start, length = (library.member("guard_slot", name, slot) for name in ("object", "size"))
        if start:
            distance = max(start - address, address - start - length + 1, 0)
            if best is None or distance < best[0]:
                best = distance, first + i, slot, start, length
    if best is None:
        return [f"{address:#x} is between guard pages, where no object was yet"]
    _, index, slot, start, length = best
    note = library.value("guard_notes", notes + index * library.size("guard_notes"))
    state = library.member("guard_slot", "state", slot)
    lines = [_beside(address, start, length, f"a guarded object of cache {note['name'].string(errors='replace')}"),
             f"Object {start:#x}, {length} bytes, between guard pages",
             f"State: {state_name(library, state) or 'being allocated'}"]
    return lines + tracks(library, note["tracks"][0], note["tracks"][1])
