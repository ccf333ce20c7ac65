# SPDX-License-Identifier: MIT
"""Tests where there is no rseq: under valgrind, and under qemu for another processor."""
import contextlib
import os
import resource

from lib import debian
from lib.builds import ROOT, test
from lib.stage import RELEASE, Skipped, built, need
from lib.units import without_rseq

ARM = "aarch64-linux-gnu"
# Statistics, slots of thousands of CPUs, 384 MiB on one of two nodes, a large heap, blocks aligned to 1 GiB, and an emulator of
# five busy threads need more address space than other tests get. (Without it, the emulator hangs.)
ROOMY = ("sheaves-", "many-caches-", "spare-", "decay-", "idle-", "limit-", "container-",
         "kmalloc-helpers-")
ROOMY_VARIANTS = ("-stats", "-sampled")


@contextlib.contextmanager
def _small_ranges():
    """Limit the address space of commands inside the block, and so the library's ranges.

    Valgrind and qemu grant memory beyond a limit on data, so a test that uses up all memory ends
    only at the end of the range: the 16 GiB that the library reserves under them take too long.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (3 << 29, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def in_small_ranges(tally, directory, chosen, part, options=(), env=None):
    """Run the part of these tests that is not the same as another one here."""
    options = ["--timeout-multiplier", "60", *options]
    chosen = part(without_rseq(chosen))
    roomy = [name for name in chosen if name.startswith(ROOMY) or name.endswith(ROOMY_VARIANTS)]
    with _small_ranges():
        test(tally, directory, *options, *(name for name in chosen if name not in roomy), env=env)
    if roomy:
        test(tally, directory, *options, *roomy, env=env)


def build_aarch64(tally):
    """Build for AArch64: the folder and where the libraries for it are; the latter is None if the build failed."""
    need(f"{ARM}-gcc", "apt-get")
    place, directory = os.path.join(ROOT, "build/deep/aarch64-libraries"), "build/deep/aarch64"
    libraries = os.path.join(place, "root")
    cmocka = f"{libraries}/usr/lib/{ARM}/libcmocka.so"
    if not os.path.exists(cmocka) and not debian.unpack(place, "arm64", ["libcmocka-dev", "libcmocka0"]):
        raise Skipped("this machine's apt has no libcmocka-dev for AArch64")
    where = os.path.join(place, "where.ini")
    with open(where, "w", encoding="utf-8") as file:
        file.write(f"[properties]\nsys_root = '{libraries}'\n"
                   f"pkg_config_libdir = '{libraries}/usr/lib/{ARM}/pkgconfig'\n")
    options = [*RELEASE, "--cross-file", "tests/deep/aarch64.ini", "--cross-file", where]
    return directory, libraries if built(tally, directory, "gcc", options) else None
