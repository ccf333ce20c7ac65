/* SPDX-License-Identifier: MIT */
/*
 * Sheaves whose grace period has passed: taken by allocations, or freed in trims, barriers and
 * drains.
 *
 * Callers: src/rcu/rcu_free.c.
 */
#ifndef SHEAF_RCU_PASSED_H
#define SHEAF_RCU_PASSED_H

#include "rcu/rcu_free.h"

/* What allocations, drains and statistics ask for. */
extern const struct sheaf_source_ops rcu_source_ops;

/* In rcu_free.c: `queue` of these. */
bool rcu_queue_sheaf(struct sheaf_source *source, struct sheaf *sheaf, unsigned int row);

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
#define rcu_queues_for_each(rcu, i)                                                                \
	for (unsigned int i = 0; (i = rcu_queues_from((rcu), i)) < rcu_nr_queues(rcu); i++)

static inline uint64_t rcu_bytes_of(const struct sheaf_rcu *rcu, const struct sheaf *sheaf)
{
	return (uint64_t)sheaf_size(sheaf) * rcu->cache->slab.size;
}

#endif
