# SPDX-License-Identifier: MIT
"""Directories of the workers, their data and the reports, in the source tree and installed."""
from __future__ import annotations

from pathlib import Path

from sheaf_tool.errors import Failure
from sheaf_tool.paths import IN_SOURCE_TREE, MAPLE_IN_BUILD, PARTS, PEERS, ROOT

DATA = ROOT / "bench" / "data" if IN_SOURCE_TREE else PARTS.parent / "data"  # recordings
MAPS = ROOT / "maple" / "bench" / "vma" / "maps" if IN_SOURCE_TREE else DATA / "maps"  # of address spaces


def worker_directory(build: str | None) -> Path:
    """The directory of the benchmark programs; `build` is a Meson build directory, if given."""
    if build:
        found = Path(build).resolve() / "bench"
    elif IN_SOURCE_TREE:
        found = ROOT / "build" / "bench"
    else:
        found = ROOT.parent / "libexec" / "sheaf"
    if not (found / "batch-harness").exists():
        raise Failure(f"no benchmark programs in {found}: build with Meson's option -Dbench=true (`make "
                      "bench` does), or name the build directory with --build")
    return found


def worker(workers: Path, name: str) -> Path:
    """A benchmark program, from this directory or, of the same build, from that of maple/."""
    of_maple = workers.parent / MAPLE_IN_BUILD / "bench" / name
    return of_maple if of_maple.exists() else workers / name


def report_directory(output: str | None) -> Path:
    if output:
        return Path(output)
    return ROOT / "build" / "report" if IN_SOURCE_TREE else Path("sheaf-report")
