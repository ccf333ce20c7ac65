/* SPDX-License-Identifier: MIT */
/* Charging objects; see account.h. */
#include "cache/account.h"

#include "cache/block.h"
#include "cache/reclaim.h"
#include "rcu/rcu_free.h"

#define RECLAIMS 16 /* calls of one group's callback for one allocation */

static uint64_t bytes_charged(const struct kmem_cache *s)
{
	return s->sheaf.slab.size;
}

/* --- limits ----------------------------------------------------------------------------------- */

/* Free what `limit` has too much. Returns whether to try again. */
static bool reclaim(gfp_t flags, struct kmem_group *limit, uint64_t bytes, int tries)
{
	bool any = !tries;

	if (!(flags & __GFP_DIRECT_RECLAIM) || tries > RECLAIMS)
		return false;
	/* Retired objects are charged until somebody takes or flushes them. If there are none,
	 * another thread may have just done that. */
	if (!(flags & __GFP_NORETRY))
		any |= reclaim_passed() || (tries && group_reclaim(limit, bytes, NULL));
	stock_drain(limit);
	return any;
}

static OS_COLD bool charge_again(gfp_t flags, uint64_t bytes, uint32_t number,
				 struct kmem_group *limit)
{
	for (int tries = 0; reclaim(flags, limit, bytes, tries); tries++) {
		limit = stock_charge(number, bytes, GROUP_TRY);
		if (!limit)
			return true;
	}
	if (flags & __GFP_NOFAIL)
		return !stock_charge(number, bytes, GROUP_FORCE);
	group_fails(limit);
	return false;
}

bool account_charge(gfp_t flags, uint64_t bytes, uint32_t number)
{
	struct kmem_group *limit = stock_charge(number, bytes, GROUP_TRY);

	return os_likely(!limit) || charge_again(flags, bytes, number, limit);
}

bool account_refuses(const struct kmem_cache *s, gfp_t flags, uint64_t bytes)
{
	uint32_t number = account_wanted(s, flags);

	return number && stock_refuses(number, bytes);
}

/* --- owners ----------------------------------------------------------------------------------- */

uint32_t *account_place(struct kmem_cache *s, void *object, bool wait)
{
	uint32_t *at = owner_at(&s->sheaf.slab, object);

	if (os_unlikely(!at)) {
		if (guard_is_ours(object))
			at = guard_owner(object);
		else if (owner_make(&s->sheaf.slab, object, wait))
			at = owner_at(&s->sheaf.slab, object);
	}
	return at;
}

static bool own(struct kmem_cache *s, void *object, uint32_t number, bool wait)
{
	uint32_t *at = account_place(s, object, wait);

	/* ACCOUNT-A1: the call that frees it looks for the number. */
	os_assert(os_peek(&s->calls.free) != cache_calls_if(s, false).free);
	os_assert(!at || (int32_t)os_peek(at) <= 0); /* ACCOUNT-A2 */
	os_assert(os_peek(&os.watched));	     /* ACCOUNT-A4 */
	if (at)
		os_store_relaxed(at, number);
	return at;
}

/* A place for the number, before anything is charged: it may need reclaim (ACCOUNT-A3). */
static bool make_place(struct kmem_cache *s, gfp_t flags, void *object)
{
	for (int tries = 0; !account_place(s, object, true); tries++)
		if (!reclaim_for(s, flags, tries)) {
			cache_count_failure(s);
			return false;
		}
	return true;
}

/* ACCOUNT-A1: another thread may be in the middle of account_begin(), and this one cannot wait; so
 * it does the same. The call that frees is exchanged last. */
static void begin_unless_begun(struct kmem_cache *s)
{
	if (os_load_relaxed(&s->accounted) != ACCOUNT_ALL &&
	    os_load_acquire(&s->calls.free) == cache_base_calls(s).free)
		account_begin(s, ACCOUNT_FREES);
}

/* Who pays for an allocation from this cache, which is charged from now on; GROUP_NONE: nobody. */
static uint32_t payer(struct kmem_cache *s, gfp_t flags)
{
	uint32_t number = account_wanted(s, flags);

	if (number)
		begin_unless_begun(s);
	return number;
}

/* Nobody pays for these objects of a cache that otherwise charges each (kmem_group_verify()). */
static void take_unpaid(struct kmem_cache *s, size_t n, void *const *objects)
{
	for (size_t i = 0; i < n && os_load_relaxed(&s->accounted) == ACCOUNT_ALL; i++) {
		uint32_t *at = objects[i] ? owner_at(&s->sheaf.slab, objects[i]) : NULL;

		if (at)
			os_store_relaxed(at, OWNER_NOBODY);
	}
}

bool account_taken(struct kmem_cache *s, gfp_t flags, size_t n, void **objects)
{
	uint32_t number = payer(s, flags);

	if (!number) {
		take_unpaid(s, n, objects);
		return true;
	}
	for (size_t i = 0; i < n; i++)
		if (!make_place(s, flags, objects[i]))
			return false;
	if (!account_charge(flags, n * bytes_charged(s), number))
		return false;
	for (size_t i = 0; i < n; i++)
		own(s, objects[i], number, true);
	return true;
}

OS_NOINLINE bool account_taken_nowait(struct kmem_cache *s, gfp_t flags, void *object,
				      enum group_force force)
{
	uint32_t number = payer(s, flags);
	struct kmem_group *limit;

	if (!number) {
		take_unpaid(s, 1, &object);
		return true;
	}
	limit = stock_charge(number, bytes_charged(s), force);
	if (limit)
		group_fails(limit);
	if (limit || own(s, object, number, false))
		return !limit;
	stock_uncharge(number, bytes_charged(s));
	return false;
}

/* A pointer into an object takes no number: it is not freed, wherever that is found. */
static uint32_t take_number(struct kmem_cache *s, void *object)
{
	uint32_t *at = owner_at(&s->sheaf.slab, object), number = owner_number(at);
	struct slab *slab = number ? page_slab(object) : NULL;

	if (!slab || slab_index(&s->sheaf.slab, slab, object) == SLAB_NO_OBJECT)
		return GROUP_NONE;
	os_store_relaxed(at, GROUP_NONE);
	return number;
}

/* Guarded objects give theirs back in cache_free_guarded(). Objects in a row that one group pays
 * for are given back together. */
void account_freed(struct kmem_cache *s, size_t n, void *const *objects)
{
	uint32_t last = GROUP_NONE;
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t number = take_number(s, objects[i]);

		if (bytes && number != last) {
			stock_uncharge(last, bytes);
			bytes = 0;
		}
		last = number;
		bytes += number ? bytes_charged(s) : 0;
	}
	if (bytes)
		stock_uncharge(last, bytes);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void *alloc_on(struct kmem_cache *s, gfp_t flags, int node)
{
	if (node == NUMA_NO_NODE)
		return cache_base_calls(s).alloc(s, flags);
	return cache_alloc_node(s, flags, node);
}

/* NULL: a limit is reached, or there is no memory. */
static void *charge_or_free(struct kmem_cache *s, gfp_t flags, void *object, uint32_t number)
{
	if (object && make_place(s, flags, object) &&
	    account_charge(flags, bytes_charged(s), number)) {
		own(s, object, number, true);
	} else if (object) {
		cache_base_calls(s).free(s, object);
		object = NULL;
	}
	cache_leave();
	return object;
}

void *account_alloc_unpaid(struct kmem_cache *s, gfp_t flags, int node)
{
	void *object = alloc_on(s, flags, node);

	take_unpaid(s, 1, &object);
	return object;
}

void *account_alloc_for(struct kmem_cache *s, gfp_t flags, int node, uint32_t number)
{
	return charge_or_free(s, flags, alloc_on(s, flags, node), number);
}

void *account_finish(struct kmem_cache *s, gfp_t flags, void *object)
{
	owner_take(&s->sheaf.slab, object);
	return charge_or_free(s, flags, object, account_number(s));
}

void *account_alloc(struct kmem_cache *s, gfp_t flags, int node)
{
	uint32_t number = account_wanted(s, flags);
	struct kmem_cache *twin = NULL;

	flags &= ~__GFP_ACCOUNT;
	if (!number)
		return account_alloc_unpaid(s, flags, node);
	if (s->flags & CACHE_KMALLOC && caches.twin)
		twin = caches.twin(s, flags);
	if (twin)
		s = twin;
	else
		begin_unless_begun(s);
	return node == NUMA_NO_NODE ? account_alloc_charged(s, flags)
				    : account_alloc_for(s, flags, node, number);
}

void account_begin(struct kmem_cache *s, uint32_t accounted)
{
	os_store_relaxed(&os.watched, 1);
	/* Pairs with the fence in cache_begin_rcu(): it sees this, or this sees its structure. */
	os_store_relaxed(&s->accounted, (uint16_t)accounted);
	os_fence();
	cache_see_passed(s);
	cache_choose_again(s);
	/* The call that frees last: begin_unless_begun(). */
	os_store_release(&s->calls.free, account_calls(s, s->calls).free);
}

void cache_leave_group(struct kmem_cache *s)
{
	if (s->group)
		group_put(group_of_number(s->group));
	s->group = s->accounted = 0;
}
