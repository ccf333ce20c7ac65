# SPDX-License-Identifier: MIT
"""The machine of a run: what calls cost there, and how programs of the build call the library."""
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from test_report import MACHINE, invented

from sheaf_bench import machine, page

INTEL = {**MACHINE, "cpu": "Xeon", "sheaf": "in place", "call_ns": {"direct": 2.61, "indirect": 9.24},
         "mitigations": {"retbleed": "Mitigation: IBRS"}}


class Calls(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def _described(self, script: str) -> "dict[str, object]":
        program = self.directory / "calls"
        program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        program.chmod(0o755)
        return machine.describe(self.directory)

    def test_are_measured_once_for_all_suites(self) -> None:
        found = self._described("echo direct 2.610 indirect 9.240 sheaf in place")
        self.assertEqual(found["call_ns"], {"direct": 2.61, "indirect": 9.24})
        self.assertEqual(found["sheaf"], "in place")
        self.assertEqual(self._described("echo direct 1.000 indirect 1.000 sheaf called")["call_ns"], found["call_ns"])

    def test_a_build_without_the_program_says_nothing(self) -> None:
        self.assertNotIn("call_ns", machine.describe(self.directory))

    def test_other_words_are_no_times(self) -> None:
        self.assertNotIn("call_ns", self._described("echo out of order"))

    def test_mitigations_are_those_that_can_be_read(self) -> None:
        (self.directory / "retbleed").write_text("Mitigation: IBRS\n", encoding="utf-8")
        with mock.patch.object(machine, "DEFECTS", self.directory):
            self.assertEqual(machine.describe(self.directory)["mitigations"], {"retbleed": "Mitigation: IBRS"})


class Line(unittest.TestCase):
    def test_says_what_an_indirect_branch_costs(self) -> None:
        self.assertEqual(machine.line(INTEL), "Xeon, 2 CPUs, Linux, glibc. An empty call: 9.2 ns through a pointer, "
                                              "2.6 ns direct (retbleed: Mitigation: IBRS).")
        self.assertEqual(machine.line(MACHINE), "a <fast> one, 2 CPUs, Linux, glibc.")

    def test_is_in_the_page(self) -> None:
        document = invented()
        document.machine = INTEL
        text = page.render([document])
        for said in ("9.2 ns through a pointer", "retbleed: Mitigation: IBRS", "in place"):
            self.assertIn(said, text)
