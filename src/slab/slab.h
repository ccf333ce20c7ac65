/* SPDX-License-Identifier: MIT */
/*
 * Slabs: a run of pages cut into objects of one cache, and each node's list of partial slabs.
 *
 * A slab has a bit for each object, which is set while the object is free: in its descriptor if
 * there are at most 64, else in the page layer's table of words. Objects hold no link, and neither
 * a free nor a refill reads or writes one. All else that changes in a slab is one word, the state:
 *
 *   63    56 55    34 33        24 23          0
 *   | flags  | unused | constructed | in use   |
 *
 * in use: objects that are not free, or whose bit is set but which are not yet subtracted.
 * constructed: words of bits, in the slab's order, whose objects were constructed.
 * flags: on its node's list (LISTED), among the empty ones there (UNUSED), owned by one thread
 *   (HELD), of the fallback order (SMALL), with an array of owners (OWNED, owner.h). Three bits are
 *   unused.
 *
 * A slab is listed, or held, or neither: then it is full.
 *
 * Invariants
 *  SLAB-B1. Any thread may set the bit of an object that it owns. Only the holder clears bits: the
 *      thread that set HELD, or the owner of the node's lock while LISTED. Bits beyond the last
 *      object are never set.
 *  SLAB-B2. A thread that gives objects sets their bits, and then subtracts. A thread that takes
 *      objects clears their bits, and then adds, before it releases the slab. So `in use` may be
 *      too high by the objects given and not yet subtracted. It is too low only between the
 *      holder's two steps, and then no other thread decides anything by it.
 *  SLAB-B3. `in use` alone decides whether a slab is full (it is the number of objects, or more) or
 *      empty (it is zero). At zero no thread is between the two steps of a give, and all bits are
 *      set.
 *  SLAB-B4. A slab that is neither LISTED nor HELD is full. The thread whose subtraction ends that
 *      becomes the slab's holder by the same exchange, and lists it.
 *  SLAB-B5. LISTED changes only under the lock of the slab's node. HELD is given up by an exchange
 *      of the state that was seen.
 *  SLAB-B6. The last object of a listed slab is given under the node's lock, unless the thread that
 *      gives it does not access the slab afterwards (nolock). Only the thread that holds a slab
 *      returns it to the page layer, when `in use` is zero.
 *  SLAB-B7. A constructor, or its substitute in a layer above, runs once per object, with no lock
 *      and no slab held. The first thread that takes from a word takes all of its objects, prepares
 *      them, and returns those that it does not need.
 *  SLAB-B8. The `before` bytes in front of each object, and the bytes from its end up to those of
 *      the next object, belong to the layer above. This layer does not touch them. Argued: only
 *      checked caches have such bytes, and check them.
 *  SLAB-B9. UNUSED changes only under the lock of the slab's node. The slabs that have it are
 *      empty, and are the last `nr_unused` of the list, from `unused` on; so they are taken last,
 *      and found without a search. Every other listed slab has an object in use, except those that
 *      a nolock free emptied while another thread had the lock, to which `stray` leads.
 *  SLAB-B10. However many slabs there are, a thread visits at most SLAB_STEP of them each time that
 *      it takes a node's lock.
 *
 * Two schedules that show why one exchange must both subtract and decide the flags (SLAB-B4,
 * SLAB-B6). If the threads only subtracted and looked afterwards:
 *
 *   two givers, a full slab                   a giver, a listed slab
 *     set bit a                                 set bit, subtract: zero
 *               set bit b                                 lock, find it empty, give it back, unlock
 *     subtract                                  another cache makes a slab of these pages
 *               subtract                        lock, find it empty ...
 *     both see "neither", both list it
 *
 * Locks: OS_RANK_NODE, one for each cache and node; of other nodes by try-lock only,
 *   unless no node has memory left.
 * Progress: a free is lock-free unless the slab was full or becomes empty; a nolock free always is.
 * Callers: src/percpu/ (refill and flush), src/cache/ (objects without sheaves).
 */
#ifndef SHEAF_SLAB_SLAB_H
#define SHEAF_SLAB_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/lock.h"
#include "os/machine.h"
#include "page/page.h"

#define SLAB_NO_OBJECT	 0xffffu
#define SLAB_MAX_OBJECTS 0x7fffu

#define SLAB_COUNT_BITS	      24
#define SLAB_WORD_CONSTRUCTED (UINT64_C(1) << SLAB_COUNT_BITS)
#define SLAB_LISTED	      (UINT64_C(1) << 56)
#define SLAB_HELD	      (UINT64_C(1) << 57)
#define SLAB_SMALL	      (UINT64_C(1) << 58)
#define SLAB_OWNED	      (UINT64_C(1) << 59)
#define SLAB_UNUSED	      (UINT64_C(1) << 60)
#define SLAB_FLAGS	      (SLAB_LISTED | SLAB_HELD | SLAB_UNUSED) /* where it is */

/* Half: a shrink takes the lock twice as often; double: others wait twice as long for it. */
#define SLAB_STEP 64

/* A node with this many pages (1 GiB) is searched in a millisecond. */
#define SLAB_SEARCH_MOST ((size_t)1 << 18)

/* Order of a slab in pages, and how many objects it holds. */
struct slab_order {
	uint16_t order;
	uint16_t objects;
};

struct slab_node {
	struct os_lock lock;
	uint32_t nr_partial;
	uint32_t nr_slabs;
	uint32_t locked_by_fork;
	/* Links: see partial.h. `unused` is the first of the empty slabs, which end the list. */
	uint32_t first, last, unused;
	struct slab *base; /* the descriptor that links count from */
	uint64_t bytes;	   /* of its slabs */
	uint32_t nr_unused;
	uint32_t deferred; /* held slabs that are not yet listed: see drain_marks.h */
	uint32_t stray;	   /* see partial.h */
	uint32_t ahead;	   /* slabs that are listed first: see partial.h */
};

_Static_assert(sizeof(struct slab_node) == 64, "nodes do not share a line");

struct slab_cache {
	uint32_t size;	      /* bytes from object to object */
	uint32_t object_size; /* requested bytes */
	uint32_t align;
	uint32_t reciprocal;   /* of size, scaled by 2^32, rounded up */
	uint16_t min_partial;  /* may change while the cache is in use */
	uint16_t marks;	       /* where free objects may be: see drain_marks.h */
	struct slab_order oo;  /* preferred */
	struct slab_order min; /* fallback */
	uint32_t first;	       /* offset in a slab of its first object: 0 if nothing precedes it */
	uint64_t random; /* 0: objects are handed out in order; else their order depends on this */
	void (*ctor)(void *object);
	struct slab_extra *extra; /* NULL, or what a layer above has in each slab */
	const char *name;
	void *counted;		  /* the handle that counts its events, or NULL */
	struct slab_node **nodes; /* os.nr_nodes of them, NULL until used; then slab_rest() */
	struct grace_list
		*late; /* NULL, or empty slabs wait for a grace period: see rcu_free_slab.h */
};

/* Behind the nodes, because a handle is full (cache/cache.h). */
struct slab_rest {
	size_t limit;	    /* the most bytes of the slabs of all nodes; 0: no limit */
	uint32_t secret;    /* SLAB_SECRET */
	uint32_t reported;  /* that a slab was not locked */
	uint64_t failures;  /* allocations that failed at the limit */
	uint32_t has_small; /* a slab of the fallback order was made at some time */
	uint32_t shrinking; /* threads in kmem_cache_shrink(): pages return immediately */
	/* Of the layers above. */
	uint32_t usersize;   /* bytes that may be copied to users */
	uint32_t set_by;     /* who set what: cache/sizes.h */
	uint32_t barn_empty; /* empty sheaves that a pass leaves in a node's barn; 0: no limit */
};

static inline struct slab_rest *slab_rest(const struct slab_cache *cache)
{
	return (struct slab_rest *)&cache->nodes[os.nr_nodes];
}

/* The next node's part of the cache, from number *next on; NULL: there is no more. */
static inline struct slab_node *slab_next_node(const struct slab_cache *cache, uint32_t *next)
{
	struct slab_node *node = NULL;

	while (!node && *next < os.nr_nodes)
		node = os_load_acquire(&cache->nodes[(*next)++]);
	return node;
}
#define slab_for_each_node(cache, node)                                                            \
	for (uint32_t node##_next = 0; ((node) = slab_next_node((cache), &node##_next)) != NULL;)

/* The bytes of the slabs of all nodes, which the limit counts. O(nodes). In pages.c. */
size_t slab_held_bytes(const struct slab_cache *cache);

/* From a layer above, which keeps it as long as the cache exists. */
struct slab_extra {
	uint32_t before, after; /* bytes around each object, at least (SLAB-B8) */
	/* Runs once per object (SLAB-B7), in place of the constructor, which it calls. Until then
	 * the object and the bytes around it are closed (os/memory_tools.h). */
	void (*prepare)(const struct slab_cache *cache, void *object);
};

/* A request for a layout; offsets and sizes in bytes. */
struct slab_request {
	const char *name;
	uint32_t object_size, align;
	void (*ctor)(void *object);
	struct slab_extra *extra; /* or NULL */
	bool fill;		  /* slabs of few objects may be larger than the kernel's */
	bool secret;		  /* SLAB_SECRET */
};

/*
 * --- layout.c ----------------------------------------------------------------------------------
 */

/* Slabs of objects of at most 128 bytes have 2^N pages at least, except with slub_tiny. Set before
 * there are caches. */
extern uint32_t slab_small_order;
/* Lay the cache out. False if there is no memory. */
bool slab_cache_init(struct slab_cache *cache, const struct slab_request *request);
/* Release what slab_cache_init() took. No slab may be left. */
void slab_cache_exit(struct slab_cache *cache);

/* Which nodes may serve an allocation. */
enum slab_place {
	SLAB_PREFER_NODE, /* that node's slabs, those that others can spare, new ones there, any */
	SLAB_NEAR_NODE,	  /* the same, but never new ones elsewhere */
	SLAB_WANT_NODE,	  /* that node's slabs, new ones there, then any */
	SLAB_THIS_NODE,	  /* that node only */
};

/*
 * --- take.c ------------------------------------------------------------------------------------
 */

/*
 * Take n objects out of slabs. Returns their number; if it is less than n, memory is out, and the
 * caller keeps or returns the objects.
 */
unsigned int slab_take(struct slab_cache *cache, unsigned int node, enum slab_place place,
		       void **objects, unsigned int n);

/*
 * Take one object, constructed if the cache has a constructor, from a listed slab of this node.
 * False: there is none, or another thread has the node's lock.
 */
bool slab_take_try(struct slab_cache *cache, unsigned int node, void **object);
/* The same from a new slab. False also if another thread has the lock of the node's pages, and if
 * the cache prepares its objects, locks its pages in memory, or never had a slab on this node. */
bool slab_take_new_try(struct slab_cache *cache, unsigned int node, void **object);

/* Was this object ever prepared for use, by a constructor or by a layer above? */
bool slab_is_prepared(const struct slab_cache *cache, const struct slab *slab, unsigned int index);

/*
 * --- give.c ------------------------------------------------------------------------------------
 */

/*
 * Return objects to their slabs. Pointers that are not objects of this cache, or are free already,
 * are reported with the name `call`.
 */
void slab_give(struct slab_cache *cache, void *const *objects, unsigned int n, const char *call);

/* Return one object without waiting: if the node's lock is held, a later call lists the slab
 * (drain_marks.h). */
void slab_give_nolock(struct slab_cache *cache, void *object, const char *call);

/* Index of an object in its slab; SLAB_NO_OBJECT if the address is not an object's first byte. */
unsigned int slab_index(const struct slab_cache *cache, const struct slab *slab,
			const void *object);

/*
 * --- wrong.c -----------------------------------------------------------------------------------
 */

/*
 * Report and leave out those of the last `newest` of n objects that do not belong to this cache;
 * returns how many are left. Checks only the pages' owners: slab_give() checks everything.
 */
unsigned int slab_leave_out_foreign(struct slab_cache *cache, void **objects, unsigned int n,
				    unsigned int newest, const char *call);

/*
 * Report, later, what is wrong with a pointer that is not an object of this cache; or that an
 * object is free already.
 */
void slab_report_wrong(struct slab_cache *cache, void *object, const char *call) OS_COLD;
void slab_report_double(struct slab_cache *cache, void *object, const char *call) OS_COLD;

/* The object that this address is in, or behind and before the next one; NULL: the slab has none
 * there. */
char *slab_object_around(const struct slab_cache *cache, const struct slab *slab,
			 const void *address);

/*
 * --- shrink.c ----------------------------------------------------------------------------------
 */

/* Free the empty slabs, and clear their mark. Returns the number of slabs left. O(nodes + empty
 * slabs), and O(pages of a node) if several nolock frees left slabs empty while others had its
 * lock. */
unsigned int slab_shrink(struct slab_cache *cache);

/* Free empty slabs without waiting, at most SLAB_STEP of each node: those of locked nodes stay. For
 * a caller that keeps drains away. O(nodes); O(pages) of a node with at most SLAB_SEARCH_MOST if
 * several nolock frees left slabs empty while others had its lock: in larger nodes these wait for
 * slab_shrink(). */
void slab_free_kept(struct slab_cache *cache);
/* How many empty slabs are known. O(nodes). */
unsigned int slab_kept(const struct slab_cache *cache);

/* The number of slabs. O(nodes). */
unsigned int slab_count(const struct slab_cache *cache);

/*
 * --- partial.c ---------------------------------------------------------------------------------
 */

/*
 * In a forked child, by its only thread: a vanished thread has the lock of this node, so the list
 * and the counts of its slabs may be half changed. Make them again from what is whole: the flags
 * and the bits of each slab.
 */
void slab_list_again(struct slab_cache *cache, struct slab_node *node);

/* In a forked child: a vanished thread may have emptied a listed slab of this node and not recorded
 * it. */
void slab_expect_strays(struct slab_cache *cache, struct slab_node *node);

/*
 * --- hold.c ------------------------------------------------------------------------------------
 */

/*
 * Call look(data, slab) for each slab of a cache in use, while the calling thread holds it: others
 * may give objects, but not take any. Returns how many slabs were left out because others held
 * them. Slabs made meanwhile may be left out, too.
 */
typedef void slab_look(void *data, struct slab *slab);
unsigned int slab_for_each_held(struct slab_cache *cache, slab_look *look, void *data);

/*
 * --- a slab's state and bits -------------------------------------------------------------------
 */

static inline struct slab_order slab_order_of(const struct slab_cache *cache, uint64_t state)
{
	return state & SLAB_SMALL ? cache->min : cache->oo;
}

/* The count; SLAB-B2 says how far it may be off. */
static inline unsigned int slab_inuse(uint64_t state)
{
	return (unsigned int)(state & (SLAB_WORD_CONSTRUCTED - 1));
}

static inline unsigned int slab_free(const struct slab_cache *cache, uint64_t state)
{
	unsigned int objects = slab_order_of(cache, state).objects, inuse = slab_inuse(state);

	return inuse < objects ? objects - inuse : 0;
}

static inline unsigned int slab_constructed(uint64_t state)
{
	return (unsigned int)(state >> SLAB_COUNT_BITS) & 0x3ff;
}

static inline unsigned int slab_nr_words(const struct slab_cache *cache, uint64_t state)
{
	return (slab_order_of(cache, state).objects + 63u) / 64;
}

/* The words of bits of a slab of this cache. */
static inline uint64_t *slab_words(const struct slab_cache *cache, struct slab *slab)
{
	return cache->oo.objects <= 64 ? &slab->bits : page_words(slab);
}

/* Is this object free in its slab? What a sheaf holds is not. */
static inline bool slab_has(const struct slab_cache *cache, struct slab *slab, unsigned int index)
{
	return os_load_acquire(slab_words(cache, slab) + index / 64) >> index % 64 & 1;
}

static inline char *slab_object(const struct slab_cache *cache, const struct slab *slab,
				unsigned int index)
{
	return page_address(slab) + cache->first + (size_t)index * cache->size;
}

/* Are the cache's objects prepared before their first use, by a constructor or by a layer above? */
static inline bool slab_prepares(const struct slab_cache *cache)
{
	return cache->ctor || cache->extra;
}

#endif
