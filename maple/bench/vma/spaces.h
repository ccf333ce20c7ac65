/* SPDX-License-Identifier: MIT */
/*
 * Shared by the benchmarks of address spaces: the setup of the allocator, and the spaces of
 * processes. Compiled for each allocator (with three_tier.h, no_sheaves.h, or nothing included
 * before it).
 */
#ifndef BENCH_VMA_SPACES_H
#define BENCH_VMA_SPACES_H

#include <urcu.h>

#include <sheaf/rcu.h>

#include "space/space.h"

#define SPACES_LOW  0x10000ul
#define SPACES_HIGH 0x7ffffffff000ul

/* Call this once, in the first thread, which is then registered with liburcu. Capacity of sheaves;
 * 0: the default. */
void spaces_begin(unsigned int capacity);
/* Call these in every other thread, before its first call and after its last. */
void spaces_thread_begin(void);
void spaces_thread_end(void);

/* The i-th mapping of a process, from the top down: of all kinds, with holes. */
struct space_request spaces_mapping(unsigned int i);
/* Make an empty space, or one with n such mappings; exits if out of memory. */
void spaces_make(struct space *space, unsigned int n);

#endif
