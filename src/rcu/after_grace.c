/* SPDX-License-Identifier: MIT */
/* Sheaves whose grace period has passed: taken by allocations, or freed in trims, barriers and
 * drains; see rcu_free.h. */
#include "rcu/rcu_free.h"

#include <string.h>

#include "os/machine.h"
#include "os/options/options.h"
#include "os/tsan.h"
#include "percpu/in_hand.h"
#include "percpu/sheaf.h"
#include "rcu/stat.h"

/* Between two trims. Half: objects needed after a grace period of more than 25 ms look unused.
 * Double: they are held for twice as long. */
#define TRIM_MS 50u
/*
 * The part of the unused objects that is freed. When all were freed, 154 objects of 1000 were freed
 * to slabs and taken from them again (docs/decisions.md). With a smaller part, unused memory is
 * freed more slowly.
 */
#define TRIM_PART 4
/*
 * An allocation takes the newest sheaf, whose objects were used last, unless the oldest is this
 * old. Without a bound, what is left over after a long grace period waited for trims: at a million
 * objects a second, one in a hundred was used again after 126 ms. With 4: after 15 to 19; with 8:
 * 20; with 0: 14 to 19, but then old objects are always used, and an object costs 12 to 18 % more
 * at full speed.
 */
#define OLD_MS 4u
/* Queues of other rows that an allocation tries: each is a cache line. Half: it finds less of
 * what others retired. Double: a search that finds none costs twice as much. */
#define OTHERS 8

/* The grace period of this sheaf has passed: from now on its objects are free. */
static struct sheaf *freed(struct sheaf_rcu *rcu, struct sheaf *sheaf)
{
	sheaf_rcu_passed_fn *passed;

	grace_reused(rcu->user.grace, rcu_bytes_of(rcu, sheaf));
	stat_add(&rcu->cache->slab, STAT_free_fastpath, sheaf_size(sheaf));
	os_store_relaxed(&sheaf->filled_by, SHEAF_COLD);
	sheaf_set_size(sheaf, sheaf_size(sheaf));
	tsan_acquire_all(sheaf->objects, sheaf->size);
	passed = os_load_acquire(&rcu->passed);
	if (os_unlikely(passed))
		passed(rcu->cache, sheaf->objects, sheaf->size);
	/* The readers have finished with them, too. */
	tsan_release_all(sheaf->objects, sheaf->size);
	return sheaf;
}

/* The time before which sheaves are old. */
static uint32_t old_before(struct grace *grace)
{
	uint32_t now = grace_last_end(grace);

	return now > OLD_MS ? now - OLD_MS : 0;
}

/* From any queue of the node: there is no memory. */
static struct sheaf *take_of_all(struct sheaf_rcu *rcu, unsigned int node, uint64_t done)
{
	unsigned int end = (node + 1) * rcu->per_node;
	struct sheaf *sheaf = NULL;

	for (unsigned int at = node * rcu->per_node;
	     !sheaf && (at = rcu_queues_from(rcu, at)) < end; at++)
		sheaf = rcu_queue_take(&rcu->queues[at], done, RCU_NEWEST, true);
	return sheaf;
}

/* From one of a few queues of the node. A search begins where the last one of this row did, so that
 * rows look at different queues first; but if that found nothing, where it ended. */
static struct sheaf *take_of_others(struct sheaf_rcu *rcu, unsigned int node, struct rcu_queue *own,
				    uint64_t done, uint32_t before)
{
	unsigned int begin = node * rcu->per_node, end = begin + rcu->per_node,
		     at = begin + os_load_relaxed(&own->next);
	struct sheaf *sheaf = NULL;

	for (unsigned int i = 0; !sheaf && i < OTHERS; i++, at++) {
		at = rcu_queues_from(rcu, at);
		if (at >= end)
			at = rcu_queues_from(rcu, begin);
		if (at >= end)
			return NULL;
		sheaf = rcu_queue_take(&rcu->queues[at], done, before, false);
	}
	if (!sheaf)
		os_store_relaxed(&own->next, (at - begin) % rcu->per_node);
	return sheaf;
}

struct sheaf *rcu_take(struct sheaf_rcu *rcu, unsigned int node, bool all)
{
	struct rcu_queue *own = rcu_queue_of(rcu, node, os_row());
	uint64_t done = grace_done(rcu->user.grace);
	uint32_t before = old_before(rcu->user.grace);
	struct sheaf *sheaf = rcu_queue_take(own, done, before, true);

	if (!sheaf)
		sheaf = all ? take_of_all(rcu, node, done)
			    : take_of_others(rcu, node, own, done, before);
	return sheaf ? freed(rcu, sheaf) : NULL;
}

void rcu_poll(struct sheaf_rcu *rcu)
{
	grace_poll(rcu->user.grace);
}

/* Move as many objects as the part holds, the newest, to the node's barn. */
static bool put_part(struct sheaf_cache *cache, struct sheaf *sheaf, struct sheaf *part,
		     unsigned int node)
{
	uint32_t n = part->capacity, left = sheaf->size - n;

	tsan_acquire(sheaf);
	tsan_acquire(part);
	memcpy(part->objects, &sheaf->objects[left], n * sizeof(*part->objects));
	tsan_release(part);
	tsan_release(sheaf);
	os_store_relaxed(&part->filled_by, SHEAF_COLD);
	sheaf_set_size(part, n);
	sheaf_set_size(sheaf, left);
	if (sheaf_put_full(cache, node, part))
		return true;
	sheaf_set_size(sheaf, left + n);
	sheaf_set_size(part, 0);
	sheaf_hand_over(cache, part);
	return false;
}

/* A sheaf of retired objects may be larger than those that the barn takes (percpu/flow.c): its
 * objects go there in parts, as long as there is room. */
static void put_parts(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int node)
{
	uint32_t capacity = sheaf_capacity(cache);

	while (capacity < sheaf->capacity && sheaf->size >= capacity &&
	       !in_hand_sees_drain(cache)) {
		struct sheaf *part = sheaf_take_empty(cache, node, NULL);

		if (!part || part->capacity > sheaf->size) {
			sheaf_hand_over(cache, part);
			return;
		}
		if (!put_part(cache, sheaf, part, node))
			return;
	}
}

/* Free and count the objects in hand: to their node's barn if they fill a sheaf and it has room. */
static void flush(struct sheaf_rcu *rcu, struct sheaf *sheaf, unsigned int node)
{
	struct sheaf_cache *cache = rcu->cache;

	/* A drain may already have emptied the barn. */
	if (sheaf->size == sheaf->capacity && sheaf_fits(cache, sheaf) &&
	    !in_hand_sees_drain(cache) && sheaf_put_full(cache, node, sheaf))
		return;
	put_parts(cache, sheaf, node);
	stat_add(&cache->slab, STAT_rcu_flush, sheaf->size);
	sheaf_flush(cache, sheaf);
	sheaf_hand_over(cache, sheaf);
}

/* Free this many passed objects, in whole sheaves, the oldest first. */
static void flush_queue(struct sheaf_rcu *rcu, struct rcu_queue *queue, uint64_t wanted)
{
	unsigned int node = (unsigned int)(queue - rcu->queues) / rcu->per_node;
	uint64_t done = grace_done(rcu->user.grace), n = 0;
	struct sheaf *sheaf;

	while (n < wanted) {
		uint32_t *in_hand = in_hand_begin(rcu->cache);

		sheaf = rcu_queue_take(queue, done, RCU_OLDEST, true);
		if (sheaf) {
			n += sheaf_size(sheaf);
			flush(rcu, freed(rcu, sheaf), node);
		}
		in_hand_end(in_hand);
		if (!sheaf)
			return;
	}
}

/* Of those that have passed now: others may retire objects, and grace periods pass, for as long as
 * this runs. */
struct sheaf *rcu_take_all(struct sheaf_rcu *rcu)
{
	uint64_t done = grace_done(rcu->user.grace);
	struct sheaf *list = NULL, *sheaf;

	rcu_queues_for_each (rcu, queue)
		while ((sheaf = rcu_queue_take(queue, done, RCU_NEWEST, true)) != NULL) {
			sheaf = freed(rcu, sheaf);
			sheaf->next = list;
			list = sheaf;
		}
	return list;
}

/* Objects that were not needed since the last trim are too many. Grace periods vary, and objects
 * that are freed now must come from slabs again in a longer one, so only a part is freed. */
static uint64_t too_much(struct sheaf_rcu *rcu, struct rcu_queue *queue)
{
	uint32_t unused = rcu_queue_unused(queue, grace_done(rcu->user.grace));

	return (unused + TRIM_PART - 1) / TRIM_PART;
}

/* A barrier leaves what allocations will soon take, unless too much is retired, or somebody must
 * hear that it is free. */
static uint64_t beyond_use(struct sheaf_rcu *rcu, struct rcu_queue *queue)
{
	struct grace *grace = rcu->user.grace;

	if (os_load_acquire(&rcu->passed) || grace_is_over_limit(grace))
		return UINT64_MAX;
	return rcu_queue_beyond_use(queue, grace_done(grace));
}

/* True if it is time for a trim. */
static bool trim_is_due(struct sheaf_rcu *rcu)
{
	uint32_t now = os_now_ms();

	if (now - rcu->trimmed_at < TRIM_MS)
		return false;
	rcu->trimmed_at = now;
	return true;
}

void rcu_flush_passed(struct grace_user *user, bool all)
{
	struct sheaf_rcu *rcu = (struct sheaf_rcu *)user;

	if (!all && !trim_is_due(rcu))
		return;
	rcu_queues_for_each (rcu, queue)
		if (!rcu_queue_is_empty(queue))
			flush_queue(rcu, queue,
				    all ? beyond_use(rcu, queue) : too_much(rcu, queue));
}

void sheaf_for_each_retired(struct sheaf_cache *cache, sheaf_visit *visit, void *data)
{
	struct sheaf_rcu *rcu = sheaf_rcu_of(cache);

	rcu_queues_for_each (rcu, queue) {
		/* No thread locks a queue of an inactive cache: see fork in rcu_free.h. */
		if (rcu_queue_is_empty(queue))
			continue;
		os_lock(&queue->lock);
		for (struct sheaf *sheaf = queue->top; sheaf; sheaf = sheaf->next)
			visit(data, sheaf, false);
		for (struct sheaf *sheaf = queue->first; sheaf; sheaf = sheaf->next)
			visit(data, sheaf, !grace_passed(rcu->user.grace, sheaf->number));
		os_unlock(&queue->lock);
	}
}
