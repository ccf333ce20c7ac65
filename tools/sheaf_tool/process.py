# SPDX-License-Identifier: MIT
"""The caches of a running process, read from its file of counters; src/cache/publish.h has the layout.

The process is not involved and does not notice. The CPUs' numbers are read one after the other, so they are
not from one moment; a sheaf that is moving between two places is seen in both or in neither.
"""
from __future__ import annotations

import errno
import json
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

from . import shared
from .errors import Failure
from .forms import has_form

MAGIC, VERSION = 0x6665616873, 10
HEAD = struct.Struct("<QIi7I")
MAX_ROWS = 4096
TEXT_AT = HEAD.size + 2 * MAX_ROWS
# In the text: indices of words of a cache, the names of the words of the process, and where these are.
INDICES = "total_objects", "slab_bytes", "peak_slab_bytes"
TEXT_FORM = {"backend": str, "index": str, "options": str, "cpus": int, **{name: int for name in INDICES},
             "process": [str], "process_at": int, "size_bits": int, "settings": int,
             "numbers": [{"name": str, "words": int, "help": str}]}
# The events and words that are computed with.
EVENTS = {"alloc_fastpath", "alloc_slowpath", "free_fastpath", "free_slowpath", "sheaf_refill", "sheaf_flush",
          "alloc_slab", "free_slab",
          "replace_empty_main", "replace_full_main"}
MEMORY = {"used_bytes", "mapped_bytes", "peak_bytes", "free_bytes", "committed_bytes", "decay_ms", "decay_set_by"}
CACHE = struct.Struct("<4IQ128s")  # settings follow
# Those that are shown by name.
SETTINGS = {"object_size", "sheaf_capacity", "min_partial", "destroyed", "limit_barn_full", "set_by"}
WORDS = struct.Struct("<32Q")  # of one plane
ALIASES = WORDS.size
MAX_TEXT = 1 << 16  # bytes
MAX_PLANES = 2  # events choose words by the bits of 64
MAIN, SPARE, BASES = 0, 1, 2
MASK = (1 << 64) - 1

LETTERS = {"F": 0x80, "Z": 0x100, "P": 0x200, "U": 0x400, "T": 0x800, "A": 0x1000,
           "G": 1 << 30, "S": 1 << 29, "Q": 1 << 28}
SETTERS = "automatic", "program", "options", "tune"
SET = "sheaf_capacity", "limit_barn_full", "limit_bytes", "min_partial", "limit_barn_empty"  # two bits each of set_by


@dataclass
class Cache:
    """One cache: its settings, its current state, its events; names as in <sheaf/stats.h>."""
    name: str
    id: int
    settings: dict[str, int]
    gauges: dict[str, int]
    counters: dict[str, int]
    alias_names: list[str] = field(default_factory=list)
    letters: str = ""  # of slab_debug

    def used(self) -> bool:
        """True if anything was ever allocated from it."""
        return bool(self.gauges["slab_bytes"] or self.gauges["peak_slab_bytes"] or any(self.counters.values()))

    def setters(self) -> dict[str, str]:
        """Who set what the library did not choose."""
        all_of_them = self.settings.get("set_by", 0)
        return {name: SETTERS[all_of_them >> 2 * i & 3] for i, name in enumerate(SET) if all_of_them >> 2 * i & 3}

    def values(self) -> dict[str, object]:
        return {"name": self.name, "id": self.id, "alias_names": self.alias_names, "slab_debug": self.letters,
                "set": self.setters(), **self.settings, **self.gauges, **self.counters}


@dataclass
class Reading:
    """The state at one time."""
    pid: int
    command: str
    backend: str
    index: str
    options: str
    cpus: int
    nodes: int
    caches: list[Cache] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)  # bytes; names as in <sheaf/stats.h>

    def values(self) -> dict[str, object]:
        return {"pid": self.pid, "command": self.command, "backend": self.backend,
                "index": self.index, "options": self.options, "cpus": self.cpus,
                "nodes": self.nodes, **self.memory,
                "caches": [cache.values() for cache in self.caches]}


def _gauges(counters: dict[str, int], total: int, slab_bytes: int, peak: int,
            object_size: int) -> dict[str, int]:
    """The current state of a cache, computed from its events. Never below zero: see above."""
    in_use = max(0, counters["alloc_fastpath"] + counters["alloc_slowpath"]
                 - counters["free_fastpath"] - counters["free_slowpath"])
    parked = max(0, counters["sheaf_refill"] - counters["sheaf_flush"]
                 + counters["free_fastpath"] - counters["alloc_fastpath"])
    return {"objects": in_use + parked, "objects_in_use": in_use, "objects_in_sheaves": parked,
            "total_objects": total, "slabs": max(0, counters["alloc_slab"] - counters["free_slab"]),
            "slab_bytes": slab_bytes, "waste_bytes": max(0, slab_bytes - total * object_size),
            "peak_slab_bytes": max(peak, slab_bytes)}


def _text(text: bytes) -> str:
    return text.split(b"\0")[0].decode("utf-8", "replace")


def _lines(names: bytes) -> list[str]:
    """The last name is marked if some names did not fit."""
    lines = _text(names).splitlines()
    return lines[:-1] + [lines[-1] + "..."] if b"\0" not in names[:-1] else lines


class Process:
    """The file of one process, open for reading; or the file that an ended process left."""

    def __init__(self, pid: int, ended: bool = False) -> None:
        self.pid = pid
        self.command = shared.command_of(pid)
        self._file = shared.open_left(pid) if ended else shared.open_file(pid)
        try:
            self._read_head()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._file)

    def runs(self) -> bool:
        """False after it has ended: then nothing changes any more."""
        return os.fstat(self._file).st_nlink > 0 and shared.runs(self.pid)

    def _bytes(self, at: int, size: int) -> bytes:
        """A part of the file. Read, never mapped: an access to a hole through a mapping fills it."""
        return os.pread(self._file, size, at)

    def _read_head(self) -> None:
        try:
            head = HEAD.unpack(self._bytes(0, HEAD.size))
        except (ValueError, struct.error):
            raise self._no_file() from None
        magic, version, _, self.nr_rows, _, self.nr_nodes, self.nr_planes, row, slot, size = head
        if version == 0:
            raise Failure(f"process {self.pid} has just started: try again")
        if magic != MAGIC:
            raise self._no_file()
        if version != VERSION:
            raise Failure(f"process {self.pid} runs another version of libsheaf: use that "
                          "version's `sheaf`")
        if not (8 <= slot <= row <= 24 and 1 <= self.nr_planes <= MAX_PLANES):
            raise self._no_file()
        self.row, self.slot = 1 << row, 1 << slot
        try:
            self.text = json.loads(self._bytes(TEXT_AT, min(size, MAX_TEXT)))
        except (ValueError, RecursionError):
            raise self._no_file() from None
        if self.nr_rows > MAX_ROWS or not has_form(self.text, TEXT_FORM) or not self._fits():
            raise self._no_file()

    def _fits(self) -> bool:
        """The text describes what this can compute with."""
        events = {number["name"] for number in self.text["numbers"] if number["words"]}
        self._settings = [number["name"] for number in self.text["numbers"][:max(0, self.text["settings"])]]
        self._record = struct.Struct(f"{CACHE.format}{len(self._settings)}I")
        return (EVENTS <= events and SETTINGS <= set(self._settings) and self._record.size <= self.slot and MEMORY <= set(self.text["process"]) and 0 <= self.text["size_bits"] <= 64
                and 0 <= self.text["process_at"] <= MAX_TEXT + TEXT_AT
                and all(0 <= self.text[name] < 32 * self.nr_planes for name in INDICES))

    def _no_file(self) -> Failure:
        return Failure(f"{shared.place_of(self.pid)}: not a file of libsheaf's statistics")

    def read(self) -> Reading:
        reading = Reading(self.pid, self.command, self.text["backend"], self.text["index"],
                          self.text["options"], self.text["cpus"], self.nr_nodes)
        self._events = [(number["name"], [i for i in range(32 * self.nr_planes) if number["words"] >> i & 1])
                        for number in self.text["numbers"] if number["words"]]
        try:
            reading.memory = self._memory()
            for area in self._areas():
                reading.caches += self._area(area)
        except struct.error:  # it has become shorter
            raise self._no_file() from None
        reading.caches.sort(key=lambda cache: cache.id)
        return reading

    def _areas(self) -> list[int]:
        """Where each begins that is there as a whole."""
        nr_areas = HEAD.unpack(self._bytes(0, HEAD.size))[4]
        size = self.nr_planes * self._plane()
        there = max(0, os.fstat(self._file).st_size - self.row) // size
        return [self.row + i * size for i in range(min(nr_areas, there))]

    def _memory(self) -> dict[str, int]:
        """The memory of the whole process, from its words and from the system."""
        names = self.text["process"]
        found = self._bytes(self.text["process_at"], 8 * len(names))
        # Additions and subtractions on different CPUs may be seen in the wrong order.
        memory = dict(zip(names, (max(0, value) for value in struct.unpack(f"<{len(names)}q", found))))
        memory["resident_bytes"], memory["peak_resident_bytes"] = shared.resident_of(self.pid)
        return memory

    def _plane(self) -> int:
        """Its size in bytes."""
        return (self.nr_rows + 2) * self.row

    def _rows(self, plane: int) -> set[int]:
        """The rows of a plane that were written: the others are holes."""
        rows: set[int] = set()
        at, end = plane, plane + self._plane()
        while at < end:
            try:
                at = os.lseek(self._file, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # the file system does not distinguish holes from zeros
                    rows = set(range(self.nr_rows + 2))
                break
            if at < end:
                row = (at - plane) // self.row
                rows.add(row)
                at = plane + (row + 1) * self.row
        return rows

    def _area(self, at: int) -> list[Cache]:
        """Its caches, except those whose description keeps changing."""
        caches: list[Cache] = []
        places = set(range(0, self.row, self.slot))
        for _ in range(100):
            before = self._bytes(at, self.row)
            places = {place for place in places if self._record.unpack_from(before, place)[1]}
            if not places:
                break
            counters = self._counters(at)
            names = self._bytes(at + self._plane(), self.row)
            after = self._bytes(at, self.row)
            for place in sorted(places):
                record = self._record.unpack_from(before, place)
                if record[0] % 2 == 0 and self._record.unpack_from(after, place) == record:
                    caches.append(self._describe(record, *self._sum(counters, place)))
                    caches[-1].alias_names = _lines(names[place:place + ALIASES])
                    places.remove(place)
        return caches

    def _counters(self, area: int) -> list[list[bytes]]:
        """The area's rows of counters that were written, each in all planes."""
        planes = [area + i * self._plane() for i in range(self.nr_planes)]
        rows = set().union(*map(self._rows, planes))
        return [[self._bytes(plane + row * self.row, self.row) for plane in planes]
                for row in sorted(rows - {0})]

    def _sum(self, counters: list[list[bytes]], place: int) -> tuple[list[int], int, int]:
        """The sums of a cache's words over all rows, and the pops and pushes that are still counted in sheaves:
        rows show the words of the two sheaves in the slot."""
        bits = self.text["size_bits"]
        sums, pops, pushes = [0] * 32 * self.nr_planes, 0, 0
        for planes in counters:
            words = sum((WORDS.unpack_from(plane, place) for plane in planes), ())
            if not any(words):
                continue
            sums = [a + b for a, b in zip(sums, words)]
            for word, base in ((words[MAIN], words[BASES] & 0xffffffff),
                               (words[SPARE], words[BASES] >> 32)):
                pops += word >> bits
                pushes += (word & ((1 << bits) - 1)) + (word >> bits) - base
        return sums, pops, pushes

    def _describe(self, record: tuple, words: list[int], pops: int, pushes: int) -> Cache:
        _, identity, flags, _, limit, name, *values = record
        counters = {name: sum([words[i] for i in chosen]) & MASK for name, chosen in self._events}
        counters["alloc_fastpath"] += pops
        counters["free_fastpath"] += pushes  # negative if objects were taken in bulk, which sums count
        settings = {**dict(zip(self._settings, values)), "limit_bytes": limit}
        total, slab_bytes, peak = (words[self.text[name]] & MASK for name in (
            "total_objects", "slab_bytes", "peak_slab_bytes"))
        gauges = _gauges(counters, total, slab_bytes, peak, settings["object_size"])
        letters = "".join(letter for letter, flag in LETTERS.items() if flags & flag)
        return Cache(_text(name), identity, settings, gauges, counters, letters=letters)
