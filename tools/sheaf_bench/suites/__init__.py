# SPDX-License-Identifier: MIT
"""The registry of benchmark suites: each is a module with a SUITE; a new one is added here."""
from . import (batch, bulk, count, cross, fork, kmalloc, maple, memory, mmap2, prefill, rcu, scale,
               vmalloc)
from .suite import Suite

SUITES: dict[str, Suite] = {suite.name: suite for suite in (batch.SUITE, count.SUITE,
                                                            cross.SUITE, scale.SUITE,
                                                            bulk.SUITE, memory.SUITE,
                                                            rcu.SUITE, prefill.SUITE,
                                                            kmalloc.SUITE, vmalloc.SUITE,
                                                            maple.SUITE, mmap2.SUITE,
                                                            fork.SUITE)}
