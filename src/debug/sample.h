/* SPDX-License-Identifier: MIT */
/*
 * Sampling: which allocations get a guarded object (debug/guard.h), on average one in slab_sample
 * bytes, or, while the heap profile is on, in profile_mean().
 *
 * Each allocated byte is chosen with the same probability, whatever was allocated before: an object
 * of c bytes is a sample with chance 1 - exp(-c / slab_sample). So the number of pops up to the
 * next sample has a geometric distribution. The main sheaf counts them down (os/section.h), and the
 * slow path draws a new number when they are used up.
 *
 * Invariants
 *  SAMPLE-S1. A count may be drawn anew at any time, for example when its sheaf leaves its slot: a
 *      geometric distribution does not depend on how many pops there were already. Argued.
 *  SAMPLE-S2. Counts beyond SHEAF_MOST_LEFT are cut off, which makes samples more frequent by less
 *      than one in a thousand.
 *
 * Locks: none. Callers: src/percpu/, src/cache/, src/debug/.
 */
#ifndef SHEAF_DEBUG_SAMPLE_H
#define SHEAF_DEBUG_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The next number of a sequence: splitmix64, from any seed. */
uint64_t sample_next(uint64_t *sequence);
/* Set the seed of the random numbers below. */
void sample_seed(uint64_t seed);
/* Pops of objects of this size up to the next sample, from 1 to SHEAF_MOST_LEFT. */
uint32_t sample_pops(size_t size);
/* Is this allocation of this size, for which no pops are counted, sampled? */
bool sample_is_taken(size_t bytes);
/* How many allocated bytes a sampled object of this size stands for, with one in `mean` bytes. */
uint64_t sample_weight(size_t size, uint32_t mean);

#endif
