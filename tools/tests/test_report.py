# SPDX-License-Identifier: MIT
"""Tables, documents and the picture, on invented results."""
import json
import re
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

from sheaf_bench import page
from sheaf_bench.document import Document, read
from sheaf_bench.suites import SUITES, batch
from sheaf_bench.svg import axis_limit, axis_step
from sheaf_tool.table import WIDTH, number, render

ALLOCATORS = {"sheaf": 4.0, "no-sheaf": 123.0, "glibc": 11.0, "jemalloc": 6.0, "mimalloc": 16.0,
              "tcmalloc": 7.0, "dpdk": 5.0, "harness": 1.0}
MACHINE = {"cpu": "a <fast> one", "cpus": 2, "kernel": "Linux", "libc": "glibc", "governor": "?",
           "load": 0.1, "versions": {}, "missing": {"tcmalloc": "apt-get install libtcmalloc-minimal4"},
           "iterations": {"sheaf": 11, "no-sheaf": 4}, "command": "sheaf bench batch"}


def invented(repetitions: int = 7) -> Document:
    document = Document("batch", MACHINE)
    for size, order in batch.ROWS:
        for name, time in ALLOCATORS.items():
            params = {"allocator": name, "batch": size, "order": order, "groups": False}
            samples = [time * (1 + i / 10) for i in range(repetitions)]
            document.result("batch", params, batch.UNIT).samples += samples
    return document


class Table(unittest.TestCase):
    def test_alignment(self) -> None:
        self.assertEqual(render(["name", "n"], [["a", "1"], ["long one", "22\n3"]]),
                         "name       n\n"
                         "------------\n"
                         "a          1\n"
                         "long one  22\n"
                         "           3")

    def test_three_digits(self) -> None:
        shown = [number(value) for value in (0.126, 9.994, 9.996, 12.34, 99.94, 99.96, 1234.0)]
        self.assertEqual(shown, ["0.13", "9.99", "10.0", "12.3", "99.9", "100", "1234"])

    def test_fits_the_terminal(self) -> None:
        for repetitions in (3, 7):
            text = batch.SUITE.text(invented(repetitions))
            self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)

    def test_names_the_best_peer_and_what_is_missing(self) -> None:
        text = batch.SUITE.text(invented())
        last = next(line for line in text.splitlines() if line.startswith("1000 shuffled"))
        self.assertEqual(last.split()[2:5], ["dpdk", "0.80", "[0.80–0.80]"])
        self.assertIn("apt-get install libtcmalloc-minimal4", text)

    def test_tells_of_fewer_iterations(self) -> None:
        self.assertIn("no-sheaf is slow: 4 iterations", batch.SUITE.text(invented()))

    def test_few_repetitions_claim_no_interval(self) -> None:
        self.assertIn("repetitions, 95 % interval", batch.SUITE.text(invented(6)))
        few = batch.SUITE.text(invented(5))
        self.assertNotIn("repetitions, 95 % interval", few)
        self.assertNotIn("95 % interval by bootstrap", few)
        self.assertIn("too few for a 95 % interval", few)


class Json(unittest.TestCase):
    def test_form(self) -> None:
        raw = json.loads(json.dumps(invented().as_json()))
        self.assertEqual(list(raw), ["suite", "machine", "results"])
        for result in raw["results"]:
            self.assertEqual(list(result), ["name", "params", "unit", "samples"])
            self.assertIn("allocator", result["params"])
            self.assertEqual(result["unit"], "ns/pair")

    def test_read_back(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "batch.json"
            invented().write(path)
            self.assertEqual(read(path), invented())

    def test_a_result_is_a_line(self) -> None:
        document = invented()
        text = document.text()
        self.assertEqual(json.loads(text), document.as_json())
        results = [line.rstrip(",") for line in text.splitlines() if line.startswith('{"name"')]
        self.assertEqual([json.loads(line) for line in results], document.as_json()["results"])
        self.assertEqual(len(text.splitlines()),
                         len(document.machine) + len(document.results) + 5)


class Picture(unittest.TestCase):
    def test_axis_steps_are_round(self) -> None:
        for limit in (0.9, 4.0, 7.3, 18.0, 99.0, 1234.0):
            step = axis_step(limit)
            self.assertTrue(4 <= limit / step < 11, (limit, step))

    def test_one_far_off_value_does_not_set_the_scale(self) -> None:
        self.assertLess(axis_limit([4, 5, 6, 7, 123]), 10)
        self.assertGreaterEqual(axis_limit([4, 5, 6, 7, 9]), 9)

    def test_every_bar_is_drawn(self) -> None:
        pictures = re.findall("<svg.*?</svg>", batch.SUITE.html(invented()))
        bars = [one for picture in pictures for one in xml.fromstring(picture).iter()
                if one.get("class", "").startswith("bar ")]
        self.assertEqual(len(bars), len(batch.ROWS) * len(ALLOCATORS))

    def test_text_is_escaped(self) -> None:
        self.assertIn("a &lt;fast&gt; one", page.render([invented()]))

    def test_suites_are_registered_by_their_names(self) -> None:
        self.assertTrue(all(name == suite.name for name, suite in SUITES.items()))
