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
from sheaf_tool.stats import Estimate
from sheaf_tool.table import WIDTH, beside, number, render, stacked

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

    def test_an_interval_of_more_than_ten_times_is_not_steady(self) -> None:
        for low, high, said in ((0.5, 5.0, "0.50–5.00"), (0.0, 9.0, "0.00–9.00"), (0.3, 7.5, "not steady")):
            self.assertEqual(beside(Estimate(1, low, high)), f"1.00 [{said}]")
            self.assertEqual(stacked(Estimate(1, low, high)), f"1.00\n{said}")

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


class Ways(unittest.TestCase):
    """In place, static, shared."""

    TIMES = {"sheaf": 4.0, "kmalloc": 5.0, "sheaf-static": 6.0, "sheaf-shared": 8.0, "glibc": 16.0, "snmalloc": 10.0,
             "snmalloc-static": 5.0, "dpdk": 5.0, "no-sheaf": 123.0, "harness": 1.0}

    def document(self) -> Document:
        document = Document("batch", {**MACHINE, "sheaf": "in place"})
        for row in batch.ROWS:
            for name, time in self.TIMES.items():
                if row in batch.LINKED_ROWS or name not in batch.LINKED:
                    params = batch._params(name, *row)
                    document.result("batch", params, batch.UNIT).samples += [time * (1 + i / 10) for i in range(7)]
        return document

    def test_ours_is_compared_with_what_is_called_in_the_same_way(self) -> None:
        times, ratios = batch._way_rows(self.document())
        self.assertEqual([row[0].split("\n") for row in times], [
            ["sheaf", "in place"], ["kmalloc", "in place"], ["dpdk", "in place"], ["sheaf-static", "static"], ["snmalloc-static", "static"],
            ["sheaf-shared", "shared"], ["glibc", "shared"], ["snmalloc", "shared"]])
        self.assertEqual({row[0].split("\n")[0]: row[1].split("\n")[0] for row in ratios},
                         {"dpdk": "0.80", "snmalloc-static": "1.20", "glibc": "0.50", "snmalloc": "0.80"})

    def test_a_static_peer_is_not_the_best_peer(self) -> None:
        document = self.document()
        self.assertEqual({batch.best_peer(document, row) for row in batch.ROWS}, {"dpdk"})
        text = batch.SUITE.text(document)
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
        self.assertIn("SHEAF_NO_INLINE", text)
        self.assertIn("<svg", batch.SUITE.html(document))

    def test_older_results_have_no_such_table_and_say_what_sheaf_was(self) -> None:
        text = batch.SUITE.text(invented())
        self.assertNotIn("by the way of the call", text)
        self.assertIn("sheaf made calls", text)


class Json(unittest.TestCase):
    def read_back(self, document: Document) -> Document:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "batch.json"
            document.write(path)
            return read(path)

    def test_read_back(self) -> None:
        document = self.read_back(invented())
        self.assertEqual([(one.name, one.params, one.unit) for one in document.results],
                         [(one.name, one.params, one.unit) for one in invented().results])
        self.assertEqual(self.read_back(document), document)

    def test_params_are_written_once(self) -> None:
        document = Document("batch", {})
        for name, unit in (("time", "ns"), ("time", "s"), ("size", "bytes")):
            document.result(name, {"allocator": "sheaf"}, unit).samples.append(1.5)
        self.assertEqual(document.as_json()["results"], [
            {"params": {"allocator": "sheaf"}, "samples": {"time": {"ns": [1.5], "s": [1.5]}, "size": {"bytes": [1.5]}}}])
        self.assertEqual(self.read_back(document), document)

    def test_a_curve_is_a_row(self) -> None:
        document = Document("batch", {})
        for at in (0.5, 1.0):
            document.result("resident", {"allocator": "sheaf", "at": at}, "MiB").samples += [at, 7.0]
        document.result("resident", {"allocator": "sheaf"}, "MiB").samples.append(7.5)
        self.assertEqual(document.as_json()["results"], [
            {"params": {"allocator": "sheaf"}, "at": [0.5, 1.0], "samples": {"resident": {"MiB": [[0.5, 7], [1, 7]]}}},
            {"params": {"allocator": "sheaf"}, "samples": {"resident": {"MiB": [7.5]}}}])
        self.assertEqual(self.read_back(document), document)

    def test_six_digits(self) -> None:
        document = Document("batch", {"load": 1.23456789, "counters": {"fifo": {"refill": 0.123456789}}})
        document.result("time", {"allocator": "sheaf"}, "ns").samples += [1.23456789, 2.0]
        self.assertEqual(document.as_json(), {
            "suite": "batch", "machine": {"load": 1.23457, "counters": {"fifo": {"refill": 0.123457}}},
            "results": [{"params": {"allocator": "sheaf"}, "samples": {"time": {"ns": [1.23457, 2]}}}]})

    def test_a_row_is_a_line(self) -> None:
        document = invented()
        text = document.text()
        self.assertEqual(json.loads(text), document.as_json())
        rows = [line.rstrip(",") for line in text.splitlines() if line.startswith('{"params"')]
        self.assertEqual([json.loads(line) for line in rows], document.as_json()["results"])
        self.assertEqual(len(text.splitlines()), len(document.machine) + len(rows) + 5)


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
