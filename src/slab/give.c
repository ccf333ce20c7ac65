/* SPDX-License-Identifier: MIT */
/*
 * Returns objects to their slabs. Bits of neighbours in one word are set together, and neighbours
 * of one slab are subtracted together. Slabs that must be listed, or may have become empty, are
 * collected, so that several need the lock of their node once. No object is read or written.
 *
 * A wrong pointer is found here at the latest: a pointer that is in no slab, in another cache's
 * slab, or not at an object's first byte is reported (wrong.c) and ignored. So is an object that is
 * already free.
 */
#include "os/assert.h"
#include "os/atomic.h"
#include "slab/drain_marks.h"
#include "slab/partial.h"
#include "slab/slab.h"
#include "slab/stat.h"

#define ASK_AHEAD 8 /* descriptors and bits of objects are prefetched this far ahead */

/* The index of the object that begins at this distance from the first one; SLAB_NO_OBJECT: there is
 * none. */
static inline unsigned int index_at(const struct slab_cache *cache, size_t offset)
{
	size_t index = offset * cache->reciprocal >> 32;

	return index * cache->size == offset ? (unsigned int)index : SLAB_NO_OBJECT;
}

unsigned int slab_index(const struct slab_cache *cache, const struct slab *slab, const void *object)
{
	unsigned int index =
		index_at(cache, (size_t)((const char *)object - slab_object(cache, slab, 0)));
	unsigned int objects = slab_order_of(cache, os_load_relaxed(&slab->state)).objects;

	return index < objects ? index : SLAB_NO_OBJECT;
}

/*
 * Objects of one slab that are being returned: n in all; the bits of the last word are yet to be
 * set.
 */
struct group {
	struct slab *slab;
	char *start;
	size_t bytes; /* from there, of all the slab's objects */
	unsigned int objects, word, n;
	uint64_t bits;
};

static OS_NOINLINE void leave_out_doubles(struct slab_cache *cache, struct group *group,
					  uint64_t bits, const char *call)
{
	for (; bits; bits &= bits - 1, group->n--) {
		unsigned int index = group->word * 64 + (unsigned int)__builtin_ctzll(bits);

		slab_report_double(cache, slab_object(cache, group->slab, index), call);
	}
}

static void set_bits(struct slab_cache *cache, struct group *group, const char *call)
{
	uint64_t before;

	if (!group->bits)
		return;
	/* SLAB-B1 */
	os_assert(group->word * 64 + 63 - (unsigned int)__builtin_clzll(group->bits) <
		  group->objects);
	before = os_fetch_or(slab_words(cache, group->slab) + group->word, group->bits);
	if (os_unlikely(before & group->bits))
		leave_out_doubles(cache, group, before & group->bits, call);
	group->bits = 0;
}

/* What a subtraction leaves to do. */
enum left {
	NOTHING_LEFT,
	LEFT_TO_LIST,  /* the slab was full, and this thread is its holder now (SLAB-B4) */
	LEFT_AS_EMPTY, /* a listed slab became empty */
	LEFT_UNDONE    /* it would have (MAY_NOT_EMPTY, SLAB-B6) */
};
#define MAY_NOT_EMPTY UINT64_MAX

/* Subtract n. A listed slab that becomes empty gets this flag. */
static inline enum left subtract(struct slab_cache *cache, struct slab *slab, unsigned int n,
				 uint64_t flag)
{
	uint64_t state = os_load_acquire(&slab->state), changed;
	enum left left;

	do {
		/* Only an object with two owners can bring it below zero, or empty it twice. */
		changed = state - (n < slab_inuse(state) ? n : slab_inuse(state));
		left = NOTHING_LEFT;
		if (state & SLAB_LISTED && !slab_inuse(changed) && !(state & SLAB_UNUSED)) {
			if (flag == MAY_NOT_EMPTY)
				return LEFT_UNDONE;
			changed |= flag;
			left = LEFT_AS_EMPTY;
		} else if (!(state & (SLAB_LISTED | SLAB_HELD)) && slab_free(cache, changed)) {
			changed |= SLAB_HELD;
			left = LEFT_TO_LIST;
		}
	} while (!stat_cmpxchg(cache, slab, &state, changed));
	return left;
}

/*
 * Slabs of one node that need its lock. Those that this thread holds will be listed. The others are
 * listed, and may lose their last object: their bits are set, and the count is still to be changed.
 */
#define MOST_WAITING 16 /* limits how long the lock is held */
_Static_assert(MOST_WAITING <= SLAB_STEP, "SLAB-B10");

struct waiting {
	struct slab_node *node;
	unsigned int n;
	struct {
		struct slab *slab;
		unsigned int last; /* objects to subtract; 0: list the slab */
	} at[MOST_WAITING];
};

/* See partial.h, for which slabs come first. */
static bool list_given(struct slab_cache *cache, struct slab_node *node, struct slab *slab)
{
	bool first = node->ahead > 0;

	node->ahead -= first;
	stat_add(cache, STAT_free_add_partial, 1);
	return partial_list(cache, node, slab, first);
}

/*
 * The exchange that empties a listed slab is made under its node's lock: before it, the slab cannot
 * go away, because it has an object of this thread; after it, no other thread can decide about it.
 * Returns false if the slab must be given back.
 */
static inline bool subtract_last(struct slab_cache *cache, struct slab_node *node,
				 struct slab *slab, unsigned int n)
{
	bool surplus = node->nr_partial - 1 >= os_load_relaxed(&cache->min_partial);
	enum left left = subtract(cache, slab, n, surplus ? 0 : SLAB_UNUSED);

	if (left == LEFT_TO_LIST)
		return list_given(cache, node, slab);
	if (left == NOTHING_LEFT)
		return true;
	if (surplus)
		partial_remove(node, slab);
	else
		partial_unused(node, slab);
	return !surplus;
}

/* With the node's lock held: what a slab needs, as in struct waiting. Returns false if it must be
 * given back. */
static inline bool settle_slab(struct slab_cache *cache, struct slab_node *node, struct slab *slab,
			       unsigned int last)
{
	return last ? subtract_last(cache, node, slab, last) : list_given(cache, node, slab);
}

static void settle_all(struct slab_cache *cache, struct waiting *waiting)
{
	struct slab_node *node = waiting->node;
	unsigned int gone = 0;

	if (!waiting->n)
		return;
	os_lock(&node->lock);
	for (unsigned int i = 0; i < waiting->n; i++) {
		struct slab *slab = waiting->at[i].slab;

		if (!settle_slab(cache, node, slab, waiting->at[i].last))
			waiting->at[gone++].slab = slab;
	}
	os_unlock(&node->lock);
	stat_add(cache, STAT_free_remove_partial, gone);
	for (unsigned int i = 0; i < gone; i++)
		slab_discard(cache, waiting->at[i].slab);
	waiting->n = 0;
}

static void add_waiting(struct slab_cache *cache, struct waiting *waiting, struct slab *slab,
			unsigned int last)
{
	struct slab_node *node = partial_node_of(cache, slab);

	if (waiting->n == MOST_WAITING || (waiting->n && waiting->node != node))
		settle_all(cache, waiting);
	waiting->node = node;
	waiting->at[waiting->n].slab = slab;
	waiting->at[waiting->n++].last = last;
}

static void close_group(struct slab_cache *cache, struct group *group, struct waiting *waiting,
			const char *call)
{
	enum left left;

	set_bits(cache, group, call);
	left = group->n ? subtract(cache, group->slab, group->n, MAY_NOT_EMPTY) : NOTHING_LEFT;
	if (left != NOTHING_LEFT)
		add_waiting(cache, waiting, group->slab, left == LEFT_TO_LIST ? 0 : group->n);
}

/* The address where the slab of this object begins, if it has the cache's preferred order: runs are
 * aligned to their size. */
static inline const char *run_of(const struct slab_cache *cache, const void *object)
{
	size_t size = OS_PAGE << cache->oo.order;

	return (const char *)object - ((uintptr_t)object & (size - 1));
}

/*
 * The object's slab, or NULL. In a random order each descriptor is a line from far away, and those
 * of a slab's other pages are in further lines, so they are not read if all slabs have the
 * preferred order. Otherwise the descriptor at run_of() cannot tell: it may be of a smaller slab
 * beside the object's, which another thread makes or gives back meanwhile.
 */
static struct slab *find_slab(const struct slab_cache *cache, const void *object, bool preferred)
{
	size_t offset = (size_t)(run_of(cache, object) - pages.base);

	if (preferred && offset < os_load_relaxed(&pages.readable)) {
		struct slab *slab = &pages.slabs[offset >> OS_PAGE_SHIFT];

		if (os_load_acquire(&slab->cache) == cache)
			return slab;
	}
	return page_slab(object);
}

/* Begin a group of this object's slab; false after a report. */
static bool open_group(struct slab_cache *cache, struct group *group, void *object, bool preferred,
		       const char *call)
{
	struct slab *slab = find_slab(cache, object, preferred);

	*group = (struct group){.slab = slab};
	if (slab && os_load_relaxed(&slab->cache) == cache) {
		uint64_t state = os_load_relaxed(&slab->state);

		group->start = slab_object(cache, slab, 0);
		group->objects = slab_order_of(cache, state).objects;
		group->bytes = (size_t)group->objects * cache->size;
		if ((size_t)((char *)object - group->start) < group->bytes)
			return true;
	}
	group->bytes = 0;
	slab_report_wrong(cache, object, call);
	return false;
}

/* How many objects from the first one on lie `step` bytes apart, at most max. */
static inline unsigned int neighbours(void *const *objects, size_t step, unsigned int max)
{
	size_t next = (size_t)objects[0] + step;
	unsigned int n = 1;

	while (n < max && (size_t)objects[n] == next) {
		next += step;
		n++;
	}
	return n;
}

/*
 * Add objects of the group's slab: the first one of n and those that follow as its neighbours,
 * upwards or downwards, with their bits in the same word. Returns their number.
 */
static inline unsigned int add_neighbours(struct slab_cache *cache, struct group *group,
					  void *const *objects, unsigned int n, const char *call)
{
	unsigned int index = index_at(cache, (size_t)((char *)objects[0] - group->start)),
		     bit = index % 64, max, run = 1;
	size_t step = n > 1 ? (size_t)objects[1] - (size_t)objects[0] : 0;
	uint64_t bits;

	if (os_unlikely(index == SLAB_NO_OBJECT)) {
		slab_report_wrong(cache, objects[0], call);
		return 1;
	}
	if (step == cache->size) {
		max = group->objects - index < 64 - bit ? group->objects - index : 64 - bit;
		run = neighbours(objects, step, max < n ? max : n);
	} else if (step == -(size_t)cache->size) {
		run = neighbours(objects, step, bit < n ? bit + 1 : n);
		bit -= run - 1;
	}
	bits = ~UINT64_C(0) >> (64 - run) << bit;
	if (index / 64 != group->word) {
		set_bits(cache, group, call);
		group->word = index / 64;
	}
	/* One of them is here twice: each by itself. */
	if (os_unlikely(group->bits & bits)) {
		run = 1;
		bits = UINT64_C(1) << index % 64;
		if (group->bits & bits) {
			slab_report_double(cache, objects[0], call);
			return 1;
		}
	}
	group->bits |= bits;
	group->n += run;
	return run;
}

static OS_NOINLINE void give_many(struct slab_cache *cache, void *const *objects, unsigned int n,
				  const char *call)
{
	/* Have all slabs of these objects this order? Slabs that are made later do not matter. */
	bool preferred = !os_load_relaxed(&slab_rest(cache)->has_small);
	struct group group = {0};
	struct waiting waiting;

	waiting.n = 0;
	for (unsigned int i = 0, run; i < n; i += run) {
		run = 1;
		/* By hand: as a function, compilers see no effect in it and leave it out. */
		if (i + ASK_AHEAD < n &&
		    (size_t)((char *)objects[i + ASK_AHEAD] - group.start) >= group.bytes) {
			const char *slab = run_of(cache, objects[i + ASK_AHEAD]);

			page_ask_ahead(slab);
			if (cache->oo.objects > 64)
				page_ask_words_ahead(slab);
		}
		if ((size_t)((char *)objects[i] - group.start) >= group.bytes) {
			close_group(cache, &group, &waiting, call);
			if (!open_group(cache, &group, objects[i], preferred, call))
				continue;
		}
		run = add_neighbours(cache, &group, objects + i, n - i, call);
	}
	close_group(cache, &group, &waiting, call);
	settle_all(cache, &waiting);
}

static OS_NOINLINE void settle_one(struct slab_cache *cache, struct slab *slab, unsigned int last)
{
	struct slab_node *node = partial_node_of(cache, slab);
	bool stays;

	os_lock(&node->lock);
	stays = settle_slab(cache, node, slab, last);
	os_unlock(&node->lock);
	if (stays)
		return;
	stat_add(cache, STAT_free_remove_partial, 1);
	slab_discard(cache, slab);
}

/* Set the bit of one object. Returns its slab, or NULL after a report. */
static inline struct slab *set_bit_of(struct slab_cache *cache, void *object, const char *call)
{
	struct slab *slab = page_slab(object);
	unsigned int index = SLAB_NO_OBJECT;
	uint64_t bit;

	if (slab && os_load_relaxed(&slab->cache) == cache)
		index = slab_index(cache, slab, object);
	if (os_unlikely(index == SLAB_NO_OBJECT)) {
		slab_report_wrong(cache, object, call);
		return NULL;
	}
	bit = UINT64_C(1) << index % 64;
	if (os_unlikely(os_fetch_or(slab_words(cache, slab) + index / 64, bit) & bit)) {
		slab_report_double(cache, object, call);
		return NULL;
	}
	return slab;
}

void slab_give(struct slab_cache *cache, void *const *objects, unsigned int n, const char *call)
{
	struct slab *slab;
	enum left left;

	if (n != 1) {
		give_many(cache, objects, n, call);
		return;
	}
	slab = set_bit_of(cache, objects[0], call);
	left = slab ? subtract(cache, slab, 1, MAY_NOT_EMPTY) : NOTHING_LEFT;
	if (left != NOTHING_LEFT)
		settle_one(cache, slab, left == LEFT_UNDONE);
}

void slab_list_or_defer(struct slab_cache *cache, struct slab *slab, bool first)
{
	struct slab_node *node = partial_node_of(cache, slab);

	if (!os_trylock(&node->lock)) {
		slab_defer(cache, slab);
		return;
	}
	partial_add(node, slab, first);
	os_unlock(&node->lock);
}

/* A listed slab's last object. The slab stays listed, even if the node has enough others: its pages
 * cannot return without waiting. */
static OS_NOINLINE enum left give_last_nolock(struct slab_cache *cache, struct slab *slab)
{
	struct slab_node *node = partial_node_of(cache, slab);
	bool locked = os_trylock(&node->lock);
	enum left left;

	if (!locked)
		slab_begin_mark(cache);
	left = subtract(cache, slab, 1, locked ? SLAB_UNUSED : 0);
	if (left == LEFT_AS_EMPTY && locked)
		partial_unused(node, slab);
	else if (left == LEFT_AS_EMPTY)
		partial_stray(cache, node, slab);
	if (locked)
		os_unlock(&node->lock);
	else
		slab_end_mark();
	return left;
}

void slab_give_nolock(struct slab_cache *cache, void *object, const char *call)
{
	struct slab *slab = set_bit_of(cache, object, call);
	enum left left = slab ? subtract(cache, slab, 1, MAY_NOT_EMPTY) : NOTHING_LEFT;

	if (left == LEFT_UNDONE)
		left = give_last_nolock(cache, slab);
	if (left != LEFT_TO_LIST)
		return;
	stat_add(cache, STAT_free_add_partial, 1);
	slab_list_or_defer(cache, slab, false);
}
