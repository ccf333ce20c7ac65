/* SPDX-License-Identifier: MIT */
/*
 * The baseline of the benchmarks: a cache as SLUB had it before sheaves, in three tiers (CPU slab,
 * CPU partial list, node partial list) on libsheaf's slabs. See cpu_slab.c.
 *
 * Any thread may make any call at any time, but while cpu_slab_trim() or cpu_slab_counter() runs,
 * no thread may use the cache. Pointers are not checked.
 */
#ifndef BENCH_CPU_SLAB_H
#define BENCH_CPU_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Do not link a new slab's objects before they are needed. Default: all immediately. */
#define CPU_SLAB_DEFERRED 1u
/* Keep the counters below; those of the fast paths by slower calls. Default: none. */
#define CPU_SLAB_COUNTED 2u

/* Exact, named as in the kernel. The first five count objects, the others calls. */
#define CPU_SLAB_COUNTERS(COUNTER)                                                                 \
	COUNTER(alloc_fastpath)		 /* from the CPU slab's freelist */                        \
	COUNTER(alloc_slowpath)		 /* not so */                                              \
	COUNTER(free_fastpath)		 /* onto the CPU slab's freelist */                        \
	COUNTER(free_slowpath)		 /* onto the slab's own freelist */                        \
	COUNTER(free_frozen)		 /* of these: while some CPU held the slab */              \
	COUNTER(alloc_refill)		 /* the CPU slab took over its own freelist */             \
	COUNTER(alloc_from_partial)	 /* a CPU slab came from a node */                         \
	COUNTER(alloc_slab)		 /* a CPU slab came from the page layer */                 \
	COUNTER(free_slab)		 /* an empty slab returned there, other than by trim */    \
	COUNTER(free_add_partial)	 /* a slab came onto a node's list */                      \
	COUNTER(free_remove_partial)	 /* left it because it was empty */                        \
	COUNTER(deactivate_full)	 /* a held slab was released without a free object */      \
	COUNTER(deactivate_bypass)	 /* an exhausted CPU slab was released, on alloc */        \
	COUNTER(deactivate_remote_frees) /* a held slab was released with free objects */          \
	COUNTER(cpu_partial_alloc)	 /* a CPU slab came from the CPU's list */                 \
	COUNTER(cpu_partial_free)	 /* a slab came there by its first free */                 \
	COUNTER(cpu_partial_node)	 /* or from a node, together with a CPU slab */            \
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

/* Make a cache for objects of this size, which is never destroyed; NULL if there is no memory. */
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

/* Return what the CPUs hold, and empty slabs. Returns the number of slabs that are left. */
unsigned int cpu_slab_trim(struct cpu_slab *cache);

uint64_t cpu_slab_counter(struct cpu_slab *cache, enum cpu_slab_counter counter);

#endif
