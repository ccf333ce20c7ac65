# SPDX-License-Identifier: MIT
"""The profile of a running process, through its control socket."""
from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

from .. import control
from ..errors import Failure
from . import modules, raw

MAPPED = re.compile(r"^([0-9a-f]+-[0-9a-f]+) ..x. ([0-9a-f]+) \S+ \d+ +(/.*)$", re.M)


class Off(Failure):
    """The process takes no samples, and never did."""


def fetch(pid: int, timeout: float, switch: str = "") -> raw.Raw:
    """What the process says now; switch: "on", "on BYTES" or "off", which comes first."""
    try:
        text = control.ask(pid, f"profile {switch}".rstrip(), None, timeout)
    except Failure as error:
        if "does not know this question" in str(error):
            raise Failure(f"process {pid} runs a libsheaf without heap profiles") from None
        if "takes no samples" in str(error):
            raise Off(f"process {pid} takes no samples: begin with `sheaf profile {pid} --on`, look for a while with --seconds N, "
                      "or start it with SHEAF_OPTIONS=profile") from None
        raise
    return raw.parse(text, f"the answer of process {pid}", time.time(), about(pid))


def change(pid: int, timeout: float, seconds: float) -> tuple[raw.Raw, raw.Raw]:
    """Two profiles, so many seconds apart. If the process takes no samples, it does so meanwhile."""
    try:
        before = fetch(pid, timeout)
        begin = "" if before.on else f"on {before.mean}"
    except Off:
        begin = "on"
    if begin:
        before = fetch(pid, timeout, begin)
    try:
        time.sleep(seconds)
    finally:
        after = fetch(pid, timeout, "off" if begin else "")
    return before, after


def about(pid: int) -> dict[str, Any]:
    """What all can see of a process: its program, and the code that it has mapped."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
        text = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Failure(f"process {pid}: cannot read what it has mapped: {error.strerror}") from None
    maps = []
    for span, offset, file in MAPPED.findall(text):
        found = next(filter(None, map(modules.facts, modules.of_process(pid, program, file, span))), None)
        start, end = span.split("-")
        maps.append({"start": start, "end": end, "offset": int(offset, 16), "file": file,
                     "build_id": found.build_id if found else ""})
    return {"program": program, "pid": pid, "maps": maps}
