/* SPDX-License-Identifier: MIT */
/* Slabs that are given back a grace period late; see late.h. */
#include "slab/late.h"

#include "page/pool.h"
#include "slab/partial.h"

static void push(struct slab_late *late, struct slab *slab)
{
	slab->next = os_load_relaxed(&late->first);
	while (!os_cmpxchg(&late->first, &slab->next, slab))
		;
}

void late_discard(struct slab_cache *cache, struct slab *slab)
{
	struct slab_late *late = cache->late;

	slab->prev = (struct slab *)(uintptr_t)grace_now(late->user.grace);
	push(late, slab);
}

void late_ask(struct slab_cache *cache)
{
	if (cache->late && os_load_relaxed(&cache->late->first))
		grace_want(cache->late->user.grace);
}

static bool waits(struct grace_user *user)
{
	return os_load_relaxed(&((struct slab_late *)user)->first) != NULL;
}

static void flush(struct grace_user *user, bool all)
{
	struct slab_late *late = (struct slab_late *)user;
	struct slab *slab = os_exchange(&late->first, NULL), *next;

	(void)all;
	for (; slab; slab = next) {
		next = slab->next;
		if (grace_passed(user->grace, (uintptr_t)slab->prev))
			partial_discard_now(late->cache, slab);
		else
			push(late, slab);
	}
}

/* Each slab has its number from the beginning. */
static bool collect(struct grace_user *user, uint32_t older_than)
{
	(void)user;
	(void)older_than;
	return true;
}

static const struct grace_user_ops ops = {collect, flush, waits};

bool late_init(struct slab_cache *cache, struct grace *grace)
{
	struct slab_late *late = pool_alloc(sizeof(*late));

	if (!late)
		return false;
	late->cache = cache;
	cache->late = late;
	grace_add_user(grace, &late->user, &ops);
	return true;
}

void late_exit(struct slab_cache *cache)
{
	struct slab_late *late = cache->late;

	if (!late)
		return;
	grace_remove_user(&late->user);
	pool_free(late, sizeof(*late));
	cache->late = NULL;
}
