# SPDX-License-Identifier: MIT
"""Replacements of malloc() that can be preloaded: which there are, and where their files are."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import paths

OURS = "libsheaf-malloc.so"


@dataclass(frozen=True)
class Malloc:
    name: str
    library: str
    package: str | None = None  # Debian's; None: bench/peers/fetch builds it
    environment: tuple[tuple[str, str], ...] = ()  # beyond the user's
    steps: bool = True  # false: it has restartable sections, which stepping restarts forever


MALLOCS = (
    Malloc("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    Malloc("mimalloc", "libmimalloc.so.2", "libmimalloc2.0"),
    Malloc("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    Malloc("jemalloc53", "libjemalloc53.so"),
    Malloc("mimalloc3", "libmimalloc3.so"),
    Malloc("snmalloc", "libsnmalloc.so"),
    Malloc("rpmalloc", "librpmalloc.so"),
    # Its per-CPU caches need an rseq area that the C library did not register.
    Malloc("tcmalloc-google", "libtcmalloc-google.so", environment=(("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),),
           steps=False),
)


def find(library: str) -> Path | None:
    """The file of another one: built by bench/peers/fetch, or the system's."""
    for directory in (paths.PEERS, Path("/usr/local/lib"), *Path("/usr/lib").glob("*-linux-gnu*"),
                      Path("/usr/lib64"), Path("/usr/lib")):
        if (directory / library).exists():
            return directory / library
    return None


def find_ours(build: str | None = None) -> Path | None:
    """In a build directory, or where the command is installed."""
    if build or paths.IN_SOURCE_TREE:
        places = [(Path(build).resolve() if build else paths.ROOT / "build") / "malloc"]
    else:
        prefix = paths.ROOT.parent
        places = [*sorted(prefix.glob("lib/*-linux-gnu*")), prefix / "lib64", prefix / "lib"]
    # The name without a version is only in packages for developers.
    return next((file for place in places for file in sorted(place.glob(f"{OURS}*")) if file.is_file()), None)


def missing(build: str | None = None) -> str:
    return f"{OURS} is not {'built' if build or paths.IN_SOURCE_TREE else 'installed'} here"
