# SPDX-License-Identifier: MIT
"""Where the command and the programs that it runs are, in the source tree and once installed."""
from __future__ import annotations

import re
from pathlib import Path

from .errors import Failure

PARTS = Path(__file__).resolve().parent
ROOT = PARTS.parent.parent
IN_SOURCE_TREE = (ROOT / "meson.build").exists()
PEERS = ROOT / "build" / "peers"  # where bench/peers/fetch puts libraries
MAPLE_IN_BUILD = "subprojects/maple"


def version() -> str:
    """The version of the library that the command belongs to."""
    if IN_SOURCE_TREE:
        text = (ROOT / "meson.build").read_text(encoding="utf-8")
        return re.search(r"^ *version: '(.+)',$", text, re.MULTILINE)[1]
    return (PARTS.parent / "version").read_text(encoding="utf-8").strip()


def program(name: str, place: str, build: str | None) -> Path:
    """The path of a program that a command runs; place is its directory in a build."""
    if build or IN_SOURCE_TREE:
        found = (Path(build).resolve() if build else ROOT / "build") / place / name
    else:
        found = ROOT.parent / "libexec" / "sheaf" / name
    if not found.exists():
        raise Failure(f"{found} is not built: run `make` first, or name the build directory with "
                      "--build")
    return found
