# SPDX-License-Identifier: MIT
"""The tables of docs/internals/index.md: which sources there are, and which tests show them."""
import re
from pathlib import Path

INDEX = "docs/internals/index.md"
SPAN = re.compile(r"`([^`]+)`")


def index_rows(root):
    """Each row, as its folder, the names of the sources and the names of their tests."""
    folder = ""
    for line in Path(root, INDEX).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = re.match(r"### `([\w/]+)/`$", line)
            folder = heading[1] if heading else ""
        cells = [cell.strip() for cell in line.split("|")]
        if folder and len(cells) == 5 and cells[1] not in ("files", "---"):
            yield folder, SPAN.findall(cells[1]), SPAN.findall(cells[3])
