/* SPDX-License-Identifier: MIT */
/*
 * Objects that wait for a grace period, by whole sheaves.
 *
 *   kfree_rcu -> rcu_free of the CPU -- full, or too old --> queue, with a number (grace/grace.h)
 *                                                              |
 *   allocation, main and spare empty, barn too <-- has passed -'-- not asked for --> barn, slabs
 *
 * Objects of another node are not collected in rcu_free but in a remote sheaf (percpu/remote.h),
 * which goes to a queue of that node. So they are home when their grace period has passed.
 *
 * A sheaf that has passed is as good as a full sheaf from the barn. Allocations take the newest,
 * because its objects were used last, or the oldest, once it is old; in steady use nothing else
 * ever touches the objects. Objects that were not needed since the last trim are too many: a part
 * of them is moved to the barn or to slabs, the oldest first. A barrier frees what allocations
 * would not take soon.
 *
 * Invariants
 *  RCU_FREE-U1. An object in an rcu_free sheaf, or in a sheaf whose number has not passed, counts
 *      as in use: no thread writes to it, drains it or frees it.
 *  RCU_FREE-U2. A thread that takes such a sheaf out of its slot, or puts one in, is counted in
 *      rcu_in_hand, by phase, until it has queued what it took. It calls no function of the
 *      provider meanwhile. It activates the user (GRACE-G6) after it is counted, before it puts one
 *      in or queues one.
 *
 * Callers: src/rcu/, src/cache/, src/stats/; src/percpu/ calls what sheaf.h declares.
 */
#ifndef SHEAF_RCU_RCU_FREE_H
#define SHEAF_RCU_RCU_FREE_H

#include "percpu/drain.h"
#include "rcu/queue.h"

/*
 * Most queues of a node: a bit each, and with the structure before them they fill a page. CPUs that
 * share a queue wait for its lock, for one sheaf at a time, and take each other's sheaves. Each
 * queue takes 64 bytes per cache and node, and each callback visits those that were ever used.
 */
#define RCU_QUEUES 62

/* Called for objects whose grace period has passed, before any other thread gets them. */
typedef void sheaf_rcu_passed_fn(struct sheaf_cache *cache, void **objects, unsigned int n);

struct sheaf_rcu {
	struct grace_user user; /* first */
	struct sheaf_cache *cache;
	struct drain drain;
	uint32_t per_node;   /* queues */
	uint32_t remote;     /* objects of other nodes were retired */
	uint32_t trimmed_at; /* in ms */
	uint64_t used;	     /* bits: rows' queues that were ever used, of any node */
	sheaf_rcu_passed_fn *passed;
	struct rcu_queue queues[] __attribute__((aligned(64)));
};

/* The structure of this cache, or NULL. */
static inline struct sheaf_rcu *sheaf_rcu_of(const struct sheaf_cache *cache)
{
	return os_load_acquire(&cache->rcu);
}

/* Let the cache retire objects; passed: NULL, or the function to call for them when they have
 * passed. Returns false if there is no memory. Called by one thread. Never waits. */
bool sheaf_rcu_init(struct sheaf_cache *cache, struct grace *grace, sheaf_rcu_passed_fn *passed);
/* No object may be waiting. */
void sheaf_rcu_exit(struct sheaf_cache *cache);

/* Retire an object of this cache. Returns false if it cannot be retired this way. */
bool sheaf_rcu_free(struct sheaf_cache *cache, void *object);
/* Objects in queues: waiting ones, and ones whose grace period has passed. */
void sheaf_rcu_count(struct sheaf_cache *cache, uint64_t *waiting, uint64_t *passed);

/*
 * Around fork(), with the locks of all providers held, so that no cache stops being active: the
 * queues of active caches; others are empty, and no thread locks them.
 */
void sheaf_rcu_act_on_locks(os_fork_act *act);
/* In the child, before they are unlocked: empty the queues that vanished threads had locked, in
 * caches that became active after fork() took its locks. Returns their number. */
unsigned int sheaf_rcu_reset_in_child(void);

/* --- for rcu_free.c, in after_grace.c --------------------------------------------------------- */

/* Free all objects that have passed, or, if a trim is due, a part of the unused ones. */
void rcu_flush_passed(struct grace_user *user, bool all);

static inline unsigned int rcu_nr_queues(const struct sheaf_rcu *rcu)
{
	return os.nr_nodes * rcu->per_node;
}

/* The queue of this node that this row uses. */
static inline struct rcu_queue *rcu_queue_of(struct sheaf_rcu *rcu, unsigned int node,
					     unsigned int row)
{
	return &rcu->queues[node * rcu->per_node + row % rcu->per_node];
}

/* The first queue from this one on that was ever used; rcu_nr_queues() if there is none. */
static inline unsigned int rcu_queues_from(const struct sheaf_rcu *rcu, unsigned int i)
{
	uint64_t used = os_load_relaxed(&rcu->used);

	for (; i < rcu_nr_queues(rcu); i = (i / rcu->per_node + 1) * rcu->per_node)
		if (used >> i % rcu->per_node)
			return i + (unsigned int)__builtin_ctzll(used >> i % rcu->per_node);
	return i;
}

/* That queue, or NULL; also for NULL, of a cache that never had retired objects. */
static inline struct rcu_queue *rcu_queue_from(struct sheaf_rcu *rcu, unsigned int i)
{
	if (rcu)
		i = rcu_queues_from(rcu, i);
	return rcu && i < rcu_nr_queues(rcu) ? &rcu->queues[i] : NULL;
}
#define rcu_queues_for_each(rcu, queue)                                                            \
	for (struct rcu_queue *queue = rcu_queue_from((rcu), 0); queue;                            \
	     queue = rcu_queue_from((rcu), (unsigned int)(queue - (rcu)->queues) + 1))

static inline uint64_t rcu_bytes_of(const struct sheaf_rcu *rcu, const struct sheaf *sheaf)
{
	return (uint64_t)sheaf_size(sheaf) * rcu->cache->slab.size;
}

#endif
