/* SPDX-License-Identifier: MIT */
/* Shared by the files of the baseline: a cache's handle, and the tiers behind a CPU's freelist. */
#ifndef BENCH_CPU_SLAB_INTERNAL_H
#define BENCH_CPU_SLAB_INTERNAL_H

#include "cpu_slab.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/section.h"
#include "slab/slab.h"

struct cpu_slab_counts {
	uint64_t of[CPU_SLAB_NR_COUNTERS];
	uint64_t unused[32 - CPU_SLAB_NR_COUNTERS]; /* CPUs share no line */
};

/*
 * A state with the library's count and flags, and a freelist: head is the index of its first
 * object; fresh is the number of objects, from the first one on, that were ever taken.
 */
#define NO_OBJECT 0xffffu
#define STATE(head, inuse, fresh)                                                                  \
	((uint64_t)(inuse) | (uint64_t)(head) << 24 | (uint64_t)(fresh) << 40)

static inline unsigned int head_of(uint64_t state)
{
	return (uint16_t)(state >> 24);
}

static inline unsigned int fresh_of(uint64_t state)
{
	return (uint16_t)(state >> 40);
}

/* In row 0 of the cache's rows; its slot of CPU n is where os/section.h says. */
struct cpu_slab_cache {
	struct cpu_slab calls;
	uintptr_t mask;	 /* of the address bits within a slab */
	uintptr_t slabs; /* where the slab of address 0 would be */
	struct slab_cache slab;
	uint32_t cpu_partial_slabs;	/* on a CPU's list, at most */
	uint32_t deferred;		/* new slabs are linked as needed */
	struct cpu_slab_counts *counts; /* one for each row, or NULL */
};

_Static_assert(sizeof(struct cpu_slab_cache) <= 1u << SLOT_SHIFT, "a cache fits its handle");

static inline struct cpu_slab_cache *cache_of(struct cpu_slab *cache)
{
	return (struct cpu_slab_cache *)cache;
}

static inline void count(struct cpu_slab_cache *c, enum cpu_slab_counter counter, unsigned int n)
{
	if (__builtin_expect(c->counts != NULL, 0))
		os_fetch_add_relaxed(&c->counts[os_row()].of[counter], n);
}

/* The slab that contains an object of the cache: slabs are aligned to their size. */
static inline struct slab *slab_of(const struct cpu_slab_cache *c, const void *object)
{
	uintptr_t base = (uintptr_t)object & ~c->mask;

	return (struct slab *)(c->slabs + (base >> OS_PAGE_SHIFT) * sizeof(struct slab));
}

/* Take objects when the CPU's freelist has none: up to max; 0 if there is no memory. */
unsigned int tiers_alloc(struct cpu_slab_cache *c, void **objects, unsigned int max);
/* Free an object of a slab that is not this CPU's; the cache is not counted. */
void tiers_free_one(struct cpu_slab *cache, void *object);
/* Free n such objects of any cache, all of one slab, linked from object to tail. */
void tiers_free(struct cpu_slab_cache *c, void *object, void *tail, unsigned int n);

/* Put a held slab on this CPU's partial list. */
void tiers_put_partial(struct cpu_slab_cache *c, struct slab *slab);
/* A held slab and its freelist, the old HEAD, are no CPU's any more: put it there, unless it is
 * full. */
void tiers_let_go(struct cpu_slab_cache *c, struct slab *slab, uintptr_t head);
/* Return a CPU's partial list to the nodes, and its empty slabs to the page layer. */
void tiers_free_list(struct cpu_slab_cache *c, struct slab *list);

#endif
