# SPDX-License-Identifier: MIT
"""Shared by tests of heap profiles: documents as the library writes them, and a program with stacks of its own."""
import io
import json
import shutil
import subprocess
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Iterator
from unittest import SkipTest

from sheaf_tool import cli
from sheaf_tool.profile import estimate, fetch, raw

# Without a file, functions are "many+0x...".
MAPS = [{"start": "7f0000000000", "end": "7f0000100000", "offset": 0, "file": "many", "build_id": ""}]
PROGRAM = """\
#include <execinfo.h>
#include <stdio.h>
static void *kept[8];
static __attribute__((noinline)) void record(void)
{
	void *found[32];
	int n = backtrace(found, 32);
	for (int i = 1; i < n; i++)
		printf("%p ", found[i]);
	puts("");
}
static inline __attribute__((always_inline)) void fill(int i)
{
	record();
	kept[i & 7] = &kept[i & 7];
}
static __attribute__((noinline)) void push(int i)
{
	fill(i);
	__asm__ volatile("");
}
__attribute__((noinline)) void queue(int i)
{
	push(i);
	__asm__ volatile("");
}
int main(void)
{
	queue(1);
	fflush(stdout);
	getchar();
	return 0;
}
"""
HAS_COMPILER = bool(shutil.which("cc") and shutil.which("objcopy"))


def row(stack: int = 0, cache: str = "kmalloc-64", size: int = 64, live: Any = (0, 0), **more: Any) -> dict[str, Any]:
    found = {"stack": stack, "cache": cache, "group": "", "size": size, "live": list(live), "all": list(live), "peak": list(live),
             "freed": 0, "elsewhere": 0, "lifetime_ms": 0, **more}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}


def document(stacks: list[list[int]], rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"profile": 1, "program": "/bin/many", "pid": 4711, "on": True, "mean": 4096, "began_ms": 0, "now_ms": 60000, "full": 0,
            "maps": MAPS, "stacks": [[f"{address:x}" for address in stack] for stack in stacks], "rows": rows, "samples": [], **more}


def named(*functions: int) -> list[int]:
    """A stack, the innermost first: its names are many+0xN."""
    return [0x7f0000000000 + n + 1 for n in functions]


def profile(*documents: dict[str, Any], minus: Any = (), directories: Any = ()) -> estimate.Profile:
    read = [raw.parse(json.dumps(one), "it") for one in (*documents, *minus)]
    n = len(documents)
    return estimate.together(read[:n], list(directories), read[n:])


def write(path: Path, found: Any) -> str:
    path.write_text(found if isinstance(found, str) else json.dumps(found), encoding="utf-8")
    return str(path)


def sheaf(*words: str) -> "subprocess.CompletedProcess[str]":
    """The command, in this process, since a new one takes longer than all that it does."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = cli.main(list(words))
        except SystemExit as error:
            code = int(error.code or 0)
    out.seek(0)
    return subprocess.CompletedProcess(words, code, out.read(), err.getvalue())


def compile_program(place: Path, *words: str) -> Path:
    (place / "boxes.c").write_text(PROGRAM, encoding="utf-8")
    subprocess.run(["cc", "-g", "-O1", "-Wl,--build-id", "boxes.c", "-o", "boxes", *words], cwd=place, check=True)
    return place / "boxes"


@contextmanager
def running(*words: Any) -> Iterator[dict[str, Any]]:
    """The profile of the program while it runs: one stack, fill() in push() in queue() in main()."""
    with subprocess.Popen(words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout
            stack = [int(word, 16) for word in process.stdout.readline().split()]
            if len(stack) < 3:
                raise SkipTest(f"{words[0]} does not run, or there are no stacks here")
            found = {**document([stack], [row(live=(10, 500))]), **fetch.about(process.pid)}
            # The loader and the C library are not what is tested.
            yield {**found, "maps": [one for one in found["maps"] if one["file"] == found["program"]]}
        finally:
            process.kill()
