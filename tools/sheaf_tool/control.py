# SPDX-License-Identifier: MIT
"""Asks a process through its control socket: see src/os/channel.h and src/control/control.c.

A process answers at the end of a slow call of the library, so one that makes no such call does not answer. One that has
no socket is woken first, and has one for a minute: see wake.py.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import socket
import struct
import sys
import time
from contextlib import contextmanager
from threading import Timer
from typing import Any, Iterator

from . import namespaces, wake
from .errors import Failure, Usage
from .forms import has_form

PATIENCE = 10.0  # seconds
SILENCE = 2.0  # seconds without a word on a terminal
LISTED = re.compile(r"@libsheaf-control-(\d+)$", re.M)


class Idle(Failure):
    """The process made no call that could answer."""
    code = 5


def processes() -> list[int]:
    """Those that have a control socket here; they may belong to other users."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
            numbers = {int(number) for number in LISTED.findall(file.read())}
    except OSError:
        return []
    return [pid for pid in namespaces.pids()
            if namespaces.own_number(pid) in numbers and not namespaces.is_other(pid, "net")]


def add_arguments(parser: Any, caches: bool = True) -> None:
    if caches:
        parser.add_argument("--cache", metavar="NAME", help="only this cache; NAME* means all that begin with NAME")
    parser.add_argument("--timeout", type=float, default=PATIENCE, metavar="SECONDS",
                        help="how long to wait for an answer (default %(default)g)")


def add_command(commands: Any, module: Any, summary: str, caches: bool = True) -> Any:
    """A command named like the module that asks one process; its options so far."""
    parser = commands.add_parser(module.__name__.split(".")[-1], help=summary,
                                 description=module.__doc__.replace("`", ""), epilog=module.EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", metavar="PID", help="the process")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_arguments(parser, caches)
    parser.set_defaults(run=module.run)
    return parser


def _idle(pid: int, timeout: float) -> Idle:
    return Idle(f"process {pid} is idle: for {timeout:g} s it made no slow call of libsheaf, which would answer; ask again later")


@contextmanager
def _with_notice(pid: int) -> Iterator[None]:
    """Say on a terminal what is waited for."""
    text = f"sheaf: waiting for process {pid} to make a slow call of libsheaf; it is idle"
    timer = Timer(SILENCE, lambda: print(text, file=sys.stderr))
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _socket(pid: int) -> socket.socket:
    """One that can reach the process: names of sockets belong to a network namespace."""
    if not namespaces.is_other(pid, "net"):
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with namespaces.network_of(pid):
            return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise Failure(f"process {pid} is in another network namespace, and only root can ask it there "
                      f"({error.strerror})") from None


def _try(pid: int) -> socket.socket | None:
    peer = _socket(pid)
    peer.setblocking(False)  # it would wait while many others do
    if peer.connect_ex(f"\0libsheaf-control-{namespaces.own_number(pid)}") == 0:
        return peer
    peer.close()
    return None


def _connect(pid: int, until: float) -> socket.socket | None:
    """None: it was too late."""
    peer, words = _try(pid), None
    while peer is None:
        if time.monotonic() > until:
            return None
        first = words is None
        words = wake.find(pid) if first else words
        wake.wake(pid, words, not first)
        time.sleep(0.01)
        peer = _try(pid)
    # Whoever came first may have the name: it must be this process, of this user.
    owner, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if owner != pid or os.geteuid() not in (0, uid):
        peer.close()
        raise Failure(f"process {pid}: its control socket belongs to another {'user' if owner == pid else 'process'}")
    return peer


def _exchange(pid: int, line: bytes, timeout: float) -> tuple[bytes, list[int]]:
    until = time.monotonic() + timeout
    with _with_notice(pid):
        peer = _connect(pid, until)
        if peer is None:
            raise _idle(pid, timeout)
        with peer:
            try:
                peer.settimeout(max(0.001, until - time.monotonic()))
                peer.sendall(line)
                return socket.recv_fds(peer, 1024, 1)[:2]
            except TimeoutError:
                raise _idle(pid, timeout) from None
            except OSError as error:
                raise Failure(f"process {pid}: {error.strerror}") from None


def ask(pid: int, question: str, cache: str | None = None, timeout: float = PATIENCE) -> str:
    """The answer's text. Raises Idle if there is none in time."""
    if cache is not None and re.search(r"[\t\n\0]", cache):
        raise Usage("the name of a cache has no tabs or line feeds")
    line = question + ("" if cache is None else f"\t{cache}") + "\n"
    status, files = _exchange(pid, line.encode("utf-8", "surrogateescape"), timeout)
    if not status.startswith(b"ok"):
        for file in files:
            os.close(file)
        why = status.decode("utf-8", "replace").strip().removeprefix("error ")
        raise Failure(f"process {pid} cannot answer: {why or 'it ended'}")
    if not files:
        raise Failure(f"process {pid} answered without a file")
    with open(files[0], "rb") as answer:
        answer.seek(0)
        return answer.read().decode("utf-8", "replace")


def not_understood(pid: int) -> Failure:
    return Failure(f"process {pid} answered what this version does not understand: use the `sheaf` of the libsheaf that it runs")


def ask_json(pid: int, question: str, form: dict[str, Any], cache: str | None = None,
             timeout: float = PATIENCE) -> list[dict[str, Any]]:
    """A list of objects that have this form (forms.py)."""
    try:
        found: list[dict[str, Any]] = json.loads(ask(pid, question, cache, timeout))
    except (ValueError, RecursionError):
        found = [{}]
    if not has_form(found, [form]):
        raise not_understood(pid)
    return found
