# SPDX-License-Identifier: MIT
"""The pictures of docs/performance.md: self-contained files, whose text lies inside the picture; and the
pages of stored results."""
import re
import unittest
import xml.etree.ElementTree as xml
from unittest import mock

from sheaf_bench import site
from sheaf_bench.document import read
from sheaf_bench.pictures import PICTURES
from sheaf_bench.svg import COLUMN, MARGIN

SVG = "{http://www.w3.org/2000/svg}"


class Pictures(unittest.TestCase):
    drawn: dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.drawn = {name: draw(read(site.stored(suite)))
                     for name, (suite, draw) in PICTURES.items() if suite != "real" or site.stored(suite).exists()}

    def test_need_no_other_file(self) -> None:
        for name, text in self.drawn.items():
            self.assertIn("prefers-color-scheme: dark", text, name)
            self.assertNotRegex(text, r"url\(|@import|<script|<image", name)

    def test_show_ours(self) -> None:
        for name, text in self.drawn.items():
            panels = xml.fromstring(text).findall(f"{SVG}svg")
            self.assertGreaterEqual(len(panels), 2, name)
            for panel in panels:
                kinds = [one.get("class", "").split() for one in panel.iter()]
                self.assertTrue(any("ours" in kind for kind in kinds), name)

    def test_panels_do_not_overlap(self) -> None:
        for name, text in self.drawn.items():
            root = xml.fromstring(text)
            end = 0.0
            for panel in root.findall(f"{SVG}svg"):
                self.assertGreaterEqual(float(panel.get("y", "")), end, name)
                end = float(panel.get("y", "")) + float(panel.get("height", ""))
            notes = [float(note.get("y", "")) for note in root.findall(f"{SVG}text")]
            self.assertTrue(all(note > end for note in notes), name)
            self.assertLess(max(notes), float(root.get("height", "")), name)

    def test_labels_fit(self) -> None:
        """A character of 12 pixels is not wider than this."""
        for name, text in self.drawn.items():
            for panel in xml.fromstring(text).findall(f"{SVG}svg"):
                for label in panel.findall(f"{SVG}text"):
                    if label.get("text-anchor") == "end":
                        width = float(label.get("x", ""))
                    else:
                        width = COLUMN + MARGIN - float(label.get("x", ""))
                    self.assertLess(6.4 * len(label.text or ""), width, f"{name}: {label.text}")

    def test_a_colour_for_each_line(self) -> None:
        for panel in xml.fromstring(self.drawn["memory"]).findall(f"{SVG}svg"):
            lines = [line.get("class") for line in panel.findall(f"{SVG}polyline")]
            self.assertEqual(len(lines), len(set(lines)))

    def test_notes_are_sentences(self) -> None:
        for name, text in self.drawn.items():
            notes = re.findall('<text class="note"[^>]*>([^<]*)<', text)
            self.assertTrue(notes[-1].endswith("."), name)


class Pages(unittest.TestCase):
    def test_all_stored_results_have_a_page(self) -> None:
        names = {site.page_of(path) for folder in site.FOLDERS for path in folder.glob("*.json") if path.stem != "detect"}
        self.assertIn(site.MODEL, names)
        self.assertNotIn(None, names)
        for name in names:
            with mock.patch("sheaf_tool.stats.RESAMPLES", 20):  # intervals are of no interest here
                text = site.page(name)
            self.assertRegex(text, "(?s)^# .*\n- command: .*\n```text\n.*\n```\n", name)
