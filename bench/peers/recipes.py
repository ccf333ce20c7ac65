# SPDX-License-Identifier: MIT
"""How each peer becomes a library to preload and an archive to link: what its own build files do for a release."""
from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from peers.source import Unavailable

SHARED = ("-shared", "-pthread")


@dataclass(frozen=True)
class Recipe:
    compilers: tuple[str, ...]  # the first that is installed
    root: str  # of the allocator's source in the crate
    sources: Callable[[Path], list[str]]  # given the root
    flags: tuple[str, ...]
    link: tuple[str, ...] = SHARED
    configure: tuple[str, ...] = ()  # run first, in the root


def _named(*names: str) -> Callable[[Path], list[str]]:
    return lambda root: list(names)


def _tcmalloc_sources(root: Path) -> list[str]:
    """The sources that the crate builds, except its bridge, which leaves malloc out of tcmalloc.cc."""
    script = (root.parent / "build.rs").read_text(encoding="utf-8")
    names = re.findall(r'"c_src/([^"]+\.(?:cc|S))"', script)
    return [name for name in names if "/" in name] + ["tcmalloc/tcmalloc/tcmalloc.cc"]


def _jemalloc_sources(root: Path) -> list[str]:
    """All but the one for macOS."""
    return [f"src/{path.name}" for path in sorted((root / "src").glob("*.c")) if path.name != "zone.c"]


X86 = platform.machine() == "x86_64"
RECIPES = {
    # Names of its own need no prefix in a library that hides them.
    "jemalloc53": Recipe(
        ("gcc", "cc"), "jemalloc", _jemalloc_sources,
        ("-O3", "-funroll-loops", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE", "-D_REENTRANT",
         "-DJEMALLOC_NO_PRIVATE_NAMESPACE", "-Iinclude"),
        configure=("sh", "../configure/configure", "--srcdir=.", "--with-version=5.3.1-0-g0", "--disable-cxx",
                   "--enable-doc=no")),
    "mimalloc3": Recipe(
        ("gcc", "cc"), "c_src/mimalloc/v3",
        _named(*(f"src/{name}.c" for name in (
            "alloc", "alloc-aligned", "alloc-posix", "arena", "arena-meta", "bitmap", "heap",
            "init", "libc", "options", "os", "page", "page-map", "random", "stats", "theap",
            "threadlocal", "prim/prim"))),
        ("-O3", "-DNDEBUG", "-DMI_BUILD_RELEASE", "-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB",
         "-DMI_SHARED_LIB_EXPORT", "-std=gnu11", "-fPIC", "-fvisibility=hidden",
         "-ftls-model=initial-exec", "-fno-builtin-malloc", "-Iinclude")),
    "snmalloc": Recipe(
        ("clang++", "g++"), "upstream",
        _named("src/snmalloc/override/malloc.cc", "src/snmalloc/override/new.cc"),
        ("-O3", "-DNDEBUG", "-std=c++20", "-fPIC", "-fvisibility=hidden",
         "-ftls-model=initial-exec", "-fomit-frame-pointer", "-ffunction-sections",
         *(("-mcx16", "-mprfchw") if X86 else ()),
         '-DSNMALLOC_EXPORT=__attribute__((visibility("default")))',
         "-DSNMALLOC_USE_CXX11_THREAD_ATEXIT_DIRECT", "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1",
         "-DSNMALLOC_HAS_LINUX_FUTEX_H", "-DSNMALLOC_HAS_LINUX_RANDOM_H",
         "-DSNMALLOC_PLATFORM_HAS_GETENTROPY", "-DSNMALLOC_PTHREAD_ATFORK_WORKS",
         "-DSNMALLOC_CHECK_LOADS=false", "-DSNMALLOC_PAGEID=false",
         "-DSNMALLOC_NO_REALLOCARRAY", "-DSNMALLOC_NO_REALLOCARR", "-Isrc"),
        (*SHARED, "-static-libstdc++")),
    "rpmalloc": Recipe(
        ("gcc", "cc"), "rpmalloc/rpmalloc", _named("rpmalloc.c"),
        ("-O3", "-DNDEBUG", "-D_GNU_SOURCE=1", "-DENABLE_PRELOAD=1", "-DENABLE_OVERRIDE=1",
         "-std=c11", "-fPIC", "-fomit-frame-pointer", "-fno-builtin-malloc")),
    "tcmalloc-google": Recipe(
        ("g++", "clang++"), "c_src", _tcmalloc_sources,
        ("-O2", "-DNDEBUG", "-DTCMALLOC_INTERNAL_8K_PAGES", "-std=c++17", "-fPIC",
         "-ftls-model=initial-exec", "-Iabseil-cpp", "-Itcmalloc")),
}


def _call(command: list[str], directory: Path) -> None:
    try:
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unavailable(str(error)) from error
    if result.returncode:
        said = [line for line in result.stderr.splitlines() if "error" in line]
        raise Unavailable(f"{command[0]}: {(said or ['failed without a word'])[0].strip()}")


def compiler(recipe: Recipe) -> str:
    for name in recipe.compilers:
        if shutil.which(name):
            return name
    raise Unavailable(f"no {' or '.join(recipe.compilers)} here")


def build(recipe: Recipe, crate: Path, library: Path, done: Callable[[], None]) -> None:
    """Compile and link; `done` is called after each file."""
    root = crate / recipe.root
    command = [compiler(recipe), *recipe.flags, "-w", "-c"]
    if recipe.configure:
        _call([*recipe.configure], root)
    objects = crate / "objects"
    objects.mkdir(exist_ok=True)
    made: list[str] = []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = []
        for source in recipe.sources(root):
            made.append(str(objects / (source.replace("/", "_") + ".o")))
            jobs.append(pool.submit(_call, [*command, source, "-o", made[-1]], root))
        try:
            for job in as_completed(jobs):
                job.result()
                done()
        except BaseException:
            for job in jobs:
                job.cancel()
            raise
    partial = library.with_suffix(".partial")
    archive = library.with_suffix(".a")
    archive.unlink(missing_ok=True)
    _call(["ar", "rcs", str(archive), *made], root)
    _call([command[0], *recipe.link, "-o", str(partial), *made], root)
    partial.rename(library)


# Benchmark: the macro that names its allocator, and malloc's header.
STATIC = {"batch": ("BENCH_ALLOCATOR", "allocators/malloc.h"), "bulk": ("BENCH_ALLOCATOR", "allocators/malloc.h"),
          "kmalloc": ("BENCH_SIZED", "allocators/sized/malloc.h")}
PROGRAM_FLAGS = ("-O2", "-std=gnu11", "-D_GNU_SOURCE", "-fno-builtin-malloc", "-fno-builtin-free", "-pthread", "-w")


def link_programs(recipe: Recipe, bench: Path, archive: Path, name: str) -> None:
    """A benchmark's program for each of STATIC, linked with the archive; only if something is newer than it."""
    parts = sorted((bench / "common").glob("*.c"))
    newest = max(one.stat().st_mtime for one in (archive, *bench.glob("*/*.[ch]"), *bench.glob("allocators/sized/*.h")))
    for benchmark, (macro, header) in STATIC.items():
        program = archive.parent / f"{benchmark}-{name}-static"
        if program.exists() and program.stat().st_mtime > newest:
            continue
        partial, objects = program.with_suffix(".partial"), program.with_suffix(".o")
        _call(["cc", *PROGRAM_FLAGS, "-I", str(bench), f'-D{macro}="{header}"', "-r", "-o", str(objects),
               str(bench / "programs" / f"{benchmark}.c"), *map(str, parts)], bench)
        _call([compiler(recipe), "-pthread", "-o", str(partial), str(objects), str(archive), "-ldl",
               *(option for option in recipe.link if option.startswith("-static"))], bench)
        objects.unlink()
        partial.rename(program)
