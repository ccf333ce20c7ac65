# SPDX-License-Identifier: MIT
"""docs/verification.md: what the newest tree has passed, what is older, and what was skipped; from the records alone."""
import datetime
from pathlib import Path

from lib import fuzzed, records
from lib.builds import ROOT

PATH = Path(ROOT, records.PAGE)
FOUND = records.FOLDER / "found.md"  # written by hand
HEAD = """# Verification

`make check-deep` runs all tests in stages, each in its most thorough form. This page says what the newest tree that has records has
passed, and what only older trees have. A tree is named by a hash of all its files except this page and the
[records](../verification/), from which `scripts/update-verification` writes this page. A stage that depends on chance runs three times,
each time with another seed. [tests.md](internals/tests.md) says what the tests do.

"""


def _runs(stages):
    return {name: record["last"] for name in stages if (record := records.read(name))}


def _newest(runs):
    """The tree that was committed last, of those that have records."""
    def when(run):
        return datetime.datetime.fromisoformat(run["committed"]), run["date"]
    return max(runs.values(), key=when, default=None)


def _day(run):
    return f"{run['commit']} of {run['committed'][:10]}"


def _state(name, run, newest):
    """What the newest tree has passed; what is older."""
    if not run:
        return "not run yet", ""
    before = records.read(name).get("passed_before")
    if run["tree"] != newest:
        older = f"{run['verdict']} on {_day(run)}"
        return "not run yet", older + (f", passed on {_day(before)}" if before else "")
    return f"**{run['verdict']}**" if run["verdict"] != records.PASSED else records.PASSED, \
        f"passed on {_day(before)}" if before else ""


def _described(machine):
    compilers = "".join(f", {name} {machine[name]}" for name in ("gcc", "clang") if machine[name])
    return f"{machine['cpu']}, {machine['cpus']} CPUs, kernel {machine['kernel']}, {machine['system']}{compilers}"


def _machines(runs):
    """A letter for each machine."""
    found = dict.fromkeys(_described(run["machine"]) for run in runs.values())
    return {line: chr(ord("A") + number) for number, line in enumerate(found)}


def _table(stages, runs, newest, machines):
    yield "| stage | what it does | newest tree | older | passed | skipped | minutes | on |"
    yield "|---|---|---|---|--:|--:|--:|---|"
    for name, each in stages.items():
        run = runs.get(name)
        state, older = _state(name, run, newest)
        figures = (run["passed"], run["skipped"], f"{run['seconds'] / 60:.1f}", machines[_described(run["machine"])]) if run else ("", "", "", "")
        yield f"| {name} | {each.about} | {state} | {older} | " + " | ".join(map(str, figures)) + " |"


def _skips(runs):
    """A line for each reason: how many tests of which stages."""
    reasons = {}
    for name, run in runs.items():
        for reason, tests in run["skips"].items():
            reasons.setdefault(reason, {})[name] = len(tests)
    for reason, of in sorted(reasons.items()):
        yield f"- {reason}: " + ", ".join(f"{number} in {name}" for name, number in of.items())


def _failures(runs):
    for name, run in runs.items():
        for test, lines in run["failures"].items():
            yield f"- {name}: {test}\n\n" + "\n".join(f"      {line}".rstrip() for line in lines) + "\n"


def text(stages):
    runs = _runs(stages)
    newest = _newest(runs)
    parts = [HEAD.rstrip()]
    if not newest:
        parts.append("There are no records yet.")
    else:
        machines = _machines(runs)
        verdicts = [_state(name, runs.get(name), newest["tree"])[0] for name in stages]
        parts.append(f"The newest tree is `{newest['tree']}`, of commit {_day(newest)}: "
                     f"{verdicts.count(records.PASSED)} of {len(stages)} stages passed on it, "
                     f"{verdicts.count('not run yet')} have not run on it.")
        parts.append("\n".join(_table(stages, runs, newest["tree"], machines)))
        parts.append("\n".join(f"- {letter}: {line}" for line, letter in machines.items()))
        for heading, lines in ("Failures", _failures(runs)), ("Skipped", _skips(runs)):
            if lines := list(lines):
                parts.append(f"## {heading}\n\n" + "\n".join(lines).rstrip())
    if fuzzing := fuzzed.section():
        parts.append(fuzzing)
    if FOUND.exists():
        parts.append(FOUND.read_text(encoding="utf-8").rstrip())
    return "\n\n".join(parts) + "\n"


def write(stages):
    PATH.write_text(text(stages), encoding="utf-8")


def faults(stages):
    """What is wrong with the page and the records."""
    names = {f"{name}.json" for name in stages}
    yield from (f"{path.relative_to(ROOT)}: there is no such stage; remove it" for path in records.FOLDER.glob("*.json")
                if path.name not in names)
    if not PATH.exists() or PATH.read_text(encoding="utf-8") != text(stages):
        yield f"{records.PAGE} is not what the records say: scripts/update-verification writes it"
