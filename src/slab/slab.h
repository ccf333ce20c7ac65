/* SPDX-License-Identifier: MIT */
/*
 * Slabs: a run of pages cut into objects of one cache, and each node's list of partial slabs.
 *
 * All that changes in a slab is one word, changed by 8-byte compare-exchange:
 *
 *   63      48 47      32 31      16 15       0
 *   | flags   | fresh    | in use   | head    |
 *
 * head: index of the freelist's first object, SLAB_NO_OBJECT if empty. Links lie in the objects.
 * fresh: how many objects, in the cache's order, were ever taken: those beyond were never touched
 *   and need no link at all. in use: objects that are neither on the freelist nor fresh.
 *
 * A slab is (flags) on its node's partial list (PARTIAL), detached by one thread (HELD), or full
 * and known to nobody (neither).
 *
 * Invariants
 *  B1. Anyone may add to a freelist. Only the holder takes from it or moves `fresh`: the thread
 *      that set HELD, or who has the node's lock while PARTIAL. Hence no ABA.
 *  B2. PARTIAL changes only under the lock of the slab's node.
 *  B3. Who frees into a full slab becomes its holder in the same exchange, and lists it.
 *  B4. in use + freelist + not yet fresh = objects of the slab.
 *  B5. A constructor runs once per object, when it is first taken, with no lock and no slab
 *      held.
 *
 * Locks: OS_RANK_NODE, one for each cache and node; of other nodes by try-lock only,
 *   unless no node has memory left.
 * Progress: freeing is lock-free unless the slab was full or becomes empty.
 * Callers: src/percpu/ (refill and flush), src/cache/ (objects without sheaves).
 */
#ifndef SHEAF_SLAB_SLAB_H
#define SHEAF_SLAB_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/lock.h"
#include "page/page.h"

#define SLAB_NO_OBJECT	 0xffffu
#define SLAB_MAX_OBJECTS 0x7fffu

#define SLAB_PARTIAL (UINT64_C(1) << 48)
#define SLAB_HELD    (UINT64_C(1) << 49)
#define SLAB_SMALL   (UINT64_C(1) << 50) /* has the fallback order */
#define SLAB_STATE(head, inuse, fresh)                                                             \
	((uint64_t)(head) | (uint64_t)(inuse) << 16 | (uint64_t)(fresh) << 32)

/* Order of a slab in pages, and how many objects it holds. */
struct slab_order {
	uint16_t order;
	uint16_t objects;
};

struct slab_node {
	struct os_lock lock;
	uint32_t nr_partial;
	uint32_t nr_slabs;
	struct slab *first, *last;
	uint32_t locked_by_fork;
	uint32_t unused0;
	void *deferred;	    /* objects that could not be given back at once: see defer.h */
	uint64_t unused[2]; /* nodes do not share a line */
};

struct slab_cache {
	uint32_t size;	      /* bytes from object to object */
	uint32_t object_size; /* bytes the user asked for */
	uint32_t offset;      /* of the free pointer in a free object */
	uint32_t align;
	uint32_t reciprocal; /* of size, scaled by 2^32, rounded up */
	uint16_t min_partial;
	uint16_t deferred;     /* objects may be on a node's list: see defer.h */
	struct slab_order oo;  /* preferred */
	struct slab_order min; /* fallback */
	uint64_t secret;       /* 0: free pointers are stored plain */
	uint16_t *random_seq;  /* NULL: objects are handed out in order */
	void (*ctor)(void *object);
	const char *name;
	void *counted;		  /* the handle its events are counted by, or NULL */
	struct slab_node **nodes; /* os.nr_nodes of them, NULL until used */
	struct grace_list *late;  /* NULL, or empty slabs go back late: see late.h */
};

/* What the layout asks for; offsets and sizes in bytes. */
struct slab_request {
	const char *name;
	uint32_t object_size, align;
	bool use_freeptr_offset; /* put the free pointer at freeptr_offset */
	bool freeptr_outside;	 /* or behind the object; default: in the middle of it */
	uint32_t freeptr_offset;
	void (*ctor)(void *object);
};

/* --- layout.c ---------------------------------------------------------------------------------- */

/* Lay the cache out. False if there is no memory. */
bool slab_cache_init(struct slab_cache *cache, const struct slab_request *request);
/* Release what slab_cache_init() took. No slab may be left. */
void slab_cache_exit(struct slab_cache *cache);

/* --- take.c ------------------------------------------------------------------------------------ */

/* Which nodes may serve an allocation. */
enum slab_place {
	SLAB_PREFER_NODE, /* that node first, then any */
	SLAB_THIS_NODE,	  /* that node only */
};

/* Take n objects out of slabs. Returns how many; fewer: memory is out, and the caller keeps or returns them. */
unsigned int slab_take(struct slab_cache *cache, unsigned int node, enum slab_place place,
		       void **objects, unsigned int n);

/* One object of a listed slab of this node; constructed, if the cache has a constructor. False: there
 * is none, or somebody has the node's lock. */
bool slab_take_try(struct slab_cache *cache, unsigned int node, void **object);

/* The object at this position of the slab's order of first use; SLAB_NO_OBJECT if a slab of the
 * fallback order does not have it. */
unsigned int slab_fresh_index(const struct slab_cache *cache, const struct slab *slab,
			      uint64_t state, unsigned int position);

/* --- give.c ------------------------------------------------------------------------------------ */

/* Put objects back. Those that are no objects of this cache are reported, named by `call`. */
void slab_give(struct slab_cache *cache, void *const *objects, unsigned int n, const char *call);

/*
 * Leave out, after a report, what is another cache's or nobody's among the last `newest` of n objects;
 * returns how many are left. Looks at the pages' owners only: slab_give() looks at everything.
 */
unsigned int slab_leave_out_foreign(struct slab_cache *cache, void **objects, unsigned int n,
				    unsigned int newest, const char *call);

/* Put an object back. False, and nothing done: somebody has the lock of its node, which is needed
 * because its slab was full or becomes empty. A wrong pointer is reported, and left alone. */
bool slab_give_try(struct slab_cache *cache, void *object, const char *call);

/* Index of an object in its slab; SLAB_NO_OBJECT if the address is not an object's first byte. */
unsigned int slab_index(const struct slab_cache *cache, const struct slab *slab,
			const void *object);

/* --- shrink.c ---------------------------------------------------------------------------------- */

/* Free empty slabs, sort the partial ones fullest first. Returns the number of slabs left. */
unsigned int slab_shrink(struct slab_cache *cache);

/* --- a slab's word ----------------------------------------------------------------------------- */

static inline unsigned int slab_head(uint64_t state)
{
	return (uint16_t)state;
}

static inline unsigned int slab_inuse(uint64_t state)
{
	return (uint16_t)(state >> 16);
}

static inline unsigned int slab_fresh(uint64_t state)
{
	return (uint16_t)(state >> 32);
}

static inline struct slab_order slab_order_of(const struct slab_cache *cache, uint64_t state)
{
	return state & SLAB_SMALL ? cache->min : cache->oo;
}

/* Where `fresh` ends: a random order has positions for the preferred order's objects. */
static inline unsigned int slab_fresh_end(const struct slab_cache *cache, uint64_t state)
{
	return cache->random_seq ? cache->oo.objects : slab_order_of(cache, state).objects;
}

static inline bool slab_exhausted(const struct slab_cache *cache, uint64_t state)
{
	return slab_head(state) == SLAB_NO_OBJECT &&
	       slab_fresh(state) == slab_fresh_end(cache, state);
}

static inline char *slab_object(const struct slab_cache *cache, const struct slab *slab,
				unsigned int index)
{
	return page_address(slab) + (size_t)index * cache->size;
}

#endif
