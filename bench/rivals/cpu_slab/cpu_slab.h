/* SPDX-License-Identifier: MIT */
/*
 * The baseline of the benchmarks: a cache as SLUB had it before sheaves, in three tiers (CPU slab,
 * CPU partial list, node partial list) on libsheaf's slabs. See cpu_slab.c.
 *
 * Any thread may call anything at any time, but cpu_slab_trim() and cpu_slab_counter() want a cache
 * that nobody uses meanwhile. Pointers are not checked.
 */
#ifndef BENCH_CPU_SLAB_H
#define BENCH_CPU_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Do not link a new slab's objects before they are needed. Default: all at once. */
#define CPU_SLAB_DEFERRED 1u
/* Keep the counters below, the fast paths' by slower calls. Default: none. */
#define CPU_SLAB_COUNTED 2u

/* Exact, named as in the kernel; calls, or objects in the first five. */
#define CPU_SLAB_COUNTERS(COUNTER)                                                                 \
	COUNTER(alloc_fastpath)		 /* from the CPU slab's freelist */                        \
	COUNTER(alloc_slowpath)		 /* not so */                                              \
	COUNTER(free_fastpath)		 /* onto the CPU slab's freelist */                        \
	COUNTER(free_slowpath)		 /* onto the slab's own */                                 \
	COUNTER(free_frozen)		 /* of these: some CPU holds the slab */                   \
	COUNTER(alloc_refill)		 /* the CPU slab took what its own freelist had */         \
	COUNTER(alloc_from_partial)	 /* a CPU slab came from a node */                         \
	COUNTER(alloc_slab)		 /* a CPU slab came from the page layer */                 \
	COUNTER(free_slab)		 /* an empty slab went back there, but by trim */          \
	COUNTER(free_add_partial)	 /* a slab came onto a node's list */                      \
	COUNTER(free_remove_partial)	 /* left it because it was empty */                        \
	COUNTER(deactivate_full)	 /* a held slab was let go: no free object */              \
	COUNTER(deactivate_bypass)	 /* the same of an exhausted CPU slab, on alloc */         \
	COUNTER(deactivate_remote_frees) /* a held slab was let go: it had free objects */         \
	COUNTER(cpu_partial_alloc)	 /* a CPU slab came from the CPU's list */                 \
	COUNTER(cpu_partial_free)	 /* a slab came there by its first free */                 \
	COUNTER(cpu_partial_node)	 /* or from a node, with a CPU slab */                     \
	COUNTER(cpu_partial_drain)	 /* the list was full and went to the nodes */

#define CPU_SLAB_NAME(name) CPU_SLAB_##name,
enum cpu_slab_counter {
	CPU_SLAB_COUNTERS(CPU_SLAB_NAME) CPU_SLAB_NR_COUNTERS
};
#undef CPU_SLAB_NAME

/* How a cache begins; the rest is private. Calls through it, as libsheaf's are. */
struct cpu_slab {
	void *(*alloc)(struct cpu_slab *cache);
	void (*free)(struct cpu_slab *cache, void *object);
};

/* A cache for objects of this size, for ever; NULL if there is no memory. */
struct cpu_slab *cpu_slab_create(size_t size, unsigned int flags);

static inline void *cpu_slab_alloc(struct cpu_slab *cache)
{
	return cache->alloc(cache);
}

static inline void cpu_slab_free(struct cpu_slab *cache, void *object)
{
	cache->free(cache, object);
}

/* All of them or none. */
bool cpu_slab_alloc_bulk(struct cpu_slab *cache, void **objects, unsigned int n);
/* The array's order is lost. */
void cpu_slab_free_bulk(struct cpu_slab *cache, void **objects, unsigned int n);

/* Give back what the CPUs hold, and empty slabs. Returns how many slabs are left. */
unsigned int cpu_slab_trim(struct cpu_slab *cache);

uint64_t cpu_slab_counter(struct cpu_slab *cache, enum cpu_slab_counter counter);

#endif
