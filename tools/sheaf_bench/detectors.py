# SPDX-License-Identifier: MIT
"""The rows of the detection table: libsheaf with each set of options, and the tools that it is compared with.

Letters and options that this library does not know are left out, as its own list of options says.
"""
from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SHEAF, MALLOC = "sheaf", "malloc"
TRAP = "-asan"  # of the programs that the compiler instruments
NOT_TOLD = "slab_debug=-"  # the library then tells sanitizers and valgrind nothing about its objects
LETTERS = ("F", "FZ", "FZPU", "G", "Q", "FZPUGQ")
VALGRIND = ("valgrind", "--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite",
            "--num-callers=20")
LIBRARIES = "/usr/lib/llvm-*/lib/clang/*/lib/linux", "/usr/lib/*-linux-gnu", "/usr/lib", "/usr/local/lib"


@dataclass(frozen=True)
class Detector:
    name: str
    code: str  # the head of its column
    program: str
    options: str = ""  # SHEAF_OPTIONS
    environment: tuple[tuple[str, str], ...] = ()
    library: str | None = None  # to preload
    command: tuple[str, ...] = ()
    guards: bool = False  # it uses inaccessible pages: a fault at the access counts as its report
    install: str = ""  # the package that has it

    @property
    def ours(self) -> bool:
        return self.program == SHEAF and not self.command

    def needed(self) -> str | None:
        """What is missing to run it; None if it can run."""
        if self.library and not find_library(self.library):
            return f"apt-get install {self.install}"
        if self.command and not shutil.which(self.command[0]):
            return f"apt-get install {self.install}"
        return None


def find_library(name: str) -> str | None:
    for directory in LIBRARIES:
        found = sorted(glob.glob(os.path.join(directory, name)))
        if found:
            return found[-1]
    return None


def known_options(program: Path) -> str:
    """The list of options that the library prints."""
    environment = {**os.environ, "SHEAF_OPTIONS": "help"}
    return subprocess.run([program, "right-use"], env=environment, capture_output=True, text=True,
                          timeout=60, check=False).stderr


def _option(known: str, pattern: str) -> str | None:
    found = re.search(pattern, known, re.M)
    return found[1] if found else None


def _letters(known: str) -> str:
    return _option(known, r"letters of ([A-Z]+)") or ""


def ours(known: str) -> list[Detector]:
    rows = [Detector("libsheaf, plain", "plain", SHEAF)]
    letters = _letters(known)
    # Every object that is allocated: whether the one object of the program is a sample is chance.
    if "S" in letters:
        rows.append(Detector("libsheaf, every object a sample", "S", SHEAF, "slab_debug=S;slab_sample=1", guards=True))
    if _option(known, r"^\s*(hardened)\b"):
        rows.append(Detector("libsheaf, hardened", "hard", SHEAF, "hardened"))
    for wanted in LETTERS:
        there = "".join(letter for letter in wanted if letter in letters)
        if there == wanted or (len(wanted) == len("FZPUGQ") and len(there) > len("FZPU")):
            # Leaks at exit are reported on demand; the stacks of U make that worth it.
            leaks = ";leaks" if "U" in there and _option(known, r"^\s*(leaks)\s") else ""
            rows.append(Detector(f"libsheaf, {there}", there, SHEAF, f"slab_debug={there}{leaks}",
                                 guards="G" in there))
    return rows


def _others() -> list[Detector]:
    scudo = (("SCUDO_OPTIONS", "quarantine_size_kb=4096:thread_local_quarantine_size_kb=1024:"
              "quarantine_max_chunk_size=2048:dealloc_type_mismatch=1:delete_size_mismatch=1"),)
    rows = [
        Detector("glibc", "glibc", MALLOC),
        Detector("glibc, MALLOC_CHECK_=3, MALLOC_PERTURB_", "check", MALLOC,
                 environment=(("MALLOC_CHECK_", "3"), ("MALLOC_PERTURB_", "165")),
                 library="libc_malloc_debug.so.0", install="libc6"),
        Detector("jemalloc", "je", MALLOC, library="libjemalloc.so.2", install="libjemalloc2"),
        Detector("jemalloc, junk and guards", "je+", MALLOC, library="libjemalloc.so.2",
                 environment=(("MALLOC_CONF", "junk:true,tcache:false,san_guard_small:1,san_guard_large:1"),),
                 guards=True, install="libjemalloc2"),
        Detector("mimalloc", "mi", MALLOC, library="libmimalloc.so.2", install="libmimalloc2.0"),
        Detector("tcmalloc, debug library", "tc+", MALLOC, library="libtcmalloc_minimal_debug.so.4",
                 install="libtcmalloc-minimal4"),
        Detector("scudo", "scudo", MALLOC, library="libclang_rt.scudo_standalone-x86_64.so",
                 install="libclang-rt-14-dev"),
        Detector("scudo, quarantine", "scu+", MALLOC, library="libclang_rt.scudo_standalone-x86_64.so",
                 environment=scudo, install="libclang-rt-14-dev"),
        Detector("Electric Fence", "fence", MALLOC, library="libefence.so.0", guards=True,
                 environment=(("EF_ALLOW_MALLOC_0", "1"), ("EF_ALIGNMENT", "1"), ("EF_PROTECT_FREE", "1")),
                 install="electric-fence"),
        Detector("DUMA", "duma", MALLOC, library="libduma.so.0", guards=True,
                 environment=(("DUMA_ALIGNMENT", "1"),), install="duma"),
        Detector("ASan, malloc", "asan", MALLOC + TRAP),
        Detector("ASan on libsheaf, not annotated", "a:sh", SHEAF + TRAP, NOT_TOLD),
        Detector("ASan on libsheaf", "a:sh+", SHEAF + TRAP),
        Detector("valgrind, malloc", "vg", MALLOC, command=VALGRIND, install="valgrind"),
        Detector("valgrind on libsheaf, not annotated", "v:sh", SHEAF, NOT_TOLD, command=VALGRIND, install="valgrind"),
        Detector("valgrind on libsheaf", "v:sh+", SHEAF, command=VALGRIND, install="valgrind"),
    ]
    return rows


def detectors(known: str) -> list[Detector]:
    return [*ours(known), *_others()]
