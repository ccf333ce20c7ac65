# SPDX-License-Identifier: MIT
"""Files for pprof: by a decoder that shares nothing with the writer, and by pprof itself; jeprof on its own format."""
import gzip
import json
import shutil
import subprocess
import unittest
from collections import defaultdict
from typing import Any, Iterator

from heap import document, named, profile, row, sheaf, write
from test_profile import Folder
from sheaf_tool.profile import jemalloc, pprof, protobuf

SOME = document([named(0x11, 0x22), named(0x33), []], [
    row(0, live=(10, 500), all=(100, 5000), peak=(20, 1000)), row(1, "kmalloc-8k", 8192, (5, 40000), group="g"), row(2, live=(1, 1))],
    full=2, maps=[{"start": "7f8000000000", "end": "7f8000001000", "offset": 0, "file": "/bin/other", "build_id": ""},
                  {"start": "7f0000000000", "end": "7f0000100000", "offset": 4096, "file": "/bin/many", "build_id": "00ABcd"}])


def varint(data: bytes, at: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: Any
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        elif key & 7:
            raise ValueError(f"wire type {key & 7}")
        yield key >> 3, value


def decode(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for field, value in fields(data):
        found[field].append(value)
    return found


def numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value - (1 << 64) if value >> 63 else value)
    return found


class Decoded(unittest.TestCase):
    def setUp(self) -> None:
        self.read(profile(SOME))

    def read(self, made: Any, default: tuple[str, str] = ("live", "bytes")) -> None:
        self.found = decode(gzip.decompress(pprof.render(made, default)))
        self.strings = [text.decode() for text in self.found[6]]

    def values(self) -> list[list[int]]:
        return [numbers(decode(sample)[2][0]) for sample in self.found[2]]

    def test_head(self) -> None:
        self.assertEqual(self.strings[0], "")
        self.assertEqual(len(set(self.strings)), len(self.strings))
        self.assertEqual([tuple(self.strings[decode(one)[key][0]] for key in (1, 2)) for one in self.found[1]],
                         [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
                          ("inuse_space", "bytes"), ("peak_objects", "count"), ("peak_space", "bytes")])
        self.assertEqual(self.strings[self.found[14][0]], "inuse_space")
        self.assertEqual([self.strings[decode(self.found[11][0])[key][0]] for key in (1, 2)], ["space", "bytes"])
        self.assertEqual((self.found[12], self.found[10]), ([4096], [60 * 10 ** 9]))
        self.assertIn("operator new", self.strings[self.found[7][0]])
        self.assertEqual([self.strings[i] for i in numbers(self.found[13][0])],
                         ["libsheaf: profile of /bin/many (process 4711)", "2 samples had no room: all figures are too low",
                          "no functions of /bin/many: there is no such file here"])

    def test_values_are_estimates(self) -> None:
        self.assertEqual(self.values(), [[6450, 322507, 645, 32251, 1290, 64501], [6, 46261] * 3])
        self.read(profile(minus=[SOME]), ("all", "objects"))
        self.assertEqual(self.values()[1], [-6, -46261] * 3)
        self.assertEqual(self.strings[self.found[14][0]], "alloc_objects")

    def test_labels(self) -> None:
        labels = [[{self.strings[one[1][0]]: self.strings[one[2][0]] if one[2] else one[3][0]}
                   for one in map(decode, decode(sample)[3])] for sample in self.found[2]]
        self.assertEqual(labels, [[{"cache": "kmalloc-64"}, {"bytes": 64}],
                                  [{"cache": "kmalloc-8k"}, {"group": "g"}, {"bytes": 8192}]])

    def test_what_is_in_use_has_threads(self) -> None:
        found = {**SOME, "samples": [[40, 0, 7, 1], [50, 0, 30, 2], [60, 0, 7, 3], [8000, 1, 7, 4]]}
        self.read(profile(found))
        threads = [[self.strings[label[2][0]] for label in map(decode, decode(sample)[3]) if self.strings[label[1][0]] == "thread"]
                   for sample in self.found[2]]
        self.assertEqual(threads, [["7"], ["30"], [], ["7"], []])
        self.assertEqual(self.values(), [
            [0, 0, 129, 6450, 0, 0], [0, 0, 65, 3225, 0, 0], [6450, 322507, 452, 22575, 1290, 64501],
            [0, 0, 1, 9252, 0, 0], [6, 46261, 5, 37009, 6, 46261]])

    def test_places(self) -> None:
        self.assertEqual([numbers(decode(sample)[1][0]) for sample in self.found[2]], [[1, 2], [3]])
        places = [decode(one) for one in self.found[4]]
        self.assertEqual([(one[1][0], one[2][0], one[3][0]) for one in places],
                         [(1, 1, 0x7f0000000011), (2, 1, 0x7f0000000022), (3, 1, 0x7f0000000033)])
        # Nothing is known of its functions, so pprof looks for them.
        self.assertEqual(([one[4] for one in places], self.found[5]), ([[]] * 3, []))
        first = decode(self.found[3][0])
        self.assertEqual([first[key] for key in (1, 2, 3, 4, 7, 8, 9, 10)],
                         [[1], [0x7f0000000000], [0x7f0000100000], [4096], [], [], [], []])
        self.assertEqual([self.strings[first[key][0]] for key in (5, 6)], ["/bin/many", "00abcd"])
        self.assertEqual([decode(one)[1] for one in self.found[3]], [[1], [2]])

    def test_numbers(self) -> None:
        for value, data in ((0, b"\0"), (127, b"\x7f"), (300, b"\xac\x02"), (-1, b"\xff" * 9 + b"\x01")):
            self.assertEqual(protobuf.varint(value), data)
        self.assertEqual((protobuf.signed(1e30), protobuf.signed(-1e30), protobuf.signed(2.5)), ((1 << 63) - 1, -1 << 63, 2))


class Readers(Folder):
    def run_reader(self, *words: str) -> str:
        found = subprocess.run(words, text=True, capture_output=True, cwd=self.place, check=False)
        self.assertEqual(found.returncode, 0, found)
        return found.stdout

    @unittest.skipUnless(shutil.which("pprof"), "needs pprof, which `go install github.com/google/pprof@latest` makes")
    def test_pprof(self) -> None:
        (self.place / "a.pb.gz").write_bytes(pprof.render(profile(SOME), ("live", "bytes")))
        words = "pprof", "-symbolize=none", "-top", "-unit=B"
        text = self.run_reader(*words, "a.pb.gz")
        self.assertIn("Type: inuse_space", text)
        self.assertRegex(text, r"(?m)^ +78512B +100% +100% +78512B +100% +\[many\]$")
        text = self.run_reader(*words[:-1], "-sample_index=alloc_objects", "a.pb.gz")
        self.assertIn("Total samples = 6456", text)

    @unittest.skipUnless(shutil.which("jeprof"), "needs jeprof, of libjemalloc-dev")
    def test_jeprof(self) -> None:
        """It unsamples itself: 640 / 0.015503563 + 40960 / 0.864664717."""
        write(self.place / "a.heap", jemalloc.render(profile(SOME), "live"))
        text = self.run_reader("jeprof", "--text", "--show_bytes", "/bin/true", "a.heap")
        self.assertIn("Total: 88651 B", text)
        self.assertIn("Total: 650 objects", self.run_reader("jeprof", "--text", "--inuse_objects", "/bin/true", "a.heap"))


class Written(Folder):
    def test_by_the_command(self) -> None:
        name, out = self.write(json.dumps(SOME)), self.place / "a.pb.gz"
        self.assertEqual(sheaf("profile", name, "--format", "pprof", "-o", str(out)).returncode, 0)
        self.assertEqual(len(decode(gzip.decompress(out.read_bytes()))[2]), 2)
