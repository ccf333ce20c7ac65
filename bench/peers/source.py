# SPDX-License-Identifier: MIT
"""The table of versions, and getting a peer's source: the crate that carries it, by cargo."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).resolve().parent / "versions"
SECONDS = 60
# Fail soon on a machine without a network.
PATIENCE = {"CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "15"}
# cargo only fetches from a project: one that needs nothing but the crate.
PROJECT = """[package]
name = "fetch"
version = "0.0.0"
[workspace]
[dependencies]
{crate} = {{ version = "={version}", default-features = false }}
"""


class Unavailable(Exception):
    """Why a peer is left out, in one line."""


@dataclass(frozen=True)
class Peer:
    name: str
    release: str  # the allocator's own version, "-" if it has none
    crate: str
    crate_version: str
    sha256: str

    @property
    def library(self) -> str:
        return f"lib{self.name}.so"

    def __str__(self) -> str:
        carrier = f"{self.crate} {self.crate_version}"
        return carrier if self.release == "-" else f"{self.release} ({carrier})"


def read_table(path: Path = TABLE) -> list[Peer]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Peer(*line.split()) for line in lines if line and not line.startswith("#")]


def _reason(output: str) -> str:
    """The most useful line of cargo's error message: the deepest cause, else the error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [after for line, after in zip(lines, lines[1:]) if line == "Caused by:"]
    errors = [line for line in lines if line.startswith("error")]
    return (causes or errors or lines or ["no reason given"])[-1]


def _vendor(peer: Peer, project: Path) -> Path:
    (project / "src").mkdir()
    (project / "src" / "lib.rs").touch()
    # What follows a + only comments: a requirement cannot name it.
    version = peer.crate_version.partition("+")[0]
    (project / "Cargo.toml").write_text(PROJECT.format(crate=peer.crate, version=version),
                                        encoding="utf-8")
    try:
        result = subprocess.run(["cargo", "vendor", "--versioned-dirs"], cwd=project, text=True,
                                capture_output=True, timeout=SECONDS, check=False,
                                env={**PATIENCE, **os.environ})
    except FileNotFoundError as error:
        raise Unavailable("no cargo here: scripts/setup bench installs it") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"cargo was not done after {SECONDS} s") from error
    if result.returncode:
        raise Unavailable(f"cargo: {_reason(result.stderr)}")
    return project / "vendor" / f"{peer.crate}-{peer.crate_version}"


def verify(peer: Peer, directory: Path) -> None:
    """Fail unless it is the crate of the table; cargo has checked the files against the sum."""
    try:
        text = (directory / ".cargo-checksum.json").read_text(encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"cargo got no {peer.crate} {peer.crate_version}") from error
    if json.loads(text).get("package") != peer.sha256:
        raise Unavailable(f"{peer.crate} {peer.crate_version} is not the one of {TABLE.name}: "
                          "its SHA-256 differs")


def get(peer: Peer, to: Path) -> None:
    """Put the crate's files in the directory `to`."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as project:
        found = _vendor(peer, Path(project))
        verify(peer, found)
        shutil.rmtree(to, ignore_errors=True)
        found.rename(to)
