# SPDX-License-Identifier: MIT
"""The benchmarks of the `sheaf` command: libsheaf against other allocators, and the reports."""
