/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks of address spaces share: the allocator under them made ready, and the spaces
 * of processes. Compiled for each allocator (three_tier.h, no_sheaves.h, or nothing before it).
 */
#ifndef BENCH_VMA_SPACES_H
#define BENCH_VMA_SPACES_H

#include <urcu.h>

#include <sheaf/rcu.h>

#include "space/space.h"

#define SPACES_LOW  0x10000ul
#define SPACES_HIGH 0x7ffffffff000ul

/* Once, by the first thread, which is registered with liburcu then. Sheaves' capacity: 0 is
 * theirs. */
void spaces_begin(unsigned int capacity);
/* In every other thread before its first call, and when it has made its last. */
void spaces_thread_begin(void);
void spaces_thread_end(void);

/* The i-th mapping of a process, from the top downwards: of all kinds, with holes. */
struct space_request spaces_mapping(unsigned int i);
/* An empty space, or one with n such mappings; out of memory ends the program. */
void spaces_make(struct space *space, unsigned int n);

#endif
