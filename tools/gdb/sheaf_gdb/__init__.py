# SPDX-License-Identifier: MIT
"""Looks into a program on libsheaf through gdb: a running one, or a core file.

No code of the program is called, and nothing in it is changed. Types and offsets come from the library's
debug data, numbers from its table for debuggers (src/cache/debugger.c); what they mean is written here a
second time. So this belongs to the version of the library with which it was installed.
"""
