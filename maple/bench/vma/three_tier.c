/* SPDX-License-Identifier: MIT */
/* See three_tier.h. Any thread that is registered with liburcu. */
#include <urcu.h>

#include "three_tier.h"

_Static_assert(sizeof(struct sheaf_rcu_head) >= sizeof(struct rcu_head), "liburcu's head fits");

__thread struct three_tier_thread three_tier;
struct cpu_slab *three_tier_caches[2];

/* Called through pthread_once(), by one thread. */
struct kmem_cache *three_tier_create(size_t size)
{
	struct cpu_slab *cache = cpu_slab_create(size, 0);

	if (!cache || three_tier_caches[1])
		abort();
	three_tier_caches[three_tier_caches[0] != NULL] = cache;
	return (struct kmem_cache *)(void *)cache;
}

static void free_batch(struct rcu_head *head)
{
	struct three_tier_batch *batch = (struct three_tier_batch *)(void *)head;

	cpu_slab_free_bulk(batch->cache, batch->objects, batch->n);
	free(batch);
}

void three_tier_hand_over(struct three_tier_batch *batch)
{
	call_rcu((struct rcu_head *)(void *)&batch->head, free_batch);
}

void three_tier_hand_over_all(void)
{
	for (int i = 0; i < 2; i++) {
		if (three_tier.batch[i])
			three_tier_hand_over(three_tier.batch[i]);
		three_tier.batch[i] = NULL;
	}
}
