# SPDX-License-Identifier: MIT
"""The `sheaf` command: benchmarks of libsheaf against other allocators, and their reports."""
