/* SPDX-License-Identifier: MIT */
/* Statistics of a cache: each counter changes with the event it names, and sums are conserved. */
#include <errno.h>
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/stats.h>
#include <stdint.h>
#include <string.h>

#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/held.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/sums.h"
#include "kit/unit.h"

enum {
	SHEAF = 60, /* capacity for 64 bytes */
	MANY = 40 * SHEAF,
	THREADS = 4,
	HELD = 300,
	ROUNDS = 40000
};

static int set_up_without_sheaves(void **state)
{
	(void)state;
	s = kmem_cache_create("no sheaves", 64, NULL,
			      SLAB_NO_MERGE | SLAB_NO_SHEAVES | SLAB_NO_USER_FLAGS);
	return s ? 0 : -1;
}

static void skip_unless_counted(void)
{
	if (!library().counted)
		skip();
}

/* Only with slub_tiny the cache has none. */
static void needs_sheaves(void)
{
	skip_unless_counted();
	if (is_tiny()) {
		print_message("skipped: with slub_tiny there are no sheaves\n");
		skip();
	}
}

static void first_allocation_refills(void **state)
{
	struct kmem_cache_stats before = look(s), after;

	(void)state;
	needs_sheaves();
	take(1);
	after = look(s);
	assert_int_equal(after.alloc_fastpath - before.alloc_fastpath, 1);
	assert_int_equal(after.alloc_slowpath, before.alloc_slowpath);
	assert_true(after.sheaf_refill >= before.sheaf_refill + SHEAF);
	assert_true(after.sheaf_alloc > before.sheaf_alloc);
	assert_true(after.alloc_slab > before.alloc_slab);
	assert_int_equal(after.barn_get_fail, 1);
	assert_int_equal(after.replace_empty_main, 1);
	check_sums(s, 1);
	give(0, 1);
	check_sums(s, 0);
}

static void sheaf_serves_the_fast_path(void **state)
{
	struct kmem_cache_stats before, after;

	(void)state;
	needs_sheaves();
	take(10);
	before = look(s);
	give(0, 10);
	after = look(s);
	assert_int_equal(after.free_fastpath - before.free_fastpath, 10);
	take(10);
	assert_int_equal(MOVED(after, alloc_fastpath), 10);
	assert_int_equal(MOVED(before, sheaf_refill), 0);
	assert_int_equal(MOVED(before, replace_empty_main), 0);
	assert_int_equal(MOVED(before, replace_full_main), 0);
	check_sums(s, 10);
	give(0, 10);
}

static void sheaves_go_through_the_barn(void **state)
{
	struct kmem_cache_stats before;

	(void)state;
	needs_sheaves();
	take(8 * SHEAF);
	before = look(s);
	assert_true(before.barn_get_fail > 0);
	give(0, 8 * SHEAF);
	assert_true(MOVED(before, replace_full_main) > 0);
	assert_true(MOVED(before, barn_put) > 0);
	assert_int_equal(MOVED(before, barn_get), 0);
	assert_true(look(s).barn_full > 0);
	before = look(s);
	take(8 * SHEAF);
	assert_true(MOVED(before, barn_get) > 0);
	assert_true(MOVED(before, barn_replace_empty) > 0);
	assert_true(MOVED(before, barn_replace_empty) <= MOVED(before, barn_get));
	check_sums(s, 8 * SHEAF);
	/* The barn has empty sheaves now, so they are exchanged for full ones. */
	before = look(s);
	give(0, 8 * SHEAF);
	assert_true(MOVED(before, barn_replace_full) > 0);
	assert_true(MOVED(before, barn_replace_full) <= MOVED(before, barn_put));
	check_sums(s, 0);
}

static void flushes_beyond_limit(void)
{
	struct kmem_cache_stats before;

	take(MANY);
	before = look(s);
	give(0, MANY);
	assert_true(MOVED(before, barn_put_fail) > 0);
	assert_true(MOVED(before, sheaf_flush) > 0);
	assert_int_equal(MOVED(before, sheaf_flush) % SHEAF, 0);
	/* A flushed sheaf stays in its slot, so the barn is searched once, not for each sheaf. */
	assert_true(MOVED(before, replace_full_main) > MANY / SHEAF / 2);
	assert_true(MOVED(before, barn_get_empty) <= 1);
	assert_int_equal(MOVED(before, free_fastpath), MANY);
	check_sums(s, 0);
}

static void full_barn_flushes(void **state)
{
	(void)state;
	needs_sheaves();
	assert_int_equal(kmem_cache_set_barn(s, 1, 1), 0);
	flushes_beyond_limit();
}

static void barn_is_limited_from_the_beginning(void **state)
{
	struct kmem_cache_args limited = {.barn_objects = 1, .barn_bytes = 1};

	(void)state;
	needs_sheaves();
	kmem_cache_destroy(s);
	s = kmem_cache_create("limited", 64, &limited, SLAB_NO_MERGE | SLAB_NO_USER_FLAGS);
	assert_non_null(s);
	flushes_beyond_limit();
}

static void shrink_flushes_and_frees(void **state)
{
	struct kmem_cache_stats before, after;

	(void)state;
	needs_sheaves();
	take(5 * SHEAF);
	give(0, 5 * SHEAF);
	before = look(s);
	assert_int_equal(kmem_cache_shrink(s), 0);
	after = look(s);
	assert_int_equal(after.sheaf_flush - before.sheaf_flush, before.objects_in_sheaves);
	assert_int_equal(after.sheaf_free, after.sheaf_alloc);
	assert_int_equal(after.free_slab, after.alloc_slab);
	assert_int_equal(after.total_objects, 0);
	check_sums(s, 0);
}

static void slabs_serve_a_cache_without_sheaves(void **state)
{
	unsigned int n = look(s).objs_per_slab;
	struct kmem_cache_stats before = look(s);

	(void)state;
	skip_unless_counted();
	take(n);
	assert_int_equal(MOVED(before, alloc_slowpath), n);
	assert_int_equal(MOVED(before, alloc_slab), 1);
	assert_int_equal(look(s).partial, 0);
	before = look(s);
	give(0, 1);
	assert_int_equal(MOVED(before, free_slowpath), 1);
	assert_int_equal(MOVED(before, free_add_partial), 1);
	assert_int_equal(look(s).partial, 1);
	assert_int_equal(look(s).objects_partial, n - 1);
	give(1, n);
	assert_int_equal(MOVED(before, free_add_partial), 1);
	assert_int_equal(MOVED(before, free_slowpath), n);
	assert_int_equal(look(s).alloc_fastpath + look(s).free_fastpath, 0);
	check_sums(s, 0);
}

static void node_gives_empty_slabs_back(void **state)
{
	struct kmem_cache_stats before;

	(void)state;
	skip_unless_counted();
	take(MANY);
	before = look(s);
	give(0, MANY);
	assert_true(MOVED(before, free_remove_partial) > 0);
	assert_true(MOVED(before, free_slab) > 0);
	assert_true(look(s).slabs <= before.min_partial * library().nodes + 1);
	check_sums(s, 0);
}

static void node_keeps_as_many_as_the_program_says(void **state)
{
	static const unsigned int wanted[] = {20, 0, 3};
	struct capture captured;

	(void)state;
	clock_stands = true; /* else empty slabs return over time */
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		assert_int_equal(kmem_cache_set_min_partial(s, wanted[i]), 0);
		assert_int_equal(look(s).min_partial, wanted[i]);
		take(MANY);
		assert_true(look(s).slabs > wanted[0]);
		give(0, MANY);
		assert_true(look(s).slabs >= wanted[i]);
		assert_true(look(s).slabs <= wanted[i] * library().nodes + 1);
		check_sums(s, 0);
	}
	clock_stands = false;
	assert_int_equal(kmem_cache_set_min_partial(s, 65535), 0);
	capture_begin(&captured);
	assert_int_equal(kmem_cache_set_min_partial(s, 65536), -EINVAL);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "kmem_cache_set_min_partial(no sheaves, 65536)"));
	assert_non_null(strstr(captured.text, "Use 0 to 65535"));
	assert_int_equal(look(s).min_partial, 65535);
}

/* As the kernel's files in /sys/kernel/slab/NAME. */
static void what_a_cache_is_like(void)
{
	const struct kmem_cache_args args = {.useroffset = 8, .usersize = 24};
	struct kmem_cache_stats plain = look(make("plain", 64, SLAB_NO_USER_FLAGS)), stats;

	CHECK(!plain.usersize && !plain.destroy_by_rcu && !plain.sanity_checks && !plain.red_zone &&
	      !plain.poison && !plain.store_user && !plain.trace && !plain.failslab);
	CHECK(sheaf_rcu_none() == 0);
	CHECK(look(make("by rcu", 64, SLAB_TYPESAFE_BY_RCU)).destroy_by_rcu == 1);
	CHECK(look(kmem_cache_create("user", 64, &args, 0)).usersize == 24);
	stats = look(make("checked", 64, SLAB_RED_ZONE | SLAB_STORE_USER | SLAB_NO_USER_FLAGS));
	CHECK(stats.red_zone && stats.store_user && !stats.poison && !stats.trace);
	stats = look(make("checked too", 64,
			  SLAB_CONSISTENCY_CHECKS | SLAB_POISON | SLAB_FAILSLAB | SLAB_TRACE |
				  SLAB_NO_USER_FLAGS));
	CHECK(stats.sanity_checks && stats.poison && stats.failslab && stats.trace &&
	      !stats.red_zone && !stats.store_user);
}

static void settings_have_the_kernels_names(void **state)
{
	(void)state;
	assert_int_equal(in_child(what_a_cache_is_like), 0);
}

static void node_request_is_a_mismatch(void **state)
{
	struct kmem_cache_stats before = look(s);
	void *object;

	(void)state;
	skip_unless_counted();
	object = kmem_cache_alloc_node(s, GFP_KERNEL, 0);
	assert_int_equal(MOVED(before, alloc_node_mismatch), 1);
	kmem_cache_free(s, object);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	assert_int_equal(MOVED(before, alloc_node_mismatch), 1);
	kmem_cache_free(s, object);
}

static void in_the_child(void)
{
	struct kmem_cache_stats stats = look(s);

	CHECK(stats.objects_in_use == 10);
	CHECK(stats.alloc_fastpath == 0 && stats.free_fastpath == 0 && stats.alloc_slab == 0);
	kmem_cache_shrink(s);
	for (int i = 0; i < 1000; i++)
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	stats = look(s);
	CHECK(!stats.counted || stats.alloc_fastpath + stats.alloc_slowpath == 1000);
	CHECK(!stats.counted || stats.free_fastpath + stats.free_slowpath == 1000);
}

static void child_counts_for_itself(void **state)
{
	struct kmem_cache_stats before, after;

	(void)state;
	/* COUNTERS-O2 */
	take(10);
	give(0, 5);
	take(5);
	/* held[5] ... held[9] are five of the first ten objects, taken twice from the sheaf. */
	before = look(s);
	assert_int_equal(before.objects_in_use, 10);
	assert_int_equal(in_child(in_the_child), 0);
	after = look(s);
	assert_memory_equal(&before, &after, sizeof(before));
	give(0, 10);
	check_sums(s, 0);
}

struct worker {
	pthread_t thread;
	uint64_t allocs, frees;
};

static void work_bulk(struct worker *worker)
{
	void *bulk[70];

	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 70, bulk) == 70);
	kmem_cache_free_bulk(s, 70, bulk);
	worker->allocs += 70;
	worker->frees += 70;
}

static void *work(void *data)
{
	struct worker *worker = data;
	uint64_t seed = (uintptr_t)data | 1;
	void *p[HELD] = {NULL};

	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int at = random_below(&seed, HELD);

		if (p[at])
			p[at] = (kmem_cache_free(s, p[at]), worker->frees++, NULL);
		else
			p[at] = (worker->allocs++, kmem_cache_alloc(s, GFP_KERNEL));
		if (i % 200 == 0)
			work_bulk(worker);
	}
	for (unsigned int i = 0; i < HELD; i++)
		if (p[i])
			p[i] = (kmem_cache_free(s, p[i]), worker->frees++, NULL);
	return NULL;
}

static void nothing_is_lost_in_a_storm(void **state)
{
	struct worker workers[THREADS] = {{0}};
	struct kmem_cache_stats stats;
	uint64_t allocs = 0, frees = 0;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (int i = 0; i < 20; i++) {
		kmem_cache_shrink(s);
		look(s);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	check_sums(s, 0);
	for (int i = 0; i < THREADS; i++) {
		allocs += workers[i].allocs;
		frees += workers[i].frees;
	}
	stats = look(s);
	if (!stats.counted)
		return;
	assert_int_equal(stats.alloc_fastpath + stats.alloc_slowpath, allocs);
	assert_int_equal(stats.free_fastpath + stats.free_slowpath, frees);
}

#define WITH_SHEAVES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define WITHOUT_SHEAVES(test)                                                                      \
	cmocka_unit_test_setup_teardown(test, set_up_without_sheaves, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SHEAVES(first_allocation_refills),
		WITH_SHEAVES(sheaf_serves_the_fast_path),
		WITH_SHEAVES(sheaves_go_through_the_barn),
		WITH_SHEAVES(full_barn_flushes),
		WITH_SHEAVES(barn_is_limited_from_the_beginning),
		WITH_SHEAVES(shrink_flushes_and_frees),
		WITHOUT_SHEAVES(slabs_serve_a_cache_without_sheaves),
		WITHOUT_SHEAVES(node_gives_empty_slabs_back),
		cmocka_unit_test(settings_have_the_kernels_names),
		WITHOUT_SHEAVES(node_keeps_as_many_as_the_program_says),
		WITHOUT_SHEAVES(node_request_is_a_mismatch),
		WITH_SHEAVES(child_counts_for_itself),
		WITH_SHEAVES(nothing_is_lost_in_a_storm),
	};

	clock_stands = true; /* or the sheaves of idle CPUs are emptied */
	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
