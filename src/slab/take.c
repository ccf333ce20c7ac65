/* SPDX-License-Identifier: MIT */
/*
 * Objects out of slabs: refill. Own node's partial slabs, other nodes' (by try-lock), new slabs.
 *
 * A new slab builds no freelist: its objects are computed addresses, handed out in the cache's
 * order, and what is not handed out is neither linked nor touched (seed: deferred freelist).
 */
#include "os/atomic.h"
#include "os/machine.h"
#include "os/options.h"
#include "os/report.h"
#include "os/tsan.h"
#include "slab/freelist.h"
#include "slab/partial.h"
#include "slab/slab.h"
#include "slab/stat.h"

/* Slabs that are looked at, with the node's lock held, by who cannot construct an object. Fewer: such a call
 * fails more often though there is one; more: others wait for the lock for longer. Not measured. */
#define LOOK_FOR_CONSTRUCTED 8

unsigned int slab_fresh_index(const struct slab_cache *cache, const struct slab *slab,
			      uint64_t state, unsigned int position)
{
	uint64_t mixed = ((uintptr_t)slab ^ cache->secret) * UINT64_C(0x9e3779b97f4a7c15);
	unsigned int index;

	if (!cache->random_seq)
		return position;
	index = cache->random_seq[((mixed >> 32) + position) % cache->oo.objects];
	return index < slab_order_of(cache, state).objects ? index : SLAB_NO_OBJECT;
}

/* Take never used objects of a held slab, from position *fresh on. */
static unsigned int take_fresh(struct slab_cache *cache, struct slab *slab, uint64_t state,
			       unsigned int *fresh, void **objects, unsigned int max)
{
	unsigned int end = slab_fresh_end(cache, state), position = *fresh, n = 0;

	if (!cache->random_seq) {
		char *object = slab_object(cache, slab, position);

		for (; n < max && position < end; position++, object += cache->size)
			objects[n++] = object;
	}
	/* Positions which a small slab does not have must not make it look unexhausted. */
	for (; position < end; position++) {
		unsigned int index = slab_fresh_index(cache, slab, state, position);

		if (index == SLAB_NO_OBJECT)
			continue;
		if (n == max)
			break;
		objects[n++] = slab_object(cache, slab, index);
	}
	*fresh = position;
	return n;
}

static void construct(struct slab_cache *cache, void **objects, unsigned int n)
{
	for (unsigned int i = 0; cache->ctor && i < n; i++) {
		tsan_taken(objects[i]);
		cache->ctor(objects[i]);
		tsan_given(objects[i]);
	}
}

/* Copy up to max objects off the freelist that begins at head; the new head, or a bad link. */
static uint64_t walk(struct slab_cache *cache, struct slab *slab, unsigned int head,
		     unsigned int limit, void **objects, unsigned int max, unsigned int *n)
{
	uint64_t next = head;

	for (*n = 0; *n < max && next < limit; (*n)++) {
		objects[*n] = slab_object(cache, slab, (unsigned int)next);
		next = freelist_next(cache, objects[*n]);
	}
	return next;
}

/* The freelist cannot be trusted from some link on: keep what is in use, forget the rest. */
static void cut_freelist(struct slab_cache *cache, struct slab *slab, uint64_t bad)
{
	uint64_t state = os_load_acquire(&slab->state), cut;

	os_misuse_later(
		cache->name,
		"cache \"%s\": freelist of slab %p corrupted (link %#llx); its free objects are "
		"leaked. The program wrote to an object after it freed it",
		cache->name, (void *)page_address(slab), (unsigned long long)bad);
	do {
		cut = (state & ~UINT64_C(0xffffffffffff)) |
		      SLAB_STATE(SLAB_NO_OBJECT, slab_order_of(cache, state).objects,
				 slab_fresh_end(cache, state));
	} while (!os_cmpxchg(&slab->state, &state, cut));
}

/*
 * Take up to max objects of a held slab: freed ones first, they may be in a processor's cache. The
 * first *constructed of them are; the others were never used.
 */
static unsigned int take_from(struct slab_cache *cache, struct slab *slab, void **objects,
			      unsigned int max, unsigned int *constructed)
{
	uint64_t state = os_load_acquire(&slab->state), changed;
	unsigned int freed, fresh, position;

	do {
		unsigned int limit = slab_order_of(cache, state).objects;
		uint64_t head = walk(cache, slab, slab_head(state), limit, objects, max, &freed);

		if (head >= limit && head != SLAB_NO_OBJECT) {
			cut_freelist(cache, slab, head);
			return 0;
		}
		/* A double free makes a ring, which would be handed out again and again. */
		if (slab_inuse(state) + freed > limit) {
			cut_freelist(cache, slab, head);
			return 0;
		}
		position = slab_fresh(state);
		fresh = take_fresh(cache, slab, state, &position, objects + freed, max - freed);
		changed = (state & ~UINT64_C(0xffffffffffff)) |
			  SLAB_STATE(head, slab_inuse(state) + freed + fresh, position);
	} while (!stat_cmpxchg(cache, slab, &state, changed));
	*constructed = freed;
	return freed + fresh;
}

/* The same of a detached slab, which is let go before objects are constructed (B5). */
static unsigned int take_detached(struct slab_cache *cache, struct slab *slab, void **objects,
				  unsigned int max)
{
	unsigned int constructed = 0, n = 0;

	if (max)
		n = take_from(cache, slab, objects, max, &constructed);
	partial_release(cache, slab, true);
	construct(cache, objects + constructed, n - constructed);
	return n;
}

/* One object off the first slab, which stays listed as long as it has more. */
static unsigned int take_one(struct slab_cache *cache, struct slab_node *node, void **object)
{
	struct slab *slab = node->first;
	unsigned int constructed = 0, n = 0;
	bool exhausted = false;

	if (slab) {
		n = take_from(cache, slab, object, 1, &constructed);
		exhausted = slab_exhausted(cache, os_load_relaxed(&slab->state));
	}
	if (exhausted)
		partial_remove(node, slab);
	os_unlock(&node->lock);
	if (exhausted)
		partial_release(cache, slab, true);
	construct(cache, object + constructed, n - constructed);
	return n;
}

/* A listed slab that has an object for who cannot construct one. */
static struct slab *first_ready(const struct slab_cache *cache, const struct slab_node *node)
{
	struct slab *slab = node->first;

	if (!cache->ctor)
		return slab;
	for (int looked = 0; slab && looked < LOOK_FOR_CONSTRUCTED; looked++, slab = slab->next)
		if (slab_head(os_load_acquire(&slab->state)) != SLAB_NO_OBJECT)
			return slab;
	return NULL;
}

/* One object, with the node's lock held: an exhausted slab is let go at once. */
static unsigned int take_ready(struct slab_cache *cache, struct slab_node *node, void **object)
{
	struct slab *slab = first_ready(cache, node);
	unsigned int constructed, n;

	if (!slab)
		return 0;
	n = take_from(cache, slab, object, 1, &constructed);
	if (slab_exhausted(cache, os_load_relaxed(&slab->state))) {
		partial_remove(node, slab);
		if (!partial_let_go(cache, slab))
			partial_add_first(node, slab);
	}
	return n;
}

bool slab_take_try(struct slab_cache *cache, unsigned int node, void **object)
{
	struct slab_node *part = os_load_acquire(&cache->nodes[node]);
	unsigned int n;

	if (!part || !os_load_relaxed(&part->nr_partial) || !os_trylock(&part->lock))
		return false;
	n = take_ready(cache, part, object);
	os_unlock(&part->lock);
	return n == 1;
}

static unsigned int take_partial(struct slab_cache *cache, struct slab_node *node, bool wait,
				 void **objects, unsigned int n)
{
	struct slab *slab, *next;
	unsigned int got = 0;

	if (!os_load_relaxed(&node->nr_partial))
		return 0;
	if (!wait && !os_trylock(&node->lock))
		return 0;
	if (wait)
		os_lock(&node->lock);
	if (n == 1)
		return take_one(cache, node, objects);
	slab = partial_detach(cache, node, n);
	os_unlock(&node->lock);
	for (; slab; slab = next) {
		next = slab->next;
		got += take_detached(cache, slab, objects + got, n - got);
	}
	return got;
}

/* The thread sanitizer: who had the pages is done with every object that is made of them. */
static void tell_made(const struct slab_cache *cache, const struct slab *slab)
{
	struct slab_order order = slab_order_of(cache, os_load_relaxed(&slab->state));

	tsan_pages_taken(page_address(slab), OS_PAGE << order.order);
	for (unsigned int i = 0; i < order.objects; i++)
		tsan_given(slab_object(cache, slab, i));
}

/* Pages for a slab, with its order's flag in the state; no cache yet, so nobody finds it. */
static struct slab *slab_pages(struct slab_cache *cache, unsigned int node)
{
	struct slab *slab = page_alloc(node, cache->oo.order);
	uint64_t small = 0;

	if (!slab && cache->min.order < cache->oo.order) {
		slab = page_alloc(node, cache->min.order);
		small = SLAB_SMALL;
		stat_add(cache, STAT_order_fallback, slab != NULL);
	}
	if (slab)
		os_store_relaxed(&slab->state, small);
	if (slab && os.tsan)
		tell_made(cache, slab);
	return slab;
}

/* Link every object of a new slab, constructed, in the order of their first use; the first one. */
static unsigned int build_freelist(struct slab_cache *cache, struct slab *slab, uint64_t state)
{
	unsigned int end = slab_fresh_end(cache, state), head = SLAB_NO_OBJECT;
	void *last = NULL;

	for (unsigned int position = 0; position < end; position++) {
		unsigned int index = slab_fresh_index(cache, slab, state, position);
		void *object = slab_object(cache, slab, index);

		if (index == SLAB_NO_OBJECT)
			continue;
		construct(cache, &object, 1);
		if (last)
			freelist_link(cache, last, index);
		else
			head = index;
		last = object;
	}
	freelist_link(cache, last, SLAB_NO_OBJECT);
	return head;
}

/* The same by a freelist that is built first: what deferring it saves, benchmarks measure. */
static unsigned int take_prebuilt(struct slab_cache *cache, struct slab *slab, uint64_t *state,
				  void **objects, unsigned int max)
{
	unsigned int head = build_freelist(cache, slab, *state), n;

	head = (unsigned int)walk(cache, slab, head, SLAB_MAX_OBJECTS, objects, max, &n);
	*state |= SLAB_STATE(head, n, slab_fresh_end(cache, *state));
	return n;
}

/* A new slab's first objects; the slab is listed if it has more. */
static unsigned int take_new_slab(struct slab_cache *cache, struct slab_node *part,
				  unsigned int node, void **objects, unsigned int max)
{
	struct slab *slab = slab_pages(cache, node);
	unsigned int n, position = 0;
	bool prebuilt = OS_BENCH_OPTION(prebuilt_freelist);
	uint64_t state;

	if (!slab)
		return 0;
	state = os_load_relaxed(&slab->state);
	if (prebuilt) {
		n = take_prebuilt(cache, slab, &state, objects, max);
	} else {
		n = take_fresh(cache, slab, state, &position, objects, max);
		state |= SLAB_STATE(SLAB_NO_OBJECT, n, position);
	}
	if (!slab_exhausted(cache, state))
		state |= SLAB_HELD;
	os_store_relaxed(&slab->state, state);
	page_own(slab, slab_order_of(cache, state).order, cache);
	os_fetch_add(&part->nr_slabs, 1);
	stat_add(cache, STAT_alloc_slab, 1);
	stat_add(cache, STAT_total_objects, slab_order_of(cache, state).objects);
	stat_slab_bytes(cache, (int64_t)(OS_PAGE << slab_order_of(cache, state).order));
	if (state & SLAB_HELD)
		partial_release(cache, slab, true);
	if (!prebuilt)
		construct(cache, objects, n);
	return n;
}

static unsigned int take_new(struct slab_cache *cache, unsigned int node, void **objects,
			     unsigned int n)
{
	struct slab_node *part = partial_node(cache, node);
	unsigned int got = 0, more = 1;

	for (; part && got < n && more; got += more)
		more = take_new_slab(cache, part, node, objects + got, n - got);
	return got;
}

/* Other nodes: their partial slabs if they have more than they should keep, then their memory. */
static unsigned int take_elsewhere(struct slab_cache *cache, unsigned int node, bool fresh,
				   void **objects, unsigned int n)
{
	unsigned int got = 0;

	for (uint32_t i = 1; i < os.nr_nodes && got < n; i++) {
		unsigned int other = (node + i) % os.nr_nodes;
		struct slab_node *part = os_load_acquire(&cache->nodes[other]);

		if (fresh)
			got += take_new(cache, other, objects + got, n - got);
		/* No memory anywhere: then what the others would keep for themselves. */
		if (fresh && part && got < n)
			got += take_partial(cache, part, true, objects + got, n - got);
		if (!fresh && part && os_load_relaxed(&part->nr_partial) > cache->min_partial)
			got += take_partial(cache, part, false, objects + got, n - got);
	}
	return got;
}

static unsigned int take_all_partial(struct slab_cache *cache, struct slab_node *node,
				     void **objects, unsigned int n)
{
	unsigned int got = 0, more;

	do {
		more = take_partial(cache, node, true, objects + got, n - got);
		got += more;
	} while (cache->ctor && more && got < n);
	return got;
}

unsigned int slab_take(struct slab_cache *cache, unsigned int node, enum slab_place place,
		       void **objects, unsigned int n)
{
	struct slab_node *part = os_load_acquire(&cache->nodes[node]);
	unsigned int got = 0;

	if (part)
		got = take_all_partial(cache, part, objects, n);
	if (got < n && place == SLAB_PREFER_NODE)
		got += take_elsewhere(cache, node, false, objects + got, n - got);
	if (got < n)
		got += take_new(cache, node, objects + got, n - got);
	if (got < n && place == SLAB_PREFER_NODE)
		got += take_elsewhere(cache, node, true, objects + got, n - got);
	return got;
}
