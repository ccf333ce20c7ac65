/* SPDX-License-Identifier: MIT */
/*
 * The objects of a cache that are in use, grouped by the stack that allocated them, or that last
 * freed them: what the kernel shows as alloc_traces and free_traces.
 *
 *   groups[]:  | stack, count, bytes, ages ... | ...      sorted at the end, most objects first
 *   buckets[]: hash of a stack --> its groups, while objects are added
 *
 * Invariants
 *  TRACES-R1. The cache may be in use. Its slabs are held one after the other (slab/hold.c).
 *  TRACES-R2. A record is copied, and counts only if its object is still used after that: the
 *      library does not write the record of a used object, so the copy is whole. Argued: an object
 *      that was freed meanwhile is not taken again, because the slab is held (SLAB-B1).
 *  TRACES-R3. Groups and buckets are memory from the system, for one call.
 *
 * Locks: OS_RANK_NODE, briefly. Callers: src/debug/, src/stats/.
 */
#ifndef SHEAF_DEBUG_TRACES_H
#define SHEAF_DEBUG_TRACES_H

#include "debug/object.h"

/* Objects of one stack. */
struct debug_trace {
	size_t count;
	uint64_t bytes; /* requested */
	uint64_t ages;	/* their sum, in ms */
	uint32_t age_min, age_max;
	uint32_t thread_min, thread_max;
	uint32_t cpu_min, cpu_max;
	uint32_t n, next; /* next: one more than the index of the next group in the bucket */
	uintptr_t ip[TRACK_FRAMES];
	void *object; /* one of them */
};

#define DEBUG_TRACES  4096 /* groups */
#define DEBUG_BUCKETS 4096

struct debug_traces {
	struct debug_trace *groups;
	uint32_t *buckets; /* one more than the index of a group; 0: none */
	uint32_t nr_groups;
	size_t objects;	     /* in all groups */
	size_t others;	     /* of further stacks */
	size_t unknown;	     /* without a record: they were never freed */
	unsigned int missed; /* slabs that others held */
	bool guarded;	     /* only of guarded objects: the cache does not store users */
};

/* Get memory for groups, and then for one cache after another, group the objects of a cache with U,
 * or the guarded ones of another cache. False: no memory. */
bool debug_traces_begin(struct debug_traces *traces);
void debug_traces_find(struct debug_traces *traces, struct slab_cache *cache, enum debug_deed deed);
void debug_traces_end(struct debug_traces *traces);

#endif
