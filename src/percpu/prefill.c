/* SPDX-License-Identifier: MIT */
/* Lends sheaves to users and takes them back; see prefill.h. */
#include "percpu/prefill.h"

#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/probe.h"
#include "percpu/barn/barn.h"
#include "percpu/in_hand.h"
#include "percpu/rows.h"
#include "percpu/stat.h"
#include "slab/drain_marks.h"

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

/* The section that takes the sheaf allocates its objects (PREFILL-F2), so a drain need not wait for
 * this thread. */
struct sheaf *prefill_lend_spare(struct sheaf_cache *cache)
{
	struct sheaf *spare = NULL;

	if (!section_replace_spare(&cache->at, NULL, &spare) || !spare || spare == &sheaf_bootstrap)
		return NULL;
	sheaf_harvest(cache, spare);
	stat_add(&cache->slab, STAT_sheaf_prefill_fast, 1);
	return lend(cache, spare);
}

/* Lend a full sheaf, from the barn or after its grace period; NULL: there is none. */
static struct sheaf *lend_full(struct sheaf_cache *cache)
{
	struct barn_cell cell;
	struct sheaf *full = barn_begin_full(cache, os_node(), &cell);
	struct sheaf_rcu *rcu = os_load_acquire(&cache->rcu);

	if (full) {
		sheaf_flow(cache, full, cell.cpu);
		stat_add(&cache->slab, STAT_barn_get_prefill, 1);
		barn_finish(cache, &cell, NULL);
	} else if (rcu) {
		rcu_poll(rcu);
		full = rcu_take(rcu, os_node(), false);
		stat_add(&cache->slab, STAT_rcu_reuse, full != NULL);
	}
	return lend(cache, full);
}

/* Move objects from main that were freed from earlier sheaves, up to this many in all. */
static void fill_from_main(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int most)
{
	unsigned int got = sheaf_pop_all(cache, sheaf->objects + sheaf->size, most - sheaf->size);

	sheaf_set_size(sheaf, sheaf->size + got);
}

/* A full sheaf instead of a lent one that has too few objects, if there is one: slabs would give
 * others than those that were used last. */
static struct sheaf *lend_instead(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int n)
{
	struct sheaf *full;

	if (!sheaf_fits(cache, sheaf))
		return sheaf;
	fill_from_main(cache, sheaf, sheaf->capacity);
	full = sheaf->size < n ? lend_full(cache) : NULL;
	if (!full)
		return sheaf;
	take_back(cache, sheaf);
	sheaf_hand_over(cache, sheaf);
	return full;
}

struct sheaf *prefill_lend(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int n)
{
	if (sheaf) {
		sheaf = lend_instead(cache, sheaf, n);
	} else {
		sheaf = lend_full(cache);
		if (!sheaf)
			sheaf = lend(cache, sheaf_take_empty(cache, os_node(), NULL));
		stat_add(&cache->slab, STAT_sheaf_prefill_slow, sheaf != NULL);
	}
	/* The sheaf has an older, smaller capacity; or the capacity has just decreased. */
	if (sheaf && sheaf->capacity < n) {
		take_back(cache, sheaf);
		sheaf_flush_and_release(cache, sheaf);
		sheaf = lend(cache, sheaf_make(cache, n));
	}
	return sheaf;
}

struct sheaf *prefill_lend_oversize(struct sheaf_cache *cache, unsigned int n)
{
	struct sheaf *sheaf = lend(cache, sheaf_make(cache, n | SHEAF_OVERSIZE));

	stat_add(&cache->slab, STAT_sheaf_prefill_oversize, sheaf != NULL);
	return sheaf;
}

unsigned int prefill_fill(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int n)
{
	unsigned int most = sheaf_fits(cache, sheaf) ? sheaf->capacity : n, got;

	fill_from_main(cache, sheaf, most);
	if (sheaf->size >= n)
		return sheaf->size;
	got = slab_take(&cache->slab, os_node(), SLAB_PREFER_NODE, sheaf->objects + sheaf->size,
			most - sheaf->size);
	stat_add(&cache->slab, STAT_sheaf_refill, got);
	probe(refill, cache->slab.name, got, os_node());
	stat_add(&cache->slab, STAT_alloc_fastpath, got);
	sheaf_set_size(sheaf, sheaf->size + got);
	return sheaf->size;
}

bool prefill_return_spare(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	uint32_t size = sheaf->size;

	if (!sheaf_fits(cache, sheaf))
		return false;
	/* Once it is in the slot, we must not change it. */
	sheaf_set_size(sheaf, size);
	sheaf_arm(cache, sheaf);
	sheaf->lent_by = NULL;
	if (!section_put_spare(&cache->at, sheaf)) {
		sheaf->lent_by = cache->at.handle;
		return false;
	}
	/* Not before: no drain waits for this thread (MARKS-F2). */
	slab_mark(&cache->slab, MARK_SHEAVES);
	stat_add(&cache->slab, STAT_free_fastpath, size);
	stat_add(&cache->slab, STAT_sheaf_return_fast, 1);
	return true;
}

void prefill_return(struct sheaf_cache *cache, struct sheaf *sheaf, bool may_fill)
{
	bool fits = sheaf_fits(cache, sheaf);

	/* Fill it while it still belongs to the user: constructors may run. */
	if (fits && may_fill && sheaf->size && sheaf->size < sheaf->capacity &&
	    barn_has_room(cache))
		prefill_fill(cache, sheaf, sheaf->capacity);
	sheaf_set_size(sheaf, sheaf->size);
	take_back(cache, sheaf);
	stat_add(&cache->slab, STAT_sheaf_return_slow, 1);
	if (!fits)
		sheaf_flush(cache, sheaf);
	sheaf_hand_over(cache, sheaf);
}
