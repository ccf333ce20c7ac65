/* SPDX-License-Identifier: MIT */
/* Objects of other nodes on their way home; see remote.h. */
#include "percpu/remote.h"

#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/idle.h"
#include "percpu/in_hand.h"
#include "percpu/percpu.h"
#include "percpu/rows.h"
#include "slab/drain_marks.h"

/* Hand a full sheaf over to the node of its objects. Returns an empty one in its place, or NULL. */
static struct sheaf *send_home(struct sheaf_cache *cache, struct sheaf *full, unsigned int node)
{
	uint16_t place = full->place;
	struct sheaf *empty;
	struct barn_cell cell;
	bool done;

	empty = barn_begin_empty(cache, node, &place, &cell);
	if (empty)
		os_store_relaxed(&empty->place, place);
	done = empty && cell.may_be_full && !sheaf_budget_is_over();
	if (empty)
		barn_finish(cache, &cell, done ? full : NULL);
	if (done) {
		stat_add(&cache->slab, STAT_exchange_full, 1);
		return empty;
	}
	stat_add(&cache->slab, STAT_replace_full_only, 1);
	stat_add(&cache->slab, STAT_barn_get_empty, empty != NULL);
	if (sheaf_put_full(cache, node, full))
		return empty;
	sheaf_flush(cache, full);
	sheaf_hand_over(cache, empty);
	return full;
}

static struct sheaf *send_checked(struct sheaf_cache *cache, struct sheaf *full, unsigned int node)
{
	idle_mark_busy();
	sheaf_check_newest(cache, full, EARLIER_FREE);
	if (full->size < full->capacity)
		return full;
	os_store_relaxed(&full->filled_by, os_cpu() + 1);
	return send_home(cache, full, node);
}

void sheaf_remote_taken(struct sheaf *sheaf)
{
	sheaf_set_size(sheaf, sheaf->size);
}

bool sheaf_give_remote(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	/* REMOTE-M1 */
	os_assert(!sheaf || remote_is_right(sheaf, (sheaf->filled_by - 1) & 1));
	if (sheaf && remote_is_retired(sheaf))
		return rcu_queue_sheaf(cache->rcu, sheaf, os_row());
	if (sheaf) {
		sheaf_remote_taken(sheaf);
		sheaf_flush_and_release(cache, sheaf);
	}
	return false;
}

/* Returns a sheaf with room for objects of this node, made from the one that was collected, or
 * NULL. */
static struct sheaf *sheaf_for_node(struct sheaf_cache *cache, struct sheaf *sheaf,
				    unsigned int node)
{
	uint16_t place = sheaf ? sheaf->place : 0;
	unsigned int of;

	if (!sheaf)
		return sheaf_new(cache);
	/* REMOTE-M1 */
	os_assert(remote_is_right(sheaf, false));
	of = remote_node(sheaf);
	sheaf_remote_taken(sheaf);
	if (sheaf->size == sheaf->capacity)
		sheaf = send_checked(cache, sheaf, of);
	if (sheaf && sheaf->size && of != node)
		sheaf_flush(cache, sheaf);
	os_assert(!sheaf || sheaf->size < sheaf->capacity);
	if (sheaf && sheaf_fits(cache, sheaf))
		return sheaf;
	if (sheaf)
		sheaf_flush_and_release(cache, sheaf);
	sheaf = sheaf_new(cache);
	if (sheaf)
		os_store_relaxed(&sheaf->place, place);
	return sheaf;
}

/* Put the sheaf into the cell, with the object. */
static void install_remote(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int node,
			   void *object)
{
	unsigned int kind = remote_kind(node, false);
	struct sheaf *old = sheaf;

	stat_add(&cache->slab, STAT_free_fastpath, 1);
	sheaf->objects[sheaf->size] = object;
	sheaf_set_size(sheaf, sheaf->size + 1);
	os_store_relaxed(&sheaf->filled_by, kind + 1);
	/* REMOTE-M1 */
	os_assert(sheaf->size <= sheaf->capacity && remote_is_right(sheaf, false));
	slab_mark(&cache->slab, MARK_SHEAVES);
	section_replace_remote(&cache->at, kind, sheaf, &old);
	/* Another thread was here meanwhile, or a drain has begun. */
	sheaf_give_remote(cache, old);
}

/* The sheaf is full, or missing. Returns false if the object must go to its slab. */
static bool replace_remote(struct sheaf_cache *cache, void *object, unsigned int node)
{
	struct sheaf *sheaf = NULL;
	uint32_t *in_hand;
	bool done;

	if (os_load_relaxed(&cache->at.stop) || !os_registered() ||
	    !rows_open_here(cache->at.handle))
		return false;
	in_hand = in_hand_begin(cache);
	done = section_replace_remote(&cache->at, remote_kind(node, false), NULL, &sheaf);
	if (done) {
		sheaf = sheaf_for_node(cache, sheaf, node);
		done = sheaf != NULL;
	}
	if (done)
		install_remote(cache, sheaf, node, object);
	in_hand_end(in_hand);
	return done;
}

bool sheaf_free_remote(struct sheaf_cache *cache, void *object)
{
	unsigned int node = page_node(object);

	sheaf_give_deferred(cache);
	return sheaf_push_freed(cache, cache->at.handle, object) ||
	       replace_remote(cache, object, node);
}
