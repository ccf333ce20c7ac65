/* SPDX-License-Identifier: MIT */
/*
 * kfree_rcu() and related calls: where a retired object is stored, and whose grace periods it waits
 * for.
 *
 *   one section pushes into the CPU's rcu_free sheaf, or into a remote sheaf for another node; or
 *   else src/rcu/rcu_free.c: a new sheaf; the full one is queued; or else src/rcu/any.c: pointers
 *   of any kind
 *
 * A cache gets its rcu_free sheaves when it first retires an object, so programs without RCU pay
 * nothing. If the program said that there are no readers, no cache gets them: each object reaches
 * the slow path and is freed there.
 */
#include <sheaf/rcu.h>

#include "cache/account.h"
#include "cache/block.h"
#include "cache/hardened.h"
#include "cache/paths.h"
#include "os/rseq.h"
#include "percpu/remote.h"
#include "rcu/rcu_free.h"
#include "rcu/stat.h"
#include "slab/rcu_free_slab.h"

/* The provider of a cache that has retired objects before, or of the process. Here and below, s is
 * NULL for large blocks. */
static struct grace *grace_of_cache(struct kmem_cache *s)
{
	struct sheaf_rcu *rcu = s ? sheaf_rcu_of(&s->sheaf) : NULL;

	return rcu ? rcu->user.grace : grace_of(NULL);
}

static const char *retired_name(const struct kmem_cache *s)
{
	return s ? s->name : "large block";
}

/* The grace period of these objects has passed. */
static void see_passed(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	struct kmem_cache *s = cache_of_slab(&cache->slab);

	for (unsigned int i = 0; i < n; i++)
		hardened_free_waited(s, objects[i]);
	account_freed(s, n, objects);
}

void cache_see_passed(struct kmem_cache *s)
{
	struct sheaf_rcu *rcu = sheaf_rcu_of(&s->sheaf);

	if (rcu)
		os_store_release(&rcu->passed, see_passed);
}

/* One thread does this; others continue without it. Returns false if the cache has no rcu_free
 * sheaves: there is no memory, or the other thread has not finished. */
bool cache_begin_rcu(struct kmem_cache *s, struct grace *grace)
{
	if (os_exchange(&s->rcu_begun, 1))
		return os_load_acquire(&s->sheaf.rcu);
	if (sheaf_rcu_init(&s->sheaf, grace, cache_is_hardened(s) ? see_passed : NULL)) {
		/* Pairs with the fence in account_begin(). */
		os_fence();
		if (cache_is_accounted(s))
			cache_see_passed(s);
		return true;
	}
	os_store_release(&s->rcu_begun, 0);
	return false;
}

struct grace *cache_grace(struct kmem_cache *s, void *object)
{
	struct grace *grace = grace_of_cache(s);

	tsan_release(object);
	if (!grace && !cache_has_no_readers(grace))
		os_fatal("kfree_rcu(%s, %p): there is no RCU provider, and freeing without a grace "
			 "period would be a use after free. Include <urcu.h> and <sheaf/rcu.h>, "
			 "call sheaf_urcu_register(0) first, and link libsheaf-urcu; or see "
			 "sheaf_rcu_register(3)",
			 retired_name(s), object);
	return grace;
}

/* At the first retired object: the process's provider becomes the cache's. */
static struct grace *begin_retiring(struct kmem_cache *s, void *object)
{
	struct grace *grace = cache_grace(s, object);

	if (grace && s && !os_load_acquire(&s->sheaf.rcu) && !cache_begin_rcu(s, grace))
		os_store_relaxed(&s->used_rcu_any, 1);
	return grace;
}

/* In an rcu_free sheaf, or among pointers of any kind. False: there is no memory. */
static bool retire_with(struct grace *grace, struct kmem_cache *s, void *object, size_t offset)
{
	if (s && os_load_acquire(&s->sheaf.rcu) && sheaf_rcu_free(&s->sheaf, object))
		return true;
	if (s) {
		stat_add(&s->sheaf.slab, STAT_free_rcu_sheaf_fail, 1);
		stat_add(&s->sheaf.slab, STAT_rcu_over_limit, grace_is_over_limit(grace));
	}
	return rcu_any_free(grace, object, offset);
}

static bool retire(struct kmem_cache *s, void *object, size_t offset)
{
	struct grace *grace = begin_retiring(s, object);

	if (!grace) {
		cache_free_waited(1, &object, "kfree_rcu");
		return true;
	}
	return retire_with(grace, s, object, offset);
}

bool cache_retire(struct kmem_cache *s, void *object, const char *call)
{
	if (!s)
		return large_retire(object, call);
	if (guard_is_ours(object))
		return guard_retire(&s->sheaf.slab, object, call);
	if (cache_is_checked(s))
		return debug_retire(&s->sheaf.slab, object, call);
	if (cache_is_hardened(s))
		return hardened_retire(s, object, call);
	return slab_leave_out_foreign(&s->sheaf.slab, &object, 1, 1, call);
}

static OS_COLD void retire_slow(struct kmem_cache *s, void *object, size_t offset)
{
	const char *call = offset == RCU_NO_HEAD ? "kmem_cache_free_rcu" : "kfree_rcu";

	/* A hardened cache checks the object first. */
	if (s && !cache_is_hardened(s) && sheaf_push_remote((char *)s, object, true))
		return;
	if (object && !(s && cache_is_gone(s, call)) && cache_retire(s, object, call) &&
	    !retire(s, object, offset))
		os_report("%s(%s, %p): no memory to store the pointer until a grace period has "
			  "passed; the object is leaked. kfree_rcu(pointer, field) needs no memory",
			  call, retired_name(s), object);
	cache_leave();
}

static OS_COLD void retire_other(void *object, size_t offset)
{
	if (!ZERO_OR_NULL_PTR(object))
		retire_slow(cache_of_guarded(object), object, offset);
}

/* Push into this CPU's rcu_free sheaf, in one section, if the cache allows that. The section does
 * not wait for words of the cache, which may be found by the object: see cache_free_found(). */
static OS_ALWAYS_INLINE bool push_at_once(struct kmem_cache *s, void *object)
{
	(void)s;
	(void)object;
#ifdef HAVE_RSEQ
	return s->retires_at_once && rseq_push_rcu(os.rseq_offset, os.id_offset, (char *)s, object);
#else
	return false;
#endif
}

/* Push into it if push_at_once() never does so for this cache. */
static bool push_called(struct kmem_cache *s, void *object)
{
	if (s->retires_at_once)
		return false;
	if (os_watched()) {
		tsan_release(object);
		/* The slow path checks the object first, and then pushes it. */
		if (cache_is_hardened(s))
			return false;
	}
	return section_push_rcu(&s->sheaf.at, object);
}

/* After push_at_once(). The last thing that its callers do, so that they save no registers around
 * the section. */
static OS_NOINLINE void retire_rest(struct kmem_cache *s, void *object, size_t offset)
{
	if (!push_called(s, object))
		retire_slow(s, object, offset);
}

static OS_COLD void retire_to_null(const void *object)
{
	if (object)
		cache_is_unusable(NULL, "kmem_cache_free_rcu");
}

SHEAF_PUBLIC OS_FAST void kmem_cache_free_rcu(struct kmem_cache *s, void *object)
{
	if (os_unlikely(!s))
		retire_to_null(object);
	else if (os_unlikely(!push_at_once(s, object)))
		retire_rest(s, object, RCU_NO_HEAD);
}

SHEAF_PUBLIC void kmem_cache_free_bulk_rcu(struct kmem_cache *s, size_t n, void **p)
{
	if (n && cache_is_null(s, "kmem_cache_free_bulk_rcu"))
		return;
	for (size_t i = 0; i < n; i++)
		kmem_cache_free_rcu(s, p[i]);
}

SHEAF_PUBLIC OS_FAST void __kvfree_rcu(const void *pointer, size_t offset)
{
	void *object = (void *)(uintptr_t)pointer;
	struct slab_cache *owner = page_owner(object);

	if (os_unlikely(!owner))
		retire_other(object, offset);
	else if (os_unlikely(!push_at_once(cache_of_slab(owner), object)))
		retire_rest(cache_of_slab(owner), object, offset);
}

static void retire_or_wait(struct kmem_cache *s, void *object)
{
	struct grace *grace = begin_retiring(s, object);

	if (grace && grace_is_over_limit(grace))
		grace_barrier(grace, NULL);
	if (grace && retire_with(grace, s, object, RCU_NO_HEAD))
		return;
	if (grace) /* There is no memory, and the caller may wait. */
		grace_wait(grace, grace_now(grace));
	cache_free_waited(1, &object, "kfree_rcu_mightsleep");
}

static OS_NOINLINE void retire_sleeping(void *object)
{
	struct slab_cache *owner = page_owner(object);
	struct kmem_cache *s = owner ? cache_of_slab(owner) : NULL;

	if (ZERO_OR_NULL_PTR(object) || (s && push_called(s, object)))
		return;
	if (!s)
		s = cache_of_guarded(object);
	if (cache_retire(s, object, "kfree_rcu_mightsleep"))
		retire_or_wait(s, object);
	cache_leave();
}

SHEAF_PUBLIC OS_FAST void kvfree_rcu_mightsleep(const void *pointer)
{
	void *object = (void *)(uintptr_t)pointer;
	struct slab_cache *owner = page_owner(object);

	if (os_unlikely(!owner) || os_unlikely(!push_at_once(cache_of_slab(owner), object)))
		retire_sleeping(object);
}

static void barrier(struct grace *grace)
{
	rcu_any_barrier(grace, true);
}

SHEAF_PUBLIC void kvfree_rcu_barrier(void)
{
	grace_for_each(barrier);
	cache_leave();
}

SHEAF_PUBLIC void kvfree_rcu_barrier_on_cache(struct kmem_cache *s)
{
	struct sheaf_rcu *rcu;

	if (cache_is_gone(s, "kvfree_rcu_barrier_on_cache"))
		return;
	rcu = sheaf_rcu_of(&s->sheaf);
	if (rcu)
		grace_barrier(rcu->user.grace, &rcu->user);
	if (rcu || os_load_relaxed(&s->used_rcu_any))
		rcu_any_barrier(grace_of_cache(s), false);
	if (s->sheaf.slab.late)
		grace_barrier(s->sheaf.slab.late->user.grace, &s->sheaf.slab.late->user);
	cache_leave();
}
