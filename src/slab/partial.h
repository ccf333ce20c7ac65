/* SPDX-License-Identifier: MIT */
/*
 * A node's list of partial slabs, which ends with the empty ones (SLAB-B9):
 *
 *   first --> partial <--> ... <--> partial <--> UNUSED <--> ... <--> UNUSED <-- last
 *                                                ^-- unused
 *
 * A slab that becomes empty is usually the first of them from then on: the next one to be taken
 * from, if partial ones do not suffice.
 *
 * A slab that was full goes last, so that many of its objects are free when its turn comes: then a
 * refill needs few slabs. After a shrink memory is worth more than that: as many of them as the
 * node has slabs (`ahead`) go first. Then nearly full slabs are filled up, and those with few
 * objects in use are left alone until they are empty.
 *
 * Callers: src/slab/ only.
 */
#ifndef SHEAF_SLAB_PARTIAL_H
#define SHEAF_SLAB_PARTIAL_H

#include "slab/slab.h"

/* Links count descriptors from the one of the node's first page. */
static inline uint32_t partial_link(const struct slab_node *node, const struct slab *slab)
{
	return slab ? (uint32_t)(slab - node->base) : SLAB_NONE;
}

static inline struct slab *partial_slab(const struct slab_node *node, uint32_t link)
{
	return link == SLAB_NONE ? NULL : node->base + link;
}

/* All page descriptors of the node, of slabs of any cache; returns their number. */
static inline size_t partial_slabs(const struct slab_node *node, struct slab **first)
{
	return page_slabs(page_node(page_address(node->base)), first);
}

/* The node's part of the cache, made when it is first needed. NULL: out of memory. */
struct slab_node *partial_node(struct slab_cache *cache, unsigned int node);
struct slab_node *partial_node_of(struct slab_cache *cache, const struct slab *slab);

/* With the node's lock held: put a held slab on the list, or take a listed slab off and hold it.
 * The last place is before the empty ones, unless the slab is empty itself. */
void partial_add(struct slab_node *node, struct slab *slab, bool first);
void partial_remove(struct slab_node *node, struct slab *slab);

/* With the node's lock held: objects are taken from an empty slab that stays listed. The caller
 * then clears UNUSED. */
void partial_used(struct slab_node *node, struct slab *slab);
/* With the node's lock held: a listed slab became empty, and stays, as the first of the empty ones.
 * The caller has set UNUSED. */
void partial_unused(struct slab_node *node, struct slab *slab);
/* With the node's lock held: detach up to SLAB_STEP empty slabs. Returns them linked, held. */
struct slab *partial_detach_unused(struct slab_cache *cache, struct slab_node *node);

/*
 * A nolock free emptied a slab of this node while another thread had the lock. One such slab is
 * remembered until a thread looks for empty ones; if there are more, that thread visits all slabs
 * of the node, with partial_find_strays(). Without `wait`, a later call finds those that another
 * thread's lock keeps from this one.
 */
#define PARTIAL_STRAYS (SLAB_NONE - 1)
void partial_stray(struct slab_cache *cache, struct slab_node *node, struct slab *slab);
void partial_find_strays(struct slab_cache *cache, struct slab_node *node, bool wait);

/*
 * With the node's lock held: detach slabs with *count free objects in all, at most n, and at most
 * SLAB_STEP slabs; or one slab of a cache that prepares its objects. Returns them linked, held, or
 * NULL.
 */
struct slab *partial_detach(struct slab_cache *cache, struct slab_node *node, unsigned int n,
			    unsigned int *count);

/*
 * Add the taken objects to a held slab's state, and let the slab go if it is full now: then it
 * belongs to the first thread that frees into it (SLAB-B4). False: it has free objects, and is
 * still held.
 */
bool partial_let_go(struct slab_cache *cache, struct slab *slab, uint64_t taken);

/*
 * Let go of a held slab that is not full: list it, or return it to the page layer if it is empty
 * and the node has enough others.
 */
void partial_release(struct slab_cache *cache, struct slab *slab, bool first);

/* Without waiting: list a held slab that is not full if no thread has the node's lock, else leave
 * that to a later call. In give.c. */
void slab_list_or_defer(struct slab_cache *cache, struct slab *slab, bool first);

/* As partial_release(), with the node's lock held. False: the caller must return the slab, which is
 * on no list, to the page layer. */
bool partial_list(const struct slab_cache *cache, struct slab_node *node, struct slab *slab,
		  bool first);

/*
 * --- pages.c -----------------------------------------------------------------------------------
 *
 * The beginning and the end of a slab: it is made of pages, and its pages return to the page layer.
 * Statistics, tools and marks learn of both there. No lock is held.
 */

/*
 * Slabs for one refill: their pages are taken together, so that many CPUs that need memory at the
 * same time seldom wait for each other. With half, they meet at the lock twice as often; double was
 * not measured.
 */
#define SLAB_RUNS 8

struct slab_runs {
	bool nowait;	      /* one run, by try-lock; the node's part is there */
	unsigned int wanted;  /* by this refill, still */
	unsigned int next, n; /* here, from the next one on: by address, if memory is fresh */
	struct slab *run[SLAB_RUNS];
};

/* A new, held slab on this node, whose objects are all free. NULL: no memory. */
struct slab *slab_make(struct slab_cache *cache, unsigned int node, struct slab_runs *runs);
/* Pages that were not needed. */
void slab_return_runs(const struct slab_cache *cache, struct slab_runs *runs);

/* Return the pages of a slab that is on no list, after a grace period if the cache needs that. */
void slab_discard(struct slab_cache *cache, struct slab *slab);
void slab_discard_now(struct slab_cache *cache, struct slab *slab);

#endif
