/* SPDX-License-Identifier: MIT */
/* Rounds of housekeeping; see housekeeping.h. */
#include "cache/housekeeping.h"

#include <errno.h>

#include "cache/cache.h"
#include "cache/list.h"
#include "cache/reclaim.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/options.h"
#include "os/pressure.h"
#include "os/report.h"
#include "os/thread.h"
#include "os/wait.h"
#include "page/page.h"
#include "percpu/budget.h"
#include "percpu/flow.h"
#include "percpu/idle.h"

/*
 * The most work of one round, in objects that return to their slabs (20 ns each, and 0.2 µs if a
 * slab's pages become free; how many of these return to the system has its own limit, page/page.h).
 * A visit of a cache counts as some of them, and so do its rows. What is begun is finished: a sheaf
 * of a barn, a CPU's slot. Half: an idle row with 4000 caches takes more than a second; double: a
 * call that does a round may take 8 ms.
 */
#define MOST_WORK  8192
#define VISIT_WORK 32
#define SLAB_WORK  10 /* an empty slab */

/* A cache is idle if two visits in a row found the same. So all goes within the curve, and some
 * time is left for the passes themselves. */
#define PASS_MS(decay) ((decay) / 5 * 2)
#define LEAST_PASS_MS  400
/* Above the soft limit all caches are emptied so often. */
#define SOFT_PASS_MS 1000

enum house_pass {
	PASS_ROWS,
	PASS_CACHES,
	PASS_SOFT,
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
};

/* What a visit leaves for the end of the round. */
struct visit {
	struct drain drain;
	struct slab_cache *kept; /* its empty slabs go, too; or NULL */
};

/* After a pause with memory that must go, rounds follow each other until there were as many as in
 * this time; each is in another call. With double, a program that pauses for long could spend 300
 * ms on 6 GiB. */
#define CATCH_UP_MS 1000

/* Pressure counts as over so long after the last report: the system repeats it while it lasts. */
#define PRESSED_MS (OS_PRESSURE_WINDOW_US / 1000 + 500)

/* Between looks at the memory that there is, of some 30 µs each. Half: twice the cost; double: the
 * process holds too much for two seconds after its group was given less. */
#define MEMORY_MS 1000

static struct {
	uint32_t running; /* a thread does a round */
	uint32_t started; /* the thread, or it was refused */
	uint32_t node;	  /* whose free pages the next round looks at */
	uint32_t behind;  /* so many rounds more will show whether memory must go */
	uint32_t did_at;  /* the last round, in ms */
	struct pass passes[NR_PASSES];
	unsigned int turn;			     /* of the passes */
	struct idle_rows rows;			     /* of PASS_ROWS */
	uint32_t asked, refused;		     /* the system reports pressure, or never did */
	uint32_t pressed_at;			     /* in ms */
	uint32_t looked_at;			     /* at the memory that there is, in ms */
	struct visit visits[MOST_WORK / VISIT_WORK]; /* of the round */
} house;

/* Is the cache as it was in the previous pass? Then what it keeps without use goes. */
static bool cache_lies_idle(struct kmem_cache *s)
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
	bool above_soft = pass == &house.passes[PASS_SOFT];
	unsigned int work = idle_rows_work(&s->sheaf), n = idle_age(&s->sheaf, most);

	/* The first time marks what the second one takes. */
	if (above_soft && n < most)
		n += idle_age(&s->sheaf, most - n);
	pass->at.more = n >= most;
	/* A slab that was given back can no longer be checked. */
	pass->aged = n < most && (above_soft || (!cache_is_checked(s) && cache_lies_idle(s)));
	return work + n;
}

/* The work of giving back empty slabs at the end of the round; *more: others are left. */
static unsigned int count_kept(const struct slab_cache *cache, bool *more)
{
	unsigned int kept = slab_kept(cache);

	*more = kept > SLAB_STEP;
	return SLAB_WORK * (*more ? SLAB_STEP : kept);
}

/* Returns the work that is done, or noted in `visit`. The visit goes on in another round if there
 * is more, which pass->at says. */
static unsigned int visit_cache(struct pass *pass, struct kmem_cache *s, unsigned int most,
				struct visit *visit)
{
	struct idle_rows *rows = pass == &house.passes[PASS_ROWS] ? &house.rows : NULL;
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
	return work + count_kept(&s->sheaf.slab, &pass->at.more);
}

static uint32_t pass_ms(void)
{
	uint32_t ms = PASS_MS(os_options.decay);

	return ms > LEAST_PASS_MS ? ms : LEAST_PASS_MS;
}

static bool pass_is_due(enum house_pass which, uint32_t passed)
{
	switch (which) {
	case PASS_ROWS:
		return passed >= HOUSE_ROWS_MS;
	case PASS_CACHES:
		return !os_options.decay_never && passed >= pass_ms();
	default:
		return page_is_above_soft() && passed >= SOFT_PASS_MS;
	}
}

static void begin_passes(uint32_t now)
{
	for (unsigned int i = 0; i < NR_PASSES; i++) {
		struct pass *pass = &house.passes[i];

		if (pass->goes_on || !pass_is_due(i, now - pass->began))
			continue;
		*pass = (struct pass){.began = now};
		pass->goes_on = i != PASS_ROWS || idle_find(&house.rows, now);
		if (pass->goes_on)
			list_visit_first(i);
	}
}

/* The number of the pass whose turn it is; NR_PASSES if none goes on. */
static unsigned int next_pass(void)
{
	for (unsigned int i = 0; i < NR_PASSES; i++)
		if (house.passes[++house.turn % NR_PASSES].goes_on)
			return house.turn % NR_PASSES;
	return NR_PASSES;
}

/* Do what the visits left. */
static void end_visits(unsigned int n)
{
	struct drain *first = NULL;

	for (unsigned int i = 0; i < n; i++) {
		struct drain *drain = &house.visits[i].drain;

		if (!drain->cache)
			continue;
		drain->next = first;
		first = drain;
	}
	if (first)
		sheaf_drain_rows(first);
	/* Those that are empty now, too. */
	for (unsigned int i = 0; i < n; i++)
		if (house.visits[i].kept)
			slab_free_kept(house.visits[i].kept);
}

/* With the lock of the list held, and without other drains. */
static void go_on(unsigned int which)
{
	struct pass *pass = &house.passes[which];
	unsigned int n = 0;

	for (unsigned int work = 0; work < MOST_WORK;) {
		struct kmem_cache *s = list_visit(which);

		pass->goes_on = s != NULL;
		if (!s)
			break;
		/* The previous one may have been destroyed in the middle of a visit. */
		if (s != pass->of || !pass->at.more) {
			pass->at = (struct idle_place){0};
			pass->aged = false;
		}
		pass->of = s;
		work += VISIT_WORK + visit_cache(pass, s, MOST_WORK - work, &house.visits[n++]);
		if (!pass->at.more)
			list_visited(which);
	}
	end_visits(n);
}

static void do_passes(uint32_t now)
{
	unsigned int which;

	if (!os_trylock(&caches.lock))
		return;
	if (sheaf_trylock_drains()) {
		begin_passes(now);
		which = next_pass();
		if (which < NR_PASSES)
			go_on(which);
		sheaf_unlock_drains();
	}
	os_unlock(&caches.lock);
}

/* Its control group may grant the process less than before, or more. */
static void see_memory(uint32_t now)
{
	if (now - house.looked_at < MEMORY_MS)
		return;
	house.looked_at = now;
	if (!os_memory_look())
		return;
	sheaf_budget_init();
	quarantine_fit();
}

/* Returns true if there may soon be more to do. */
static bool do_round(uint32_t now)
{
	bool more;

	see_memory(now);
	more = page_decay(house.node++ % os.nr_nodes) | house.rows.later;
	do_passes(now);
	for (unsigned int i = 0; i < NR_PASSES; i++)
		more |= house.passes[i].goes_on;
	return more;
}

/* If memory must go that this round did not return, or other nodes were not looked at, only a tick
 * of the time that has passed is over: another call does the next round. */
static void catch_up(uint32_t now, uint32_t passed)
{
	if (os_load_relaxed(&decay_time.left) || now - house.did_at > DECAY_TICK_MS)
		house.behind = os.nr_nodes;
	else if (house.behind)
		house.behind--;
	os_store_relaxed(&decay_time.left, 0);
	house.did_at = now;
	if (passed > CATCH_UP_MS)
		passed = CATCH_UP_MS;
	if (house.behind && passed > DECAY_TICK_MS)
		os_store_relaxed(&decay_time.last, now - passed + DECAY_TICK_MS);
}

/* False: another thread does a round. */
static bool begin_round(uint32_t *now)
{
	uint32_t idle = 0;

	if (!os_cmpxchg(&house.running, &idle, 1))
		return false;
	*now = os_now_ms();
	os_store_relaxed(&decay_time.last, *now);
	os_store_relaxed(&decay_time.due, 0);
	return true;
}

static void end_round(void)
{
	os_store_release(&house.running, 0);
}

static void ask_for_pressure(void)
{
	if (house.refused)
		return;
	if (os_pressure_begin()) {
		house.asked = 1;
		return;
	}
	/* If it did so before, a later round tries again. */
	if (house.asked)
		return;
	house.refused = 1;
	os_report_later("SHEAF_OPTIONS: pressure: this system does not report memory pressure "
			"(/proc/pressure/memory); the option has no effect");
}

static void see_pressure(uint32_t now)
{
	if (!os_options.pressure)
		return;
	ask_for_pressure();
	if (os_pressure_seen()) {
		house.pressed_at = now;
		page_press(true);
	} else if (os_load_relaxed(&page_limit.pressed)) {
		page_press(now - house.pressed_at < PRESSED_MS);
	}
}

static void background(void)
{
	uint32_t word = 0, sleep = HOUSE_SLEEP_LEAST, now;
	bool more;

	for (;;) {
		os_wait(&word, 0, sleep);
		more = true;
		if (begin_round(&now)) {
			see_pressure(now);
			more = do_round(now);
			end_round();
		}
		reclaim_if_above_soft(GFP_KERNEL);
		os_report_kept();
		sleep = more ? HOUSE_SLEEP_LEAST : sleep * 2;
		if (sleep > HOUSE_SLEEP_MOST)
			sleep = HOUSE_SLEEP_MOST;
	}
}

static void start_thread(void)
{
	if (house.started)
		return;
	house.started = 1;
	if (os_thread_start(background))
		os_store_relaxed(&decay_time.by_thread, 1);
	else
		os_report_later("SHEAF_OPTIONS: background: the system refuses a thread; memory "
				"returns in calls of the library");
}

void housekeep(void)
{
	uint32_t now, last = os_load_relaxed(&decay_time.last);
	int saved = errno;

	if (!begin_round(&now))
		return;
	if (os_options.background)
		start_thread();
	if (!os_load_relaxed(&decay_time.by_thread)) {
		see_pressure(now);
		do_round(now);
		catch_up(now, now - last);
	}
	end_round();
	errno = saved;
}

void housekeeping_lock(void)
{
	uint32_t now;

	while (!begin_round(&now))
		os_sleep_briefly();
}

void housekeeping_unlock(void)
{
	end_round();
}

void housekeeping_in_child(void)
{
	house.started = 0;
	os_thread_forget();
	decay_time.by_thread = 0;
	house.asked = house.refused = 0;
	os_pressure_in_child();
}
