# SPDX-License-Identifier: MIT
"""The machine a benchmark ran on, as far as it bears on the result."""
from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


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
        return "not shown by this machine"


def package_version(package: str) -> str | None:
    """The version of an installed Debian package; None if it is not one."""
    try:
        result = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\n", package + "*"],
                                capture_output=True, text=True, check=False)
    except OSError:
        return None
    versions = [line for line in result.stdout.splitlines() if line]
    return versions[0] if versions else None


def describe() -> dict[str, Any]:
    machine = {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "unknown",
        "governor": _governor(),
        "load": round(os.getloadavg()[0], 2),
    }
    if os.environ.get("SHEAF_OPTIONS"):
        machine["options"] = os.environ["SHEAF_OPTIONS"]
    return machine
