# SPDX-License-Identifier: MIT
"""Packages for another architecture, unpacked and not installed: this machine's apt stays as it is."""
import glob
import os
import re

from lib.builds import run


def newest(pattern):
    """The last of the files of this pattern in the order of versions; None if there is none."""
    def version(path):
        return [int(number) for number in re.findall(r"\d+", path)]

    return max(glob.glob(pattern), key=version, default=None)


def _apt(place, architecture):
    """The options that give apt a state of its own below `place`; its package lists are fetched once."""
    for folder in "state/lists/partial", "cache/archives/partial":
        os.makedirs(os.path.join(place, folder), exist_ok=True)
    options = ["-q", "-o", f"Dir::State={place}/state", "-o", f"Dir::Cache={place}/cache",
               "-o", "Dir::State::status=/dev/null", "-o", f"APT::Architecture={architecture}",
               "-o", f"APT::Architectures={architecture}",
               "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true"]
    if not glob.glob(f"{place}/state/lists/*_Packages*"):
        run(["apt-get", *options, "update"])
    return options


def unpack(place, architecture, names):
    """Unpack these packages into place/root; True if apt had all of them."""
    options = _apt(place, architecture)
    if run(["apt-get", *options, "download", *names], cwd=place).returncode:
        return False
    for package in glob.glob(f"{place}/*.deb"):
        run(["dpkg-deb", "--extract", package, f"{place}/root"])
        os.remove(package)
    return True


def unpack_one_of(place, architecture, names):
    """Unpack the packages on which the first of these that exists depends, as a kernel's name without a version
    does, or itself if it depends on none of its kind; True on success."""
    options = _apt(place, architecture)
    for name in names:
        text = run(["apt-cache", *options, "show", "--no-all-versions", name]).stdout
        depends = re.search(r"^Depends: (linux-image-[^\s,(]+)", text, re.M)
        if text.startswith("Package:") and unpack(place, architecture, [depends[1] if depends else name]):
            return True
    return False
