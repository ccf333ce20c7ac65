# SPDX-License-Identifier: MIT
"""The functions that allocate most, as text."""
from __future__ import annotations

from ..info import bytes_short
from ..stacks import age
from ..table import WIDTH, folded, one_line, plural
from .aggregate import Column, Function, by_function
from .estimate import Profile

WORDS = {"live": "in use", "all": "allocated", "peak": "in use at the peak"}
CACHE = 14  # columns


def amount(value: float, unit: str) -> str:
    """Signed, in at most seven columns."""
    if unit == "bytes":
        return ("-" if value < 0 else "") + bytes_short(abs(round(value)))
    for power, letter in ((9, "G"), (6, "M")):
        if abs(value) >= 10 ** power * 10:
            return f"{value / 10 ** power:.1f}{letter}"
    return f"{value:.0f}"


def _percent(value: float, total: float) -> str:
    return f"{100 * value / total:.1f}%" if total else "-"


def _cache(function: Function) -> str:
    """The one with most, and how many others."""
    ordered = sorted(function.caches, key=lambda name: (-abs(function.caches[name]), name))
    others = f" +{len(ordered) - 1}" if len(ordered) > 1 else ""
    name = one_line(ordered[0])
    return (name if len(name) + len(others) <= CACHE else name[:CACHE - len(others) - 2] + "..") + others


def _cut(name: str, width: int) -> str:
    """Both ends say most."""
    name = one_line(name)
    return name if len(name) <= width else f"{name[:width - 2 - width // 3]}..{name[-(width // 3):]}"


def _line(function: Function, unit: str, total: float) -> str:
    share, lifetime = function.elsewhere_share(), function.mean_lifetime_ms()
    cells = (f"{amount(function.own[0], unit):>7} {_percent(function.own[0], total):>6} "
             f"{amount(function.total[0], unit):>7} {_percent(function.total[0], total):>6} "
             f"{'-' if share is None else f'{100 * share:.0f}%':>9} {'-' if lifetime is None else age(lifetime):>8}  "
             f"{_cache(function):<{CACHE}} ")
    return cells + _cut(function.name, WIDTH - len(cells))


HEADER = f"{'flat':>7} {'flat%':>6} {'cum':>7} {'cum%':>6} {'elsewhere':>9} {'lifetime':>8}  {'cache':<{CACHE}} function"


def warnings(profile: Profile) -> list[str]:
    """What makes the figures or the names worse, in lines."""
    lines = [one_line(f"no functions of {file}: {why}; name a directory that has it with --path")
             for file, why in profile.missing.items()]
    if profile.full:
        lines.insert(0, f"{plural(profile.full, 'sample')} had no room: all figures are too low")
    return lines


def summary(profile: Profile, column: Column) -> list[str]:
    """What the figures are, in lines."""
    which = column[0]
    lines = [one_line(profile.title())]
    if profile.signed:
        change = {one: sum(entry.value(which, one) for entry in profile.entries) for one in ("objects", "bytes")}
        lines.append(f"{WORDS[which]}: {amount(change['bytes'], 'bytes')} in {amount(change['objects'], 'objects')} objects "
                     + ("in between" if which == "all" else "more in the second; a minus means less"))
    else:
        found = profile.sum(which)
        means = " or ".join(dict.fromkeys(bytes_short(raw.mean) for raw in profile.raws))
        lines.append(f"{WORDS[which]}: {bytes_short(round(found.bytes))} (standard error {found.percent():.1f} %) in "
                     f"{amount(found.objects, 'objects')} objects, estimated from {plural(found.samples, 'sample')}, "
                     f"one per {means}")
    return lines + warnings(profile)


def render(profile: Profile, column: Column, most: int) -> str:
    unit = column[1]
    functions = by_function(profile, [column])
    shown = [one for one in functions if round(one.total[0])]
    shown.sort(key=lambda one: (-abs(one.own[0]), -abs(one.total[0]), one.name))
    total = sum(abs(one.own[0]) for one in functions)  # of a difference: of all changes
    lines = [folded(summary(profile, column)), "", HEADER, *(_line(one, unit, total) for one in shown[:most])]
    if len(shown) > most:
        lines.append(f"and {plural(len(shown) - most, 'more function')}: --top N shows more")
    return "\n".join(lines) + "\n"
