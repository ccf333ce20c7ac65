/* SPDX-License-Identifier: MIT */
/*
 * Objects in use: whether those of charged caches are charged, and those of a cache that is
 * destroyed. See verify.h.
 *
 * Locks: OS_RANK_DRAIN, for charges. Callers: kmem_group_verify(), kmem_cache_destroy().
 */

#include "cache/account.h"
#include "cache/verify.h"

/* What is in use is charged, or nobody ever paid for it. */
static void find_uncharged(struct check *check, struct slab *slab)
{
	struct slab_cache *cache = &check->s->sheaf.slab;
	uint64_t state = os_load_acquire(&slab->state);

	if (!(state & SLAB_OWNED))
		return;
	check_mark_free(check, slab, state);
	check_mark_sheaves(check, slab, state);
	for (unsigned int i = 0; i < slab_order_of(cache, state).objects; i++) {
		void *object = slab_object(cache, slab, i);

		if (!(check->bits[i / 64] >> i % 64 & 1) &&
		    !os_load_relaxed(owner_at(cache, object)))
			check_fault(check, object,
				    "is in use, but was uncharged. Look for a free of an address "
				    "inside it");
	}
}

static int verify_charges(struct kmem_cache *s)
{
	struct check check = {.s = s, .call = "kmem_group_verify"};

	verify_check_all(&check, find_uncharged);
	return check.faults;
}

/* Debug caches check each free before they uncharge it. In a forked child, threads have
 * vanished with objects in hand. */
int cache_verify_charges(struct kmem_cache *s)
{
	bool all = os_load_relaxed(&s->accounted) == ACCOUNT_ALL;

	return all && !cache_is_checked(s) && !caches.forked ? check_held(s, verify_charges) : 0;
}

/* Mark first: the slab may go with its last object. */
static void give_leaked_of(struct check *check, struct slab *slab)
{
	struct slab_cache *cache = &check->s->sheaf.slab;
	unsigned int objects = slab_order_of(cache, os_load_acquire(&slab->state)).objects;

	memset(check->bits, 0, sizeof(check->bits));
	for (unsigned int i = 0; i < objects; i++)
		if (slab_is_prepared(cache, slab, i) &&
		    debug_end_leak(cache, slab_object(cache, slab, i)))
			check->bits[i / 64] |= UINT64_C(1) << i % 64;
	for (unsigned int i = 0; i < objects; i++) {
		void *object = slab_object(cache, slab, i);

		if (check->bits[i / 64] >> i % 64 & 1)
			slab_give(cache, &object, 1, "kmem_cache_destroy");
	}
}

void cache_give_leaked(struct kmem_cache *s)
{
	struct check check = {.s = s};

	check_each_slab(&check, give_leaked_of);
}

struct live {
	struct check check;
	void **objects;
	size_t room, n;
};

static void find_live(struct check *check, struct slab *slab)
{
	struct live *live = (struct live *)check;
	struct slab_cache *cache = &check->s->sheaf.slab;
	uint64_t state = os_load_acquire(&slab->state);

	check_mark_free(check, slab, state);
	for (unsigned int i = 0; i < slab_order_of(cache, state).objects; i++)
		if (!(check->bits[i / 64] >> i % 64 & 1)) {
			if (live->n < live->room)
				live->objects[live->n] = slab_object(cache, slab, i);
			live->n++;
		}
}

size_t cache_live_objects(struct kmem_cache *s, void **objects, size_t room)
{
	struct live live = {.check = {.s = s}, .objects = objects, .room = room};

	check_each_slab(&live.check, find_live);
	return live.n + guard_live(&s->sheaf.slab, objects + (live.n < room ? live.n : room),
				   live.n < room ? room - live.n : 0);
}
