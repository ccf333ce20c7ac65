/* SPDX-License-Identifier: MIT */
/*
 * The slow paths when main is empty (alloc) or full (free): the kernel's replace-empty-main and
 * replace-full-main, each as two sections. "Replace the spare with the new sheaf, then swap" leaves
 * the old main as the spare: this is the spare rule.
 */
#include "percpu/percpu.h"

#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/probe.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/barn/cells.h"
#include "percpu/idle.h"
#include "percpu/in_hand.h"
#include "percpu/rows.h"
#include "percpu/stat.h"
#include "slab/drain_marks.h"

/*
 * Reverse the objects, because the newest one is popped first: the program then gets low addresses
 * first, in the order of the slab.
 */
static void reverse(void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n / 2; i++) {
		void *object = objects[i];

		objects[i] = objects[n - 1 - i];
		objects[n - 1 - i] = object;
	}
}

/* Returns a sheaf with objects from the slabs, or NULL; it is full unless memory is out. Runs
 * constructors, so nothing may be in hand. */
static struct sheaf *refill(struct sheaf_cache *cache, enum slab_place place)
{
	struct sheaf *sheaf = sheaf_take_empty_spare(cache, sheaf_capacity(cache));
	unsigned int n;

	/* The other nodes may send sheaves to a node that uses the cache. */
	barn_use(cache, os_cpu());
	if (!sheaf)
		sheaf = sheaf_take_empty(cache, os_node(), NULL);
	if (!sheaf)
		return NULL;
	/* SHEAF-H4: what is in the barn as an empty sheaf is empty. */
	os_assert(!sheaf->size && sheaf->capacity);
	n = slab_take(&cache->slab, os_node(), place, sheaf->objects, sheaf->capacity);
	stat_add(&cache->slab, STAT_sheaf_refill, n);
	probe(refill, cache->slab.name, n, os_node());
	sheaf_see_volume(cache);
	reverse(sheaf->objects, n);
	os_store_relaxed(&sheaf->filled_by, 0);
	sheaf_set_size(sheaf, n);
	if (n)
		return sheaf;
	sheaf_hand_over(cache, sheaf);
	return NULL;
}

/* Refill without new slabs of other nodes, unless that recently found nothing. */
static struct sheaf *refill_near(struct sheaf_cache *cache)
{
	struct sheaf *sheaf;

	if (barn_node_is_out(cache))
		return NULL;
	sheaf = refill(cache, SLAB_NEAR_NODE);
	if (os.nr_nodes > 1)
		barn_set_node_out(cache, !sheaf);
	return sheaf;
}

/* Take an object for the caller of an allocation: it counts as a pop, although the sheaf is not in
 * a slot yet. */
static void *take_newest(struct sheaf *full)
{
	void *object = full->objects[full->size - 1];

	os_store_relaxed(&full->word, full->word + (os.counting ? SHEAF_POP : 0) - 1);
	return object;
}

/*
 * Another CPU filled the sheaf: prefetch all its pointers, newest first. Otherwise allocations
 * would wait for one line after another.
 */
static void prefetch_pointers(const struct sheaf *full)
{
	for (unsigned int n = sheaf_size(full); n > 8; n -= 8)
		__builtin_prefetch(&full->objects[n - 1]);
}

/* After this, objects may also be pushed here. */
static bool can_install(struct sheaf_cache *cache)
{
	return cache->barns && !os_load_relaxed(&cache->at.stop) && os_registered() &&
	       rows_open_here(cache->at.handle);
}

/* Install a full sheaf in place of an empty main. Returns what its cell in the barn should hold
 * now: the empty sheaf that it replaced, or NULL; other sheaves are handed over here. */
static struct sheaf *install_full(struct sheaf_cache *cache, struct sheaf *full)
{
	struct sheaf *old = NULL;

	sheaf_arm(cache, full);
	slab_mark(&cache->slab, MARK_SHEAVES);
	if (!section_replace_spare(&cache->at, full, &old)) {
		sheaf_hand_over(cache, full);
		return NULL;
	}
	/* SHEAF-H1 */
	os_assert(old != full);
	section_swap_empty(&cache->at);
	if (OS_BENCH_OPTION(no_spare_rule)) {
		sheaf_hand_over(cache, old);
		if (!section_replace_spare(&cache->at, NULL, &old))
			return NULL;
	}
	if (!old || old == &sheaf_bootstrap)
		return NULL;
	sheaf_harvest(cache, old);
	if (old->size == 0 && sheaf_fits(cache, old))
		return old;
	sheaf_hand_over(cache, old);
	return NULL;
}

/* Move a full sheaf from this node's barn into the slot, except the object that is returned. NULL:
 * there is none. */
static void *alloc_from_barn(struct sheaf_cache *cache, unsigned int node)
{
	struct barn_cell cell;
	struct sheaf *full = barn_begin_full(cache, node, &cell), *left;
	void *object;

	if (full && in_hand_sees_drain(cache)) {
		barn_finish(cache, &cell, full);
		full = NULL;
	}
	if (!full) {
		stat_add(&cache->slab, STAT_barn_get_fail, 1);
		probe(barn_get_fail, cache->slab.name, node);
		return NULL;
	}
	if (full->filled_by != cell.cpu + 1)
		prefetch_pointers(full);
	sheaf_flow(cache, full, cell.cpu);
	object = take_newest(full);
	left = install_full(cache, full);
	if (left && sheaf_budget_is_over()) {
		sheaf_release(cache, left);
		left = NULL;
	}
	stat_add(&cache->slab, left ? STAT_exchange_empty : STAT_barn_get_only, 1);
	probe(barn_get, cache->slab.name, full, cell.cpu);
	barn_finish(cache, &cell, left);
	return object;
}

/* This CPU's partial sheaf, or one of the node whose grace period has passed; or NULL. */
static struct sheaf *take_other(struct sheaf_cache *cache, unsigned int node, struct sheaf_rcu *rcu,
				bool all)
{
	struct sheaf *sheaf = node == os_node() ? barn_take_partial(cache) : NULL;

	if (!sheaf && rcu) {
		sheaf = rcu_take(rcu, node, all);
		stat_add(&cache->slab, STAT_rcu_reuse, sheaf != NULL);
	}
	return sheaf;
}

/* Allocate from such a sheaf. */
static void *alloc_from_other(struct sheaf_cache *cache, unsigned int node, bool all)
{
	struct sheaf_rcu *rcu = os_load_acquire(&cache->rcu);
	struct sheaf *full = NULL;
	void *object = NULL;
	uint32_t *in_hand;

	if (rcu)
		rcu_poll(rcu);
	else if (!barn_has_partial(cache))
		return NULL;
	in_hand = in_hand_begin(cache);
	if (!in_hand_sees_drain(cache))
		full = take_other(cache, node, rcu, all);
	if (full) {
		sheaf_flow(cache, full, os_cpu());
		object = take_newest(full);
		sheaf_hand_over(cache, install_full(cache, full));
	}
	in_hand_end(in_hand);
	return object;
}

/* Take a whole sheaf of this node, return its first object, and leave the rest to this CPU. NULL:
 * there is no sheaf. all: look at each place where one may wait for a grace period. */
static void *alloc_from_whole(struct sheaf_cache *cache, unsigned int node, bool all)
{
	void *object = alloc_from_barn(cache, node);

	idle_mark_busy();
	return object ? object : alloc_from_other(cache, node, all);
}

/*
 * This node has no memory. Its CPUs send what they free to other nodes: take it from there, and
 * only then from slabs, whose lock all those CPUs would wait for.
 */
static OS_COLD void *alloc_from_other_nodes(struct sheaf_cache *cache)
{
	unsigned int node = os_node();
	void *object = NULL;

	for (uint32_t i = 1; !object && i < os.nr_nodes; i++)
		object = alloc_from_whole(cache, os_near(node, i), true);
	return object;
}

/* Kernel: __pcs_replace_empty_main(). NULL: there is no sheaf, or none can be installed. */
static void *replace_empty_main(struct sheaf_cache *cache)
{
	struct sheaf *full;
	uint32_t *in_hand;
	void *object;

	if (!can_install(cache))
		return NULL;
	object = alloc_from_whole(cache, os_node(), false);
	if (object)
		return object;
	full = refill_near(cache);
	if (!full && os.nr_nodes > 1) {
		object = alloc_from_other_nodes(cache);
		if (object)
			return object;
		full = refill(cache, SLAB_PREFER_NODE);
	}
	/* No memory. What the first search only saw may be taken now. */
	if (!full) {
		object = alloc_from_whole(cache, os_node(), true);
		return object ? object : alloc_from_other_nodes(cache);
	}
	object = take_newest(full);
	in_hand = in_hand_begin(cache);
	sheaf_hand_over(cache, install_full(cache, full));
	in_hand_end(in_hand);
	return object;
}

/* Install an empty sheaf, with this object, in place of a full main. Returns the sheaf that it
 * replaced, or the new sheaf if it cannot be installed. */
static struct sheaf *install_empty(struct sheaf_cache *cache, struct sheaf *empty, void *object,
				   unsigned int cpu)
{
	struct sheaf *old = empty;

	empty->objects[0] = object;
	os_store_relaxed(&empty->word, 1);
	sheaf_arm(cache, empty);
	slab_mark(&cache->slab, MARK_SHEAVES);
	if (section_replace_spare(&cache->at, empty, &old)) {
		/* SHEAF-H1 */
		os_assert(old != empty);
		section_swap_full(&cache->at);
	}
	if (!old || old == &sheaf_bootstrap)
		return NULL;
	sheaf_harvest(cache, old);
	sheaf_check_newest(cache, old, EARLIER_FREE);
	os_store_relaxed(&old->filled_by, cpu + 1);
	return old;
}

/*
 * The barn has no room for the full spare: give its objects to their slabs, and make it the main,
 * with no search for an empty one. False: there is room, or there was no spare of the cache's
 * capacity.
 */
static bool reuse_full_spare(struct sheaf_cache *cache, void *object)
{
	uint32_t *in_hand;
	struct sheaf *spare;
	bool fits;

	if (barn_has_room(cache))
		return false;
	barn_note_imbalance(cache, os_cpu(), true);
	in_hand = in_hand_begin(cache);
	spare = sheaf_take_spare(cache);
	fits = spare && sheaf_fits(cache, spare);
	if (fits) {
		stat_add(&cache->slab, STAT_replace_full_only, 1);
		stat_add(&cache->slab, STAT_barn_put_fail, 1);
		sheaf_see_volume(cache);
		sheaf_flush(cache, spare);
		spare = install_empty(cache, spare, object, spare->filled_by - 1);
	}
	sheaf_hand_over(cache, spare);
	in_hand_end(in_hand);
	return fits;
}

/* Kernel: __pcs_replace_full_main(), with the object in the new main. False: no empty sheaf. */
static bool replace_full_main(struct sheaf_cache *cache, void *object)
{
	struct sheaf *empty, *old;
	struct barn_cell cell;
	uint32_t *in_hand = NULL;
	bool exchanged;

	idle_mark_busy();
	if (!can_install(cache))
		return false;
	if (reuse_full_spare(cache, object))
		return true;
	empty = sheaf_begin_empty(cache, os_node(), NULL, &cell);
	if (!empty) {
		empty = sheaf_new(cache);
		if (!empty)
			return false;
		in_hand = in_hand_begin(cache);
	}
	old = install_empty(cache, empty, object, cell.cpu);
	exchanged = !in_hand && cell.may_be_full && old && old->size == old->capacity &&
		    !sheaf_budget_is_over();
	stat_add(&cache->slab, exchanged ? STAT_exchange_full : STAT_replace_full_only, 1);
	stat_add(&cache->slab, STAT_barn_get_empty, !in_hand && !exchanged);
	if (!exchanged) {
		sheaf_hand_over(cache, old);
		old = NULL;
	}
	if (in_hand)
		in_hand_end(in_hand);
	else
		barn_finish(cache, &cell, old);
	return true;
}

/*
 * Returns a sheaf of the cache's capacity with the objects of this one, which is freed. The objects
 * stay on this CPU: in the barn, a full sheaf of the old capacity would be the next one that this
 * CPU gets, and so on. NULL: no memory.
 */
static struct sheaf *renewed(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	struct sheaf *fresh = sheaf_new(cache);

	/* There is room, unless the capacity has just decreased. */
	if (fresh && sheaf->size <= fresh->capacity) {
		os_store_relaxed(&fresh->filled_by, sheaf->filled_by);
		sheaf_move(fresh, sheaf, sheaf->size);
	}
	sheaf_hand_over(cache, sheaf);
	return fresh;
}

/* Replace a spare sheaf of an old capacity with a new one. */
static void renew_spare(struct sheaf_cache *cache)
{
	uint32_t *in_hand = in_hand_begin(cache);
	struct sheaf *spare = sheaf_take_spare(cache);

	if (spare && !sheaf_fits(cache, spare)) {
		sheaf_check_newest(cache, spare, EARLIER_FREE);
		spare = renewed(cache, spare);
	}
	/* The spare that it replaced, or itself if it cannot be put in. */
	if (spare) {
		sheaf_arm(cache, spare);
		section_replace_spare(&cache->at, spare, &spare);
		sheaf_hand_over(cache, spare);
	}
	in_hand_end(in_hand);
}

/* After a section that may have swapped main and spare; returns whether it did. */
static bool swapped(struct sheaf_cache *cache, bool done)
{
	if (!done)
		return false;
	idle_mark_busy();
	if (sheaf_see_volume(cache) && can_install(cache))
		renew_spare(cache);
	return true;
}

void *sheaf_alloc(struct sheaf_cache *cache)
{
	void *object;

	sheaf_give_deferred(cache);
	/* If there is nothing to swap, the fast path may only have been interrupted. */
	swapped(cache, section_swap_empty(&cache->at));
	object = section_pop(&cache->at);
	return object ? object : replace_empty_main(cache);
}

bool sheaf_free(struct sheaf_cache *cache, void *object)
{
	sheaf_give_deferred(cache);
	swapped(cache, section_swap_full(&cache->at));
	return section_push(&cache->at, object) || replace_full_main(cache, object);
}

unsigned int sheaf_alloc_bulk(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	unsigned int done = 0;

	while (done < n) {
		unsigned int got = sheaf_pop_bulk(cache, objects + done, n - done);

		done += got;
		if (got || swapped(cache, section_swap_empty(&cache->at)))
			continue;
		objects[done] =
			can_install(cache) ? alloc_from_whole(cache, os_node(), false) : NULL;
		if (!objects[done])
			break;
		done++;
	}
	return done;
}

unsigned int sheaf_free_bulk(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	unsigned int done = 0;

	while (done < n) {
		unsigned int got = section_push_bulk(&cache->at, objects + done, n - done);

		done += got;
		if (got || swapped(cache, section_swap_full(&cache->at)))
			continue;
		if (!replace_full_main(cache, objects[done]))
			break;
		done++;
	}
	return done;
}
