# SPDX-License-Identifier: MIT
"""The commands `sheaf caches`, `sheaf object` and `sheaf sheaves` for gdb: load them with `source FILE`.

gdb loads them automatically with a shared library that is installed where it looks: see docs/debugging.md.
"""
import os
import sys

here = os.path.dirname(os.path.realpath(__file__))
if here not in sys.path:
    sys.path.append(here)

import sheaf_gdb.commands  # noqa: E402,F401  (the path above comes first)
