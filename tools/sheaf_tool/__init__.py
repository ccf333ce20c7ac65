# SPDX-License-Identifier: MIT
"""The `sheaf` command: what runs, live, and recordings. Its benchmarks are in sheaf_bench."""
