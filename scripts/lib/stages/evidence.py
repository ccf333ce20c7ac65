# SPDX-License-Identifier: MIT
"""Stages about the tests themselves: which branches they reach, and which planted bugs they find."""
from lib import fast
from lib.coverage import Coverage, Report
from lib.stage import RUNS, Skipped, built, need, program, stage
from lib.stages.sanitizers import TSAN


@stage("planted", "bugs planted in the sources one by one: the test that is named for each finds it")
def planted(tally):
    if built(tally, *fast.RELEASE) and built(tally, *TSAN):
        program(tally, "tests/planted/check-planted",
                ["tests/planted/check-planted", ".", fast.RELEASE[0], f"tsan={TSAN[0]}"], wanted="bugs planted, 0 failed")


@stage("fuzz-planted", "bugs planted in what the fuzz targets reach: libFuzzer finds each, without an input to begin with")
def fuzz_planted(tally):
    need("clang")
    program(tally, "tests/fuzz/check-planted", ["tests/fuzz/check-planted"], wanted="bugs planted, 0 failed")


@stage("fuzz-run", "libFuzzer at each fuzz target, from the corpus")
def fuzz_run(tally):
    need("clang")
    for number in range(RUNS):
        program(tally, f"tests/fuzz/run, run {number + 1}",
                ["tests/fuzz/run", "--leave-corpus", "--seconds", str(tally.times(20))], wanted="edges")


@stage("coverage", "the tests of `make check` in a build that counts branches; docs/coverage.md lists what they do not reach")
def coverage(tally):
    counted = Coverage(tally)
    if not counted.compiler:
        raise Skipped("there is no clang here")
    if names := counted.build([]):
        counted.run(names, fresh=True)
        counted.read()
        report = Report(counted.branches, counted.decisions)
        report.check(tally)
        tally.add(f"coverage: {report.total()}", "OK")
