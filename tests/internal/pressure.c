/* SPDX-License-Identifier: MIT */
/*
 * With the option `pressure`: while the system reports that memory is short, everything is above
 * the soft limit. The system is invented, and so is the time.
 */
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <string.h>

#include "cache/process.h"
#include "cache/reclaim.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/clock.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/pressure.h"
#include "page/limit.h"
#include "page/page.h"

enum {
	OBJECTS = 20000,
	SIZE = 1024,
	OVER_MS = OS_PRESSURE_WINDOW_US / 1000 + 1000
};

static struct {
	bool tells, set, event;
	unsigned int begun, forgotten;
} machine;

bool os_pressure_begin(void)
{
	machine.begun += !machine.set;
	machine.set = machine.tells;
	return machine.set;
}

bool os_pressure_seen(void)
{
	bool seen = machine.event;

	machine.event = false;
	return seen;
}

void os_pressure_in_child(void)
{
	machine.forgotten++;
	machine.set = false;
}

static struct kmem_cache *s;
static void *objects[OBJECTS];
static unsigned int asked;

static unsigned long count(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	asked++;
	return SHRINK_EMPTY;
}

static unsigned long scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	return SHRINK_STOP;
}

static void use_and_free(void)
{
	for (unsigned int i = 0; i < OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(objects[i]);
		memset(objects[i], 1, SIZE);
	}
	for (unsigned int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
}

/* A round of housekeeping, in a call that leaves the fast path. */
static void round_of(unsigned int ms)
{
	void *some[200];

	clock_pass_ms(ms);
	for (unsigned int i = 0; i < 200; i++) {
		some[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(some[i]);
	}
	kmem_cache_free_bulk(s, 200, some);
}

static size_t free_bytes(void)
{
	return page_usage().dirty * OS_PAGE;
}

static void without_pressure_memory_stays(void **state)
{
	(void)state;
	use_and_free();
	for (int i = 0; i < 20; i++)
		round_of(20);
	assert_false(page_is_above_soft());
	assert_true(free_bytes() > OBJECTS * SIZE / 2);
	assert_int_equal(asked, 0);
	assert_int_equal(machine.begun, 1);
}

/* As a daemon that closes all files. */
static void it_asks_again_if_that_is_lost(void **state)
{
	(void)state;
	machine.set = false;
	round_of(20);
	round_of(20);
	assert_int_equal(machine.begun, 2);
}

/* As while its files are used up. A system that reported pressure before does so again: there is no
 * line, and each round asks. */
static void it_asks_again_until_it_gets_that(void **state)
{
	unsigned int before = machine.begun;
	struct capture captured;

	(void)state;
	machine.set = machine.tells = false;
	capture_begin(&captured);
	round_of(20);
	round_of(20);
	assert_int_equal(capture_end(&captured), 0);
	assert_true(machine.begun >= before + 2);
	before = machine.begun;
	machine.tells = true;
	round_of(20);
	round_of(20);
	assert_int_equal(machine.begun, before + 1);
}

static void pressure_reclaims_and_ends(void **state)
{
	(void)state;
	use_and_free();
	do {
		machine.event = true; /* it goes on */
		round_of(20);
	} while (free_bytes() > 1 << 20);
	assert_true(page_is_above_soft());
	assert_true(asked > 0);
	assert_int_equal(kmem_cache_verify(s), 0);

	clock_pass_ms(OVER_MS);
	while (page_is_above_soft())
		round_of(20);
	use_and_free();
	for (int i = 0; i < 20; i++)
		round_of(20);
	assert_true(free_bytes() > OBJECTS * SIZE / 2);
}

static void the_programs_own_limit_comes_back(void **state)
{
	struct sheaf_stats stats;

	(void)state;
	machine.event = true;
	while (!page_is_above_soft())
		round_of(20);
	assert_int_equal(sheaf_set_limits((size_t)1 << 30, 0), 0);
	assert_true(page_is_above_soft());
	sheaf_stats(&stats);
	assert_int_equal(stats.soft_limit, (size_t)1 << 30);
	clock_pass_ms(OVER_MS);
	while (page_is_above_soft())
		round_of(20);
	assert_int_equal(page_limit.soft, ((size_t)1 << 30) / OS_PAGE);
	assert_int_equal(sheaf_set_limits(0, 0), 0);
}

static void ask_again(void)
{
	unsigned int before = machine.begun;
	struct capture captured;

	CHECK(machine.forgotten == 1);
	machine.tells = false;
	capture_begin(&captured);
	while (machine.begun == before)
		round_of(20);
	round_of(20);
	CHECK(capture_end(&captured) == 1);
	CHECK(strstr(captured.text, "pressure: this system does not report"));
}

/* It has no trigger of its own yet. On a system that does not report pressure, one line says so. */
static void a_child_asks_for_itself(void **state)
{
	(void)state;
	assert_int_equal(in_child(ask_again), 0);
}

/* __GFP_NOFAIL that may not reclaim does not call the program. */
static void shrinkers_are_not_called_by_who_may_not_wait(void **state)
{
	unsigned int before = asked;

	(void)state;
	reclaim_everything(NULL, GFP_NOWAIT | __GFP_NOFAIL);
	assert_int_equal(asked, before);
	reclaim_everything(NULL, GFP_KERNEL | __GFP_NOFAIL);
	assert_int_equal(asked, before + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_pressure_memory_stays),
		cmocka_unit_test(it_asks_again_if_that_is_lost),
		cmocka_unit_test(it_asks_again_until_it_gets_that),
		cmocka_unit_test(pressure_reclaims_and_ends),
		cmocka_unit_test(the_programs_own_limit_comes_back),
		cmocka_unit_test(a_child_asks_for_itself),
		cmocka_unit_test(shrinkers_are_not_called_by_who_may_not_wait),
	};
	struct shrinker *shrinker;

	clock_stands = true;
	machine.tells = true;
	if (!caches_ready())
		return 1;
	if (!needs_option(os_options.pressure, "pressure"))
		return SKIPPED;
	pin((unsigned int)sched_getcpu());
	s = make("pressure", SIZE, SLAB_NO_USER_FLAGS);
	shrinker = shrinker_alloc(0, "pressure");
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker_register(shrinker);
	return cmocka_run_group_tests_name("pressure", tests, NULL, NULL);
}
