# SPDX-License-Identifier: MIT
"""Stages: the protocols on weak memory, packages, programs on libsheaf-malloc, and the binary interface."""
import glob
import os

from lib import abi, fast
from lib.builds import ROOT, run
from lib.stage import built, need, program, stage


@stage("litmus", "the protocols of slabs and of drains on weak memory, by loom: every schedule with up to three preemptions")
def litmus(tally):
    need("cargo")
    for name, tests in ("slab", 12), ("stop", 2):
        program(tally, f"litmus {name}",
                ["cargo", "test", "--release", "--locked", "--manifest-path", "tests/litmus/Cargo.toml", "--test", name],
                {"LOOM_MAX_PREEMPTIONS": "3", "CARGO_TARGET_DIR": os.path.join(ROOT, "build/deep/litmus")},
                wanted=f"{tests} passed; 0 failed")


@stage("deb", "Debian packages build, lintian accepts them, and a program builds with their contents")
def deb(tally):
    need("dpkg-buildpackage", "dh_python3", "lintian", "git")
    program(tally, "Debian packages", ["packaging/make-deb"], {"DEB_BUILD_OPTIONS": "nocheck"}, wanted="libsheaf0_")
    place = os.path.join(ROOT, "build/deb/root")
    for package in glob.glob(os.path.join(ROOT, "build/deb/*.deb")):
        run(["dpkg-deb", "--extract", package, place])
    for library in glob.glob(f"{place}/usr/lib/*/libsheaf.so"):
        libraries = os.path.dirname(library)
        program(tally, "what the packages hold", ["packaging/debian/tests/smoke"], {
            "AUTOPKGTEST_TMP": os.path.join(ROOT, "build/deb"), "LD_LIBRARY_PATH": libraries,
            "PATH": f"{place}/usr/bin:{os.environ['PATH']}", "PKG_CONFIG_SYSROOT_DIR": place,
            "PKG_CONFIG_PATH": f"{libraries}/pkgconfig"}, wanted="libsheaf works")


@stage("programs", "each program of `sheaf bench real` prints the same on libsheaf-malloc, with five sets of options")
def programs(tally):
    if built(tally, *fast.RELEASE):
        program(tally, "programs", ["tests/programs/check-programs", fast.RELEASE[0]], wanted=" 0 with faults")


@stage("abi", "what changed in the binary interface since the last release, or since --base REF; before the first one, in 100 commits")
def interface(tally):
    need("abidiff", "git")
    abi.compare(tally, tally.base)
