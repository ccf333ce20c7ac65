# SPDX-License-Identifier: MIT
"""The allocators that can be measured: ours, peers from Debian packages, and peers built from fetched sources."""
from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sheaf_tool import mallocs
from sheaf_tool.errors import Failure

from .machine import package_version
from .paths import PEERS

OURS = "sheaf"  # as in every executable: the common calls in place
OURS_STATIC, OURS_SHARED = CALLED = "sheaf-static", "sheaf-shared"  # called: SHEAF_NO_INLINE
KMALLOC = "kmalloc", "kmalloc-static", "kmalloc-shared"  # ours, by kmalloc and kfree: in place, and called
INLINE = "sheaf-inline"  # in results of versions whose sheaf made the call: in place
HARNESS = "harness"
CPU_SLAB = "cpu-slab"  # the three-tier baseline
SLAB_LAYER = "slab-layer"  # ours, called directly, without the cache and its sheaves
MEMPOOL = "mempool"  # ours, every object through a memory pool on top of the cache
NOT_PEERS = (OURS, *CALLED, *KMALLOC, INLINE, "no-sheaf", CPU_SLAB, SLAB_LAYER, MEMPOOL, HARNESS)
TIMEOUT = 600
FETCHED = "make bench fetches it"
STATIC = "-static"  # ends the name of a peer in a program that is linked with its archive
FETCHED_STATIC = tuple(name + STATIC for name in ("mimalloc3", "snmalloc", "rpmalloc"))
STATIC_PEERS = ("jemalloc-static", *FETCHED_STATIC)
# Allocators of objects of one size, for the suites whose objects have one: see ready().
ONE_SIZE = ("no-sheaf", CPU_SLAB, "dpdk", HARNESS)


@dataclass(frozen=True)
class Allocator:
    name: str
    worker: str  # the program is SUITE-WORKER
    arguments: tuple[str, ...] = ()
    library: str | None = None  # to preload
    runtime: str | None = None  # package whose version is recorded
    install: str | None = None  # package to install if it is missing
    environment: tuple[tuple[str, str], ...] = ()  # beyond the user's
    steps: bool = True  # false: it has restartable sections, which stepping restarts forever
    named: bool = False  # it takes part only in suites that name it

    @property
    def linked(self) -> bool:
        """True if bench/peers/fetch links its programs, with the archive of a peer that it built."""
        return self.name in FETCHED_STATIC

    @property
    def remedy(self) -> str | None:
        """The advice if it is missing; None if it cannot be missing."""
        return FETCHED if self.fetched or self.linked else self.install and f"apt-get install {self.install}"

    @property
    def fetched(self) -> bool:
        """True if bench/peers/fetch builds it, because it has no package."""
        return bool(self.library) and not self.install

    def version(self) -> str | None:
        if not self.fetched:
            return package_version(self.runtime) if self.runtime else None
        try:
            text = (PEERS / f"{self.name}.version").read_text(encoding="utf-8")
        except OSError:
            return None
        return text.partition("\n")[0]


ALLOCATORS = (
    Allocator("sheaf", "sheaf"),
    *(Allocator(name, name, named=True) for name in (*CALLED, *KMALLOC)),
    Allocator("no-sheaf", "sheaf", ("--variant", "no-sheaf"), named=True),
    Allocator(CPU_SLAB, CPU_SLAB, named=True),
    Allocator(SLAB_LAYER, SLAB_LAYER, named=True),
    Allocator(MEMPOOL, MEMPOOL, named=True),
    Allocator("glibc", "malloc"),
    *(Allocator(one.name, "malloc", (), one.library, one.package, one.package, one.environment, one.steps)
      for one in mallocs.MALLOCS),
    *(Allocator(name, name, named=True) for name in FETCHED_STATIC),
    Allocator("jemalloc-static", "jemalloc-static", install="libjemalloc-dev, then build again", named=True),
    Allocator("dpdk", "dpdk", (), None, "libdpdk-dev", "libdpdk-dev, then build again",
              named=True),
    Allocator("harness", "harness", named=True),
)


class Worker:
    """One allocator's program for one suite, ready to run."""

    def __init__(self, allocator: Allocator, program: Path, library: Path | None) -> None:
        self.allocator = allocator
        self.name = allocator.name
        self.program = program
        self.library = library

    def run(self, *arguments: str) -> list[str]:
        """Run it in a fresh process; returns the lines that it wrote."""
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        environment.update(self.allocator.environment)
        if self.library:
            environment["LD_PRELOAD"] = str(self.library)
        command = [str(self.program), *self.allocator.arguments, *arguments]
        try:
            result = subprocess.run(command, env=environment, capture_output=True, text=True,
                                    timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"{self.name}: {error}") from error
        if result.returncode:
            why = result.stderr.strip() or f"exit status {result.returncode}"
            raise Failure(f"{self.name}: {' '.join(command)}: {why}")
        return self._without_origin(result.stdout.splitlines())

    def _without_origin(self, lines: list[str]) -> list[str]:
        """Check that the preloaded library or the linked archive was used: ld.so continues if it cannot load one."""
        wanted = self.library or (self.program if self.name in STATIC_PEERS else None)
        if lines and lines[0].startswith("from "):
            origin = Path(lines.pop(0)[len("from "):])
            if wanted and origin.resolve() != wanted.resolve():
                raise Failure(f"{self.name}: malloc came from {origin}, not from {wanted}")
        return lines


def ready(suite: str, directory: Path,
          others: tuple[str, ...] = ()) -> tuple[list[Worker], dict[str, str]]:
    """The workers of a suite, and the advice for each missing allocator: of those that can run every
    suite, and of these others."""
    workers: list[Worker] = []
    missing: dict[str, str] = {}
    for allocator in ALLOCATORS:
        if allocator.named and allocator.name not in others:
            continue
        program = (PEERS if allocator.linked else directory) / f"{suite}-{allocator.worker}"
        library = mallocs.find(allocator.library) if allocator.library else None
        if not program.exists() or (allocator.library and not library):
            if not allocator.remedy:
                raise Failure(f"{program} is not built")
            missing[allocator.name] = allocator.remedy
        else:
            workers.append(Worker(allocator, program, library))
    return workers, missing


def versions(workers: list[Worker]) -> dict[str, str]:
    """The versions of the peers, where known."""
    found = {}
    for worker in workers:
        version = worker.allocator.version()
        if version:
            found[worker.name] = version
    return found


def peers(names: list[str]) -> list[str]:
    """As programs usually link them; STATIC_PEERS are compared with OURS_STATIC."""
    return [name for name in names if name not in NOT_PEERS + STATIC_PEERS]
