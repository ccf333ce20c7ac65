# SPDX-License-Identifier: MIT
"""Runs programs of a build on an emulated machine of another kind: more CPUs, more nodes, another processor.

The machine is qemu's, without hardware support; its kernel is Debian's. Its only file system is an archive in
memory: tests/guest/init.c as the first process, the programs, and the shared libraries they need.
"""
import gzip
import os
import re
import shutil
import stat
import subprocess
import threading

from lib import debian
from lib.builds import ROOT, run

KERNELS = ("linux-image-6.12-cloud-{}", "linux-image-cloud-{}", "linux-image-{}", "linux-image-generic")
# The lines of the first process: tests/guest/init.c.
BEGINS = re.compile(r"guest: (\S+) begins")
ENDS = re.compile(r"guest: (\S+) ends with (-?\d+) after (\d+)")


class Machine:
    """A kind of processor: how to emulate it, and where its kernel and libraries are."""

    def __init__(self, architecture, emulator, options, libraries, objdump="objdump"):
        self.architecture, self.emulator, self.options = architecture, emulator, options
        self.libraries, self.objdump = libraries, objdump
        self.place = os.path.join(ROOT, f"build/deep/guest-{architecture}")

    def obstacle(self):
        """Why it cannot run here; None if it can."""
        for tool in self.emulator, self.objdump:
            if not shutil.which(tool):
                return f"there is no {tool} here"
        return None if self.kernel() else "this machine's apt has no kernel for it"

    def kernel(self):
        """The path of its kernel, fetched if necessary."""
        def found():
            return debian.newest(f"{self.place}/root/boot/vmlinu[xz]-*")

        return found() or (debian.unpack_one_of(
            self.place, self.architecture, [name.format(self.architecture) for name in KERNELS]) and found())


def needed(machine, program):
    """The interpreter of a program and the names of the shared libraries that it names."""
    text = run([machine.objdump, "-p", program]).stdout
    names = re.findall(r"NEEDED +(\S+)", text)
    with open(program, "rb") as file:
        loader = re.search(rb"/lib\S*?/ld-linux[\w.-]*", file.read(65536))
    return loader and loader[0].decode(), names


class Archive:
    """A file system in memory, in the form that kernels unpack: cpio's "newc"."""

    def __init__(self):
        self.parts, self.there = [], set()

    def add(self, path, content=b"", mode=stat.S_IFREG | 0o755, device=(0, 0)):
        path = path.lstrip("/")
        if path in self.there:
            return
        self.there.add(path)
        if os.path.dirname(path):
            self.add(os.path.dirname(path), mode=stat.S_IFDIR | 0o755)
        name = path.encode() + b"\0"
        numbers = (len(self.parts) + 1, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name), 0)
        header = b"070701" + b"".join(b"%08x" % number for number in numbers) + name
        header += b"\0" * (-len(header) % 4)
        self.parts.append(header + content + b"\0" * (-len(content) % 4))

    def bytes(self):
        self.add("TRAILER!!!", mode=0)
        return gzip.compress(b"".join(self.parts), 1)


def add_libraries(machine, archive, program):
    """Add what a program needs, and what that needs."""
    loader, names = needed(machine, program)
    for target, name in [(f"lib/{name}", name) for name in names] + ([(loader, os.path.basename(loader))] if loader else []):
        path = next((path for path in (os.path.join(directory, name) for directory in machine.libraries)
                     if os.path.exists(path)), None)
        if path and target.lstrip("/") not in archive.there:
            with open(path, "rb") as file:
                archive.add(target, file.read())
            add_libraries(machine, archive, path)


def image(machine, init, tests):
    """Write the file system; its path. tests: name, seconds, variables, words of the command."""
    archive = Archive()
    archive.add("dev/console", mode=stat.S_IFCHR | 0o600, device=(5, 1))
    with open(init, "rb") as file:
        first = file.read()
    archive.add("init", first)
    archive.add("bin/true", first)
    lines = []
    for name, seconds, variables, command in tests:
        program = f"/bin/{os.path.basename(command[0])}"
        with open(command[0], "rb") as file:
            archive.add(program, file.read())
        add_libraries(machine, archive, command[0])
        lines.append(" ".join([name, str(seconds), *(f"{k}={v}" for k, v in variables.items()), program, *command[1:]]))
    archive.add("tests", ("\n".join(lines) + "\n").encode())
    path = os.path.join(machine.place, "file-system")
    with open(path, "wb") as file:
        file.write(archive.bytes())
    return path


# A kernel that tolerates a slow machine: no test of its timers, no watchdog for its CPUs.
PATIENT = "quiet loglevel=3 panic=-1 oops=panic no_timer_check nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
BOOTS = 2  # a machine that ends before its first test is started again


def verdict(tally, what, ended, said):
    """Add the verdict of a test that ended, from the first process's line, after these lines."""
    status = int(ended[2])
    last = next((text.strip() for text in reversed(said) if text.strip()), "")
    tally.add(f"{what}: {ended[1]}" + (f": {last}" if status == 0 else ""), {0: "OK", 77: "SKIP"}.get(status, "FAIL"),
              last if status == 77 else f"{''.join(said)}\n{ended[0]}\n", float(ended[3]))


def boot(tally, what, command, seconds, missing):
    """Run the machine until it ends; remove from `missing` the tests that ended. Returns what it printed."""
    said, console = [], []
    with tally.running(f"{what}: boots") as tell, \
            subprocess.Popen(["nice", "-n", "5", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        clock = threading.Timer(seconds, process.kill)
        clock.start()
        for line in process.stdout:
            console.append(line)
            if began := BEGINS.search(line):
                said = []
                tell(began[1])
            elif ended := ENDS.search(line):
                missing.remove(ended[1])
                verdict(tally, what, ended, said)
            else:
                said.append(line)
        clock.cancel()
    return "".join(console)


def test(tally, machine, what, init, tests, seconds, options=(), arguments=""):
    """Boot, run the tests, and add each one's verdict. The machine ends after that many seconds."""
    command = [machine.emulator, "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-monitor",
               "none", "-no-reboot", *machine.options, *options, "-kernel", machine.kernel(),
               "-initrd", image(machine, init, tests), "-append", f"{PATIENT} {arguments}"]
    missing = [name for name, *_ in tests]
    for _ in range(BOOTS):
        console = boot(tally, what, command, seconds, missing)
        if BEGINS.search(console):
            break
    for name in missing:
        tally.add(f"{what}: {name}", "FAIL", f"the machine had ended; its console:\n{console}\n")
        console = "see above"
