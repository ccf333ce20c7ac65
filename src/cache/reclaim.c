/* SPDX-License-Identifier: MIT */
/* Reclaims free memory of all caches, and what shrinkers can free; limits; sheaf_trim(). See
 * reclaim.h. */
#include "cache/reclaim.h"
#include "cache/paths.h"

#include <sheaf/limit.h>

#include "cache/list.h"
#include "cache/shrinkers.h"
#include "os/memory.h"
#include "page/page.h"
#include "percpu/drain.h"
#include "percpu/sheaf.h"
#include "slab/drain_marks.h"
#include <sheaf/trim.h>

/* A part of what shrinkers have: 1/8, as they count it. */
#define SOFT_PART 3

static uint32_t soft_at; /* when shrinkers were last asked, in ms */
/* What had happened when all marked caches were last emptied, and all passed objects freed: numbers
 * that grow, of bits that were set, and of grace periods. Each of the two is right by itself. */
struct happened {
	uint64_t marked, passed;
};
static struct happened reclaimed, flushed;

/* Empty the sheaves, quarantines and empty slabs of all caches. A cache that is being destroyed is
 * emptied by the thread that does that. */
static void reclaim_caches(void)
{
	for (struct kmem_cache *s = list_next(NULL); s; s = list_next(s)) {
		if (!os_load_relaxed(&s->nr_names))
			continue;
		sheaf_forget_flow(&s->sheaf);
		cache_see_flow(s);
		cache_give_up_free(s);
	}
}

void reclaim_quarantine(struct kmem_cache *s, bool wait)
{
	bool locked = !wait && os_trylock(&sheaf_drains);

	if (wait)
		os_lock(&sheaf_drains);
	quarantine_drain(s ? &s->sheaf.slab : NULL, false);
	if (wait || locked)
		os_unlock(&sheaf_drains);
}

bool reclaim_own_limit_refuses(const struct kmem_cache *s)
{
	size_t limit = os_load_relaxed(&slab_rest(&s->sheaf.slab)->limit);

	return limit &&
	       slab_held_bytes(&s->sheaf.slab) + (OS_PAGE << s->sheaf.slab.min.order) > limit;
}

static bool reclaim_marked_cache(struct kmem_cache *s)
{
	if (!sheaf_drain_marked(&s->sheaf))
		return false;
	sheaf_forget_flow(&s->sheaf);
	cache_see_flow(s);
	return true;
}

static bool is_marked(const struct kmem_cache *s)
{
	return os_load_relaxed(&s->nr_names) &&
	       (slab_marks(&s->sheaf.slab) || os_load_relaxed(&s->sheaf.rcu));
}

/* Which caches to visit, and what to do there; returns whether there was anything. */
struct visits {
	bool (*wanted)(const struct kmem_cache *s);
	bool (*each)(struct kmem_cache *s);
};

static bool visit_all(const struct visits *visits)
{
	bool any = false;

	for (struct kmem_cache *s = list_next_if(NULL, visits->wanted); s;
	     s = list_next_if(s, visits->wanted))
		any |= visits->each(s);
	return any;
}

/* Of the bits with these numbers. */
static bool visit_marked(uint64_t from, uint64_t to, const struct visits *visits)
{
	bool any = false, lost = to - from > MARK_LAST;

	for (uint64_t number = from; number != to && !lost; number++) {
		struct kmem_cache *s = list_pin_marked(number, &lost);

		if (!s)
			continue;
		if (visits->wanted(s))
			any |= visits->each(s);
		list_unpin(s);
	}
	if (lost)
		any |= visit_all(visits);
	return any;
}

/*
 * Visit the caches where something may have become free since *seen. After a grace period, or while
 * a thread is about to set a bit, that may be any (MARKS-F4); else it is those whose bits were set
 * (MARKS-F5). A bit that is about to be set may have an older number than others that are set, so
 * then seen->marked stays as it was.
 */
static bool visit_caches(struct happened *seen, const struct visits *visits)
{
	uint64_t from = os_load_acquire(&seen->marked), to, passed;
	bool any, marking;

	grace_for_each(grace_poll);
	to = os_load_acquire(&slab_marked.n);
	marking = slab_is_marking(to);
	passed = grace_all_done();
	if (marking || passed != os_load_relaxed(&seen->passed))
		any = visit_all(visits);
	else
		any = visit_marked(from, to, visits);
	os_store_release(&seen->passed, passed);
	if (!marking)
		os_store_release(&seen->marked, to);
	sheaf_wait_for_drain();
	return any;
}

static bool reclaim_marked(void)
{
	return visit_caches(&reclaimed, &(const struct visits){is_marked, reclaim_marked_cache});
}

static bool retires(const struct kmem_cache *s)
{
	return os_load_relaxed(&s->nr_names) && os_load_relaxed(&s->sheaf.rcu);
}

static bool flush_passed_of(struct kmem_cache *s)
{
	return sheaf_flush_passed(&s->sheaf);
}

bool reclaim_passed(void)
{
	return visit_caches(&flushed, &(const struct visits){retires, flush_passed_of});
}

/* One thread at a time, as for drains. */
static void wait_for_returns(void)
{
	if (!page_is_returning())
		return;
	os_lock(&sheaf_drains);
	page_wait_returning();
	os_unlock(&sheaf_drains);
}

bool reclaim_everything(struct kmem_cache *s, gfp_t flags)
{
	bool asks = gfpflags_allow_blocking(flags) && shrinkers_exist(), any;

	if (asks)
		shrinkers_run(flags, 0);
	/* The first time for slabs, which this thread then finds, the second time for pages. */
	page_begin_last_look();
	wait_for_returns();
	any = s ? reclaim_marked_cache(s) : reclaim_marked();
	page_end_last_look();
	if (s) {
		sheaf_wait_for_drain();
	} else {
		page_trim();
		wait_for_returns();
	}
	return asks || any;
}

/* The first time what no function of the program is needed for. */
static bool reclaim_some(struct kmem_cache *s)
{
	bool any = s ? reclaim_marked_cache(s) : reclaim_marked();

	if (!s || !reclaim_own_limit_refuses(s))
		page_trim();
	return any;
}

bool reclaim_for(struct kmem_cache *s, gfp_t flags, int tries)
{
	bool may_reclaim = (flags & __GFP_DIRECT_RECLAIM) && !(flags & __GFP_NORETRY);
	bool rested = (!tries || flags & __GFP_NOFAIL) && quarantine_bytes(), any;

	/* This is no reclaim: the objects are free already. */
	if (rested)
		reclaim_quarantine(NULL, may_reclaim);
	if (!(flags & __GFP_NOFAIL) && (tries > 1 || !may_reclaim))
		return rested;
	if (!tries)
		any = reclaim_some(s);
	else
		any = reclaim_everything(s && reclaim_own_limit_refuses(s) ? s : NULL, flags);
	cache_leave();
	if (tries && (any || flags & __GFP_NOFAIL))
		os_sleep_briefly();
	return true;
}

void reclaim_above_soft(gfp_t flags)
{
	uint32_t now = os_now_ms(), at = os_load_relaxed(&soft_at);

	if (shrinkers_exist() && now - at >= RECLAIM_SOFT_MS && os_cmpxchg(&soft_at, &at, now))
		shrinkers_run(flags, SOFT_PART);
}

static bool is_above(size_t hard)
{
	return hard && os_load_relaxed(&page_limit.held) > hard >> OS_PAGE_SHIFT;
}

SHEAF_PUBLIC int sheaf_set_limits(size_t soft, size_t hard)
{
	if (hard && soft > hard) {
		os_misuse(NULL,
			  "sheaf_set_limits(%zu, %zu): the soft limit is above the hard one; "
			  "nothing was changed. Use 0 for none",
			  soft, hard);
		return -EINVAL;
	}
	if (!caches_ready())
		return -ENOMEM;
	page_set_limits(soft, hard);
	if (is_above(hard))
		reclaim_everything(NULL, GFP_KERNEL);
	if (is_above(hard))
		os_report("sheaf_set_limits(%zu, %zu): the hard limit is below the %zu bytes that "
			  "are held; allocations that need memory fail until enough is freed",
			  soft, hard, os_load_relaxed(&page_limit.held) << OS_PAGE_SHIFT);
	cache_leave();
	return 0;
}

/* --- trim ------------------------------------------------------------------------------------- */

/* Takes the locks of kmem_cache_shrink(), cache by cache: each is pinned meanwhile. */
size_t reclaim_free_memory(size_t keep)
{
	size_t before = page_usage().returned;

	reclaim_caches();
	page_trim_to(keep);
	return page_usage().returned - before;
}

SHEAF_PUBLIC size_t sheaf_trim(size_t keep)
{
	size_t before;

	if (!os_load_acquire(&caches.ready))
		return 0;
	before = page_usage().returned;
	shrinkers_run(GFP_KERNEL, 0);
	reclaim_free_memory(keep);
	cache_leave();
	return page_usage().returned - before;
}
