# SPDX-License-Identifier: MIT
"""A cache and its slabs: sizes, flags, and which objects are free in their slab."""
from __future__ import annotations

import struct
from typing import Iterator, NamedTuple

import gdb

from .library import Library


class Slab(NamedTuple):
    """A run of pages, by its descriptor."""
    descriptor: int
    start: int  # its first byte
    state: int
    owner: int  # the slab_cache
    bits: int   # one for each free object, the lowest for the first


class Cache:
    """One cache; all of it is read when it is created."""

    def __init__(self, library: Library, address: int) -> None:
        self.library, self.address = library, address
        value = library.value("kmem_cache", address)
        self.flags, self.sheaves = int(value["flags"]), value["sheaf"]
        slab = self.sheaves["slab"]
        self.name = slab["name"].string(errors="replace") if int(slab["name"]) else "?"
        self.is_destroyed = not int(value["name"])
        self.stride, self.object_size, self.first = int(slab["size"]), int(slab["object_size"]), int(slab["first"])
        self.usual, self.small = ((int(slab[name]["order"]), int(slab[name]["objects"])) for name in ("oo", "min"))
        self.owner = address + library.at("kmem_cache", "sheaf.slab")
        self.handle = int(self.sheaves["at"]["handle"])
        self.is_checked = bool(self.flags & library.number["cache_checked"])
        self.debug = None
        if self.is_checked and int(slab["extra"]):
            self.debug = library.value("debug_cache", int(slab["extra"]))

    @classmethod
    def of_owner(cls, library: Library, owner: int) -> Cache:
        """By what descriptors name."""
        return cls(library, owner - library.at("kmem_cache", "sheaf.slab"))

    @property
    def letters(self) -> str:
        """Those of slab_debug that are in force."""
        flags = self.flags & (self.library.number["letter_G"] | self.library.number["letter_S"])
        if self.debug is not None:
            flags |= int(self.debug["flags"]) & ~self.library.number["switched_letters"] | int(self.debug["switched"])
        return "".join(name[-1] for name, flag in self.library.number.items() if name.startswith("letter_") and flags & flag)

    def order(self, slab: Slab) -> tuple[int, int]:
        """The slab's order, and how many objects it has."""
        return self.small if slab.state & self.library.number["slab_small"] else self.usual

    def in_use(self, slab: Slab) -> int:
        """Objects outside the slab: with the program, in sheaves, or waiting."""
        return slab.state & ((1 << self.library.number["slab_count_bits"]) - 1)

    def free_bits(self, slab: Slab) -> int:
        """Of all its objects, the first one lowest."""
        if self.usual[1] <= 64:
            return slab.bits
        number, library = self.library.number, self.library
        words = int(library.pages["words"]) + (slab.descriptor - library.slabs) // library.size("slab") * 8 * number["page_words"]
        n = (self.order(slab)[1] + 63) // 64
        return sum(word << 64 * i for i, word in enumerate(library.words(words, n)))

    def object_at(self, slab: Slab, index: int) -> int:
        return slab.start + self.first + index * self.stride


def by_name(library: Library, word: str) -> Cache:
    """The cache with this name, or at the address that this expression is."""
    caches = [Cache(library, address) for address in library.all_caches()]
    named = [cache for cache in caches if cache.name == word and not cache.is_destroyed]
    if named:
        return named[-1]
    try:
        address = int(gdb.parse_and_eval(word))
    except (gdb.error, ValueError):
        raise gdb.GdbError(f"no cache has the name {word}: `sheaf caches` lists them") from None
    for cache in caches:
        if cache.address == address:
            return cache
    raise gdb.GdbError(f"there is no cache at {address:#x}: `sheaf caches` lists them")


def slab_of(library: Library, address: int) -> Slab | None:
    """The run that an address is in; None: it is in none, or a free page. As page_slab() of src/page/."""
    offset = address - library.base
    if not 0 <= offset < int(library.pages["readable"]):
        return None
    size, shift = library.size("slab"), library.number["page_shift"]
    index = offset >> shift
    data = library.read(library.slabs + index * size, size) or bytes(size)
    if library.member("slab", "state", data) & library.number["slab_tail"]:
        index -= library.member("slab", "state", data) & 0xffff
        data = library.read(library.slabs + index * size, size) or bytes(size)
    owner = library.member("slab", "cache", data)
    if not owner:
        return None
    return Slab(library.slabs + index * size, library.base + (index << shift), library.member("slab", "state", data),
                owner, library.member("slab", "bits", data))


def all_slabs(library: Library) -> Iterator[Slab]:
    """Every run of pages that has an owner."""
    size, shift = library.size("slab"), library.number["page_shift"]
    state, cache, bits = (library.at("slab", name) // 8 for name in ("state", "cache", "bits"))
    per_chunk = 1 << (library.number["huge_shift"] - shift)
    record = struct.Struct(f"<{size // 8}Q")
    for node in range(library.nr_nodes):
        first = node << (int(library.pages["range_shift"]) - shift)
        n = int(library.table["ranges"][node]["nr_chunks"]) * per_chunk
        data = library.read_all(library.slabs + first * size, n * size)
        for index, words in enumerate(record.iter_unpack(data), first):
            if words[cache] and not words[state] & library.number["slab_tail"]:
                yield Slab(library.slabs + index * size, library.base + (index << shift), words[state], words[cache],
                           words[bits])
