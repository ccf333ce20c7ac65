# SPDX-License-Identifier: MIT
"""The library in the program: its variables, types and numbers, and memory as bytes and words."""
from __future__ import annotations

import struct
from typing import Any, Iterator

import gdb

TABLE = "sheaf_for_debuggers"
EXPORTED = "sheaf_kmem_cache_destroy"  # in every library, with debug data or without
NOBODY = "there is no process and no core file: start the program, or load one with `core-file FILE`"
NO_LIBRARY = "this program has not loaded libsheaf"
NO_DATA = ("libsheaf has no debug data here: install them (Debian: libsheaf0-dbgsym), or build the library with "
           "`meson configure -Ddebug=true`, which leaves its code as it is")
UNUSED = "the program has not used libsheaf yet"
OTHER_VERSION = "these commands belong to another version of libsheaf than the program's ({})"
PIECE = 1 << 14  # bytes that are all there, or all missing


def _objfile() -> Any:
    """The file that has the library's table: the shared library, or the program. One that is in use, if several have."""
    found = [objfile for objfile in gdb.objfiles() if objfile.lookup_static_symbol(TABLE)]
    if found:
        return next((objfile for objfile in found if _is_ready(objfile)), found[0])
    try:
        gdb.parse_and_eval(f"&{EXPORTED}")
    except gdb.error:
        raise gdb.GdbError(NO_LIBRARY) from None
    raise gdb.GdbError(NO_DATA)


def _is_ready(objfile: Any) -> bool:
    return bool(int(objfile.lookup_static_symbol(TABLE).value()["caches"]["ready"]))


def _member(of: Any, name: str) -> tuple[int, Any] | None:
    """Also one in a union or structure without a name."""
    for field in of.strip_typedefs().fields():
        if field.name == name:
            return field.bitpos // 8, field.type.strip_typedefs()
        if not field.name:
            inner = _member(field.type, name)
            if inner:
                return field.bitpos // 8 + inner[0], inner[1]
    return None


class Library:
    """The library of the program that gdb looks at now."""

    def __init__(self) -> None:
        self.inferior = gdb.selected_inferior()
        if not self.inferior.pid:
            raise gdb.GdbError(NOBODY)
        self.objfile = _objfile()
        self.table = self.objfile.lookup_static_symbol(TABLE).value()
        numbers = self.table["numbers"]
        self.number = {field.name: int(numbers[field.name]) for field in numbers.type.fields()}
        if not _is_ready(self.objfile):
            raise gdb.GdbError(UNUSED)
        self.caches, self.pages = self.table["caches"], self.table["pages"]
        self.os, self.bootstrap = self.table["os"], int(self.table["bootstrap"])
        self.base, self.slabs = int(self.pages["base"]), int(self.pages["slabs"])
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        self.types = {"kmem_cache": self.caches["first"].type.target(), "slab": self.pages["slabs"].type.target(),
                      "sheaf": self.table["bootstrap"].type.target(),
                      **{field.name: field.type.target() for field in self.table["types"].type.fields()}}

    # --- types --------------------------------------------------------------------------------------

    def place(self, kind: str, path: str) -> tuple[int, int]:
        """Where a member is in a structure, which may be in a member of it: a.b; and how many bytes it has."""
        if (kind, path) not in self._places:
            at, found = 0, self.types[kind]
            for name in path.split("."):
                member = _member(found, name)
                if not member:
                    raise gdb.GdbError(OTHER_VERSION.format(f"{kind} has no {path}"))
                at, found = at + member[0], member[1]
            self._places[kind, path] = at, found.sizeof
        return self._places[kind, path]

    def at(self, kind: str, path: str) -> int:
        return self.place(kind, path)[0]

    def size(self, kind: str) -> int:
        return self.types[kind].sizeof

    def value(self, kind: str, address: int) -> Any:
        """The structure at an address, as gdb sees it."""
        return gdb.Value(address).cast(self.types[kind].pointer()).dereference()

    # --- memory -------------------------------------------------------------------------------------

    def read(self, address: int, size: int) -> bytes | None:
        """None: it is not there. A core file leaves out what was never written."""
        try:
            return bytes(self.inferior.read_memory(address, size))
        except (gdb.MemoryError, gdb.error, OverflowError):
            return None

    def read_all(self, address: int, size: int) -> bytes:
        """With zeros for pieces that are not there."""
        whole = self.read(address, size)
        if whole is not None:
            return whole
        return b"".join(self.read(at, min(PIECE, address + size - at)) or bytes(min(PIECE, address + size - at))
                        for at in range(address, address + size, PIECE))

    def words(self, address: int, n: int) -> tuple[int, ...]:
        """This many words of 64 bits; zeros, if they are not there."""
        return struct.unpack(f"<{n}Q", self.read(address, 8 * n) or bytes(8 * n))

    def member(self, kind: str, path: str, data: bytes) -> int:
        """A number or pointer out of a structure's bytes."""
        at, size = self.place(kind, path)
        return int.from_bytes(data[at:at + size], "little")

    # --- what the machine is ------------------------------------------------------------------------

    @property
    def nr_nodes(self) -> int:
        return int(self.os["nr_nodes"])

    def row_name(self, row: int) -> str:
        """Whose slots are in this row."""
        if row >= int(self.os["nr_cpus"]):
            return f"stand-in {row - int(self.os['nr_cpus'])}"
        return f"CPU {row}" if int(self.os["id_offset"]) == self.number["rseq_cpu_id"] else f"mm_cid {row}"

    def static(self, name: str, has: str) -> Any:
        """A file's own variable: the one whose type has this member. None: there is none."""
        for symbol in gdb.lookup_static_symbols(name):  # the program may have others of this name
            of = symbol.type.strip_typedefs()
            of = of.target().strip_typedefs() if of.code == gdb.TYPE_CODE_PTR else of
            if of.code == gdb.TYPE_CODE_STRUCT and any(field.name == has for field in of.fields()):
                return symbol.value()
        return None

    # --- caches -------------------------------------------------------------------------------------

    def all_caches(self) -> Iterator[int]:
        """The addresses of all caches, the oldest first."""
        found, at = [], int(self.caches["first"])
        while at and len(found) < 1 << 20:
            found.append(at)
            at = int(self.value("kmem_cache", at)["next"])
        return reversed(found)
