# SPDX-License-Identifier: MIT
"""The stages of check-deep by subject. They run in the order in which they are imported here."""
from lib.stage import STAGES  # noqa: F401
from lib.stages import (check, compilers, options, simulator, tried, storms, sanitizers, valgrind, emulated,  # noqa: F401
                        installed, busy, evidence)
