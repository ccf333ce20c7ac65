# SPDX-License-Identifier: MIT
"""Which branches of src/ tests reach, by clang's source-based coverage.

The counters are mapped from files and shared by every process of a program, so children that end by a signal or by
_exit() count, too. They are atomic: the compiler derives one side of a branch from the difference of two counters.
Counts are kept by function, so those of functions that did not change since an earlier run remain valid.

What is compiled is a copy of the tree, in which hints to the compiler (os_likely, os_unlikely) and assertions are blank,
with everything else in its place: clang reports the operands of a macro at one place in its definition.
"""
import collections
import fnmatch
import glob
import json
import os
import re
import shutil
import subprocess

from lib.builds import ROOT, run, test

HERE = os.path.join(ROOT, "build/coverage")
TREE = os.path.join(HERE, "tree")
BUILD = "build/coverage/clang"
REACHED = os.path.join(HERE, "reached.profdata")
PAGE = "docs/coverage.md"
EXCLUDED = "tests/coverage/excluded"
MCDC = "clang-22"  # older ones cannot map the counters of conditions from files
COMPILERS = (MCDC, "clang", "clang-14")
# What runs none of the build's own code: it compiles other programs, or checks texts.
OTHERS = ("abi-", "compile-lines", "docs-", "exports", "fast-path-count", "header-", "install", "ip-ranges", "malloc-", "maple", "maps-",
          "planted", "probes", "scale", "setup", "sim-maple", "single-file", "spaces", "subproject", "tools-maple", "tools-record_maps",
          "tools-scale", "walk-shapes", "words-")
# What counts system calls, to which the counters add, or has pages larger than the counters are aligned to.
DISTURBED = re.compile(r"start|.*-pages-64k")
GOAL = tuple(f"src/{name}/" for name in ("slab", "percpu", "cache", "rcu", "page", "kmalloc"))  # of every side; listed on the page
MOST_EXCLUDED = 0.03  # of a folder
EXCLUSION = re.compile(r"(\S+):(\w+) (true|false) of (.+?) -- (.+)")
RACE = "race: "  # A reason that begins so: some runs reach the side.


class Decision:
    """Conditions joined by && and ||: which of them alone made a difference in some two runs (MC/DC)."""

    def __init__(self, conditions):
        self.alone = [False] * conditions
        self.text = ""


class Branch:
    """A condition, or a label of a switch: where, and which of its sides were reached."""

    def __init__(self, function):
        self.function = function
        self.reached = {"true": False, "false": False}
        self.text = ""


def blank(text):
    """A source without hints and assertions, each other character in its place."""
    text = re.sub(r"\bos_(?:un)?likely\((?!condition\) +_)", lambda found: " " * (len(found[0]) - 1) + "(", text)
    out, done = [], 0
    for found in re.finditer(r"(?<!define )\bos_assert\(", text):
        end = closing(text, found.end())
        out += [text[done:found.start()], "(void)0", re.sub(r"[^\n\\]", " ", text[found.start() + 7:end])]
        done = end
    return "".join(out) + text[done:]


def copy_tree():
    """Update the copy of the tree; files that did not change keep their times."""
    wanted = run(["scripts/lib/list-files"]).stdout.splitlines()
    for name in wanted:
        source, copy = os.path.join(ROOT, name), os.path.join(TREE, name)
        with open(source, "rb") as file:
            data = file.read()
        if re.match(r"src/.*\.[ch]$", name):
            data = blank(data.decode()).encode()
        if os.path.exists(copy):
            with open(copy, "rb") as file:
                if file.read() == data:
                    continue
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(copy, "wb") as file:
            file.write(data)
        shutil.copymode(source, copy)
    maple = os.path.join(TREE, "subprojects/maple")
    if not os.path.islink(maple):
        os.makedirs(os.path.dirname(maple))
        os.symlink("../maple", maple)
    for folder, _, names in os.walk(TREE):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.relpath(path, TREE) not in wanted and path != maple:
                os.remove(path)


def condition(lines, line, column, end_line, end_column):
    """The text from one place to another; after the name of a macro also its operands."""
    text = "\n".join(lines[line - 1:])
    end = sum(len(lines[number - 1]) + 1 for number in range(line, end_line)) + end_column - 1
    if text[end:end + 1] == "(" and text[end - 1] != " ":
        end = closing(text, end + 1)
    return " ".join(text[column - 1:end].split())


def closing(text, at):
    """The place behind the bracket that closes one before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


class Coverage:
    """Builds, runs tests and reads what they reached."""

    def __init__(self, tally):
        self.tally = tally
        self.compiler = next(filter(shutil.which, COMPILERS), None)
        # Only the tools of the same version read its files.
        self.tools = os.path.dirname(os.path.realpath(shutil.which(self.compiler or "clang") or ""))
        self.branches = {}
        self.decisions = {}

    def _tool(self, name, *arguments):
        # It warns of functions that the simulator has in another form.
        result = run([os.path.join(self.tools, name), *arguments], stderr=subprocess.PIPE)
        if result.returncode:
            raise SystemExit(f"coverage: {name} failed: {result.stderr}")
        return result.stdout

    def _introspect(self, what):
        return json.loads(run(["meson", "introspect", BUILD, what], stderr=None).stdout)

    def build(self, patterns):
        """Build the programs of the chosen tests; their names, or None."""
        copy_tree()
        flags = ["-fcoverage-mapping", "-mllvm", "-runtime-counter-relocation", "-mllvm", "-do-counter-promotion=false",
                 "-fprofile-update=atomic", f"-fprofile-instr-generate={HERE}/raw/%m%c.profraw"]
        flags += ["-fcoverage-mcdc"] * (self.compiler == MCDC)
        if not os.path.exists(os.path.join(ROOT, BUILD, "build.ninja")):
            link = "-Dc{}_link_args=-fprofile-instr-generate"
            result = run(["meson", "setup", BUILD, TREE, "--buildtype=release", "-Dbench=true", "-Dtests=enabled",
                          f"-Dc_args={flags}", link.format(""), link.format("pp")],
                         env={**os.environ, "CC": self.compiler, "LLVM_PROFILE_FILE": os.devnull})
            if result.returncode:
                self.tally.add("coverage: set up a build", "FAIL", result.stdout)
                return None
        # There may be other tests than in an earlier run.
        run(["ninja", "-C", BUILD, "build.ninja"])
        chosen = [one for one in self._introspect("--tests")
                  if (any(fnmatch.fnmatch(one["name"], pattern) for pattern in patterns) if patterns
                      else not one["name"].startswith(OTHERS) and not DISTURBED.fullmatch(one["name"]))]
        files = {target["id"]: target["filename"] for target in self._introspect("--targets")}
        needed = sorted({os.path.relpath(file, os.path.join(ROOT, BUILD)) for one in chosen for target in one["depends"]
                         for file in files[target]})
        with self.tally.running("coverage: build"):
            result = run(["ninja", "-C", BUILD, *needed])
        self.tally.add(f"coverage: build with {self.compiler}", "FAIL" if result.returncode else "OK", result.stdout)
        return None if result.returncode else sorted({one["name"] for one in chosen})

    def run(self, names, fresh):
        """Run tests and add what they reach to what earlier runs reached."""
        shutil.rmtree(f"{HERE}/raw", ignore_errors=True)
        test(self.tally, BUILD, *names)
        raw = glob.glob(f"{HERE}/raw/*.profraw")
        before = [REACHED] if os.path.exists(REACHED) and not fresh else []
        self._tool("llvm-profdata", "merge", "--failure-mode=all", "-o", f"{REACHED}.new", *before, *raw)
        os.replace(f"{REACHED}.new", REACHED)

    def read(self):
        """Fill in the branches: what is reached in any build, by any function that has it inlined, is reached."""
        for library in "src/libsheaf.a", "sim/libsheaf-sim.a":
            data = json.loads(self._tool("llvm-cov", "export", "--skip-expansions", f"--instr-profile={REACHED}",
                                         os.path.join(ROOT, BUILD, library)))
            for function in data["data"][0]["functions"]:
                name = function["name"].rsplit(":", 1)[-1]
                files = [os.path.relpath(os.path.normpath(file), TREE) for file in function["filenames"]]
                for line, column, end_line, end_column, count, count_false, file, *_ in function["branches"]:
                    if not files[file].startswith("src/"):
                        continue
                    where = files[file], line, column, end_line, end_column
                    branch = self.branches.setdefault(where, Branch(name))
                    # A negative difference of counters is large.
                    branch.reached["true"] |= 0 < count < 1 << 63
                    branch.reached["false"] |= 0 < count_false < 1 << 63
                for line, column, end_line, end_column, *_, file, _, _, alone, _ in function.get("mcdc_records", []):
                    if files[file].startswith("src/"):
                        where = files[file], line, column, end_line, end_column
                        decision = self.decisions.setdefault(where, Decision(len(alone)))
                        decision.alone = [one or other for one, other in zip(decision.alone, alone)]
        sources = {}
        for (file, *place), found in (*self.branches.items(), *self.decisions.items()):
            if file not in sources:
                with open(os.path.join(TREE, file), encoding="utf-8") as source:
                    sources[file] = source.read().splitlines()
            found.text = condition(sources[file], *place)


def exclusions():
    """The list of excluded sides: (file, function, side, text): reason."""
    found = {}
    with open(os.path.join(ROOT, EXCLUDED), encoding="utf-8") as file:
        for line in filter(lambda line: line.strip() and not line.startswith("#"), file):
            if not (match := EXCLUSION.fullmatch(line.strip())):
                raise SystemExit(f"{EXCLUDED}: not FILE:FUNCTION true|false of CONDITION -- REASON: {line}")
            found[match.groups()[:4]] = match[5]
    return found


class Report:
    """What is reached, by folder."""

    def __init__(self, branches, decisions):
        self.decisions = decisions
        self.folders = collections.defaultdict(collections.Counter)
        self.unreached = []  # (file, line, column, side, branch)
        self.excluded = exclusions()
        self.faults, used = [], set()
        for (file, line, column, *_), branch in sorted(branches.items()):
            folder = self.folders["/".join(file.split("/")[:2])]
            for side, reached in branch.reached.items():
                key = file, branch.function, side, branch.text
                folder["sides"] += 1
                folder["reached"] += reached
                folder["excluded"] += key in self.excluded and not reached
                used.add(key)
                if reached and key in self.excluded and not self.excluded[key].startswith(RACE):
                    self.faults.append(f"{file}:{line}: {side} of {branch.text}: it is reached")
                elif not reached and key not in self.excluded:
                    self.unreached.append((file, line, column, side, branch))
        for (file, *_), decision in decisions.items():
            folder = self.folders["/".join(file.split("/")[:2])]
            folder["conditions"] += len(decision.alone)
            folder["alone"] += sum(decision.alone)
        self.faults += [f"{file}:{function} {side} of {text}: there is no such branch"
                       for file, function, side, text in self.excluded.keys() - used]
        self.faults += [f"{folder}: {count['excluded']} of {count['sides']} sides, which is more than {MOST_EXCLUDED:.0%}"
                       for folder, count in self.folders.items() if count["excluded"] > MOST_EXCLUDED * count["sides"]]

    def check(self, tally):
        """Add what is wrong with the list of excluded sides."""
        for line in self.faults:
            tally.add(f"{EXCLUDED}: {line}", "FAIL")

    def total(self):
        count = sum(self.folders.values(), collections.Counter())
        return f"{count['reached']} of {count['sides']} sides of branches reached, {count['excluded']} excluded"

    def lines(self, chosen):
        """A line for each side that was not reached; one for both sides of a branch."""
        places = collections.defaultdict(list)
        for file, line, column, side, branch in self.unreached:
            if file.startswith(chosen):
                places[file, line, column, branch].append(side)
        for (file, line, column, branch), sides in places.items():
            yield f"{file}:{line}:{column}: {branch.function}: {'not' if len(sides) > 1 else 'never ' + sides[0]}: {branch.text}"

    def not_alone(self, chosen):
        """A line for each decision with conditions that are not known to make a difference alone."""
        for (file, line, column, *_), decision in sorted(self.decisions.items()):
            numbers = [str(number + 1) for number, alone in enumerate(decision.alone) if not alone]
            if numbers and file.startswith(chosen):
                yield f"{file}:{line}:{column}: {', '.join(numbers)} of {len(decision.alone)}: {decision.text}"

    def table(self, chosen):
        yield f"{'':16}{'sides':>7}{'reached':>9}{'excluded':>10}{'unreached':>11}{'conditions':>20}{'alone':>7}"
        shown = {folder: count for folder, count in self.folders.items() if folder.startswith(chosen)}
        for folder, count in *sorted(shown.items()), ("all", sum(shown.values(), collections.Counter())):
            rest = count["sides"] - count["reached"] - count["excluded"]
            yield (f"{folder:16}{count['sides']:7}{count['reached']:9}{count['excluded']:10}{rest:11}{1 - rest / count['sides']:9.1%}"
                   f"{count['conditions']:11}{count['alone']:7}{count['alone'] / max(count['conditions'], 1):9.1%}")

    def write(self):
        """Write the tables of the page."""
        path = os.path.join(ROOT, PAGE)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        reasons = (f"{file}: {function}: never {side}: {text}\n    {reason}"
                   for (file, function, side, text), reason in self.excluded.items())
        for name, lines in ("table", self.table("")), ("unreached", self.lines(GOAL)), ("excluded", reasons), ("alone", self.not_alone(GOAL)):
            begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
            before, rest = text.split(begin)
            text = before + begin + "```text\n" + "".join(f"{line}\n" for line in lines) + "```\n" + end + rest.split(end)[1]
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
