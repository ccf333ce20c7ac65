/* SPDX-License-Identifier: MIT */
/*
 * Takes objects out of slabs, for refills: from partial slabs of this node, from those of other
 * nodes (by try-lock), from new slabs.
 *
 * Their addresses are computed from bits: no object is touched, new or freed. shuffle.h gives the
 * sequence.
 */
#include "os/assert.h"
#include "os/atomic.h"
#include "os/enter_program.h"
#include "os/machine.h"
#include "os/tsan.h"
#include "slab/partial.h"
#include "slab/shuffle.h"
#include "slab/slab.h"

#define LOOK_FOR_BITS 8 /* listed slabs that are searched for one object */

/*
 * A refill prefetches the first lines of its objects together, because the program will write to
 * one object after another, and would wait for each. Not always into the cache nearest to the
 * processor, which has room for a few hundred lines and a few requests at a time: only if objects
 * are larger than a line, and at most ASK_NEAREST are left to take, whose lines fill a quarter of
 * such a cache (32 KiB, or more). Otherwise the processor follows a stretch by itself, and objects
 * that have others between them are asked for into the next larger cache.
 */
#define LINE	    64
#define ASK_NEAREST 128

bool slab_is_prepared(const struct slab_cache *cache, const struct slab *slab, unsigned int index)
{
	uint64_t state = os_load_acquire(&slab->state);
	unsigned int words = slab_nr_words(cache, state);
	unsigned int first = shuffle_word(cache, slab, 0, words);

	return (index / 64 + words - first) % words < slab_constructed(state);
}

/* Take the lowest n objects of one free stretch. Returns the bits that are left. */
static uint64_t take_stretch(const struct slab_cache *cache, char *first, uint64_t found,
			     void **objects, unsigned int n, bool nearest)
{
	unsigned int lowest = (unsigned int)__builtin_ctzll(found);

	first += (size_t)lowest * cache->size;
	for (unsigned int i = 0; i < n; i++, first += cache->size) {
		objects[i] = first;
		if (nearest)
			__builtin_prefetch(first, 1);
	}
	return found & ~(~UINT64_C(0) >> (64 - n) << lowest);
}

/* Take n objects that have others between them, or whose order is random. */
static uint64_t take_scattered(const struct slab_cache *cache, char *first, uint64_t found,
			       void **objects, unsigned int n, bool nearest, uint64_t random)
{
	uint64_t rest = found;

	for (unsigned int i = 0; i < n; i++) {
		unsigned int bit = random ? shuffle_next_bit(rest, &random)
					  : (unsigned int)__builtin_ctzll(rest);

		objects[i] = first + (size_t)bit * cache->size;
		if (nearest)
			__builtin_prefetch(objects[i], 1);
		else
			__builtin_prefetch(objects[i], 1, 2);
		rest &= ~(UINT64_C(1) << bit);
	}
	return rest;
}

/* Take up to max objects by clearing bits of a word. */
static unsigned int take_word(const struct slab_cache *cache, struct slab *slab, unsigned int word,
			      void **objects, unsigned int max)
{
	uint64_t *bits = slab_words(cache, slab) + word, found = os_load_relaxed(bits), rest,
		 random = 0;
	char *first = slab_object(cache, slab, word * 64);
	unsigned int n = (unsigned int)__builtin_popcountll(found);
	bool nearest = cache->size > LINE && max <= ASK_NEAREST;

	n = n < max ? n : max;
	if (!n)
		return 0;
	os_assert(os_peek(&slab->state) & (SLAB_HELD | SLAB_LISTED)); /* SLAB-B1 */
	os_assert(word * 64 + 63 - (unsigned int)__builtin_clzll(found) <
		  slab_order_of(cache, os_peek(&slab->state)).objects);
	if (cache->random)
		random = shuffle_seed(cache, slab, word, found);
	/* Adding the lowest bit to a stretch leaves the bit above it. */
	if (!random && !(found & (found + (found & -found))))
		rest = take_stretch(cache, first, found, objects, n, nearest);
	else
		rest = take_scattered(cache, first, found, objects, n, nearest, random);
	os_fetch_and(bits, ~(found ^ rest));
	return n;
}

/* Take up to max constructed objects of a slab that this thread owns. */
static unsigned int take_ready(const struct slab_cache *cache, struct slab *slab, void **objects,
			       unsigned int max)
{
	uint64_t state = os_load_relaxed(&slab->state);
	unsigned int words = slab_nr_words(cache, state), n = 0;
	unsigned int ready = slab_prepares(cache) ? slab_constructed(state) : words;

	for (unsigned int i = 0; i < ready && n < max; i++)
		n += take_word(cache, slab, shuffle_word(cache, slab, i, words), objects + n,
			       max - n);
	return n;
}

/*
 * Take one ready object of a slab that this thread owns, if it has one: a shorter take_ready(), for
 * caches without sheaves, which take one object at a time.
 */
static inline bool take_one(const struct slab_cache *cache, struct slab *slab, void **object)
{
	uint64_t state = os_load_relaxed(&slab->state);
	unsigned int words = slab_nr_words(cache, state);
	unsigned int ready = slab_prepares(cache) ? slab_constructed(state) : words;

	for (unsigned int i = 0; i < ready; i++) {
		unsigned int word = shuffle_word(cache, slab, i, words), bit;
		uint64_t *bits = slab_words(cache, slab) + word, found = os_load_relaxed(bits);

		if (!found)
			continue;
		bit = cache->random ? shuffle_bit(cache, slab, word, found)
				    : (unsigned int)__builtin_ctzll(found);
		os_fetch_and(bits, ~(UINT64_C(1) << bit));
		*object = slab_object(cache, slab, word * 64 + bit);
		return true;
	}
	return false;
}

/* Count the objects taken of a held slab, and let the slab go: it is listed, unless it is full. */
static void taken(struct slab_cache *cache, struct slab *slab, uint64_t what)
{
	if (!partial_let_go(cache, slab, what))
		partial_release(cache, slab, true);
}

/* The next word of a held slab whose objects were never used: all its objects are constructed
 * (SLAB-B7). */
static unsigned int take_unconstructed(struct slab_cache *cache, struct slab *slab, void **objects,
				       unsigned int max)
{
	uint64_t state = os_load_relaxed(&slab->state);
	unsigned int words = slab_nr_words(cache, state), next = slab_constructed(state), n, used;
	struct os_program call;
	void *fresh[64];

	/* Else it had a constructed one: a free object's bit is set before it is counted. */
	os_assert(next < words);
	n = take_word(cache, slab, shuffle_word(cache, slab, next, words), fresh, 64);
	/* SLAB-B7: none of them was constructed before. */
	os_assert(n == 64 || next == words - 1 || cache->random);
	taken(cache, slab, SLAB_WORD_CONSTRUCTED + n);
	call = os_enter_program();
	for (unsigned int i = 0; i < n; i++) {
		tsan_acquire(fresh[i]);
		if (cache->extra)
			cache->extra->prepare(cache, fresh[i]);
		else
			cache->ctor(fresh[i]);
		tsan_release(fresh[i]);
	}
	os_leave_program(call);
	used = n < max ? n : max;
	for (unsigned int i = 0; i < used; i++)
		objects[i] = fresh[i];
	slab_give(cache, fresh + used, n - used, "constructor");
	return used;
}

/* Take up to max objects of a held slab and let it go. */
static unsigned int take_held(struct slab_cache *cache, struct slab *slab, void **objects,
			      unsigned int max)
{
	unsigned int n = take_ready(cache, slab, objects, max);

	if (slab_prepares(cache) && !n)
		return take_unconstructed(cache, slab, objects, max);
	taken(cache, slab, n);
	return n;
}

/* With the node's lock held: a listed slab that became full leaves the list. */
static OS_NOINLINE void unlist_full(struct slab_cache *cache, struct slab_node *node,
				    struct slab *slab)
{
	partial_remove(node, slab);
	if (!partial_let_go(cache, slab, 0))
		partial_add(node, slab, true);
}

/* With the node's lock held: n objects were taken of a listed slab. */
static inline void count_listed(struct slab_cache *cache, struct slab_node *node, struct slab *slab,
				unsigned int n)
{
	uint64_t change = n;

	os_assert(os_peek(&node->lock.word) && os_peek(&slab->state) & SLAB_LISTED);
	if (os_unlikely(os_load_relaxed(&slab->state) & SLAB_UNUSED)) {
		partial_used(node, slab);
		change -= SLAB_UNUSED;
	}
	if (!slab_free(cache, os_fetch_add(&slab->state, change) + change))
		unlist_full(cache, node, slab);
}

/* With the node's lock held: up to max constructed objects of one slab, which stays listed if it
 * has more. */
static inline unsigned int take_listed(struct slab_cache *cache, struct slab_node *node,
				       void **objects, unsigned int max)
{
	struct slab *slab = partial_slab(node, node->first);
	unsigned int n = 0;

	for (int i = 0; slab && !(n = max == 1 ? take_one(cache, slab, objects)
					       : take_ready(cache, slab, objects, max));
	     i++)
		slab = i < LOOK_FOR_BITS ? partial_slab(node, slab->next) : NULL;
	if (n)
		count_listed(cache, node, slab, n);
	return n;
}

bool slab_take_try(struct slab_cache *cache, unsigned int node, void **object)
{
	struct slab_node *part = os_load_acquire(&cache->nodes[node]);
	bool done;

	if (!part || !os_load_relaxed(&part->nr_partial) || !os_trylock(&part->lock))
		return false;
	done = take_listed(cache, part, object, 1);
	os_unlock(&part->lock);
	return done;
}

/* With the node's lock held; releases it. Takes all objects of slabs that it detaches, and a part
 * of those of the next slab, which stays listed, so that the lock is not needed again. */
static OS_NOINLINE unsigned int take_detached(struct slab_cache *cache, struct slab_node *node,
					      void **objects, unsigned int max)
{
	unsigned int n = 0, whole;
	struct slab *slab = partial_detach(cache, node, max, &whole), *next;

	if (whole < max && !slab_prepares(cache))
		n = take_listed(cache, node, objects, max - whole);
	os_unlock(&node->lock);
	for (; slab; slab = next) {
		next = partial_slab(node, slab->next);
		n += take_held(cache, slab, objects + n, max - n);
	}
	return n;
}

static inline unsigned int take_partial(struct slab_cache *cache, struct slab_node *node, bool wait,
					void **objects, unsigned int max)
{
	if (!os_load_relaxed(&node->nr_partial) || !os_lock_if(&node->lock, wait))
		return 0;
	if (max != 1 || !take_listed(cache, node, objects, 1))
		return take_detached(cache, node, objects, max);
	os_unlock(&node->lock);
	return 1;
}

static unsigned int take_all_partial(struct slab_cache *cache, struct slab_node *node,
				     void **objects, unsigned int max)
{
	unsigned int n = 0, got;

	do {
		got = take_partial(cache, node, true, objects + n, max - n);
		n += got;
	} while (got && n < max);
	return n;
}

/* A constructor may do anything, and pages that cannot be locked in memory are given back. If the
 * node's lock is held, each call would leave a slab for later. */
bool slab_take_new_try(struct slab_cache *cache, unsigned int node, void **object)
{
	struct slab_node *part = os_load_acquire(&cache->nodes[node]);
	struct slab_runs runs = {.nowait = true};
	struct slab *slab = NULL;

	if (part && !os_lock_held(&part->lock) && !slab_prepares(cache) &&
	    !slab_rest(cache)->secret)
		slab = slab_make(cache, node, &runs);
	if (!slab)
		return false;
	take_one(cache, slab, object);
	if (!partial_let_go(cache, slab, 1))
		slab_list_or_defer(cache, slab, true);
	return true;
}

static unsigned int take_new(struct slab_cache *cache, unsigned int node, void **objects,
			     unsigned int max)
{
	/* None is held while a constructor runs: it may allocate, or not return. */
	struct slab_runs runs = {
		.wanted = slab_prepares(cache) ? 1 : (max - 1) / cache->oo.objects + 1};
	struct slab *slab;
	unsigned int n = 0;

	while (n < max && (slab = slab_make(cache, node, &runs)) != NULL) {
		n += take_held(cache, slab, objects + n, max - n);
		/* With a constructor, that took one word; the slab is listed, with its other
		 * words. */
		if (slab_prepares(cache) && n < max)
			n += take_all_partial(cache, os_load_relaxed(&cache->nodes[node]),
					      objects + n, max - n);
	}
	slab_return_runs(cache, &runs);
	return n;
}

/* Take from other nodes: from their partial slabs if they have more than they should keep, or from
 * new slabs there. */
static unsigned int take_elsewhere(struct slab_cache *cache, unsigned int node, bool fresh,
				   void **objects, unsigned int max)
{
	unsigned int n = 0;

	for (uint32_t i = 1; i < os.nr_nodes && n < max; i++) {
		unsigned int other = os_near(node, i);
		struct slab_node *part = os_load_acquire(&cache->nodes[other]);

		if (fresh)
			n += take_new(cache, other, objects + n, max - n);
		/* There is no new memory: take even partial slabs that the node should keep. */
		if (fresh && part && n < max)
			n += take_all_partial(cache, part, objects + n, max - n);
		if (!fresh && part &&
		    os_load_relaxed(&part->nr_partial) > os_load_relaxed(&cache->min_partial))
			n += take_partial(cache, part, false, objects + n, max - n);
	}
	return n;
}

/* The objects that the node's own slabs did not have. */
static OS_NOINLINE unsigned int take_further(struct slab_cache *cache, unsigned int node,
					     enum slab_place place, void **objects,
					     unsigned int max)
{
	unsigned int n = 0;

	if (place == SLAB_PREFER_NODE || place == SLAB_NEAR_NODE)
		n = take_elsewhere(cache, node, false, objects, max);
	if (n < max)
		n += take_new(cache, node, objects + n, max - n);
	if (n < max && place != SLAB_THIS_NODE && place != SLAB_NEAR_NODE)
		n += take_elsewhere(cache, node, true, objects + n, max - n);
	return n;
}

unsigned int slab_take(struct slab_cache *cache, unsigned int node, enum slab_place place,
		       void **objects, unsigned int max)
{
	struct slab_node *part = os_load_acquire(&cache->nodes[node]);
	unsigned int n = 0;

	if (part && max == 1)
		n = take_partial(cache, part, true, objects, 1);
	else if (part)
		n = take_all_partial(cache, part, objects, max);
	return n == max ? n : n + take_further(cache, node, place, objects + n, max - n);
}
