# SPDX-License-Identifier: MIT
"""A progress bar on standard error; nothing if that is not a terminal."""
from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType

BAR = 24


class Progress:
    """Use as a context: the line is erased at its end."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.began = time.monotonic()
        self.shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def _left(self) -> str:
        if not self.done:
            return ""
        seconds = (time.monotonic() - self.began) / self.done * (self.total - self.done)
        return f"{seconds:4.0f} s left"

    def start(self, what: str) -> None:
        """Show that `what` runs now."""
        if not self.shown:
            return
        full = BAR * self.done // max(self.total, 1)
        line = f"[{'#' * full}{'.' * (BAR - full)}] {self.done}/{self.total} {self._left()}  {what}"
        sys.stderr.write("\r\033[K" + line[:shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()

    def finish(self) -> None:
        """The step that was started is done."""
        self.done += 1
