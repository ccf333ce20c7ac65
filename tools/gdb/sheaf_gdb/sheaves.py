# SPDX-License-Identifier: MIT
"""Every sheaf of a cache: in a CPU's slot, in the barn, or waiting for a grace period."""
from __future__ import annotations

from typing import Iterator, NamedTuple

from .cache import Cache
from .library import Library

CPU, BARN, WAITS, PASSED = "CPU", "barn", "waits", "passed"
MOST = 1 << 20  # in one list: more means that it is broken


class Sheaf(NamedTuple):
    """A sheaf, where it is, and how many objects are in it."""
    address: int
    kind: str   # of the place: one of the above
    place: str
    size: int
    capacity: int
    number: int  # of the grace period, if it waits

    def objects(self, library: Library) -> tuple[int, ...]:
        return library.words(self.address + library.at("sheaf", "objects"), self.size)


def _sheaf(library: Library, address: int, kind: str, place: str) -> Sheaf:
    data = library.read(address, library.size("sheaf")) or bytes(library.size("sheaf"))
    return Sheaf(address, kind, place, library.member("sheaf", "word", data) & library.number["sheaf_size"],
                 library.member("sheaf", "capacity", data), library.member("sheaf", "number", data))


def _of_slot(cache: Cache, row: int) -> Iterator[Sheaf]:
    library = cache.library
    at = cache.handle + ((row + 1) << library.number["row_shift"])
    data = library.read(at, library.size("slot"))
    if data is None:
        return
    main = library.member("slot", "main", data)
    name = library.row_name(row)
    for kind, what, address in ((CPU, "main", main), (CPU, "spare", library.member("slot", "pair", data) ^ main),
                                (WAITS, "rcu_free", library.member("slot", "rcu_free", data))):
        if address not in (0, library.bootstrap):
            yield _sheaf(library, address, kind, f"{what} of {name}")
    remotes = 8 * library.number["remote_sheaves"] if library.nr_nodes > 1 else 0
    cells = data[library.at("slot", "cells"):library.at("slot", "main")]
    yield from _of_cells(library, cells[:len(cells) - remotes], f"shard of CPU {row}")
    yield from _remote(library, cells[len(cells) - remotes:], name)


def _remote(library: Library, data: bytes, name: str) -> Iterator[Sheaf]:
    """Of a slot, for objects of other nodes; their kinds are in src/percpu/remote.h."""
    for i in range(0, len(data), 8):
        address = int.from_bytes(data[i:i + 8], "little")
        if address:
            kind = int(library.value("sheaf", address)["filled_by"]) - 1
            yield _sheaf(library, address, WAITS if kind % 2 else CPU,
                         f"sheaf for node {kind // 2} of {name}")


def _of_cells(library: Library, data: bytes, where: str) -> Iterator[Sheaf]:
    for i in range(0, len(data), 8):
        cell = int.from_bytes(data[i:i + 8], "little")
        address = cell & ~library.number["cell_tags"]
        if address and not cell & library.number["cell_transit"]:
            yield _sheaf(library, address, BARN, where)


def _of_blocks(cache: Cache) -> Iterator[Sheaf]:
    """Of the barn of each node."""
    barns = cache.sheaves["barns"]
    for node in range(cache.library.nr_nodes if int(barns) else 0):
        if not int(barns[node]):
            continue
        blocks = barns[node]["blocks"]
        for i in range(blocks.type.range()[1] + 1):
            if int(blocks[i]):
                cells = blocks[i]["cells"]
                data = cache.library.read(int(cells.address), cells.type.sizeof) or b""
                yield from _of_cells(cache.library, data, f"node {node}")


def _listed(library: Library, first: int, kind: str, place: str, done: int) -> Iterator[Sheaf]:
    for _ in range(MOST):
        if not first:
            return
        sheaf = _sheaf(library, first, kind, place)
        passed = kind == WAITS and sheaf.number <= done
        yield sheaf._replace(kind=PASSED) if passed else sheaf
        first = int(library.value("sheaf", first)["next"])


def of_queue(library: Library, queue: object, done: int, place: str) -> Iterator[Sheaf]:
    """Those of an rcu_queue."""
    yield from _listed(library, int(queue["first"]), WAITS, place, done)
    yield from _listed(library, int(queue["top"]), PASSED, place, done)


def _of_queues(cache: Cache) -> Iterator[Sheaf]:
    library, address = cache.library, int(cache.sheaves["rcu"])
    if not address:
        return
    rcu = library.value("sheaf_rcu", address)
    done, per_node = int(rcu["user"]["grace"]["done"]), int(rcu["per_node"])
    for i in range(library.nr_nodes * per_node):
        yield from of_queue(library, rcu["queues"][i], done, f"queue of node {i // per_node}")


def sheaves_of(cache: Cache) -> Iterator[Sheaf]:
    """All, except those that a thread has in hand and those that were lent to the program."""
    if not cache.handle:
        return
    for row in range(int(cache.library.os["nr_rows"])):
        yield from _of_slot(cache, row)
    yield from _of_blocks(cache)
    yield from _of_queues(cache)


def retired(library: Library) -> Iterator[Sheaf]:
    """Of the providers: retired objects of any cache without sheaves, and large blocks."""
    provider = library.static("first", "linked")
    for _ in range(MOST):
        if provider is None or not int(provider):
            return
        done = int(provider["user"]["grace"]["done"])
        for i in range(provider["shards"].type.range()[1] + 1):
            shard = provider["shards"][i]
            if int(shard["filled"]):
                yield _sheaf(library, int(shard["filled"]), WAITS, "the provider's sheaves")
            yield from of_queue(library, shard["queue"], done, "the provider's sheaves")
        provider = provider["next"]
