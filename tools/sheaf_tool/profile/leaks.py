# SPDX-License-Identifier: MIT
"""What is in use, by the stack that allocated it: most first."""
from __future__ import annotations

from ..stacks import age, block, span
from ..table import folded, plural
from . import top
from .aggregate import frames
from .estimate import Entry, Profile
from .raw import Sample


def _ages(samples: list[Sample], now: float) -> str:
    if not samples:
        return ""
    ages = [max(0.0, now - sample.ms) for sample in samples]
    threads = [sample.thread for sample in samples]
    return f", age {age(min(ages))} to {age(max(ages))}, thread {span(min(threads), max(threads))}"


def _block(entry: Entry, samples: list[Sample], now: float, n: int) -> str:
    objects, size = entry.values["live"]
    group = f", group {entry.group}" if entry.group else ""
    return block(f"{top.amount(size, 'bytes'):>7} in {top.amount(objects, 'objects')} objects of {entry.cache or entry.size}, "
                 f"by {plural(n, 'sample')}{_ages(samples, now)}{group}", [line.text() for line in frames(entry.stack)])


def render(profile: Profile, most: int) -> str:
    """Of profiles that are not subtracted."""
    found, number = [], 0
    for raw in profile.raws:
        samples: dict[int, list[Sample]] = {}
        for sample in raw.samples:
            samples.setdefault(sample.row, []).append(sample)
        for index, row in enumerate(raw.rows):
            if row.values["live"][0]:
                found.append((profile.entries[number], samples.get(index, []), raw.now_ms, row.values["live"][0]))
            number += 1
    found.sort(key=lambda one: -one[0].values["live"][1])
    parts = [folded(top.summary(profile, ("live", "bytes"))), *(_block(*one) for one in found[:most])]
    if len(found) > most:
        parts.append(f"and {plural(len(found) - most, 'more stack')}: --top N shows more")
    return "\n".join(parts) + "\n"
