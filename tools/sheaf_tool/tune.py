# SPDX-License-Identifier: MIT
"""`sheaf tune PID`: the settings of a running process and of its caches, and new values for them."""
from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from . import control, shared
from .errors import Usage
from .forms import has_form
from .table import printable, render

NEVER = (1 << 32) - 1  # decay
COLUMNS = ("capacity", "barn_full", "barn_empty", "limit", "min_partial")
EPILOG = """\
Without settings, the command lists those in force; (program), (options) or (tune) says who set one
that the library did not choose.

settings of caches: CACHE is a name; NAME* means all that begin with NAME, '*' all
  capacity=N      objects of a new sheaf, 1 to 4096; 0: the library chooses
  barn_full=N     full sheaves that each node's barn may hold, 1 to 65535; 0: the library chooses
  barn_empty=N    empty sheaves that stay in each node's barn, 1 to 65535; 0: no limit
  limit=N         most bytes of memory of a cache's slabs; 0: none
  min_partial=N   empty slabs that each node keeps, 0 to 65535

settings of the process
  decay=N         milliseconds for which free memory stays, 0 to 3600000, or never

If one value is wrong, nothing changes. Options come last.

examples:
  sheaf tune 4711                                    list all settings
  sheaf tune 4711 conn                               list those of one cache
  sheaf tune 4711 conn capacity=256 barn_full=100    change two of them
  sheaf tune 4711 'req*' capacity=0                  let the library choose again
  sheaf tune 4711 decay=250                          return free memory sooner

exit code: 5 if the process made no call that leaves the fast path, so it did not answer
"""


def cell(setting: dict[str, Any]) -> str:
    return f"{setting['value']}" + ("" if setting["by"] == "automatic" else f" ({setting['by']})")


def decay_text(ms: int, by: str) -> str:
    how = "until a call returns it" if ms == NEVER else f"{ms} ms"
    return f"decay: free memory stays {how} ({by})"


def _text(records: list[dict[str, Any]]) -> str:
    rows = [[one["cache"], *(cell(one["settings"][name]) if name in one["settings"] else "-" for name in COLUMNS)]
            for one in records if one["cache"] is not None]
    parts = [decay_text(one["settings"]["decay"]["value"], one["settings"]["decay"]["by"])
             for one in records if one["cache"] is None]
    return printable("\n".join(parts + ([render(["cache", *COLUMNS], rows)] if rows else [])))


def _ask(arguments: argparse.Namespace, words: list[str], cache: str | None) -> list[dict[str, Any]]:
    pid = shared.number(arguments.pid)
    records = control.ask_json(pid, " ".join(["tune", *words]), {"cache": (str, type(None)), "settings": dict},
                               cache, arguments.timeout)
    for one in records:
        if not (has_form(list(one["settings"].values()), [{"value": int, "by": str}])
                and ("decay" in one["settings"] or one["cache"] is not None)):
            raise control.not_understood(pid)
    return records


def run(arguments: argparse.Namespace) -> int:
    words, cache = list(arguments.words), arguments.cache
    if words and "=" not in words[0]:
        if cache is not None:
            raise Usage("name the cache once")
        cache = words.pop(0)
    for word in words:
        if "=" not in word or not word.isprintable() or " " in word:
            raise Usage(f"{word!r} is not a setting, such as capacity=256")
    records = _ask(arguments, words, cache)
    if cache is None and not words:
        records += _ask(arguments, [], "*")
    print(json.dumps(records, indent=1) if arguments.json else _text(records))
    return 0


def add_parser(commands: Any) -> None:
    parser = control.add_command(commands, sys.modules[__name__], "list and change settings of a running process")
    parser.add_argument("words", nargs="*", metavar="[CACHE] SETTING=N", help="a cache, and new values")
