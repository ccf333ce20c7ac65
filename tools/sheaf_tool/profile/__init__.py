# SPDX-License-Identifier: MIT
"""`sheaf profile`: heap profiles of libsheaf, from its samples to the formats of other tools.

raw         the document that the library writes, checked
modules     the files that a process mapped, found again by their build ids
fetch       the document of a running process
locate      addresses become functions, files and lines
estimate    samples become estimates; what all formats are made of
aggregate   sums by function and by stack
protobuf    the encoding of pprof's format
top, folded, jemalloc, pprof, page      a format each (page.css and page.js belong to page)
leaks       what is in use, by stack
command     the command line

Each imports only what is above it.
"""
from .command import add_parser

__all__ = ["add_parser"]
