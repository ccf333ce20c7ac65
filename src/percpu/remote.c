/* SPDX-License-Identifier: MIT */
/* Objects of other nodes on their way home; see remote.h. */
#include "percpu/remote.h"

#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/barn.h"
#include "percpu/budget.h"
#include "percpu/cells.h"
#include "percpu/idle.h"
#include "percpu/in_hand.h"
#include "percpu/nolock.h"
#include "percpu/stat.h"

#define CALL "kmem_cache_free"

_Static_assert((offsetof(struct slot, cells) +
		(SLOT_CELLS - BARN_REMOTE_CELLS) * sizeof(uintptr_t)) %
			       64 ==
		       0,
	       "searches of the shard do not read the line of these cells");

static uintptr_t *cell_for(struct sheaf_cache *cache, unsigned int cpu, unsigned int node)
{
	struct slot *slot = slot_of_row(cache->at.handle, cpu);

	return &slot->cells[SLOT_CELLS - BARN_REMOTE_CELLS + node % BARN_REMOTE_CELLS];
}

/* Put the cell in transit. Returns false if another thread has, or if a drain has begun. */
static bool begin(struct sheaf_cache *cache, unsigned int cpu, uintptr_t *at, struct sheaf **sheaf)
{
	uintptr_t cell = os_load_relaxed(at);

	/* Drains look only at shards in use. */
	if (!cell && !barn_use(cache, cpu))
		return false;
	*sheaf = barn_sheaf(cell);
	if ((cell & BARN_TRANSIT) || !os_cmpxchg(at, &cell, cell | barn_transit(cache)))
		return false;
	if (!in_hand_sees_drain(cache))
		return true;
	os_store_release(at, cell);
	return false;
}

/* Returns a sheaf with room for objects of this node: this one, or NULL, is in their cell. */
static struct sheaf *sheaf_for_node(struct sheaf_cache *cache, struct sheaf *sheaf,
				    unsigned int node)
{
	if (!sheaf)
		return sheaf_new(cache);
	if (sheaf->size && page_node(sheaf->objects[0]) != node)
		sheaf_flush(cache, sheaf, CALL);
	if (sheaf_fits(cache, sheaf))
		return sheaf;
	sheaf_hand_over(cache, sheaf, CALL);
	return sheaf_new(cache);
}

/* Hand a full sheaf over to the node of its objects. Returns an empty one in its place, or NULL. */
static struct sheaf *send_home(struct sheaf_cache *cache, struct sheaf *full, unsigned int node)
{
	struct sheaf *empty, *displaced;
	struct barn_cell cell;
	bool done;

	empty = barn_begin_empty_on(cache, node, &cell);
	done = empty && cell.may_be_full && !sheaf_budget_is_over();
	if (empty)
		barn_finish(cache, &cell, done ? full : NULL);
	if (done) {
		stat_add(&cache->slab, STAT_exchange_full, 1);
		return empty;
	}
	stat_add(&cache->slab, STAT_replace_full_only, 1);
	stat_add(&cache->slab, STAT_barn_get_empty, empty != NULL);
	done = barn_put_full_on(cache, node, full, &displaced);
	stat_add(&cache->slab, done ? STAT_barn_put_only : STAT_barn_put_fail, 1);
	sheaf_hand_over(cache, displaced, CALL);
	if (done)
		return empty;
	sheaf_flush(cache, full, CALL);
	sheaf_hand_over(cache, empty, CALL);
	return full;
}

static struct sheaf *send_checked(struct sheaf_cache *cache, struct sheaf *full, unsigned int cpu,
				  unsigned int node)
{
	idle_not_here();
	sheaf_check_newest(cache, full, CALL);
	if (full->size < full->capacity)
		return full;
	full->filled_by = cpu + 1;
	return send_home(cache, full, node);
}

bool sheaf_free_remote(struct sheaf_cache *cache, void *object)
{
	unsigned int node = page_node(object), cpu = os_cpu();
	uintptr_t *at = cell_for(cache, cpu, node);
	struct sheaf *sheaf;
	bool done;

	sheaf_give_deferred(cache);
	if (!begin(cache, cpu, at, &sheaf))
		return false;
	sheaf = sheaf_for_node(cache, sheaf, node);
	done = sheaf != NULL;
	if (done) {
		stat_add(&cache->slab, STAT_free_fastpath, 1);
		sheaf->objects[sheaf->size] = object;
		sheaf_set_size(sheaf, sheaf->size + 1);
		if (sheaf->size == sheaf->capacity)
			sheaf = send_checked(cache, sheaf, cpu, node);
	}
	os_store_release(at, (uintptr_t)sheaf);
	return done;
}
