# SPDX-License-Identifier: MIT
"""The page of `sheaf profile --format html`: one file, nothing from outside, no name that becomes HTML, sums that stay."""
import json
import random
import re
import shutil
import subprocess
import unittest
from html.parser import HTMLParser
from typing import Any
from unittest import mock

from heap import MAPS, document, named, profile, row
from test_profile import NASTY, Folder
from sheaf_tool.profile import page

LIVE = "live", "bytes"


class Reader(HTMLParser):
    """Tags with their attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        self._script = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts.append(data)
            self._script = False


def data_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Reader(text).scripts[0])
    return found


def totals(data: dict[str, Any]) -> list[list[int]]:
    n = len(page.COLUMNS)
    sums = [data["own"][i * n:(i + 1) * n] for i in range(len(data["parent"]))]
    for node in range(len(sums) - 1, 0, -1):
        above = sums[data["parent"][node]]
        above[:] = [a + b for a, b in zip(above, sums[node])]
    return sums


class Page(Folder):
    def test_nothing_from_outside(self) -> None:
        text = page.render(profile(document([named(1)], [row(live=(1, 50))])), LIVE)
        for tag, attributes in Reader(text).tags:
            self.assertFalse({"src", "href", "onclick", "action"} & set(attributes), (tag, attributes))
        self.assertNotRegex(text, r"https?:|@import|url\(|innerHTML|fetch\(|XMLHttp")
        self.assertIn("default-src 'none'", text)

    def test_nasty_names(self) -> None:
        maps = [{**MAPS[0], "file": NASTY}]
        text = page.render(profile(document([named(1)], [row(cache=NASTY, live=(1, 50))], program=NASTY, maps=maps)), LIVE)
        text.encode()
        plain = page.render(profile(document([named(1)], [row(live=(1, 50))])), LIVE)
        self.assertEqual([tag for tag, _ in Reader(text).tags], [tag for tag, _ in Reader(plain).tags])
        self.assertTrue(any(name.startswith("script>") for name in data_of(text)["names"]))  # after the last slash

    def test_tree(self) -> None:
        data = data_of(page.render(profile(document([named(1, 2), named(3, 2), named(2)], [
            row(0, size=1 << 40, live=(1, 10), all=(2, 20)), row(1, size=1 << 40, live=(1, 5), peak=(3, 7)),
            row(2, size=1 << 40, live=(1, 1), freed=2, elsewhere=1, lifetime_ms=30)])), ("all", "objects")))
        self.assertEqual(data["column"], 2)
        names = [data["names"][i] for i in data["name"]]
        found = dict(zip(names, totals(data)))
        self.assertEqual(found, {"all": [3, 16, 4, 26, 5, 18], "many+0x2": [3, 16, 4, 26, 5, 18], "many+0x1": [1, 10, 2, 20, 1, 10],
                                 "many+0x3": [1, 5, 1, 5, 3, 7]})
        functions = {data["names"][one["name"]]: one for one in data["functions"]}
        self.assertEqual(functions["many+0x2"], {"name": 2, "own": [1, 1] * 3, "total": [3, 16, 4, 26, 5, 18],
                                                 "elsewhere": 0.5, "lifetime": 15.0})

    def test_small_ones_are_put_together(self) -> None:
        rng = random.Random(5)
        stacks = [named(*(rng.randrange(40) for _ in range(6)), 1, 2) for _ in range(500)]
        made = profile(document(stacks, [row(i, live=(1, 60)) for i in range(500)]))
        whole = totals(data_of(page.render(made, LIVE)))[0]
        with mock.patch.object(page, "STACKS", 10):
            data = data_of(page.render(made, LIVE))
        self.assertLessEqual(len(data["parent"]), 10 * 2 * 8)
        self.assertIn(0, data["name"])
        self.assertEqual(data["names"][0], page.REST)
        self.assertTrue(all(parent < node for node, parent in enumerate(data["parent"]) if node))
        for few, all_ in zip(totals(data)[0], whole):
            self.assertAlmostEqual(few, all_, delta=500)  # each number is rounded

    @unittest.skipUnless(shutil.which("node"), "needs node")
    def test_script(self) -> None:
        (self.place / "page.js").write_text((page.HERE / "page.js").read_text(encoding="utf-8"), encoding="utf-8")
        subprocess.run(["node", "--check", self.place / "page.js"], check=True)

    def test_no_unknown_elements(self) -> None:
        """What the script looks for is there."""
        text = page.render(profile(document([named(1)], [row(live=(1, 50))])), LIVE)
        for name in set(re.findall(r'at\("(\w+)"\)', (page.HERE / "page.js").read_text(encoding="utf-8"))):
            self.assertIn(f'id="{name}"', text)
