/* SPDX-License-Identifier: MIT */
/* Reaches every CPU's sheaves; see drain.c, fork.c, each.c. Callers: src/rcu/, src/cache/. */
#ifndef SHEAF_PERCPU_DRAIN_H
#define SHEAF_PERCPU_DRAIN_H

#include "os/lock.h"
#include "percpu/sheaf.h"

/* Empty every CPU's slots and every barn into the slabs, wait for sheaves in hand, and free empty
 * slabs. Returns false if only this CPU's slot could be reached. */
bool sheaf_drain(struct sheaf_cache *cache);
/* sheaf_drain(), if the cache's marks say that there may be something (slab/drain_marks.h). Returns
 * false if there was nothing. */
bool sheaf_drain_marked(struct sheaf_cache *cache);
/* Only sheaves whose grace period has passed. Returns false if there was none. */
bool sheaf_flush_passed(struct sheaf_cache *cache);
/* Return when what a drain in progress found is free. */
void sheaf_wait_for_drain(void);

/* One of several caches that are drained together. */
struct drain {
	struct drain *next;
	struct sheaf_cache *cache;
	/* Only rows first <= row < end, of these those with a bit in `rows` (NULL: each), and not
	 * those that are locked now; end = 0: all. */
	unsigned int first, end;
	const uint64_t *rows;
	struct sheaf *taken;
};

/*
 * Empty slots of these caches, with one pair of barriers for all of them. Objects return to their
 * slabs; but of idle rows, `rows`, this CPU may keep a partial sheaf of each cache. Waits for
 * nothing: what other threads have in hand stays with them. For a caller that keeps other drains
 * away.
 */
void sheaf_drain_rows(struct drain *first);

/* Queue every CPU's sheaves of retired objects of these caches, with one pair of barriers for all
 * of them, while no other drain can run. Returns false if not all were reached. */
bool drain_rcu(struct drain *first);

/* Queue the sheaves of retired objects that were taken. */
void drain_queue_taken(struct drain *drain);

/* Call visit for each sheaf of a quiet cache. */
void sheaf_for_each(struct sheaf_cache *cache, sheaf_visit *visit, void *data);

/* Held by a drain; also by fork(), and by housekeeping, which does not wait for it. */
extern struct os_lock sheaf_drains;
/* In a forked child of a process that counts events: the counts of the slots' sheaves until then
 * belong to the parent. */
void sheaf_begin_counts(struct sheaf_cache *cache);
/* In a forked child: queue the sheaves of retired objects, and forget those that vanished threads
 * had in hand; returns the latters' number. */
unsigned int sheaf_after_fork(struct sheaf_cache *cache);

/* --- taken.c: what a drain takes from a slot and may put back --------------------------------- */

/* In taken_from, with the row: from where in its slot. */
enum taken_place {
	TAKEN_MAIN,
	TAKEN_SPARE,
	TAKEN_REMOTE, /* and the number of its cell */
	TAKEN_PLACES = TAKEN_REMOTE + SLOT_REMOTE
};

/* Take main, spare and remote sheaves of freed objects; or, retired, rcu_free and those of retired
 * ones. Leaves the bootstrap sheaf. */
void taken_take(struct slot *slot, unsigned int row, struct sheaf **list, bool retired);
/* Undo this for one of the sheaves. */
void taken_put_back(struct slot *slot, struct sheaf *sheaf, bool retired);

static inline unsigned int taken_row(const struct sheaf *taken)
{
	return (unsigned int)(taken->taken_from / TAKEN_PLACES);
}

static inline unsigned int taken_place_of(const struct sheaf *taken)
{
	return (unsigned int)(taken->taken_from % TAKEN_PLACES);
}

#endif
