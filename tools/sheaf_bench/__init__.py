# SPDX-License-Identifier: MIT
"""The benchmarks of the `sheaf` command: libsheaf against other allocators, and the reports.

In a checkout the modules of `sheaf sim scale` are in scale/tools/.
"""
from pathlib import Path

__path__.append(str(Path(__file__).resolve().parents[2] / "scale" / "tools"))
