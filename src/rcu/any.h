/* SPDX-License-Identifier: MIT */
/*
 * Retired pointers that cannot go into an rcu_free sheaf: of other nodes, of caches without sheaves,
 * large blocks; or of any cache, while memory is out.
 *
 * A provider has a few shards, each with a sheaf that is being filled, under a lock, and a queue as in
 * src/rcu/queue.h. When memory is out, pointers with a head in them are linked by that (grace/list.h),
 * tagged with the head's offset; those without wait for nobody to know of them any more, and are leaked.
 *
 * Invariants
 *  K1. A shard's standby sheaf is made when the last one came into use, so that memory may be out for as
 *      long as it takes to fill one.
 *
 * Locks: OS_RANK_SHARD, one for each shard. Callers: src/cache/.
 */
#ifndef SHEAF_RCU_ANY_H
#define SHEAF_RCU_ANY_H

#include "grace/grace.h"

#define RCU_NO_HEAD SIZE_MAX

/* What the layer that knows pointers of every kind does with them. */
struct rcu_any_ops {
	size_t (*size_of)(const void *pointer);
	void (*free)(size_t n, void **pointers, const char *call);
};

/* Make the shards of this provider. False: no memory. With OS_RANK_CACHES. */
bool rcu_any_init(struct grace *grace, const struct rcu_any_ops *ops);

/* Retire a pointer of the library's. False: no memory to keep it. */
bool rcu_any_free(struct grace *grace, void *object, size_t offset);
/* Is anything retired this way? Then barriers on a cache must look here, too. */
void rcu_any_barrier(struct grace *grace);

/* Around fork(). */
void rcu_any_lock_for_fork(void);
void rcu_any_unlock_after_fork(void);

#endif
