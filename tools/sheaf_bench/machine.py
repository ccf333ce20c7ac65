# SPDX-License-Identifier: MIT
"""The machine of a benchmark run, as far as it affects the result."""
from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
NODES = Path("/sys/devices/system/node")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def _governor() -> str:
    try:
        return GOVERNOR.read_text(encoding="utf-8").strip()
    except OSError:
        return "not reported by this machine"


def package_version(package: str) -> str | None:
    """The version of an installed Debian package; None if it is not one."""
    try:
        result = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\n", package + "*"],
                                capture_output=True, text=True, check=False)
    except OSError:
        return None
    versions = [line for line in result.stdout.splitlines() if line]
    return versions[0] if versions else None


def _nodes() -> int:
    return len(list(NODES.glob("node[0-9]*"))) or 1


def _libsheaf_version(workers: Path) -> str:
    """The version of the library in the workers."""
    found = sorted((workers.parent / "packaging").glob("libsheaf.so.*.*[0-9]"))
    if found:
        return found[0].name[len("libsheaf.so."):]
    try:
        result = subprocess.run(["pkg-config", "--modversion", "libsheaf"], capture_output=True,
                                text=True, check=False)
    except OSError:
        return "unknown"
    return result.stdout.strip() or "unknown"


def _backend(workers: Path) -> str:
    """The library reports on standard error if it cannot use its preferred backend."""
    if "backend=trylock" in os.environ.get("SHEAF_OPTIONS", ""):
        return "trylock, as SHEAF_OPTIONS asks"
    try:
        result = subprocess.run([workers / "batch-sheaf", "--pairs", "1", "--iterations", "2"],
                                capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    if result.returncode:
        return "unknown"
    return "trylock" if "trylock backend" in result.stderr else "rseq"


def describe(workers: Path) -> dict[str, Any]:
    """The machine, and the version and backend of the workers in this directory."""
    machine = {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "unknown",
        "governor": _governor(),
        "nodes": _nodes(),
        "libsheaf": _libsheaf_version(workers),
        "backend": _backend(workers),
        "load": round(os.getloadavg()[0], 2),
    }
    if os.environ.get("SHEAF_OPTIONS"):
        machine["options"] = os.environ["SHEAF_OPTIONS"]
    return machine
