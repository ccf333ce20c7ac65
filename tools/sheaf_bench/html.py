# SPDX-License-Identifier: MIT
"""Small pieces of HTML."""
from __future__ import annotations

from html import escape
from typing import Iterable, Sequence

__all__ = ["escape", "page", "table"]


def _cell(tag: str, text: str) -> str:
    first, *rest = text.split("\n")
    below = "".join(f"<br><small>{escape(line)}</small>" for line in rest)
    return f"<{tag}>{escape(first)}{below}</{tag}>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """The first line of a cell is large, the others below it are small; kind is a CSS class."""
    head = "".join(_cell("th", text) for text in header)
    body = "".join("<tr>" + _cell("th", row[0]) + "".join(_cell("td", text) for text in row[1:])
                   + "</tr>" for row in rows)
    return (f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>")


def _titled(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first, _, rest = title.partition("\n")
    return (f"<h3>{escape(first)}</h3>" + (f"<p>{escape(rest)}</p>" if rest else "")
            + table(header, rows))


def page(pictures: Iterable[str], tables: Iterable[tuple[str, Sequence[str], Sequence[Sequence[str]]]],
         notes: Iterable[str]) -> str:
    """A suite's part of the report: its pictures, its titled tables and their explanation."""
    drawn = "".join(f"<figure>{picture}</figure>" for picture in pictures)
    said = "".join(f"<p>{escape(line)}</p>" for line in notes)
    return drawn + "".join(_titled(*one) for one in tables) + said
