/* SPDX-License-Identifier: MIT */
/*
 * Retired pointers that cannot go into a sheaf of their cache: objects of caches without sheaves,
 * and large blocks; or objects of any cache while there is no memory.
 *
 * A provider has a few shards. Each has a sheaf that is being filled, under a lock, and a queue as
 * in src/rcu/queue.h. While there is no memory, and in calls that must not wait, objects that
 * contain a head are linked through it; objects without a head are leaked, or not retired.
 *
 *   linked --> object --> object        any thread adds one by a compare-exchange
 *      |
 *   waiting --> object --> object       all have one number: a callback or a barrier moves all that
 *                                       are linked here if none is, and frees them together
 *
 * A head is one word, so it has no room for a number. Readers do not look at it.
 *
 * Invariants
 *  ANY-K1. A shard's standby sheaf is allocated when the previous one comes into use, so that the
 *      shard needs no memory until one sheaf is full. If there was none, later calls try again.
 *  ANY-K2. An address has at most 52 bits, and a head lies below 4096 bytes: a link holds both.
 *  ANY-K3. Objects get on the list that waits only when it is empty, and then all that are linked
 *      do. So a barrier that finds it empty waits once for all that were linked before it, and one
 *      that does not, twice.
 *
 * Locks: OS_RANK_SHARD, one for each shard; OS_RANK_GRACE, for the list that waits.
 * Callers: src/cache/.
 */
#ifndef SHEAF_RCU_ANY_H
#define SHEAF_RCU_ANY_H

#include "grace/grace.h"

#define RCU_NO_HEAD SIZE_MAX

struct rcu_shard;

/* The functions of the layer that knows pointers of every kind. */
struct rcu_any_ops {
	size_t (*size_of)(const void *pointer);
	void (*free)(size_t n, void **pointers, const char *call);
};

/* Create the shards of this provider. Returns false if there is no memory. With OS_RANK_CACHES
 * held. */
bool rcu_any_init(struct grace *grace, const struct rcu_any_ops *ops);

/* Retire a pointer of the library. Returns false if there is no memory to store it. */
bool rcu_any_free(struct grace *grace, void *object, size_t offset);
/*
 * The same without waiting: through the object's head, or in a place that was reserved before.
 * NULL: there is none now. Until the store the caller holds a lock; with NULL, the place is given
 * back.
 */
void rcu_any_link(struct grace *grace, void *object, size_t offset);
struct rcu_shard *rcu_any_reserve(struct grace *grace);
void rcu_any_store(struct grace *grace, struct rcu_shard *place, void *object);
/* Wait for everything that was retired this way: barriers on a cache must call this, too. With
 * `all`, for everything that any user of the provider retired. */
void rcu_any_barrier(struct grace *grace, bool all);

/* Around fork(). */
void rcu_any_act_on_locks(os_fork_act *act);
/* In the child, afterwards. */
void rcu_any_in_child(void);

#endif
