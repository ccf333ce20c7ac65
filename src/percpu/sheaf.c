/* SPDX-License-Identifier: MIT */
/* Whole sheaves in hand: allocation, hand-over, flush, free. See sheaf.h. */
#include "percpu/sheaf.h"

#include <string.h>

#include "os/machine.h"
#include "os/probe.h"
#include "os/tsan.h"
#include "page/pool.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/in_hand.h"
#include "percpu/rows.h"
#include "percpu/stat.h"
#include "slab/drain_marks.h"

/*
 * Objects to check when a sheaf is handed on. A program that frees to a wrong cache does it often,
 * so fewer would be enough. With 8, an exchange costs the same as without (suite cross: 0.99 and
 * 1.02, within the noise); each additional object may cause a cache miss on a page's descriptor.
 */
#define NEWEST 8

void sheaf_release(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	/* SHEAF-H1: a slot without a sheaf holds the bootstrap sheaf, which belongs to nobody. */
	os_assert(!sheaf->size && sheaf != &sheaf_bootstrap);
	stat_add(&cache->slab, STAT_sheaf_free, 1);
	if (sheaf->capacity & SHEAF_OVERSIZE) {
		/* It was never in a slot. */
		pool_give_back(sheaf, sheaf_bytes(sheaf_room(sheaf)));
		return;
	}
	sheaf_budget_add(-sheaf_budget_of(cache, sheaf->capacity));
	pool_free(sheaf, sheaf_bytes(sheaf->capacity));
}

void sheaf_flush(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	stat_add(&cache->slab, STAT_sheaf_flush, sheaf->size);
	probe(flush, cache->slab.name, sheaf->size, os_node());
	slab_give(&cache->slab, sheaf->objects, sheaf->size, EARLIER_FREE);
	sheaf_set_size(sheaf, 0);
}

void sheaf_flush_and_release(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	if (sheaf->size)
		sheaf_flush(cache, sheaf);
	sheaf_release(cache, sheaf);
}

struct sheaf *sheaf_make(struct sheaf_cache *cache, uint32_t capacity)
{
	struct sheaf *sheaf = pool_alloc(sheaf_bytes(capacity & ~SHEAF_OVERSIZE));

	if (sheaf) {
		sheaf->capacity = capacity;
		if (!(capacity & SHEAF_OVERSIZE))
			sheaf_budget_add(sheaf_budget_of(cache, capacity));
	}
	stat_add(&cache->slab, STAT_sheaf_alloc, sheaf != NULL);
	return sheaf;
}

struct sheaf *sheaf_new(struct sheaf_cache *cache)
{
	return sheaf_make(cache, sheaf_capacity(cache));
}

unsigned int sheaf_move(struct sheaf *to, struct sheaf *from, unsigned int most)
{
	unsigned int n = from->size < most ? from->size : most, left = from->size - n;

	tsan_acquire(from);
	tsan_acquire(to);
	memcpy(to->objects + to->size, from->objects + left, n * sizeof(*to->objects));
	tsan_release(to);
	tsan_release(from);
	sheaf_set_size(to, to->size + n);
	sheaf_set_size(from, left);
	return n;
}

void sheaf_check_newest(struct sheaf_cache *cache, struct sheaf *sheaf, const char *earlier)
{
	unsigned int size = sheaf_size(sheaf);
	unsigned int left =
		slab_leave_out_foreign(&cache->slab, sheaf->objects, size, NEWEST, earlier);

	if (left != size)
		sheaf_set_size(sheaf, left);
}

bool sheaf_put_full(struct sheaf_cache *cache, unsigned int node, struct sheaf *sheaf)
{
	struct sheaf *displaced;
	bool done = barn_put_full(cache, node, sheaf, &displaced);

	/* The sheaf may have been the program's until now: then no drain waited for this thread. */
	slab_mark(&cache->slab, MARK_SHEAVES);
	sheaf_hand_over(cache, displaced);
	stat_add(&cache->slab, done ? STAT_barn_put_only : STAT_barn_put_fail, 1);
	probe(barn_put, cache->slab.name, sheaf, done);
	return done;
}

bool sheaf_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	bool done = barn_put_empty(cache, sheaf);

	stat_add(&cache->slab, STAT_barn_put_empty, done);
	probe(barn_put_empty, cache->slab.name, sheaf, done);
	return done;
}

/* Fill the fuller one: afterwards one of the two is full or empty. */
static void merge(struct sheaf *one, struct sheaf *other)
{
	struct sheaf *to = one->size < other->size ? other : one, *from = to == one ? other : one;

	sheaf_move(to, from, to->capacity - to->size);
}

/* Make it this CPU's partial sheaf, or merge it with that one. Returns false if it is still in
 * hand. */
static bool put_partial(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	uint32_t *in_hand = in_hand_begin(cache);
	struct sheaf *other = NULL;
	bool done = !in_hand_sees_drain(cache) && barn_put_partial(cache, sheaf, &other);

	if (other) {
		merge(sheaf, other);
		sheaf_hand_over(cache, sheaf);
		sheaf_hand_over(cache, other);
	}
	slab_mark(&cache->slab, MARK_SHEAVES);
	in_hand_end(in_hand);
	return done;
}

void sheaf_hand_over(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	if (!sheaf || sheaf == &sheaf_bootstrap)
		return;
	sheaf_harvest(cache, sheaf);
	if (sheaf->size == sheaf->capacity
		    ? sheaf_put_full(cache, os_node(), sheaf)
		    : sheaf->size && sheaf_fits(cache, sheaf) && put_partial(cache, sheaf))
		return;
	if (sheaf->size)
		sheaf_flush(cache, sheaf);
	if (!sheaf_fits(cache, sheaf) || !sheaf_put_empty(cache, sheaf))
		sheaf_release(cache, sheaf);
}

/* Take an empty sheaf of the right capacity from the barn, with its cell in transit; or return
 * NULL. */
struct sheaf *sheaf_begin_empty(struct sheaf_cache *cache, unsigned int node, uint16_t *place,
				struct barn_cell *cell)
{
	struct sheaf *empty;

	while ((empty = barn_begin_empty(cache, node, place, cell)) != NULL) {
		if (sheaf_fits(cache, empty))
			break;
		barn_finish(cache, cell, NULL);
		sheaf_release(cache, empty);
	}
	return empty;
}

struct sheaf *sheaf_take_empty(struct sheaf_cache *cache, unsigned int node, uint16_t *place)
{
	struct barn_cell cell;
	struct sheaf *empty = sheaf_begin_empty(cache, node, place, &cell);

	if (!empty)
		return sheaf_new(cache);
	stat_add(&cache->slab, STAT_barn_get_empty, 1);
	probe(barn_get_empty, cache->slab.name, empty, cell.cpu);
	barn_finish(cache, &cell, NULL);
	return empty;
}

struct sheaf *sheaf_take_spare(struct sheaf_cache *cache)
{
	struct sheaf *spare = NULL;

	if (!section_replace_spare(&cache->at, NULL, &spare) || !spare || spare == &sheaf_bootstrap)
		return NULL;
	sheaf_harvest(cache, spare);
	os_store_relaxed(&spare->filled_by, os_cpu() + 1);
	return spare;
}

static void put_spare_back(struct sheaf_cache *cache, struct sheaf *spare)
{
	bool may_stay =
		sheaf_fits(cache, spare) || spare->capacity == sheaf_retired_capacity(cache);

	sheaf_arm(cache, spare);
	/* The CPU has another spare, or this thread another CPU. */
	if (!may_stay || !section_put_spare(&cache->at, spare))
		sheaf_hand_over(cache, spare);
}

struct sheaf *sheaf_take_empty_spare(struct sheaf_cache *cache, uint32_t capacity)
{
	uint32_t *in_hand = in_hand_begin(cache);
	struct sheaf *spare = sheaf_take_spare(cache);

	if (spare && (spare->size || spare->capacity != capacity)) {
		put_spare_back(cache, spare);
		spare = NULL;
	}
	in_hand_end(in_hand);
	return spare;
}
