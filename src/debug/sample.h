/* SPDX-License-Identifier: MIT */
/*
 * Sampling: which allocations get a guarded object (debug/guard.h), one in slab_sample bytes.
 *
 * Each byte that is allocated is due with the same probability, whatever the program did before.
 * So the pops up to the next sample are distributed geometrically, and have no memory: a count
 * that is given up, because its sheaf left its slot, may be drawn again without making samples
 * rarer. A sheaf's word has room for counts up to SHEAF_DUE, so at most SAMPLE_POPS are counted on
 * average, and of those that come due the right part is taken. What is cut off beyond SHEAF_DUE
 * makes samples more frequent by less than one in a thousand.
 *
 * Locks: none. Callers: src/percpu/, src/cache/.
 */
#ifndef SHEAF_DEBUG_SAMPLE_H
#define SHEAF_DEBUG_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A slow path for each so many pops, on average, costs nothing that can be measured. */
#define SAMPLE_POPS 4096u

/* Begin with these random numbers. */
void sample_seed(uint64_t seed);
/* Pops of objects of this size until one is due, from 1 to SHEAF_DUE + 1. */
uint32_t sample_pops(size_t size);
/* Such a pop is due: is it the one that is sampled? */
bool sample_due_is_taken(size_t size);
/* Of an allocation of so many bytes for which no pops are counted: is it sampled? */
bool sample_is_taken(size_t bytes);

#endif
