/* SPDX-License-Identifier: MIT */
/*
 * Passes of housekeeping over all caches; see housekeeping.h.
 *
 * Locks: OS_RANK_CACHES and OS_RANK_DRAIN, by try-lock. Callers: housekeeping.c.
 */
#include <limits.h>

#include "cache/list.h"
#include "cache/paths.h"
#include "page/limit.h"
#include "percpu/barn/budget.h"
#include "percpu/idle.h"
#include "percpu/sheaf.h"

/*
 * The most work of one round, in objects that return to their slabs (20 ns each, and 0.2 µs if a
 * slab's pages become free; how many of these return to the system has its own limit, page/page.h).
 * A visit of a cache counts as some of them, and so do its rows. Work that has begun is finished: a
 * sheaf of a barn, a CPU's slot. Half: an idle row with 4000 caches takes more than a second;
 * double: a call that does a round may take 8 ms.
 */
#define MOST_WORK  8192
#define VISIT_WORK 32
#define SLAB_WORK  10 /* an empty slab */

/* A cache is idle if two visits in a row found the same. So everything is returned within the time
 * of the option decay, with some left for the passes themselves. */
#define PASS_MS(decay) ((decay) / 5 * 2)
#define LEAST_PASS_MS  400
/* How often all caches are emptied above the soft limit. */
#define SOFT_PASS_MS 1000
/* And how often those are that nobody uses, while sheaves hold more than they may. */
#define OVER_PASS_MS 100

enum house_pass {
	PASS_ROWS,
	PASS_CACHES,
	NR_PASSES
};

_Static_assert(NR_PASSES <= LIST_VISITORS, "each pass visits all caches");

/* A pass over all caches, across rounds. */
struct pass {
	uint32_t began;		     /* the last one, in ms */
	bool goes_on;		     /* it has not visited all of them */
	bool aged;		     /* the cache's barns were done: its slots are next */
	const struct kmem_cache *of; /* the cache that is visited, */
	struct idle_place at;	     /* and where */
	unsigned int kept;	     /* empty slabs to return in this visit */
};

/* What a visit leaves for the end of the round. */
struct visit {
	struct drain drain;
	struct slab_cache *kept; /* return its empty slabs, too; or NULL */
};

static struct {
	struct pass all[NR_PASSES];
	unsigned int turn;			     /* whose it is */
	struct idle_rows rows;			     /* of PASS_ROWS */
	struct visit visits[MOST_WORK / VISIT_WORK]; /* of the round */
} passes OS_LARGE;

/* Is the cache as it was in the previous pass? Then it gives up what it keeps unused. */
static bool cache_is_idle(struct kmem_cache *s)
{
	uint64_t *before = list_print(s), now = idle_print(&s->sheaf);
	bool same = now == *before;

	*before = now;
	if (same) {
		sheaf_forget_flow(&s->sheaf);
		cache_see_flow(s);
	}
	return same;
}

/* The sheaves of a cache's barns that are old. Sets pass->aged if its slots are to be emptied, too.
 * Returns the work. */
static unsigned int age_cache(struct pass *pass, struct kmem_cache *s, unsigned int most)
{
	bool above_soft = page_is_above_soft();
	unsigned int work = idle_rows_work(&s->sheaf), n = idle_age(&s->sheaf, most);

	/* The first time marks what the second one takes. */
	if (above_soft && n < most)
		n += idle_age(&s->sheaf, most - n);
	pass->at.more = n >= most;
	/* A slab that was returned can no longer be checked. */
	pass->aged = n < most && (above_soft || (!cache_is_checked(s) && cache_is_idle(s)));
	return work + n;
}

/* The work of returning empty slabs at the end of the round. The visit continues until those that
 * it found are gone; others may become empty all the time. */
static unsigned int count_kept(struct pass *pass, const struct slab_cache *cache)
{
	unsigned int kept = slab_kept(cache), n;

	if (kept < pass->kept)
		pass->kept = kept;
	n = pass->kept < SLAB_STEP ? pass->kept : SLAB_STEP;
	pass->kept -= n;
	pass->at.more = pass->kept > 0;
	return SLAB_WORK * n;
}

/* Returns the work that is done, or noted in `visit`. The visit goes on in another round if there
 * is more, which pass->at says. */
static unsigned int visit_cache(struct pass *pass, struct kmem_cache *s, unsigned int most,
				struct visit *visit)
{
	struct idle_rows *rows = pass == &passes.all[PASS_ROWS] ? &passes.rows : NULL;
	unsigned int work = 0;

	*visit = (struct visit){.kept = NULL};
	if (!rows && !pass->aged) {
		work = age_cache(pass, s, most);
		if (!pass->aged)
			return work;
	}
	work += idle_empty(&s->sheaf, rows, &pass->at, most > work ? most - work : 0, list_print(s),
			   &visit->drain);
	if (rows || pass->at.more)
		return work;
	visit->kept = &s->sheaf.slab;
	return work + count_kept(pass, &s->sheaf.slab);
}

static bool pass_is_due(enum house_pass which, uint32_t passed)
{
	if (which == PASS_ROWS)
		return passed >= HOUSE_ROWS_MS;
	if (page_is_above_soft())
		return passed >= SOFT_PASS_MS;
	if (sheaf_budget_is_over())
		return passed >= OVER_PASS_MS;
	return !os_load_relaxed(&os_options.decay_never) && passed >= LEAST_PASS_MS &&
	       passed >= PASS_MS(os_load_relaxed(&os_options.decay));
}

static void begin_passes(uint32_t now)
{
	/* One that began above a limit does not continue below it. */
	if (os_load_relaxed(&os_options.decay_never) && !page_is_above_soft() &&
	    !sheaf_budget_is_over())
		passes.all[PASS_CACHES].goes_on = false;
	for (unsigned int i = 0; i < NR_PASSES; i++) {
		struct pass *pass = &passes.all[i];

		if (pass->goes_on || !pass_is_due(i, now - pass->began))
			continue;
		*pass = (struct pass){.began = now};
		pass->goes_on = i != PASS_ROWS || idle_find(&passes.rows, now);
		if (pass->goes_on)
			list_visit_first(i);
	}
}

/* The number of the pass whose turn it is; NR_PASSES if none goes on. */
static unsigned int next_pass(void)
{
	for (unsigned int i = 0; i < NR_PASSES; i++)
		if (passes.all[++passes.turn % NR_PASSES].goes_on)
			return passes.turn % NR_PASSES;
	return NR_PASSES;
}

/* Do what the visits left. */
static void end_visits(unsigned int n)
{
	struct drain *first = NULL;

	for (unsigned int i = 0; i < n; i++) {
		struct drain *drain = &passes.visits[i].drain;

		if (!drain->cache)
			continue;
		drain->next = first;
		first = drain;
	}
	if (first)
		sheaf_drain_rows(first);
	/* Those that are empty now, too. */
	for (unsigned int i = 0; i < n; i++)
		if (passes.visits[i].kept)
			slab_free_kept(passes.visits[i].kept);
}

/* With the lock of the list held, and without other drains. */
static void go_on(unsigned int which)
{
	struct pass *pass = &passes.all[which];
	unsigned int n = 0;

	os_assert(os_peek(&caches.lock.word)); /* HOUSEKEEPING-K3 */
	for (unsigned int work = 0; work < MOST_WORK;) {
		struct kmem_cache *s = list_visit(which);

		pass->goes_on = s != NULL;
		if (!s)
			break;
		/* The previous one may have been destroyed in the middle of a visit. */
		if (s != pass->of) {
			pass->at = (struct idle_place){0};
			pass->aged = false;
			pass->kept = UINT_MAX;
		}
		pass->of = s;
		work += VISIT_WORK + visit_cache(pass, s, MOST_WORK - work, &passes.visits[n++]);
		if (!pass->at.more)
			list_visited(which);
	}
	end_visits(n);
}

bool passes_go_on(uint32_t now)
{
	unsigned int which;
	bool more = false;

	if (os_trylock(&caches.lock)) {
		if (os_trylock(&sheaf_drains)) {
			begin_passes(now);
			which = next_pass();
			if (which < NR_PASSES)
				go_on(which);
			os_unlock(&sheaf_drains);
		}
		os_unlock(&caches.lock);
	}
	for (unsigned int i = 0; i < NR_PASSES; i++)
		more |= passes.all[i].goes_on;
	return more || passes.rows.later;
}
