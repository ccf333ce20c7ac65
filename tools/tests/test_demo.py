# SPDX-License-Identifier: MIT
"""`make demo` builds every program that the benchmark it shows cannot do without."""
import sys
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from sheaf_bench.allocators import ALLOCATORS
from sheaf_bench.suites import batch

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


class Demo(unittest.TestCase):
    def test_builds_what_the_suite_needs(self) -> None:
        sys.path.insert(0, str(SCRIPTS))
        self.addCleanup(sys.path.remove, str(SCRIPTS))
        loader = SourceFileLoader("demo", str(SCRIPTS / "demo"))
        spec = spec_from_loader("demo", loader)
        assert spec
        demo = module_from_spec(spec)
        loader.exec_module(demo)
        needed = {one.worker for one in ALLOCATORS
                  if not one.remedy and (not one.named or one.name in batch.SUITE.others)}
        self.assertEqual(needed - set(demo.ALLOCATORS), set())


if __name__ == "__main__":
    unittest.main()
