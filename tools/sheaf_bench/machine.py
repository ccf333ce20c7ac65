# SPDX-License-Identifier: MIT
"""The machine of a benchmark run, as far as it affects the result."""
from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
NODES = Path("/sys/devices/system/node")
DEFECTS = Path("/sys/devices/system/cpu/vulnerabilities")
OF_INDIRECT_BRANCHES = ("retbleed", "spectre_v2")  # whose mitigations make them dear


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


@functools.lru_cache(None)
def _calls(workers: Path) -> dict[str, Any]:
    """Times of empty calls, and how programs call the library; once for all suites of a run."""
    try:
        result = subprocess.run([workers / "calls"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = re.fullmatch(r"direct (\S+) indirect (\S+) sheaf (.+)\n", result.stdout)
    if not found:
        return {}
    return {"sheaf": found[3], "call_ns": {"direct": float(found[1]), "indirect": float(found[2])}}


def way(workers: Path) -> str:
    """How its programs `sheaf` have the common calls; versions that do not say so made them."""
    return str(_calls(workers).get("sheaf", "called"))


def _mitigations() -> dict[str, str]:
    found = {}
    for defect in OF_INDIRECT_BRANCHES:
        try:
            found[defect] = (DEFECTS / defect).read_text(encoding="utf-8").strip()
        except OSError:
            continue
    return found


def calls(machine: dict[str, Any]) -> str | None:
    """What an indirect branch costs there; None in results of versions that did not measure it."""
    if "call_ns" not in machine:
        return None
    times = machine["call_ns"]
    return f"{times['indirect']:.1f} ns through a pointer, {times['direct']:.1f} ns direct"


def mitigations(machine: dict[str, Any]) -> str:
    return ", ".join(f"{defect}: {said}" for defect, said in machine.get("mitigations", {}).items())


def cpus(machine: dict[str, Any]) -> str:
    return f"{machine['cpus']} CPU{'s' * (machine['cpus'] > 1)}"


def line(machine: dict[str, Any]) -> str:
    """For the head of the tables."""
    said = f"{machine['cpu']}, {cpus(machine)}, {machine['kernel']}, {machine['libc']}."
    if costs := calls(machine):
        said += f" An empty call: {costs}"
        said += f" ({found})." if (found := mitigations(machine)) else "."
    return said


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
        **_calls(workers),
        "mitigations": _mitigations(),
    }
    if os.environ.get("SHEAF_OPTIONS"):
        machine["options"] = os.environ["SHEAF_OPTIONS"]
    return machine
