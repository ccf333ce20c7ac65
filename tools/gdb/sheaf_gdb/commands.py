# SPDX-License-Identifier: MIT
"""The commands, and their help: the first line of each description is what `help sheaf` lists."""
from __future__ import annotations

import fnmatch
from collections import Counter
from typing import Iterable

import gdb

from .cache import Cache, all_slabs, by_name
from .library import Library
from .objects import explain
from .sheaves import BARN, CPU, PASSED, WAITS, retired, sheaves_of


def _plain(text: str) -> str:
    """Control characters of a name in the core file do not reach the terminal."""
    return "".join(c if c.isprintable() or c in "\t\n" else "?" for c in text)


class _Command(gdb.Command):
    """A command that reports errors in one line, without a traceback."""

    def invoke(self, argument: str, from_tty: bool) -> None:
        try:
            print(_plain(self.answer(argument.strip())))
        except gdb.error as error:
            raise gdb.GdbError(str(error)) from None

    def answer(self, argument: str) -> str:
        raise NotImplementedError


class Sheaf(gdb.Command):
    """Look at the caches of libsheaf, in a running program or a core file.

Nothing of the program is called or changed. The library needs debug data."""

    def __init__(self) -> None:
        super().__init__("sheaf", gdb.COMMAND_DATA, prefix=True)


class Caches(_Command):
    """List the caches that have memory: sheaf caches [-a] [NAME*]

Usage: sheaf caches [-a] [NAME*]
-a also lists caches without memory. NAME may have * and ?.

size     bytes of an object that the program requested
used     objects that the program has, or that a thread in a call of the library has
sheaves  free objects in the sheaves of CPUs and in the barn
waiting  objects that wait for a grace period; after it, until they are used again
free     free objects in slabs
letters  checks in force: those of slab_debug

Examples:
  sheaf caches
  sheaf caches kmalloc-*"""

    def __init__(self) -> None:
        super().__init__("sheaf caches", gdb.COMMAND_DATA)

    def answer(self, argument: str) -> str:
        words = gdb.string_to_argv(argument)
        shows_all = "-a" in words
        patterns = [word for word in words if word != "-a"] or ["*"]
        library = Library()
        return _table(["cache", "address", "size", "used", "sheaves", "waiting", "free", "slabs", "KiB", "letters"],
                      _rows(library, patterns, shows_all))


class Object(_Command):
    """Say which object of which cache an address is in, and where that object is.

Usage: sheaf object ADDRESS
ADDRESS is any expression. An object is free in its slab, in a sheaf of a CPU, in the barn; or it waits for a
grace period, or is in use. Caches with slab_debug=U also know who allocated and who freed it.

Examples:
  sheaf object 0x7f2641402138
  sheaf object connection
  sheaf object &connection->buffer[100]"""

    def __init__(self) -> None:
        super().__init__("sheaf object", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def answer(self, argument: str) -> str:
        if not argument:
            raise gdb.GdbError("which address? sheaf object ADDRESS")
        value = gdb.parse_and_eval(argument)
        if value.type.strip_typedefs().code in (gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            value = value.address
        return explain(Library(), int(value) & (1 << 64) - 1)


class Sheaves(_Command):
    """List the sheaves of a cache: those of each CPU, of the barn, and those that wait.

Usage: sheaf sheaves CACHE
CACHE is a name, or an expression that is a pointer to a cache. A sheaf that a thread has just taken out of its
place, and sheaves that were lent to the program (kmem_cache_prefill_sheaf), are not found.

Examples:
  sheaf sheaves kmalloc-64
  sheaf sheaves connections"""

    def __init__(self) -> None:
        super().__init__("sheaf sheaves", gdb.COMMAND_DATA)

    def answer(self, argument: str) -> str:
        if not argument:
            raise gdb.GdbError("which cache? sheaf sheaves CACHE; `sheaf caches` lists them")
        library = Library()
        cache = by_name(library, argument)
        sheaves = list(sheaves_of(cache))
        if not sheaves:
            return f"{cache.name} has no sheaves" + (": it is a checked cache" if cache.is_checked else " now")
        kinds = {CPU: "", BARN: "barn, ", WAITS: "waits, ", PASSED: "has waited, "}
        table = _table(["sheaf of " + cache.name, "address", "objects", "capacity"],
                       [[kinds[sheaf.kind] + sheaf.place, f"{sheaf.address:#x}", sheaf.size, sheaf.capacity]
                        for sheaf in sheaves])
        return f"{table}\n{sum(sheaf.size for sheaf in sheaves)} objects in {len(sheaves)} sheaves"


def _rows(library: Library, patterns: list[str], shows_all: bool) -> Iterable[list[object]]:
    slabs: dict[int, list] = {}
    for slab in all_slabs(library):
        slabs.setdefault(slab.owner, []).append(slab)
    others = _retired_by_owner(library)
    for address in library.all_caches():
        cache = Cache(library, address)
        own = slabs.get(cache.owner, [])
        if not (own or shows_all) or not any(fnmatch.fnmatchcase(cache.name, pattern) for pattern in patterns):
            continue
        sheaves = list(sheaves_of(cache))
        parked = sum(sheaf.size for sheaf in sheaves if sheaf.kind in (CPU, BARN))
        waiting = sum(sheaf.size for sheaf in sheaves if sheaf.kind in (WAITS, PASSED)) + others[cache.owner]
        outside, objects, pages = 0, 0, 0
        for slab in own:
            order, n = cache.order(slab)
            outside, objects, pages = outside + min(cache.in_use(slab), n), objects + n, pages + (1 << order)
        yield [cache.name + (" (destroyed)" if cache.is_destroyed else ""), f"{cache.address:#x}", cache.object_size,
               max(0, outside - parked - waiting), parked, waiting, objects - outside, len(own),
               pages << library.number["page_shift"] >> 10, cache.letters]


def _retired_by_owner(library: Library) -> Counter:
    """How many objects of each cache wait in the providers' sheaves."""
    owners: Counter = Counter()
    shift, size = library.number["page_shift"], library.size("slab")
    for sheaf in retired(library):
        for address in sheaf.objects(library):
            if 0 <= address - library.base < int(library.pages["readable"]):
                at = library.slabs + ((address - library.base) >> shift) * size + library.at("slab", "cache")
                owners[library.words(at, 1)[0]] += 1
    return owners


def _table(head: list[str], rows: Iterable[list[object]]) -> str:
    """Numbers to the right."""
    rows = list(rows)
    lines = [head] + [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    right = [bool(rows) and isinstance(cell, int) for cell in rows[0]] if rows else [False] * len(head)
    return "\n".join("  ".join(cell.rjust(width) if to_right else cell.ljust(width)
                               for cell, width, to_right in zip(line, widths, right)).rstrip() for line in lines)


for command in (Sheaf, Caches, Object, Sheaves):
    command()
