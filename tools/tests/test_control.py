# SPDX-License-Identifier: MIT
"""`sheaf leaks`, `sheaf debug` and `sheaf info --validate`: questions to running processes."""
import json
import os
import socket
import subprocess
import tempfile
import unittest
from typing import Callable

from live import HAS_LIVE, PATIENCE, Apart, Live, check_failed, sheaf
from sheaf_tool import control
from sheaf_tool.errors import Failure

CHECKED = "control;slab_debug=FZPU,checked;"
# As man/kmem_cache_print_traces.3 promises.
CACHE_KEYS = {"cache", "objects", "unknown", "further", "missed_slabs", "guarded", "traces"}
TRACE_KEYS = {"objects", "bytes", "age_min_ms", "age_avg_ms", "age_max_ms", "thread_min", "thread_max", "cpu_min",
              "cpu_max", "object", "stack"}
FRAME_KEYS = {"address", "module", "offset", "frame"}


class Calling(Live):
    """A process that makes slow calls all the time, so that it answers."""

    def __init__(self, options: str = "", **more: object) -> None:
        super().__init__(CHECKED + options, **more)
        self.do("create checked")
        self.do("alloc 100")
        self.do("free 10")
        self.do("call")


def as_nobody(function: Callable[[], str]) -> str:
    """What the function returns, or why it fails, in a child that is another user."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            answer = function()
        except Exception as error:  # pylint: disable=broad-except
            answer = str(error)
        os.write(writes, answer.encode())
        os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with open(reads, encoding="utf-8") as file:
        return file.read()


def asked(*words: str, **more: object) -> subprocess.CompletedProcess:
    return sheaf(*words, "--timeout", str(PATIENCE), **more)


@unittest.skipUnless(HAS_LIVE, "needs a build and /dev/shm")
class OnAProcess(unittest.TestCase):
    fails = check_failed

    def test_groups(self) -> None:
        with Calling() as live:
            self.fails(asked("top", "--groups", "--once", str(live.pid)), 1, "has no groups")
            live.do("group a tenant")
            live.do("charge 7")
            groups = json.loads(asked("top", "--groups", "--once", "--json", str(live.pid)).stdout)
            root, tenant = groups
            self.assertEqual((root["name"], root["id"], tenant["name"], tenant["parent"]), ("root", 0, "a tenant", 0))
            self.assertEqual(tenant["own_objects"], 7)
            self.assertEqual(tenant["bytes"], tenant["own_bytes"])
            self.assertEqual([(cache["name"], cache["objects"]) for cache in tenant["caches"]], [("checked", 7)])
            text = asked("top", "--groups", "--once", str(live.pid)).stdout
            self.assertRegex(text, r"(?m)^  a tenant +\d+ +\d+ +7 ")
            self.assertIn("- checked: ", text)
        self.fails(sheaf("top", "--groups", "--once", "x"), 2, "number of a process")

    def test_leaks(self) -> None:
        for backend in ("rseq", "trylock"):
            with Calling(f"backend={backend}") as live:
                found = asked("leaks", str(live.pid))
                self.assertEqual(found.returncode, 0, found)
                # One more is on its way through the call that answers, or not.
                self.assertRegex(found.stdout, r"\Achecked: 9[01] objects in use, by the stack that allocated them\n"
                                               r" {6}90 objects, 5760 bytes, age ")
                self.assertLessEqual(max(map(len, found.stdout.splitlines())), 100)
                values = json.loads(asked("leaks", str(live.pid), "--json", "--cache", "che*").stdout)
                self.assertEqual(values[0]["cache"], "checked")
                self.assertEqual(values[0]["traces"][0]["objects"], 90)
                self.assertEqual(set(values[0]), CACHE_KEYS)
                self.assertEqual(set(values[0]["traces"][0]), TRACE_KEYS)
                for frame in values[0]["traces"][0]["stack"]:
                    self.assertEqual(set(frame) - {"place", "inlined_by"}, FRAME_KEYS)
                freed = asked("leaks", str(live.pid), "--freed")
                self.assertIn("by the stack that freed them before\n", freed.stdout)
                self.assertNotIn("90 objects, 5760", asked("leaks", str(live.pid), "--older", "86400").stdout)

    def test_validate(self) -> None:
        with Calling(stderr=subprocess.PIPE) as live:
            found = asked("info", "--validate", str(live.pid), "--cache", "checked")
            self.assertEqual(found.stdout, "1 cache, 1 with slab_debug: no faults\n", found)
            live.do("overrun")
            found = asked("info", "--validate", str(live.pid))
            self.assertEqual(found.returncode, 3, found)
            self.assertRegex(found.stdout, r"checked +1\n.* 1 fault, reported by the process\n\Z")
            live.do("mend")
            found = asked("info", "--validate", str(live.pid), "--json")
            self.assertEqual({cache["faults"] for cache in json.loads(found.stdout)}, {0})
            _, errors = live.process.communicate()
            self.assertIn("BUG checked: Right Redzone overwritten", errors)
        self.fails(sheaf("info", "--validate"), 2, "needs a PID")

    def test_debug(self) -> None:
        # A file: with T, a pipe would soon be full.
        with tempfile.TemporaryFile("w+") as errors, Calling(stderr=errors) as live:
            def letters(*words: str) -> str:
                return json.loads(asked("debug", str(live.pid), "--json", *words).stdout)[0]["letters"]

            self.assertEqual(letters(), "FZPU")
            self.assertEqual(letters("--letters", "+T", "--cache", "checked"), "FZPUT")
            live.do("alloc 1")
            self.assertEqual(next(cache for cache in live.own_view()["caches"] if cache["name"] == "checked")["trace"], 1)
            self.assertEqual(letters("--letters=-T+Q"), "FZPUQ")
            self.assertEqual(letters("--letters=-Q"), "FZPU")
            self.assertRegex(asked("debug", str(live.pid)).stdout, r"checked +FZPU\n\Z")
            self.fails(asked("debug", str(live.pid), "--letters", "+Z"), 1, "only the letters T, A and Q")
            self.fails(asked("debug", str(live.pid), "--letters", "T"), 2, "--letters takes")
            self.fails(asked("debug", str(live.pid), "--cache", "none"), 1, "no such cache is checked")
            errors.seek(0)
            self.assertRegex(errors.read(), r"libsheaf: TRACE checked alloc 0x[0-9a-f]+, 64 bytes, thread \d+, CPU \d+")

    def test_letters_in_info(self) -> None:
        with Live("stats=live;slab_debug=FZPU,checked") as live:
            live.do("create checked")
            live.do("alloc 1")
            self.assertIn("checked (slab_debug=FZPU)\n", sheaf("info", str(live.pid)).stdout)
        with Live("stats=live;slab_debug=FQ,checked;S") as live:
            live.do("create checked")
            live.do("alloc 1")
            live.do("create sampled")
            live.do("alloc 1")
            shown = sheaf("info", str(live.pid)).stdout
            self.assertIn("checked (slab_debug=FQ)\n", shown)
            self.assertIn("sampled (slab_debug=S)\n", shown)

    def test_idle(self) -> None:
        with Live(CHECKED) as live:
            live.do("create checked")
            for words in (["leaks"], ["debug"], ["info", "--validate"]):
                self.fails(sheaf(*words, str(live.pid), "--timeout", "0.1"), 5, "idle", "0.1 s")
            # It answers when it calls again; who has gone is no trouble.
            live.do("alloc 5")
            live.do("call")
            self.assertEqual(asked("leaks", str(live.pid)).returncode, 0)

    def test_another_namespace(self) -> None:
        """The socket is in the process's network namespace, under the number that it has in its own."""
        for words in ("--pid",), ("--pid", "--net"):
            with Apart(*words, options=CHECKED) as live:
                live.do("create checked")
                live.do("alloc 90")
                live.do("call")
                self.assertEqual(live.pid in control.processes(), words == ("--pid",))
                found = asked("leaks", str(live.pid))
                if os.geteuid() and "--net" in words:
                    self.fails(found, 1, f"process {live.pid} is in another network namespace, and only root")
                else:
                    self.assertRegex(found.stdout, "90 objects", found)

    def test_without_socket(self) -> None:
        with Live("slab_debug") as live:
            live.do("create checked")
            self.fails(sheaf("leaks", str(live.pid), "--timeout", "0.1"), 5, "idle")
        self.fails(sheaf("leaks", str(live.pid)), 1, "there is no process")
        self.fails(sheaf("leaks", "x"), 1, "'x' is not a PID")

    def test_no_users_stored(self) -> None:
        with Live("control") as live:
            live.do("create plain")
            live.do("alloc 5")
            live.do("call")
            self.fails(asked("leaks", str(live.pid), "--cache", "plain"), 1, "SHEAF_OPTIONS=slab_debug")
            self.fails(asked("leaks", str(live.pid)), 1, "SHEAF_OPTIONS=slab_debug")

    def test_child_has_its_own(self) -> None:
        with Calling() as live:
            live.do("fork")
            with open(f"/proc/{live.pid}/task/{live.pid}/children", encoding="ascii") as file:
                child = int(file.read())
            self.assertEqual(asked("leaks", str(child)).returncode, 0)
            self.assertEqual(asked("leaks", str(live.pid)).returncode, 0)
            self.assertIn(live.pid, control.processes())

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user")
    def test_another_user(self) -> None:
        with Calling() as live:
            def raw() -> str:  # one that does not look whom it asks
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.connect(f"\0libsheaf-control-{live.pid}")
                    peer.sendall(b"validate\n")
                    return peer.recv(99).decode()

            self.assertIn("belongs to another user", as_nobody(lambda: control.ask(live.pid, "validate")))
            self.assertRegex(as_nobody(raw), "^error it belongs to another user, or you have no number in its user namespace")

    def test_bad_askers(self) -> None:
        """None of them keeps the process from going on, and from answering the next one."""
        with Calling() as live:
            for sent in (b"", b"x" * 1000, b"\n", b"traces\n", b"traces alloc xml\n", b"what\tis\tthis\n", b"\0\0\n",
                         b"traces alloc json\n", b"validate"):
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.connect(f"\0libsheaf-control-{live.pid}")
                    try:
                        peer.sendall(sent)
                    except OSError:
                        pass
            live.do("alloc 1")
            with self.assertRaisesRegex(Failure, "does not know this question"):
                control.ask(live.pid, "what", timeout=PATIENCE)
            with socket.socket(socket.AF_UNIX) as silent:  # it is dropped after a while
                silent.connect(f"\0libsheaf-control-{live.pid}")
                self.assertEqual(asked("leaks", str(live.pid)).returncode, 0)
                self.assertEqual(silent.recv(1), b"")

    def test_closed_descriptors(self) -> None:
        """A daemon closes all it has, and opens files of its own with these numbers."""
        with Calling() as live:
            live.do("close")
            self.assertEqual(asked("leaks", str(live.pid)).returncode, 0)
            live.do("own")
