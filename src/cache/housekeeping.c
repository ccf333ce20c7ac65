/* SPDX-License-Identifier: MIT */
/* Rounds of housekeeping; see housekeeping.h. */
#include "cache/housekeeping.h"

#include "cache/cache.h"
#include "cache/process.h"
#include "cache/reclaim.h"
#include "cache/sampling.h"
#include "os/pressure.h"
#include "os/thread.h"
#include "page/page.h"
#include "percpu/barn/budget.h"
#include "percpu/idle.h"

/* After a pause with memory to return, rounds follow each other, each in another call, until there
 * were as many as fit into this time. With double, a program that pauses for long could spend 300
 * ms on 6 GiB. */
#define CATCH_UP_MS 1000

/* Pressure is over this long after the last report: the system repeats reports while it lasts. */
#define PRESSED_MS (OS_PRESSURE_WINDOW_US / 1000 + 500)

/* How often the available memory is read, in some 30 µs. Half: twice the cost; double: the process
 * holds too much for two seconds after its group was given less. And the pages that are held before
 * it is first read: a small program needs no limit of them. */
#define MEMORY_MS   1000
#define MEMORY_FROM (((size_t)1 << 20) / OS_PAGE)

static struct {
	uint32_t running;	 /* a thread does a round */
	uint32_t started;	 /* the thread, or it was refused */
	uint32_t node;		 /* whose free pages the next round examines */
	uint32_t behind;	 /* rounds until it is known whether memory must be returned */
	uint32_t did_at;	 /* the last round, in ms */
	uint32_t asked, refused; /* the system reports pressure, or never did */
	uint32_t pressed_at;	 /* in ms */
	uint32_t looked_at;	 /* when the available memory was last read, in ms */
} house;

/* For page_bound(). A line has the stamps of eight CPUs. */
static void count_cpus(void)
{
	uint32_t cpus = 0;

	for (uint32_t cpu = 0; cpu < os.nr_cpus; cpu++)
		cpus += os_load_relaxed(&idle_stamps[cpu].shard) != 0;
	os_store_relaxed(&decay_time.cpus, cpus + !cpus); /* at least this one */
}

/* Its control group may grant the process less than before, or more. */
static void see_memory(uint32_t now, size_t from)
{
	uint32_t before = os_load_relaxed(&house.looked_at);

	if (before ? now - before < MEMORY_MS : os_load_relaxed(&page_limit.held) < from)
		return;
	os_store_relaxed(&house.looked_at, now);
	if (os_memory_refresh())
		quarantine_fit();
}

/* Returns true if there may soon be more to do. */
static bool do_round(uint32_t now)
{
	bool more;

	os_assert(os_holds_nothing("begins a round of housekeeping")); /* HOUSEKEEPING-K2 */
	os_assert(os_peek(&house.running));			       /* HOUSEKEEPING-K1 */
	see_memory(now, MEMORY_FROM);
	count_cpus();
	sheaf_budget_follow();
	more = page_decay(house.node++ % os.nr_nodes);
	return passes_go_on(now) | more;
}

/* If this round did not return all memory that must be returned, or has not examined other nodes,
 * only one tick of the time that has passed counts: another call does the next round. */
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

void housekeeping_unlock(void)
{
	os_assert(os_peek(&house.running)); /* HOUSEKEEPING-K1 */
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
			housekeeping_unlock();
		}
		sampling_see_tracers();
		reclaim_if_above_soft(GFP_KERNEL);
		os_report_kept();
		control_look_if_on();
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
		os_report_later("SHEAF_OPTIONS: background: the system refuses to create a thread; "
				"memory returns during calls of the library");
}

void housekeep(void)
{
	uint32_t now, last = os_load_relaxed(&decay_time.last);

	if (!begin_round(&now))
		return;
	if (os_options.background)
		start_thread();
	if (!os_load_relaxed(&decay_time.by_thread)) {
		see_pressure(now);
		do_round(now);
		catch_up(now, now - last);
	}
	housekeeping_unlock();
	sampling_see_tracers();
}

void housekeeping_lock(void)
{
	uint32_t now;

	while (!begin_round(&now))
		os_sleep_briefly();
}

void housekeeping_know_grants(void)
{
	housekeeping_lock();
	see_memory(os_now_ms(), 0);
	housekeeping_unlock();
}

void housekeeping_in_child(void)
{
	house.started = 0;
	os_thread_forget();
	decay_time.by_thread = 0;
	house.asked = house.refused = 0;
	os_pressure_in_child();
}
