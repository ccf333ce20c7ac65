# SPDX-License-Identifier: MIT
"""Prints verdicts as they arrive, and their count. On a terminal, a last line shows what runs now."""
import contextlib
import os
import shutil
import sys
import threading
import time


class Tally:
    """Any thread may call any function."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self._began = time.monotonic()
        self._running = {}  # what: its progress, in the order of their starts
        self._lock = threading.Lock()
        self._terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        if self._terminal:
            threading.Thread(target=self._tick, daemon=True).start()

    def add(self, name, verdict, output="", seconds=None):
        word = {"OK": "ok", "SKIP": "skip"}.get(verdict, "FAIL")
        took = "" if seconds is None else f" ({seconds:.1f} s)"
        with self._lock:
            self._erase()
            reason = f": {output.strip()}" if word == "skip" and output.strip() else ""
            print(f"{word:5} {name}{took}{reason}")
            if word == "FAIL":
                self.failed += 1
                print(output[-6000:], end="" if output.endswith("\n") else "\n")
            elif word == "skip":
                self.skipped += 1
            else:
                self.passed += 1
            self._show()

    @contextlib.contextmanager
    def running(self, what):
        """A context in which `what` runs. It yields a function to call with the progress."""
        def tell(progress):
            with self._lock:
                self._running[what] = progress
                self._erase()
                self._show()

        tell("")
        try:
            yield tell
        finally:
            with self._lock:
                del self._running[what]
                self._erase()
                self._show()

    def close(self):
        """Print the closing line; the exit status."""
        with self._lock:
            self._erase()
            self._terminal = False
            print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed else 0

    def _erase(self):
        if self._terminal:
            sys.stdout.write("\r\033[K")

    def _show(self):
        if self._terminal:
            minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
            parts = [f"{minutes}:{seconds:02}, {self.passed} passed, {self.failed} failed"]
            parts += [f"{what} {progress}" for what, progress in self._running.items()]
            sys.stdout.write(" | ".join(parts)[:shutil.get_terminal_size().columns - 1])
        sys.stdout.flush()

    def _tick(self):
        while True:
            time.sleep(1)
            with self._lock:
                self._erase()
                self._show()
