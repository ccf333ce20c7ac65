# SPDX-License-Identifier: MIT
"""Changes of the binary interface: each installed library against that of an earlier commit."""
import glob
import os
import re
import shutil

from lib.builds import ROOT, run

OPTIONS = ["--buildtype=debugoptimized", "-Dtests=disabled", "-Dtools=false", "--libdir=lib", "--prefix=/usr"]
IGNORE = os.path.join(ROOT, "packaging/libsheaf.abignore")
BEFORE = "HEAD~100"  # as long as there is no release
# What abidiff's exit status says.
ERROR, CHANGED = 3, 4


class Failed(Exception):
    """A command failed; its output."""


def _do(*command, **kwargs):
    result = run(list(command), **kwargs)
    if result.returncode:
        raise Failed(f"{' '.join(command)}\n{result.stdout}")
    return result.stdout


def last_release():
    """The last tag before this commit, or None."""
    if not shutil.which("git"):
        return None
    result = run(["git", "describe", "--tags", "--abbrev=0", "HEAD~1"])
    return result.stdout.strip() if result.returncode == 0 else None


def _unpack(base, place):
    """Unpack the sources of a commit here, unless they exist."""
    commit = _do("git", "rev-parse", "--verify", f"{base}^{{commit}}").strip()
    source = os.path.join(place, commit[:12])
    if not os.path.exists(source):
        os.makedirs(source + ".new")
        _do("git", "archive", f"--output={source}.tar", commit)
        _do("tar", "-xf", f"{source}.tar", "-C", source + ".new")
        os.remove(f"{source}.tar")
        os.rename(source + ".new", source)
    return source


def _install(source, place):
    """Build and install these sources; the folder then has only their files."""
    build, root = os.path.join(place, "build"), os.path.join(place, "root")
    if not os.path.exists(os.path.join(build, "build.ninja")):
        _do("meson", "setup", build, source, *OPTIONS)
    _do("ninja", "-C", build)
    shutil.rmtree(root, ignore_errors=True)
    _do("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root)
    return os.path.join(root, "usr")


def _libraries(installed):
    """File by name without version."""
    return {os.path.basename(path): os.path.realpath(path) for path in glob.glob(f"{installed}/lib/*.so")}


def _soname(library):
    """Its number."""
    return re.search(r"SONAME.*\.so\.(\w+)\]", _do("readelf", "-d", library))[1]


def _compare(tally, base, old, new, headers):
    """Compare one library. Only a change of something that existed breaks a program; soname 0 promises nothing."""
    name = os.path.basename(new).split(".")[0]
    command = ["abidiff", "--headers-dir1", headers[0], "--headers-dir2", headers[1], "--drop-private-types",
               "--suppressions", IGNORE, "--no-show-locs", old, new]
    result = run(command)
    if result.returncode & ERROR:
        raise Failed(f"{' '.join(command)}\n{result.stdout}")
    if not result.returncode & CHANGED:
        tally.add(f"{name}: holds for programs built with {base}", "OK")
        return
    print(result.stdout)
    broken = run(command + ["--no-added-syms"]).returncode & CHANGED
    number, before = _soname(new), _soname(old)
    if not broken:
        tally.add(f"{name}: holds for programs built with {base}, and has more", "OK")
    elif number == "0":
        tally.add(f"{name}: changed since {base}; soname 0 promises nothing", "OK")
    elif number != before:
        tally.add(f"{name}: changed since {base}, as its soname says", "OK")
    else:
        tally.add(f"{name}: programs built with {base} may break; soname {number} says they do not", "FAIL",
                  "Undo the change, or change the soname (packaging/meson.build)\n")


def compare(tally, base):
    """Compare every library of this tree with that of a commit, or else of the last release, or of an earlier commit."""
    base = base or last_release() or BEFORE
    place = os.path.join(ROOT, "build/deep/abi")
    try:
        source = _unpack(base, place)
        installed = [_install(source, source + ".d"), _install(ROOT, os.path.join(place, "this"))]
        old, new = map(_libraries, installed)
        for name in sorted(old):
            if name in new:
                _compare(tally, base, old[name], new[name], [os.path.join(each, "include") for each in installed])
            else:
                tally.add(f"{name}: gone since {base}", "FAIL")
    except Failed as failure:
        tally.add(f"comparison with {base}", "FAIL", str(failure))
