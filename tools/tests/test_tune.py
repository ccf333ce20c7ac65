# SPDX-License-Identifier: MIT
"""`sheaf tune`: settings of a running process, in its answer and in `sheaf info`."""
import json
import subprocess
import unittest
from unittest import mock

from live import HAS_LIVE, PATIENCE, Live, check_failed, sheaf
from sheaf_tool import control, tune
from sheaf_tool.errors import Failure

OPTIONS = "stats=live;control;sheaf_capacity=conn:256,req*:20,nobody:7"


class Tuned(Live):
    """A process with the caches conn, request and plain, that answers."""

    def __init__(self, **more: object) -> None:
        super().__init__(OPTIONS, **more)
        for name in ("conn", "request", "plain"):
            self.do(f"create {name}")
            self.do("alloc 100")
        self.do("call")

    def tune(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return sheaf("tune", str(self.pid), *words, "--timeout", str(PATIENCE))

    def settings(self, *words: str) -> dict:
        """By cache, and those of the process by None."""
        found = self.tune(*words, "--json")
        if found.returncode:
            raise AssertionError(found)
        return {one["cache"]: {name: (setting["value"], setting["by"]) for name, setting in one["settings"].items()}
                for one in json.loads(found.stdout)}

    def info(self) -> dict:
        return json.loads(sheaf("info", "--json", str(self.pid)).stdout)

    def cache(self, name: str) -> dict:
        return next(cache for cache in self.info()["caches"] if cache["name"] == name)


@unittest.skipUnless(HAS_LIVE, "needs a build and /dev/shm")
class OnAProcess(unittest.TestCase):
    fails = check_failed

    def test_list_and_change(self) -> None:
        with Tuned() as live:
            all_of_them = live.settings()
            self.assertEqual(set(all_of_them), {None, "conn", "request", "plain"})
            self.assertEqual(all_of_them[None], {"decay": (1000, "automatic")})
            self.assertEqual(all_of_them["conn"]["capacity"], (256, "options"))
            self.assertEqual(all_of_them["plain"]["min_partial"][1], "automatic")

            wanted = {"capacity": (100, "tune"), "barn_full": (40, "tune"), "limit": (1 << 24, "tune"), "min_partial": (7, "tune"),
                      "barn_empty": (9, "tune")}
            self.assertEqual(live.settings("plain", "capacity=100", "barn_full=40", f"limit={1 << 24}", "min_partial=7",
                                           "barn_empty=9"),
                             {"plain": wanted})
            self.assertEqual(live.settings("plain"), {"plain": wanted})
            self.assertEqual(live.settings("capacity=0", "--cache", "re*")["request"]["capacity"][1], "automatic")
            self.assertEqual(live.settings("decay=250"), {None: {"decay": (250, "tune")}})

            cache = live.cache("plain")
            self.assertEqual([cache[name] for name in ("sheaf_capacity", "limit_barn_full", "limit_bytes", "min_partial", "limit_barn_empty")],
                             [100, 40, 1 << 24, 7, 9])
            self.assertEqual(cache["set"], {"sheaf_capacity": "tune", "limit_barn_full": "tune", "limit_bytes": "tune",
                                            "min_partial": "tune", "limit_barn_empty": "tune"})
            self.assertEqual(live.cache("conn")["set"], {"sheaf_capacity": "options"})
            self.assertEqual(live.cache("request")["set"], {})
            info = live.info()
            self.assertEqual((info["decay_ms"], info["decay_set_by"]), (250, 3))
            text = sheaf("info", str(live.pid)).stdout
            self.assertIn("\ndecay: free memory stays 250 ms (tune)\n", text)
            self.assertIn("\nconn\n  set: sheaf_capacity=256 (options)\n", text)
            self.assertIn("plain set: sheaf_capacity=100 (tune), limit_barn_full=40 (tune), ", " ".join(text.split()))
            own = live.own_view()
            self.assertEqual(own["decay_ms"], 250)
            self.assertEqual(next(one for one in own["caches"] if one["name"] == "plain")["set_by"], cache["set_by"])

    def test_text(self) -> None:
        with Tuned() as live:
            self.assertRegex(live.tune("conn", "min_partial=3").stdout,
                             r"\Acache +capacity +barn_full +barn_empty +limit +min_partial\n-+\nconn +256 \(options\) +\d+ +0 +0 +3 \(tune\)\n\Z")
            self.assertEqual(live.tune("decay=never").stdout, "decay: free memory stays until a call returns it (tune)\n")
            found = live.tune()
            self.assertRegex(found.stdout, r"\Adecay: .*\ncache ")
            self.assertLessEqual(max(map(len, found.stdout.splitlines())), 100)

    def test_wrong_values(self) -> None:
        with Tuned() as live:
            before = live.settings()
            for words, code, part in (
                    (("conn", "min_partial=1", "capacity=4097"), 1, "capacity=4097 for conn: not a number from 0 to 4096"),
                    (("conn", "min_partial=1", "capacity=x"), 1, "capacity=x for conn: not a number from 0 to 4096"),
                    (("conn", "min_partial=1", "colour=1"), 1, '"colour=1" is not capacity=N'),
                    (("conn", "min_partial=1", "decay=1"), 1, "decay=N is for the process"),
                    (("min_partial=1",), 1, "name a cache"), (("decay=3600001",), 1, "from 0 to 3600000"),
                    (("none", "capacity=1"), 1, "there is no cache none"),
                    (("conn", "capacity=1", "--cache", "conn"), 2, "name the cache once"),
                    (("conn", "capacity"), 2, "'capacity' is not a setting"), (("conn", "limit=1 0"), 2, "is not a setting"),
                    (("conn", "limit=1\x1b"), 2, "is not a setting")):
                self.fails(live.tune(*words), code, part)
            self.assertEqual(live.settings(), before)

    def test_idle(self) -> None:
        with Live("control") as live:
            live.do("create first")
            self.fails(sheaf("tune", str(live.pid), "--timeout", "0.1"), 5, "idle")
        with Live("stats=live") as live:
            live.do("create first")
            self.fails(sheaf("tune", str(live.pid), "decay=5", "--timeout", "0.1"), 5, "idle")

    def test_names_that_no_cache_had(self) -> None:
        live = Tuned(stderr=subprocess.PIPE)
        _, errors = live.process.communicate(timeout=PATIENCE)
        self.assertEqual(errors, "libsheaf: sheaf_capacity: no cache with sheaves matched \"nobody\"; `sheaf info` lists names\n")

    def test_a_name_of_a_cache_without_sheaves(self) -> None:
        live = Live("slab_debug=F,bare;sheaf_capacity=bare:9,bare*:5", stderr=subprocess.PIPE)
        for name in ("bare", "barer"):
            live.do(f"create {name}")
        _, errors = live.process.communicate(timeout=PATIENCE)
        self.assertEqual(errors, "libsheaf: sheaf_capacity: no cache with sheaves matched \"bare\"; `sheaf info` lists names\n")


class Answers(unittest.TestCase):
    def test_of_another_version(self) -> None:
        for answer in ('[{"cache": "a"}]', '[{"cache": "a", "settings": {"capacity": 5}}]',
                       '[{"cache": null, "settings": {}}]', '[{"cache": 5, "settings": {}}]', "{}", "["):
            arguments = mock.Mock(pid="1", words=[], cache="a", timeout=1, json=False)
            with mock.patch.object(control, "ask", return_value=answer), self.assertRaisesRegex(Failure, "does not understand"):
                tune.run(arguments)


if __name__ == "__main__":
    unittest.main()
