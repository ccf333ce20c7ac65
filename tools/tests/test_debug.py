# SPDX-License-Identifier: MIT
"""The suite `debug`: its settings, its cells and its tables."""
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from sheaf_bench.document import Document
from sheaf_bench.suites import debug
from sheaf_tool.table import WIDTH

KNOWN = """\
  slab_debug=TEXT          check caches: letters of FZPUTAOGS, then names of caches; see the page
  slab_guard=N             N MiB of addresses for guarded objects (8 to 65536)
  slab_freelist_hardened   no effect: free objects hold no links
  slab_freelist_random     hand out a new slab's objects in random order
  init_on_free=N           clear each object when it is freed (0 to 1; default 0)
"""
PROGRAMS = ("bench/batch-sheaf", "bench/batch-malloc", "bench/tree-sheaf", "bench/tree-malloc", "bench/tree-malloc-asan",
            "examples/words")


class Debug(unittest.TestCase):
    def codes(self) -> list[str]:
        return [one.detector.code for one in debug.settings_of(KNOWN) if one.detector.ours]

    def test_settings_are_those_that_the_library_has(self) -> None:
        self.assertEqual(self.codes(), ["plain", "F", "Z", "P", "U", "FZP", "FZPU", "G", "S 512K", "S 64K", "S 8K",
                                        "slab_freelist_random", "init_on_free=1"])

    def test_cells_and_tables(self) -> None:
        with TemporaryDirectory() as name:
            for program in PROGRAMS:
                (Path(name) / program).parent.mkdir(exist_ok=True)
                (Path(name) / program).touch()
            cells = debug.cells(Path(name) / "bench", debug.settings_of(KNOWN))
        document = Document("debug", {"names": {one.detector.code: one.detector.name
                                                for one in debug.settings_of(KNOWN)}})
        plain = {(cell.params["work"], cell.params["size"]): cell for cell in cells
                 if cell.params["debug"] == "plain"}
        self.assertEqual(set(plain), set(debug.COLUMNS))
        for i in range(6):
            for cell in cells:
                time = (1.0 if cell.params["debug"] in ("plain", "glibc") else 3.0) + i / 1000
                cell.keep(document, dict(cell.params), [f"cpu {time / 5}", "from /lib/libc.so", f"{time:.4f}"])
        with mock.patch("sheaf_tool.stats.RESAMPLES", 40):
            text = debug.SUITE.text(document)
            self.assertIn("<svg", debug.SUITE.html(document))
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
        self.assertRegex(text, r"FZPU +3\.00 +3\.00 +3\.00")
        self.assertAlmostEqual(debug.samples(document, "plain", debug.WORDS)[0], 1.0)


if __name__ == "__main__":
    unittest.main()
