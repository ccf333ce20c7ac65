# SPDX-License-Identifier: MIT
"""`sheaf --complete WORD...`: completions of the last word, one per line, for tools/completion/sheaf.

The words come from the parser, so nothing is listed here. Without output, bash offers files.
"""
from __future__ import annotations

import argparse
from typing import Callable, Iterator

from . import control, shared

OPTION = "--complete"


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next(action.choices for action in parser._actions
                if isinstance(action, argparse._SubParsersAction))


def _words(parser: argparse.ArgumentParser, before: list[str], last: str) -> Iterator[str]:
    options = {word: action for action in parser._actions for word in action.option_strings}
    if before and before[-1] in options and options[before[-1]].nargs != 0:
        return  # the value of an option: a file, a number
    if last.startswith("-"):
        yield from (word for word in options if word.startswith("--"))
        return
    for action in parser._actions:
        if action.option_strings:
            continue
        if action.dest in ("pid", "source"):
            yield from sorted({*map(str, shared.processes()), *map(str, control.processes())})
        elif action.choices:
            yield from action.choices


def run(parser_for: Callable[[list[str]], argparse.ArgumentParser], words: list[str]) -> int:
    *before, last = words or [""]
    parser = parser_for(before)
    if before and before[0] in _commands(parser):
        parser = _commands(parser)[before[0]]
    for word in _words(parser, before, last):
        if word.startswith(last):
            print(word)
    return 0
