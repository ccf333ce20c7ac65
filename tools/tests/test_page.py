# SPDX-License-Identifier: MIT
"""The report is self-contained, and has the kernel's figures next to ours."""
import base64
import contextlib
import io
import json
import re
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

from test_report import MACHINE, invented

from sheaf_bench import page
from sheaf_bench.document import Document, Result
from sheaf_bench.seeds import DEFERRED, SEEDS, SHEAVES, better_by, more_by
from sheaf_tool.stats import Estimate
from sheaf_bench.suites import SUITES, batch
from sheaf_tool.table import WIDTH, fold

EMPTY = {"br", "meta", "rect", "line", "path"}


def with_baseline() -> Document:
    """sheaf takes 4.0, no-sheaf 123.0."""
    document = invented()
    for one in [one for one in document.results if one.params["allocator"] == "sheaf"]:
        for name, times in (("cpu-slab", 1.25), ("slab-layer", 24.6)):
            params = {**one.params, "allocator": name}
            document.result("batch", params, one.unit).samples += [x * times for x in one.samples]
    return document


class Links(HTMLParser):
    """What the page refers to, and whether its tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, "str | None"]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("href", "src"):
                self.links.append(value or "")
            elif name == "id":
                self.anchors.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY and self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes something else")


class Page(unittest.TestCase):
    def setUp(self) -> None:
        machine = {**MACHINE, "load": 0.7, "command": "sheaf bench count --quick"}
        self.count = Document("count", machine)
        for unit in ("instructions/pair", "locked/pair", "rseq/pair", "tls/pair"):
            for size in (1, 100):
                for name in ("sheaf", "harness"):
                    params = {"allocator": name, "batch": size, "order": "fifo"}
                    self.count.result("count", params, unit).samples.append(9.0)
        self.text = page.render([with_baseline(), self.count])

    def test_needs_no_other_file(self) -> None:
        links = Links(self.text)
        self.assertEqual(links.open, [])
        self.assertTrue(all(link.startswith(("#", "data:")) for link in links.links), links.links)
        self.assertNotRegex(self.text, r"url\(|@import|<script|<img")

    def test_contents_lead_somewhere(self) -> None:
        links = Links(self.text)
        within = [link[1:] for link in links.links if link.startswith("#")]
        self.assertEqual(within, ["batch", "count", "published"])
        self.assertEqual(sorted(within), sorted(links.anchors))

    def test_samples_travel_with_it(self) -> None:
        data = re.findall('base64,([^"]*)"', self.text)
        self.assertEqual([json.loads(base64.b64decode(one)) for one in data],
                         [with_baseline().as_json(), self.count.as_json()])

    def test_what_is_common_is_told_once(self) -> None:
        self.assertEqual(self.text.count("a &lt;fast&gt; one"), 1)
        self.assertEqual(self.text.count("load at the start"), 2)
        self.assertIn("<code>sheaf bench batch</code>", self.text)
        self.assertIn("<code>sheaf bench count --quick</code>", self.text)

    def test_names_every_document(self) -> None:
        for seed in SEEDS:
            self.assertIn(page.escape(seed.origin()), self.text)


class Directory(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def page(self) -> tuple[str, str]:
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            written = page.write_all(self.directory, [invented()])
        return written.read_text(encoding="utf-8"), err.getvalue()

    def test_old_results_stay_in_the_page(self) -> None:
        old = {**MACHINE, "command": "sheaf bench count --repeat 77"}
        samples = [Result("count", {"allocator": "harness", "batch": size}, unit, [1.0])
                   for unit in ("instructions/pair", "locked/pair", "rseq/pair", "tls/pair")
                   for size in (1, 100)]
        Document("count", old, samples).write(self.directory / "count.json")
        text, said = self.page()
        self.assertIn("--repeat 77", text)
        self.assertEqual(said, "")

    def test_results_of_another_version_are_left_out(self) -> None:
        for content in ("{", "[]", json.dumps(Document("count", MACHINE, [Result(
                "count", {"allocator": "harness"}, "minutes", [1.0])]).as_json())):
            (self.directory / "count.json").write_text(content, encoding="utf-8")
            text, said = self.page()
            self.assertIn('id="batch"', text)
            self.assertNotIn('id="count"', text)
            self.assertEqual(said.count("\n"), 1)
            self.assertIn("sheaf bench count", said)


class Seeds(unittest.TestCase):
    def test_percentages_are_those_of_the_times_beside_them(self) -> None:
        """The documents give both: nanoseconds before and after, and the percentage."""
        self.assertAlmostEqual(SHEAVES.percent[100, "fifo"], 100 - 10464175300 / 151796052,
                               delta=0.1)
        self.assertEqual(SHEAVES.percent[1000, "shuffled"],
                         round(100 - 17793445000 / 189950559, 1))
        self.assertAlmostEqual(DEFERRED.percent[64], 100 - 460 / 10.70, delta=0.06)

    def test_every_row_of_batch_has_one(self) -> None:
        self.assertEqual(set(SHEAVES.percent), set(batch.ROWS))

    def test_suites_exist(self) -> None:
        self.assertIn(SHEAVES.suite, SUITES)

    def test_better_and_more(self) -> None:
        found = Estimate(0.75, 0.5, 1.25)
        self.assertEqual(better_by(found), Estimate(25.0, -25.0, 50.0))
        self.assertEqual(more_by(found), Estimate(-25.0, -50.0, 25.0))

    def test_batch_shows_them_beside_ours(self) -> None:
        text = batch.SUITE.text(with_baseline())
        row = next(line for line in text.splitlines() if re.match(r"100 fifo +\+31", line))
        self.assertEqual(re.findall(r"[+-][\d.]+ %", row), ["+31.0 %", "+20.0 %", "+2.4 %",
                                                           "+25.0 %"])
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)

    def test_batch_goes_without_the_baseline(self) -> None:
        text = batch.SUITE.text(invented())
        rows = [line for line in text.splitlines() if "not measured" in line]
        self.assertEqual(len(rows), len(batch.ROWS))
        self.assertIn("+31.0 %", rows[2])
        self.assertIn("not measured", batch.SUITE.html(invented()))


class Fold(unittest.TestCase):
    def test_narrow_tables_stay_whole(self) -> None:
        self.assertEqual(fold(["a", "b"], [["1", "2"]]), "a  b\n----\n1  2")

    def test_wide_ones_repeat_the_first_column(self) -> None:
        header = ["row", *(f"{i:020}" for i in range(9))]
        parts = fold(header, [["x"] + [str(i) for i in range(9)]]).split("\n\n")
        self.assertEqual(len(parts), 3)
        for part in parts:
            self.assertLessEqual(max(map(len, part.splitlines())), WIDTH)
            self.assertTrue(part.splitlines()[2].startswith("x  "))
        self.assertEqual(" ".join(part.splitlines()[2] for part in parts).split(),
                         list("x0123x4567x8"))
