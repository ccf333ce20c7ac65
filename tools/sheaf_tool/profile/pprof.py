# SPDX-License-Identifier: MIT
"""pprof's format: a gzip-compressed protobuf message perftools.profiles.Profile.

Its values are estimates: pprof does not unsample. Addresses are those of calls, so one less than the return addresses.
A mapping says what is known of its functions, so that pprof does not look for them again.
"""
from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import Iterator

from .aggregate import Column
from .estimate import ALLOCATORS, Entry, Profile
from .locate import Line, Location
from .protobuf import message, number, packed, signed
from .raw import Map

# In the order of other heap profiles, by which tools may know them; then ours.
TYPES = [("alloc", "all"), ("inuse", "live"), ("peak", "peak")]
KINDS = [("objects", "count"), ("space", "bytes")]


class _Strings:
    def __init__(self) -> None:
        self._found = {"": 0}

    def of(self, text: str) -> int:
        return self._found.setdefault(text, len(self._found))

    def fields(self) -> Iterator[bytes]:
        return (message(6, text.encode("utf-8", "replace")) for text in self._found)


@dataclass
class _Mapping:
    number: int
    where: Map
    functions: bool = False
    lines: bool = False
    inlined: bool = False


class _Writer:
    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._strings = _Strings()
        self._mappings: dict[Map, _Mapping] = {}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[tuple[int, Map | None, tuple[Line, ...]], int] = {}
        self._by_identity: dict[int, int] = {}
        self._stacks: dict[int, bytes] = {}
        # The first mapping must be the program's.
        maps = [(raw.program, one) for raw in profile.raws for one in raw.maps]
        for _, one in sorted(maps, key=lambda pair: (pair[1].file != pair[0], pair[1].start)):
            self._mappings.setdefault(one, _Mapping(len(self._mappings) + 1, one))

    def _function(self, line: Line) -> int:
        return self._functions.setdefault((line.function, line.file), len(self._functions) + 1)

    def _location(self, location: Location) -> int:
        if id(location) not in self._by_identity:
            key = location.address, location.where, location.lines
            self._by_identity[id(location)] = self._locations.setdefault(key, len(self._locations) + 1)
            mapping = self._mappings[location.where] if location.where else None
            if location.known:
                for line in location.lines:
                    self._function(line)
                if mapping:
                    mapping.functions = True
                    mapping.lines |= any(line.file for line in location.lines)
                    mapping.inlined |= mapping.lines
        return self._by_identity[id(location)]

    def _samples(self, entry: Entry) -> Iterator[bytes]:
        """What is in use, by thread; the rest together."""
        key = id(entry.stack)
        if key not in self._stacks:
            self._stacks[key] = packed(1, map(self._location, entry.stack))
        rest = dict(entry.values)
        for thread, (objects, size) in sorted(entry.threads.items()):
            rest["live"] = rest["live"][0] - objects, rest["live"][1] - size
            yield self._sample(entry, {"live": (objects, size)}, str(thread))
        yield self._sample(entry, rest)

    def _sample(self, entry: Entry, values: dict[str, tuple[float, float]], thread: str = "") -> bytes:
        found = packed(2, (signed(value) for _, which in TYPES for value in values.get(which, (0, 0))))
        of = self._strings.of
        labels = [message(3, number(1, of(name)) + number(2, of(text)))
                  for name, text in (("cache", entry.cache), ("group", entry.group), ("thread", thread)) if text]
        # Go's heap profiles have this label for the size of objects.
        labels.append(message(3, number(1, of("bytes")) + number(3, entry.size) + number(4, of("bytes"))))
        return message(2, self._stacks[id(entry.stack)] + found + b"".join(labels))

    def _mapping(self, one: _Mapping) -> bytes:
        of, where = self._strings.of, one.where
        return message(3, number(1, one.number) + number(2, where.start) + number(3, where.end) + number(4, where.offset)
                       + number(5, of(where.file)) + number(6, of(where.build_id)) + number(7, one.functions)
                       + number(8, one.lines) + number(9, one.lines) + number(10, one.inlined))

    def _line(self, line: Line) -> bytes:
        return message(4, number(1, self._functions[line.function, line.file]) + number(2, line.line))

    def _place(self, key: tuple[int, Map | None, tuple[Line, ...]], identity: int) -> bytes:
        address, where, lines = key
        known = (line for line in lines if (line.function, line.file) in self._functions)
        return message(4, number(1, identity) + number(2, self._mappings[where].number if where else 0)
                       + number(3, address) + b"".join(map(self._line, known)))

    def _named(self, key: tuple[str, str], identity: int) -> bytes:
        name, file = map(self._strings.of, key)
        return message(5, number(1, identity) + number(2, name) + number(3, name) + number(4, file))

    def _type(self, field: int, name: str, unit: str) -> bytes:
        return message(field, number(1, self._strings.of(name)) + number(2, self._strings.of(unit)))

    def _comments(self) -> list[str]:
        profile = self._profile
        comments = [f"libsheaf: {profile.title()}"]
        if profile.full:
            comments.append(f"{profile.full} samples had no room: all figures are too low")
        return comments + [f"no functions of {file}: {why}" for file, why in profile.missing.items()]

    def parts(self, default: Column) -> Iterator[bytes]:
        of, raws = self._strings.of, self._profile.raws
        yield from (self._type(1, f"{prefix}_{name}", unit) for prefix, _ in TYPES for name, unit in KINDS)
        # A stack without addresses is a sample without locations, which pprof refuses.
        yield from (one for entry in self._profile.entries if entry.stack for one in self._samples(entry))
        yield from map(self._mapping, self._mappings.values())
        yield from (self._place(*item) for item in self._locations.items())
        yield from (self._named(*item) for item in self._functions.items())
        yield number(7, of(ALLOCATORS))
        yield number(9, signed(1e9 * max((raw.taken for raw in raws), default=0)))
        yield number(10, signed(1e6 * max((raw.now_ms - raw.began_ms for raw in raws), default=0)))
        yield self._type(11, "space", "bytes")
        yield number(12, max((raw.mean for raw in raws), default=0))
        yield packed(13, map(of, self._comments()))
        prefix = {which: prefix for prefix, which in TYPES}[default[0]]
        yield number(14, of(f"{prefix}_{'space' if default[1] == 'bytes' else default[1]}"))
        yield from self._strings.fields()


def render(profile: Profile, default: Column) -> bytes:
    """default: what pprof shows first."""
    return gzip.compress(b"".join(_Writer(profile).parts(default)), compresslevel=6, mtime=0)
