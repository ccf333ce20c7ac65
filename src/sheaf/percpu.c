/* SPDX-License-Identifier: MIT */
/*
 * What happens when main is empty (alloc) or full (free): the kernel's replace-empty-main and
 * replace-full-main, each as two sections. "Replace the spare by the new sheaf, then swap" leaves
 * the old main as spare: that is the spare rule.
 */
#include <string.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/options.h"
#include "page/pool.h"
#include "sheaf/barn.h"
#include "sheaf/hand.h"
#include "sheaf/rows.h"
#include "sheaf/sheaf.h"

#define ROUNDS 3 /* of get a sheaf and try again, before the slab is asked */

static size_t sheaf_bytes(unsigned int capacity)
{
	return SHEAF_HEADER + capacity * sizeof(void *);
}

static void sheaf_release(struct sheaf *sheaf)
{
	pool_free(sheaf, sheaf_bytes(sheaf->capacity));
}

static struct sheaf *sheaf_new(struct sheaf_cache *cache)
{
	uint32_t capacity = os_load_relaxed(&cache->capacity);
	struct sheaf *sheaf = pool_alloc(sheaf_bytes(capacity));

	if (sheaf) {
		sheaf->capacity = capacity;
		sheaf->owner = cache;
	}
	return sheaf;
}

/* A sheaf without objects: from the barn if it has the right capacity, or a new one. */
static struct sheaf *empty_sheaf(struct sheaf_cache *cache)
{
	struct sheaf *sheaf;

	while ((sheaf = barn_take_empty(cache)) != NULL) {
		if (sheaf->capacity == os_load_relaxed(&cache->capacity))
			return sheaf;
		sheaf_release(sheaf);
	}
	return sheaf_new(cache);
}

/* Hand a sheaf over, whatever it is: to the barn, or its objects to the slabs. */
static void hand_over(struct sheaf_cache *cache, struct sheaf *sheaf, const char *call)
{
	if (!sheaf || sheaf == &sheaf_bootstrap)
		return;
	if (sheaf_size(sheaf) == sheaf->capacity && barn_put_full(cache, sheaf))
		return;
	if (sheaf_size(sheaf)) {
		slab_give(&cache->slab, sheaf->objects, sheaf_size(sheaf), call);
		os_store_relaxed(&sheaf->word, sheaf->word & ~UINT64_C(0xffff));
	}
	if (sheaf->capacity != os_load_relaxed(&cache->capacity) || !barn_put_empty(cache, sheaf))
		sheaf_release(sheaf);
}

/* A full sheaf from the slabs, or NULL. Runs constructors, so nothing may be in hand. */
static struct sheaf *refill(struct sheaf_cache *cache)
{
	struct sheaf *sheaf = empty_sheaf(cache);
	unsigned int n;

	if (!sheaf)
		return NULL;
	n = slab_take(&cache->slab, os_node(), SLAB_PREFER_NODE, sheaf->objects, sheaf->capacity,
		      sheaf->capacity);
	sheaf->word = n;
	if (n == sheaf->capacity)
		return sheaf;
	hand_over(cache, sheaf, "kmem_cache_alloc");
	return NULL;
}

static bool can_install(struct sheaf_cache *cache)
{
	return cache->barns && !os_load_relaxed(&cache->at.stop) && os_registered();
}

/* Kernel: __pcs_replace_empty_main(). False: there is no sheaf to be had, or none may be put in. */
static bool replace_empty_main(struct sheaf_cache *cache)
{
	struct sheaf *full, *old = NULL;
	uint32_t *hand;

	if (!can_install(cache))
		return false;
	hand = hand_enter(cache);
	full = barn_take_full(cache);
	if (!full) {
		hand_leave(hand);
		full = refill(cache);
		if (!full)
			return false;
		hand = hand_enter(cache);
	}
	if (section_replace_spare(&cache->at, full, &old)) {
		section_swap_empty(&cache->at);
		if (cache->no_spare_rule) {
			hand_over(cache, old, "kmem_cache_alloc");
			section_replace_spare(&cache->at, NULL, &old);
		}
	} else {
		old = full;
	}
	hand_over(cache, old, "kmem_cache_alloc");
	hand_leave(hand);
	return true;
}

/* Kernel: __pcs_replace_full_main(). False: there is no empty sheaf to be had. */
static bool replace_full_main(struct sheaf_cache *cache)
{
	struct sheaf *empty, *old = NULL;
	uint32_t *hand;

	if (!can_install(cache))
		return false;
	empty = empty_sheaf(cache);
	if (!empty)
		return false;
	hand = hand_enter(cache);
	if (section_replace_spare(&cache->at, empty, &old))
		section_swap_full(&cache->at);
	else
		old = empty;
	hand_over(cache, old, "kmem_cache_free");
	hand_leave(hand);
	return true;
}

void *sheaf_alloc(struct sheaf_cache *cache)
{
	for (int round = 0; round < ROUNDS; round++) {
		void *object = section_pop(&cache->at);

		if (object)
			return object;
		if (!section_swap_empty(&cache->at) && !replace_empty_main(cache))
			return NULL;
	}
	return section_pop(&cache->at);
}

bool sheaf_free(struct sheaf_cache *cache, void *object)
{
	for (int round = 0; round < ROUNDS; round++) {
		if (section_push(&cache->at, object))
			return true;
		if (!section_swap_full(&cache->at) && !replace_full_main(cache))
			return false;
	}
	return section_push(&cache->at, object);
}

unsigned int sheaf_alloc_bulk(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	unsigned int done = 0;

	while (done < n) {
		struct sheaf *full;
		uint32_t *hand;
		unsigned int got = section_pop_bulk(&cache->at, objects + done, n - done);

		done += got;
		if (got || section_swap_empty(&cache->at))
			continue;
		if (!can_install(cache))
			break;
		hand = hand_enter(cache);
		full = barn_take_full(cache);
		if (full) {
			struct sheaf *old = full;

			if (section_replace_spare(&cache->at, full, &old))
				section_swap_empty(&cache->at);
			hand_over(cache, old, "kmem_cache_alloc_bulk");
		}
		hand_leave(hand);
		if (!full)
			break;
	}
	return done;
}

unsigned int sheaf_free_bulk(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	unsigned int done = 0;

	while (done < n) {
		unsigned int got = section_push_bulk(&cache->at, objects + done, n - done);

		done += got;
		if (!got && !section_swap_full(&cache->at) && !replace_full_main(cache))
			break;
	}
	return done;
}

unsigned int sheaf_capacity_for(uint32_t size)
{
	return size >= OS_PAGE ? 4 : size >= 1024 ? 12 : size >= 256 ? 28 : 60;
}

void sheaf_set_capacity(struct sheaf_cache *cache, unsigned int capacity)
{
	os_store_relaxed(&cache->capacity, capacity);
	barn_set_limits(cache);
}

void sheaf_set_barn(struct sheaf_cache *cache, size_t objects, size_t bytes)
{
	cache->barn_objects = objects;
	cache->barn_bytes = bytes;
	barn_set_limits(cache);
}

bool sheaf_init(void)
{
	return rows_init();
}

bool sheaf_cache_init(struct sheaf_cache *cache, unsigned int capacity)
{
	cache->at.slots = rows_empty_slot();
	if (!capacity)
		return true;
	cache->barns = pool_alloc(os.nr_nodes * sizeof(*cache->barns));
	cache->at.slots = cache->barns ? rows_take_slot() : NULL;
	if (!cache->at.slots) {
		barn_exit(cache);
		return false;
	}
	cache->no_spare_rule = os_options.no_spare_rule;
	cache->capacity = capacity;
	sheaf_set_barn(cache, BARN_OBJECTS, BARN_BYTES);
	return true;
}

void sheaf_cache_exit(struct sheaf_cache *cache)
{
	if (!cache->barns)
		return;
	barn_exit(cache);
	rows_give_slot(cache->at.slots);
}
