/* SPDX-License-Identifier: MIT */
/*
 * Objects back to their slabs: objects of one slab go as one chain with one exchange.
 *
 * This is where a wrong pointer is found at the latest: one that is in no slab, in another cache's,
 * or not at an object's first byte is reported and left alone.
 */
#include "os/atomic.h"
#include "os/report.h"
#include "slab/freelist.h"
#include "slab/partial.h"
#include "slab/slab.h"
#include "slab/stat.h"

/* Bits for the objects of a batch that are done: all of a sheaf, but for the very largest. */
#define BATCH_WORDS 4
/* Objects of other slabs passed over while a chain is collected. More: longer chains of objects in random
 * order, and more looks at each; none: a chain for each run. Not measured. */
#define LOOK_AHEAD 3

unsigned int slab_index(const struct slab_cache *cache, const struct slab *slab, const void *object)
{
	size_t offset = (size_t)((const char *)object - page_address(slab));
	size_t index = offset * cache->reciprocal >> 32;
	uint64_t state = os_load_relaxed(&slab->state);

	if (index * cache->size != offset || index >= slab_order_of(cache, state).objects)
		return SLAB_NO_OBJECT;
	return (unsigned int)index;
}

static void report_wrong(struct slab_cache *cache, struct slab *slab, void *object,
			 const char *call)
{
	struct slab_cache *other = slab ? os_load_acquire(&slab->cache) : NULL;

	if (!other && page_is_ours(object))
		os_misuse_later(cache->name,
				"%s(%s, %p): not in an object that is in use; ignored. If it was "
				"freed before, look for two owners",
				call, cache->name, object);
	else if (!other)
		os_misuse_later(cache->name,
				"%s(%s, %p): not an object of any cache; ignored. Free it with the "
				"allocator that it came from",
				call, cache->name, object);
	else if (other != cache)
		os_misuse_later(
			cache->name,
			"%s(%s, %p): this object belongs to cache \"%s\"; it is leaked. Free it "
			"to that cache",
			call, cache->name, object, other->name);
	else
		os_misuse_later(
			cache->name,
			"%s(%s, %p): points %zu bytes into an object; ignored. Free the address "
			"that was allocated",
			call, cache->name, object,
			(size_t)((char *)object - page_address(slab)) % cache->size);
}

static void report_double_free(struct slab_cache *cache, void *object, const char *call)
{
	os_misuse_later(
		cache->name,
		"%s(%s, %p): double free; ignored. The object is already free: look for two owners",
		call, cache->name, object);
}

/* The slab this object is in and its index there, or NULL after a report. */
static struct slab *checked(struct slab_cache *cache, void *object, const char *call,
			    unsigned int *index)
{
	struct slab *slab = page_slab(object);

	if (slab && os_load_acquire(&slab->cache) == cache) {
		*index = slab_index(cache, slab, object);
		if (*index != SLAB_NO_OBJECT)
			return slab;
	}
	report_wrong(cache, slab, object, call);
	return NULL;
}

/* A chain of n that ends in `last` cannot be in use if fewer are, or if that one heads the freelist. */
static bool given_twice(uint64_t state, unsigned int last, unsigned int n)
{
	return slab_inuse(state) < n || slab_head(state) == last;
}

/* The state after n objects, of which `first` heads the chain, were given back. */
static uint64_t state_with(uint64_t state, unsigned int first, unsigned int n)
{
	state = (state & ~(uint64_t)SLAB_NO_OBJECT) | first;
	state -= (uint64_t)n << 16;
	return state & (SLAB_PARTIAL | SLAB_HELD) ? state : state | SLAB_HELD;
}

/* It was full, and is ours by this exchange (B3). */
static void list_again(struct slab_cache *cache, struct slab *slab)
{
	stat_add(cache, STAT_free_add_partial, 1);
	partial_release(cache, slab, false);
}

/*
 * The exchange that would empty a listed slab is made under its node's lock: before it the slab
 * cannot go away, since it has an object of ours; after it nobody else can decide about it.
 */
static void give_last(struct slab_cache *cache, struct slab *slab, unsigned int first,
		      unsigned int last, unsigned int n, const char *call)
{
	struct slab_node *node = partial_node_of(cache, slab);
	void *tail = slab_object(cache, slab, last);
	uint64_t state, changed;
	bool spare = false;

	os_lock(&node->lock);
	state = os_load_acquire(&slab->state);
	do {
		/* Another thread that freed the same objects may have been first. */
		if (given_twice(state, last, n)) {
			os_unlock(&node->lock);
			report_double_free(cache, tail, call);
			return;
		}
		freelist_link(cache, tail, slab_head(state));
		changed = state_with(state, first, n);
	} while (!stat_cmpxchg(cache, slab, &state, changed));
	if ((changed & SLAB_PARTIAL) && partial_is_spare(cache, slab, node->nr_partial - 1)) {
		partial_remove(node, slab);
		spare = true;
	}
	os_unlock(&node->lock);
	stat_add(cache, STAT_free_remove_partial, spare);
	if (spare)
		partial_discard(cache, slab);
	else if (!(state & (SLAB_PARTIAL | SLAB_HELD)))
		list_again(cache, slab);
}

/* Publish a chain of n objects, first ... last, whose links are set but the last one's. */
static void give_chain(struct slab_cache *cache, struct slab *slab, unsigned int first,
		       unsigned int last, unsigned int n, const char *call)
{
	void *tail = slab_object(cache, slab, last);
	uint64_t state = os_load_acquire(&slab->state);

	do {
		if (given_twice(state, last, n)) {
			report_double_free(cache, tail, call);
			return;
		}
		if (slab_inuse(state) == n && (state & SLAB_PARTIAL)) {
			give_last(cache, slab, first, last, n, call);
			return;
		}
		freelist_link(cache, tail, slab_head(state));
	} while (!stat_cmpxchg(cache, slab, &state, state_with(state, first, n)));

	if (!(state & (SLAB_PARTIAL | SLAB_HELD)))
		list_again(cache, slab);
}

/* Does the exchange that gives one back need the node's lock, then or afterwards? */
static bool needs_lock(uint64_t state)
{
	return !(state & (SLAB_PARTIAL | SLAB_HELD)) ||
	       (slab_inuse(state) == 1 && (state & SLAB_PARTIAL));
}

/* One object, without waiting. False: it needs the lock, and `locked` is not set. */
static bool give_one_try(struct slab_cache *cache, struct slab *slab, unsigned int index,
			 bool locked, const char *call)
{
	void *object = slab_object(cache, slab, index);
	uint64_t state = os_load_acquire(&slab->state);

	do {
		if (given_twice(state, index, 1)) {
			report_double_free(cache, object, call);
			return true;
		}
		if (needs_lock(state) && !locked)
			return false;
		freelist_link(cache, object, slab_head(state));
	} while (!stat_cmpxchg(cache, slab, &state, state_with(state, index, 1)));
	if (!(state & (SLAB_PARTIAL | SLAB_HELD))) {
		stat_add(cache, STAT_free_add_partial, 1);
		partial_add_last(partial_node_of(cache, slab), slab);
	}
	return true;
}

/* A slab that becomes empty stays listed: its pages are not for now. */
bool slab_give_try(struct slab_cache *cache, void *object, const char *call)
{
	struct slab_node *node;
	unsigned int index;
	struct slab *slab = checked(cache, object, call, &index);

	if (!slab || give_one_try(cache, slab, index, false, call))
		return true;
	node = partial_node_of(cache, slab);
	if (!os_trylock(&node->lock))
		return false;
	give_one_try(cache, slab, index, true, call);
	os_unlock(&node->lock);
	return true;
}

/* Collect the objects of objects[i]'s slab from there on, and give them back. */
static void give_one_slab(struct slab_cache *cache, void *const *objects, unsigned int i,
			  unsigned int n, uint64_t *done, const char *call)
{
	unsigned int first, last, index, count = 1, passed = 0;
	struct slab *slab = checked(cache, objects[i], call, &last);
	char *start, *end;

	if (!slab)
		return;
	start = page_address(slab);
	end = slab_object(cache, slab, slab_order_of(cache, os_load_relaxed(&slab->state)).objects);
	first = last;
	for (unsigned int j = i + 1; j < n && passed <= LOOK_AHEAD; j++) {
		char *object = objects[j];

		if (object < start || object >= end) {
			passed++;
			continue;
		}
		if (done[j / 64] >> j % 64 & 1)
			continue;
		done[j / 64] |= UINT64_C(1) << j % 64;
		index = slab_index(cache, slab, object);
		if (index == SLAB_NO_OBJECT) {
			report_wrong(cache, slab, object, call);
			continue;
		}
		if (index == first || index == last) {
			report_double_free(cache, object, call);
			continue;
		}
		freelist_link(cache, object, first);
		first = index;
		count++;
	}
	give_chain(cache, slab, first, last, count, call);
}

void slab_give(struct slab_cache *cache, void *const *objects, unsigned int n, const char *call)
{
	uint64_t done[BATCH_WORDS];

	if (n == 1) {
		unsigned int index;
		struct slab *slab = checked(cache, objects[0], call, &index);

		if (slab)
			give_chain(cache, slab, index, index, 1, call);
		return;
	}
	while (n) {
		unsigned int batch = n < BATCH_WORDS * 64 ? n : BATCH_WORDS * 64;

		for (unsigned int i = 0; i < BATCH_WORDS; i++)
			done[i] = 0;
		for (unsigned int i = 0; i < batch; i++)
			if (!(done[i / 64] >> i % 64 & 1))
				give_one_slab(cache, objects, i, batch, done, call);
		objects += batch;
		n -= batch;
	}
}

unsigned int slab_leave_out_foreign(struct slab_cache *cache, void **objects, unsigned int n,
				    unsigned int newest, const char *call)
{
	for (unsigned int i = n > newest ? n - newest : 0; i < n;) {
		if (__builtin_expect(page_owner(objects[i]) == cache, 1)) {
			i++;
			continue;
		}
		/* It reports what is wrong with it, and leaves it alone. */
		slab_give(cache, &objects[i], 1, call);
		objects[i] = objects[--n];
	}
	return n;
}
