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
#include "percpu/flow.h"
#include "percpu/idle.h"

/*
 * The most work of one round, in objects that return to their slabs; a visit of a cache counts as
 * some of them. What is begun is finished: a sheaf of a barn, a CPU's slot. An object takes 20 ns,
 * but 4 µs if it is the last one of its slab, and that the last one in its 2 MiB. Half: passes take
 * twice as many rounds; double: a call that does a round may take 8 ms.
 */
#define MOST_WORK  1024
#define VISIT_WORK 32

/* Half of the curve, at least: a cache is idle if two visits in a row found the same. */
#define LEAST_PASS_MS 500
/* Above the soft limit all caches are emptied so often, one in a round. */
#define SOFT_PASS_MS 1000

enum house_pass {
	PASS_NONE,
	PASS_ROWS,
	PASS_CACHES,
	PASS_SOFT,
};

/* After a pause with memory that must go, rounds follow each other until there were as many as in
 * this time; each is in another call. With double, a program that pauses for long could spend 300
 * ms on 6 GiB. */
#define CATCH_UP_MS 1000

/* Pressure counts as over so long after the last report: the system repeats it while it lasts. */
#define PRESSED_MS (OS_PRESSURE_WINDOW_US / 1000 + 500)

static struct {
	uint32_t running; /* a thread does a round */
	uint32_t started; /* the thread, or it was refused */
	uint32_t node;	  /* whose free pages the next round looks at */
	uint32_t behind;  /* so many rounds more will show whether memory must go */
	uint32_t did_at;  /* the last round, in ms */
	uint32_t pass;
	uint32_t rows_at, caches_at, soft_at; /* when such a pass last began, in ms */
	const struct kmem_cache *of;	      /* the cache that is visited, */
	struct idle_place at;		      /* and where; */
	uint32_t aged;			      /* 0: its barns come first */
	struct idle_rows rows;		      /* of the pass */
	uint32_t asked, refused;	      /* the system reports pressure, or never did */
	uint32_t pressed_at;		      /* in ms */
} house;

/* Is the cache as it was in the previous pass? Then what it keeps without use goes. */
static bool cache_lies_idle(struct kmem_cache *s)
{
	uint64_t *before = list_print(s), now = idle_print(&s->sheaf);
	bool same = now == *before;

	*before = same ? 0 : now;
	if (same) {
		sheaf_forget_flow(&s->sheaf);
		cache_see_flow(s);
	}
	return same;
}

/* Sheaves and empty slabs that no thread is using now; it does not wait for the others. */
static unsigned int give_what_lies(struct kmem_cache *s, unsigned int most)
{
	unsigned int n = idle_age(&s->sheaf, most);

	/* The first time marks what the second one takes. */
	n += idle_age(&s->sheaf, most > n ? most - n : 0);
	n += idle_empty(&s->sheaf, NULL, &house.at, most > n ? most - n : 0);
	if (!house.at.more)
		slab_free_kept(&s->sheaf.slab);
	return n;
}

/* Returns the number of objects that went. The visit goes on in the next round if there are more,
 * which house.at says. */
static unsigned int visit_cache(struct kmem_cache *s, unsigned int most)
{
	unsigned int n = 0;

	if (house.pass == PASS_SOFT)
		return MOST_WORK + give_what_lies(s, most);
	if (house.pass == PASS_ROWS)
		return idle_empty(&s->sheaf, &house.rows, &house.at, most);
	if (!house.aged) {
		n = idle_age(&s->sheaf, most);
		house.at.more = n >= most;
		house.aged = n < most;
		/* A slab that was given back can no longer be checked. */
		if (!house.aged || cache_is_checked(s) || !cache_lies_idle(s))
			return n;
	}
	n += idle_empty(&s->sheaf, NULL, &house.at, most > n ? most - n : 0);
	/* Those that are empty now, too. */
	if (!house.at.more)
		slab_free_kept(&s->sheaf.slab);
	return n;
}

static uint32_t pass_ms(void)
{
	return os_options.decay / 2 > LEAST_PASS_MS ? os_options.decay / 2 : LEAST_PASS_MS;
}

static void begin_pass(uint32_t now)
{
	if (house.rows.more || now - house.rows_at >= HOUSE_ROWS_MS) {
		house.rows_at = now;
		if (idle_find(&house.rows, now))
			house.pass = PASS_ROWS;
	}
	if (!house.pass && page_is_above_soft() && now - house.soft_at >= SOFT_PASS_MS) {
		house.soft_at = now;
		house.pass = PASS_SOFT;
	}
	if (!house.pass && !os_options.decay_never && now - house.caches_at >= pass_ms()) {
		house.caches_at = now;
		house.pass = PASS_CACHES;
	}
	if (house.pass) {
		list_visit_first();
		house.at.more = false;
	}
}

/* With the lock of the list held. */
static void go_on(void)
{
	for (unsigned int work = 0; work < MOST_WORK;) {
		struct kmem_cache *s = list_visit();

		if (!s) {
			house.pass = PASS_NONE;
			return;
		}
		/* The previous one may have been destroyed in the middle of a visit. */
		if (s != house.of || !house.at.more) {
			house.at = (struct idle_place){0};
			house.aged = 0;
		}
		house.of = s;
		work += VISIT_WORK + visit_cache(s, MOST_WORK - work);
		if (!house.at.more)
			list_visited();
	}
}

/* Returns true if there may soon be more to do. */
static bool do_round(uint32_t now)
{
	bool more = page_decay(house.node++ % os.nr_nodes);

	if (!os_trylock(&caches.lock))
		return more;
	if (!house.pass)
		begin_pass(now);
	if (house.pass)
		go_on();
	more |= house.pass != PASS_NONE || house.rows.later;
	os_unlock(&caches.lock);
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
		grace_start_wanted();
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
	decay_time.by_thread = 0;
	house.asked = house.refused = 0;
	os_pressure_in_child();
}
