/* SPDX-License-Identifier: MIT */
/* Slabs that return their pages after a grace period; see rcu_free_slab.h. */
#include "slab/rcu_free_slab.h"

#include "page/pool.h"
#include "slab/partial.h"

/*
 * While a slab waits, all its bits stay set, so that a double free is found. There are two places
 * for bits; the link uses the one without bits.
 */
_Static_assert(sizeof(struct slab) - offsetof(struct slab, bits) >= sizeof(struct grace_link) &&
		       PAGE_WORDS * sizeof(uint64_t) >= sizeof(struct grace_link),
	       "either place has room for a link");

void late_discard(struct slab_cache *cache, struct slab *slab)
{
	uint64_t *place = slab_words(cache, slab) == &slab->bits ? page_words(slab) : &slab->bits;

	grace_list_add(cache->late, (struct grace_link *)place);
	grace_start_later(cache->late->user.grace);
}

static struct slab *slab_of(struct grace_link *link)
{
	size_t page = ((uintptr_t)link - (uintptr_t)pages.words) / (PAGE_WORDS * sizeof(uint64_t));

	if (page < pages.size >> OS_PAGE_SHIFT)
		return pages.slabs + page;
	return (struct slab *)((char *)link - offsetof(struct slab, bits));
}

static void discard(struct grace_list *late, struct grace_link *link)
{
	struct slab *slab = slab_of(link);

	(void)late;
	slab_discard_now(slab->cache, slab);
}

bool late_init(struct slab_cache *cache, struct grace *grace)
{
	struct grace_list *late = page_use_words() ? pool_alloc(sizeof(*late)) : NULL;

	if (!late || !grace_list_init(late, grace, discard)) {
		pool_free(late, sizeof(*late));
		return false;
	}
	cache->late = late;
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
