# SPDX-License-Identifier: MIT
"""How long each fuzz target was run, and the edges that it reached: the record that tests/fuzz/run --record keeps.

A session has its target, engine, commit and CPU seconds, and the edges that were reached at its begin and after each
quarter of it.
"""
import json

from lib import records

PATH = records.FOLDER / "fuzz/sessions.json"
ENOUGH = 4 * 3600  # CPU seconds of a target, in the last quarter of which no edge is new


def sessions():
    return json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else []


def add(session):
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text("[\n" + ",\n".join(map(json.dumps, [*sessions(), session])) + "\n]\n", encoding="utf-8")


def reached(target):
    """The CPU seconds of all its sessions, the most edges after three quarters of them, and the most at the end."""
    quarters = [(one["cpu_seconds"] / 4, edges) for one in sessions() if one["target"] == target for edges in one["edges"][1:]]
    total, passed, before = sum(seconds for seconds, _ in quarters), 0, 0
    for seconds, edges in quarters:
        passed += seconds
        if passed <= total * 3 / 4 + 0.5:
            before = max(before, edges)
    return total, before, max((edges for _, edges in quarters), default=0)


def section():
    """Of the page; nothing without a record."""
    targets = sorted({one["target"] for one in sessions()})
    if not targets:
        return None
    rows = []
    for target in targets:
        total, before, now = reached(target)
        rows.append(f"| {target} | {total / 60:.1f} | {before} | {now} | {'yes' if total >= ENOUGH and now <= before else 'no'} |")
    return "\n".join(["## Fuzzing\n",
                      "How long `tests/fuzz/run` was at each target, and the edges that were reached when three quarters of that time were "
                      f"over, and at its\nend. Enough is {ENOUGH // 3600} hours, and no new edge in the last quarter.\n",
                      "| target | CPU minutes | edges at 3/4 | at the end | enough |", "|---|--:|--:|--:|---|", *rows])
