# SPDX-License-Identifier: MIT
# Installed under the name that gdb looks for when it meets the shared library: adds the commands
# `sheaf caches` and so on, from share/libsheaf/.
import os
import sys

commands = os.path.realpath(__file__).rpartition("/gdb/auto-load/")[0] + "/libsheaf"
if os.path.isdir(commands):
    if commands not in sys.path:
        sys.path.append(commands)
    import sheaf_gdb.commands  # noqa: F401
