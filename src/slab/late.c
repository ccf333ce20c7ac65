/* SPDX-License-Identifier: MIT */
/* Slabs that are given back a grace period late; see late.h. */
#include "slab/late.h"

#include "page/pool.h"
#include "slab/partial.h"

/* On no list of its node's, it has these two words for this one. */
_Static_assert(offsetof(struct slab, prev) - offsetof(struct slab, next) ==
		       offsetof(struct grace_link, number),
	       "a slab is linked by next and prev");

void late_discard(struct slab_cache *cache, struct slab *slab)
{
	grace_list_add(cache->late, (struct grace_link *)&slab->next, 0);
	grace_start_later(cache->late->user.grace);
}

static void discard(struct grace_list *late, struct grace_link *link)
{
	struct slab *slab = (struct slab *)((char *)link - offsetof(struct slab, next));

	(void)late;
	partial_discard_now(slab->cache, slab);
}

bool late_init(struct slab_cache *cache, struct grace *grace)
{
	struct grace_list *late = pool_alloc(sizeof(*late));

	if (!late)
		return false;
	cache->late = late;
	grace_list_init(late, grace, discard);
	return true;
}

void late_exit(struct slab_cache *cache)
{
	if (!cache->late)
		return;
	grace_remove_user(&cache->late->user);
	pool_free(cache->late, sizeof(*cache->late));
	cache->late = NULL;
}
