#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Change what the `sheaf` command reads at random: it must end with its output, or with one line on standard error.

  counters   the file of counters of a process       sheaf info, as text, JSON and for Prometheus
  answers    what a process answers to a request     sheaf leaks, debug, info --validate; the groups of sheaf top
  results    two files of results                    sheaf compare
  report     a report, and the ELF file of a module  sheaf symbolize
  profile    a heap profile, and the same ELF file   sheaf profile, in each format

Usage: tools.py [--runs N] [--seed N] [TARGET]...       SHEAF_LIVE is the program of tools/tests/live.c
"""
import argparse
import contextlib
import copy
import gzip
import io
import json
import os
import random
import re
import sys
import tempfile
import traceback
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/tests")]

import heap  # noqa: E402  (the path above comes first)
from live import HAS_LIVE, Live  # noqa: E402
from sheaf_tool import cli, control, elf, groups, shared, symbols  # noqa: E402

CODES = {0, 1, 2, 3, 4, 5}
ODD = [None, True, 0, -1, 1.5, 2 ** 31, 2 ** 64, 10 ** 400, float("nan"), float("inf"), "", "x", "\0\n\x1b[2J", "é" * 300,
       [], {}, [[]], {"": None}]
STACK = [{"address": "0x1", "module": "/bin/sh", "offset": "0x10", "frame": "sh(+0x10)"},
         {"address": "0x2", "module": None, "offset": "0", "frame": "[0x2]"}]
TRACE = {"objects": 1, "bytes": 64, "age_min_ms": 1, "age_avg_ms": 2, "age_max_ms": 3, "thread_min": 4, "thread_max": 5,
         "cpu_min": 0, "cpu_max": 1, "object": "0x3", "stack": STACK}
ANSWERS = {
    "leaks": [{"cache": "one", "objects": 2, "unknown": 0, "further": 1, "missed_slabs": 0, "guarded": False,
               "traces": [TRACE]}],
    "debug": [{"cache": "one", "letters": "FZPU"}],
    "info": [{"cache": "one", "checked": True, "faults": 0}],
    "groups": [{"id": 1, "parent": 0, "name": "a", "bytes": 10, "own_bytes": 5, "own_objects": 1, "peak": 20,
                "hard_limit": 0, "failed": 0, "caches": [{"name": "one", "bytes": 5, "objects": 1}]}],
}
REPORT = "libsheaf: kfree(0x1): wrong; ignored. Do not. Callers: live(main+0x20) live(+0x1130) libc.so.6(+0x2724a)\n"


class Fuzz:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def bytes(self, data):
        """With some bytes changed, removed or repeated."""
        data = bytearray(data)
        for _ in range(self.random.randrange(1, 6)):
            at, n = self.random.randrange(len(data) + 1), self.random.randrange(1, 64)
            data[at:at + n] = self.random.choice([
                bytes(self.random.choices(range(256), k=n)), b"", bytes(n), b"\xff" * n, data[at:at + n] * 2,
                b"[" * 5000, bytes([(data[at:at + 1] or b"\0")[0] ^ 1 << n % 8]) + data[at + 1:at + n]])
        return bytes(data[:self.random.randrange(len(data) + 1)] if not self.random.randrange(8) else data)

    def places(self, value):
        """Each list and object in a value, with each of its keys."""
        for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            yield value, key
            yield from self.places(value[key])

    def json(self, value):
        """With some values replaced, removed or repeated; sometimes with bytes changed."""
        value = copy.deepcopy(value)
        for _ in range(self.random.randrange(1, 4)):
            places = list(self.places(value))
            if not places:
                break
            of, key = self.random.choice(places)
            how = self.random.randrange(4)
            if how == 0:
                del of[key]
            elif how == 1 and isinstance(of, list):
                of += of[key:]
            else:
                of[key] = copy.deepcopy(self.random.choice(ODD))
        text = json.dumps(value).encode()
        return text if self.random.randrange(4) else self.bytes(text)


def run(*words):
    """What is wrong with how the command ends, or None."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main([str(word) for word in words])
    except BaseException:  # pylint: disable=broad-except
        return f"sheaf {' '.join(map(str, words))}: {traceback.format_exc()}"
    if code not in CODES or (code in (1, 2) and not re.fullmatch(r"sheaf: [^\n]+\n", err.getvalue())):
        return f"sheaf {' '.join(map(str, words))}: status {code}, {err.getvalue()!r}"
    return None


def counters(fuzz, folder):
    """A function that makes an input and runs the command on it."""
    with Live() as live:
        for line in "create one", "alloc 100", "many 3":
            live.do(line)
        seed = shared.path_of(live.pid).read_bytes()
    text = seed.index(b'{"backend"')
    end = text + len(json.dumps(json.JSONDecoder().raw_decode(seed[text:text + (1 << 16)].decode("utf-8", "replace"))[0]))

    def one(path):
        data = bytearray(seed)
        if fuzz.random.randrange(2):
            described = json.JSONDecoder().raw_decode(seed[text:end + 4096].decode("utf-8", "replace"))[0]
            changed = fuzz.json(described)
            data[text:text + len(changed)] = changed
            data[44:48] = len(changed).to_bytes(4, "little")
        else:
            at = fuzz.random.choice([0, 0, text, fuzz.random.randrange(len(data))])
            data[at:at + 4096] = fuzz.bytes(data[at:at + 4096])
        path.write_bytes(data)
        with mock.patch.object(shared, "open_file", lambda pid: os.open(path, os.O_RDONLY)):
            return run("info", os.getpid(), *fuzz.random.choice([[], ["--all"], ["--json"], ["--prometheus"]]))
    return one


def answers(fuzz, _):
    commands = [("leaks",), ("leaks", "--freed"), ("leaks", "--json"), ("debug",), ("info", "--validate"), ("groups",)]

    def one(path):
        words = fuzz.random.choice(commands)
        path.write_bytes(fuzz.json(ANSWERS[words[0]]))
        answer = path.read_bytes().decode("utf-8", "replace")
        with mock.patch.object(control, "ask", lambda *_: answer), \
                mock.patch.object(symbols, "places", lambda module, offsets: [["f at a.c:1"]] * len(offsets)):
            if words[0] == "groups":
                show = lambda _: print(*groups.lines(groups.read(1, mock.Mock(timeout=1)), True), sep="\n") or 0
                with mock.patch.object(cli, "parser_for", lambda _: mock.Mock(parse_args=lambda _: mock.Mock(
                        version=False, command_name="groups", run=show))):
                    return run("groups")
            return run(words[0], os.getpid(), *words[1:])
    return one


def results(fuzz, folder):
    seed = json.loads((ROOT / "bench/results/capacity.json").read_text(encoding="utf-8"))
    seed["results"] = seed["results"][:3]
    (folder / "before").write_text(json.dumps(seed), encoding="utf-8")

    def one(path):
        path.write_bytes(fuzz.json(seed))
        return run("compare", folder / "before", path)
    return one


def report(fuzz, folder):
    with open(os.environ["SHEAF_LIVE"], "rb") as file:
        module = file.read()

    def one(path):
        if fuzz.random.randrange(2):
            (folder / "live").write_bytes(module)
            path.write_bytes(fuzz.bytes(REPORT.encode()))
        else:
            head, data = fuzz.bytes(module[:4096]), bytearray(module)
            at = fuzz.random.choice([0, len(data) - fuzz.random.randrange(1, min(len(data), 8192))])
            data[at:at + 4096] = head if not at else fuzz.bytes(data[at:at + 4096])
            (folder / "live").write_bytes(data)
            path.write_text(REPORT, encoding="utf-8")
        with mock.patch.object(symbols, "places", lambda module, offsets: [["f at a.c:1"]] * len(offsets)):
            return run("symbolize", "--module", folder / "live", path)
    return one


def profile(fuzz, folder):
    with open(os.environ["SHEAF_LIVE"], "rb") as file:
        module = file.read()
    seed = heap.document([heap.named(0x1100, 0x1200), []], [heap.row(live=(2, 90)), heap.row(1, "a", 1 << 20, (1, 1 << 20))],
                         maps=[{**heap.MAPS[0], "file": "/nowhere/live"}], samples=[[45, 0, 7, 100]])
    heap.write(folder / "before", seed)
    formats = [["--leaks"], *(["--format", name] for name in ("text", "html", "pprof", "jemalloc", "folded"))]

    def one(path):
        data = fuzz.json(seed)
        path.write_bytes(data if fuzz.random.randrange(4) else fuzz.bytes(gzip.compress(data)))
        (folder / "live").write_bytes(fuzz.bytes(module[:4096]) + module[4096:] if not fuzz.random.randrange(4) else module)
        if not fuzz.random.randrange(4):
            heap.write(path, seed)
        with mock.patch.object(symbols, "functions", lambda module, offsets, _: fuzz.random.choice(
                [[[("f", "a.c:1")]] * len(offsets), [[]] * len(offsets)])):
            if not fuzz.random.randrange(4):
                return run("profile", "--diff", folder / "before", path)
            return run("profile", path, "--path", folder, *fuzz.random.choice(formats))
    return one


TARGETS = {"counters": counters, "answers": answers, "results": results, "report": report, "profile": profile}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("targets", nargs="*", metavar="TARGET", default=list(TARGETS))
    options = parser.parse_args()
    for name in options.targets:
        if name in ("counters", "report", "profile") and not HAS_LIVE:
            print(f"{name}: left out: there is no SHEAF_LIVE, or no /dev/shm")
            continue
        with tempfile.TemporaryDirectory() as folder:
            one = TARGETS[name](Fuzz(options.seed), Path(folder))
            for at in range(options.runs):
                wrong = one(Path(folder) / "input")
                if wrong:
                    kept = Path(f"input-{name}-{os.getpid()}")
                    kept.write_bytes((Path(folder) / "input").read_bytes())
                    print(f"{name}: run {at} with seed {options.seed}, input in {kept}:\n{wrong}")
                    return 1
        print(f"{name}: {options.runs} inputs")
    return 0


sys.exit(main())
