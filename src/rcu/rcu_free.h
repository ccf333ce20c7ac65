/* SPDX-License-Identifier: MIT */
/*
 * Objects that wait for a grace period, by whole sheaves.
 *
 *   kfree_rcu -> rcu_free of the CPU -- full, or too old --> queue, with a number (grace/grace.h)
 *                                                              |
 *   allocation, main and spare empty, barn too <-- has passed -'-- not asked for --> barn, slabs
 *
 * What has passed is as good as a full sheaf of the barn: the newest is allocated from,
 * since its objects were used last, and in steady use nothing else ever touches them. As many as
 * were never needed since the last trim are too many: a part of them goes on to the barn, or to slabs,
 * the oldest first.
 *
 * Invariants
 *  U1. An object in an rcu_free sheaf, or in one whose number has not passed, is in use for
 *      everybody else: not written to, not drained, not free.
 *  U2. Who takes an rcu_free sheaf out of its slot is in rcu_in_hand, by phase, until it is queued.
 *      Nothing of the provider's runs meanwhile.
 *
 * Callers: src/rcu/, src/cache/, src/stats/; src/percpu/ by struct sheaf_source.
 */
#ifndef SHEAF_RCU_RCU_FREE_H
#define SHEAF_RCU_RCU_FREE_H

#include "rcu/queue.h"

/* Of a node, at most. CPUs that share one wait for its lock, for a sheaf at a time; each is 64 bytes a cache and
 * node, and is looked at by each trim. Not measured. */
#define RCU_QUEUES 8

struct sheaf_rcu {
	struct grace_user user; /* first */
	struct sheaf_source source;
	struct sheaf_cache *cache;
	uint32_t per_node; /* queues */
	uint32_t phase;	   /* of rcu_in_hand */
	uint32_t active;   /* sheaves were installed or queued since it was found that none waits */
	uint32_t trimmed_at; /* ms */
	uint64_t unused;
	struct rcu_queue queues[];
};

_Static_assert(offsetof(struct sheaf_rcu, queues) % 64 == 0, "nor does the first one with these");

/* The cache's, or NULL. */
static inline struct sheaf_rcu *sheaf_rcu_of(const struct sheaf_cache *cache)
{
	struct sheaf_source *source = os_load_acquire(&cache->rcu);

	return source ? (struct sheaf_rcu *)((char *)source - offsetof(struct sheaf_rcu, source))
		      : NULL;
}

/* Let the cache retire objects. False: no memory. By one thread. Never waits. */
bool sheaf_rcu_init(struct sheaf_cache *cache, struct grace *grace);
/* Nothing may wait. */
void sheaf_rcu_exit(struct sheaf_cache *cache);

/* Retire an object of this cache. False: not this way. */
bool sheaf_rcu_free(struct sheaf_cache *cache, void *object);
/* Objects in queues: those that wait, and those whose grace period has passed. */
void sheaf_rcu_count(struct sheaf_cache *cache, uint64_t *waiting, uint64_t *passed);

/* Around fork(). */
void sheaf_rcu_lock_for_fork(struct sheaf_cache *cache);
void sheaf_rcu_unlock_after_fork(struct sheaf_cache *cache);

#endif
