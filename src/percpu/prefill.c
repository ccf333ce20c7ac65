/* SPDX-License-Identifier: MIT */
/* Lends sheaves to users and takes them back; see prefill.h. */
#include "percpu/prefill.h"

#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/probe.h"
#include "percpu/barn/barn.h"
#include "percpu/idle.h"
#include "percpu/in_hand.h"
#include "percpu/stat.h"

/* From now on it belongs to the user. */
static struct sheaf *lend(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	if (sheaf) {
		stat_add(&cache->slab, STAT_alloc_fastpath, sheaf->size);
		os_store_relaxed(&sheaf->filled_by, 0);
		sheaf->lent_by = cache->at.handle;
	}
	return sheaf;
}

/* The user returned it: its objects are free, and the caller parks or flushes them. */
static void take_back(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	/* PREFILL-F1 */
	os_assert(prefill_is_lent(cache, sheaf));
	sheaf->lent_by = NULL;
	stat_add(&cache->slab, STAT_free_fastpath, sheaf->size);
}

void prefill_count_lent_spare(struct sheaf_cache *cache, struct sheaf *spare)
{
	sheaf_harvest(cache, spare);
	stat_add(&cache->slab, STAT_sheaf_prefill_fast, 1);
	stat_add(&cache->slab, STAT_prefill_slot, spare->size);
	stat_add(&cache->slab, STAT_alloc_fastpath, spare->size);
}

/* This CPU's partial sheaf; a full one, from the barn or after its grace period; NULL: there is
 * none. As for barn_take_partial(). */
static struct sheaf *take_whole(struct sheaf_cache *cache)
{
	struct sheaf *sheaf = barn_take_partial(cache);
	struct sheaf_rcu *rcu = os_load_acquire(&cache->rcu);
	struct barn_cell cell;

	if (sheaf)
		return sheaf;
	sheaf = barn_begin_full(cache, os_node(), &cell);
	if (sheaf) {
		sheaf_flow(cache, sheaf, cell.cpu);
		stat_add(&cache->slab, STAT_barn_get_prefill, 1);
		barn_finish(cache, &cell, NULL);
	} else if (rcu) {
		sheaf = rcu_take(rcu, os_node(), false);
		stat_add(&cache->slab, STAT_rcu_reuse, sheaf != NULL);
	}
	return sheaf;
}

/* Slow paths begin with this, with nothing in hand. */
static void begin_slow(struct sheaf_cache *cache)
{
	struct sheaf_rcu *rcu = os_load_acquire(&cache->rcu);

	idle_mark_busy();
	if (rcu)
		rcu_poll(rcu);
}

struct sheaf *prefill_lend(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int n)
{
	struct sheaf *larger;

	if (!sheaf) {
		begin_slow(cache);
		/* So that it can become the spare. */
		rows_open_here(cache->at.handle);
		sheaf = take_whole(cache);
		stat_add(&cache->slab, STAT_prefill_barn, sheaf ? sheaf->size : 0);
		sheaf = lend(cache, sheaf ? sheaf : sheaf_take_empty(cache, os_node(), NULL));
		stat_add(&cache->slab, STAT_sheaf_prefill_slow, sheaf != NULL);
	}
	/* The sheaf has an older, smaller capacity; or the capacity has just decreased. */
	if (sheaf && sheaf->capacity < n) {
		larger = lend(cache, sheaf_make(cache, n));
		if (larger)
			sheaf_move(larger, sheaf, sheaf->size);
		take_back(cache, sheaf);
		sheaf_flush_and_release(cache, sheaf);
		sheaf = larger;
	}
	return sheaf;
}

struct sheaf *prefill_lend_oversize(struct sheaf_cache *cache, unsigned int n)
{
	struct sheaf *sheaf = lend(cache, sheaf_make(cache, n | SHEAF_OVERSIZE));

	stat_add(&cache->slab, STAT_sheaf_prefill_oversize, sheaf != NULL);
	return sheaf;
}

/* So many objects more are in it, from a place with this counter. */
static void count_more(struct sheaf_cache *cache, unsigned int word, unsigned int n)
{
	stat_add(&cache->slab, word, n);
	stat_add(&cache->slab, STAT_alloc_fastpath, n);
}

/* Move objects from main that were freed from earlier sheaves, up to this many in all. */
static void fill_from_main(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int most)
{
	unsigned int got = sheaf_pop_bulk(cache, sheaf->objects + sheaf->size, most - sheaf->size);

	stat_add(&cache->slab, STAT_prefill_slot, got);
	sheaf_set_size(sheaf, sheaf->size + got);
}

static void fill_from_barn(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int n,
			   unsigned int most)
{
	struct sheaf *from;
	uint32_t *in_hand;

	begin_slow(cache);
	in_hand = in_hand_begin(cache);
	while (sheaf->size < n && !in_hand_sees_drain(cache) &&
	       (from = take_whole(cache)) != NULL) {
		count_more(cache, STAT_prefill_barn, sheaf_move(sheaf, from, most - sheaf->size));
		sheaf_hand_over(cache, from);
	}
	in_hand_end(in_hand);
}

static void fill_from_slabs(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int most)
{
	unsigned int got = slab_take(&cache->slab, os_node(), SLAB_PREFER_NODE,
				     sheaf->objects + sheaf->size, most - sheaf->size);

	stat_add(&cache->slab, STAT_sheaf_refill, got);
	probe(refill, cache->slab.name, got, os_node());
	count_more(cache, STAT_prefill_slab, got);
	sheaf_set_size(sheaf, sheaf->size + got);
}

unsigned int prefill_fill(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int n)
{
	unsigned int most = sheaf_fits(cache, sheaf) ? sheaf->capacity : n;

	fill_from_main(cache, sheaf, most);
	if (sheaf->size < n)
		fill_from_barn(cache, sheaf, n, most);
	if (sheaf->size < n)
		fill_from_slabs(cache, sheaf, most);
	return sheaf->size;
}

void prefill_count_returned_spare(struct sheaf_cache *cache, uint32_t size)
{
	stat_add(&cache->slab, STAT_free_fastpath, size);
	stat_add(&cache->slab, STAT_sheaf_return_fast, 1);
}

void prefill_return(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	idle_mark_busy();
	sheaf_set_size(sheaf, sheaf->size);
	take_back(cache, sheaf);
	stat_add(&cache->slab, STAT_sheaf_return_slow, 1);
	if (!sheaf_fits(cache, sheaf))
		sheaf_flush(cache, sheaf);
	sheaf_hand_over(cache, sheaf);
}
